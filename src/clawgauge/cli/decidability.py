"""What a run cannot decide: refused where that is all of it, else said before the run.

With it is said what would decide it, so that nobody waits for an answer that cannot come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clawgauge.config.settings import Settings
from clawgauge.console.plain import word_skip_reason
from clawgauge.errors import ConfigError
from clawgauge.plan import Plan, refuse_pass_rate, word_unknown_job
from clawgauge.records import DecisionOptions, Job, Prompt, SuiteInfo
from clawgauge.run_data.evidence import find_pools
from clawgauge.runner.agendas import make_agenda
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.coverage import (
    GOOD_CHANCE,
    NeedCoverage,
    cover_needs,
    families_needed,
    find_lacking_suites,
)
from clawgauge.verdict.decision import OWN_PROMPTS, find_conditions
from clawgauge.words import format_percent, list_names, plural

# Where a good model is decided in fewer runs than this, it is said.
_GOOD_CHANCE_OF_RUN = 0.8
_RUNS = 10


def refuse_undecidable(
    settings: Settings,
    jobs: Mapping[str, Job],
    prompts: Sequence[Prompt],
    suites: Sequence[SuiteInfo],
    decision: DecisionOptions | None,
) -> None:
    """Refuse what the prompts of a run can tell nothing of: --until-decided, --job and --require.

    Raises `ConfigError`, which says what would tell.
    """
    known_jobs = BUILT_IN | dict(jobs)
    if decision is not None:
        refuse_pass_rate(settings)
        if decision.jobs:
            for name in settings.job or ():
                _refuse_job_without_prompts(name, known_jobs[name], prompts, suites)
        else:
            _refuse_prompts_of_no_need(prompts, suites)
    for name in settings.require:
        _refuse_vain_requirement(name, known_jobs, prompts, decision)


def _refuse_prompts_of_no_need(prompts: Sequence[Prompt], suites: Sequence[SuiteInfo]) -> None:
    pools = find_pools(prompts, BUILT_IN)
    if any(pool.prompts for pool in pools.pools.values()):
        return
    raise ConfigError(
        "--until-decided needs prompts that tell of a need of a job, and those chosen of "
        f"{_name_suites(suites)} tell of none: leave the option out"
    )


def _refuse_job_without_prompts(
    name: str, job: Job, prompts: Sequence[Prompt], suites: Sequence[SuiteInfo]
) -> None:
    if not find_conditions(name, job):
        raise ConfigError(
            f"--job {name!r}: it is judged by all answers to a list of prompts: "
            "name them with -s SUITE, and leave --job out"
        )
    coverages = cover_needs(name, job, prompts)
    if any(coverage.n_families for coverage in coverages):
        return
    lacking = find_lacking_suites(name, job, prompts)
    raise ConfigError(
        f"--job {name!r}: the prompts chosen of {_name_suites(suites)} tell of none of its needs; "
        f"add {_name_options(lacking)}"
    )


def _refuse_vain_requirement(
    name: str,
    known_jobs: Mapping[str, Job],
    prompts: Sequence[Prompt],
    decision: DecisionOptions | None,
) -> None:
    if name not in known_jobs:
        raise ConfigError(word_unknown_job("--require", name, known_jobs))
    if decision is not None and decision.jobs and name not in decision.jobs:
        raise ConfigError(
            f"--require {name!r}: this run does not ask for that job; add --job {name!r}"
        )
    lacking = find_lacking_suites(name, known_jobs[name], prompts)
    if lacking:
        raise ConfigError(
            f"--require {name!r}: no model can be shown fit by the prompts chosen; "
            f"add {_name_options(lacking)}"
        )


def _name_suites(suites: Sequence[SuiteInfo]) -> str:
    return ", ".join(suite.name for suite in suites)


def _name_options(suites: Sequence[str]) -> str:
    return " ".join(f"-s {suite}" for suite in suites)


def undecidable_lines(plan: Plan) -> list[str]:
    """Which needs a run cannot decide, or seldom, and what would; nothing of a list of prompts."""
    return [*_lines_of_prompts(plan), *_lines_of_targets(plan)]


def _lines_of_targets(plan: Plan) -> list[str]:
    """The jobs that a target cannot be shown fit for, because it cannot be asked for them."""
    if plan.decision is None:
        return []
    known_jobs = BUILT_IN | dict(plan.jobs)
    lines = []
    for target in plan.targets:
        skipped = make_agenda(plan, target).skipped
        left_out = {name for skip in skipped for name in skip.detail["prompts"]}
        if not left_out:
            continue
        left = [prompt for prompt in plan.asked if f"{prompt.suite}/{prompt.id}" not in left_out]
        jobs = []
        for name in plan.decision.jobs:
            job = known_jobs.get(name)
            if job is None or find_lacking_suites(name, job, plan.asked):
                continue
            if find_lacking_suites(name, job, left):
                jobs.append(name)
        if jobs:
            names = list_names(jobs, len(jobs))
            reasons = "; ".join(_word_skip(skip.detail, target.provider) for skip in skipped)
            lines.append(f"{target.label}: cannot be shown fit for {names}: {reasons}")
    return lines


def _word_skip(detail: Mapping[str, Any], provider: str) -> str:
    prompts = plural(detail["not_asked"], "prompt is", "prompts are")
    if detail["reason"] == "beyond_context":
        line = f"the line context = 32768 under [providers.{provider}]"
        return f"{prompts} {word_skip_reason(detail)}; {line} in clawgauge.toml may raise it"
    return f"{prompts} not asked: {word_skip_reason(detail)}"


def _lines_of_prompts(plan: Plan) -> list[str]:
    """The needs that no prompt of the run tells of, and those that few do."""
    decision = plan.decision
    if decision is None:
        return []
    known_jobs = BUILT_IN | dict(plan.jobs)

    def count_texts(prompt: Prompt) -> int:
        n_texts = 1
        for number in range(1, plan.drawings.n_drawings + 1):
            n_texts += plan.drawings.draw(prompt, number) is not None
        return n_texts

    lines: dict[str, None] = {}
    for name in decision.jobs or known_jobs:
        job = known_jobs.get(name)
        if job is None:
            continue
        coverages = cover_needs(name, job, plan.asked)
        if plan.drawings.n_drawings and any(map(_is_seldom_decided, coverages)):
            # Only now: to draw all prompts takes longer than the rest of a dry run.
            coverages = cover_needs(name, job, plan.asked, count_texts)
        for coverage in coverages:
            need = job.called if coverage.need == OWN_PROMPTS else coverage.need
            if not coverage.n_families and decision.jobs:
                add = _name_options(coverage.suites)
                lines[f"{name}: nobody can be shown fit, no prompt tells of {need}: add {add}"] = (
                    None
                )
            elif _is_seldom_decided(coverage):
                lines[_word_seldom(need, coverage)] = None
    return list(lines)


def _is_seldom_decided(coverage: NeedCoverage) -> bool:
    return bool(coverage.n_families) and coverage.chance < _GOOD_CHANCE_OF_RUN


def _word_seldom(need: str, coverage: NeedCoverage) -> str:
    """`tasks: 12 families: an 85% model is decided in 5 of 10 runs (40 families: in 9)`."""
    n_runs = round(coverage.chance * _RUNS)
    runs = f"in {n_runs} of {_RUNS} runs" if n_runs else f"in fewer than 1 of {_RUNS} runs"
    families = plural(coverage.n_families, "family", "families")
    n_needed = families_needed(coverage.zone)
    return (
        f"{need}: {families} of prompts: a model at {format_percent(coverage.zone.good)} is "
        f"decided {runs} ({n_needed} families: in {round(GOOD_CHANCE * _RUNS)})"
    )
