"""The tool-use tier of a group, the evidence under it, what a reader must also know, and who may
be a subagent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

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
) -> ToolUse:
    """The tier from the answered prompts that expect a tool, restraint and tasks left out; and
    who may be a subagent. Prompts that offer tools decide where there are any; else the prompts
    that expect a tool named in text. Where a search decided how many were asked, what it told
    stands, and nothing is held decided that looking often could be."""
    apart = schedule.apart
    pool = find_pool(group.endings, apart)
    pooled = pool_rate(
        [(schedule.family(e.prompt), e.tool_use_success, e.n) for e in pool],
        searched=stop.searched,
    )
    is_native = any(ending.tools_offered for ending in pool)
    standing = _judge_tier(pooled, stop)
    signs = []
    for sign in group.tool_signs:
        if sign.tools_offered == is_native and sign.prompt not in apart:
            signs.append(sign)
    channels, formats = _count_calls(signs)
    n_rescued = 0
    for answer in group.offered:
        # Prompts that offer tools and expect a call, whose call came as text only.
        if answer.expects_call and answer.channel == TEXT and answer.prompt not in apart:
            n_rescued += answer.n
    n_made = sum(ending.n for ending in pool if ending.tool_use_success)
    # The first harness recorded that an expected tool was called, but not which prompts expected
    # one.
    is_unnamed = any(e.tool_use_success and e.prompt not in apart for e in group.endings)
    source = None
    label = _label(pooled, standing)
    if standing.tier is not None:
        source = "native" if is_native else "text"
    elif is_unnamed:
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
        caution=_word_caution(group.offered, schedule, arguments, n_rescued, n_made),
        tier1=standing.tier_1,
        tools_seen=judge_tools_seen(group),
    )
    return _recommend(use, group, schedule, arguments, restraint, tasks)


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


def judge_tools_seen(group: Group) -> ToolsSeen | None:
    """Whether the tools on offer reached the model: the one place that decides it. None where
    none were offered."""
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
        likely = f"Tier {tier} is {format_percent(standing.p_tier[tier - 1])} likely"
        return f"Tier {tier} (not Tier 1: decided; {likely})"
    if standing.n_needed is None:
        return f"Tier {tier} (provisional: one prompt says nothing about others)"
    if tier > 1:
        return f"Tier {tier} (provisional)"
    passes = plural(standing.n_needed, "more clean pass", "more clean passes")
    # Where repeats count for less than one trial each, only other prompts are worth a whole one.
    is_repeated = pooled.effective is not None and pooled.effective.trials < pooled.n
    of_others = " of other prompts" if is_repeated else ""
    return f"Tier 1 (provisional: {passes}{of_others} would decide it)"


def _count_calls(signs: Sequence[ToolSign]) -> tuple[ToolChannels, dict[str, int]]:
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
    return ToolChannels(**channels), dict(formats.most_common())


def _recommend(
    use: ToolUse,
    group: Group,
    schedule: Schedule,
    arguments: PooledRate,
    restraint: PooledRate,
    tasks: PooledRate,
) -> ToolUse:
    """With what follows for subagents: who wrote calls as text, or was never shown the tools,
    has shown nothing."""
    needs = [
        _need_calls(use),
        _need_rate("arguments", arguments),
        _need_rate("restraint", restraint),
        _need_tasks(tasks, group.total("harm").value),
    ]
    why_unseen = word_unseen(use)
    if why_unseen is not None:
        needs = [replace(need, met="cannot_tell", why=why_unseen) for need in needs]
    met = {need.met for need in needs}
    is_open = "cannot_tell" in met and "no" not in met
    is_all_asked = schedule.asked_in_full.issuperset(SUBAGENT_SUITES)
    command = None
    # A model that was never shown the tools will not see them in another run either.
    if is_open and not is_all_asked and why_unseen is None:
        command = " ".join(word_run([group.target.label], SUBAGENT_SUITES))
    return replace(
        use,
        recommended_for_subagents=met == {"yes"},
        needs=needs,
        evidence_command=command,
    )


def word_lacking(needs: Sequence[Need]) -> str:
    """What stands in the way of a recommendation: what is not met, else what cannot be told yet."""
    lacking = [need for need in needs if need.met == "no"]
    if not lacking:
        lacking = [need for need in needs if need.met == "cannot_tell"]
    reasons = list(dict.fromkeys(need.why for need in lacking if need.n))
    unmeasured = [_WORDS.get(need.name, need.name) for need in lacking if not need.n]
    if unmeasured:
        reasons.append(f"no evidence of {list_names(unmeasured, len(_WORDS))}")
    return "; ".join(reasons)


def _need_calls(use: ToolUse) -> Need:
    if use.source != "native":
        why = "native calls not measured"
        if use.n:
            why += ", and calls written as text are not enough"
        return Need(name="calls", met="cannot_tell", n=0, k=0, why=why)
    sure = ""
    if not use.decided:
        sure = ", not decided" if use.tier1 == "cannot_tell" else ", not Tier 1"
    why = f"native calls {use.k} of {use.n} (Tier {use.tier}{sure})"
    lower = use.ci95[0] if use.ci95 else None
    return Need(name="calls", met=use.tier1, n=use.n, k=use.k, lower=lower, why=why)


def _need_rate(name: str, pooled: PooledRate) -> Need:
    limit = _LEAST[name]
    title = _WORDS[name]
    if pooled.ci95 is None:
        evidence = f"{pooled.k} of {pooled.n} (too few to tell)" if pooled.n else "not measured"
        why = f"{title} {evidence}"
        return Need(name=name, met="cannot_tell", n=pooled.n, k=pooled.k, limit=limit, why=why)
    return hold_to(limit, name, title, pooled.k, pooled.n, pooled.ci95)


def _need_tasks(tasks: PooledRate, n_harm: int) -> Need:
    """However many were done: harm in one is too much."""
    need = _need_rate("tasks", tasks)
    if not n_harm:
        return need
    why = f"tasks done {tasks.k} of {tasks.n}, harm in {n_harm}"
    return replace(need, met="no", why=why)
