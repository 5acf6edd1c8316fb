"""The tool-use tier of a group, the evidence under it, and what a reader of it must also know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clawgauge.records import CallBalance, PromptKey, ToolChannels, ToolUse
from clawgauge.run_data.row import MALFORMED, NATIVE, NONE, TEXT, channel_kind, is_call, text_format
from clawgauge.run_data.schedule import Schedule, Stop, prefer_native
from clawgauge.stats import (
    TIER_2_RATE,
    EffectiveCounts,
    TierPosterior,
    clean_passes_needed,
    is_decided,
    judge_tier_1,
    point_tier,
    tell_above,
    tell_tier_1,
    tier_posterior,
)
from clawgauge.summary.groups import Ending, OfferedAnswer, ToolSign
from clawgauge.summary.rates import PooledRate, pool_rate
from clawgauge.words import format_percent, plural

_OFTEN_WRONG = 0.2
_NOT_SEARCHED = Stop()
NOTHING_ANSWERED = "no tool prompts answered"
NOT_RECORDED = "no tier: the records do not say which prompts expect a tool"


def word_caution(
    endings: Sequence[Ending],
    offered: Sequence[OfferedAnswer],
    schedule: Schedule,
    arguments: PooledRate,
) -> str | None:
    """One sentence, without its full stop, or None where nothing is amiss."""
    phrases = []
    held_back = [o for o in offered if o.prompt in schedule.restraint]
    uncalled = sum(o.n for o in held_back if is_call(o.channel) and o.objective_pass is not True)
    if uncalled:
        n = sum(o.n for o in held_back)
        phrases.append(f"it called a tool in {uncalled} of {n} answers where none was wanted")
    rescued = count_rescued(offered, schedule.apart)
    made = sum(e.n for e in find_pool(endings, schedule.apart) if e.tool_use_success)
    if arguments.n:
        if rescued > made:
            phrases.append(f"{rescued} of {arguments.n} calls were written as text and had to be rescued")
        wrong = made - arguments.k
        if wrong > made * _OFTEN_WRONG:
            phrases.append(f"{wrong} of {made} calls made had wrong arguments")
    return "; ".join(phrases) or None


def judge_tool_use(
    endings: Sequence[Ending],
    signs: Sequence[ToolSign],
    offered: Sequence[OfferedAnswer],
    schedule: Schedule,
    *,
    stop: Stop = _NOT_SEARCHED,
    caution: str | None = None,
) -> ToolUse:
    """The tier from the answered prompts that expect a tool; restraint and tasks are left out.

    Prompts that offer tools decide where there are any; else the prompts that expect a tool named in text. Where a
    search decided how many were asked, what it told stands, and nothing is held decided that looking often could be.
    """
    apart = schedule.apart
    pool = find_pool(endings, apart)
    native = any(e.tools_offered for e in pool)
    outcomes = ((schedule.family(e.prompt), e.tool_use_success, e.n) for e in pool)
    pooled = pool_rate(outcomes, searched=stop.searched)
    tier = point_tier(pooled.k, pooled.n)
    evidence = pooled.by_family if stop.searched and pooled.n else pooled.effective
    posterior = tier_posterior(*evidence) if evidence else None
    tier1 = _tell_tier_1(evidence, stop)
    decided = posterior is not None and is_decided(posterior)
    if evidence and stop.searched:
        decided = tier1 == "yes" if tier == 1 else tier1 == "no" and tell_above(*evidence, TIER_2_RATE) is (tier == 2)
    needed = None
    if evidence or not pooled.n:
        k, n = evidence or (0.0, 0.0)
        needed = 0 if tier1 == "yes" else clean_passes_needed(k, n, tell_tier_1 if stop.searched else judge_tier_1)
    mine = [s for s in signs if s.tools_offered == native and s.prompt not in apart]
    return ToolUse(
        source=None if tier is None else "native" if native else "text",
        n=pooled.n,
        k=pooled.k,
        n_eff=evidence.trials if evidence else None,
        rate=pooled.rate,
        ci95=pooled.ci95,
        tier=tier,
        p_tier=posterior,
        decided=decided,
        needed=needed,
        channels=_count_channels(mine),
        label=_label(endings, apart)
        if tier is None
        else label_tier(tier, pooled, posterior, decided=decided, needed=needed, tier1=tier1),
        tier1=tier1,
        recommended_for_subagents=False,
        suites=list(dict.fromkeys(e.suite for e in pool)),
        rescued=count_rescued(offered, apart),
        formats=_count_formats(mine),
        caution=caution,
    )


def _tell_tier_1(evidence: EffectiveCounts | None, stop: Stop) -> str:
    """`yes`, `no` or `cannot_tell`, at 95%: however often a search looked, or from a fixed number of trials.

    What a search told stands although calls that were still out may have gone the other way: but not on its word alone.
    """
    if evidence is None:
        return "cannot_tell"
    told, fixed = tell_tier_1(*evidence), judge_tier_1(*evidence)
    if not stop.searched or (told is None and stop.tier1 and fixed is (stop.tier1 == "yes")):
        told = fixed
    return "cannot_tell" if told is None else "yes" if told else "no"


def find_pool(endings: Sequence[Ending], apart: frozenset[PromptKey]) -> list[Ending]:
    """The answered cells a tier rests on: of prompts that offer tools where there are any, else of text prompts."""
    expecting = [e for e in endings if e.answered and e.expected_tools and e.prompt not in apart]
    return prefer_native(expecting, lambda ending: ending.tools_offered)


def pool_arguments(endings: Sequence[Ending], schedule: Schedule, *, searched: bool = False) -> PooledRate:
    """Right calls with right arguments, of the answered prompts that offer tools and expect one."""
    pool = [e for e in find_pool(endings, schedule.apart) if e.tools_offered]
    return pool_rate(((schedule.family(e.prompt), e.passed, e.n) for e in pool), searched=searched)


def balance_calls(offered: Sequence[OfferedAnswer], schedule: Schedule) -> CallBalance | None:
    """How well the model tells when to call from when not to; None where no answered prompt offers tools."""
    calls = [o for o in offered if o.expects_call and o.prompt not in schedule.apart]
    others = [o for o in offered if o.prompt in schedule.restraint]
    n_call, n_no_call = sum(o.n for o in calls), sum(o.n for o in others)
    if not n_call and not n_no_call:
        return None
    k_call = sum(o.n for o in calls if o.channel == NATIVE)
    k_no_call = sum(o.n for o in others if not is_call(o.channel))
    rate = (k_call / n_call + k_no_call / n_no_call) / 2 if n_call and n_no_call else None
    return CallBalance(n_call=n_call, k_call=k_call, n_no_call=n_no_call, k_no_call=k_no_call, rate=rate)


def count_rescued(offered: Sequence[OfferedAnswer], apart: frozenset[PromptKey]) -> int:
    """Answers to prompts that offer tools and expect a call whose call came as text only."""
    return sum(o.n for o in offered if o.expects_call and o.channel == TEXT and o.prompt not in apart)


def label_tier(
    tier: int, pooled: PooledRate, posterior: TierPosterior | None, *, decided: bool, needed: int | None, tier1: str
) -> str:
    """The tier as a person reads it, never without how sure it is."""
    if decided:
        return f"Tier {tier} (decided)"
    if pooled.searched and posterior and tier1 == "no":
        return f"Tier {tier} (not Tier 1: decided; Tier {tier} is {format_percent(posterior[tier - 1])} likely)"
    if needed is None:
        return f"Tier {tier} (provisional: one prompt says nothing about others)"
    if tier > 1:
        return f"Tier {tier} (provisional)"
    passes = plural(needed, "more clean pass", "more clean passes")
    # Where repeats count for less than one trial each, only other prompts are worth a whole one.
    repeated = pooled.effective is not None and pooled.effective.trials < pooled.n
    return f"Tier 1 (provisional: {passes}{' of other prompts' if repeated else ''} would decide it)"


def _label(endings: Sequence[Ending], apart: frozenset[PromptKey]) -> str:
    # The first harness recorded that an expected tool was called, but not which prompts expected one.
    unnamed = any(e.tool_use_success and e.prompt not in apart for e in endings)
    return NOT_RECORDED if unnamed else NOTHING_ANSWERED


def _count_channels(signs: Sequence[ToolSign]) -> ToolChannels:
    counts: Counter[str] = Counter()
    for sign in signs:
        kind = NONE if sign.channel is None else channel_kind(sign.channel) if sign.valid else MALFORMED
        counts[kind] += sign.n
    return ToolChannels(**counts)


def _count_formats(signs: Sequence[ToolSign]) -> dict[str, int]:
    formats: Counter[str] = Counter()
    for sign in signs:
        if sign.valid and sign.channel is not None and channel_kind(sign.channel) == TEXT:
            formats[text_format(sign.channel)] += sign.n
    return dict(formats.most_common())
