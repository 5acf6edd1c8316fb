"""`clawgauge route` as a user runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from clawgauge.records import RULE, Target
from support.command import clawgauge
from support.measured_models import CLAUDE, OLLAMA, Measured, MeasuredRun

QWEN = Measured(Target("ollama_openai", "qwen3:8b"), OLLAMA)
TINY = Measured(Target("ollama_openai", "tiny"), OLLAMA, text_passes=1, tool_passes=2)
OPUS = Measured(
    Target("claude_code_cli", "opus"), CLAUDE, model_reported="claude-opus-5", cost_usd=0.02
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    MeasuredRun([QWEN, TINY, OPUS]).write(tmp_path / "runs")
    return tmp_path


def test_the_patch_is_all_there_is_on_stdout(runs: Path) -> None:
    """A script can pipe it: JSON on stdout, the table of every model on stderr, the reasons in the run folder."""
    done = clawgauge(runs, "route", "measured")
    patch = json.loads(done.stdout)
    assert done.code == 0
    assert patch["agents"]["defaults"]["model"]["primary"] == "ollama/qwen3:8b"
    assert "wanted at least 50%" in done.stderr
    reasons = (runs / "runs/measured/routing_openclaw.md").read_text()
    assert "Tier 1 (decided), tools 20/20 (text)" in reasons
    assert "run measured" in reasons


def test_the_answer_for_every_job_stands_before_the_table(runs: Path) -> None:
    """In the words of `show`; then every model, the best first, and whoever a limit removed behind the last place."""
    done, shown = clawgauge(runs, "route", "measured"), clawgauge(runs, "show", "measured")
    answer = shown.stdout.partition("which model for which job\n")[2].partition("\n\n")[0]
    assert answer and f"which model for which job\n{answer}\n" in done.stderr
    table = done.stderr.partition("measured against the policy\n")[2].splitlines()[1:]
    rows = [
        line.split()[:2] for line in table if line.startswith("  ") and "removed by" not in line
    ]
    assert rows == [
        ["1", "ollama_openai:qwen3:8b"],
        ["2", "claude_code_cli:opus"],
        ["–", "ollama_openai:tiny"],
    ]
    facts = json.loads(clawgauge(runs, "route", "measured", "--json").stdout)
    assert [job["job"] for job in facts["jobs"]][:2] == ["main agent", "subagent with full tools"]


def test_a_dry_run_shows_a_diff_and_changes_nothing(runs: Path) -> None:
    """What --write would do, on a file with comments, which stays as it is."""
    config = runs / "openclaw.json"
    before = "{ // mine\n  agents: { defaults: { model: 'openai/gpt-5.2' } } }"
    config.write_text(before)
    done = clawgauge(runs, "route", "measured", "--config", "openclaw.json", "--dry-run")
    assert done.code == 0
    assert '-      "model": "openai/gpt-5.2"' in done.stdout
    assert '+        "primary": "ollama/qwen3:8b"' in done.stdout
    assert config.read_text() == before


def test_writing_keeps_a_backup_and_a_second_time_changes_nothing(runs: Path) -> None:
    """The file is patched, what was there is beside it, and writing again finds nothing to do."""
    config = runs / "openclaw.json"
    config.write_text('{"agents": {"defaults": {"workspace": "~/w"}}}')
    done = clawgauge(runs, "route", "measured", "--config", "openclaw.json", "--write")
    assert done.code == 0
    written = json.loads(config.read_text())
    assert written["agents"]["defaults"]["workspace"] == "~/w"
    assert written["tools"]["byProvider"]["ollama/tiny"]["deny"] == ["*"]
    assert json.loads((runs / "openclaw.json.bak").read_text()) == {
        "agents": {"defaults": {"workspace": "~/w"}}
    }
    again = clawgauge(runs, "route", "measured", "--config", "openclaw.json", "--write")
    assert "already" in again.stderr
    assert not (runs / "openclaw.json.bak.1").exists()


def test_a_file_that_is_not_there_is_made(runs: Path) -> None:
    """Nothing to back up, nothing lost; only the user can read it."""
    done = clawgauge(runs, "route", "measured", "--config", "openclaw.json", "--write")
    assert done.code == 0
    assert (runs / "openclaw.json").stat().st_mode & 0o777 == 0o600


def test_litellm_gets_yaml(runs: Path) -> None:
    """Models with timeouts from the measured tail, best first, and who takes over from whom."""
    done = clawgauge(runs, "route", "measured", "--for", "litellm")
    config = yaml.safe_load(done.stdout)
    assert config["model_list"][0]["litellm_params"]["model"] == "openai/qwen3:8b"
    assert config["model_list"][0]["litellm_params"]["timeout"] == 5
    assert "cannot reach" in done.stderr


def test_a_chain_is_forecast_without_a_call(runs: Path) -> None:
    """Pass rate, times, cost and shares, each with its n, and the best chain under the policy beside it."""
    done = clawgauge(runs, "route", "measured", "--simulate", "tiny>opus")
    assert done.code == 0
    assert "10% · 3/30 · " in done.stdout
    assert "the best under the policy" in done.stdout
    facts = json.loads(
        clawgauge(runs, "route", "measured", "--simulate", "tiny>opus", "--json").stdout
    )
    assert facts["asked"]["answered_by"] == [30, 0]
    assert facts["best"]["n_cells"] == 30


def test_in_a_tie_what_is_in_use_stays(tmp_path: Path) -> None:
    """29 of 30 against 30 of 30 is a tie, said in words and in JSON; no key of the file in use is shown."""
    secret = "sk-" + "Zq7" * 12
    MeasuredRun(
        [QWEN, replace(QWEN, target=Target("ollama_openai", "other"), text_passes=9)]
    ).write(tmp_path / "runs")
    used = {
        "agents": {"defaults": {"model": "ollama/other:latest"}},
        "channels": {"telegram": {"botToken": secret}},
    }
    (tmp_path / "used.json").write_text(json.dumps(used))
    free, held = (
        clawgauge(tmp_path, "route", "measured", *words)
        for words in ((), ("--current", "used.json"))
    )
    assert json.loads(free.stdout)["agents"]["defaults"]["model"]["primary"] == "ollama/qwen3:8b"
    assert (
        json.loads(held.stdout)["agents"]["defaults"]["model"]["primary"] == "ollama/other:latest"
    )
    assert "note: a tie:" in free.stderr and "other stays: it is in use" in held.stderr
    facts = json.loads(
        clawgauge(tmp_path, "route", "measured", "--current", "used.json", "--json").stdout
    )
    assert (
        facts["tied"] == ["ollama_openai:other", "ollama_openai:qwen3:8b"]
        and facts["in_use"] == facts["tied"][:1]
    )
    assert sum(model["best_share"] for model in facts["models"]) == pytest.approx(1)
    written = "".join(
        path.read_text() for path in (tmp_path / "runs/measured").iterdir() if path.is_file()
    )
    assert secret not in free.stdout + held.stdout + held.stderr + written


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"agents": {"defaults": {"model": "hush-hush/me"}}, "x": }', None]
)
def test_a_file_in_use_that_cannot_be_read_is_refused(runs: Path, text: str | None) -> None:
    """Exit code 2 and one sentence that repeats nothing of it."""
    if text is not None:
        (runs / "used.json").write_text(text)
    done = clawgauge(runs, "route", "measured", "--current", "used.json")
    assert done.code == 2 and "used.json" in done.stderr and done.stdout == ""
    assert "Traceback" not in done.stderr and "hush-hush" not in done.stderr


def test_a_run_folder_with_an_address_that_is_none_is_routed_from(tmp_path: Path) -> None:
    """A folder may be anyone's: what stands for an address there stops nothing; a file in use without end is told."""
    for number, kind in enumerate(("ollama_openai", "openai_responses")):
        odd = {"type": kind, "base_url": "http://[bad/v1"}
        MeasuredRun([Measured(Target("odd", "m"), odd)], run_id=f"r{number}").write(
            tmp_path / "runs"
        )
        for levels, code, said in (
            (100, 0, ""),
            (700, 2, "used.json is nested more than 100 levels deep\n"),
        ):
            (tmp_path / "used.json").write_text('{"a":' * levels + "1" + "}" * levels)
            done = clawgauge(tmp_path, "route", f"r{number}", "--current", "used.json")
            assert (
                done.code == code and done.stderr.endswith(said) and "Traceback" not in done.stderr
            )


def test_a_model_in_use_that_nobody_measured_is_told_without_its_name(runs: Path) -> None:
    """What stands in the file may be anything."""
    (runs / "used.json").write_text('{"agents": {"defaults": {"model": "hush-hush/me"}}}')
    done = clawgauge(runs, "route", "measured", "--current", "used.json")
    assert (
        done.code == 0 and "no model that the file of --current names was measured" in done.stderr
    )
    assert "hush-hush" not in done.stdout + done.stderr


def test_a_diff_shows_no_key(runs: Path) -> None:
    """A provider's key beside what is changed is masked on the screen."""
    provider = {"baseUrl": "http://localhost:11434/v1", "apiKey": "hunter2hunter2", "models": []}
    (runs / "openclaw.json").write_text(json.dumps({"models": {"providers": {"ollama": provider}}}))
    done = clawgauge(runs, "route", "measured", "--config", "openclaw.json", "--dry-run")
    assert (
        done.code == 0 and "qwen3:8b" in done.stdout and "hunter2" not in done.stdout + done.stderr
    )


def test_a_policy_of_ones_own_decides(runs: Path) -> None:
    """Local models only, by the user's own file."""
    (runs / "policy.toml").write_text("[limits]\nlocal_only = true\n")
    facts = json.loads(
        clawgauge(runs, "route", "measured", "--policy", "policy.toml", "--json").stdout
    )
    removed = {model["model"]: model["removed_by"] for model in facts["models"]}
    assert removed["claude_code_cli:opus"] == ["not local"]
    assert removed["ollama_openai:qwen3:8b"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dry-run"], "--config"),
        (["--write", "--for", "litellm", "--config", "x.json"], "-o"),
        (["--write", "--dry-run", "--config", "x.json"], "one of them"),
        (["--simulate", "nobody"], "fits no model"),
        (["--policy", "missing.toml"], "missing.toml"),
        (["--prices", "missing.toml"], "missing.toml"),
    ],
)
def test_a_wrong_request_is_refused_with_a_way_out(runs: Path, words: list[str], said: str) -> None:
    """Exit code 2 and one sentence."""
    done = clawgauge(runs, "route", "measured", *words)
    assert done.code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_lines_that_cannot_be_read_are_said(runs: Path) -> None:
    """The routing stands on the rest, and the exit code says that something is missing."""
    with (runs / "runs/measured/results.jsonl").open("a") as file:
        file.write("{ not json\n")
    done = clawgauge(runs, "route", "measured")
    assert done.code == 5
    assert "1 line of results.jsonl" in done.stderr


def test_a_model_that_is_down_takes_no_first_place(tmp_path: Path) -> None:
    """A model that answered a fifth of its calls is removed, whatever it answered."""
    MeasuredRun([replace(QWEN, failed_calls=24), OPUS]).write(tmp_path / "runs")
    done = clawgauge(tmp_path, "route", "measured")
    assert (
        json.loads(done.stdout)["agents"]["defaults"]["model"]["primary"]
        == "anthropic/claude-opus-5"
    )
    assert "answered 20% of 30, wanted at least 80%" in done.stderr


def test_a_dry_run_writes_nothing_at_all(runs: Path) -> None:
    """Neither the file nor the reasons."""
    before = sorted(path.name for path in (runs / "runs/measured").iterdir())
    clawgauge(runs, "route", "measured", "--config", "openclaw.json", "--dry-run")
    assert sorted(path.name for path in (runs / "runs/measured").iterdir()) == before
    assert not (runs / "openclaw.json").exists()


@pytest.mark.parametrize("words", [["--config", "x.json"], ["--simulate", "opus", "-o", "x"]])
def test_options_that_would_do_nothing_are_refused(runs: Path, words: list[str]) -> None:
    """Nobody waits for a file that is not written."""
    done = clawgauge(runs, "route", "measured", *words)
    assert done.code == 2
    assert not (runs / "x").exists()


def test_prices_of_the_configuration_file_hold_for_routes_too(runs: Path) -> None:
    """`[run] prices` is one table for measuring and for deciding."""
    (runs / "mine.toml").write_text(
        '[[price]]\nprovider = "ollama_openai"\nmodel = "qwen3:8b"\ninput = 1\noutput = 1\n'
    )
    (runs / "clawgauge.toml").write_text('[run]\nprices = "mine.toml"\n')
    assert "$0.0011" in clawgauge(runs, "route", "measured").stderr


def test_who_is_behind_by_more_than_luck_is_said_with_its_p(tmp_path: Path) -> None:
    """Seven of forty tasks less, all else alike: on the screen, in JSON, and in the file of reasons."""
    good = replace(QWEN, target=Target("ollama_openai", "good"), tool_passes=30, e2e_ms=2_900)
    other = replace(good, target=Target("ollama_openai", "other"), task_passes=33)
    run = MeasuredRun([other, good], n_tool=30, for_subagents=True, n_beside=40, rule=RULE)
    run.write(tmp_path / "runs")
    done = clawgauge(tmp_path, "route", "measured")
    assert "behind (p 0.033)" in done.stderr and "a tie" not in done.stderr.partition("place")[2]
    assert "is behind by more than luck (p 0.0" in " ".join(done.stderr.split())
    facts = json.loads(clawgauge(tmp_path, "route", "measured", "--json").stdout)
    first, second = facts["models"]
    assert (first["model"], first["behind_p"]) == ("ollama_openai:good", None)
    assert second["behind_p"] == pytest.approx(0.033, abs=0.001)
    assert first["best_share"] is None and second["best_share"] is None
    assert facts["tied"] == []
    assert "behind (p 0.033)" in (tmp_path / "runs/measured/routing_openclaw.md").read_text()
