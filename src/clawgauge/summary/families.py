"""The mean of every figure that a job may weigh, by prompt family: what models are compared by."""

from __future__ import annotations

from collections.abc import Iterator

from clawgauge.records import PromptKey
from clawgauge.records.summary import FamilyMeans
from clawgauge.run_data import Schedule
from clawgauge.run_data.evidence import (
    CALLS,
    TEXT_CALLS,
    EvidencePools,
    Weight,
    find_pass,
    find_weight,
    job_pool,
)
from clawgauge.summary.groups import Ending, Group
from clawgauge.verdict.ranking import HALF_P95_MS, HALF_TTFT_MS, score_falling

# More of a mean than any test of a difference can see.
_DIGITS = 6


def measure_families(group: Group, schedule: Schedule, pools: EvidencePools) -> FamilyMeans:
    """The means of one target. Repeats and drawings of a prompt, its variants and the other half of
    its pair, are one family, and so are the turns of a session of the user's history."""
    sums = _FamilySums(schedule, pools)
    _add_rates(sums, group, schedule, pools)
    _add_times(sums, group)
    return sums.to_means()


class _FamilySums:
    """Adds up values by figure and family."""

    def __init__(self, schedule: Schedule, pools: EvidencePools) -> None:
        self._schedule = schedule
        self._pools = pools
        self._sums: dict[str, dict[PromptKey, tuple[float, int]]] = {}

    def add(self, figure: str, prompt: PromptKey, value: float, n: int) -> None:
        """Add a value that `n` calls on a prompt have."""
        by_family = self._sums.setdefault(figure, {})
        family = self._schedule.sessions.get(prompt, self._pools.family(prompt))
        total, n_values = by_family.get(family, (0.0, 0))
        by_family[family] = (total + value * n, n_values + n)

    def to_means(self) -> FamilyMeans:
        families: dict[PromptKey, None] = {}
        for by_family in self._sums.values():
            families.update(dict.fromkeys(by_family))
        figures = {}
        for figure, by_family in self._sums.items():
            means: list[float | None] = []
            for family in families:
                total, n_values = by_family.get(family, (0.0, 0))
                means.append(round(total / n_values, _DIGITS) if n_values else None)
            figures[figure] = means
        return FamilyMeans(families=["/".join(family) for family in families], figures=figures)


def _add_rates(sums: _FamilySums, group: Group, schedule: Schedule, pools: EvidencePools) -> None:
    """The rates, of the same answers that decide needs: what a server that is up did not answer is
    failed."""
    for ending in group.endings:
        if ending.was_asked:
            sums.add("answers", ending.prompt, ending.succeeded, ending.n)
    expecting_call = pools.pools[CALLS].prompts | pools.pools[TEXT_CALLS].prompts
    prompts_by_figure = {
        "restraint": schedule.restraint,
        "tasks": schedule.tasks,
        "agreement": schedule.own_work,
        "passes": schedule.judged,
    }
    for name, pool in pools.pools.items():
        if name.startswith(job_pool("")):
            prompts_by_figure[name] = pool.prompts
    for ending in _counting(group):
        if ending.prompt in expecting_call:
            sums.add("tools", ending.prompt, ending.tool_use_success, ending.n)
        passed = find_pass(ending)
        if passed is None:
            continue
        for figure, prompts in prompts_by_figure.items():
            if ending.prompt not in prompts:
                continue
            if figure == "restraint" and ending.failure_type == "refusal":
                # It called nothing and said no: that counts neither for nor against restraint.
                continue
            sums.add(figure, ending.prompt, passed, ending.n)


def _counting(group: Group) -> Iterator[Ending]:
    """Every way in which a cell ended that counts for or against the model."""
    weights = [find_weight(ending) for ending in group.endings]
    is_server_up = Weight.ANSWER in weights
    for ending, weight in zip(group.endings, weights, strict=True):
        if weight is Weight.ANSWER or (weight is Weight.FAILURE_IF_UP and is_server_up):
            yield ending


def _add_times(sums: _FamilySums, group: Group) -> None:
    """The scores of the times. A call that was cut off took longer than anyone waited: it scores
    nothing."""
    for prompt, times_ms in group.prompt_times_ms("e2e_ms").items():
        for time_ms in times_ms:
            sums.add("latency", prompt, score_falling(time_ms, HALF_P95_MS), 1)
    for ending in group.endings:
        if ending.failure_type == "timeout":
            sums.add("latency", ending.prompt, 0.0, ending.n)
    for prompt, times_ms in group.prompt_times_ms("ttft_ms").items():
        for time_ms in times_ms:
            sums.add("first_token", prompt, score_falling(time_ms, HALF_TTFT_MS), 1)
