"""summary.json: one group per (provider, model, thinking level), the schema document's fields
first."""

from __future__ import annotations

from typing import Annotated

import msgspec

from clawgauge.records.run import IN_CONTEXT, Resources, Slo, Target


class LatencyStats(msgspec.Struct, frozen=True, kw_only=True):
    """The schema document's four figures, in milliseconds, type-7 percentiles; null where there are
    no calls."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """The same for our own additions, with the n they rest on and 95% intervals (null where n is
    too small). `indicative` names the percentiles that rest on too few independent calls to be more
    than a hint. `beyond` names those that lie among calls cut off at a deadline: they are longer
    than the value given."""

    n: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    p50_ci95: tuple[float, float] | None = None
    p95_ci95: tuple[float, float] | None = None
    p99_ci95: tuple[float, float] | None = None
    indicative: list[str] = []
    beyond: list[str] = []


class RateWithInterval(msgspec.Struct, frozen=True, kw_only=True):
    """k of n with its 95% interval; null where n is 0. `n_eff` is how many independent answers they
    are worth."""

    n: int
    k: int
    rate: float | None = None
    ci95: tuple[float, float] | None = None
    n_eff: float | None = None


class AgreementRate(RateWithInterval, frozen=True, kw_only=True):
    """Agreement with the reference model. Turns of one session are alike, so its sessions are what
    counts: `n_sessions` of them, which are worth `n_sessions_eff` of equal length, and `ci90`,
    whose lower end is held against what a job needs. With too few sessions both intervals are null.
    All three are null where the run was made by an earlier rule.
    """

    n_sessions: int | None = None
    n_sessions_eff: float | None = None
    ci90: tuple[float, float] | None = None

    @property
    def has_too_few_sessions(self) -> bool:
        return self.n_sessions is not None and self.ci90 is None


class ToolChannels(msgspec.Struct, frozen=True, kw_only=True):
    """How the calls came. `none` counts answered tool prompts with no call at all."""

    native: int = 0
    text: int = 0
    malformed: int = 0
    mention: int = 0
    none: int = 0


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a recommendation for subagents needs: `calls`, `arguments`, `restraint` or `tasks`.
    `met` is `yes`, `no` or `cannot_tell`. `lower` is the bound at 95% that is held against `limit`;
    both are null where there is none. Where answers were decided one by one, `limit` is the rate
    that is too low, `good` the rate that is good enough, and `score` the evidence: at 3.0 or more a
    need is met, at -4.4 or less it is not.
    """

    name: str
    met: str
    n: int
    k: int
    lower: float | None = None
    limit: float | None = None
    why: str = ""
    good: float | None = None
    score: float | None = None


class ToolsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the tools on offer reached the model. Of `n_offered` answered calls that offered
    some, `n_native` made a native call, which proves it; of the others the server counted too few
    prompt tokens to have shown them in `n_too_few_tokens`, and its chat template has no place for
    them in `n_no_template`. `unseen`: it never saw them. `refused`: its server says that it takes
    none."""

    n_offered: int
    n_native: int
    n_too_few_tokens: int
    n_no_template: int
    unseen: bool
    refused: bool = False


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """The tier and the evidence under it. `tier` is the point tier; `decided` says whether to trust
    it. `tier1` (`yes`, `no` or `cannot_tell`) answers the question that matters most: is it Tier 1,
    at 95%? `rescued` counts the answers to prompts that offer tools whose call came as text only:
    seen, recorded, no success. `formats` counts the text formats the calls came in. `caution` says
    what a reader of the tier must also know. `recommended_for_subagents` holds where all `needs`
    are met; `evidence_command` would show those that are not known."""

    source: str | None
    n: int
    k: int
    n_eff: float | None
    rate: float | None
    ci95: tuple[float, float] | None
    tier: int | None
    p_tier: tuple[float, float, float] | None
    decided: bool
    needed: int | None
    channels: ToolChannels
    label: str
    recommended_for_subagents: bool
    suites: list[str] = []
    rescued: int = 0
    formats: dict[str, int] = {}
    caution: str | None = None
    needs: list[Need] = []
    evidence_command: str | None = None
    tier1: str = "cannot_tell"
    tools_seen: ToolsSeen | None = None


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Multi-turn tasks: completion beside the tier, never in it. In `n_harm` of them something
    forbidden was done."""

    n: int
    k: int
    rate: float | None = None
    ci95: tuple[float, float] | None = None
    mean_turns: float | None = None
    mean_tokens: float | None = None
    n_harm: int = 0
    n_eff: float | None = None


class Repeatability(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts asked `k` times or more: the mean chance that one of k passes (`pass_at_k`), or all
    (`pass_hat_k`). The intervals are by prompt family; null where there is only one."""

    k: int
    n_prompts: int
    pass_at_k: float | None
    pass_hat_k: float | None
    pass_at_k_ci95: tuple[float, float] | None = None
    pass_hat_k_ci95: tuple[float, float] | None = None


class ClockTrust(msgspec.Struct, frozen=True, kw_only=True):
    """How far the timings of a group can be trusted. `n_flagged` of the `n_watched` calls had this
    program's own loop late by more than 1 ms, or by more than 1% of a figure it could have moved. A
    machine is `busy` when it had more to run than cores before the first call."""

    n_watched: int
    n_flagged: int
    lag_p50_ms: float | None = None
    lag_p99_ms: float | None = None
    lag_max_ms: float | None = None
    resolution_ns: int | None = None
    client_cpu_s: float | None = None
    load_1m: float | None = None
    cores: int | None = None
    busy: bool | None = None
    n_retried: int = 0
    retry_wait_ms: int = 0


class FailureCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many records ended this way, with one example of the words they came with and what to do.
    `n_not_asked` of these `n` were never sent: the failure of an earlier call stands for them."""

    availability_status: str
    failure_type: str
    n: int
    example: str | None = None
    hint: str | None = None
    n_not_asked: int = 0

    @property
    def n_attempted(self) -> int:
        return self.n - self.n_not_asked


class SuiteBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """One suite's share of a group; `by_category` has the passes of each category that has a
    verdict. `latency_censored_ms` is there where calls timed out; else `latency_ms` is all there is
    to say."""

    suite: str
    n_total: int
    n_ok: int
    n_success: int
    n_judged: int
    n_passed: int
    objective_pass_rate: float | None
    ci95: tuple[float, float] | None
    latency_ms: LatencyStats
    n_scheduled: int = 0
    n_scheduled_judged: int = 0
    pass_rate_scheduled: float | None = None
    n_timeouts: int = 0
    cost_usd: float | None = None
    by_category: dict[str, RateWithInterval] = {}
    latency_censored_ms: Percentiles | None = None
    n_eff: float | None = None
    n_asked_judged: int | None = None
    n_attempted: int | None = None
    n_not_asked: int = 0

    @property
    def attempted(self) -> int:
        """How many cells were asked; an earlier version's summary only says how many have a
        record."""
        return self.n_total if self.n_attempted is None else self.n_attempted


class CallBalance(msgspec.Struct, frozen=True, kw_only=True):
    """Calling and leaving alone in one figure: the mean of both rates, where tools are offered.
    `k_call` answers made a native call where one was wanted, `k_no_call` made none where none was.
    A model that always calls, or never does, has a `rate` of 0.5. Null where only one of the two
    was asked for. A call that is only written as text is no native call: `text_call` answers hold
    one where a call was wanted, `text_no_call` where none was."""

    n_call: int
    k_call: int
    n_no_call: int
    k_no_call: int
    rate: float | None
    text_call: int = 0
    text_no_call: int = 0


class CostSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls cost, over the `n_priced` that have a cost. Per pass: what one passed prompt
    came to."""

    n_priced: int
    usd: float
    per_call_usd: float
    per_pass_usd: float | None


class InContext(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the same `n` prompts, bare and inside the user's own context. Rates (`calls`,
    `restraint`, `tasks`, `other`) are means over prompts, with the interval of their difference and
    its exact paired p-value, corrected for the others. `first_token` (median, ms) and `harm`
    (tasks) are described only."""

    what: str
    n: int
    bare: float
    in_context: float
    ci95: tuple[float, float] | None = None
    p: float | None = None


class FamilyTally(msgspec.Struct, frozen=True, kw_only=True):
    """`n` prompt families of which `answers` different texts were answered, and `passes` of these
    passed. A `pair` is passed where both of its prompts are."""

    passes: int
    answers: int
    n: int = 1
    pair: bool = False


class FamilyMeans(msgspec.Struct, frozen=True, kw_only=True):
    """What models are compared by: by figure the mean of each prompt family, in the order of
    `families`, null where it has none. Rates are `tools`, `restraint`, `tasks`, `agreement`,
    `answers`, `passes` and `job/NAME` (a job's own prompts); `first_token` and `latency` are
    scores, which fall from 1 towards 0 as a time grows."""

    families: list[str]
    figures: dict[str, list[Annotated[float, msgspec.Meta(ge=0, le=1)] | None]]

    def of(self, figure: str) -> dict[str, float]:
        """The means of the families that have this figure."""
        means = {}
        # Anyone may write a summary: in that of a stranger a list may be too short.
        for family, mean in zip(self.families, self.figures.get(figure, []), strict=False):
            if mean is not None:
                means[family] = mean
        return means


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One model's figures. `server_ms` is where the time went, where a server tells: `load`,
    `queue`, `prefill` … Where prompts were asked `in_context` too, the bare ones judge the model:
    tool use, arguments, restraint, tasks, and our own percentiles are theirs; counts, costs,
    `latency_ms` and `objective_pass_rate` are of all. `n_unjudged` answers have no verdict because
    their check broke: they are part of no rate. `tps_rule` is the rule of `output_tps`; null where
    there are no rates, and in a summary of an earlier version, which knew rule 1 alone. `evidence`
    is what needs rest on: by `calls`, `arguments`, `restraint`, `tasks` and `job/NAME` (its own
    prompts), how many prompt families passed how many of the texts that were answered; null where
    the run was made by an earlier rule. `decided` has, by need and rates, what the run itself
    decided (`yes` or `no`) when it stopped asking, and `asking_ended` why it did: `decided`,
    `all_asked`, `budget_spent` or `given_up`; null where it may go on. `by_family` is what a model
    is compared with others by; null where the run was made by an earlier rule. `behind_by_prompts`
    has, where a run went on to find the best (`--best`), each job that was told by the prompts all
    were asked: the p-value by which another model of the run is ahead, or null."""

    provider: str
    model: str
    thinking_level: str | None
    n_total: int
    n_ok: int
    n_success: int
    n_skipped_unavailable: int
    n_rate_limited: int
    n_error: int
    success_rate_ok: float | None
    objective_pass_rate: float | None
    wall_clock_ms: int | None
    latency_ms: LatencyStats
    resources_before: Resources | None
    resources_after: Resources | None

    n_auth_error: int
    n_judged: int
    n_passed: int
    objective_pass_ci95: tuple[float, float] | None
    n_scheduled: int
    pass_rate_scheduled: float | None
    n_scheduled_judged: int
    tool_use: ToolUse
    restraint: RateWithInterval
    tasks: TaskSummary
    ttft_ms: Percentiles
    ttfa_ms: Percentiles
    output_tps: Percentiles
    latency_warm_ms: Percentiles
    latency_cold_ms: Percentiles
    n_timeouts: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    peak_memory_bytes: int | None
    peak_vram_bytes: int | None
    n_truncated_by_max_tokens: int
    suites: list[SuiteBreakdown]
    failures: list[FailureCount]
    latency_all_ms: Percentiles | None = None
    latency_censored_ms: Percentiles | None = None
    argument_accuracy: RateWithInterval | None = None
    call_balance: CallBalance | None = None
    repeatability: Repeatability | None = None
    clock: ClockTrust | None = None
    stopped_early: bool = False
    n_not_needed: int = 0
    cached_tokens: int | None = None
    cost: CostSummary | None = None
    energy_j: float | None = None
    window_tokens: int | None = None
    warnings: list[str] = []
    server_ms: dict[str, Percentiles] = {}
    in_context: list[InContext] = []
    agreement: AgreementRate | None = None
    n_asked_judged: int | None = None
    n_attempted: int | None = None
    n_not_asked: int = 0
    tps_rule: int | None = None
    n_unjudged: int = 0
    evidence: dict[str, list[FamilyTally]] | None = None
    decided: dict[str, str] = {}
    asking_ended: str | None = None
    by_family: FamilyMeans | None = None
    behind_by_prompts: dict[str, float | None] | None = None

    @property
    def attempted(self) -> int:
        """How many cells were asked; an earlier version's summary only says how many have a
        record."""
        return self.n_total if self.n_attempted is None else self.n_attempted

    @property
    def target(self) -> Target:
        return Target(self.provider, self.model, self.thinking_level)

    @property
    def bare(self) -> list[SuiteBreakdown]:
        """The suites that alone judge the model, where their prompts were asked in a context too;
        else none."""
        inside = {suite.suite + IN_CONTEXT for suite in self.suites}
        bare = [suite for suite in self.suites if suite.suite not in inside]
        return bare if len(bare) < len(self.suites) else []


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """One model's place for a job: `fit` is `yes`, `no` or `cannot_tell`, `n` the answers that it
    rests on. `tie`: fit, and by its figures no worse than the best. `place` is 1 for the best; who
    rests on the same reasons with the same figures shares one. `state` tells more: `decided_fit`,
    `decided_not_fit`, `likely_fit`, `likely_not_fit`, `open` or `not_asked`, with the `chance` of
    being fit where it is not decided. Both are null in a summary of an earlier rule. `never_shown`
    where the model never saw what the job is about, so that no other run would tell. `by_interval`
    where the job rests on intervals alone, as your own work does: then there is no chance while it
    is open. `behind_p`: fit, but another one is ahead by more than luck, with the p-value of that,
    corrected for all pairs of fit models; null in a summary of an earlier rule."""

    target: str
    fit: str
    why: str
    n: int
    tie: bool = False
    place: int = 0
    state: str | None = None
    chance: float | None = None
    never_shown: bool = False
    by_interval: bool = False
    behind_p: float | None = None


class HeadToHead(msgspec.Struct, frozen=True, kw_only=True):
    """Two models on the prompt families that both were asked and that a job weighs: `only_a` of
    `n_shared` were right by `a` alone, `only_b` by `b` alone. `p` holds at any stop, and is
    corrected for all pairs of fit models."""

    a: str
    b: str
    n_shared: int
    only_a: int
    only_b: int
    p: float


class JobVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its models, the best first. Where none is fit, `needs` is the command that could
    still show one. It asks the `suites` of the `targets`. `head_to_head` has every two fit models
    where the run went on to find the best (`--best`), and is what `behind_p` rests on then."""

    job: str
    ranking: list[Fit]
    column: str = ""
    needs: str | None = None
    targets: list[str] = []
    suites: list[str] = []
    head_to_head: list[HeadToHead] = []


class VisitSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One visit of a load, counted from 1. `untrusted` says how this program was late: the visit
    has no part in the figures of its step then, unless all are such."""

    visit: int
    step: str
    n: int
    requests_per_s: float
    ttft_p50_ms: float | None = None
    attained: float | None = None
    n_failed: int = 0
    untrusted: str | None = None


class StepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A steady load, so many clients at once or arrivals a second, and what came of it. What failed
    is slower than any answer: a percentile `beyond` lies among it. Of fewer than 100 calls p99 is
    the longest. `attained` is the share within all SLOs. `untrusted` says how this program was
    late, `growing` that more arrived than was answered. Token counts are means, and so is
    `server_ms`: where the time went, as a server tells. Where a load has several `visits`,
    `requests_per_s` is their geometric mean, with Student's interval over them; all else is of
    their calls together."""

    step: str
    concurrency: int | None
    rate: float | None
    n: int
    requests_per_s: float
    requests_per_s_ci95: tuple[float, float] | None
    output_tokens_per_s: float | None
    tokens_per_s_user: float | None
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    itl_ms: Percentiles
    e2e_ms: Percentiles
    goodput_per_s: float | None
    attained: float | None
    n_failed: int
    n_dropped: int
    trusted: bool
    untrusted: str | None
    growing: bool
    input_tokens: float | None
    output_tokens: float | None
    cached_tokens: float | None
    server_ms: dict[str, float] = {}
    visits: list[VisitSummary] = []

    @property
    def level(self) -> float:
        return self.concurrency or self.rate or 0

    @property
    def trusted_visits(self) -> list[VisitSummary]:
        return [visit for visit in self.visits if visit.untrusted is None]


class Knee(msgspec.Struct, frozen=True):
    """The fewest clients with 95% of all the throughput there is; `limited_by` slots, prefill,
    decode or refusals."""

    concurrency: int
    requests_per_s: float
    limited_by: str


class WithinSlo(msgspec.Struct, frozen=True, kw_only=True):
    """The most clients, or arrivals a second, that kept the SLO, and the fewest that did not. Where
    numbers of clients were visited several times it is a range: `concurrency` kept it at every
    visit, `concurrency_to` at its best, and `broken_at` not even then. Null is a `concurrency_to`
    that nobody can tell, and a `broken_at` that was not seen."""

    concurrency: int | None = None
    concurrency_to: int | None = None
    rate: float | None = None
    broken_at: float | None = None


class TtftFit(msgspec.Struct, frozen=True):
    """The first token of a lone call by the tokens of its prompt: a straight line, with 95%
    intervals."""

    n: int
    fixed_ms: float
    ms_per_1k_tokens: float
    fixed_ms_ci95: tuple[float, float]
    ms_per_1k_tokens_ci95: tuple[float, float]


class CapacitySummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a target carries of prompts of one length; `mode` is `closed`, `open` or `swap`.
    `truncated` is null where nobody can tell; it shows in the server's `count`, which was
    `counted_tokens`, or in the `marker` that answers no longer repeat. `refused` is why such
    prompts were. `swap_ms` has first tokens. `tps_rule` is the rule that times per token go by;
    null in a summary of an earlier version, which knew rule 1 alone. `n_rounds` is how many times
    the numbers of clients around the answer were visited: once by the search, then in rounds that
    came to their end."""

    target: str
    mode: str
    context_tokens: int
    steps: list[StepSummary] = []
    knee: Knee | None = None
    within_slo: WithinSlo | None = None
    ttft_fit: TtftFit | None = None
    truncated: bool | None = None
    truncated_by: str | None = None
    counted_tokens: int | None = None
    refused: str | None = None
    slo: Slo = Slo()
    swap_ms: dict[str, Percentiles] = {}
    tps_rule: int | None = None
    n_rounds: int = 1


class AgentComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A model inside an agent program, beside the same model without it where the run has both.

    `passed`, `made_passed` and `bare_passed` are mean pass rates over the `n_shared` prompts that
    both answered: of what reached the tools, of what the model said inside the program, and of the
    bare model; without a bare one over the `n` prompts answered. `p` is how likely luck alone makes
    a difference as large. Times are medians in milliseconds over the calls; `first_token_ms` is
    the model's, `first_token_user_ms` has the program's start in it. `added_tokens` is what the
    program's prompt adds to a request, `added_cost_usd` what it adds to a cell, as means over
    shared prompts. Calls are counted over all cells; `calls_written` are those of `calls_lost`
    that the model wrote as text. `late` are the cells in which the recorder itself was late.
    """

    target: str
    program: str
    versions: list[str] = []
    bare: str | None = None
    n: int = 0
    n_shared: int = 0
    passed: float | None = None
    made_passed: float | None = None
    bare_passed: float | None = None
    p: float | None = None
    first_token_ms: float | None = None
    first_token_user_ms: float | None = None
    bare_first_token_ms: float | None = None
    e2e_ms: float | None = None
    bare_e2e_ms: float | None = None
    model_ms: float | None = None
    tools_ms: float | None = None
    harness_ms: float | None = None
    calls_made: int = 0
    calls_run: int = 0
    calls_lost: int = 0
    calls_written: int = 0
    calls_gained: int = 0
    calls_altered: int = 0
    added_messages: int = 0
    added_tokens: float | None = None
    added_cost_usd: float | None = None
    late: int = 0


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """summary.json. The figures are those of `clawgauge_version`, over the `results_bytes` of
    results.jsonl; `figures_sha256` is of all the rest. A reader that finds one of them otherwise
    makes them anew. `asked` is `decision` where the answers decided what was asked next, else
    `list`. `rule` is that by which jobs are judged: 2 is the sequential decision, 1 the intervals
    of versions before 0.3.0."""

    schema_version: int
    run_id: str
    generated_at: str
    run_wall_clock_ms: int | None
    models: list[GroupSummary]
    n_unreadable_lines: int = 0
    source: str = "clawgauge"
    jobs: list[JobVerdict] = []
    context: str | None = None
    capacity: list[CapacitySummary] = []
    clawgauge_version: str | None = None
    results_bytes: int | None = None
    figures_sha256: str | None = None
    asked: str = "list"
    rule: int = 1
    agents: list[AgentComparison] = []
