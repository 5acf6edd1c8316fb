"""The gate: rules that a change must not break.

A rule names what must *not* happen: `objective_pass_rate<-0.05` is broken when B's rate is more than 0.05 below A's. A
rate that has a paired test is that of the paired prompts: what one side left unanswered must not flatter the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from clawgauge.compare.findings import METRICS, Metric, PairComparison, PairedRate, PairedShift, RuleFinding
from clawgauge.errors import ConfigError
from clawgauge.words import plural, word_p

SIGNIFICANCE_LEVEL = 0.05
# 0.85 − 0.9 is not −0.05 in floats; a change within this of a limit is on it.
_TOLERANCE = 1e-9
_RULE = re.compile(
    r"\s*(?P<metric>\w+)\s*(?P<operator><=|>=|<|>)\s*(?P<limit>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"\s*(?P<percent>%?)\s*(?P<significant>\(significant\))?\s*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit on one figure's change; with `relative` in per cent of A."""

    text: str
    metric: Metric
    operator: str
    limit: float
    relative: bool
    significant: bool

    def is_crossed_by(self, change: float) -> bool:
        """Whether `change` does what the rule forbids."""
        beyond = change - self.limit
        if self.operator in ("<", "<="):
            beyond = -beyond
        return beyond >= -_TOLERANCE if "=" in self.operator else beyond > _TOLERANCE


def parse_rule(text: str, *, significant: bool = False) -> Rule:
    """Read a rule, or say what is wrong with it. `significant` demands evidence whether or not the rule does."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--fail-on {text!r} is no rule: write METRIC OP NUMBER, as in 'objective_pass_rate<-0.05' or 'p50_ms>20%'"
        )
    metric = METRICS.get(match["metric"])
    if metric is None:
        raise ConfigError(
            f"--fail-on {text!r}: there is no metric {match['metric']!r}; choose from {', '.join(METRICS)}"
        )
    demands = significant or bool(match["significant"])
    if demands and metric.evidence is None:
        testable = ", ".join(name for name, other in METRICS.items() if other.evidence)
        raise ConfigError(
            f"--fail-on {text!r}: no test tells whether a change of {metric.name} is significant; "
            f"it can be asked of {testable}"
        )
    words = " ".join(text.split())
    if demands and not match["significant"]:
        words += " (significant)"
    return Rule(words, metric, match["operator"], float(match["limit"]), bool(match["percent"]), demands)


def apply_rules(rules: Sequence[Rule], pairs: Sequence[PairComparison]) -> list[RuleFinding]:
    """Every rule on every pair."""
    return [_apply(rule, pair) for rule in rules for pair in pairs]


def refuse_missing(rules: Sequence[Rule], targets: Sequence[str]) -> list[RuleFinding]:
    """Every rule on every target that has no partner in B: none of them can be judged."""
    return [
        RuleFinding(
            rule=rule.text,
            target_a=target,
            target_b=target,
            outcome="not_judged",
            a=None,
            b=None,
            change=None,
            p_holm=None,
            reason="B has no such target, and a rule that cannot be judged is not met; "
            "--map says which targets belong together",
        )
        for rule in rules
        for target in targets
    ]


def _apply(rule: Rule, pair: PairComparison) -> RuleFinding:
    evidence = find_evidence(pair, rule.metric)
    a, b = _sides(rule.metric, pair)
    change = _change(a, b, relative=rule.relative)

    def finding(outcome: str, reason: str) -> RuleFinding:
        return RuleFinding(
            rule=rule.text,
            target_a=pair.target_a,
            target_b=pair.target_b,
            outcome=outcome,  # type: ignore[arg-type]
            a=a,
            b=b,
            change=change if change is None or math.isfinite(change) else None,
            p_holm=evidence.p_holm if evidence else None,
            reason=reason,
        )

    if change is None:
        return finding("not_judged", f"{_say_absent(rule.metric, pair)}; a rule that cannot be judged is not met")
    if not rule.is_crossed_by(change):
        return finding("held", "within the limit")
    if not rule.significant:
        return finding("broken", "beyond the limit")
    if evidence is None or not evidence.n_prompts:
        return finding("not_judged", "beyond the limit, and no prompt has an outcome on both sides to test it on")
    paired = f"{word_p(evidence.p_holm)} over {plural(evidence.n_prompts, 'prompt')}"
    if evidence.p_holm < SIGNIFICANCE_LEVEL and (evidence.difference or 0) * change > 0:
        return finding("broken", f"beyond the limit, and more than luck: {paired}")
    return finding("not_significant", f"beyond the limit, but not enough evidence: {paired}")


def _sides(metric: Metric, pair: PairComparison) -> tuple[float | None, float | None]:
    """The two figures a rule is about: of the same prompts wherever a paired rate says so."""
    if metric.unit == "rate" and metric.evidence is not None:
        rate = pair.rates.get(metric.evidence)
        return (rate.rate_a, rate.rate_b) if rate else (None, None)
    return _summed_up(metric, pair)


def _summed_up(metric: Metric, pair: PairComparison) -> tuple[float | None, float | None]:
    return next((figure.a, figure.b) for figure in pair.figures if figure.name == metric.name)


def _say_absent(metric: Metric, pair: PairComparison) -> str:
    a, b = _summed_up(metric, pair)
    if a is None and b is None:
        return f"neither A nor B has {metric.name}"
    if a is None or b is None:
        return f"{'A' if a is None else 'B'} has no {metric.name}"
    return f"no prompt has {metric.name} on both sides"


def find_evidence(pair: PairComparison, metric: Metric) -> PairedRate | PairedShift | None:
    """The paired test behind a metric, where there is one."""
    shifts = {"latency_ms": pair.latency_ms, "ttft_ms": pair.ttft_ms, "output_tokens": pair.output_tokens}
    if metric.evidence is None:
        return None
    return shifts[metric.evidence] if metric.evidence in shifts else pair.rates.get(metric.evidence)


def _change(a: float | None, b: float | None, *, relative: bool) -> float | None:
    if a is None or b is None:
        return None
    if not relative or a == b:
        return b - a
    return (b - a) / abs(a) * 100 if a else math.copysign(math.inf, b - a)
