"""What is counted while a run goes on, and its progress as plain lines, for logs and pipes."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from clawgauge.errors import CallFailure
from clawgauge.records import Prompt, Result, Target
from clawgauge.reports.clean import one_row
from clawgauge.reports.words import verdict_word
from clawgauge.runner.context import Observer
from clawgauge.verdict.states import JobState
from clawgauge.verdict.wording import word_fit_state
from clawgauge.words import (
    format_duration,
    format_money,
    format_percent,
    list_names,
    plural,
)

# Medians shown live are of the newest calls: sorting them must stay cheap in a run of any length.
_MAX_LATENCIES = 500
# How long nothing may be said of what is left of a run, and how long a wait is worth a line.
_REPORT_EVERY_S = 30.0
_MAX_NAMED = 4


# Why a target was asked nothing with tools any more, by the code of the event.
_NO_TOOLS = {
    "provider": "its server says that it takes no tools",
    "refused": "it refuses tools",
    "dropped": "the tools on offer do not reach it",
}


def word_skip_reason(detail: Mapping[str, Any]) -> str:
    """Why prompts cannot be asked of a target, from the detail of a `skip` event."""
    if detail["reason"] == "beyond_context":
        return f"longer than the model's window of {detail['window']} tokens"
    return f"{' and '.join(detail['keys'])} cannot be sent by this provider"


def word_skip(detail: Mapping[str, Any]) -> str:
    """How many calls are left out and why, from the detail of a `skip` event."""
    return f"{detail['not_asked']} left out: {word_skip_reason(detail)}"


def word_stop(event: str, detail: Mapping[str, Any]) -> str:
    """Why cells of a target were not asked: an event that the runner reports, as a sentence."""
    if event == "skip":
        n_prompts = plural(detail["not_asked"], "prompt")
        return f"{n_prompts} left out: {word_skip_reason(detail)}"
    if event == "budget_spent":
        return _word_spent_budget(detail)
    if event in ("jobs_decided", "jobs_undecided"):
        return _word_decision(event, detail)
    if event == "takes_no_tools":
        return f"{_NO_TOOLS[detail['why']]}: nothing more with tools was asked"
    evidence = f"{detail['k']} of {plural(detail['n'], 'tool prompt')} passed"
    tier = f"Tier {detail['tier']} is {format_percent(detail['p'])} likely"
    if event == "decided":
        verdict = "Tier 1 decided"
        if detail["tier1"] != "yes":
            verdict = f"not Tier 1, decided ({tier})"
        return f"{verdict}: {evidence}, {detail['not_needed']} not needed"
    if detail["tier"] is None:
        return "tier undecided: no tool prompt was answered"
    sentence = f"tier undecided: {evidence}, {tier}"
    if detail["futile"]:
        sentence += ", and the prompts left could not decide it"
    return sentence


def _word_decision(event: str, detail: Mapping[str, Any]) -> str:
    """How the asking of a target ended where the answers decide what is asked."""
    answers = plural(detail["answers"], "answer")
    if event == "jobs_decided":
        return f"decided after {answers}"
    if detail["all_asked"]:
        return f"all asked that there is, {answers}: what is open stays open"
    return f"not decided yet after {answers}"


def _word_spent_budget(detail: Mapping[str, Any]) -> str:
    option = "--" + str(detail["budget"]).replace("_", "-")
    n_calls = plural(detail["not_asked"], "call")
    if detail.get("unknown_cost"):
        return f"{option} cannot be kept: a call came back without a cost; {n_calls} not made"
    return f"{option} {detail['limit']:g} is spent; {n_calls} not made"


@dataclass(slots=True)
class Progress:
    """How far one target is.

    `n_before` calls were made in earlier sessions; a call took `past_s` in earlier runs, and is
    taken to cost `past_usd`.
    """

    n_calls: int = 0
    past_s: float | None = None
    past_usd: float | None = None
    n_before: int = 0
    n_done: int = 0
    n_errors: int = 0
    n_judged: int = 0
    n_passed: int = 0
    cost_usd: float | None = None
    n_priced: int = 0
    latencies_ms: deque[int] = field(default_factory=partial(deque, maxlen=_MAX_LATENCIES))
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
        past_s = self.past_s or call_s
        share_left = self.n_left / max(1, self.n_calls)
        return call_s + (past_s - call_s) * share_left

    def left_usd(self) -> float | None:
        """What the calls that are left are expected to cost; None where nobody knows."""
        call_usd = self.past_usd
        if self.cost_usd is not None and self.n_priced:
            call_usd = self.cost_usd / self.n_priced
        return None if call_usd is None else call_usd * self.n_left


class CountedCell(Protocol):
    """What a result and a line of a run have in common that a display counts."""

    @property
    def turns(self) -> int | None: ...


def count_calls(cell: CountedCell, *, counts_turns: bool) -> int:
    """How many calls a cell is: one; where turns are counted, a task is as many as it took."""
    return max(1, cell.turns or 1) if counts_turns else 1


@dataclass
class Tally(Observer):
    """Counts what comes back, and shows nothing.

    `reasons` has the message of the first error of each kind and target; `ended` are the targets
    that have shown that they cannot answer. What the `context_suites` ask, inside the user's own
    context, is no part of a model's pass rate.
    """

    rows: Mapping[Target, Progress]
    interleaved: bool = False
    counts_turns: bool = False
    """Whether answers decide what is asked: then each turn of a task is counted as a call, and how
    many there will be is an estimate."""
    context_suites: frozenset[str] = frozenset()
    redact: Callable[[str], str] = str
    errors: Counter[tuple[Target, str]] = field(default_factory=Counter)
    reasons: dict[tuple[Target, str], str] = field(default_factory=dict)
    ended: dict[Target, CallFailure] = field(default_factory=dict)
    n_answered: int = 0
    n_given_up: int = 0

    def target_started(self, target: Target, n_cells: int) -> None:
        row = self.rows[target]
        row.n_calls = n_cells
        row.started_s = time.monotonic()

    def target_goes_on(self, target: Target, n_calls: int) -> None:
        row = self.rows[target]
        row.n_calls = row.n_done + n_calls
        if row.started_s is not None:
            # While others were asked it waited: its calls took no longer for that.
            row.started_s += time.monotonic() - max(row.newest_s, row.started_s)

    def recorded(self, target: Target, result: Result) -> None:
        row = self.rows[target]
        if not result.was_asked:
            # Recorded without having been asked: one call less to wait for, and no error.
            row.n_calls = max(row.n_done, row.n_calls - 1)
            self.reasons.setdefault(_kind(target, result), result.error or "")
            return
        n_calls = count_calls(result, counts_turns=self.counts_turns)
        row.n_done += n_calls
        row.newest_s = time.monotonic()
        if result.availability_status == "ok":
            self.n_answered += 1
        if result.suite not in self.context_suites:
            row.n_judged += result.objective_pass is not None
            row.n_passed += result.objective_pass is True
        if result.success:
            row.latencies_ms.append(result.e2e_ms)
        else:
            row.n_errors += 1
            self.errors[_kind(target, result)] += 1
            self.reasons.setdefault(_kind(target, result), result.error or "")
        if result.cost_usd is not None:
            row.cost_usd = (row.cost_usd or 0.0) + result.cost_usd
            row.n_priced += n_calls

    def calls_left(self, target: Target, n_calls: int) -> None:
        row = self.rows[target]
        row.n_calls = row.n_done + n_calls

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        self.ended[target] = failure
        # Masked before anybody cuts it.
        self.reasons[target, failure.failure_type] = self.redact(failure.message)

    def calls_given_up(self, n_calls: int) -> None:
        self.n_given_up += n_calls

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        row = self.rows[target]
        row.n_calls = row.n_done

    def word_calls(self, n_done: int, n_calls: int) -> str:
        """`12/40`; where answers decide how many there will be, `12 of about 40`."""
        if self.counts_turns and n_done < n_calls:
            return f"{n_done} of about {n_calls}"
        return f"{n_done}/{n_calls}"

    def left_usd(self) -> float | None:
        """What the rest of the run is expected to cost; None where that is not known of anybody."""
        costs = []
        for target, row in self.rows.items():
            usd = row.left_usd()
            if target not in self.ended and usd is not None:
                costs.append(usd)
        return sum(costs) if costs else None

    def word_left(self) -> str:
        """`about 3m 10s and $0.12 left`; nothing where there is nothing to say."""
        left_s = self.left_s()
        if not left_s:
            return ""
        left_usd = self.left_usd()
        cost = f" and {format_money(left_usd)}" if left_usd else ""
        about = f"about {format_duration(1000 * max(1.0, left_s))}{cost} left"
        # A model that is bad at something is decided sooner than what is expected of a good one.
        return f"up to {about}" if self.counts_turns else about

    def left_s(self) -> float | None:
        """What is left of the run; None as long as nobody can tell."""
        going = [row for target, row in self.rows.items() if target not in self.ended]
        paces_s = []
        for row in going:
            call_s = row.call_s()
            if call_s is not None:
                paces_s.append(call_s)
        if not paces_s:
            return None
        usual_call_s = sum(paces_s) / len(paces_s)
        left_by_target_s = []
        for row in going:
            if row.n_left:
                left_by_target_s.append(row.n_left * (row.call_s() or usual_call_s))
        left_s = sum(left_by_target_s)
        if self.interleaved and left_by_target_s:
            # Targets that take turns wait for each other meanwhile, and targets on several machines
            # are asked at once: the sum counts the same time once for each of them.
            return left_s / len(left_by_target_s)
        return left_s


def _kind(target: Target, result: Result) -> tuple[Target, str]:
    """What kind of error a result is: each is shown once for a target."""
    return target, str(result.failure_type)


@dataclass
class PlainLines(Tally):
    """A line a call on stderr, and one for each kind of error.

    Never colours, never moves the cursor.
    """

    newest_line_s: float = field(default_factory=time.monotonic)

    def target_started(self, target: Target, n_cells: int) -> None:
        super().target_started(target, n_cells)
        _print_line(f"{target.label}: {plural(n_cells, 'call')}")

    def recorded(self, target: Target, result: Result) -> None:
        is_known_error = _kind(target, result) in self.reasons
        now_s = time.monotonic()
        super().recorded(target, result)
        is_report_due = now_s - self.newest_line_s > _REPORT_EVERY_S
        if is_known_error and (not is_report_due or target in self.ended):
            return
        left = ""
        if is_report_due:
            self.newest_line_s = now_s
            left = self.word_left()
        row = self.rows[target]
        name = f"{result.suite}/{result.prompt_id} {result.prompt_name}"
        if self.interleaved:
            name = f"{target.label} {name}"
        outcome = f"{verdict_word(result)}, {result.e2e_ms} ms"
        if result.ttft_ms is not None:
            outcome += f", first token {result.ttft_ms} ms"
        if result.cost_usd is not None:
            total_usd = sum(row.cost_usd or 0.0 for row in self.rows.values())
            outcome += f", {format_money(total_usd)} so far"
        if result.error:
            outcome += f": {result.error}"
        if left:
            outcome += f"; {left}"
        _print_line(f"  [{self.word_calls(row.n_done, row.n_calls)}] {name}: {outcome}")

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        kind = (target, f"{failure.failure_type}, again")
        if kind in self.reasons and wait_s <= _REPORT_EVERY_S:
            return
        reason = self.redact(failure.message)
        self.reasons[kind] = reason
        _print_line(
            f"  {prompt.suite}/{prompt.id}: {failure.failure_type} ({reason}), "
            f"again in {wait_s:.1f} s"
        )

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        super().target_skipped(target, failure, n_cells)
        reason = f"{failure.failure_type}: {self.redact(failure.message)}"
        consequence = ""
        if n_cells == 1:
            consequence = ": its other prompt is not asked"
        elif n_cells > 1:
            consequence = ": its other prompts are not asked"
        _print_line(f"  {target.label} cannot answer ({reason}){consequence}")

    def answer_so_far(self, target: Target, n_answers: int, states: Mapping[str, JobState]) -> None:
        for line in word_answer_so_far(target, n_answers, states):
            _print_line(f"  {line}")

    def target_goes_on(self, target: Target, n_calls: int) -> None:
        super().target_goes_on(target, n_calls)
        _print_line(f"{target.label}: {plural(n_calls, 'call')} more, to find the best")

    def told_apart(self, job: str, ahead: str, behind: str, n_shared: int) -> None:
        _print_line(f"  {word_told_apart(job, ahead, behind, n_shared)}")

    def best_sought(self, job: str, labels: Sequence[str]) -> None:
        _print_line(f"  {word_best(job, labels)}")

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        super().stopped(target, event, detail)
        _print_line(f"  {target.label}: {word_stop(event, detail)}")


def word_answer_so_far(target: Target, n_answers: int, states: Mapping[str, JobState]) -> list[str]:
    """What is known of each job by now, a line each; jobs of which the same is known share one."""
    jobs_by_text: dict[str, list[str]] = {}
    for job, job_state in states.items():
        text = word_fit_state(job_state.state, job_state.chance)
        if job_state.unasked:
            text += f"; {list_names(job_state.unasked, _MAX_NAMED)} not asked"
        jobs_by_text.setdefault(text, []).append(job)
    lines = [f"{target.label}, so far, after {plural(n_answers, 'answer')} (it goes on):"]
    for text, jobs in jobs_by_text.items():
        lines.append(f"  {', '.join(jobs)}: {text}")
    return lines


def word_told_apart(job: str, ahead: str, behind: str, n_shared: int) -> str:
    prompts = plural(n_shared, "prompt that both were asked", "prompts that both were asked")
    return f"{job}: {behind} is behind {ahead}, by {prompts}"


def word_best(job: str, labels: Sequence[str]) -> str:
    """Who is best, or who was not told apart by all that was asked."""
    if len(labels) == 1:
        return f"{job}: the best is {labels[0]}"
    names = list_names(labels, _MAX_NAMED)
    return f"{job}: {names} were not told apart by what was asked; more may tell (--max-calls)"


def _print_line(text: str) -> None:
    sys.stderr.write(one_row(text))
    sys.stderr.flush()
