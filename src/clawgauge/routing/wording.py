"""The text of a routing: what the reasons and notes of a configuration say of a model."""

from __future__ import annotations

from collections.abc import Iterable

from clawgauge.figures import passed_of_asked, timed
from clawgauge.records import Percentiles
from clawgauge.routing.decision import Decision, Standing
from clawgauge.routing.evidence import Evidence
from clawgauge.routing.policy import BrokenLimit, LimitCode
from clawgauge.secrets import MASK
from clawgauge.verdict.needs import explain_too_few_sessions
from clawgauge.verdict.ranking import SURE_SHARE, Fitness
from clawgauge.verdict.wording import word_lacking, word_reason
from clawgauge.words import (
    ABSENT,
    format_beyond,
    format_ms,
    format_p,
    format_percent,
    format_short_of,
    list_names,
    plural,
    word_unasked,
)

_FITNESS = {
    Fitness.NO: "not fit as main agent",
    Fitness.CANNOT_TELL: "cannot tell yet whether fit as main agent",
}
_NOT_MEASURED = "not measured"


def word_broken_limit(broken: BrokenLimit) -> str:
    """The limit with what was measured of it: `pass rate 10% of 30, wanted at least 50%`."""
    match broken.code:
        case LimitCode.PASS_RATE:
            return _word_least("pass rate", broken)
        case LimitCode.ANSWERED_RATE:
            return _word_least("answered", broken)
        case LimitCode.P95:
            return _word_most_ms("p95", broken)
        case LimitCode.FIRST_TOKEN_P95:
            return _word_most_ms("first token p95", broken)
        case LimitCode.TIER:
            return f"{broken.tier_label}, wanted Tier {broken.limit:g} or better"
        case LimitCode.COST_PER_CALL:
            return _word_most_usd("a call", broken)
        case LimitCode.COST_PER_MONTH:
            return _word_most_usd("a month", broken)
        case LimitCode.LOCAL_ONLY:
            return "not local"


def _word_least(name: str, broken: BrokenLimit) -> str:
    measured = _NOT_MEASURED
    if broken.measured is not None:
        measured = f"{format_percent(broken.measured)} of {broken.n}"
    return f"{name} {measured}, wanted at least {format_percent(broken.limit)}"


def _word_most_ms(name: str, broken: BrokenLimit) -> str:
    measured = _NOT_MEASURED
    if broken.measured is not None:
        p95 = format_beyond(broken.measured) if broken.is_beyond else format_ms(broken.measured)
        measured = f"{p95} (n={broken.n})"
    return f"{name} {measured}, wanted at most {format_ms(broken.limit)}"


def _word_most_usd(per: str, broken: BrokenLimit) -> str:
    measured = f"cost {per} unknown"
    if broken.measured is not None:
        measured = f"cost ${broken.measured:.4g} {per}"
    return f"{measured}, wanted at most ${broken.limit:g}"


def word_removed_by(standing: Standing) -> list[str]:
    """Every limit that a model broke."""
    return [word_broken_limit(broken) for broken in standing.removed_by]


def word_tie(decision: Decision) -> str | None:
    """Which models come first with equal right, and who goes first all the same."""
    if not decision.tied:
        return None
    first = decision.tied[0]
    why = f"{first} has the higher score, no more"
    if first in decision.in_use:
        why = f"{first} stays: it is in use"
    tied = []
    for standing in decision.standings:
        label = standing.evidence.label
        if label not in decision.tied:
            continue
        if decision.is_by_shares:
            label = f"{label} ({format_short_of(standing.best_share, SURE_SHARE)})"
        tied.append(label)
    if decision.is_by_shares:
        nobody = f"none is the best in {SURE_SHARE:.0%} of resamplings of the prompts"
        return f"a tie: {', '.join(tied)}; {nobody}; {why}"
    return f"a tie: {', '.join(tied)}; no difference between them is more than luck; {why}"


def word_place(standing: Standing, decision: Decision) -> str:
    """How a model stands to the others that may be first: `best`, `tie`, `behind (p 0.012)`."""
    if standing.behind_p is not None:
        return f"behind (p {format_p(standing.behind_p)})"
    if not standing.may_be_best:
        return ABSENT
    return "tie" if decision.tied else "best"


def word_agreement(evidence: Evidence) -> str:
    """How often a model did what the reference model did; empty where nobody asked."""
    agreement = evidence.group.agreement
    if agreement is None:
        return ""
    if agreement.has_too_few_sessions:
        return word_reason(explain_too_few_sessions(agreement))
    share = f"{format_percent(agreement.rate)} of {plural(agreement.n, 'turn')}"
    return f"would replace the reference model in {share} of your history"


def cite(evidence: Evidence) -> str:
    """Model, tier, k/n, confidence, p95, run: what every reason rests on."""
    group = evidence.group
    of_asked = passed_of_asked(group)
    passed = f"passed {of_asked.k}/{of_asked.n}"
    agreement = word_agreement(evidence)
    if agreement:
        passed += f"; {agreement}"
    times = timed(group)
    p95 = f"p95 {_word_p95(times)} (n={times.n})"
    return f"{evidence.label}: {_cite_tier(evidence)}; {passed}; {p95}; run {evidence.run_id}"


def _cite_tier(evidence: Evidence) -> str:
    use = evidence.group.tool_use
    text = use.label
    if use.tier is not None:
        text += f", tools {use.k}/{use.n} ({use.source})"
        if use.p_tier is not None:
            text += f", P(tier)={use.p_tier[use.tier - 1]:.2f}"
    if use.caution:
        text += f" (caution: {use.caution})"
    return text


def _word_p95(times: Percentiles) -> str:
    """`1250 ms`, or `> 120 s` where it lies among the timeouts."""
    if times.p95 is None:
        return _NOT_MEASURED
    if "p95" in times.beyond:
        return format_beyond(times.p95)
    return format_ms(times.p95)


def word_places(placed: Iterable[tuple[Standing, str]]) -> list[str]:
    """What must be known of models that get a place: who is not shown to be fit, or was not asked
    everything.

    Each model comes with what is withheld from it (` without any tools`), or with nothing. Models
    of which the same is to be said share a sentence.
    """
    labels_by_sentence: dict[tuple[str, str], list[str]] = {}
    for standing, without in placed:
        group = standing.evidence.group
        label = standing.evidence.label
        if standing.fitness is not Fitness.YES or without or group.tool_use.caution:
            sentence = (without, _word_doubt(standing))
            labels_by_sentence.setdefault(sentence, []).append(label)
        unasked = word_unasked(group.attempted, group.n_scheduled)
        if unasked:
            sentence = (" by a run that was cut short", unasked)
            labels_by_sentence.setdefault(sentence, []).append(label)
    notes = []
    for (how, why), labels in labels_by_sentence.items():
        verb = "is" if len(labels) == 1 else "are"
        notes.append(f"{list_names(labels, len(labels))} {verb} placed{how}: {why}")
    return notes


def _word_doubt(standing: Standing) -> str:
    if standing.fitness is not Fitness.YES:
        return f"{_FITNESS[standing.fitness]}; {standing.main.why}"
    use = standing.evidence.group.tool_use
    return word_lacking(use.needs) or f"a caution stands; {use.caution}"


def address_notes(name: str, address: str, key_env: str | None) -> list[str]:
    """What a person must see to: a run folder may be somebody else's, and a key in an address is
    not recorded."""
    notes = []
    if key_env:
        sent = f"{name} at {address} will be sent the key in {key_env}"
        notes.append(f"{sent}: see that the address is yours")
    if MASK in address:
        held = f"the address of {name} holds a key, which is not recorded"
        notes.append(f"{held}: put it in the place of {MASK}")
    return notes
