"""The tool-use tier of a group, the evidence under it, what a reader must also know, and who may
be a subagent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from clawgauge.records import (
    NO_TEMPLATE,
    TOO_FEW_TOKENS,
    TOOLS_REFUSED,
    CallBalance,
    PromptKey,
    ToolChannels,
    ToolUse,
)
from clawgauge.records.summary import ToolsSeen
from clawgauge.run_data.evidence import Evidence
from clawgauge.run_data.row import (
    MALFORMED,
    MENTION,
    NATIVE,
    NONE,
    TEXT,
    channel_kind,
    text_format,
)
from clawgauge.run_data.schedule import Schedule, Stop, prefer_native
from clawgauge.stats import tiers
from clawgauge.summary.groups import Ending, Group, OfferedAnswer, ToolSign
from clawgauge.summary.rates import PooledRate, pool_rate
from clawgauge.verdict.jobs import SUBAGENT_SUITES
from clawgauge.verdict.needs import (
    Assessment,
    assess_recommendation,
    assess_tool_needs,
    find_never_shown,
)
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.reasons import Reason, ReasonCode
from clawgauge.verdict.wording import word_caution, word_open_tier, word_run, word_tier_of_search

_OFTEN_WRONG = 0.2
_UNNAMED = "no tier: the records do not say which prompts expect a tool"
# A model never saw its tools where more than this share of the calls that offered some has a sign
# of that, and fewer than this share made a native call: a few come of text that a server takes for
# a call.
_UNSEEN_SHARE = 0.5
_SEEN_SHARE = 0.1


def judge_tool_use(
    group: Group,
    schedule: Schedule,
    stop: Stop,
    arguments: PooledRate,
    restraint: PooledRate,
    tasks: PooledRate,
    evidence: Evidence | None = None,
    decided: Mapping[str, str] | None = None,
    *,
    is_told_without: bool = False,
) -> ToolUse:
    """The tier from the answered prompts that expect a tool, restraint and tasks left out; and
    who may be a subagent. Prompts that offer tools decide where there are any; else the prompts
    that expect a tool named in text. Where a search decided how many were asked, what it told
    stands, and nothing is held decided that looking often could be. `is_told_without` says that the
    server told before the first call that the model takes no tools."""
    apart = schedule.apart
    pool = find_pool(group.endings, apart)
    pooled = pool_rate(
        [(schedule.family(e.prompt), e.tool_use_success, e.n) for e in pool],
        searched=stop.searched,
    )
    is_native = any(ending.tools_offered for ending in pool)
    standing = _judge_tier(pooled, stop)
    channels, formats = _count_calls(_select_signs(group, apart, native=is_native))
    n_rescued = _count_rescued(group.offered, apart)
    n_made = sum(ending.n for ending in pool if ending.tool_use_success)
    source = None
    label = _label(pooled, standing)
    if standing.tier is not None:
        source = "native" if is_native else "text"
    elif _called_unnamed(group.endings, apart):
        label = _UNNAMED
    use = ToolUse(
        source=source,
        n=pooled.n,
        k=pooled.k,
        n_eff=standing.evidence.trials if standing.evidence else None,
        rate=pooled.rate,
        ci95=pooled.ci95,
        tier=standing.tier,
        p_tier=standing.p_tier,
        decided=standing.is_decided,
        needed=standing.n_needed,
        channels=channels,
        label=label,
        recommended_for_subagents=False,
        suites=list(dict.fromkeys(ending.suite for ending in pool)),
        rescued=n_rescued,
        formats=formats,
        caution=word_caution(_find_cautions(group.offered, schedule, arguments, n_rescued, n_made)),
        tier1=standing.tier_1,
        tools_seen=judge_tools_seen(group, is_told_without=is_told_without),
    )
    n_harm = group.total("harm").value
    if evidence is None:
        needs = assess_tool_needs(use, arguments, restraint, tasks, n_harm)
    else:
        needs = assess_recommendation(evidence.count_all(), use, n_harm, decided or {})
    return _recommend(use, group, schedule, needs)


def _select_signs(
    group: Group, apart: Collection[PromptKey], *, native: bool
) -> Iterator[ToolSign]:
    """The calls that the tier rests on: those of prompts that offer tools, else those of prompts
    that name them in the text."""
    for sign in group.tool_signs:
        if sign.tools_offered == native and sign.prompt not in apart:
            yield sign


def _count_rescued(offered: Iterable[OfferedAnswer], apart: Collection[PromptKey]) -> int:
    """How many answers to prompts that offer tools and expect a call made it as text only."""
    n_rescued = 0
    for answer in offered:
        if answer.expects_call and answer.channel == TEXT and answer.prompt not in apart:
            n_rescued += answer.n
    return n_rescued


def _called_unnamed(endings: Iterable[Ending], apart: Collection[PromptKey]) -> bool:
    """Whether an expected tool was called. The first harness recorded this, but not which prompts
    expected one."""
    return any(ending.tool_use_success and ending.prompt not in apart for ending in endings)


@dataclass(frozen=True, slots=True)
class _TierStanding:
    """Where a rate stands among the tiers. `evidence` is what its answers are worth; None where
    they say nothing about other prompts. `tier_1` is `yes`, `no` or `cannot_tell`; `n_needed`
    clean passes would make it `yes`."""

    tier: int | None
    evidence: tiers.EffectiveCounts | None
    p_tier: tiers.TierPosterior | None
    tier_1: str
    is_decided: bool
    n_needed: int | None


def _judge_tier(pooled: PooledRate, stop: Stop) -> _TierStanding:
    tier = tiers.point_tier(pooled.k, pooled.n)
    evidence = pooled.effective
    if stop.searched and pooled.n:
        evidence = pooled.by_family
    tier_1 = _tell_tier_1(evidence, stop)
    p_tier = None
    is_decided = False
    if evidence is not None:
        p_tier = tiers.tier_posterior(*evidence)
        is_decided = max(p_tier) >= tiers.DECIDED_LEVEL
        if stop.searched:
            is_decided = _is_decided_by_search(tier, tier_1, evidence)
    n_needed = None
    if tier_1 == "yes":
        n_needed = 0
    elif evidence is not None or not pooled.n:
        tell = tiers.tell_tier_1 if stop.searched else tiers.judge_tier_1
        passes, trials = evidence or (0.0, 0.0)
        n_needed = tiers.clean_passes_needed(passes, trials, tell)
    return _TierStanding(tier, evidence, p_tier, tier_1, is_decided, n_needed)


def _is_decided_by_search(tier: int | None, tier_1: str, evidence: tiers.EffectiveCounts) -> bool:
    if tier == 1:
        return tier_1 == "yes"
    is_above_tier_3 = tiers.tell_above(*evidence, tiers.TIER_2_RATE)
    return tier_1 == "no" and is_above_tier_3 is (tier == 2)


def judge_tools_seen(group: Group, *, is_told_without: bool = False) -> ToolsSeen | None:
    """Whether the tools on offer reached the model: the one place that decides it. None where
    none were offered."""
    offered = group.total("native_calls")
    is_refused = is_told_without or any(e.failure_type == TOOLS_REFUSED for e in group.endings)
    # A native call proves that it takes them.
    is_refused = is_refused and not offered.value
    if not offered.n and not is_refused:
        return None
    n_too_few = group.total(TOO_FEW_TOKENS).value
    n_no_template = group.total(NO_TEMPLATE).value
    is_often = n_too_few + n_no_template > _UNSEEN_SHARE * offered.n
    return ToolsSeen(
        n_offered=offered.n,
        n_native=offered.value,
        n_too_few_tokens=n_too_few,
        n_no_template=n_no_template,
        unseen=is_refused or (is_often and offered.value < _SEEN_SHARE * offered.n),
        refused=is_refused,
    )


def _find_cautions(
    offered: Sequence[OfferedAnswer],
    schedule: Schedule,
    arguments: PooledRate,
    n_rescued: int,
    n_made: int,
) -> list[Reason]:
    """What a reader of the tier must also know. Of `n_made` calls some had wrong arguments."""
    n_restraint = 0
    n_called: Counter[str] = Counter()
    for answer in offered:
        if answer.prompt in schedule.restraint:
            n_restraint += answer.n
            if answer.objective_pass is not True:
                n_called[answer.called_by] += answer.n
    n_wrong = n_made - arguments.k
    cautions = []
    if n_called[NATIVE]:
        cautions.append(Reason(ReasonCode.CALLED_UNWANTED, k=n_called[NATIVE], n=n_restraint))
    if n_called[TEXT]:
        cautions.append(Reason(ReasonCode.WROTE_UNWANTED, k=n_called[TEXT], n=n_restraint))
    if arguments.n and n_rescued > n_made:
        cautions.append(Reason(ReasonCode.CALLS_RESCUED, k=n_rescued, n=arguments.n))
    if arguments.n and n_wrong > n_made * _OFTEN_WRONG:
        cautions.append(Reason(ReasonCode.WRONG_ARGUMENTS, k=n_wrong, n=n_made))
    return cautions


def _tell_tier_1(evidence: tiers.EffectiveCounts | None, stop: Stop) -> str:
    """`yes`, `no` or `cannot_tell`, at 95%. What a search told stands although calls that were
    still out may have gone the other way: but not on its word alone."""
    if evidence is None:
        return "cannot_tell"
    at_fixed_n = tiers.judge_tier_1(*evidence)
    is_tier_1 = at_fixed_n
    if stop.searched:
        is_tier_1 = tiers.tell_tier_1(*evidence)
        if is_tier_1 is None and stop.tier1 and at_fixed_n is (stop.tier1 == "yes"):
            is_tier_1 = at_fixed_n
    if is_tier_1 is None:
        return "cannot_tell"
    return "yes" if is_tier_1 else "no"


def find_pool(endings: Sequence[Ending], apart: frozenset[PromptKey]) -> list[Ending]:
    """The answered cells a tier rests on: of prompts that offer tools where there are any, else
    of text prompts."""
    expecting = [e for e in endings if e.is_evidence and e.expected_tools and e.prompt not in apart]
    return prefer_native(expecting, lambda ending: ending.tools_offered)


def pool_arguments(
    endings: Sequence[Ending], schedule: Schedule, *, searched: bool = False
) -> PooledRate:
    """Right calls with right arguments, of the answered prompts that offer tools and expect one."""
    pool = [e for e in find_pool(endings, schedule.apart) if e.tools_offered]
    return pool_rate(((schedule.family(e.prompt), e.passed, e.n) for e in pool), searched=searched)


def balance_calls(offered: Sequence[OfferedAnswer], schedule: Schedule) -> CallBalance | None:
    """How well the model tells when to call from when not to; None where no answered prompt
    offers tools."""
    calls = [o for o in offered if o.expects_call and o.prompt not in schedule.apart]
    others = [o for o in offered if o.prompt in schedule.restraint]
    n_call = sum(o.n for o in calls)
    n_no_call = sum(o.n for o in others)
    if not n_call and not n_no_call:
        return None
    k_call = sum(o.n for o in calls if o.channel == NATIVE)
    k_no_call = sum(o.n for o in others if o.called_by != NATIVE)
    rate = None
    if n_call and n_no_call:
        rate = (k_call / n_call + k_no_call / n_no_call) / 2
    return CallBalance(
        n_call=n_call,
        k_call=k_call,
        n_no_call=n_no_call,
        k_no_call=k_no_call,
        rate=rate,
        text_call=sum(o.n for o in calls if o.called_by == TEXT),
        text_no_call=sum(o.n for o in others if o.called_by == TEXT),
    )


def _label(pooled: PooledRate, standing: _TierStanding) -> str:
    """The tier as a person reads it, never without how sure it is."""
    tier = standing.tier
    if tier is None:
        return "no tool prompts answered"
    if standing.is_decided:
        return f"Tier {tier} (decided)"
    if pooled.searched and standing.p_tier and standing.tier_1 == "no":
        return word_tier_of_search(tier, standing.p_tier[tier - 1])
    is_repeated = pooled.effective is not None and pooled.effective.trials < pooled.n
    return word_open_tier(tier, n_needed=standing.n_needed, is_repeated=is_repeated)


def _count_calls(signs: Iterable[ToolSign]) -> tuple[ToolChannels, dict[str, int]]:
    """How the calls came, and in which formats those that were written as text."""
    channels: Counter[str] = Counter()
    formats: Counter[str] = Counter()
    for sign in signs:
        if sign.channel is None:
            channels[NONE] += sign.n
        elif not sign.valid:
            channels[MALFORMED] += sign.n
        else:
            kind = channel_kind(sign.channel)
            channels[kind] += sign.n
            if kind == TEXT:
                formats[text_format(sign.channel)] += sign.n
    counted = ToolChannels(
        native=channels[NATIVE],
        text=channels[TEXT],
        malformed=channels[MALFORMED],
        mention=channels[MENTION],
        none=channels[NONE],
    )
    return counted, dict(formats.most_common())


def _recommend(
    use: ToolUse,
    group: Group,
    schedule: Schedule,
    needs: Sequence[Assessment],
) -> ToolUse:
    """With what follows for subagents: who wrote calls as text, or was never shown the tools, has
    shown nothing."""
    met = {need.met for need in needs}
    is_recommended = met == {Fitness.YES} and use.tier == 1 and use.source == "native"
    # A model that was never shown the tools will not see them in another run either.
    can_be_told = find_never_shown(use.tools_seen) is None
    is_more_to_ask = not schedule.asked_in_full.issuperset(SUBAGENT_SUITES)
    is_open = Fitness.CANNOT_TELL in met and Fitness.NO not in met
    command = None
    if can_be_told and is_more_to_ask and is_open:
        command = " ".join(word_run([group.target.label], SUBAGENT_SUITES))
    return replace(
        use,
        recommended_for_subagents=is_recommended,
        needs=[need.to_need() for need in needs],
        evidence_command=command,
    )
