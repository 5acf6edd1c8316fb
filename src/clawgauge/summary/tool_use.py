"""The tool-use tier of a group and the evidence under it.

Owns: which prompts the tier rests on, and the words of its label. Refuses: arguments, restraint and tasks; they are
measured elsewhere and stand beside the tier, never in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from clawgauge.records import ToolChannels, ToolUse
from clawgauge.stats import clean_passes_needed, is_decided, point_tier, tier_posterior
from clawgauge.summary.groups import EndingCount, ToolSignCount
from clawgauge.summary.rates import PooledRate, pool_rate
from clawgauge.summary.schedule import PromptKey

NOTHING_ANSWERED = "no tool prompts answered"
NOT_RECORDED = "no tier: the records do not say which prompts expect a tool"


def judge_tool_use(
    endings: Sequence[EndingCount], signs: Sequence[ToolSignCount], *, apart: frozenset[PromptKey]
) -> ToolUse:
    """The tier from the answered prompts that expect a tool, those in `apart` left out.

    Prompts that offer tools decide where there are any; else the prompts that expect a tool named in text.
    """
    expecting = [e for e in endings if e.ending.answered and e.ending.expected_tools and e.prompt not in apart]
    native = any(e.ending.tools_offered for e in expecting)
    pool = [e for e in expecting if e.ending.tools_offered == native]
    pooled = pool_rate((e.prompt, e.ending.tool_use_success, e.n) for e in pool)
    tier = point_tier(pooled.k, pooled.n)
    posterior = tier_posterior(*pooled.effective) if pooled.effective else None
    decided = posterior is not None and is_decided(posterior)
    evidence = pooled.effective or (None if pooled.n else (0, 0))
    needed = None if evidence is None else clean_passes_needed(*evidence)
    return ToolUse(
        source=None if tier is None else "native" if native else "text",
        n=pooled.n,
        k=pooled.k,
        n_eff=pooled.effective.trials if pooled.effective else None,
        rate=pooled.rate,
        ci95=pooled.ci95,
        tier=tier,
        p_tier=posterior,
        decided=decided,
        needed=needed,
        channels=_count_channels([s for s in signs if s.sign.tools_offered == native and s.prompt not in apart]),
        label=_label(endings) if tier is None else label_tier(tier, pooled, decided=decided, needed=needed),
        recommended_for_subagents=tier == 1 and decided,
    )


def label_tier(tier: int, pooled: PooledRate, *, decided: bool, needed: int | None) -> str:
    """The tier as a person reads it, never without how sure it is."""
    if decided:
        return f"Tier {tier} (decided)"
    if needed is None:
        return f"Tier {tier} (provisional: one prompt says nothing about others)"
    if tier > 1:
        return f"Tier {tier} (provisional)"
    passes = "1 more clean pass" if needed == 1 else f"{needed} more clean passes"
    # Where repeats count for less than one trial each, only other prompts are worth a whole one.
    repeated = pooled.effective is not None and pooled.effective.trials < pooled.n
    return f"Tier 1 (provisional: {passes}{' of other prompts' if repeated else ''} would decide it)"


def _label(endings: Sequence[EndingCount]) -> str:
    # The first harness recorded that an expected tool was called, but not which prompts expected one.
    return NOT_RECORDED if any(e.ending.tool_use_success for e in endings) else NOTHING_ANSWERED


def _count_channels(signs: Sequence[ToolSignCount]) -> ToolChannels:
    counts = {"native": 0, "text": 0, "malformed": 0, "mention": 0, "none": 0}
    for _, sign, n in signs:
        if sign.channel is None:
            counts["none"] += n
        elif not sign.valid:
            counts["malformed"] += n
        else:
            counts[channel_kind(sign.channel)] += n
    return ToolChannels(**counts)


def channel_kind(channel: str) -> str:
    """`text:<format>` is text whatever the format; a channel of another name is a mention at most."""
    if channel == "native":
        return "native"
    return "text" if channel.startswith("text") else "mention"
