"""`clawgauge route --verify` and `--undo` as a user runs them, with an OpenClaw that does what a test says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command import Outcome, clawgauge
from support.fake_openclaw_turns import FakeOpenClaw, install_fake_openclaw
from support.measured_models import MeasuredRun
from unit.routing.sent_settings import native_ollama

ONE_MODEL = MeasuredRun([native_ollama()])
KEY = "sk-proj-0123456789abcdefghijklmnop"


def verify(
    folder: Path,
    *words: str,
    does: str = "",
    version: str = "2026.9.6",
    run: MeasuredRun = ONE_MODEL,
) -> tuple[Outcome, FakeOpenClaw]:
    if not (folder / "runs").exists():
        run.write(folder / "runs")
    fake = install_fake_openclaw(folder / "bin", does, version)
    done = clawgauge(folder, "route", "measured", *words, env={"PATH": str(fake.bin_dir)})
    return done, fake


def test_what_arrives_as_it_was_measured_is_said(tmp_path: Path) -> None:
    """Every setting by name; OpenClaw's own text and tools as sizes; exit code 0."""
    done, fake = verify(tmp_path, "--verify")
    assert done.code == 0, done.stderr
    assert done.stdout.splitlines() == [
        "  main  ollama/qwen3:8b@high  the same: think high, window 16,384, temperature 0, kept 30m (also sent: "
        "top_p 1 beside it; too long a prompt is an error there (truncate, shift), and was cut here)",
        "1 of 1 place sends what was measured or were not measured. Not compared: OpenClaw's own system text "
        "(1,500 characters) and 1 tools.",
    ]
    assert "asking OpenClaw 2026.9.6 what it would send; nothing leaves this machine" in done.stderr
    validated, asked = fake.seen()
    assert validated["argv"][:2] == ["config", "validate"]
    assert asked["argv"][:2] == ["agent", "exec"]


def test_openclaw_sees_a_copy_without_anything_that_reaches_out(tmp_path: Path) -> None:
    """Neither keys nor channels, hooks, plugins, MCP servers or the user's home; every model is asked of us."""
    config = {
        "channels": {"telegram": {"enabled": True, "botToken": "12345:token"}},
        "hooks": {"enabled": True},
        "plugins": {"entries": {"x": {"enabled": True}}},
        "mcp": {"servers": {"mine": {"command": "run"}}},
        "env": {"vars": {"OPENAI_API_KEY": KEY}},
        "agents": {"defaults": {"heartbeat": {"target": "last"}, "workspace": "/mine"}},
        "models": {
            "providers": {
                "gw": {
                    "baseUrl": "https://gw.example.com/v1",
                    "apiKey": KEY,
                    "api": "openai-completions",
                    "headers": {"x-key": KEY},
                    "models": [{"id": "m", "name": "${SECRET_NAME}"}],
                }
            }
        },
    }
    (tmp_path / "openclaw.json").write_text(json.dumps(config))
    done, fake = verify(tmp_path, "--verify", "--config", "openclaw.json")
    assert done.code == 0, done.stderr
    validated, asked = fake.seen()
    assert validated["env"]["SECRET_NAME"] == "verify", "it would be missed"
    copied = asked["config"]
    assert set(copied) == {"agents", "models", "tools"}
    assert KEY not in json.dumps(asked) and "SECRET_NAME" not in json.dumps(copied)
    assert copied["agents"]["defaults"]["heartbeat"]["target"] == "none"
    assert copied["agents"]["defaults"]["workspace"] != "/mine"
    for provider_id, provider in copied["models"]["providers"].items():
        address = provider["baseUrl"]
        assert address.startswith("http://127.0.0.1:")
        assert address.removesuffix("/v1").endswith(f"/{provider_id}")
    assert copied["models"]["providers"]["gw"]["apiKey"] == "verify"
    assert copied["models"]["providers"]["ollama"]["apiKey"] == "ollama-local"
    assert asked["mode"] == 0o600
    assert asked["env"]["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert asked["env"]["HOME"].startswith(
        asked["env"]["OPENCLAW_STATE_DIR"].removesuffix("/state")
    )
    assert not Path(asked["env"]["HOME"]).exists(), "nothing is left behind"
    assert json.loads((tmp_path / "openclaw.json").read_text()) == config, "it is only read"


def test_a_level_that_is_dropped_differs_and_stops_a_write(tmp_path: Path) -> None:
    """Exit code 1; nothing is written unless the user says so."""
    words = ("--verify", "--config", "openclaw.json", "--write")
    done, _ = verify(tmp_path, *words, does="drops the level")
    assert done.code == 1
    assert "differs: think high was measured, nothing would be sent" in done.stdout
    assert "nothing is written" in done.stderr and not (tmp_path / "openclaw.json").exists()
    done, _ = verify(tmp_path, *words, "--even-so", does="drops the level")
    assert done.code == 1
    assert (tmp_path / "openclaw.json").exists()


def test_a_level_in_the_file_that_beats_the_models_own_is_named(tmp_path: Path) -> None:
    """`agents.defaults.subagents.thinking` stays as the user wrote it, and is what would be sent."""
    subagents = {"model": "ollama/qwen3:8b", "thinking": "low"}
    config = {"agents": {"defaults": {"subagents": subagents}}}
    (tmp_path / "openclaw.json").write_text(json.dumps(config))
    done, _ = verify(tmp_path, "--verify", "--config", "openclaw.json")
    assert done.code == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  subagents")]
    differs = "differs: think high was measured, think low would be sent"
    assert f"{differs} (agents.defaults.subagents.thinking in the file)" in line
    assert "1 of 2 places send what was measured or were not measured; 1 differs." in done.stdout


@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        ("finds no key", 1, 'differs: no call was made: No API key found for provider ollama'),
        ("refuses the file", 2, "could not be told: OpenClaw does not take agents.defaults.model: unknown key"),
        ("cannot write", 2, "could not be told: Error: workspace is not writable"),
        ("says nothing", 2, "could not be told: OpenClaw ended without asking the model (exit code 3)"),
    ],
)  # fmt: skip
def test_why_no_request_came_is_said(tmp_path: Path, does: str, code: int, told: str) -> None:
    """No key is a difference: OpenClaw would make no call. Anything else could not be told."""
    done, _ = verify(tmp_path, "--verify", does=does)
    assert done.code == code, done.stdout
    assert told in done.stdout


def test_a_slow_openclaw_could_not_be_told_and_never_differs(tmp_path: Path) -> None:
    """Its time is over while it runs: exit code 2, and it is ended."""
    done, fake = verify(tmp_path, "--verify", "--verify-timeout", "3", does="hangs")
    assert done.code == 2
    assert "could not be told: OpenClaw took over" in done.stdout
    assert "differs" not in done.stdout
    assert not Path(fake.seen()[-1]["env"]["HOME"]).exists()


def test_without_openclaw_it_says_so(tmp_path: Path) -> None:
    ONE_MODEL.write(tmp_path / "runs")
    (tmp_path / "bin").mkdir()
    env = {"PATH": str(tmp_path / "bin")}
    done = clawgauge(tmp_path, "route", "measured", "--verify", env=env)
    assert done.code == 2
    assert "could not be told: no `openclaw` is on PATH" in done.stdout


def test_another_version_is_named(tmp_path: Path) -> None:
    done, _ = verify(tmp_path, "--verify", version="2031.1.1")
    assert done.code == 0
    start = "asking OpenClaw 2031.1.1 what it would send; nothing leaves this machine"
    assert f"{start} (tested with 2026.9.6" in done.stderr


def test_a_model_that_was_not_measured_is_not_asked(tmp_path: Path) -> None:
    config = {"agents": {"defaults": {"heartbeat": {"model": "openai/gpt-5-nano"}}}}
    (tmp_path / "openclaw.json").write_text(json.dumps(config))
    done, fake = verify(tmp_path, "--verify", "--config", "openclaw.json")
    assert done.code == 0
    assert "openai/gpt-5-nano     not measured" in done.stdout
    assert len(fake.seen()) == 2


def test_a_script_gets_every_difference(tmp_path: Path) -> None:
    done, _ = verify(tmp_path, "--verify", "--json", does="drops the level")
    facts: dict[str, Any] = json.loads(done.stdout)["verification"]
    assert done.code == facts["exit_code"] == 1
    (place,) = facts["places"]
    assert place["differences"] == [
        {"setting": "thinking", "measured": "think high", "would_send": "nothing"}
    ]


def test_doctor_says_with_which_openclaw_it_was_verified(tmp_path: Path) -> None:
    """And that another one is here now."""
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    ONE_MODEL.write(tmp_path / "runs")
    fake = install_fake_openclaw(tmp_path / "bin")
    env = {"PATH": str(fake.bin_dir), **state}
    before = clawgauge(tmp_path, "doctor", env=env).stdout
    assert "routing for OpenClaw 2026.9.6: not verified" in before
    assert clawgauge(tmp_path, "route", "measured", "--verify", env=env).code == 0
    assert (
        "ok routing: verified with OpenClaw 2026.9.6 at 20"
        in clawgauge(tmp_path, "doctor", env=env).stdout
    )
    install_fake_openclaw(tmp_path / "bin", version="2026.10.1")
    after = clawgauge(tmp_path, "doctor", env=env).stdout
    assert "OpenClaw 2026.10.1 is here now: verify it again" in after


def test_undo_puts_back_what_the_last_write_kept(tmp_path: Path) -> None:
    """Byte for byte; what was there until then is kept too, and a second undo goes one further back."""
    ONE_MODEL.write(tmp_path / "runs")
    config = tmp_path / "openclaw.json"
    first = "// mine\n{models: {mode: 'merge'}}\n"
    config.write_text(first)
    assert (
        clawgauge(tmp_path, "route", "measured", "--config", "openclaw.json", "--write").code == 0
    )
    routed = config.read_text()
    config.write_text("{}\n")
    assert (
        clawgauge(tmp_path, "route", "measured", "--config", "openclaw.json", "--write").code == 0
    )
    done = clawgauge(tmp_path, "route", "--undo", "--config", "openclaw.json")
    assert done.code == 0, done.stderr
    assert config.read_text() == "{}\n"
    assert (tmp_path / "openclaw.json.undone").exists()
    assert clawgauge(tmp_path, "route", "--undo", "--config", "openclaw.json").code == 0
    assert config.read_text() == first
    assert (tmp_path / "openclaw.json.undone.1").read_text() == "{}\n"
    nothing = clawgauge(tmp_path, "route", "--undo", "--config", "openclaw.json")
    assert nothing.code == 2 and "there is no backup" in nothing.stderr
    assert config.read_text() == first and routed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--undo",), "name the openclaw.json to put back"),
        (("--undo", "--write", "--config", "x.json"), "does nothing else"),
        (("--even-so",), "--even-so is for --write with --verify"),
        (("--verify", "--for", "litellm"), "--verify asks OpenClaw"),
        (("--verify", "--verify-timeout", "0"), "--verify-timeout is a number"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    ONE_MODEL.write(tmp_path / "runs")
    done = clawgauge(tmp_path, "route", "measured", *words)
    assert done.code == 2
    assert told in done.stderr


def test_an_odd_file_stays_as_it_is(tmp_path: Path) -> None:
    """One sentence, exit code 2, and not a byte of it changed."""
    ONE_MODEL.write(tmp_path / "runs")
    config = tmp_path / "openclaw.json"
    config.write_text('{"agents": ["mine"], "models": 7}')
    for mode in ("--dry-run", "--write", "--verify"):
        done = clawgauge(tmp_path, "route", "measured", "--config", "openclaw.json", mode)
        assert done.code == 2
        assert "where OpenClaw has an object: nothing was changed" in done.stderr
        assert config.read_text() == '{"agents": ["mine"], "models": 7}'


def test_which_api_of_ollama_is_routed_to_is_said(tmp_path: Path) -> None:
    """/v1 is never written without a word."""
    from unit.routing.sent_settings import OF_EACH_PROTOCOL

    MeasuredRun([OF_EACH_PROTOCOL["ollama_openai"]]).write(tmp_path / "runs")
    done = clawgauge(tmp_path, "route", "measured")
    assert "OpenClaw itself talks to Ollama's own API" in done.stderr
    assert "clawgauge run -t ollama:qwen3:4b" in done.stderr


def test_what_a_file_includes_is_verified_with_it(tmp_path: Path) -> None:
    """The patch is made without the other files, and a note says so; OpenClaw is asked about all of them."""
    (tmp_path / "agents.json5").write_text(
        "{defaults: {subagents: {model: 'ollama/qwen3:8b', thinking: 'low'}}}"
    )
    (tmp_path / "openclaw.json").write_text('{"agents": {"$include": "./agents.json5"}}')
    done, _ = verify(tmp_path, "--verify", "--config", "openclaw.json")
    assert done.code == 1
    assert "the file includes others" in done.stderr
    assert "think low would be sent (agents.defaults.subagents.thinking in the file)" in done.stdout
