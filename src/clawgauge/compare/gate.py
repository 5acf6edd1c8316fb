"""The gate: rules that a change must not break.

A rule names what must *not* happen: `objective_pass_rate<-0.05` is broken when B's rate is more than 0.05 below A's. A
rate that has a paired test is that of the paired prompts: what one side left unanswered must not flatter the other."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product
from typing import Literal, NamedTuple

from clawgauge.compare import findings
from clawgauge.compare.findings import (
    METRICS,
    ComparedFigure,
    Metric,
    PairComparison,
    Paired,
    PairedShift,
    RuleFinding,
)
from clawgauge.compare.paired import MIN_RUNS, OUTCOMES, Sides
from clawgauge.compare.sides import Pair, RunSide, SharedPrompt, find_telling
from clawgauge.errors import ConfigError
from clawgauge.records import PromptKey
from clawgauge.stats.paired import SMALLEST_P, above_zero_p, holm
from clawgauge.stats.proportions import Z95
from clawgauge.words import plural, word_p

SIGNIFICANCE_LEVEL = 0.05
# 0.85 − 0.9 is not −0.05 in floats; a change within this of a limit is on it.
_TOLERANCE = 1e-9
_RULE = re.compile(
    r"\s*(?P<metric>\w+)\s*(?P<operator><=|>=|<|>)\s*(?P<limit>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
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

    def measure(self, a: float, b: float) -> float:
        if not self.relative or a == b:
            return b - a
        return (b - a) / abs(a) * 100 if a else math.copysign(math.inf, b - a)

    def is_crossed_by(self, change: float) -> bool:
        beyond = self.direction * (change - self.limit)
        return beyond >= -_TOLERANCE if "=" in self.operator else beyond > _TOLERANCE

    def chance_of(self, families: Sequence[Sides]) -> float:
        """How likely luck alone takes rates this far beyond the limit, from both sides of every prompt, by family."""
        factor, offset = (1 + self.limit / 100, 0.0) if self.relative else (1.0, self.limit)
        sums = [
            math.fsum(self.direction * (b - factor * a - offset) for a, b in family)
            for family in families
        ]
        return above_zero_p(sums)

    def chance_of_shift(self, shift: PairedShift) -> float | None:
        """The same for a time or a count, from how far its interval reaches towards the limit; None without one."""
        middle, interval, limit = shift.difference, shift.ci95, self.limit
        if self.relative:
            middle, interval, limit = shift.ratio, shift.ratio_ci95, 1 + self.limit / 100
        if middle is None or interval is None:
            return None
        beyond = self.direction * (middle - limit)
        error = self.direction * (middle - interval[0 if self.direction > 0 else 1]) / Z95
        chance = (
            0.5 * math.erfc(beyond / error / math.sqrt(2))
            if error > 0
            else float(beyond <= _TOLERANCE)
        )
        # Prompts that all moved alike leave an interval of no width, which must not claim certainty.
        return max(chance, 0.5**shift.n_prompts, SMALLEST_P)

    @property
    def direction(self) -> int:
        """1 where a rise is forbidden, -1 where a fall is."""
        return -1 if self.operator in ("<", "<=") else 1


def parse_rule(text: str, *, significant: bool = False) -> Rule:
    """Read a rule, or say what is wrong with it. `significant` demands evidence whether or not the rule does."""
    match = _RULE.fullmatch(text)
    if match is None:
        example = "write METRIC OP NUMBER, as in 'objective_pass_rate<-0.05' or 'p50_ms>20%'"
        raise ConfigError(f"--fail-on {text!r} is no rule: {example}")
    metric = METRICS.get(match["metric"])
    if metric is None:
        wrong = f"there is no metric {match['metric']!r}; choose from {', '.join(METRICS)}"
        raise ConfigError(f"--fail-on {text!r}: {wrong}")
    demands = significant or bool(match["significant"])
    if demands and metric.evidence is None:
        testable = ", ".join(name for name, other in METRICS.items() if other.evidence)
        wrong = f"no test tells whether a change of {metric.name} is significant; it can be asked of {testable}"
        raise ConfigError(f"--fail-on {text!r}: {wrong}")
    words = " ".join(text.split()) + (
        " (significant)" if demands and not match["significant"] else ""
    )
    return Rule(
        words, metric, match["operator"], float(match["limit"]), bool(match["percent"]), demands
    )


def require_judgeable(rules: Sequence[Rule], a: RunSide, b: RunSide, pairs: Sequence[Pair]) -> None:
    """Refuse the rules that no outcome could break."""
    for rule, pair in product(rules, pairs):
        n_families, why = len(_find_families(rule.metric, a, b, pair)), None
        paired = (a is b and a.interleaved) or min(len(a.runs), len(b.runs)) >= MIN_RUNS
        if rule.significant and rule.metric.is_timing and not paired:
            mood = "the two were not asked in turns, and one run a side cannot tell a model from its machine's mood"
            why = f"{mood}; ask both with run --interleave, make three runs a side, or leave (significant) out"
        elif not n_families:
            why = "no prompt that both were to answer tells of it; compare runs of a suite that does, or leave it out"
        elif rule.significant and not _are_enough(n_families):
            luck = f"if all of {plural(n_families, 'prompt')} moved, luck could still be why"
            why = f"{luck}; ask more prompts, or leave (significant) out"
        if why is not None:
            raise ConfigError(f"--fail-on {rule.text!r} cannot be judged: {why}")


def _are_enough(n_families: int) -> bool:
    return above_zero_p([1.0] * n_families) < SIGNIFICANCE_LEVEL


def _find_families(metric: Metric, a: RunSide, b: RunSide, pair: Pair) -> list[list[SharedPrompt]]:
    telling, family = find_telling(a, b, pair)
    families: dict[PromptKey, list[SharedPrompt]] = {}
    for shared in telling.get(metric.name, pair.shared):
        families.setdefault(family(shared.key_b if b.config else shared.key_a), []).append(shared)
    return list(families.values())


def say_untested(rules: Sequence[Rule]) -> list[str]:
    """A warning for each rule that luck alone can break. Counts and sums are what they are."""
    return [
        f"--fail-on {rule.text!r} asks for no evidence, so luck alone can break it: "
        + (
            "add (significant)"
            if rule.metric.evidence
            else f"no test tells luck from a change of {rule.metric.name}"
        )
        for rule in rules
        if not rule.significant and rule.metric.unit not in ("count", "usd")
    ]


def apply_rules(
    rules: Sequence[Rule],
    a: RunSide,
    b: RunSide,
    pairs: Sequence[Pair],
    compared: Sequence[PairComparison],
) -> list[RuleFinding]:
    """Every rule on every pair. Evidence is corrected for all that is asked of it."""
    asked = [(rule, *both) for rule in rules for both in zip(pairs, compared, strict=True)]
    chances = [
        _find_chance(rule, a, b, pair, found) if rule.significant else None
        for rule, pair, found in asked
    ]
    adjusted = iter(holm([p for p in chances if p is not None]))
    return [
        _apply(rule, found, None if p is None else next(adjusted))
        for (rule, _, found), p in zip(asked, chances, strict=True)
    ]


def _find_chance(
    rule: Rule, a: RunSide, b: RunSide, pair: Pair, found: PairComparison
) -> float | None:
    """How likely luck alone takes a pair this far beyond a rule's limit; None where there is nothing to test."""
    evidence = _find_evidence(found, rule.metric)
    if isinstance(evidence, PairedShift):
        return rule.chance_of_shift(evidence)
    if evidence is None or evidence.ci95 is None:
        return None  # no prompt, or so many as the results of a side themselves decided
    outcome = OUTCOMES[rule.metric.name]
    trials = [
        [(outcome(s.a), outcome(s.b)) for s in family]
        for family in _find_families(rule.metric, a, b, pair)
    ]
    rates = [
        [(x.passes / x.trials, y.passes / y.trials) for x, y in one if x.trials and y.trials]
        for one in trials
    ]
    families = [family for family in rates if family]
    return rule.chance_of(families) if _are_enough(len(families)) else None


def refuse_missing(rules: Sequence[Rule], targets: Sequence[str]) -> list[RuleFinding]:
    reason = "B has no such target, and a rule that cannot be judged is not met; --map says which belong together"
    return [
        RuleFinding(
            rule=rule.text, target_a=target, target_b=target, outcome="not_judged", reason=reason
        )
        for rule, target in product(rules, targets)
    ]


def _apply(rule: Rule, pair: PairComparison, p_holm: float | None) -> RuleFinding:
    figure = next(figure for figure in pair.figures if figure.name == rule.metric.name)
    a, b = figure.a, figure.b
    if rule.metric.unit == "rate" and rule.metric.evidence is not None:
        # Of the same prompts wherever a paired rate says so.
        rate = pair.rates.get(rule.metric.evidence)
        a, b = (rate.rate_a, rate.rate_b) if rate else (None, None)
    change = None if a is None or b is None else rule.measure(a, b)
    outcome, reason = _judge(rule, figure, _find_evidence(pair, rule.metric), change, p_holm)
    return RuleFinding(
        rule=rule.text, target_a=pair.target_a, target_b=pair.target_b, outcome=outcome, a=a, b=b,
        change=change if change is None or math.isfinite(change) else None, p_holm=p_holm, reason=reason,
    )  # fmt: skip


def _judge(
    rule: Rule,
    figure: ComparedFigure,
    evidence: Paired | None,
    change: float | None,
    p_holm: float | None,
) -> tuple[findings.RuleOutcome, str]:
    name, why = rule.metric.name, None
    # A timeout took longer than its deadline: the side whose true figure could yet turn the outcome.
    crossed = change is not None and rule.is_crossed_by(change)
    doubtful: Literal["a", "b"] = "a" if crossed == (rule.direction > 0) else "b"
    if change is None:
        lacking = [side for side, value in (("A", figure.a), ("B", figure.b)) if value is None]
        why = f"{lacking[0]} has no {name}" if lacking else f"no prompt has {name} on both sides"
        why = f"neither A nor B has {name}" if len(lacking) == 2 else why
    elif figure.reason is not None:
        why = figure.reason
    elif doubtful in figure.beyond:
        why = f"{name} of {doubtful.upper()} lies among its timeouts"
    elif crossed and rule.significant and p_holm is None:
        reason = evidence and evidence.reason
        why = f"beyond the limit, but {reason or 'too few prompts have an outcome on both sides to test it on'}"
    if why is not None:
        return "not_judged", f"{why}; a rule that cannot be judged is not met"
    if not crossed:
        return "held", "within the limit"
    if p_holm is None:
        return "broken", "beyond the limit"
    paired = f"{word_p(p_holm)} over {plural(evidence.n_prompts if evidence else 0, 'prompt')}"
    if p_holm < SIGNIFICANCE_LEVEL:
        return "broken", f"beyond the limit, and more than luck: {paired}"
    return "not_significant", f"beyond the limit, but not enough evidence: {paired}"


def _find_evidence(pair: PairComparison, metric: Metric) -> Paired | None:
    return ({**pair.rates} | pair.shifts).get(metric.evidence or "")
