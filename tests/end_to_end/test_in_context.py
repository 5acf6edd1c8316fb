"""`run --in-context`: the same prompts bare and inside the user's own, paired, private, and sent only with a yes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from faults.terminal import on_a_terminal
from support.command import Outcome, clawgauge, read_records
from support.replies import Reply
from support.rows import every_row
from support.scripted_server import ReceivedRequest, ScriptedServer, Text

MARK = "You are Ana's agent."
OWN = [
    {"type": "function", "function": {"name": name, "description": f"{name} of Ana's"}}
    for name in ("Look", "canvas")
]
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
}
CALLS = [
    {
        "id": f"C{n}",
        "name": f"look_{n}",
        "prompt": f"Look at /srv/{n}.",
        "tools": [LOOK],
        "validator": {
            "type": "tool_call",
            "expected_calls": [{"name": "look", "arguments": {"path": [f"/srv/{n}"]}}],
        },
    }
    for n in range(10)
]
REST = [
    {
        "id": f"R{n}",
        "name": f"leave_{n}",
        "system": "Be brief.",
        "prompt": f"Thanks, that was number {n}.",
        "tools": [LOOK],
        "validator": {"type": "tool_call", "no_call": True},
    }
    for n in range(2)
]
PLAIN = {
    "id": "P0",
    "name": "plain",
    "prompt": "Say yes.",
    "validator": {"type": "exact", "value": "yes"},
}


def forgets_in_context(request: ReceivedRequest) -> Reply:
    """Calls rightly in a bare prompt, and only talks where the captured one stands before it."""
    messages: Any = request.json["messages"]
    asked = messages[-1]["content"]
    if asked.startswith("Say"):
        return Text("yes")
    if MARK in messages[0]["content"] or asked.startswith("Thanks"):
        return Text("You are welcome.", usage=(9_000, 4))
    return Text(
        "",
        tool_calls=[("look", json.dumps({"path": asked.split()[-1].rstrip(".")}))],
        usage=(900, 9),
    )


@pytest.fixture
def own(place: Path, server: ScriptedServer) -> Path:
    """A captured context, a suite that offers tools, and a keyless server on loopback."""
    server.reply_with(forgets_in_context)
    context = {
        "version": 1,
        "agent": "main",
        "captured_at": "2026-11-16T08:00:00Z",
        "openclaw": "2026.9.6",
    }
    (place / "own.json").write_text(
        json.dumps({**context, "system": f"{MARK} " + "Rule. " * 1_000, "tools": OWN})
    )
    (place / "s.json").write_text(json.dumps({"name": "s", "prompts": [PLAIN, *CALLS, *REST]}))
    table = f'[providers.here]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\nlocal = true\n'
    keyed = table.replace("here", "keyed") + 'api_key_env = "K"\n'
    (place / "c.toml").write_text(f"{table}\n{keyed}")
    return place


def run(place: Path, *words: str, target: str = "here:m") -> Outcome:
    asked = ("run", "-t", target, "-s", "s.json", "--config", "c.toml", "--in-context", "own.json")
    return clawgauge(place, *asked, *words, env={"K": "value-of-a-key-1"})


def test_what_the_context_costs_is_told_beside_a_tier_of_the_bare_prompts(
    own: Path, server: ScriptedServer
) -> None:
    """Ten calls right bare and none in context: that is the first thing told, and the tier is not moved by it."""
    done = run(own, "--fail-under", "0.9", "-v")
    assert done.code == 0, done.stderr
    bodies: list[Any] = [request.json for request in server.calls]
    assert len(bodies) == 13 + 12 and not any(MARK in json.dumps(body) for body in bodies[:13])
    first, last = bodies[13], bodies[-1]
    assert (
        first["messages"][0]["content"].startswith(MARK)
        and first["messages"][1]["content"] == "Look at /srv/0."
    )
    assert last["messages"][0]["content"].startswith(MARK) and last["messages"][0][
        "content"
    ].endswith("\n\nBe brief.")
    # The prompt's own tool stands in the place of the one of the same name.
    assert [tool["function"]["name"] for tool in first["tools"]] == ["canvas", "look"]
    (group,) = done.summary()["models"]
    found = {each["what"]: each for each in group["in_context"]}
    calls, restraint = found["calls"], found["restraint"]
    assert (calls["n"], calls["bare"], calls["in_context"]) == (10, 1.0, 0.0)
    assert calls["ci95"][1] < 0 and calls["p"] == pytest.approx(2 * 2 / 2**10)
    assert (restraint["bare"], restraint["in_context"], restraint["p"]) == (1.0, 1.0, 1.0)
    assert found["first_token"]["n"] == 12
    use = group["tool_use"]
    assert (use["k"], use["n"], use["tier"]) == (10, 10, 1) and group["restraint"]["n"] == 2
    assert group["n_total"] == 25 and group["ttft_ms"]["n"] == 13
    assert [suite["suite"] for suite in group["suites"]] == ["s", "s+context"]
    assert (
        re.search(r"right calls +100% +0% +−100 points", done.stderr)
        and "100% 13/13" in done.stderr
    )
    size = f"{len(MARK) + 1 + 6 * 1_000} characters, 2 tools"
    assert f"asked in own.json ({size})" in done.stderr
    # One rule for what passed, in every place.
    written = (done.folder / "summary.md").read_text("utf-8")
    assert (
        "In your own context" in written
        and "100% · 13/13" in written
        and "100% · 13/13" in done.stderr
    )
    assert " 15/25" not in written + done.stderr
    # What the prompts share is kept once for each of the two suite texts.
    assert (done.folder / "config.json").read_text("utf-8").count(MARK) == 2


def test_such_a_run_and_what_is_made_of_it_is_for_its_user_alone(own: Path) -> None:
    """Folder, files, report and export are readable by nobody else, say so, and the report has not got the prompt."""
    done = run(own)
    for words in (("report", "-o", "r.html"), ("export", "-o", "e.csv")):
        assert clawgauge(own, *words).code == 0
    made = [done.folder, *done.folder.iterdir(), own / "r.html", own / "e.csv"]
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in made} == {
        path.name: "0o0" for path in made
    }
    assert "readable by you alone" in " ".join(done.stderr.split())
    page = (own / "r.html").read_text("utf-8")
    assert (
        "for your eyes alone" in page
        and "What does your own prompt cost?" in page
        and MARK not in page
    )


def test_a_run_in_context_goes_on_without_its_file(own: Path, server: ScriptedServer) -> None:
    """The folder holds what was asked: the rest of the pairs is asked as it was begun."""
    begun = run(own, "--max-calls", "15", "--repeats", "1")
    (own / "own.json").unlink()
    words = ("run", "--resume", begun.folder.name, "--config", "c.toml", "--max-calls", "40")
    done = clawgauge(own, *words, env={"K": "value-of-a-key-1"})
    assert done.code == 0, done.stderr
    assert len(read_records(done.folder)) == len(server.calls) == 25
    (group,) = done.summary()["models"]
    assert {each["what"]: each["n"] for each in group["in_context"]}["calls"] == 10
    refused = clawgauge(own, *words, "--in-context", "own.json")
    assert refused.code == 2 and "--resume goes without" in refused.stderr


def test_what_is_the_users_own_leaves_only_with_a_yes(own: Path, server: ScriptedServer) -> None:
    """A target that takes a key may pass it on: --yes, or a yes on a terminal; else exit code 2, not a byte is sent."""
    refused = run(own, target="keyed:m")
    assert (
        refused.code == 2
        and "say --yes if it may" in refused.stderr
        and not (own / "runs").exists()
    )
    words = (
        "run",
        "-t",
        "keyed:m",
        "-s",
        "s.json",
        "--config",
        "c.toml",
        "--in-context",
        "own.json",
        "-q",
    )
    drawn = on_a_terminal(own, *words, env={"K": "value-of-a-key-1"}, typed=b"n\n")
    assert b"Send it? [y/N]" in drawn and b"nothing was sent" in drawn and not server.calls
    assert run(own, "--dry-run", target="keyed:m").code == 0
    assert run(own, "--yes", target="keyed:m").code == 0 and len(server.calls) == 25


@pytest.mark.slow
def test_history_asks_nobody_to_fill_what_was_asked_in_a_context(own: Path) -> None:
    """Another model that was asked the bare prompts lacks nothing that a plain run could bring."""
    run(own)
    words = ("run", "-t", "here:other", "-s", "s.json", "--config", "c.toml")
    assert clawgauge(own, *words).code == 0
    told = clawgauge(own, "history", "--fill").stdout
    assert "all prompts: here:other and here:m" in told and "nothing is missing" in told, told


def test_a_context_beyond_a_known_window_is_not_sent(own: Path, server: ScriptedServer) -> None:
    (own / "c.toml").write_text(
        (own / "c.toml").read_text().replace("local = true\n", "local = true\ncontext = 1024\n", 1)
    )
    done = run(own)
    assert (
        done.code == 0
        and "12 prompts left out: longer than the model's window of 1024 tokens" in done.stderr
    )
    assert len(server.calls) == 13
    (group,) = done.summary()["models"]
    assert group["in_context"] == [] and group["n_scheduled"] == 13 and group["tool_use"]["n"] == 10


@every_row(
    "content, words, sentence",
    [
        ("[]", (), "no captured context"),
        ('{"version": 2, "system": "x", "tools": []}', (), "no captured context"),
        ('{"version": 1, "system": "x", "tools": [{"type": "function"}]}', (), "tools[0]"),
        ('{"version": 1, "system": "value-of-a-key-1", "tools": []}', (), "holds the value of K"),
        (
            '{"version": 1, "system": "x", "tools": []}',
            ("--prompt-ids", "P0"),
            "for prompts that offer tools",
        ),
        ('{"version": 1, "system": "x", "tools": []}', ("--until-decided",), "use one of them"),
    ],
)
def test_a_context_that_cannot_be_asked_in_is_refused(
    own: Path, server: ScriptedServer, content: str, words: tuple[str, ...], sentence: str
) -> None:
    (own / "own.json").write_text(content)
    done = run(own, *words)
    assert done.code == 2 and sentence in done.stderr and not server.calls, done.stderr


@pytest.mark.slow
def test_without_a_suite_some_prompts_of_the_three_tool_suites_are_asked_twice(own: Path) -> None:
    asked = (
        "run",
        "-t",
        "here:m",
        "--config",
        "c.toml",
        "--in-context",
        "own.json",
        "--dry-run",
        "--json",
    )
    planned = json.loads(clawgauge(own, *asked).stdout)
    assert (
        planned["suites"] == ["native_tools", "restraint", "agentic"]
        and planned["prompts"] == 2 * 46
    )
