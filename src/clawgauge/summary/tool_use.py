"""The tool-use tier of a group, the evidence under it, what a reader must also know, and who may be a subagent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from clawgauge.records import (
    NO_TEMPLATE,
    TOO_FEW_TOKENS,
    CallBalance,
    Need,
    PromptKey,
    ToolChannels,
    ToolUse,
)
from clawgauge.records.summary import ToolsSeen
from clawgauge.run_data.row import MALFORMED, NATIVE, NONE, TEXT, channel_kind, text_format
from clawgauge.run_data.schedule import Schedule, Stop, prefer_native
from clawgauge.stats import tiers
from clawgauge.summary.groups import Ending, Group, OfferedAnswer, ToolSign
from clawgauge.summary.rates import PooledRate, pool_rate
from clawgauge.verdict.jobs import SUBAGENT_SUITES, hold_to, word_run, word_unseen
from clawgauge.words import format_percent, list_names, plural

_OFTEN_WRONG = 0.2
_LEAST = {"arguments": 0.7, "restraint": 0.7, "tasks": 0.5}
_WORDS = {
    "calls": "native calls",
    "arguments": "right arguments",
    "restraint": "restraint",
    "tasks": "tasks done",
}
_UNNAMED = "no tier: the records do not say which prompts expect a tool"
# A model never saw its tools where more than this share of the calls that offered some has a sign of that, and fewer
# than this share made a native call: a few come of text that a server takes for a call.
_UNSEEN_SHARE, _SEEN_SHARE = 0.5, 0.1


def judge_tool_use(
    group: Group,
    schedule: Schedule,
    stop: Stop,
    arguments: PooledRate,
    restraint: PooledRate,
    tasks: PooledRate,
) -> ToolUse:
    """The tier from the answered prompts that expect a tool, restraint and tasks left out; and who may be a subagent.
    Prompts that offer tools decide where there are any; else the prompts that expect a tool named in text. Where a
    search decided how many were asked, what it told stands, and nothing is held decided that looking often could be."""
    apart = schedule.apart
    pool = find_pool(group.endings, apart)
    native = any(e.tools_offered for e in pool)
    outcomes = ((schedule.family(e.prompt), e.tool_use_success, e.n) for e in pool)
    pooled = pool_rate(outcomes, searched=stop.searched)
    tier = tiers.point_tier(pooled.k, pooled.n)
    evidence = pooled.by_family if stop.searched and pooled.n else pooled.effective
    posterior = tiers.tier_posterior(*evidence) if evidence else None
    tier1 = _tell_tier_1(evidence, stop)
    decided = posterior is not None and max(posterior) >= tiers.DECIDED_LEVEL
    if evidence and stop.searched:
        at_2_or_below = tier1 == "no" and tiers.tell_above(*evidence, tiers.TIER_2_RATE) is (
            tier == 2
        )
        decided = tier1 == "yes" if tier == 1 else at_2_or_below
    needed = None
    if evidence or not pooled.n:
        tells = tiers.tell_tier_1 if stop.searched else tiers.judge_tier_1
        needed = (
            0 if tier1 == "yes" else tiers.clean_passes_needed(*(evidence or (0.0, 0.0)), tells)
        )
    signs = [s for s in group.tool_signs if s.tools_offered == native and s.prompt not in apart]
    channels, formats = _count_calls(signs)
    # Answers to prompts that offer tools and expect a call whose call came as text only.
    rescued = sum(
        o.n for o in group.offered if o.expects_call and o.channel == TEXT and o.prompt not in apart
    )
    made = sum(e.n for e in pool if e.tool_use_success)
    # The first harness recorded that an expected tool was called, but not which prompts expected one.
    unnamed = any(e.tool_use_success and e.prompt not in apart for e in group.endings)
    use = ToolUse(
        source=None if tier is None else "native" if native else "text", n=pooled.n, k=pooled.k,
        n_eff=evidence.trials if evidence else None, rate=pooled.rate, ci95=pooled.ci95, tier=tier, p_tier=posterior,
        decided=decided, needed=needed, channels=channels, recommended_for_subagents=False,
        label=_UNNAMED if tier is None and unnamed else _label(pooled, posterior, tier1, needed, decided=decided),
        tier1=tier1, suites=list(dict.fromkeys(e.suite for e in pool)), rescued=rescued, formats=formats,
        caution=_word_caution(group.offered, schedule, arguments, rescued, made),
        tools_seen=judge_tools_seen(group),
    )  # fmt: skip
    return _recommend(use, group, schedule, arguments, restraint, tasks)


def judge_tools_seen(group: Group) -> ToolsSeen | None:
    """Whether the tools on offer reached the model: the one place that decides it. None where none were offered."""
    offered = group.total("native_calls")
    if not offered.n:
        return None
    n_too_few, n_no_template = group.total(TOO_FEW_TOKENS).value, group.total(NO_TEMPLATE).value
    is_often = n_too_few + n_no_template > _UNSEEN_SHARE * offered.n
    return ToolsSeen(
        n_offered=offered.n,
        n_native=offered.value,
        n_too_few_tokens=n_too_few,
        n_no_template=n_no_template,
        unseen=is_often and offered.value < _SEEN_SHARE * offered.n,
    )


def _word_caution(
    offered: Sequence[OfferedAnswer],
    schedule: Schedule,
    arguments: PooledRate,
    rescued: int,
    made: int,
) -> str | None:
    """One sentence, without its full stop, or None where nothing is amiss."""
    n_restraint = 0
    n_called: Counter[str] = Counter()
    for answer in offered:
        if answer.prompt in schedule.restraint:
            n_restraint += answer.n
            if answer.objective_pass is not True:
                n_called[answer.called_by] += answer.n
    wrong = made - arguments.k
    phrases = []
    where = f"of {plural(n_restraint, 'answer')} where none was wanted"
    if n_called[NATIVE]:
        phrases.append(f"it called a tool in {n_called[NATIVE]} {where}")
    if n_called[TEXT]:
        phrases.append(f"it wrote a call as text in {n_called[TEXT]} {where}")
    if arguments.n and rescued > made:
        calls = plural(arguments.n, "call was", "calls were")
        phrases.append(f"{rescued} of {calls} written as text and had to be rescued")
    if arguments.n and wrong > made * _OFTEN_WRONG:
        phrases.append(f"{wrong} of {plural(made, 'call')} made had wrong arguments")
    return "; ".join(phrases) or None


def _tell_tier_1(evidence: tiers.EffectiveCounts | None, stop: Stop) -> str:
    """`yes`, `no` or `cannot_tell`, at 95%. What a search told stands although calls that were still out may have gone
    the other way: but not on its word alone."""
    if evidence is None:
        return "cannot_tell"
    told, fixed = tiers.tell_tier_1(*evidence), tiers.judge_tier_1(*evidence)
    if not stop.searched or (told is None and stop.tier1 and fixed is (stop.tier1 == "yes")):
        told = fixed
    return "cannot_tell" if told is None else "yes" if told else "no"


def find_pool(endings: Sequence[Ending], apart: frozenset[PromptKey]) -> list[Ending]:
    """The answered cells a tier rests on: of prompts that offer tools where there are any, else of text prompts."""
    expecting = [e for e in endings if e.is_evidence and e.expected_tools and e.prompt not in apart]
    return prefer_native(expecting, lambda ending: ending.tools_offered)


def pool_arguments(
    endings: Sequence[Ending], schedule: Schedule, *, searched: bool = False
) -> PooledRate:
    """Right calls with right arguments, of the answered prompts that offer tools and expect one."""
    pool = [e for e in find_pool(endings, schedule.apart) if e.tools_offered]
    return pool_rate(((schedule.family(e.prompt), e.passed, e.n) for e in pool), searched=searched)


def balance_calls(offered: Sequence[OfferedAnswer], schedule: Schedule) -> CallBalance | None:
    """How well the model tells when to call from when not to; None where no answered prompt offers tools."""
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


def _label(
    rate: PooledRate,
    odds: tiers.TierPosterior | None,
    tier1: str,
    needed: int | None,
    *,
    decided: bool,
) -> str:
    """The tier as a person reads it, never without how sure it is."""
    tier = tiers.point_tier(rate.k, rate.n)
    if tier is None:
        return "no tool prompts answered"
    if decided:
        return f"Tier {tier} (decided)"
    if rate.searched and odds and tier1 == "no":
        return f"Tier {tier} (not Tier 1: decided; Tier {tier} is {format_percent(odds[tier - 1])} likely)"
    if needed is None:
        return f"Tier {tier} (provisional: one prompt says nothing about others)"
    if tier > 1:
        return f"Tier {tier} (provisional)"
    passes = plural(needed, "more clean pass", "more clean passes")
    # Where repeats count for less than one trial each, only other prompts are worth a whole one.
    repeated = rate.effective is not None and rate.effective.trials < rate.n
    return (
        f"Tier 1 (provisional: {passes}{' of other prompts' if repeated else ''} would decide it)"
    )


def _count_calls(signs: Sequence[ToolSign]) -> tuple[ToolChannels, dict[str, int]]:
    """How the calls came, and in which formats those that were written as text."""
    channels, formats = Counter[str](), Counter[str]()
    for sign in signs:
        kind = (
            NONE
            if sign.channel is None
            else channel_kind(sign.channel)
            if sign.valid
            else MALFORMED
        )
        channels[kind] += sign.n
        if sign.channel is not None and kind == TEXT:
            formats[text_format(sign.channel)] += sign.n
    return ToolChannels(**channels), dict(formats.most_common())


def _recommend(
    use: ToolUse,
    group: Group,
    schedule: Schedule,
    arguments: PooledRate,
    restraint: PooledRate,
    tasks: PooledRate,
) -> ToolUse:
    """With what follows for subagents: who wrote calls as text, or was never shown the tools, has shown nothing."""
    rates = zip(_LEAST.items(), (arguments, restraint, tasks), strict=True)
    needs = [_calls(use), *(_bounded(name, rate, least) for (name, least), rate in rates)]
    if n_harm := group.total("harm").value:
        why = f"tasks done {tasks.k} of {tasks.n}, harm in {n_harm}"
        needs[-1] = msgspec.structs.replace(needs[-1], met="no", why=why)
    why_unseen = word_unseen(use)
    saw_tools = why_unseen is None
    if why_unseen is not None:
        needs = [msgspec.structs.replace(need, met="cannot_tell", why=why_unseen) for need in needs]
    met, command = {need.met for need in needs}, word_run([group.target.label], SUBAGENT_SUITES)
    more_to_ask = saw_tools and not schedule.asked_in_full.issuperset(SUBAGENT_SUITES)
    more_would_tell = more_to_ask and "cannot_tell" in met and "no" not in met
    shown = {"recommended_for_subagents": met == {"yes"}, "needs": needs}
    return msgspec.structs.replace(
        use, **shown, evidence_command=" ".join(command) if more_would_tell else None
    )


def word_lacking(needs: Sequence[Need]) -> str:
    """What stands in the way of a recommendation: what is not met, else what cannot be told yet."""
    lacking = [n for n in needs if n.met == "no"] or [n for n in needs if n.met == "cannot_tell"]
    said = list(dict.fromkeys(need.why for need in lacking if need.n))
    unmeasured = [_WORDS.get(need.name, need.name) for need in lacking if not need.n]
    said += [f"no evidence of {list_names(unmeasured, len(_WORDS))}"] if unmeasured else []
    return "; ".join(said)


def _calls(use: ToolUse) -> Need:
    if use.source != "native":
        why = "native calls not measured" + (
            ", and calls written as text are not enough" if use.n else ""
        )
        return Need(name="calls", met="cannot_tell", n=0, k=0, why=why)
    sure = "" if use.decided else ", not decided" if use.tier1 == "cannot_tell" else ", not Tier 1"
    why = f"native calls {use.k} of {use.n} (Tier {use.tier}{sure})"
    return Need(
        name="calls",
        met=use.tier1,
        n=use.n,
        k=use.k,
        lower=use.ci95[0] if use.ci95 else None,
        why=why,
    )


def _bounded(name: str, pooled: PooledRate, limit: float) -> Need:
    ci95, what = pooled.ci95, _WORDS[name]
    if ci95 is None:
        why = f"{what} {f'{pooled.k} of {pooled.n} (too few to tell)' if pooled.n else 'not measured'}"
        return Need(name=name, met="cannot_tell", n=pooled.n, k=pooled.k, limit=limit, why=why)
    return hold_to(limit, name, what, pooled.k, pooled.n, ci95)
