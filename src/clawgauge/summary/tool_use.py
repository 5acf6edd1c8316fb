"""The tool-use tier of a group, the evidence under it, and what a reader of it must also know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clawgauge.records import CallBalance, PromptKey, ToolChannels, ToolUse
from clawgauge.run_data.row import MALFORMED, NATIVE, NONE, TEXT, channel_kind, is_call, text_format
from clawgauge.run_data.schedule import Schedule, prefer_native
from clawgauge.stats import clean_passes_needed, is_decided, point_tier, tier_posterior
from clawgauge.summary.groups import Ending, OfferedAnswer, ToolSign
from clawgauge.summary.rates import PooledRate, pool_rate
from clawgauge.words import plural

_OFTEN_WRONG = 0.2
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
    stopped_early: bool = False,
    caution: str | None = None,
) -> ToolUse:
    """The tier from the answered prompts that expect a tool; restraint and tasks are left out.

    Prompts that offer tools decide where there are any; else the prompts that expect a tool named in text. A group
    that was stopped by its own results has no fixed n, and so no interval.
    """
    apart = schedule.apart
    pool = find_pool(endings, apart)
    native = any(e.tools_offered for e in pool)
    pooled = pool_rate((schedule.family(e.prompt), e.tool_use_success, e.n) for e in pool)
    tier = point_tier(pooled.k, pooled.n)
    posterior = tier_posterior(*pooled.effective) if pooled.effective else None
    decided = posterior is not None and is_decided(posterior)
    evidence = pooled.effective or (None if pooled.n else (0, 0))
    needed = None if evidence is None else clean_passes_needed(*evidence)
    mine = [s for s in signs if s.tools_offered == native and s.prompt not in apart]
    return ToolUse(
        source=None if tier is None else "native" if native else "text",
        n=pooled.n,
        k=pooled.k,
        n_eff=pooled.effective.trials if pooled.effective else None,
        rate=pooled.rate,
        ci95=None if stopped_early else pooled.ci95,
        tier=tier,
        p_tier=posterior,
        decided=decided,
        needed=needed,
        channels=_count_channels(mine),
        label=_label(endings, apart) if tier is None else label_tier(tier, pooled, decided=decided, needed=needed),
        recommended_for_subagents=False,
        suites=list(dict.fromkeys(e.suite for e in pool)),
        rescued=count_rescued(offered, apart),
        formats=_count_formats(mine),
        caution=caution,
    )


def find_pool(endings: Sequence[Ending], apart: frozenset[PromptKey]) -> list[Ending]:
    """The answered cells a tier rests on: of prompts that offer tools where there are any, else of text prompts."""
    expecting = [e for e in endings if e.answered and e.expected_tools and e.prompt not in apart]
    return prefer_native(expecting, lambda ending: ending.tools_offered)


def pool_arguments(endings: Sequence[Ending], schedule: Schedule) -> PooledRate:
    """Right calls with right arguments, of the answered prompts that offer tools and expect one."""
    pool = [e for e in find_pool(endings, schedule.apart) if e.tools_offered]
    return pool_rate((schedule.family(e.prompt), e.passed, e.n) for e in pool)


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


def label_tier(tier: int, pooled: PooledRate, *, decided: bool, needed: int | None) -> str:
    """The tier as a person reads it, never without how sure it is."""
    if decided:
        return f"Tier {tier} (decided)"
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
