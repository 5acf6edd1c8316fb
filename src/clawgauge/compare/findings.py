"""What a comparison found, as frozen structs, and the figures that a gate may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from clawgauge.figures import MODEL_FIGURES, Figure, Unit
from clawgauge.records import GroupSummary

Scope: TypeAlias = Literal["verdicts", "latency", "note"]
Verdict: TypeAlias = Literal["changed", "no_change_seen", "cannot_tell"]
RuleOutcome: TypeAlias = Literal["held", "broken", "not_significant", "not_judged"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """`verdicts` spoils every comparison, `latency` only that of times; a `note` is worth knowing,
    no more."""

    scope: Scope
    what: str
    a: str
    b: str
    advice: str | None = None
    target: str | None = None


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """What was found over the prompts that both sides have: B − A, and how likely luck alone makes
    it.

    `ci95` agrees with `p`, neither corrected for other pairs; `ci_holm` agrees with `p_holm`, both
    corrected, and so do `verdict` and `smallest_change`, the smallest change that would have been
    found in 80% of cases. The verdict is `no_change_seen` where the move is small and a change of
    25 points (25%) would have been found. `reason` says why nothing can be told."""

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
    """Pass rates: `rate_a` and `rate_b` are means of per-prompt rates. `only_a` and `only_b` count
    the prompts on which one side was better than the other. `bets` hold whenever a side stopped;
    then there is no interval."""

    n_trials_a: int
    n_trials_b: int
    rate_a: float | None
    rate_b: float | None
    only_a: int
    only_b: int
    test: Literal["mcnemar_exact", "sign_flip", "bets"]


class PairedShift(Paired, frozen=True, kw_only=True):
    """How far a measured figure moved, prompt by prompt: the median of the per-prompt differences
    and ratios.

    `test` is how it was told from luck: by the `sign` of each prompt's difference; for times, by
    the signed ranks of calls made `side_by_side`, by the differences `by_day` of the days that both
    sides ran on, or by the `means_of_days`. None is not at all: `p` is 1, without an interval.
    `smallest_change` is a share of A."""

    median_a: float | None
    median_b: float | None
    ratio: float | None
    ratio_ci95: tuple[float, float] | None
    n_lower: int
    n_higher: int
    n_cold_left_out: int = 0
    test: Literal["sign", "side_by_side", "by_day", "means_of_days"] | None = None
    ratio_ci_holm: tuple[float, float] | None = None
    n_days_a: int | None = None
    n_days_b: int | None = None
    n_shared_days: int | None = None


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


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as a summary defines it, over the shared prompts. Its verdict is that of the paired
    test behind it, if there is one. A percentile of the sides `beyond` lies among their timeouts:
    longer than the deadline given. One of the sides `indicative` rests on too few calls. `reason`
    says why the two values cannot be set against each other at all."""

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
    """A side that asked no further once its tier was decided: the results set the number of its
    calls."""

    side: Literal["a", "b"]
    n_asked: int
    n_not_needed: int


class PairComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One target of A beside one of B. The times are null where they cannot be compared. `stopped`
    names the sides that ended early on purpose; rates over what they left out have no interval.
    `asked` is `decision` where the answers of a side decided what it was asked: then `n_shared` is
    how many prompts both were asked, and no rate has an interval."""

    target_a: str
    target_b: str
    n_shared: int
    only_in_a: list[str]
    only_in_b: list[str]
    figures: list[ComparedFigure]
    rates: dict[str, PairedRate]
    latency_ms: PairedShift | None
    ttft_ms: PairedShift | None
    output_tokens: PairedShift | None
    flips: list[Flip]
    unanswered: list[Unanswered]
    stopped: list[StoppedSide] = []
    load_a: Load | None = None
    load_b: Load | None = None
    asked: Literal["list", "decision"] = "list"

    @property
    def shifts(self) -> dict[str, PairedShift]:
        """The shifts that were measured, by name."""
        shifts = {}
        if self.latency_ms is not None:
            shifts["latency_ms"] = self.latency_ms
        if self.ttft_ms is not None:
            shifts["ttft_ms"] = self.ttft_ms
        if self.output_tokens is not None:
            shifts["output_tokens"] = self.output_tokens
        return shifts


class RuleFinding(msgspec.Struct, frozen=True, kw_only=True):
    """How one rule of the gate fared on one pair. `change` is in the figure's own unit, or in per
    cent of A."""

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
    """Which run stands on a side; several have their ids and paths joined by commas, in `n_runs`
    parts."""

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
    """A figure that a gate may name. `evidence` names the paired test that can call its change
    significant."""

    figure: Figure[GroupSummary]
    evidence: str | None = None

    @property
    def name(self) -> str:
        return self.figure.name

    @property
    def unit(self) -> Unit:
        return self.figure.unit

    @property
    def is_timing(self) -> bool:
        return self.unit in ("ms", "tps")


# In the order in which a comparison has them, and with the test behind each.
_EVIDENCE: Mapping[str, str | None] = {
    "objective_pass_rate": "objective_pass_rate",
    "pass_rate_scheduled": "pass_rate_scheduled",
    "success_rate_ok": None,
    "tool_use_rate": "tool_use_rate",
    "tier": None,
    "argument_accuracy": None,
    "restraint": "restraint",
    "tasks": "tasks",
    "agreement": "agreement",
    "p50_ms": "latency_ms",
    "p95_ms": None,
    "p99_ms": None,
    "mean_ms": None,
    "ttft_p50_ms": "ttft_ms",
    "ttft_p95_ms": None,
    "output_tps_p50": None,
    "output_tokens": "output_tokens",
    "cost_usd": None,
    "n_ok": None,
    "n_error": None,
    "n_timeouts": None,
    "n_truncated": None,
}
METRICS = {name: Metric(MODEL_FIGURES[name], evidence) for name, evidence in _EVIDENCE.items()}
