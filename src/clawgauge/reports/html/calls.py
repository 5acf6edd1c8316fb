"""The calls of the page: counted exactly in a first pass over the runs, chosen where there are too many, and embedded,
each as columns and a packed detail.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any

from clawgauge.records import Prompt, Result, RunSummary, Target, ToolInvocation
from clawgauge.reports.html.texts import Text, TextStore, show_json
from clawgauge.run_data import Row, Run

MAX_CALLS = 20_000
_MAX_WHY_CHARS = 240
_MAX_TOOLS_CHARS = 120
_COLUMNS = (
    "target", "prompt", "repeat", "outcome", "why", "e2e", "ttft", "ttfa", "tps", "tokensIn", "tokensOut", "cold",
    "tools", "started", "attempts", "cost", "sampled",
)  # fmt: skip
PASS, FAIL, ANSWERED, NO_ANSWER, ERROR, RATE_LIMITED, AUTH_ERROR, UNAVAILABLE = range(8)
OUTCOMES = ("pass", "fail", "no_verdict", "no_answer", "error", "rate_limited", "auth_error", "unavailable")
_BY_STATUS = {
    "ok": NO_ANSWER, "error": ERROR, "rate_limited": RATE_LIMITED, "auth_error": AUTH_ERROR,
    "skipped_unavailable": UNAVAILABLE,
}  # fmt: skip


def classify(call: Row | Result) -> int:
    """The code of a call's outcome: its verdict where it was answered, else why it was not."""
    if not call.success:
        return _BY_STATUS[call.availability_status]
    if call.objective_pass is None:
        return ANSWERED
    return PASS if call.objective_pass else FAIL


def describe_prompt(prompt: Prompt) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "prompt": Text(prompt.prompt),
        "system": Text(prompt.system or ""),
        "validator": Text(show_json(prompt.validator)),
        "tools": Text(show_json(prompt.tools)) if prompt.tools else "",
        "world": Text(show_json(prompt.world)) if prompt.world else "",
        "category": prompt.category or "",
        "maxTurns": prompt.max_turns,
    }
    return {key: value for key, value in detail.items() if value}


def call_digest(target: int, prompt: int, repeat: int) -> int:
    """A number for a call that looks random and is the same every time; target and prompt by their numbers."""
    return int.from_bytes(blake2b(b"%d/%d/%d" % (target, prompt, repeat), digest_size=8).digest())


class Survey:
    """Numbers and counts of all runs of a report, in the order they are looked at."""

    def __init__(self) -> None:
        self.targets: dict[tuple[int, Target], int] = {}
        self.prompts: dict[tuple[str, str], int] = {}
        self.prompt_names: list[str] = []
        self.outcomes: Counter[tuple[int, int, int]] = Counter()
        self.digests: dict[int, array[int]] = {}
        self.digests_to_look_at: dict[int, array[int]] = {}

    @property
    def n_calls(self) -> int:
        return sum(map(len, self.digests.values()))

    def target_number(self, run: int, target: Target) -> int:
        return self.targets.setdefault((run, target), len(self.targets))

    def prompt_number(self, suite: str, prompt_id: str, name: str) -> int:
        number = self.prompts.setdefault((suite, prompt_id), len(self.prompts))
        if number == len(self.prompt_names):
            self.prompt_names.append(name)
        return number


class RunSurvey:
    """One run to report on. Counts every call of it in the survey of all, and keeps where each stands in the file."""

    summary: RunSummary

    def __init__(self, survey: Survey, number: int, run: Run) -> None:
        self.run = run
        self.number = number
        self.violations: Counter[str] = Counter()
        self.digests, self.offsets = array("Q"), array("Q")
        self._survey = survey

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        survey = self._survey
        self.offsets.extend(offsets)
        for row in rows:
            target = survey.target_number(self.number, row.target)
            prompt = survey.prompt_number(row.suite, row.prompt_id, row.prompt_name)
            outcome = classify(row)
            survey.outcomes[target, prompt, outcome] += 1
            if outcome == FAIL:
                self.violations[(row.violation or "unnamed").partition(":")[0]] += 1
            digest = call_digest(target, prompt, row.repeat)
            self.digests.append(digest)
            survey.digests.setdefault(target, array("Q")).append(digest)
            # What a reader wants to see even where not all can be shown.
            if outcome not in (PASS, ANSWERED):
                survey.digests_to_look_at.setdefault(target, array("Q")).append(digest)


@dataclass(frozen=True)
class Choice:
    """The digests of the calls to embed; with `everything` set, all of them."""

    everything: bool
    n_calls: int
    n_to_look_at: int
    sampled: frozenset[int] = field(default_factory=frozenset)
    looked_at: frozenset[int] = field(default_factory=frozenset)

    def has(self, digest: int) -> bool:
        return self.everything or digest in self.sampled or digest in self.looked_at

    def is_sampled(self, digest: int) -> bool:
        return self.everything or digest in self.sampled


def choose_calls(survey: Survey, max_calls: int = MAX_CALLS) -> Choice:
    """All calls where they fit. Else an even sample of each target's, and the first of each target's that went wrong.

    At most half of the room goes to the latter. Room is shared so that no target crowds out another.
    """
    n_calls = survey.n_calls
    n_to_look_at = sum(map(len, survey.digests_to_look_at.values()))
    if n_calls <= max_calls:
        return Choice(everything=True, n_calls=n_calls, n_to_look_at=n_to_look_at)
    room = min(n_to_look_at, max_calls // 2)
    firsts = share_room({target: len(found) for target, found in survey.digests_to_look_at.items()}, room)
    looked_at = {digest for target, n in firsts.items() for digest in islice(survey.digests_to_look_at[target], n)}
    samples = share_room({target: len(found) for target, found in survey.digests.items()}, max_calls - room)
    # The smallest of what looks random is a fair sample, whatever order the calls were made in.
    sampled = {digest for target, n in samples.items() for digest in heapq.nsmallest(n, survey.digests[target])}
    return Choice(False, n_calls, n_to_look_at, frozenset(sampled), frozenset(looked_at))


def share_room(sizes: Mapping[int, int], room: int) -> dict[int, int]:
    """How many of each may come in: what it has where that is little, an equal part of the rest where it is much."""
    shares: dict[int, int] = {}
    for n_left, (key, size) in zip(
        range(len(sizes), 0, -1), sorted(sizes.items(), key=lambda item: item[1]), strict=True
    ):
        shares[key] = min(size, room // n_left)
        room -= shares[key]
    return shares


class CallColumns:
    """Grows by one row a call; `details` takes what is too long for a row."""

    def __init__(self, details: TextStore) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        # Each string once; calls name it by its number.
        self._strings: dict[str, int] = {}
        self._details = details
        self.n = 0

    def add(self, result: Result, target: int, prompt: int, *, sampled: bool) -> None:
        row = (
            target,
            prompt,
            result.repeat,
            classify(result),
            self._number(result.violation if result.success else result.failure_type, _MAX_WHY_CHARS),
            _milliseconds(result.timings_us.e2e, result.e2e_ms),
            _milliseconds(result.timings_us.ttft, result.ttft_ms),
            _milliseconds(result.timings_us.ttfa, result.ttfa_ms),
            _rounded(result.output_tps, 1),
            result.input_tokens,
            result.output_tokens,
            None if result.cold_start is None else int(result.cold_start),
            self._number(", ".join(result.tool_calls), _MAX_TOOLS_CHARS),
            result.started_at_ms,
            len(result.attempts),
            _rounded(result.cost_usd, 6),
            int(sampled),
        )
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)
        self._details.add(_detail(result))
        self.n += 1

    def _number(self, text: str | None, limit: int) -> int:
        """-1 stands for none."""
        if not text:
            return -1
        short = text if len(text) <= limit else f"{text[: limit - 1]}…"
        return self._strings.setdefault(short, len(self._strings))

    def as_json(self) -> dict[str, Any]:
        # A column that says the same of every call, as that alone.
        columns: dict[str, Any] = {
            name: {"every": values[0]} if values and values.count(values[0]) == len(values) else values
            for name, values in self._columns.items()
        }
        return {"n": self.n, "columns": columns, "strings": list(self._strings)}


def _milliseconds(exact_us: int | None, rounded_ms: int | None) -> float | int | None:
    """Tenths where the page shows them, else as recorded: what is rounded twice is another figure."""
    if rounded_ms is None or exact_us is None or exact_us >= 10_000:
        return rounded_ms
    return _rounded(exact_us / 1000, 1)


def _rounded(value: float | None, digits: int) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def _detail(result: Result) -> dict[str, Any]:
    """What the opened call shows beyond its row; a part that says nothing is left out."""
    timings = result.timings_us
    detail: dict[str, Any] = {
        "answer": Text(result.raw_output),
        "answerBytes": result.raw_output_bytes if result.raw_output_truncated else None,
        "reasoning": Text(result.reasoning_text or ""),
        "error": Text(result.error or ""),
        "warnings": list(map(Text, result.warnings)),
        "violation": Text(result.violation or ""),
        "failure": result.failure_type,
        "status": result.availability_status,
        "parsed": Text(show_json(result.parsed_output)) if result.parsed_output is not None else None,
        "attempts": [
            [a.status, a.failure_type, a.e2e_ms, a.waited_ms, a.http_status, a.retry_after_s, Text(a.error or "")]
            for a in result.attempts
        ],
        "calls": list(map(_invocation, result.tool_invocations)),
        "expectedTools": list(map(Text, result.expected_tools)),
        "toolUse": int(result.tool_use_success) if result.expected_tools else None,
        "channel": result.tool_channel,
        "transcript": [
            [Text(t.text), list(map(_invocation, t.calls)), list(map(Text, t.answers)), t.output_tokens, t.e2e_ms]
            for t in result.transcript or ()
        ],
        "transcriptCut": int(result.transcript_cut) or None,
        "turns": result.turns,
        "connect": None if timings.connect is None else timings.connect / 1000,
        "lag": None if timings.lag is None else timings.lag / 1000,
        "total": result.total_ms,
        "finish": result.finish_reason,
        "reported": result.model_reported if result.model_reported != result.model else None,
        "cached": result.cached_tokens,
        "reasoningTokens": result.reasoning_tokens,
        "overhead": result.cli_overhead_ms,
        "costSource": result.cost_source,
        "prefix": Text(result.prompt_prefix or ""),
        "repaired": int(result.text_repaired) or None,
    }
    return {key: value for key, value in detail.items() if value is not None and value != "" and value != []}


def _invocation(call: ToolInvocation) -> list[Any]:
    arguments = "" if call.arguments is None else show_json(call.arguments)
    return [Text(call.name), Text(arguments), call.channel, int(call.valid), call.turn]
