"""A new model beside those of an earlier run: asked the same prompts, and shown in one table.

The earlier run may be anyone's. Its prompts are asked and its figures shown, but it has no say in
whom to ask, what may be spent, where anything is written, or what a job needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from clawgauge.cli.files import open_run
from clawgauge.compare.comparison import ComparisonOptions, IncomparableRuns, compare_runs
from clawgauge.config.settings import Settings, check_options, flag_of
from clawgauge.errors import ClawgaugeError, ConfigError, RunFolderError, TargetError
from clawgauge.plan import PlanDraft, refuse_secret_prompts
from clawgauge.prices import settings_of
from clawgauge.records import (
    DecisionOptions,
    GroupSummary,
    Job,
    RunConfig,
    RunSummary,
    Target,
)
from clawgauge.reports.answer import decides_jobs, describe_jobs, describe_models
from clawgauge.reports.clean import clean_cell
from clawgauge.reports.compare import describe_comparison, say_difference
from clawgauge.reports.document import Part, Points, Prose, Section
from clawgauge.run_data import Run
from clawgauge.suites import check_recorded
from clawgauge.summary import summarize_folder
from clawgauge.verdict import BUILT_IN, judge_jobs
from clawgauge.words import list_names

# What decides how a prompt is put to a model: as in the run beside which it is asked.
_OPTIONS_KEPT = (
    "repeats",
    "max_tokens",
    "temperature",
    "seed",
    "stream",
    "unique_prefix",
    "timeout_s",
    "draw",
    "order",
)
# What names prompts, which the other run has done.
_OPTIONS_REFUSED = (
    "suites",
    "prompt_ids",
    "full",
    "in_context",
    "job",
    "order",
    "draw",
    "repeats",
    "until_decided",
    "best",
    "nodes",
)
_MAX_NAMED = 4


class ReferenceRun(NamedTuple):
    """The run beside whose models a new one is asked."""

    path: Path
    recorded: RunConfig


def refuse_named_prompts(options: Mapping[str, object]) -> None:
    """Refuse options, as given on the command line, that say what is asked."""
    for name in _OPTIONS_REFUSED:
        if name in options:
            raise ConfigError(f"--beside asks what the other run asked: leave {flag_of(name)} out")


def find_reference(ref: str, settings: Settings, secrets: Mapping[str, str]) -> ReferenceRun:
    """The run that is meant; raises `RequestError` where its prompts cannot be asked."""
    path = open_run(ref, Path(settings.runs_dir), loads=False)
    run = Run.open(path)
    recorded = run.config
    if recorded is None or not recorded.prompts:
        raise RunFolderError(f"{path} does not say which prompts it asked: name another run")
    if recorded.capacity is not None:
        raise RunFolderError(f"{path} is a capacity run: nothing can be asked beside it")
    check_recorded(recorded.prompts, path / "config.json")
    check_recorded(run.drawn_prompts.values(), path / "prompts.jsonl")
    refuse_secret_prompts(recorded.prompts, secrets)
    return ReferenceRun(path, recorded)


def settings_beside(
    settings: Settings, config: RunConfig, options: Mapping[str, object]
) -> Settings:
    """The settings with what decides how prompts are put to a model as the other run had it."""
    settings_of_run = {}
    for name in _OPTIONS_KEPT:
        if name.removesuffix("_s") not in options:
            settings_of_run[name] = getattr(config.options, name)
    beside = msgspec.structs.replace(settings, **settings_of_run)
    check_options(beside)
    return beside


def refuse_known_targets(targets: Sequence[Target], config: RunConfig, path: Path) -> None:
    known = [target.label for target in targets if target in config.targets]
    if known:
        names = list_names(known, _MAX_NAMED)
        raise TargetError(
            f"{path.name} has asked {clean_cell(names)} itself: name a model that is new with -t"
        )


def decision_beside(config: RunConfig, jobs: Mapping[str, Job]) -> DecisionOptions | None:
    """How the answers decide what is asked, as in the other run; None where that asked a list.

    Which jobs there are, and what they need, the user says.
    """
    if config.decision is None:
        return None
    known_jobs = BUILT_IN | dict(jobs)
    names = [name for name in config.decision.jobs if name in known_jobs]
    if config.decision.jobs and not names:
        raise ConfigError(
            f"the other run decided {clean_cell(list_names(config.decision.jobs, _MAX_NAMED))}, "
            "which are no jobs here: add their [jobs] tables to clawgauge.toml"
        )
    return msgspec.structs.replace(config.decision, jobs=names, calls_ahead={}, best=False)


def describe_beside(
    reference: ReferenceRun, plan: PlanDraft, path: Path, summary: RunSummary
) -> list[Section]:
    """The new models and those of the other run in one table, and what they did on the prompts
    that both were asked."""
    earlier = summarize_folder(reference.path)
    own = Run.open(path).config
    groups = [*earlier.models, *summary.models]
    described: dict[str, Mapping[str, object]] = {}
    for config, models in ((reference.recorded, earlier.models), (own, summary.models)):
        for group in models:
            described[group.target.label] = settings_of(config, group.target)
    known_jobs = BUILT_IN | dict(plan.jobs)
    jobs = {}
    for name, job in known_jobs.items():
        # Answers were counted by what the other run took the job for.
        if (BUILT_IN | reference.recorded.jobs).get(name) == job:
            jobs[name] = job
    verdicts = judge_jobs(groups, jobs, lambda target: described[target.label])
    is_decision = decides_jobs(own) and decides_jobs(reference.recorded)
    table = describe_models(groups, verdicts, is_decision=is_decision)
    title = f"beside {reference.path.name}"
    notes: list[Part] = []
    if earlier.rule != summary.rule:
        notes.append(
            Prose(
                [
                    f"{reference.path.name} is judged by the rule of its version; "
                    f"clawgauge rescore {reference.path.name} --rule now judges it by today's"
                ]
            )
        )
    sections = [Section(title, [*table.parts, *notes]), describe_jobs(verdicts)]
    for new in summary.models:
        for old in earlier.models:
            sections += _compare_pair(reference.path, path, old, new)
    return sections


def _compare_pair(earlier: Path, path: Path, old: GroupSummary, new: GroupSummary) -> list[Section]:
    """What two models did on the prompts that both were asked; or why that cannot be said."""
    title = clean_cell(f"{old.target.label} → {new.target.label}, on what both were asked")
    options = ComparisonOptions(maps=[f"{old.target.label}={new.target.label}"])
    try:
        comparison = compare_runs(earlier, path, options)
    except IncomparableRuns as error:
        reasons = [say_difference(difference) for difference in error.differences]
        return [Section(title, [Points([clean_cell(reason) for reason in reasons])])]
    except ClawgaugeError as error:
        return [Section(title, [Prose([clean_cell(str(error))])])]
    pairs = [pair for pair in comparison.pairs if pair.target_a == old.target.label]
    pairs = [pair for pair in pairs if pair.target_b == new.target.label]
    if not pairs:
        return []
    narrowed = msgspec.structs.replace(comparison, pairs=pairs)
    # Which runs these are stands above.
    return describe_comparison(narrowed)[1:]
