"""Whatever went wrong, the ending has it in one line, with a count, what to do, and a command that can be pasted."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clawgauge.records import Target
from clawgauge.summary.trust import find_hint
from support.command import Outcome, chat_config, clawgauge, clean_environment, read_records
from support.scripted_server import (
    Cut,
    Hang,
    Html200,
    Reset,
    ScriptedServer,
    Status,
    StreamError,
    Text,
)
from support.waiting import PATIENCE_S, growing_deadlines

SCHEMA_PAGE = Path(__file__).parents[2] / "docs" / "schema.md"


def paste(place: Path, command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Type a command into a shell, as a person would: `clawgauge` is a program on PATH, words are the shell's."""
    bin_dir = place / "a bin"
    bin_dir.mkdir(exist_ok=True)
    program = bin_dir / "clawgauge"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m clawgauge "$@"\n')
    program.chmod(0o755)
    path = f"{bin_dir}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", command], cwd=place, env=clean_environment(**env, PATH=path), capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip


def commands(done: Outcome) -> list[str]:
    """The refill command as the ending and as summary.md give it."""
    ending = re.search(r"not answered.* with:\n  (clawgauge .*)\n", done.stderr)
    page = re.search(
        r"To ask these again:\n\n    (clawgauge .*)\n", (done.folder / "summary.md").read_text()
    )
    assert ending and page
    return [ending.group(1), page.group(1)]


@pytest.mark.parametrize(
    ("runs_dir", "config"),
    [
        pytest.param(None, None, id="plain", marks=pytest.mark.slow),
        pytest.param("other runs", None, id="runs-dir", marks=pytest.mark.slow),
        pytest.param(None, "my config.toml", id="config", marks=pytest.mark.slow),
        pytest.param("a 'b' $c/d", "my 'config'.toml", id="both, with quotes"),
    ],
)
@pytest.mark.parametrize("which", [0, 1], ids=["the ending", "summary.md"])
def test_the_refill_command_can_be_pasted(
    place: Path, server: ScriptedServer, runs_dir: str | None, config: str | None, which: int
) -> None:
    """The command printed after a run with failures, pasted into a shell, asks exactly those cells again."""
    server.script(Text("yes"), Status(400), Text("yes"), Status(400))
    words = ["run", "-t", "fake:scripted-model", "-s", "small.json"]
    if runs_dir is not None:
        words += ["--runs-dir", runs_dir]
    if config is not None:
        (place / "clawgauge.toml").rename(place / config)
        words += ["--config", config]
    done = clawgauge(place, *words)
    assert "2 calls not answered" in done.stderr
    pasted = paste(place, commands(done)[which])
    assert pasted.returncode == 0, pasted.stderr
    assert {r["availability_status"] for r in read_records(done.folder)} == {"ok"}
    assert len(server.calls) == 6 and " with:\n  clawgauge" not in pasted.stderr


def test_every_failure_is_one_line(place: Path) -> None:
    """Each kind of failure of each target has one line in the ending and one row in summary.md: count, words, hint."""
    kinds = {
        "http_400": Status(400, message="line one\nline two\x1b[31m " + "long " * 400),
        "http_401": Status(401),
        "http_418": Status(418),
        "http_429": Status(429),
        "http_503": Status(503),
        "model_not_found": Status(
            404, json={"error": {"code": "model_not_found", "message": "no model"}}
        ),
        "stream_error": StreamError(500, after_text="so far"),
        "stream_interrupted": Cut(),
        "connection_reset": Reset(),
        "invalid_response": Html200(),
        "empty_response": Text(""),
        "timeout": Hang(),
    }
    with ScriptedServer(models=list(kinds)) as server:
        server.reply_with(lambda request: kinds[request.model])
        chat_config(place, fake=server.v1_url, gone="http://127.0.0.1:9/v1")
        targets = [word for model in kinds for word in ("-t", f"fake:{model}")]
        flags = ("-s", "small.json", "--max-retries", "0", "--concurrency", "4")
        for timeout_s in growing_deadlines(0.5):
            words = (*targets, "-t", "gone:connection_refused", *flags, "--timeout", f"{timeout_s}")
            done = clawgauge(place, "run", *words)
            if sum(record["failure_type"] == "timeout" for record in done.records()) == 4:
                break  # all but the one that hangs were answered before the deadline
    assert done.code == 0, done.stderr  # the empty answers were answers
    page = (done.folder / "summary.md").read_text().splitlines()
    asked = [record for record in done.records() if record["asked"]]
    for label, kind in [(f"fake:{kind}", kind) for kind in kinds] + [
        ("gone:connection_refused", "connection_refused")
    ]:
        # Some failures end a target: it is asked once.
        n = sum(f"{record['provider']}:{record['model']}" == label for record in asked)
        after = "" if n == 4 else f" ({4 - n} prompts not asked after it)"
        assert n == 4 or (
            n == 1 and kind in ("http_401", "model_not_found", "connection_refused")
        ), label
        (line,) = [
            line
            for line in done.stderr.splitlines()
            if line.startswith(f"  {label}: {n} × {kind}{after}")
        ]
        (row,) = [
            row
            for row in page
            if re.match(rf"\| {re.escape(label)} +\| [a-z_]+ +\| {kind} +\|", row)
        ]
        hint = line.rpartition(" → ")[2]
        assert hint and hint.split(":")[0] in row and re.search(rf"\| +{n}/{n} \| +{4 - n} \|", row)
        assert len(line) < 500 and "\x1b" not in line
    n_failed = sum(record["availability_status"] != "ok" for record in asked)
    assert f"{n_failed} calls not answered, not all was asked; go on with:" in done.stderr


def test_every_documented_failure_has_a_hint() -> None:
    """Whatever failure type the schema page lists, a user is told what to do about it."""
    section = (
        SCHEMA_PAGE.read_text(encoding="utf-8")
        .partition("### Statuses and failure types")[2]
        .partition("\n## ")[0]
    )
    last_cells = [line.split("|")[-2] for line in section.splitlines() if line.startswith("| ")]
    types = {
        word.replace("<code>", "418")
        for cell in last_cells[1:]
        for word in re.findall(r"`([^`]+)`", cell)
    }
    assert {"http_401", "timeout", "runtime_missing", "exception", "http_418"} <= types
    for failure_type in sorted(types):
        assert find_hint(failure_type, Target("fake", "m"), {}), failure_type


@pytest.mark.parametrize("provider_type", ["anthropic_messages", "openai_responses"])
def test_a_hint_names_a_vendors_key_only_where_it_was_sent(provider_type: str) -> None:
    """A gateway of one's own gets no vendor's key, so that one is not to be checked."""
    target = Target("gateway", "m")
    own = find_hint("http_401", target, {"type": provider_type, "base_url": "http://gpu:4000"})
    vendors = find_hint("http_401", target, {"type": provider_type})
    assert own is not None and "the API key of gateway" in own
    assert vendors is not None and "_API_KEY" in vendors


def test_a_run_with_nothing_missing_asks_for_nothing(place: Path, server: ScriptedServer) -> None:
    """Where every call was answered, no refill command is shown."""
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "small.json")
    assert " with:\n  clawgauge" not in done.stderr and "not answered" not in done.stderr
    assert "Every recorded prompt was answered." in (done.folder / "summary.md").read_text()
