"""The figures that a gate may name, and where each one comes from.

Owns: the table of metric names, and both sides summed up over the prompts they share, so that a rate is never set
beside a rate of other prompts. Refuses: computing figures of its own; a figure is what the summary says it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from clawgauge.compare.tallies import RunSide
from clawgauge.journal import iter_results
from clawgauge.records import GroupSummary, Target
from clawgauge.summary import SummaryRow, summarize
from clawgauge.summary.schedule import PromptKey

Unit: TypeAlias = Literal["rate", "ms", "count", "tps", "usd", "tier"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a group. `evidence` names the paired test that can call its change significant."""

    name: str
    unit: Unit
    read: Callable[[GroupSummary], float | None]
    evidence: str | None = None

    @property
    def is_timing(self) -> bool:
        return self.unit in ("ms", "tps")


def _argument_accuracy(group: GroupSummary) -> float | None:
    return group.argument_accuracy.rate if group.argument_accuracy else None


METRICS = {
    metric.name: metric
    for metric in (
        Metric("objective_pass_rate", "rate", lambda g: g.objective_pass_rate, "objective_pass_rate"),
        Metric("pass_rate_scheduled", "rate", lambda g: g.pass_rate_scheduled, "pass_rate_scheduled"),
        Metric("success_rate_ok", "rate", lambda g: g.success_rate_ok),
        Metric("tool_use_rate", "rate", lambda g: g.tool_use.rate, "tool_use_rate"),
        Metric("tier", "tier", lambda g: g.tool_use.tier),
        Metric("argument_accuracy", "rate", _argument_accuracy),
        Metric("restraint", "rate", lambda g: g.restraint.rate, "restraint"),
        Metric("tasks", "rate", lambda g: g.tasks.rate, "tasks"),
        Metric("p50_ms", "ms", lambda g: g.latency_ms.p50, "latency_ms"),
        Metric("p95_ms", "ms", lambda g: g.latency_ms.p95),
        Metric("p99_ms", "ms", lambda g: g.latency_ms.p99),
        Metric("mean_ms", "ms", lambda g: g.latency_ms.mean),
        Metric("ttft_p50_ms", "ms", lambda g: g.ttft_ms.p50, "ttft_ms"),
        Metric("ttft_p95_ms", "ms", lambda g: g.ttft_ms.p95),
        Metric("output_tps_p50", "tps", lambda g: g.output_tps.p50),
        Metric("output_tokens", "count", lambda g: g.output_tokens, "output_tokens"),
        Metric("cost_usd", "usd", lambda g: g.cost_usd),
        Metric("n_ok", "count", lambda g: g.n_ok),
        Metric("n_error", "count", lambda g: g.n_error),
        Metric("n_timeouts", "count", lambda g: g.n_timeouts),
        Metric("n_truncated", "count", lambda g: g.n_truncated_by_max_tokens),
    )
}


def summarize_shared(side: RunSide, target: Target, prompts: Iterable[PromptKey]) -> GroupSummary:
    """The summary of one target over some of its prompts alone."""
    wanted = frozenset(prompts)
    config = side.config
    if config is not None:
        kept = [prompt for prompt in config.prompts if (prompt.suite, prompt.id) in wanted]
        config = msgspec.structs.replace(config, prompts=kept, targets=[t for t in config.targets if t == target])
    rows = (
        row
        for row in iter_results(side.path, SummaryRow)
        if (row.suite, row.prompt_id) in wanted and Target(row.provider, row.model, row.thinking_level) == target
    )
    groups = summarize(rows, run_id=side.run_id, config=config, events=side.events).models
    # A target with neither a plan nor a record has no group; both would have kept it from being paired.
    return groups[0]
