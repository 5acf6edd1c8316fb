"""`clawgauge capture openclaw`, with a program in the place of OpenClaw that asks its model as the real one does."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path

import psutil
import pytest

from clawgauge.cli.capture import capture_openclaw
from clawgauge.errors import ConfigError
from clawgauge.suites.context import load_context
from support.command import Outcome, clawgauge
from support.fake_openclaw import FakeOpenClaw, install_fake_openclaw
from support.rows import every_row
from support.waiting import wait_until

KEY = "sk-live-abcdefgh12345678"
BOT = "123456789:AAF3abcdefghijklmnopqrstuvwxyz01234"
CONFIG = """\
{
  // as people write it
  "$include": "more.json5",
  gateway: { auth: { token: "gateway-token-12345678" } },
  hooks: { enabled: true },
  mcp: { servers: { own: { command: "/bin/false" } } },
  agents: {
    defaults: { model: "openai/gpt-5.5", sandbox: { mode: "all" } },
    list: [{ id: "main", agentDir: "/somewhere", workspace: "WORKSPACE" }, { id: "work" }],
  },
  channels: { telegram: { botToken: "BOT", name: "${SOME_NAME}" } },
}
"""


def home_of(place: Path) -> Path:
    """A user's OpenClaw: its configuration in two files, its history, a workspace with a link that leads out of it."""
    home = place / "home"
    state, workspace = home / ".openclaw", home / "clawd"
    (workspace / "skills" / "tea").mkdir(parents=True)
    state.mkdir()
    text = CONFIG.replace("WORKSPACE", str(workspace)).replace("BOT", BOT)
    (state / "openclaw.json").write_text(text)
    (state / "more.json5").write_text("{ tools: { profile: 'coding' }, env: { vars: { A: 'b' } } }")
    (state / "history.jsonl").write_text("what was said\n")
    (workspace / "AGENTS.md").write_text(f"Be kind to Ana. Her key is {KEY}, her bot {BOT}.")
    (workspace / "skills" / "tea" / "SKILL.md").write_text("how to make tea")
    (workspace / "photo.jpg").write_bytes(b"\0" * 100)
    (place / "outside.md").write_text("not for a prompt")
    (workspace / "LINK.md").symlink_to(place / "outside.md")
    return home


def digest(folder: Path) -> dict[str, str]:
    """Every file under a folder by its content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def capture(place: Path, fake: FakeOpenClaw, *words: str) -> Outcome:
    env = {
        "PATH": f"{fake.bin_dir}:{os.environ['PATH']}",
        "HOME": str(place / "home"),
        "OPENAI_API_KEY": KEY,
    }
    return clawgauge(place, "capture", "openclaw", *words, env=env)


def test_the_prompt_is_kept_whole_and_nothing_of_the_users_is_touched(tmp_path: Path) -> None:
    """System prompt and tools as OpenClaw sent them, under the user's own paths; no secret is copied or kept."""
    home, fake = home_of(tmp_path), install_fake_openclaw(tmp_path / "bin")
    before = digest(home)
    done = capture(tmp_path, fake, "-o", "mine.json")
    assert (done.code, done.stdout) == (0, "mine.json\n"), done.stderr
    assert (
        done.stderr.startswith("OpenClaw 2026.9.6: ")
        and "2 tools, readable by you alone" in done.stderr
    )
    assert digest(home) == before
    kept = tmp_path / "mine.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (
        kept.read_text()
        .splitlines()[1]
        .startswith(' "about": "The system prompt and the tools of your own agent')
    )
    context = load_context(kept)
    assert (context.system or "").startswith(
        f"You are an agent.\nWorking directory: {home / 'clawd'}\nBe kind to Ana."
    )
    assert [tool["function"]["name"] for tool in context.tools] == ["exec", "canvas"]
    seen = fake.seen()
    assert seen["argv"][:3] == ["agent", "--local", "--json"] and seen["argv"][-1] == "mine/capture"
    assert seen["files"].keys() == {"AGENTS.md", "skills/tea/SKILL.md"}
    config = seen["config"]
    assert (
        config["tools"] == {"profile": "coding"}
        and config["channels"]["telegram"]["name"] != "${SOME_NAME}"
    )
    assert not {"gateway", "hooks", "env", "mcp"} & config.keys()
    (main, work), shared = config["agents"]["list"], config["agents"]["defaults"]
    assert (
        shared["model"] == {"primary": "mine/capture"}
        and "sandbox" not in shared
        and "agentDir" not in main
    )
    assert main["workspace"] == shared["workspace"] != work["workspace"]
    assert all(str(home) not in value for value in seen["env"].values())
    for text in (kept.read_text(), json.dumps(config), json.dumps(seen["env"])):
        assert not any(secret in text for secret in (KEY, BOT, "gateway-token"))
    assert not Path(shared["workspace"]).exists()


@pytest.mark.slow
def test_every_tool_and_another_agent_can_be_asked_for(tmp_path: Path) -> None:
    """An agent without a workspace of its own has the usual folder; a file that was readable by all is not any more."""
    home, fake = home_of(tmp_path), install_fake_openclaw(tmp_path / "bin")
    (home / ".openclaw" / "workspace-work").mkdir()
    (home / ".openclaw" / "workspace-work" / "AGENTS.md").write_text("You work.")
    (tmp_path / "openclaw-context.json").write_text("old")
    done = capture(tmp_path, fake, "--agent", "work", "--all-tools", "--window", "65536")
    assert done.code == 0, done.stderr
    context = load_context(tmp_path / "openclaw-context.json")
    assert "You work." in (context.system or "") and len(context.tools) == 3
    assert (tmp_path / "openclaw-context.json").stat().st_mode & 0o777 == 0o600
    (model,) = fake.seen()["config"]["models"]["providers"]["mine"]["models"]
    assert model["contextWindow"] == 65536


@every_row(
    "does, words, sentence",
    [
        ("fails", (), "OpenClaw ended with code 1: Config invalid: key ***"),
        ("says nothing", (), "OpenClaw did not ask its model"),
        ("asks twice", (), "OpenClaw asked twice, so nobody can tell which prompt is the agent's"),
        ("", ("--config", "../out.json"), "$include '../outside.md' leaves its folder"),
        ("", ("--config", "none.json"), "cannot read none.json: no such file"),
        ("", ("-o", "mine.txt"), "-o names a file that ends in .json"),
        ("", ("--agent", "main --deliver"), "--agent an agent by its id"),
        ("", ("-o", "no/such/folder.json"), "Cannot write no/such/folder.json"),
        ("", ("--timeout", "nan"), "--timeout goes up to 86400 s"),
        ("", ("--window", "-5"), "--window to 16777216 tokens"),
    ],
)
def test_what_goes_wrong_is_one_sentence(
    tmp_path: Path, does: str, words: tuple[str, ...], sentence: str
) -> None:
    """Exit code 2, one line, no key in it, and no file."""
    home_of(tmp_path)
    (tmp_path.parent / "out.json").write_text('{"$include": "../outside.md"}')
    done = capture(tmp_path, install_fake_openclaw(tmp_path / "bin", does, KEY), *words)
    assert done.code == 2 and done.stderr.count("\n") == 1 and sentence in done.stderr, done.stderr
    assert KEY not in done.stderr and done.stdout == "" and not list(tmp_path.glob("*.json"))


def test_without_openclaw_it_is_said(tmp_path: Path) -> None:
    done = clawgauge(tmp_path, "capture", "openclaw")
    assert (
        done.code == 2
        and "no `openclaw` is on PATH" in done.stderr
        and done.stderr.count("\n") == 1
    )


@pytest.mark.slow
def test_an_openclaw_that_hangs_is_gone_with_its_children(tmp_path: Path) -> None:
    home_of(tmp_path)
    fake = install_fake_openclaw(tmp_path / "bin", "leaves a child and hangs")
    done = capture(tmp_path, fake, "--timeout", "5")
    assert done.code == 2 and "took over 5 s" in done.stderr and done.stderr.count("\n") == 1
    for pid in (fake.seen()["pid"], int(Path(f"{fake.seen_path}.child").read_text())):
        wait_until(
            lambda pid=pid: (
                not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
            )
        )


@every_row(
    "agents",
    [
        {"list": 7},
        {"list": [7]},
        {"entries": []},
        {"entries": {"main": 7}},
        {"defaults": "x"},
        {"defaults": {"workspace": 7}},
    ],
)
def test_settings_of_another_form_are_refused_without_a_traceback(
    tmp_path: Path, agents: object
) -> None:
    options = argparse.Namespace(config=tmp_path / "openclaw.json", agent="main")
    options.config.write_text(json.dumps({"agents": agents}))
    fake = install_fake_openclaw(tmp_path / "bin")
    with pytest.raises(ConfigError, match="is not written as OpenClaw has it"):
        capture_openclaw(options, {"PATH": str(fake.bin_dir), "HOME": str(tmp_path)})


def test_settings_that_grow_as_they_are_read_are_one_sentence(tmp_path: Path) -> None:
    """Files that each include the next ten times, a name that no file has, and more levels than can be followed."""
    home_of(tmp_path)
    for n in range(9):
        (tmp_path / f"{n}.json").write_text(json.dumps({"$include": [f"{n + 1}.json"] * 10}))
    (tmp_path / "9.json").write_text("{}")
    (tmp_path / "nul.json").write_text(json.dumps({"$include": "a\0b"}))
    (tmp_path / "deep.json").write_text('{"a":' * 900 + "1" + "}" * 900)
    for n in range(9):
        chained = '{"a":' * 50 + json.dumps({"$include": f"chain{n + 1}.json"}) + "}" * 50
        (tmp_path / f"chain{n or ''}.json").write_text(chained)
    (tmp_path / "chain9.json").write_text("{}")
    fake = install_fake_openclaw(tmp_path / "bin")
    for name, said in (
        ("0", "one of too many"),
        ("nul", "no such file"),
        ("deep", "100 levels deep"),
        ("chain", "100 levels deep"),
    ):
        done = capture(tmp_path, fake, "--config", f"{name}.json")
        assert done.code == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
