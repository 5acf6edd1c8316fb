"""Whatever the runner can record, every verb reads: nothing is lost between a `Result` and any of its readers."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import io
import json
import types
import typing
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawgauge.cli import main
from clawgauge.journal import encode_line, index_cells, iter_results
from clawgauge.journal.folder import RunFolder
from clawgauge.records import SERVER_PARTS, Attempt, Result, Target, ToolInvocation
from clawgauge.records.result import MAX_TOKENS
from clawgauge.run_data import Row
from support.sample_runs import sample_prompts, write_folder

VIEWS = [Result, Row]
TARGETS = [Target("ollama_openai", "m\x00\ud83d\nx"), Target("openai_responses", "gpt", "high")]
PROMPTS = sample_prompts()[:4]
READING = ("show", "report -o -", "export", "export --format jsonl", "history", "route", "compare")

# As a server, a model or a program may have written it: halves of pairs, NUL, separators, marks that reorder.
text = st.text(st.characters(exclude_categories=()), max_size=30) | st.sampled_from(
    ["\ud83d", "a\x00\x1b]", "\u2028" * 9]
)
truth = st.booleans()
tree: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | truth
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
deep = st.builds(lambda n: json.loads("[" * n + "]" * n), st.integers(1, 200))
# What the names of a record's fields allow no more than, or mean: all else is drawn by its type alone, so that no new
# field is left out.
TIMES = st.integers(0, 2**42)
FIXED = ("record_type", "run_id", "provider", "model", "thinking_level", "prompt_id", "suite")
OWN_VALUES: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    **{(Result, name): st.just("") for name in FIXED},
    (Result, "record_type"): st.just("result"),
    (Result, "run_id"): st.just("r"),
    (Result, "stretch"): st.integers(0, 3),
    (Result, "turns"): st.none() | st.integers(0, 100),
    (Result, "world_seed"): st.none() | st.integers(),
    (Result, "server_us"): st.none()
    | st.dictionaries(text | st.sampled_from(SERVER_PARTS), TIMES, max_size=3),
    (ToolInvocation, "channel"): st.sampled_from(["native", "mention", "text:hermes"]),
    (Attempt, "http_status"): st.none() | st.integers(0, 999),
}


def values_of(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Values of a type; counts of tokens are no larger than the runner lets them be."""
    parts = get_args(kind)
    match get_origin(kind) or kind:
        case types.UnionType | typing.Union:
            return st.one_of([values_of(part, name) for part in parts])
        case typing.Literal:
            return st.sampled_from(parts)
        case builtins.list:
            return st.lists(values_of(parts[0]), max_size=3)
        case builtins.dict:
            return st.dictionaries(values_of(parts[0]), values_of(parts[1]), max_size=2)
        case builtins.int:
            return st.integers(0, MAX_TOKENS) if name.endswith("_tokens") else TIMES
        case types.NoneType:
            return st.none()
        case typing.Any:
            return tree | deep
        case builtins.str | builtins.bool | builtins.float as plain:
            return {str: text, bool: truth, float: st.floats(0, 1e6)}[plain]
        case struct:
            return records_of(struct)


def records_of(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    fields = {}
    for name, kind in get_type_hints(struct).items():
        key = (struct, name)
        fields[name] = OWN_VALUES[key] if key in OWN_VALUES else values_of(kind, name)
    return st.builds(struct, **fields)


results = records_of(Result)


def of_a_cell(result: Result, number: int) -> Result:
    """The result as that of one of the run's own cells."""
    target, prompt = TARGETS[number % len(TARGETS)], PROMPTS[number % len(PROMPTS)]
    return msgspec.structs.replace(
        result, provider=target.provider, model=target.model, thinking_level=target.thinking_level,
        prompt_id=prompt.id, suite=prompt.suite, repeat=number,
    )  # fmt: skip


def call(*arguments: str) -> tuple[int, str]:
    printed, complaints = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaints):
        code = main(arguments)
    assert "could not be read" not in complaints.getvalue()
    return code, printed.getvalue()


def holds_for(
    n_examples: int, claim: Callable[[Path, list[Result]], None], places: pytest.TempPathFactory
) -> None:
    """Check `claim` of two equal runs of drawn results, written as a run writes them."""

    @settings(
        max_examples=n_examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(drawn=st.lists(results, min_size=1, max_size=5))
    def check(drawn: list[Result]) -> None:
        rows = [of_a_cell(result, number) for number, result in enumerate(drawn)]
        runs = places.mktemp("runs")
        for run_id in ("r", "s"):
            write_folder(runs / run_id, [], PROMPTS, TARGETS, repeats=5, run_id=run_id)
            with RunFolder.open_existing(runs / run_id) as folder:
                for row in rows:
                    asyncio.run(folder.append(row))
        claim(runs, rows)

    check()


@pytest.mark.parametrize(
    "n_examples", [20, pytest.param(150, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_what_the_runner_can_record_is_read_back_by_every_view(
    tmp_path_factory: pytest.TempPathFactory, n_examples: int
) -> None:
    """A record is one line, read back the same, and a row of every view of it."""
    holds_for(n_examples, _reads_back, tmp_path_factory)


@pytest.mark.parametrize(
    "n_examples", [3, pytest.param(25, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_what_the_runner_can_record_is_counted_by_every_verb(
    tmp_path_factory: pytest.TempPathFactory, n_examples: int
) -> None:
    """No verb leaves a record out, and none stumbles over one."""
    holds_for(n_examples, _every_verb_counts, tmp_path_factory)


def _reads_back(runs: Path, rows: list[Result]) -> None:
    path = runs / "r"
    assert len((path / "results.jsonl").read_bytes().splitlines()) == len(rows)
    for view in VIEWS:
        reader = iter_results(path, view)
        assert len(list(reader)) == len(rows) and reader.n_unreadable_lines == 0, view
    assert [encode_line(read) for read in iter_results(path)] == [encode_line(row) for row in rows]
    with RunFolder.open_existing(path) as folder:
        assert folder.rewrite_results(lambda result: result) == len(rows)
    assert len(index_cells(path)) == len(rows)


def _every_verb_counts(runs: Path, rows: list[Result]) -> None:
    code, said = call("summarize", "r", "--json", "--runs-dir", str(runs))
    summary = json.loads(said)
    assert code == 0 and summary["n_unreadable_lines"] == 0
    assert sum(group["n_total"] for group in summary["models"]) == len(rows)
    for verb in READING:
        name, *options = verb.split()
        named = {"history": [], "compare": ["r", "s"], "report": ["r", "s"]}.get(name, ["r"])
        words = [name, *named, *options, "--runs-dir", str(runs)]
        code, said = call(*words, *(["--reasons", str(runs / "why.md")] if name == "route" else []))
        assert code == 0, verb
        if verb == "export --format jsonl":
            assert len([json.loads(line) for line in said.split("\n")[:-1]]) == len(rows)


def test_every_field_of_a_record_is_drawn() -> None:
    """A field that was added to a record, or to a part of one, takes part in the claims above by itself."""
    seen: defaultdict[tuple[type, str], set[str]] = defaultdict(set)

    def look(part: Any) -> None:
        if isinstance(part, list):
            for member in part:
                look(member)
        elif isinstance(part, msgspec.Struct):
            for name in part.__struct_fields__:
                seen[type(part), name].add(repr(getattr(part, name)))
                look(getattr(part, name))

    @settings(
        max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(result=results)
    def draw(result: Result) -> None:
        look(result)

    draw()
    same = {(struct.__name__, name) for (struct, name), values in seen.items() if len(values) < 2}
    assert same == {("Result", name) for name in FIXED}
    assert {struct for struct, _ in seen} >= {Result, Attempt, ToolInvocation}
