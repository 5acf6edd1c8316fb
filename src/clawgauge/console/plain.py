"""Progress as plain lines, for logs and pipes: one per call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TextIO

from clawgauge.errors import CallFailure
from clawgauge.records import Prompt, Result, Target
from clawgauge.reports.clean import one_row
from clawgauge.reports.words import verdict_word
from clawgauge.runner.agenda import why_left_out
from clawgauge.runner.target import Observer
from clawgauge.words import format_money, format_percent, plural


def outcome_words(event: str, detail: Mapping[str, Any]) -> str:
    """One line for the event `skip`, `decided`, `undecided` or `budget_spent`."""
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
    why = ", and the prompts left could not decide it" if detail["futile"] else ""
    return f"tier undecided: {seen}, {likely}{why}"


class PlainLines(Observer):
    """Writes each line whole; never colours, never moves the cursor."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._n_cells: dict[Target, int] = {}
        self._n_done: Counter[Target] = Counter()
        self._cost_usd = 0.0

    def target_started(self, target: Target, n_cells: int) -> None:
        self._n_cells[target] = n_cells
        self._line(f"{target.label}: {plural(n_cells, 'call')}")

    def recorded(self, target: Target, result: Result) -> None:
        self._n_done[target] += 1
        # Where targets take turns, a line says whose it is.
        whose = f"{target.label} " if len(self._n_cells) > 1 else ""
        ttft = f" ttft {result.ttft_ms} ms" if result.ttft_ms is not None else ""
        self._cost_usd += result.cost_usd or 0.0
        cost = f", {format_money(self._cost_usd)} so far" if result.cost_usd is not None else ""
        n_done, n_cells = self._n_done[target], self._n_cells[target]
        self._line(
            f"  [{n_done}/{n_cells}] {whose}{result.suite}/{result.prompt_id} {result.prompt_name}: "
            f"{verdict_word(result)}, {result.e2e_ms} ms{ttft}{cost}"
        )

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        self._line(f"  {prompt.suite}/{prompt.id}: {failure.failure_type}, again in {wait_s:.1f} s")

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        self._line(f"  {target.label} cannot answer ({failure.failure_type}): its other calls are not made")

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        self._line(f"  {target.label}: {outcome_words(event, detail)}")

    def target_finished(self, target: Target) -> None:
        self._n_cells.pop(target, None)
        self._n_done.pop(target, None)

    def _line(self, text: str) -> None:
        self._out.write(one_row(text))
        self._out.flush()
