"""The gate: rules that a change must not break.

A rule names what must *not* happen: `objective_pass_rate<-0.05` is broken when B's rate is more than 0.05 below A's. A
rate that has a paired test is that of the paired prompts: what one side left unanswered must not flatter the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from clawgauge.compare.findings import METRICS, Metric, PairComparison, RuleFinding, RuleOutcome
from clawgauge.compare.paired import PairedValues
from clawgauge.errors import ConfigError
from clawgauge.records import PromptKey
from clawgauge.stats import above_zero_p, holm
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

    def chance(self, families: PairedValues) -> float:
        """How likely luck alone takes the change this far beyond the limit.

        Rates count as they are; of times and counts, whether a prompt is beyond the limit: one may be ten times slower.
        """
        factor, offset = (1 + self.limit / 100, 0.0) if self.relative else (1.0, self.limit)
        direction = -1 if self.operator in ("<", "<=") else 1
        beyond = [[direction * (b - factor * a - offset) for a, b in family] for family in families]
        if self.metric.unit != "rate":
            beyond = [[math.copysign(abs(one) > _TOLERANCE, one) for one in family] for family in beyond]
        return above_zero_p([math.fsum(family) for family in beyond])


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


def require_judgeable(
    rules: Sequence[Rule], asking: Mapping[str, Sequence[Collection[PromptKey]]], *, in_turns: bool
) -> None:
    """Refuse rules that no outcome could break or meet. `asking` holds the families that tell of a metric, by pair."""
    for rule in rules:
        if rule.significant and rule.metric.is_timing and not in_turns:
            raise ConfigError(
                f"--fail-on {rule.text!r} cannot be judged: the two were not asked in turns, and one run a side cannot "
                "tell a model from its machine's mood; ask both with run --interleave, or leave (significant) out"
            )
        n_families = min((len(families) for families in asking.get(rule.metric.name, ())), default=None)
        if n_families == 0:
            raise ConfigError(
                f"--fail-on {rule.text!r} cannot be judged: no prompt that both were to answer tells of it; "
                "compare runs of a suite that does, or leave the rule out"
            )
        if rule.significant and n_families and above_zero_p([1.0] * n_families) >= SIGNIFICANCE_LEVEL:
            raise ConfigError(
                f"--fail-on {rule.text!r} cannot be judged: if all of {plural(n_families, 'prompt')} moved, luck could "
                "still be why; ask more prompts, or leave (significant) out"
            )


def say_untested(rules: Sequence[Rule]) -> list[str]:
    """A warning for each rule that luck alone can break. Counts and sums are what they are."""
    warnings = []
    for rule in rules:
        if rule.significant or rule.metric.unit in ("count", "usd"):
            continue
        advice = (
            "add (significant)" if rule.metric.evidence else f"no test tells luck from a change of {rule.metric.name}"
        )
        warnings.append(f"--fail-on {rule.text!r} asks for no evidence, so luck alone can break it: {advice}")
    return warnings


def apply_rules(
    rules: Sequence[Rule], pairs: Sequence[PairComparison], values: Sequence[Mapping[str, PairedValues]]
) -> list[RuleFinding]:
    """Every rule on every pair; `values` are those of each pair. Evidence is corrected for all that is asked of it."""
    asked = [(rule, pair, _families(rule, own)) for rule in rules for pair, own in zip(pairs, values, strict=True)]
    tested = [place for place, (rule, _, families) in enumerate(asked) if rule.significant and families]
    adjusted = dict(zip(tested, holm([asked[place][0].chance(asked[place][2]) for place in tested]), strict=True))
    return [
        _apply(rule, pair, len(families), adjusted.get(place)) for place, (rule, pair, families) in enumerate(asked)
    ]


def _families(rule: Rule, values: Mapping[str, PairedValues]) -> PairedValues:
    return values.get(rule.metric.evidence, ()) if rule.metric.evidence else ()


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


def _apply(rule: Rule, pair: PairComparison, n_families: int, p_holm: float | None) -> RuleFinding:
    a, b = _sides(rule.metric, pair)
    change = _change(a, b, relative=rule.relative)
    outcome, reason = _judge(rule, pair, change, n_families, p_holm)
    return RuleFinding(
        rule=rule.text,
        target_a=pair.target_a,
        target_b=pair.target_b,
        outcome=outcome,
        a=a,
        b=b,
        change=change if change is None or math.isfinite(change) else None,
        p_holm=p_holm,
        reason=reason,
    )


def _judge(
    rule: Rule, pair: PairComparison, change: float | None, n_families: int, p_holm: float | None
) -> tuple[RuleOutcome, str]:
    if change is None:
        return "not_judged", f"{_say_absent(rule.metric, pair)}; a rule that cannot be judged is not met"
    if not rule.is_crossed_by(change):
        return "held", "within the limit"
    if not rule.significant:
        return "broken", "beyond the limit"
    if p_holm is None:
        return "not_judged", "beyond the limit, and no prompt has an outcome on both sides to test it on"
    paired = f"{word_p(p_holm)} over {plural(n_families, 'prompt')}"
    if p_holm < SIGNIFICANCE_LEVEL:
        return "broken", f"beyond the limit, and more than luck: {paired}"
    return "not_significant", f"beyond the limit, but not enough evidence: {paired}"


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


def _change(a: float | None, b: float | None, *, relative: bool) -> float | None:
    if a is None or b is None:
        return None
    if not relative or a == b:
        return b - a
    return (b - a) / abs(a) * 100 if a else math.copysign(math.inf, b - a)
