"""The gate: rules that a change must not break.

A rule names what must *not* happen: `objective_pass_rate<-0.05` is broken when B's rate is more
than 0.05 below A's. A rate that has a paired test is that of the paired prompts: what one side left
unanswered must not flatter the other."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product
from typing import Literal, NamedTuple

from clawgauge.compare.findings import (
    METRICS,
    ComparedFigure,
    Metric,
    PairComparison,
    Paired,
    PairedRate,
    PairedShift,
    RuleFinding,
    RuleOutcome,
)
from clawgauge.compare.pairing import AGREEMENT, Pair, SharedPrompt, find_plan, find_rate_prompts
from clawgauge.compare.rates import OUTCOMES
from clawgauge.compare.sides import Side
from clawgauge.compare.times import Values, can_test_times
from clawgauge.errors import ConfigError
from clawgauge.records import PromptKey
from clawgauge.stats.paired import SMALLEST_P, above_zero_p, holm
from clawgauge.stats.proportions import Z95
from clawgauge.words import plural, word_p

SIGNIFICANCE_LEVEL = 0.05
# 0.85 − 0.9 is not −0.05 in floats; a change within this of a limit is on it.
_TOLERANCE = 1e-9
_SIGNIFICANT = "(significant)"
_RULE = re.compile(
    r"\s*(?P<metric>\w+)\s*(?P<operator><=|>=|<|>)"
    r"\s*(?P<limit>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"\s*(?P<percent>%?)\s*(?P<significant>\(significant\))?\s*",
    re.ASCII,
)


class Rule(NamedTuple):
    """One limit on one figure's change; with `relative` in per cent of A."""

    text: str
    metric: Metric
    operator: str
    limit: float
    relative: bool
    significant: bool

    @property
    def direction(self) -> int:
        """1 where a rise is forbidden, -1 where a fall is."""
        return -1 if self.operator in ("<", "<=") else 1

    def measure(self, a: float, b: float) -> float:
        """The change in the rule's own unit; infinite where it is a share of nothing."""
        if not self.relative or a == b:
            return b - a
        if a == 0:
            return math.copysign(math.inf, b - a)
        return (b - a) / abs(a) * 100

    def is_crossed_by(self, change: float) -> bool:
        beyond = self.direction * (change - self.limit)
        if "=" in self.operator:
            return beyond >= -_TOLERANCE
        return beyond > _TOLERANCE

    def chance_of_rates(self, families: Sequence[Values]) -> float:
        """How likely luck alone takes rates this far beyond the limit, from both sides of every
        prompt, by family."""
        factor = 1.0
        offset = self.limit
        if self.relative:
            factor = 1 + self.limit / 100
            offset = 0.0
        sums = []
        for family in families:
            beyond = [self.direction * (b - factor * a - offset) for a, b in family]
            sums.append(math.fsum(beyond))
        return above_zero_p(sums)

    def chance_of_shift(self, shift: PairedShift) -> float | None:
        """The same for a time or a count, from how far its interval reaches towards the limit; None
        without one."""
        estimate = shift.difference
        interval = shift.ci95
        limit = self.limit
        if self.relative:
            estimate = shift.ratio
            interval = shift.ratio_ci95
            limit = 1 + self.limit / 100
        if estimate is None or interval is None:
            return None
        low, high = interval
        nearest = low if self.direction > 0 else high
        beyond = self.direction * (estimate - limit)
        error = self.direction * (estimate - nearest) / Z95
        chance = _tail_chance(beyond, error)
        # Prompts that all moved alike leave an interval of no width, which must not claim
        # certainty.
        return max(chance, 0.5**shift.n_prompts, SMALLEST_P)


def _tail_chance(beyond: float, error: float) -> float:
    """How likely luck alone takes a figure of this standard error so far beyond its limit."""
    if error <= 0:
        return float(beyond <= _TOLERANCE)
    return 0.5 * math.erfc(beyond / error / math.sqrt(2))


def parse_rule(text: str, *, significant: bool = False) -> Rule:
    """Read a rule, or say what is wrong with it. `significant` demands evidence whether or not the
    rule does."""
    match = _RULE.fullmatch(text)
    if match is None:
        example = "write METRIC OP NUMBER, as in 'objective_pass_rate<-0.05' or 'p50_ms>20%'"
        raise ConfigError(f"--fail-on {text!r} is no rule: {example}")
    metric = METRICS.get(match["metric"])
    if metric is None:
        choices = ", ".join(METRICS)
        raise ConfigError(
            f"--fail-on {text!r}: there is no metric {match['metric']!r}; choose from {choices}"
        )
    is_significant = significant or bool(match["significant"])
    if is_significant and metric.evidence is None:
        testable = ", ".join(name for name, other in METRICS.items() if other.evidence)
        raise ConfigError(
            f"--fail-on {text!r}: no test tells whether a change of {metric.name} is significant; "
            f"it can be asked of {testable}"
        )
    rule_text = " ".join(text.split())
    if is_significant and not match["significant"]:
        rule_text = f"{rule_text} {_SIGNIFICANT}"
    return Rule(
        text=rule_text,
        metric=metric,
        operator=match["operator"],
        limit=float(match["limit"]),
        relative=bool(match["percent"]),
        significant=is_significant,
    )


def require_judgeable(rules: Sequence[Rule], a: Side, b: Side, pairs: Sequence[Pair]) -> None:
    """Refuse the rules that no outcome could break."""
    for rule, pair in product(rules, pairs):
        problem = _find_problem(rule, a, b, pair)
        if problem is not None:
            raise ConfigError(f"--fail-on {rule.text!r} cannot be judged: {problem}")


def _find_problem(rule: Rule, a: Side, b: Side, pair: Pair) -> str | None:
    """Why no outcome of this pair could break the rule, and what to do; None where one could."""
    if rule.significant and rule.metric.is_timing and not can_test_times(a, b):
        return (
            "the two were not asked in turns, and fewer than three days a side cannot tell a model "
            "from its machine's mood; ask both with run --interleave, run both on each of three "
            f"days or more, or leave {_SIGNIFICANT} out"
        )
    n_families = len(_group_by_family(rule.metric, a, b, pair))
    if not n_families:
        return (
            "no prompt that both were to answer tells of it; compare runs of a suite that does, "
            "or leave it out"
        )
    if rule.significant and not _are_enough(n_families):
        unit = "session" if rule.metric.name == AGREEMENT else "prompt"
        return (
            f"if all of {plural(n_families, unit)} moved, luck could still be why; ask more "
            f"{unit}s, or leave {_SIGNIFICANT} out"
        )
    return None


def _are_enough(n_families: int) -> bool:
    """Whether so many families that all moved alike would be more than luck."""
    return above_zero_p([1.0] * n_families) < SIGNIFICANCE_LEVEL


def _group_by_family(metric: Metric, a: Side, b: Side, pair: Pair) -> list[list[SharedPrompt]]:
    """The prompts that tell of a metric, those of one family together."""
    rate_prompts = find_rate_prompts(a, b, pair)
    family_of = rate_prompts.family_of(metric.name)
    plan = find_plan(a, b)
    families: dict[PromptKey, list[SharedPrompt]] = {}
    for shared in rate_prompts.by_rate.get(metric.name, pair.shared):
        family = family_of(plan.key(shared))
        families.setdefault(family, []).append(shared)
    return list(families.values())


def say_untested(rules: Sequence[Rule]) -> list[str]:
    """A warning for each rule that luck alone can break. Counts and sums are what they are."""
    warnings = []
    for rule in rules:
        if rule.significant or rule.metric.unit in ("count", "usd"):
            continue
        advice = f"no test tells luck from a change of {rule.metric.name}"
        if rule.metric.evidence:
            advice = f"add {_SIGNIFICANT}"
        warnings.append(
            f"--fail-on {rule.text!r} asks for no evidence, so luck alone can break it: {advice}"
        )
    return warnings


def apply_rules(
    rules: Sequence[Rule],
    a: Side,
    b: Side,
    pairs: Sequence[Pair],
    compared: Sequence[PairComparison],
) -> list[RuleFinding]:
    """Every rule on every pair. Evidence is corrected for all that is asked of it."""
    cases = []
    chances = []
    for rule in rules:
        for pair, comparison in zip(pairs, compared, strict=True):
            chance = None
            if rule.significant:
                chance = _find_chance(rule, a, b, pair, comparison)
            cases.append((rule, comparison))
            chances.append(chance)
    findings = []
    for (rule, comparison), p_holm in zip(cases, _correct(chances), strict=True):
        findings.append(_apply(rule, comparison, p_holm))
    return findings


def _correct(chances: Sequence[float | None]) -> list[float | None]:
    """The chances, corrected by Holm for as many as there are; None stays None."""
    corrected = iter(holm([chance for chance in chances if chance is not None]))
    return [None if chance is None else next(corrected) for chance in chances]


def _find_chance(
    rule: Rule, a: Side, b: Side, pair: Pair, comparison: PairComparison
) -> float | None:
    """How likely luck alone takes a pair this far beyond a rule's limit; None where there is
    nothing to test."""
    evidence = _find_evidence(comparison, rule.metric)
    if isinstance(evidence, PairedShift):
        return rule.chance_of_shift(evidence)
    if evidence is None or evidence.ci95 is None:
        return None  # no prompt, or so many as the results of a side themselves decided
    families = _rates_by_family(rule.metric, a, b, pair)
    if not _are_enough(len(families)):
        return None
    return rule.chance_of_rates(families)


def _rates_by_family(
    metric: Metric, a: Side, b: Side, pair: Pair
) -> list[list[tuple[float, float]]]:
    """The rates of both sides, of every prompt that has a trial on both."""
    outcome = OUTCOMES[metric.name]
    families = []
    for prompts in _group_by_family(metric, a, b, pair):
        rates = []
        for shared in prompts:
            trials_a = outcome(shared.a)
            trials_b = outcome(shared.b)
            if trials_a.trials and trials_b.trials:
                rate_a = trials_a.passes / trials_a.trials
                rate_b = trials_b.passes / trials_b.trials
                rates.append((rate_a, rate_b))
        if rates:
            families.append(rates)
    return families


def refuse_missing(rules: Sequence[Rule], targets: Sequence[str]) -> list[RuleFinding]:
    """The rules on targets of A that B does not have."""
    reason = (
        "B has no such target, and a rule that cannot be judged is not met; --map says which "
        "belong together"
    )
    findings = []
    for rule, target in product(rules, targets):
        finding = RuleFinding(
            rule=rule.text, target_a=target, target_b=target, outcome="not_judged", reason=reason
        )
        findings.append(finding)
    return findings


def _apply(rule: Rule, pair: PairComparison, p_holm: float | None) -> RuleFinding:
    figure = _find_figure(rule.metric, pair)
    a, b = _find_values(rule.metric, pair, figure)
    change = None
    if a is not None and b is not None:
        change = rule.measure(a, b)
    outcome, reason = _judge(rule, figure, _find_evidence(pair, rule.metric), change, p_holm)
    if pair.asked == "decision":
        reason += f"; over {plural(pair.n_shared, 'prompt')} that both sides were asked"
    is_finite = change is not None and math.isfinite(change)
    return RuleFinding(
        rule=rule.text,
        target_a=pair.target_a,
        target_b=pair.target_b,
        outcome=outcome,
        a=a,
        b=b,
        change=change if is_finite else None,
        p_holm=p_holm,
        reason=reason,
    )


def _find_figure(metric: Metric, pair: PairComparison) -> ComparedFigure:
    for figure in pair.figures:
        if figure.name == metric.name:
            return figure
    raise LookupError(metric.name)  # a rule on times is refused where they are not compared


def _find_values(
    metric: Metric, pair: PairComparison, figure: ComparedFigure
) -> tuple[float | None, float | None]:
    """What a rule compares: of the same prompts wherever a paired rate says so."""
    if metric.unit != "rate" or metric.evidence is None:
        return figure.a, figure.b
    rate = pair.rates.get(metric.evidence)
    if rate is None:
        return None, None
    return rate.rate_a, rate.rate_b


def _judge(
    rule: Rule,
    figure: ComparedFigure,
    evidence: Paired | None,
    change: float | None,
    p_holm: float | None,
) -> tuple[RuleOutcome, str]:
    problem = _find_unjudged(rule, figure, change)
    is_crossed = change is not None and rule.is_crossed_by(change)
    if problem is None and is_crossed and rule.significant and p_holm is None:
        lacking = "too few prompts have an outcome on both sides to test it on"
        if isinstance(evidence, PairedRate) and evidence.test == "bets":
            lacking = "the results of a side decided how many prompts it was asked"
        elif evidence is not None and evidence.reason:
            lacking = evidence.reason
        problem = f"beyond the limit, but {lacking}"
    if problem is not None:
        return "not_judged", f"{problem}; a rule that cannot be judged is not met"
    if not is_crossed:
        return "held", "within the limit"
    if p_holm is None:
        return "broken", "beyond the limit"
    n_prompts = evidence.n_prompts if evidence else 0
    test = f"{word_p(p_holm)} over {plural(n_prompts, 'prompt')}"
    if p_holm < SIGNIFICANCE_LEVEL:
        return "broken", f"beyond the limit, and more than luck: {test}"
    return "not_significant", f"beyond the limit, but not enough evidence: {test}"


def _find_unjudged(rule: Rule, figure: ComparedFigure, change: float | None) -> str | None:
    """Why a figure cannot be held against its limit; None where it can."""
    name = rule.metric.name
    if change is None:
        if figure.a is None and figure.b is None:
            return f"neither A nor B has {name}"
        if figure.a is None:
            return f"A has no {name}"
        if figure.b is None:
            return f"B has no {name}"
        return f"no prompt has {name} on both sides"
    if figure.reason is not None:
        return figure.reason
    # A timeout took longer than its deadline: the side whose true figure could yet turn the
    # outcome.
    rises_out = rule.is_crossed_by(change) == (rule.direction > 0)
    doubtful: Literal["a", "b"] = "a" if rises_out else "b"
    if doubtful in figure.beyond:
        return f"{name} of {doubtful.upper()} lies among its timeouts"
    return None


def _find_evidence(pair: PairComparison, metric: Metric) -> Paired | None:
    """The paired test that can call a change of this metric significant."""
    evidence: dict[str, Paired] = {**pair.rates, **pair.shifts}
    return evidence.get(metric.evidence or "")
