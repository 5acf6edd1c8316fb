"""Every screen whole, as a user sees it; see `support.screens` for how to write them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clawgauge.journal import iter_results
from clawgauge.records import RunSummary, Target
from clawgauge.reports.call import render_call
from clawgauge.reports.summary import describe_ending, describe_summary, render_markdown
from clawgauge.reports.terminal import as_text
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder
from support.kinds_of_runs import interrupted, write_kind
from support.runs_under_load import write_load
from support.screens import SCREENS, check_screen
from unit.summary.run_folders import config, prompt, record, write_run

from .test_markdown import write_agent_run, write_sample

RESUME = "clawgauge run --resume runs/r"


def read(folder: Path) -> tuple[RunSummary, Run]:
    return summarize_folder(folder), Run.open(folder)


def show_sample(place: Path) -> str:
    """Four models: a good one, one with timeouts, one that is down, one that was not reached."""
    summary, run = read(write_sample(place / "run"))
    return as_text(describe_summary(summary, run.config), 100)


def show_narrow(place: Path) -> str:
    summary, run = read(write_sample(place / "run"))
    return as_text(describe_summary(summary, run.config), 60)


def show_sample_verbose(place: Path) -> str:
    summary, run = read(write_sample(place / "run"))
    return as_text(describe_summary(summary, run.config, verbose=True), 100)


def show_tools_verbose(place: Path) -> str:
    """One model on prompts that offer tools, with restraint, a task, a clock and a caution."""
    summary, run = read(write_agent_run(place / "run"))
    return as_text(describe_summary(summary, run.config, verbose=True), 100)


def show_capacity(place: Path) -> str:
    target = Target("ollama_openai", "qwen3:8b")
    write_load(place / "run", target, 0.9, n_failed=20, n_rounds=5, slow_visit=3)
    summary, run = read(place / "run")
    return as_text(describe_summary(summary, run.config), 100)


def end_of_run(place: Path) -> str:
    summary, run = read(write_sample(place / "run"))
    sections = describe_ending(summary, run.config, Path("runs/r"), RESUME, interrupted=False)
    return as_text(sections, 100)


def end_of_interrupted_run(place: Path) -> str:
    write_kind(place / "run", interrupted)
    summary, run = read(place / "run")
    sections = describe_ending(summary, run.config, Path("runs/r"), RESUME, interrupted=True)
    return as_text(sections, 100)


def one_call(place: Path) -> str:
    """A call with everything a record can say: tried twice, with a tool call and a warning."""
    tries = [
        {
            "status": "rate_limited",
            "failure_type": "http_429",
            "e2e_ms": 12,
            "retry_after_s": 2.0,
            "waited_ms": 2000,
        },
        {"status": "ok", "failure_type": None, "e2e_ms": 1540},
    ]
    call = {
        "name": "read_file",
        "arguments": {"path": "/var/log/app.log"},
        "channel": "native",
        "valid": True,
    }
    said = {
        "raw_output": "The log says:\n-- answer\nout of memory",
        "reasoning_text": "Look at the log first.",
        "violation": "not_exact: the answer is not the expected text",
        "error": None,
        "warnings": ["the answer was cut by the token limit"],
        "attempts": tries,
        "tool_invocations": [call],
        "total_ms": 3552,
        "e2e_ms": 1540,
        "ttft_ms": 209,
        "ttfa_ms": 420,
        "timings_us": {"e2e": 1_540_300, "ttft": 209_400, "ttfa": 420_000, "connect": 8_460},
        "output_tps": 61.37,
        "cached_tokens": 12,
        "finish_reason": "length",
        "cold_start": True,
    }
    asked = prompt("P0") | {"system": "You are an agent.", "prompt": "What does the log say?"}
    folder = write_run(
        place / "run", [record("P0", objective_pass=False, **said)], config=config([asked])
    )
    (result,) = iter_results(folder)
    plan = Run.open(folder).config
    assert plan is not None
    return render_call(result, plan.prompts[0])


def summary_md(place: Path) -> str:
    summary, run = read(write_sample(place / "run"))
    refill = "clawgauge run --resume 20260213_235930 --retry-errors"
    return render_markdown(summary, run.config, refill=refill)


def summary_md_of_tools(place: Path) -> str:
    summary, run = read(write_agent_run(place / "run"))
    return render_markdown(summary, run.config)


MAKERS: dict[str, Callable[[Path], str]] = {
    "show.txt": show_sample,
    "show_60_columns.txt": show_narrow,
    "show_verbose.txt": show_sample_verbose,
    "show_verbose_tools.txt": show_tools_verbose,
    "show_capacity.txt": show_capacity,
    "run_end.txt": end_of_run,
    "run_end_interrupted.txt": end_of_interrupted_run,
    "call.txt": one_call,
    "summary.md": summary_md,
    "summary_tools.md": summary_md_of_tools,
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_screen_reads_exactly_as_agreed(tmp_path: Path, name: str) -> None:
    check_screen(name, MAKERS[name](tmp_path))


def test_no_screen_is_kept_that_nobody_makes() -> None:
    assert sorted(MAKERS) == sorted(path.name for path in SCREENS.iterdir())
