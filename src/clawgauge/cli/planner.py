"""From the command line to a plan: settings, secrets, providers, prompts, targets, prices.

Everything that a request can be refused for without asking a model is refused here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from clawgauge.cli.beside import (
    ReferenceRun,
    decision_beside,
    find_reference,
    refuse_known_targets,
    refuse_named_prompts,
    settings_beside,
)
from clawgauge.cli.decidability import refuse_undecidable
from clawgauge.cli.preflight import find_providers
from clawgauge.cli.process import keep_secrets, run_async
from clawgauge.cli.resume import (
    ResumedRun,
    ResumeRequest,
    find_changes,
    find_resumed,
    open_work,
    prefer_recorded,
    read_recorded_suites,
    recorded_prompts,
    refuse_changes,
    resumed_settings,
    resumed_targets,
)
from clawgauge.client_limits import fit_to_descriptors
from clawgauge.config.providers import (
    Tell,
    apply_patterns,
    find_secrets,
    parse_target,
    provider_settings,
)
from clawgauge.config.settings import (
    FIELDS,
    Configuration,
    Settings,
    make_settings,
    read_configuration,
)
from clawgauge.errors import ConfigError, RequestError, TargetError
from clawgauge.journal import check_run_id
from clawgauge.plan import (
    FIND_CONCURRENCY,
    MOST_CALLS_AT_ONCE,
    N_DRAWINGS,
    PLAIN_MAX_CALLS,
    OpenWork,
    PlanDraft,
    Pricing,
    PromptSelection,
    check_targets,
    choose_jobs,
    choose_prompts,
    find_targets,
    fit_concurrency,
    is_decision_run,
    names_prompts,
    price_targets,
    refuse_eviction,
    refuse_secrets,
    select_prompts,
    takes_several_calls,
)
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.records import (
    CapacityOptions,
    DecisionOptions,
    Job,
    Prompt,
    SuiteInfo,
    Target,
)
from clawgauge.registry import find_type
from clawgauge.reports.clean import clean_cell
from clawgauge.run_data import Run
from clawgauge.suites.drawings import NO_DRAWINGS, Drawings, rules_of
from clawgauge.suites.load import WrittenSuite
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.best import find_weighed_pools
from clawgauge.words import list_names, plural

_MAX_JOBS_NAMED = 4

if TYPE_CHECKING:
    from clawgauge.fleet.driver import JoinedNodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What the command line says of a run."""

    options: Mapping[str, Any]
    """By the names of options; file, environment and defaults decide the others."""
    words: Sequence[str]
    """All that was typed, none of which may be a key."""
    config_file: Path | None
    run_id: str | None = None
    resume: ResumeRequest | None = None
    beside: str | None = None
    """The run whose prompts a new model is asked."""
    capacity: CapacityOptions | None = None
    """The load that is to be made; None for a run of prompts."""
    changes_max_time: bool = False
    """Whether a capacity run that is gone on with gets the `max_time_s` of `capacity`."""


@dataclass(frozen=True, slots=True)
class DecidedRun:
    """A run as far as it is decided before its folder is written, and what it goes on with."""

    draft: PlanDraft
    resumed: ResumedRun | None
    nodes: JoinedNodes | None
    """The machines that ask the models, where this one does not."""
    beside: ReferenceRun | None = None
    """The run whose prompts are asked, and whose models are shown in the end."""

    def open_work(self) -> OpenWork:
        """What the run's folder has by now: read it while nobody else writes there."""
        if self.resumed is None:
            return OpenWork()
        draft = self.draft
        return open_work(self.resumed, draft.settings, draft.asked, draft.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basis:
    """What is known of a run before anybody was asked anything."""

    configuration: Configuration
    settings: Settings
    is_decision_run: bool
    """Whether the answers decide what is asked."""
    names_prompts: bool
    """Whether the user said which prompts there are to be asked."""
    providers: ProviderSet
    environ: Mapping[str, str]
    secrets: Mapping[str, str]
    redact: Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What a run asks, and whom."""

    settings: Settings
    suites: list[SuiteInfo]
    prompts: list[Prompt]
    asked: list[Prompt]
    context: str | None
    targets: list[Target]
    capacity: CapacityOptions | None
    nodes: JoinedNodes | None
    resumed: ResumedRun | None
    written: Mapping[str, WrittenSuite]
    """The files of the suites, by name, as far as they are there."""
    beside: ReferenceRun | None = None


def decide_run(request: PlanRequest, tell: Tell) -> DecidedRun:
    """All that is decided before a run; raises the `RequestError` for which there will be none.

    Servers are asked for their models, and nodes for their providers, all in one event loop.
    """
    environ = dict(os.environ)
    environ_secrets = find_secrets({}, environ)
    if environ_secrets:
        refuse_secrets({"the command line": request.words}, environ_secrets)
    configuration = read_configuration(request.config_file, environ)
    settings = _read_settings(request, configuration, environ)
    # A resumed run may have asked any provider.
    named_providers = None
    if request.resume is None:
        named_providers = {_provider_name(text) for text in settings.targets}
    providers = provider_settings(configuration, environ, tell, named_providers)
    secrets = find_secrets(providers, environ)
    redact = keep_secrets(secrets)
    if secrets:
        words = [*request.words, *settings.targets, settings.runs_dir]
        refuse_secrets({"the command line or the configuration file": words}, secrets)
    selection = PromptSelection(settings=settings, prompts=[], suites=[], context=None, written={})
    if request.beside is not None:
        refuse_named_prompts(request.options)
    has_own_prompts = request.resume is None and request.beside is None
    if request.capacity is None and (has_own_prompts or "suites" in request.options):
        suites_dir = Path() if "suites" in request.options else configuration.folder
        resumes = request.resume is not None
        selection = select_prompts(
            settings, configuration.jobs, suites_dir, secrets, tell, resumes=resumes
        )
    basis = _Basis(
        configuration=configuration,
        settings=selection.settings,
        is_decision_run=request.capacity is None and is_decision_run(settings),
        names_prompts=names_prompts(settings),
        providers=ProviderSet(providers),
        environ=environ,
        secrets=secrets,
        redact=redact,
    )
    # Without uvloop, which takes longer to load than all else of a dry run.
    scope = run_async(_find_scope(request, basis, selection, tell), with_uvloop=False)
    return _finish(request, basis, scope, tell)


def _read_settings(
    request: PlanRequest, configuration: Configuration, environ: Mapping[str, str]
) -> Settings:
    """The settings; refused where one that counts is in the file and nobody has vouched for it."""
    from_file = FIELDS.keys() - request.options.keys()
    # A resumed run has targets and suites of its own, and a load has no suites.
    if request.resume is not None and "targets" not in request.options:
        from_file -= {"targets", "unload_others"}
    if request.resume is not None or request.capacity is not None or request.beside is not None:
        from_file -= {"suites"}
    return make_settings(configuration.under(request.options, from_file), environ)


async def _find_scope(
    request: PlanRequest, basis: _Basis, selection: PromptSelection, tell: Tell
) -> _Scope:
    """Everything for which servers or nodes may have to be asked."""
    async with basis.providers as providers:
        nodes, target_texts = await _find_providers(request, basis, tell)
        targets = await _choose_targets(request, basis, target_texts, tell)
        if request.run_id is not None:
            check_run_id(request.run_id)
        if request.beside is not None:
            scope = _scope_beside(request, basis, request.beside, targets, nodes)
        elif request.resume is None:
            scope = _Scope(
                settings=basis.settings,
                suites=selection.suites,
                prompts=selection.prompts,
                asked=selection.prompts,
                context=selection.context,
                targets=targets,
                capacity=request.capacity,
                nodes=nodes,
                resumed=None,
                written=selection.written,
            )
        else:
            resumed = find_resumed(request.resume, Path(basis.settings.runs_dir))
            _refuse_other_kind(resumed, is_capacity=request.capacity is not None)
            if nodes is None and resumed.node_names:
                nodes = await _join_nodes(request, basis, resumed.node_names, tell)
            scope = _resume_scope(request, basis, resumed, selection, targets, nodes)
        if scope.capacity is None:
            is_forced = scope.resumed is not None and scope.resumed.force
            if scope.settings.interleave and not is_forced:
                await refuse_eviction(
                    scope.settings, scope.targets, providers, _free_memory_bytes(), basis.redact
                )
    return scope


def _finish(request: PlanRequest, basis: _Basis, scope: _Scope, tell: Tell) -> DecidedRun:
    """Prices and limits. No loop runs any more, whose descriptors would be counted as used."""
    settings = scope.settings
    providers = basis.providers
    capacity = scope.capacity
    if capacity is None:
        # Of calls that nodes make, this machine's limits say nothing.
        report = tell if scope.nodes is None else _tell_nobody
        concurrency = fit_concurrency(settings, scope.targets, providers, report)
        settings = msgspec.structs.replace(settings, concurrency=concurrency)
    else:
        _refuse_impossible_load(capacity, scope.targets, providers, scope.nodes)
    jobs = dict(basis.configuration.jobs)
    if scope.resumed is not None:
        # What a run was begun with decides what it asks next.
        jobs |= scope.resumed.recorded.jobs
    decision = None
    drawings = NO_DRAWINGS
    if capacity is None:
        decision = _find_decision(scope, basis)
        refuse_undecidable(settings, jobs, scope.prompts, scope.suites, decision)
        if settings.best:
            why_not = _explain_vain_search(decision, jobs, scope.targets)
            if why_not is not None and "best" in request.options:
                raise ConfigError(why_not)
            if why_not is not None and decision is not None:
                # A file that wants it for all runs does not mean those that have no best.
                decision = msgspec.structs.replace(decision, best=False)
    if decision is not None:
        drawings = _find_drawings(scope, decision, tell)
        is_plain = scope.resumed is None and bool(decision.drawings)
        if is_plain and settings.max_calls is None:
            settings = msgspec.structs.replace(settings, max_calls=PLAIN_MAX_CALLS)
    recorded_prices = scope.resumed.recorded.prices if scope.resumed is not None else {}
    pricing = price_targets(settings, scope.targets, providers, recorded_prices)
    if capacity is not None:
        _refuse_unlimited_cost(settings, scope.targets, pricing)
        if scope.nodes is None:
            capacity = _fit_capacity(capacity, scope.targets, providers, tell)
    draft = PlanDraft(
        settings=settings,
        prompts=scope.prompts,
        asked=scope.asked,
        suites=scope.suites,
        context=scope.context,
        targets=scope.targets,
        providers=providers,
        prices=pricing.prices,
        free=pricing.free,
        capacity=capacity,
        decision=decision,
        drawings=drawings,
        jobs=jobs,
        config_file=request.config_file,
        environ=basis.environ,
        secrets=basis.secrets,
        redact=basis.redact,
    )
    return DecidedRun(draft, scope.resumed, scope.nodes, scope.beside)


def _tell_nobody(_line: str) -> None: ...


def _free_memory_bytes() -> int:
    import psutil  # loaded where it is needed: a dry run seldom does

    return int(psutil.virtual_memory().available)


def _provider_name(target_text: str) -> str:
    return target_text.removeprefix("!").partition(":")[0]


async def _find_providers(
    request: PlanRequest, basis: _Basis, tell: Tell
) -> tuple[JoinedNodes | None, list[str]]:
    """The nodes that are to ask the models, if any, and the targets, each with its provider."""
    texts = basis.settings.targets
    node_names = basis.settings.nodes or _find_node_names(texts, basis.configuration)
    if node_names:
        from clawgauge.fleet.nodes import expand_targets

        nodes = await _join_nodes(request, basis, node_names, tell)
        return nodes, expand_targets(basis.providers.settings, texts)
    if any(_provider_name(text) not in basis.providers.settings for text in texts):
        texts = await find_providers(texts, basis.providers, tell)
    return None, texts


def _find_node_names(target_texts: Sequence[str], configuration: Configuration) -> list[str]:
    """The nodes before the providers of targets.

    A command that a run ends with, to be pasted, names them there alone.
    """
    known_nodes = [*configuration.nodes, *configuration.withheld["nodes"]]
    node_names = []
    for text in target_texts:
        name = _provider_name(text).partition(".")[0]
        # A cluster's machines are called by its name and a number.
        if any(name == known or name.startswith(f"{known}-") for known in known_nodes):
            node_names.append(name)
    return node_names


async def _join_nodes(
    request: PlanRequest, basis: _Basis, names: Sequence[str], tell: Tell
) -> JoinedNodes:
    from clawgauge.fleet.nodes import join_nodes

    is_load = request.capacity is not None
    nodes = await join_nodes(basis.settings, basis.configuration, names, tell, is_load=is_load)
    basis.providers.add(nodes.providers)
    return nodes


async def _choose_targets(
    request: PlanRequest, basis: _Basis, texts: Sequence[str], tell: Tell
) -> list[Target]:
    """The targets that are wanted now; none where a resumed run has its own."""
    providers = basis.providers
    patterns = [parse_target(text, providers.settings) for text in texts]
    included = [pattern for pattern in patterns if not pattern.excludes]
    names_targets = request.resume is None or "targets" in request.options
    names_every_model = bool(included) and not any(pattern.is_wild for pattern in included)
    targets: list[Target] = []
    if names_targets:
        for pattern in included:
            unusable = providers.settings[pattern.target.provider].unusable
            if unusable is not None:
                raise ConfigError(unusable)
        if names_every_model:
            targets = apply_patterns(patterns, {})
            check_targets(targets, providers, basis.secrets)
    _report_configuration(basis.configuration, tell)
    if names_targets and not names_every_model:
        targets = await find_targets(patterns, providers, basis.environ, basis.redact, tell)
        check_targets(targets, providers, basis.secrets)
    if request.capacity is not None:
        _refuse_programs_under_load(targets, providers)
    return targets


def _refuse_programs_under_load(targets: Sequence[Target], providers: ProviderSet) -> None:
    """Refuse agent programs where a server is to be loaded: the programs would be the load."""
    for target in targets:
        if find_type(providers.settings[target.provider].type).is_agent:
            bare = providers.model_target(target).label
            raise TargetError(
                f"target {target.label!r}: under load the program itself would be measured; "
                f"ask the bare model with -t {bare}"
            )


def _report_configuration(configuration: Configuration, tell: Tell) -> None:
    """Which file counts, and what of it is left out until the user has vouched for it."""
    if configuration.path is None:
        return
    withheld = []
    for table, names in configuration.withheld.items():
        for name in sorted(names):
            withheld.append(f"[run] {name}" if table == "run" else f"[{table}.{name}]")
    left_out = ""
    if withheld:
        left_out = f"; left out, until `clawgauge trust`: {', '.join(withheld)}"
    tell(clean_cell(f"using {configuration.path} ({configuration.standing}){left_out}"))


def _refuse_other_kind(resumed: ResumedRun, *, is_capacity: bool) -> None:
    """Refuse a capacity run where a run of prompts is gone on with, and the other way round."""
    recorded = resumed.recorded.capacity
    if not is_capacity and recorded is not None:
        raise RequestError(
            f"{resumed.path} is a capacity run: go on with it by `clawgauge capacity --resume`"
        )
    if is_capacity and (recorded is None or recorded.swap):
        raise ConfigError(
            f"{resumed.path} is no capacity run to go on with: use `clawgauge run --resume`"
        )


def _scope_beside(
    request: PlanRequest,
    basis: _Basis,
    ref: str,
    targets: list[Target],
    nodes: JoinedNodes | None,
) -> _Scope:
    """What new models are asked beside those of an earlier run: as that has recorded it."""
    reference = find_reference(ref, basis.settings, basis.secrets)
    config = reference.recorded
    if nodes is not None:
        raise ConfigError("--beside asks from this machine: leave the nodes out")
    refuse_known_targets(targets, config, reference.path)
    return _Scope(
        settings=settings_beside(basis.settings, config, request.options),
        suites=config.suites,
        prompts=config.prompts,
        asked=config.prompts,
        context=config.context,
        targets=targets,
        capacity=None,
        nodes=None,
        resumed=None,
        written={},
        beside=reference,
    )


def _resume_scope(
    request: PlanRequest,
    basis: _Basis,
    resumed: ResumedRun,
    selection: PromptSelection,
    targets: Sequence[Target],
    nodes: JoinedNodes | None,
) -> _Scope:
    """What a resumed run asks: as recorded, with what the command line says anew.

    Raises `RunFolderError` for a change that matters, unless it is forced.
    """
    config = resumed.recorded
    settings = resumed_settings(basis.settings, config, request.options)
    if "suites" in request.options or request.capacity is not None:
        suites, prompts = prefer_recorded(
            config, selection.suites, selection.prompts, basis.secrets
        )
    else:
        suites, prompts = recorded_prompts(config, request.config_file, basis.secrets)
    all_targets = resumed_targets(config, targets, basis.providers.settings)
    check_targets(all_targets, basis.providers, basis.secrets)
    changes = find_changes(
        config,
        settings=settings,
        prompts=prompts,
        targets=all_targets,
        wanted_targets=targets if "targets" in request.options else config.targets,
        providers=basis.providers,
        redact=basis.redact,
    )
    refuse_changes(resumed, changes)
    asked = prompts
    if "prompt_ids" in request.options:
        # Only these of the run's own prompts are asked now; the others stay open.
        asked = choose_prompts(prompts, request.options["prompt_ids"])
    capacity = config.capacity
    if capacity is not None and request.capacity is not None and request.changes_max_time:
        capacity = msgspec.structs.replace(capacity, max_time_s=request.capacity.max_time_s)
    return _Scope(
        settings=settings,
        suites=suites,
        prompts=prompts,
        asked=asked,
        context=config.context,
        targets=all_targets,
        capacity=capacity,
        nodes=nodes,
        resumed=resumed,
        written={},
    )


def _find_decision(scope: _Scope, basis: _Basis) -> DecisionOptions | None:
    """How the answers decide what is asked next; None where a list is asked.

    A resumed run keeps to what it was begun with, so that it asks the same in the same order.
    """
    settings = scope.settings
    if scope.resumed is not None:
        decision = scope.resumed.recorded.decision
        if decision is None:
            return None
        if settings.job is not None:
            names = choose_jobs(settings, basis.configuration.jobs)
            decision = msgspec.structs.replace(decision, jobs=names)
        decision = msgspec.structs.replace(decision, best=settings.best)
        return _add_calls_ahead(decision, scope, basis)
    if scope.beside is not None:
        decision = decision_beside(scope.beside.recorded, basis.configuration.jobs)
        return None if decision is None else _add_calls_ahead(decision, scope, basis)
    if not basis.is_decision_run:
        return None
    if scope.nodes is not None:
        raise ConfigError(
            "a run on other machines asks a list of prompts: name them with -s SUITE, --prompt-ids "
            "or --full"
        )
    jobs: list[str] = []
    if not basis.names_prompts or settings.job is not None:
        jobs = choose_jobs(settings, basis.configuration.jobs)
    n_drawings = 0 if basis.names_prompts else N_DRAWINGS
    decision = DecisionOptions(
        jobs=jobs,
        order=settings.order,
        drawings=n_drawings,
        rules_sha256=rules_of(scope.written) if n_drawings else {},
        best=settings.best,
    )
    return _add_calls_ahead(decision, scope, basis)


def _explain_vain_search(
    decision: DecisionOptions | None, jobs: Mapping[str, Job], targets: Sequence[Target]
) -> str | None:
    """Why --best could find no best, however much is asked; None where it may."""
    if decision is None:
        return (
            "--best goes on once it is decided who is fit, and a list of prompts decides nothing: "
            "leave the prompts out, or add --job"
        )
    if not decision.jobs:
        return "--best wants to know for which job: add --job"
    if len(targets) < 2:
        return "--best tells the models of a run apart: name at least two with -t"
    known_jobs = BUILT_IN | dict(jobs)
    if any(find_weighed_pools(name, known_jobs[name]) for name in decision.jobs):
        return None
    return (
        f"--best tells by right answers, and {list_names(decision.jobs, _MAX_JOBS_NAMED)} "
        "weighs time and cost alone: leave it out"
    )


def _add_calls_ahead(decision: DecisionOptions, scope: _Scope, basis: _Basis) -> DecisionOptions:
    """With how many calls ahead each target is asked: fixed before the first of them."""
    calls_ahead = dict(decision.calls_ahead)
    for target in scope.targets:
        if target.label in calls_ahead:
            continue
        n_calls = scope.settings.concurrency
        if n_calls == FIND_CONCURRENCY:
            n_calls = 1
            # Where targets take turns, each is asked one prompt at a time.
            if not scope.settings.interleave and takes_several_calls(basis.providers, target):
                n_calls = MOST_CALLS_AT_ONCE
        calls_ahead[target.label] = n_calls
    return msgspec.structs.replace(decision, calls_ahead=calls_ahead)


def _find_drawings(scope: _Scope, decision: DecisionOptions, tell: Tell) -> Drawings:
    """The further drawings that the run may ask.

    A resumed run has those that it asked. Others are made of the suites as they are now, where
    these are still the same.
    """
    recorded = {}
    written = dict(scope.written)
    earlier = scope.resumed or scope.beside
    if earlier is not None:
        recorded = Run.open(earlier.path).drawn_prompts
        # Of a run that may be anyone's no file is opened.
        is_built_in_only = scope.beside is not None
        suite_files = read_recorded_suites(earlier.recorded, built_in_only=is_built_in_only)
        for name, sha256 in decision.rules_sha256.items():
            file = suite_files.get(name)
            if file is not None and file.rules_sha256() == sha256:
                written[name] = file
            else:
                tell(f"{name} has changed since the run began: no further values are drawn in it")
    return Drawings(written, decision.drawings, recorded)


def _refuse_impossible_load(
    capacity: CapacityOptions,
    targets: Sequence[Target],
    providers: ProviderSet,
    nodes: JoinedNodes | None,
) -> None:
    if capacity.swap and len(targets) < 2:
        raise ConfigError("--swap changes between models: name at least two with -t")
    n_nodes = 1
    if nodes is not None:
        for target in targets:
            names = str(providers.get(target.provider).describe().get("node"))
            n_nodes = max(n_nodes, len(names.split(",")))
    if capacity.rates and capacity.max_concurrency < n_nodes:
        raise ConfigError(
            f"--max-concurrency is shared out to the nodes: with --rate give {n_nodes} or more"
        )


def _refuse_unlimited_cost(settings: Settings, targets: Sequence[Target], pricing: Pricing) -> None:
    if settings.max_cost_usd is not None:
        return
    paid = [target.label for target in targets if target not in pricing.free]
    if paid:
        raise ConfigError(
            f"loading {', '.join(paid)} may cost money: say how much with --max-cost "
            "(a server of your own has `local = true` in its table)"
        )


def _fit_capacity(
    capacity: CapacityOptions, targets: Sequence[Target], providers: ProviderSet, tell: Tell
) -> CapacityOptions:
    """The load, with no more calls at once than this machine can open; reports if that is fewer."""
    per_call = max(providers.get(target.provider).descriptors_per_call for target in targets)
    fitted = fit_to_descriptors(capacity.max_concurrency, per_call)
    if fitted == capacity.max_concurrency:
        return capacity
    tell(f"this machine's limit of open files allows {plural(fitted, 'call')} at once")
    return msgspec.structs.replace(capacity, max_concurrency=fitted)
