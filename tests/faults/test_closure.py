"""Whatever the runner can record, every verb reads: nothing is lost between a `Result` and any of its readers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawgauge.cli import main
from clawgauge.journal import encode_line, index_cells, iter_results
from clawgauge.journal.folder import RunFolder
from clawgauge.records import (
    STATUSES,
    Attempt,
    Result,
    Target,
    TimingsUs,
    ToolInvocation,
    TranscriptTurn,
)
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
words = st.none() | text
time_ms = st.integers(0, 2**42)
maybe_ms = st.none() | time_ms
tokens = st.none() | st.integers(0, 10**10)
truth = st.booleans()
dollars = st.none() | st.floats(0, 1e6)
tree: st.SearchStrategy[Any] = st.recursive(
    st.none() | truth | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
deep = st.builds(lambda n: json.loads("[" * n + "]" * n), st.integers(1, 200))
calls = st.lists(
    st.builds(
        ToolInvocation, name=text, arguments=tree | deep, channel=st.sampled_from(["native", "mention", "text:hermes"]),
        valid=truth, turn=st.none() | st.integers(1, 50),
    ),
    max_size=3,
)  # fmt: skip
results = st.builds(
    Result,
    run_id=st.just("r"), prompt_name=text, availability_status=st.sampled_from(STATUSES), started_at_ms=time_ms,
    ended_at_ms=time_ms, e2e_ms=time_ms, ttft_ms=maybe_ms, success=truth, failure_type=words,
    objective_pass=st.none() | truth, violation=words, input_tokens=tokens, output_tokens=tokens, raw_output=text,
    parsed_output=st.none() | st.dictionaries(text, tree | deep, max_size=2), tool_calls=st.lists(text, max_size=3),
    tool_call_count=st.integers(0, 10**6), tool_use_success=truth, repeat=st.integers(0, 10**6),
    stretch=st.integers(0, 3), expected_tools=st.lists(text, max_size=2), ttfa_ms=maybe_ms,
    timings_us=st.builds(TimingsUs, e2e=time_ms, ttft=maybe_ms, ttfa=maybe_ms, connect=maybe_ms, lag=maybe_ms),
    output_tps=st.none() | st.floats(0, 1e9), total_ms=time_ms,
    attempts=st.lists(
        st.builds(
            Attempt, status=st.sampled_from(STATUSES), failure_type=words, e2e_ms=time_ms, waited_ms=time_ms,
            retry_after_s=st.none() | st.floats(0, 1e9), http_status=st.none() | st.integers(0, 999), error=words,
        ),
        max_size=3,
    ),
    streamed=truth, cold_start=st.none() | truth, finish_reason=words, model_reported=words, error=words,
    raw_output_bytes=st.integers(0, 2**40), raw_output_truncated=truth, text_repaired=truth,
    parsed_output_dropped=truth, reasoning_text=words, reasoning_tokens=tokens, cached_tokens=tokens,
    tool_invocations=calls, tools_offered=truth, tool_channel=words, judged_by=words, tokens_source=words,
    cost_usd=dollars, cost_source=words, cli_overhead_ms=maybe_ms, prompt_prefix=words,
    turns=st.none() | st.integers(0, 100), world_seed=st.none() | st.integers(), engine=words,
    transcript=st.none() | st.lists(
        st.builds(
            TranscriptTurn, text=text, calls=calls, answers=st.lists(text, max_size=2), output_tokens=tokens,
            e2e_ms=maybe_ms,
        ),
        max_size=2,
    ),
    transcript_cut=truth, warnings=st.lists(text, max_size=2),
    **{name: st.just("") for name in ("provider", "model", "thinking_level", "prompt_id", "suite")},
)  # fmt: skip


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


def holds_for(n_examples: int, claim: Callable[[Path, list[Result]], None], places: pytest.TempPathFactory) -> None:
    """Check `claim` of two equal runs of drawn results, written as a run writes them."""

    @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
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


@pytest.mark.parametrize("n_examples", [20, pytest.param(150, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_what_the_runner_can_record_is_read_back_by_every_view(
    tmp_path_factory: pytest.TempPathFactory, n_examples: int
) -> None:
    """A record is one line, read back the same, and a row of every view of it."""
    holds_for(n_examples, _reads_back, tmp_path_factory)


@pytest.mark.parametrize("n_examples", [3, pytest.param(25, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
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
