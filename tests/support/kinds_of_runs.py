"""Four kinds of run, and their figures counted out of the rows with nothing of the program's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.written_runs import config, prompt, record, unanswered, write_run

N_PLAIN, N_TOOLS = 20, 80
DEADLINE_MS = 120_000
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CHECKED = {"type": "tool_call", "expected_calls": [{"name": "look", "arguments": {}}]}


def ask(in_context: bool = False) -> list[dict[str, Any]]:
    """Twenty plain prompts and eighty that want a tool call, bare or inside the user's own context."""
    suite = "core+context" if in_context else "core"
    offered = {"tools": [TOOL], "expected_tools": ["look"], "validator": CHECKED}
    plain = [prompt(f"P{n}", suite, in_context=in_context) for n in range(N_PLAIN)]
    return plain + [
        prompt(f"T{n}", suite, in_context=in_context, **offered) for n in range(N_TOOLS)
    ]


def answer(asked: dict[str, Any], passed: bool, e2e_ms: int) -> dict[str, Any]:
    times = {"e2e_ms": e2e_ms, "ttft_ms": e2e_ms // 2, "ttfa_ms": e2e_ms // 2, "total_ms": e2e_ms}
    made = record(asked["id"], passed, suite=asked["suite"], timings_us=None, **times)
    if "tools" not in asked:
        return made
    calls = (
        [{"name": "look", "arguments": {}, "channel": "native", "valid": True}] if passed else []
    )
    tools = {
        "expected_tools": ["look"],
        "tools_offered": True,
        "tool_use_success": passed,
        "tool_invocations": calls,
    }
    return made | tools


def answer_all(prompts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every tenth is wrong; each takes five milliseconds longer than the one before."""
    return [answer(asked, n % 10 != 0, 500 + 5 * n) for n, asked in enumerate(prompts)]


def plain() -> tuple[list[Any], list[Any]]:
    return ask(), answer_all(ask())


def in_context() -> tuple[list[Any], list[Any]]:
    """Inside the context nothing passes, and everything takes ten times as long."""
    inside = [answer(asked, False, 5_000 + n) for n, asked in enumerate(ask(in_context=True))]
    return [*ask(), *ask(in_context=True)], [*answer_all(ask()), *inside]


def interrupted() -> tuple[list[Any], list[Any]]:
    return ask(), answer_all(ask())[: N_PLAIN + N_TOOLS - 15]


def timed_out() -> tuple[list[Any], list[Any]]:
    """The last ten calls are cut off at their deadline."""
    answered = answer_all(ask())[:-10]
    tools = {"expected_tools": ["look"], "tools_offered": True}
    hanging = [
        unanswered(
            one["id"],
            suite="core",
            e2e_ms=DEADLINE_MS,
            total_ms=DEADLINE_MS,
            timings_us=None,
            **tools,
        )
        for one in ask()[-10:]
    ]
    return ask(), [*answered, *hanging]


@dataclass(frozen=True)
class Truth:
    """The figures of a run, as every report has to show them."""

    passed: tuple[int, int]
    passed_of_asked: tuple[int, int]
    answered: tuple[int, int]
    tools: tuple[int, int]
    p50_ms: float
    p95_ms: float | None
    n_timed: int

    @property
    def p95(self) -> str:
        return "> 120 s" if self.p95_ms is None else f"{self.p95_ms:.0f}"


def count(rows: Sequence[dict[str, Any]]) -> Truth:
    bare = [row for row in rows if row["suite"] == "core"]
    judged = [row for row in bare if row["objective_pass"] is not None]
    passed = sum(row["objective_pass"] for row in judged)
    expecting = [
        row for row in bare if row["expected_tools"] and row["availability_status"] == "ok"
    ]
    timed = [row for row in bare if row["success"] or row["failure_type"] == "timeout"]
    times = sorted(row["e2e_ms"] if row["success"] else 2**60 for row in timed)

    def percentile(share: float) -> float | None:
        place = (len(times) - 1) * share
        below = int(place)
        above = times[min(below + 1, len(times) - 1)]
        value = times[below] + (place - below) * (above - times[below])
        return value if value < 2**53 else None

    median = percentile(0.5)
    assert median is not None
    return Truth(
        passed=(passed, len(judged)),
        passed_of_asked=(passed, len(bare)),
        answered=(sum(row["availability_status"] == "ok" for row in rows), len(rows)),
        tools=(sum(row["tool_use_success"] for row in expecting), len(expecting)),
        p50_ms=int(median + 0.5),
        p95_ms=None if percentile(0.95) is None else int((percentile(0.95) or 0) + 0.5),
        n_timed=len(times),
    )


def share(rate: tuple[int, int]) -> str:
    k, n = rate
    return f"{int(100 * k / n + 0.5)}%"


KINDS: tuple[Callable[[], tuple[list[Any], list[Any]]], ...] = (
    plain,
    in_context,
    interrupted,
    timed_out,
)


def write_kind(
    folder: Path, kind: Callable[[], tuple[list[Any], list[Any]]], **changes: Any
) -> Truth:
    """The run, its config with these `changes`."""
    prompts, rows = kind()
    write_run(
        folder, rows, config=config(prompts, options={"timeout_s": DEADLINE_MS / 1000}, **changes)
    )
    return count(rows)
