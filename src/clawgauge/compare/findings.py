"""What a comparison found, as frozen structs, and the figures that a gate may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from clawgauge.records import GroupSummary
from clawgauge.verdict.jobs import rate_answers

Scope: TypeAlias = Literal["verdicts", "latency", "note"]
Verdict: TypeAlias = Literal["changed", "no_change_seen", "cannot_tell"]
RuleOutcome: TypeAlias = Literal["held", "broken", "not_significant", "not_judged"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """`verdicts` spoils every comparison, `latency` only that of times; a `note` is worth knowing, no more."""

    scope: Scope
    what: str
    a: str
    b: str
    advice: str | None = None
    target: str | None = None


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """What was found over the prompts that both sides have: B − A, and how likely luck alone makes it.

    `ci95` agrees with `p`, neither corrected for other pairs; `ci_holm` agrees with `p_holm`, both corrected, and so do
    `verdict` and `smallest_change`, the smallest change that would have been found in 80% of cases. The verdict is
    `no_change_seen` where the move is small and a change of 25 points (25%) would have been found. `reason` says why
    nothing can be told."""

    n_prompts: int
    difference: float | None
    ci95: tuple[float, float] | None
    p: float
    p_holm: float
    ci_holm: tuple[float, float] | None = None
    verdict: Verdict = "cannot_tell"
    smallest_change: float | None = None
    reason: str | None = None


class PairedRate(Paired, frozen=True, kw_only=True):
    """Pass rates: `rate_a` and `rate_b` are means of per-prompt rates. `only_a` and `only_b` count the prompts on which
    one side was better than the other."""

    n_trials_a: int
    n_trials_b: int
    rate_a: float | None
    rate_b: float | None
    only_a: int
    only_b: int
    test: Literal["mcnemar_exact", "sign_flip"]


class PairedShift(Paired, frozen=True, kw_only=True):
    """How far a measured figure moved, prompt by prompt: the median of the per-prompt differences and ratios.

    `test` is how it was told from luck: by the `sign` of each prompt's difference; for times, by the signed ranks
    of calls made `side_by_side` or by the spread `between_runs`. None is not at all: `p` is 1, without an interval.
    `smallest_change` is a share of A."""

    median_a: float | None
    median_b: float | None
    ratio: float | None
    ratio_ci95: tuple[float, float] | None
    n_lower: int
    n_higher: int
    n_cold_left_out: int = 0
    test: Literal["sign", "side_by_side", "between_runs"] | None = None
    ratio_ci_holm: tuple[float, float] | None = None


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    suite: str
    prompt_id: str
    prompt_name: str
    direction: Literal["lost", "gained"]
    passes_a: int
    trials_a: int
    passes_b: int
    trials_b: int
    violation: str | None
    answer_a: str | None = None
    answer_b: str | None = None


class Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    suite: str
    prompt_id: str
    missing_in: Literal["a", "b"]
    failure_type: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as a summary defines it, over the shared prompts. Its verdict is that of the paired test behind it, if
    there is one. A percentile of the sides `beyond` lies among their timeouts: longer than the deadline given. One of
    the sides `indicative` rests on too few calls. `reason` says why the two values cannot be set against each other at
    all."""

    name: str
    a: float | None
    b: float | None
    verdict: Verdict = "cannot_tell"
    smallest_change: float | None = None
    beyond: list[Literal["a", "b"]] = []
    reason: str | None = None
    indicative: list[Literal["a", "b"]] = []


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How busy the machine of a side was before its calls: the highest of its runs."""

    load_1m: float | None
    cores: int | None


class StoppedSide(msgspec.Struct, frozen=True, kw_only=True):
    """A side that asked no further once its tier was decided: the results set the number of its calls."""

    side: Literal["a", "b"]
    n_asked: int
    n_not_needed: int


class PairComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One target of A beside one of B. The times are null where they cannot be compared. `stopped` names the sides that
    ended early on purpose; rates over what they left out have no interval."""

    target_a: str
    target_b: str
    n_shared: int
    only_in_a: list[str]
    only_in_b: list[str]
    figures: list[Figure]
    rates: dict[str, PairedRate]
    latency_ms: PairedShift | None
    ttft_ms: PairedShift | None
    output_tokens: PairedShift | None
    flips: list[Flip]
    unanswered: list[Unanswered]
    stopped: list[StoppedSide] = []
    load_a: Load | None = None
    load_b: Load | None = None

    @property
    def shifts(self) -> dict[str, PairedShift]:
        found = {"latency_ms": self.latency_ms, "ttft_ms": self.ttft_ms, "output_tokens": self.output_tokens}
        return {name: shift for name, shift in found.items() if shift is not None}


class RuleFinding(msgspec.Struct, frozen=True, kw_only=True):
    """How one rule of the gate fared on one pair. `change` is in the figure's own unit, or in per cent of A."""

    rule: str
    target_a: str
    target_b: str
    outcome: RuleOutcome
    a: float | None = None
    b: float | None = None
    change: float | None = None
    p_holm: float | None = None
    reason: str


class SideInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which run stands on a side; several have their ids and paths joined by commas, in `n_runs` parts."""

    run_id: str
    path: str
    started_at_ms: float
    n_unreadable_lines: int
    n_runs: int = 1


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int
    a: SideInfo
    b: SideInfo
    forced: bool
    latency_compared: bool
    differences: list[Difference]
    only_in_a: list[str]
    only_in_b: list[str]
    pairs: list[PairComparison]
    rules: list[RuleFinding]

    @property
    def gate_failed(self) -> bool:
        # A rule that cannot be judged has not been met: a model that is down must not pass.
        return any(rule.outcome in ("broken", "not_judged") for rule in self.rules)


class Metric(NamedTuple):
    """One figure of a group. `evidence` names the paired test that can call its change significant."""

    name: str
    unit: Literal["rate", "ms", "count", "tps", "usd", "tier"]
    read: Callable[[GroupSummary], float | None]
    evidence: str | None = None

    @property
    def is_timing(self) -> bool:
        return self.unit in ("ms", "tps")


def _pass_rate(group: GroupSummary) -> float | None:
    passed, judged, _ = rate_answers(group)
    return passed / judged if judged else None


def _pass_rate_of_planned(group: GroupSummary) -> float | None:
    """Of the bare prompts alone, where these were asked in the user's own context too."""
    if not group.bare:
        return group.pass_rate_scheduled
    planned = sum(suite.n_scheduled_judged for suite in group.bare)
    passed = sum(suite.n_passed for suite in group.bare)
    return passed / planned if planned else None


METRICS = {
    metric.name: metric
    for metric in (
        Metric("objective_pass_rate", "rate", _pass_rate, "objective_pass_rate"),
        Metric("pass_rate_scheduled", "rate", _pass_rate_of_planned, "pass_rate_scheduled"),
        Metric("success_rate_ok", "rate", lambda g: g.success_rate_ok),
        Metric("tool_use_rate", "rate", lambda g: g.tool_use.rate, "tool_use_rate"),
        Metric("tier", "tier", lambda g: g.tool_use.tier),
        Metric("argument_accuracy", "rate", lambda g: g.argument_accuracy.rate if g.argument_accuracy else None),
        Metric("restraint", "rate", lambda g: g.restraint.rate, "restraint"),
        Metric("tasks", "rate", lambda g: g.tasks.rate, "tasks"),
        Metric("agreement", "rate", lambda g: g.agreement.rate if g.agreement else None, "agreement"),
        Metric("p50_ms", "ms", lambda g: g.timed_ms.p50, "latency_ms"),
        Metric("p95_ms", "ms", lambda g: g.timed_ms.p95), Metric("p99_ms", "ms", lambda g: g.timed_ms.p99),
        Metric("mean_ms", "ms", lambda g: g.timed_ms.mean),
        Metric("ttft_p50_ms", "ms", lambda g: g.ttft_ms.p50, "ttft_ms"),
        Metric("ttft_p95_ms", "ms", lambda g: g.ttft_ms.p95),
        Metric("output_tps_p50", "tps", lambda g: g.output_tps.p50),
        Metric("output_tokens", "count", lambda g: g.output_tokens, "output_tokens"),
        Metric("cost_usd", "usd", lambda g: g.cost_usd), Metric("n_ok", "count", lambda g: g.n_ok),
        Metric("n_error", "count", lambda g: g.n_error), Metric("n_timeouts", "count", lambda g: g.n_timeouts),
        Metric("n_truncated", "count", lambda g: g.n_truncated_by_max_tokens),
    )
}  # fmt: skip
