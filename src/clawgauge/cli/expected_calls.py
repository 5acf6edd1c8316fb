"""How many calls a plan is expected to make, how long they take and what they cost.

By calls like these in earlier runs; where there were none, the cost by the price list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clawgauge.console.plain import word_skip
from clawgauge.errors import RunFolderError
from clawgauge.journal import stat_file
from clawgauge.plan import Plan
from clawgauge.prices import Price, Tokens, cost_usd
from clawgauge.records import THINKING_OFF, GroupSummary, Prompt, RunSummary, Target
from clawgauge.run_data import Run
from clawgauge.runner.agenda import cost_budget
from clawgauge.runner.agendas import AnyAgenda, make_agenda
from clawgauge.runner.decision import CALLS_OF_A_TASK, DecisionAgenda
from clawgauge.suites.long_text import estimate_tokens

_MAX_RUNS_READ = 20
# Of all runs together, the newest first: an estimate is not worth more than a moment's reading.
_MAX_SUMMED_UP_BYTES = 2**25
# What an answer is taken to have where nobody has measured it: with thinking, and without.
_TOKENS_OF_ANSWER = 200
_TOKENS_OF_THINKING = 1_000
# What a task's calls have before them, on average: its own earlier calls and their results.
_TOKENS_OF_EARLIER_TURNS = 1_000
# Prompts are alike enough that so many of them, from all over the plan, tell what one comes to.
_MAX_PROMPTS_COUNTED = 60


class ExpectedCalls(NamedTuple):
    """The `n` calls to a target; time and cost if they are as the `n_past` of before.

    Where the answers decide what is asked, each turn of a task is one.
    """

    n: int
    n_past: int
    seconds: float | None
    usd: float | None
    left_out: Sequence[str]
    """Which prompts are not asked, and why, in words."""
    is_by_price_list: bool = False
    """Whether nobody has measured what a call costs: it is guessed from its length."""
    n_at_most: int = 0
    """How many there may be where fit models are asked on to find the best; else 0."""

    @property
    def usd_at_most(self) -> float | None:
        """What all that may be asked costs, if calls are as expected."""
        if self.usd is None or not self.n:
            return self.usd
        return self.usd / self.n * max(self.n, self.n_at_most)


def expected_calls(plan: Plan) -> dict[Target, ExpectedCalls]:
    """What is left to ask of each target, with what is known of such calls from the newest runs."""
    past_groups = _find_past_groups(Path(plan.settings.runs_dir), plan.targets)
    cost = cost_budget(plan)
    expected = {}
    for target, groups in past_groups.items():
        agenda = make_agenda(plan, target, cost)
        n = agenda.n_open
        n_past = _count_past_calls(groups, by_turns=plan.decision is not None)
        price = plan.prices.get(target)
        seconds = None
        call_usd = None
        if n_past:
            past_ms = sum((group.latency_ms.mean or 0.0) * group.n_success for group in groups)
            seconds = round(past_ms / n_past * n / 1000 / plan.calls_at_once(target), 3)
            call_usd = _past_call_usd(groups, price, n_past)
        is_by_price_list = call_usd is None and price is not None
        if price is not None and call_usd is None:
            call_usd = _guess_call_usd(plan, target, price)
        expected[target] = ExpectedCalls(
            n=n,
            n_past=n_past,
            seconds=seconds,
            usd=None if call_usd is None else round(call_usd * n, 6),
            left_out=[word_skip(skip.detail) for skip in agenda.skipped],
            is_by_price_list=is_by_price_list,
            n_at_most=_count_at_most(plan, agenda),
        )
    return expected


def _count_at_most(plan: Plan, agenda: AnyAgenda) -> int:
    goes_on = plan.decision is not None and plan.decision.best
    return agenda.n_at_most if goes_on and isinstance(agenda, DecisionAgenda) else 0


def _count_past_calls(groups: Iterable[GroupSummary], *, by_turns: bool) -> int:
    """How many prompts were answered; `by_turns`, how many requests that took."""
    n_calls = 0.0
    for group in groups:
        n_calls += group.n_success
        if by_turns and group.tasks.mean_turns is not None:
            n_calls += group.tasks.n * (group.tasks.mean_turns - 1)
    return round(n_calls)


def _find_past_groups(
    runs_dir: Path, targets: Iterable[Target]
) -> dict[Target, list[GroupSummary]]:
    """What the newest runs measured of each target."""
    groups_by_target: dict[Target, list[GroupSummary]] = {target: [] for target in targets}
    folders: list[Path] = []
    # Where no run can be looked for none can be begun: that says so.
    with suppress(OSError):
        if runs_dir.is_dir():
            folders = [path for path in runs_dir.iterdir() if (path / "summary.json").is_file()]
    folders.sort(reverse=True)
    for summary in _past_summaries(folders[:_MAX_RUNS_READ]):
        # Under load, calls take longer than they will.
        if summary.capacity:
            continue
        for group in summary.models:
            if group.target in groups_by_target and group.latency_ms.mean is not None:
                groups_by_target[group.target].append(group)
    return groups_by_target


def _past_summaries(folders: Sequence[Path]) -> Iterator[RunSummary]:
    """The figures of earlier runs, without those that would have to be made anew from more records
    than may be read."""
    if not folders:
        return
    # Loaded only here: `run --help` need not wait for it.
    from clawgauge.summary import summarize_folder
    from clawgauge.summary.stored import read_summary

    bytes_left = _MAX_SUMMED_UP_BYTES
    for folder in folders:
        try:
            summary = read_summary(Run.open(folder))
            results = stat_file(folder, "results.jsonl")
            if summary is None and results is not None and results.st_size <= bytes_left:
                bytes_left -= results.st_size
                summary = summarize_folder(folder)
        except RunFolderError:
            continue
        if summary is not None:
            yield summary


def _past_call_usd(
    groups: Sequence[GroupSummary], price: Price | None, n_past: int
) -> float | None:
    """A call at today's price and as many tokens as before, else at what it came to before."""
    if price is not None:
        usd = _usd_at(price, groups, n_past)
        if usd is not None:
            return usd
    costs = [group.cost for group in groups if group.cost is not None]
    if not costs:
        return None
    n_priced = sum(cost.n_priced for cost in costs)
    n_success = sum(group.n_success for group in groups)
    return sum(cost.usd for cost in costs) / n_priced * n_success / n_past


def _usd_at(price: Price, groups: Sequence[GroupSummary], n_past: int) -> float | None:
    """A call of mean length at a price; None where no length is known, or no price for it."""
    counted = [group for group in groups if group.output_tokens is not None and group.n_success]
    if not counted:
        return None
    share = sum(group.n_success for group in counted) / sum(group.n_success for group in groups)
    n = max(1, round(n_past * share))
    mean_tokens = Tokens(
        input=sum(group.input_tokens or 0 for group in counted) // n,
        output=sum(group.output_tokens or 0 for group in counted) // n,
        cached_input=sum(group.cached_tokens or 0 for group in counted) // n,
    )
    return cost_usd(price, mean_tokens)


def _guess_call_usd(plan: Plan, target: Target, price: Price) -> float | None:
    """What a call comes to on average at a price, by the length of what is sent."""
    n_output = _TOKENS_OF_ANSWER
    if target.thinking_level not in (None, THINKING_OFF):
        n_output += _TOKENS_OF_THINKING
    step = max(1, len(plan.asked) // _MAX_PROMPTS_COUNTED)
    costs = []
    for prompt in plan.asked[::step]:
        n_input = _estimate_input(prompt)
        usd = cost_usd(price, Tokens(input=n_input, output=n_output))
        if usd is None:
            continue
        # Of a list a task is one cell, whatever it takes.
        is_whole_task = prompt.world is not None and plan.decision is None
        costs.append(usd * CALLS_OF_A_TASK if is_whole_task else usd)
    return sum(costs) / len(costs) if costs else None


def _estimate_input(prompt: Prompt) -> int:
    n_tokens = sum(map(estimate_tokens, prompt.texts))
    if prompt.tools:
        n_tokens += estimate_tokens(json.dumps(prompt.tools))
    if prompt.world is not None:
        n_tokens += _TOKENS_OF_EARLIER_TURNS
    return n_tokens
