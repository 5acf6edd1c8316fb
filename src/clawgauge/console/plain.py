"""What is counted while a run goes on, and its progress as plain lines, for logs and pipes."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clawgauge.errors import CallFailure
from clawgauge.records import Prompt, Result, Target
from clawgauge.reports.clean import one_row
from clawgauge.reports.words import verdict_word
from clawgauge.runner.context import Observer
from clawgauge.words import format_duration, format_money, format_percent, plural

# Medians shown live are of the newest calls: sorting them must stay cheap in a run of any length.
_RECENT = 500
_TELL_LEFT_S = 30.0


def why_left_out(detail: Mapping[str, Any]) -> str:
    """Why prompts cannot be asked of a target, from the detail of a `skip` event."""
    if detail["reason"] == "beyond_context":
        return f"longer than the model's window of {detail['window']} tokens"
    return f"{' and '.join(detail['keys'])} cannot be sent by this provider"


def word_skip(detail: Mapping[str, Any]) -> str:
    return f"{detail['not_asked']} left out: {why_left_out(detail)}"


def outcome_words(event: str, detail: Mapping[str, Any]) -> str:
    if event == "skip":
        return f"{plural(detail['not_asked'], 'prompt')} left out: {why_left_out(detail)}"
    if event == "budget_spent":
        option = str(detail["budget"]).replace("_", "-")
        if detail.get("unknown_cost"):
            unasked = plural(detail["not_asked"], "call")
            return f"--{option} cannot be kept: a call came back without a cost; {unasked} not made"
        return f"--{option} {detail['limit']:g} is spent; {plural(detail['not_asked'], 'call')} not made"
    seen = f"{detail['k']} of {plural(detail['n'], 'tool prompt')} passed"
    likely = f"Tier {detail['tier']} is {format_percent(detail['p'])} likely"
    if event == "decided":
        verdict = "Tier 1 decided" if detail["tier1"] == "yes" else f"not Tier 1, decided ({likely})"
        return f"{verdict}: {seen}, {detail['not_needed']} not needed"
    if detail["tier"] is None:
        return "tier undecided: no tool prompt was answered"
    return f"tier undecided: {seen}, {likely}{', and the prompts left could not decide it' if detail['futile'] else ''}"


@dataclass(slots=True)
class Progress:
    """How far one target is: `n_before` in earlier sessions; a call took `past_s` in earlier runs."""

    n_calls: int = 0
    past_s: float | None = None
    n_before: int = 0
    n_done: int = 0
    n_errors: int = 0
    n_judged: int = 0
    n_passed: int = 0
    cost_usd: float | None = None
    latencies_ms: deque[int] = field(default_factory=partial(deque, maxlen=_RECENT))
    started_s: float | None = None
    newest_s: float = 0.0

    @property
    def n_left(self) -> int:
        return max(0, self.n_calls - self.n_done)

    def call_s(self) -> float | None:
        """What a call takes: at first as in earlier runs, then more and more as in this one."""
        if self.started_s is None or not self.n_done:
            return self.past_s
        call_s = (self.newest_s - self.started_s) / self.n_done
        return call_s + ((self.past_s or call_s) - call_s) * self.n_left / max(1, self.n_calls)


@dataclass
class Tally(Observer):
    """Counts what comes back and shows nothing. `reasons` has the words of the first error of each kind and target;
    `ended` are the targets that have shown that they cannot answer. What the `context_suites` ask,
    inside the user's own context, is no part of a model's pass rate."""

    rows: Mapping[Target, Progress]
    interleaved: bool = False
    context_suites: frozenset[str] = frozenset()
    redact: Callable[[str], str] = str
    errors: Counter[tuple[Target, str]] = field(default_factory=Counter)
    reasons: dict[tuple[Target, str], str] = field(default_factory=dict)
    ended: dict[Target, CallFailure] = field(default_factory=dict)
    n_answered: int = 0
    n_given_up: int = 0

    def target_started(self, target: Target, n_cells: int) -> None:
        row = self.rows[target]
        row.n_calls, row.started_s = n_cells, time.monotonic()

    def recorded(self, target: Target, result: Result) -> None:
        row = self.rows[target]
        if not result.was_asked:
            # Recorded without having been asked: one call less to wait for, and no error of its own.
            row.n_calls = max(row.n_done, row.n_calls - 1)
            self.reasons.setdefault((target, str(result.failure_type)), result.error or "")
            return
        row.n_done, row.newest_s = row.n_done + 1, time.monotonic()
        self.n_answered += result.availability_status == "ok"
        if result.suite not in self.context_suites:
            row.n_judged += result.objective_pass is not None
            row.n_passed += result.objective_pass is True
        if result.success:
            row.latencies_ms.append(result.e2e_ms)
        else:
            row.n_errors += 1
            self.errors[target, str(result.failure_type)] += 1
            self.reasons.setdefault((target, str(result.failure_type)), result.error or "")
        if result.cost_usd is not None:
            row.cost_usd = (row.cost_usd or 0.0) + result.cost_usd

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        self.ended[target] = failure
        # Masked before anybody cuts it.
        self.reasons[target, failure.failure_type] = self.redact(failure.message)

    def calls_given_up(self, n_calls: int) -> None:
        self.n_given_up += n_calls

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        self.rows[target].n_calls = self.rows[target].n_done

    def left_s(self) -> float | None:
        """What is left of the run; None as long as nobody can tell."""
        going = [row for target, row in self.rows.items() if target not in self.ended]
        paces = [pace for row in going if (pace := row.call_s()) is not None]
        if not paces:
            return None
        usual_s = sum(paces) / len(paces)
        left = [row.n_left * (row.call_s() or usual_s) for row in going if row.n_left]
        # Who takes turns waits for the others meanwhile; who is on another machine does not have to.
        return sum(left) / (len(left) or 1 if self.interleaved else 1)


@dataclass
class PlainLines(Tally):
    """A line a call on stderr, and one for each kind of error. Never colours, never moves the cursor."""

    told_s: float = field(default_factory=time.monotonic)

    def target_started(self, target: Target, n_cells: int) -> None:
        super().target_started(target, n_cells)
        _line(f"{target.label}: {plural(n_cells, 'call')}")

    def recorded(self, target: Target, result: Result) -> None:
        is_told, now_s = (target, str(result.failure_type)) in self.reasons, time.monotonic()
        super().recorded(target, result)
        is_due = now_s - self.told_s > _TELL_LEFT_S
        if is_told and (not is_due or target in self.ended):
            return
        self.told_s = now_s if is_due else self.told_s
        row, money = self.rows[target], sum(row.cost_usd or 0.0 for row in self.rows.values())
        whose = f"{target.label} " if self.interleaved else ""
        ttft = f", first token {result.ttft_ms} ms" if result.ttft_ms is not None else ""
        cost = f", {format_money(money)} so far" if result.cost_usd is not None else ""
        why = f": {result.error}" if result.error else ""
        left = f"; about {format_duration(left_s * 1000)} left" if is_due and (left_s := self.left_s()) else ""
        prompt = f"{whose}{result.suite}/{result.prompt_id} {result.prompt_name}"
        said = f"{verdict_word(result)}, {result.e2e_ms} ms{ttft}{cost}{why}{left}"
        _line(f"  [{row.n_done}/{row.n_calls}] {prompt}: {said}")

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        kind = (target, f"{failure.failure_type}, again")
        if kind not in self.reasons or wait_s > _TELL_LEFT_S:
            self.reasons[kind] = self.redact(failure.message)
            why = f"{failure.failure_type} ({self.reasons[kind]})"
            _line(f"  {prompt.suite}/{prompt.id}: {why}, again in {wait_s:.1f} s")

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        super().target_skipped(target, failure, n_cells)
        why = f"{failure.failure_type}: {self.redact(failure.message)}"
        rest = ""
        if n_cells:
            rest = f": its other {'prompts are' if n_cells > 1 else 'prompt is'} not asked"
        _line(f"  {target.label} cannot answer ({why}){rest}")

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        super().stopped(target, event, detail)
        _line(f"  {target.label}: {outcome_words(event, detail)}")


def _line(text: str) -> None:
    sys.stderr.write(one_row(text))
    sys.stderr.flush()
