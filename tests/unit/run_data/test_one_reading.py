"""How often a verb opens results.jsonl: a run is gone through once, however much is asked of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clawgauge.records import Result
from clawgauge.run_data import Row, Run
from support.sample_runs import write_sample_run
from unit.journal.test_first_harness import ANSWERED, write_old_run

CHILD = """
import contextlib, io, json, sys
opened = []

def watch(event, args):
    if event == "open" and str(args[0]).endswith("results.jsonl"):
        opened.append(args)

sys.addaudithook(watch)
from clawgauge.cli import main

counts = {}
for words in json.loads(sys.argv[1]):
    opened.clear()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(words.split())
    counts[words] = [code, len(opened)]
print(json.dumps(counts))
"""


def count_opens(runs: Path, *commands: str) -> dict[str, list[int]]:
    """The exit code of each command, and how many times it opened a results.jsonl."""
    words = [f"{command} --runs-dir {runs}" for command in commands]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(words)],
        cwd=runs,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(commands, json.loads(child.stdout).values(), strict=True))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs of six targets, with other verdicts."""
    write_sample_run(tmp_path / "a", run_id="a")
    write_sample_run(tmp_path / "b", run_id="b", seed=5)
    return tmp_path


def test_compare_reads_each_run_once(runs: Path) -> None:
    """Six targets on both sides are one pass over each file; their answers are then fetched by where they stand."""
    counts = count_opens(
        runs, "compare a b", "compare a b --answers", "compare a --models qwen3:8b llama3.2:3b"
    )
    assert counts == {"compare a b": [0, 2], "compare a b --answers": [0, 4],
                      "compare a --models qwen3:8b llama3.2:3b": [0, 1]}  # fmt: skip


def test_compare_alone_reads_the_newest_two_once(runs: Path) -> None:
    """Each is opened to see that somebody answered it, and gone through once to be compared."""
    assert count_opens(runs, "compare --json") == {"compare --json": [0, 4]}


def test_compare_reads_a_run_twice_at_most_where_prompts_differ(runs: Path) -> None:
    """What only one side was asked is left out of every target's figures in one more pass over that side."""
    lines = (runs / "b" / "results.jsonl").read_text().splitlines(keepends=True)
    config = json.loads((runs / "b" / "config.json").read_text())
    config["prompts"] = [prompt for prompt in config["prompts"] if prompt["id"] != "P3"]
    (runs / "b" / "config.json").write_text(json.dumps(config))
    (runs / "b" / "results.jsonl").write_text(
        "".join(line for line in lines if '"prompt_id":"P3"' not in line)
    )
    assert count_opens(runs, "compare a b") == {"compare a b": [0, 3]}


def test_no_verb_goes_through_a_run_more_than_twice(runs: Path) -> None:
    """What only counts opens the file once; what shows or copies answers, or mends a torn end first, once more."""
    once = ["show a", "route a --reasons why.md", "history"]
    twice = ["show a P1", "report a -o page.html", "export a", "summarize a"]
    counts = count_opens(runs, *once, *twice, "history --fill")
    assert [counts[words] for words in once] == [[0, 1], [0, 1], [0, 2]]
    assert [counts[words] for words in twice] == [[0, 2]] * len(twice)
    # One run has a fresh summary by then, but not an answer to every prompt.
    assert counts["history --fill"] == [0, 2]


class Places:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        self.offsets += offsets


def test_an_old_answer_is_found_by_its_place(tmp_path: Path) -> None:
    """The first harness numbered no repeats; fetched alone, a record is still the second of its cell."""
    run = Run.open(
        write_old_run(tmp_path, ANSWERED, {"record_type": "event", "event": "x"}, ANSWERED)
    )
    places = Places()
    run.feed(places)
    assert [result.repeat for _, result in run.results_at(places.offsets[1:])] == [1]
    assert [event.event for event in run.events] == ["x"]


def test_answers_come_in_file_order_and_once_however_they_are_asked_for(tmp_path: Path) -> None:
    """Two models that share a prompt ask for its answer twice."""
    run = Run.open(write_sample_run(tmp_path / "run", hostile=False))
    places = Places()
    run.feed(places)
    first, second, *_, last = places.offsets
    fetched = list(run.results_at([last, second, last, first]))
    assert [offset for offset, _ in fetched] == [first, second, last]
    assert len({result.prompt_id for _, result in fetched}) == 3


def test_an_old_folder_is_read_once_too(tmp_path: Path) -> None:
    """Who made a folder, its results and the events among them all come of one pass. Of a small run `show` goes through
    it again for the answers themselves."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_old_run(tmp_path / name, {"record_type": "event", "event": "x"}, ANSWERED)
    assert count_opens(tmp_path, "compare a b", "show a") == {
        "compare a b": [0, 2],
        "show a": [0, 3],
    }


def test_a_row_names_its_fields_in_the_order_they_have_on_disk() -> None:
    """Where the decoder expects a key it finds it at once: a million records are read a tenth faster."""
    assert [name for name in Result.__struct_fields__ if name in Row.__struct_fields__] == [
        *Row.__struct_fields__
    ]


def test_each_pass_tells_what_it_read_itself(tmp_path: Path) -> None:
    """A second pass over a file that has grown is another count; the first one keeps its own."""
    path = write_sample_run(tmp_path / "run", run_id="run")
    results = path / "results.jsonl"
    n_lines = len(results.read_text().splitlines())
    run = Run.open(path)
    first = run.feed()
    with results.open("a") as file:
        file.write("no record\n")
    second = run.feed()
    assert (first.n_rows, first.n_unreadable_lines) == (n_lines, 0)
    assert (second.n_rows, second.n_unreadable_lines) == (n_lines, 1)
