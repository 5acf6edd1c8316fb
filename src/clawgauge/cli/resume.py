"""Going on with a run: is its plan still the recorded one, and which cells are open?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from clawgauge import journal
from clawgauge.config.settings import OPTIONS, Settings, check_options, flag_of
from clawgauge.errors import RunFolderError, TargetError
from clawgauge.plan import EarlierAnswers, OpenWork, refuse_secret_prompts
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.records import Prompt, RunConfig, RunOptions, SuiteInfo, Target
from clawgauge.reports.clean import clean_cell
from clawgauge.run_data import Row, Run
from clawgauge.run_data.evidence import observe
from clawgauge.suites import (
    BUILTIN_SUITES,
    check_recorded,
    describe_suite,
    is_suite_there,
    load_suite,
    prompts_sha256,
)
from clawgauge.suites.load import WrittenSuite, read_suite
from clawgauge.verdict.best import read_told_apart

_MAX_IDS_NAMED = 5


class ResumeRequest(NamedTuple):
    """What the command line says of the run that is to be gone on with."""

    ref: str
    retry_errors: bool
    force: bool


class ResumedRun(NamedTuple):
    """A run that is gone on with, as it was begun."""

    path: Path
    recorded: RunConfig
    retry_errors: bool
    force: bool

    @property
    def node_names(self) -> list[str]:
        """The nodes of a fleet that it asked its models on."""
        names: dict[str, None] = {}
        for described in self.recorded.providers.values():
            if "node" in described:
                # Several nodes that loaded one server are listed as one.
                names.update(dict.fromkeys(str(described["node"]).split(",")))
        return list(names)


def find_resumed(request: ResumeRequest, runs_dir: Path) -> ResumedRun:
    """The run that is meant; raises `RunFolderError` where it or its plan is not there."""
    path = journal.locate_run(request.ref, runs_dir, answered=False)
    recorded = Run.open(path).config
    if recorded is None:
        raise RunFolderError(
            f"{path} has no config.json of clawgauge's: a run that ended before it began, or one "
            "of another harness; it can be summarised, but not resumed"
        )
    check_recorded(recorded.prompts, path / "config.json")
    return ResumedRun(path, recorded, request.retry_errors, request.force)


def resumed_settings(settings: Settings, config: RunConfig, given: Collection[str]) -> Settings:
    """The recorded options, but for those `given` on the command line and by the environment.

    Which prompts the run has is decided: --prompt-ids only chooses among them.
    """
    recorded = {}
    for name in RunOptions.__struct_fields__:
        is_given = OPTIONS[name].variable is not None
        is_given = is_given or (OPTIONS[name].name or name) in given
        if not is_given or name == "prompt_ids":
            recorded[name] = getattr(config.options, name)
    resumed = msgspec.structs.replace(settings, **recorded)
    check_options(resumed)
    return resumed


def resumed_targets(
    config: RunConfig, given: Sequence[Target], known_providers: Collection[str]
) -> list[Target]:
    """The recorded targets, and after them those that are new; of known providers, all of them."""
    targets = list(config.targets)
    for target in given:
        if target not in config.targets:
            targets.append(target)
    for target in targets:
        if target.provider not in known_providers:
            raise TargetError(
                f"the run asked {target.label!r}, and no provider is called {target.provider!r} "
                "here: name the configuration file that has it with --config"
            )
    return targets


def recorded_prompts(
    config: RunConfig, config_file: Path | None, secrets: Mapping[str, str]
) -> tuple[list[SuiteInfo], list[Prompt]]:
    """Suites and prompts as recorded, unless the files they came from have changed since."""
    sources = [suite.source for suite in config.suites]
    base_dir = _find_sources(sources, config_file)
    if base_dir is None or config.context is not None:
        # Where the files are gone, or a context was put around them, the run folder has all that
        # is needed.
        return config.suites, config.prompts
    suites = [
        load_suite(source, base_dir=base_dir, drawing=config.options.draw) for source in sources
    ]
    recorded_keys = {prompt.key for prompt in config.prompts}
    prompts = []
    for suite in suites:
        for prompt in suite.prompts:
            if config.options.prompt_ids is None or prompt.key in recorded_keys:
                prompts.append(prompt)
    return prefer_recorded(config, [describe_suite(suite) for suite in suites], prompts, secrets)


def _find_sources(sources: Sequence[str], config_file: Path | None) -> Path | None:
    """The folder that all suite files of a run are found from, if there is one."""
    for folder in (Path(), config_file.parent if config_file else Path()):
        if all(is_suite_there(source, folder) for source in sources):
            return folder
    return None


def prefer_recorded(
    config: RunConfig, suites: list[SuiteInfo], prompts: list[Prompt], secrets: Mapping[str, str]
) -> tuple[list[SuiteInfo], list[Prompt]]:
    """The recorded suites and prompts where these are the same; changed ones must hold no key."""
    if prompts_sha256(prompts) == config.prompts_sha256:
        return config.suites, config.prompts
    refuse_secret_prompts(prompts, secrets)
    return suites, prompts


def refuse_changes(resumed: ResumedRun, changes: Sequence[str]) -> None:
    if changes and not resumed.force:
        raise RunFolderError(
            f"cannot resume {clean_cell(resumed.recorded.run_id)}: {'; '.join(changes)}. "
            "Start a new run, or go on with --force and give up comparing the records made before "
            "with those made after"
        )


def find_changes(
    config: RunConfig,
    *,
    settings: Settings,
    prompts: Sequence[Prompt],
    targets: Sequence[Target],
    wanted_targets: Sequence[Target],
    providers: ProviderSet,
    redact: Callable[[str], str],
) -> list[str]:
    """What keeps records made from now on from being compared with those of the run.

    `targets` are all that the run will have, `wanted_targets` those that are wanted now.
    """
    changes = _changed_targets(config, wanted_targets)
    changes += _changed_options(config.options, settings)
    changes += _changed_prompts(config.prompts, prompts)
    names: dict[str, None] = {}
    for target in targets:
        names[target.provider] = None
        names[providers.model_target(target).provider] = None
    for name in names:
        # Another server behind the same name is another subject of measurement.
        recorded_address = config.providers.get(name, {}).get("base_url")
        # A key inside the path is masked on disk, and so must be what it is compared with and shown
        # beside.
        address = redact(str(providers.get(name).describe().get("base_url") or "nowhere"))
        if recorded_address is not None and address != redact(str(recorded_address)):
            changes.append(f"{name} was at {recorded_address} and is now at {address}")
    # A run folder may come from anyone, and the names in it from any server.
    return [clean_cell(change) for change in changes]


def _changed_targets(config: RunConfig, wanted_targets: Sequence[Target]) -> list[str]:
    gone = [target.label for target in config.targets if target not in wanted_targets]
    new = [target.label for target in wanted_targets if target not in config.targets]
    differences = []
    if gone:
        differences.append(f"without {', '.join(gone)}")
    if new:
        differences.append(f"new {', '.join(new)}")
    if not differences:
        return []
    return [f"the targets differ ({'; '.join(differences)})"]


def _changed_options(recorded: RunOptions, settings: Settings) -> list[str]:
    changes = []
    for name in RunOptions.__struct_fields__:
        old = getattr(recorded, name)
        new = getattr(settings, name)
        if old == new:
            continue
        resume = OPTIONS[name].resume
        # More repeats only add cells.
        if resume == "fixed" or (resume == "more" and new < old):
            changes.append(f"{flag_of(name)} was {old} and is now {new}")
    return changes


def _changed_prompts(recorded: Sequence[Prompt], prompts: Sequence[Prompt]) -> list[str]:
    old = {f"{prompt.suite}/{prompt.id}": prompt for prompt in recorded}
    new = {f"{prompt.suite}/{prompt.id}": prompt for prompt in prompts}
    ids_by_change = {
        "changed prompts": [key for key in new if key in old and new[key] != old[key]],
        "prompts gone": [key for key in old if key not in new],
        "new prompts": [key for key in new if key not in old],
    }
    changes = []
    for change, ids in ids_by_change.items():
        if ids:
            more = " …" if len(ids) > _MAX_IDS_NAMED else ""
            changes.append(f"{change} {', '.join(ids[:_MAX_IDS_NAMED])}{more}")
    return changes


def read_recorded_suites(
    config: RunConfig, *, built_in_only: bool = False
) -> dict[str, WrittenSuite]:
    """The files of the suites of a run, by name, as far as they are still there."""
    files = {}
    for suite in config.suites:
        if built_in_only and suite.source not in BUILTIN_SUITES:
            continue
        if is_suite_there(suite.source, Path()):
            files[suite.name] = read_suite(suite.source, base_dir=Path())
    return files


def open_work(
    resumed: ResumedRun,
    settings: Settings,
    asked: Sequence[Prompt],
    targets: Collection[Target],
) -> OpenWork:
    """What the folder of a resumed run has by now, for a stretch that asks `asked` of `targets`."""
    folder = resumed.path
    events = Run.open(folder).events
    index = journal.index_cells(folder)
    stretch = sum(event.event == "stretch_started" for event in events)
    is_decision = resumed.recorded.decision is not None
    refill = set()
    if resumed.retry_errors:
        n_times = 2 if is_decision else settings.repeats
        refill = _find_unanswered(index, n_times, asked, targets)
    is_limited = settings.max_calls is not None or settings.max_cost_usd is not None
    if not is_decision and not is_limited:
        return OpenWork(done=set(index) - refill, refill=refill, stretch=stretch)
    all_answers = _read_answers(folder)
    kept_answers = all_answers
    if refill:
        kept_answers = _read_answers(folder, without=refill)
    # What is about to be asked again was paid for all the same, and so was what has been
    # superseded; of warm-ups, lost attempts and calls given up only the events tell.
    beside_usd = _sum_costs(all_answers) - _sum_costs(kept_answers)
    for row in journal.iter_superseded(folder, Row):
        beside_usd += _paid(row.cost_usd)
    for event in events:
        if event.event in ("stretch_ended", "node_left"):
            beside_usd += _paid(event.detail.get("unrecorded_usd"))
    return OpenWork(
        done=set(index) - refill,
        refill=refill,
        answers=kept_answers,
        beside_usd=beside_usd,
        stretch=stretch,
        told_apart=read_told_apart(events),
    )


def _find_unanswered(
    index: Mapping[journal.CellKey, str],
    repeats: int,
    asked: Sequence[Prompt],
    targets: Collection[Target],
) -> set[journal.CellKey]:
    """The cells of this stretch that have a record without an answer."""
    asked_keys = {prompt.key for prompt in asked}
    known_targets = set(targets)
    unanswered = set()
    for key, status in index.items():
        if status == "ok" or not 0 <= key.repeat < repeats:
            continue
        if Target(*key[:3]) in known_targets and (key.suite, key.prompt_id) in asked_keys:
            unanswered.add(key)
    return unanswered


def _read_answers(
    path: Path, *, without: Collection[journal.CellKey] = frozenset()
) -> dict[Target, EarlierAnswers]:
    """What run folder `path` knows of each target.

    Cells in `without` are about to lose their record and count as open.
    """
    answers_by_target: dict[Target, EarlierAnswers] = {}
    for row in journal.iter_results(path, Row):
        if row.cell in without:
            continue
        answers = answers_by_target.setdefault(row.target, EarlierAnswers())
        answers.cost_usd += _paid(row.cost_usd)
        if row.was_asked:
            answers.n_calls += max(1, row.turns or 1)
        answers.observations[row.suite, row.prompt_id, row.repeat, row.draw] = observe(row)
    return answers_by_target


def _sum_costs(answers_by_target: Mapping[Target, EarlierAnswers]) -> float:
    return sum(answers.cost_usd for answers in answers_by_target.values())


def _paid(cost_usd: object) -> float:
    """A folder may come from anyone, and no line in it earns money back."""
    if not isinstance(cost_usd, int | float):
        return 0.0
    return max(0.0, float(cost_usd))
