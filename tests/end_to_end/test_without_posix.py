"""What needs no POSIX runs without it, and what needs it says so; names are such that every system takes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.errors import RunFolderError
from clawgauge.journal.names import check_run_id, resource_tag
from clawgauge.records import Target
from support.command import clean_environment, write_suite
from support.sample_runs import write_sample_run
from support.scripted_server import ScriptedServer, Text
from support.waiting import PATIENCE_S

TESTS = Path(__file__).parents[1]
READING = {
    "show a": "llama3.2:3b",
    "show a core/P0": "-- answer",
    "summarize a": "summary.md",
    "compare a b": "a",
    "export a --columns prompt_id": "prompt_id",
    "export a --format otlp": "resourceSpans",
    "report a -o -": "<!doctype html>",
    "history": "a",
    "route a": "agents",
    "suites list": "native_tools",
    "trust --list": "",
    "completion bash": "clawgauge",
    "mcp --skill": "name: clawgauge",
    "--help": "usage",
}


def run_without_posix(cwd: Path, *commands: str) -> list[tuple[int, str]]:
    """The exit code of each command, and what it wrote: standard output and error together."""
    done = subprocess.run(
        [sys.executable, "-m", "support.without_posix", *commands],
        cwd=cwd,
        env=clean_environment(PYTHONPATH=str(TESTS)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout
    outcomes = []
    rest = done.stdout
    for _ in commands:
        output, _, rest = rest.partition("\0")
        code, _, rest = rest.partition("\n")
        outcomes.append((int(code), output))
    return outcomes


def test_every_module_is_imported(tmp_path: Path) -> None:
    run_without_posix(tmp_path)


def test_what_only_reads_runs_everywhere(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b"), start=1):
        write_sample_run(tmp_path / "runs" / name, run_id=name, seed=number)
    outcomes = run_without_posix(tmp_path, *READING)
    for (command, shown), (code, output) in zip(READING.items(), outcomes, strict=True):
        assert code == 0, f"{command}: {output}"
        assert shown.lower() in output.lower(), command


def test_a_run_is_recorded_and_resumed(place: Path, server: ScriptedServer) -> None:
    """Locks, files that take another's place, the machine's figures: all there is without POSIX."""
    server.reply_with(Text("yes"))
    begun, resumed = run_without_posix(
        place,
        "run -t fake:scripted-model -s small.json --run-id r --max-calls 2",
        "run --resume r --max-calls 4",
    )
    assert begun[0] == 0, begun[1]
    assert resumed[0] == 0, resumed[1]
    summary = json.loads((place / "runs" / "r" / "summary.json").read_bytes())
    assert summary["models"][0]["n_ok"] == 4
    assert not (place / "runs" / "r" / ".lock").exists()


def test_a_task_is_judged(place: Path, server: ScriptedServer) -> None:
    """A child process is started, answers, and is gone."""
    task = {
        "prompt": "Write hello into /tmp/x.",
        "tools": ["exec"],
        "world": {},
        "max_turns": 3,
        "validator": {
            "type": "world_state",
            "expect": [{"file": "/tmp/x", "contains": "hello"}],
        },
    }
    write_suite(place / "task.json", task)
    call = ("exec", json.dumps({"command": "echo hello > /tmp/x"}))
    server.script(Text("", tool_calls=[call], finish="tool_calls"), Text("Done."))
    ((code, output),) = run_without_posix(place, "run -t fake:scripted-model -s task.json")
    assert code == 0, output
    (results,) = place.glob("runs/*/results.jsonl")
    assert json.loads(results.read_text())["objective_pass"] is True


def test_what_needs_posix_says_so(tmp_path: Path) -> None:
    ((code, output),) = run_without_posix(tmp_path, "node")
    assert code == 2
    assert "needs Linux or macOS" in output and "Traceback" not in output


NOT_PORTABLE = (
    *(
        "CON",
        "con",
        "nul.txt",
        "Com1",
        "LPT9.run",
        "com\u00b9",
        "CONOUT$",
        "a:b",
        "C:run",
        "a\\b",
        "..\\x",
    ),
    *(
        "a/b",
        "x.",
        "x ",
        " x",
        "a?",
        "a*",
        'a"',
        "a<b",
        "a|b",
        ".",
        "..",
        "",
        "a\0b",
        "latest",
        "LATEST",
    ),
)


@pytest.mark.parametrize("run_id", NOT_PORTABLE)
def test_a_run_id_that_windows_could_not_keep_is_refused(run_id: str) -> None:
    with pytest.raises(RunFolderError):
        check_run_id(run_id)


@given(st.text(min_size=1, max_size=30))
def test_a_run_id_that_is_taken_is_one_name_everywhere(run_id: str) -> None:
    """No drive, no folder, no root: on either system the id is the last part of the path, and all of it."""
    try:
        check_run_id(run_id)
    except RunFolderError:
        return
    for kind in (PureWindowsPath, PurePosixPath):
        path = kind("runs") / run_id
        assert path.name == run_id and path.parent == kind("runs")
    assert not PureWindowsPath(run_id).is_reserved()


@given(st.lists(st.text(max_size=20), min_size=2, max_size=2, unique=True))
def test_files_of_two_models_never_clash(models: list[str]) -> None:
    """Not even where capitals make no difference; and Windows could keep each of the names."""
    names = [f"resources_before_{resource_tag(Target('p', model))}.md" for model in models]
    assert names[0].lower() != names[1].lower()
    for name in names:
        assert not set(name) & set('<>:"/\\|?*') and name == name.rstrip(". ")
        assert all(ord(character) >= 32 for character in name)
