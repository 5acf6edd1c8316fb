"""What a run is, decided before it begins: its `Plan`, and the single steps by which one is made.

`cli.planner` takes these steps in their order; a node of a fleet takes those that are left to it.
Every step raises a `RequestError` where the run cannot be as it is wanted.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from clawgauge.checks import needs_shell
from clawgauge.client_limits import fit_to_descriptors
from clawgauge.config.providers import TargetPattern, Tell, apply_patterns
from clawgauge.config.settings import Settings
from clawgauge.errors import CallFailure, ConfigError, RequestError, SuiteError, TargetError
from clawgauge.journal import CellKey
from clawgauge.prices import Price, PriceTable, host_of, load_prices, vendor_of
from clawgauge.providers.base import Provider
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.proxies import is_loopback
from clawgauge.readings import readings
from clawgauge.records import (
    CapacityOptions,
    DecisionOptions,
    Job,
    Prompt,
    PromptKey,
    SuiteInfo,
    SuiteRecord,
    Target,
    share_contexts,
)
from clawgauge.registry import (
    CLAUDE_CODE_CLI,
    EMBEDDED,
    EMBEDDED_MODEL,
    OLLAMA_OPENAI,
    PROVIDER_TYPES,
    find_type,
)
from clawgauge.run_data.asking_order import order_texts
from clawgauge.run_data.evidence import Observation, find_pools
from clawgauge.secrets import SecretMask, looks_secret
from clawgauge.suites import BUILTIN_SUITES, describe_suite
from clawgauge.suites.context import CONTEXT_SUITES, add_context, load_context
from clawgauge.suites.drawings import Drawings
from clawgauge.suites.load import WrittenSuite, read_suite
from clawgauge.verdict.best import PairKey
from clawgauge.verdict.jobs import BUILT_IN, PLAIN_JOBS, find_suites
from clawgauge.words import plural
from clawgauge.world import can_run

FIND_CONCURRENCY = 0
"""As `--concurrency`: the run finds out by itself how many calls at once are good."""
MOST_CALLS_AT_ONCE = 8
"""How many that are at most, for a server elsewhere."""
PLAIN_MAX_CALLS = 400
"""How many requests a target gets at most where neither prompts nor a limit are named."""
N_DRAWINGS = 3
"""How many drawings of a prompt there are beside the text as written."""
NATIVE_SUITE = "native_tools"
TEXT_SUITE = "tool_use"
"""What shows calls where a model takes no tools: it is asked to write them."""
# How many prompts are asked both bare and in the user's own context where none are named.
_N_IN_CONTEXT = {"native_tools": 22, "restraint": 15, "agentic": 9}


@dataclass(slots=True)
class EarlierAnswers:
    """What earlier stretches of a run know of a target."""

    n_calls: int = 0
    """How many requests were made: each turn of a task is one."""
    cost_usd: float = 0.0
    observations: dict[tuple[str, str, int, int], Observation] = field(default_factory=dict)
    """What came of every cell, by suite, prompt id, repeat and drawing."""


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What a run folder already has."""

    done: Collection[CellKey] = frozenset()
    refill: Collection[CellKey] = frozenset()
    """Cells that have a record without an answer, which is put aside when they are asked again."""
    answers: Mapping[Target, EarlierAnswers] = field(default_factory=dict)
    beside_usd: float = 0.0
    """What was paid and has no record."""
    stretch: int = 0
    """How many stretches there were before this one."""
    told_apart: Mapping[PairKey, float] = field(default_factory=dict)
    """The models that `--best` has told apart, with the p-value of each pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDraft:
    """A run, decided but for what its folder already has.

    That can be read only once nobody else writes the folder: `complete` then makes the plan.
    """

    settings: Settings
    """With `concurrency` as far as this machine can open so many connections."""
    prompts: list[Prompt]
    asked: list[Prompt]
    """Those of `prompts` that this stretch asks."""
    suites: list[SuiteInfo]
    context: str | None
    """Whose context some prompts are asked in."""
    targets: list[Target]
    providers: ProviderSet
    prices: Mapping[Target, Price]
    free: Collection[Target]
    """Targets on the user's own machine that have no price and need none."""
    capacity: CapacityOptions | None
    decision: DecisionOptions | None
    """How the answers decide what is asked next; None where a list is asked."""
    drawings: Drawings
    jobs: Mapping[str, Job]
    config_file: Path | None
    """The configuration file that the user named on the command line."""
    environ: Mapping[str, str]
    secrets: Mapping[str, str]
    redact: Callable[[str], str]

    def provider(self, name: str) -> Provider:
        """The provider of this name, for questions that need no connection."""
        return self.providers.get(name)

    def complete(self, work: OpenWork) -> Plan:
        return Plan(
            settings=self.settings,
            prompts=self.prompts,
            asked=self.asked,
            suites=self.suites,
            context=self.context,
            targets=self.targets,
            providers=self.providers,
            prices=self.prices,
            free=self.free,
            capacity=self.capacity,
            decision=self.decision,
            drawings=self.drawings,
            jobs=self.jobs,
            config_file=self.config_file,
            environ=self.environ,
            secrets=self.secrets,
            redact=self.redact,
            work=work,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(PlanDraft):
    """A run, decided: all that it is but for the folder it goes into."""

    work: OpenWork

    @property
    def is_asked_elsewhere(self) -> bool:
        """Whether other machines ask the models."""
        return any(
            self.providers.settings[target.provider].make is not None for target in self.targets
        )

    def calls_at_once(self, target: Target) -> int:
        """How many calls to a target may be under way at most.

        What was not said is found out: a server elsewhere takes several, while one of the user's
        own takes one at a time.
        """
        limit = self.settings.concurrency
        if limit == FIND_CONCURRENCY:
            limit = MOST_CALLS_AT_ONCE if takes_several_calls(self.providers, target) else 1
        if self.decision is not None:
            limit = min(limit, self.decision.calls_ahead.get(target.label, 1))
        return limit

    def create_provider(self, target: Target) -> Provider:
        """A provider to measure one target with, which whoever enters it has to leave."""
        return self.providers.create(target.provider, self.calls_at_once(target))


def runs_alone(providers: ProviderSet, target: Target) -> bool:
    """Whether a target is asked with nothing of ours beside it: it runs on this machine, or its
    table says that it does."""
    settings = providers.settings.get(target.provider)
    if settings is None:
        return True
    model_target = providers.model_target(target)
    if model_target != target:
        return runs_alone(providers, model_target)
    stated = settings.extra.get("stated_local")
    if stated is not None:
        return bool(stated)
    if providers.get(target.provider).local:
        return True
    host = host_of(settings.base_url)
    return bool(host) and is_loopback(host)


def takes_several_calls(providers: ProviderSet, target: Target) -> bool:
    """Whether a target may get several calls at once without having been asked to: a program that
    is started for each of them is as heavy as a model of one's own."""
    is_program = find_type(providers.settings[target.provider].type).program is not None
    return not is_program and not runs_alone(providers, target)


def is_decision_run(settings: Settings) -> bool:
    """Whether the answers decide what is asked: unless prompts are named, or all are wanted."""
    if settings.until_decided or settings.job:
        return True
    return not names_prompts(settings) and settings.in_context is None


def names_prompts(settings: Settings) -> bool:
    """Whether the settings say which prompts there are to be asked."""
    return bool(settings.suites) or settings.prompt_ids is not None or settings.full


def refuse_mixed_extent(settings: Settings) -> None:
    """Refuse options of a list of prompts where the answers decide what is asked."""
    if settings.in_context is not None and (settings.until_decided or settings.job):
        raise ConfigError("--until-decided leaves out what --in-context compares: use one of them")
    if not is_decision_run(settings):
        return
    name_prompts = "name the prompts with -s SUITE, --prompt-ids or --full"
    if settings.repeats > 1:
        raise ConfigError(f"--repeats asks the same prompts again: {name_prompts}")
    if settings.draw:
        raise ConfigError(
            "--draw asks one drawing of a list of prompts, and this run draws by itself: "
            f"{name_prompts}"
        )
    refuse_pass_rate(settings)


def refuse_pass_rate(settings: Settings) -> None:
    """Refuse --fail-under where the answers decide what is asked: a rate over these is no gate."""
    if settings.fail_under is None:
        return
    if names_prompts(settings):
        raise ConfigError(
            "--fail-under wants a list of prompts that are all asked: leave out --until-decided "
            "and --job, or gate by --require JOB"
        )
    raise ConfigError(
        "--fail-under needs -s or --full: what a run without them asks hangs on the answers; "
        "its gate is --require JOB"
    )


def choose_suites(settings: Settings, jobs: Mapping[str, Job], *, in_context: bool) -> Settings:
    """The settings with suites in them, where the user has named none."""
    if settings.suites:
        return settings
    if in_context:
        suites = list(CONTEXT_SUITES)
    elif settings.full or settings.prompt_ids is not None:
        suites = list(BUILTIN_SUITES)
    else:
        suites = suites_of_jobs(choose_jobs(settings, jobs), jobs)
        if NATIVE_SUITE in suites and TEXT_SUITE not in suites:
            # Asked only of a target that takes no tools.
            suites.append(TEXT_SUITE)
    return msgspec.structs.replace(settings, suites=suites)


def choose_jobs(settings: Settings, jobs: Mapping[str, Job]) -> list[str]:
    """The jobs that a run decides: those that were named, else what everybody wants to know, and
    the user's own.

    Raises `ConfigError` for a job that nobody knows.
    """
    known_jobs = BUILT_IN | dict(jobs)
    if settings.job is None:
        return [*PLAIN_JOBS, *(name for name in jobs if name not in PLAIN_JOBS)]
    for name in settings.job:
        if name not in known_jobs:
            raise ConfigError(word_unknown_job("--job", name, known_jobs))
    return list(settings.job)


def word_unknown_job(option: str, name: str, known_jobs: Iterable[str]) -> str:
    names = ", ".join(repr(job) for job in known_jobs)
    return f"{option} {name!r}: there is no such job; the jobs are {names}"


def suites_of_jobs(names: Iterable[str], jobs: Mapping[str, Job]) -> list[str]:
    """The built-in suites that show what these jobs need, in the order of the suites."""
    known_jobs = BUILT_IN | dict(jobs)
    needed: set[str] = set()
    for name in names:
        needed.update(find_suites(known_jobs[name]))
    suites = [suite for suite in BUILTIN_SUITES if suite in needed]
    if not suites:
        raise ConfigError(
            "none of the built-in suites shows what these jobs need: name suites with -s"
        )
    return suites


class PromptSelection(NamedTuple):
    """The prompts of a run, the suites they are of, and whose context some of them are asked in.

    `written` are the suites' files, by the name of the suite.
    """

    settings: Settings
    prompts: list[Prompt]
    suites: list[SuiteInfo]
    context: str | None
    written: Mapping[str, WrittenSuite]


def select_prompts(
    settings: Settings,
    jobs: Mapping[str, Job],
    suites_dir: Path,
    secrets: Mapping[str, str],
    tell: Tell,
    *,
    resumes: bool,
) -> PromptSelection:
    """The prompts that the settings name, and the settings with the suites chosen.

    A run that `resumes` another has its own to choose from: it gets all of these.
    """
    context = None
    if settings.in_context and not resumes:
        context = load_context(Path(settings.in_context))
    if not resumes:
        refuse_mixed_extent(settings)
    has_named_prompts = names_prompts(settings)
    settings = choose_suites(settings, jobs, in_context=context is not None)
    written = [read_suite(ref, base_dir=suites_dir) for ref in settings.suites]
    suites = _build_suites(settings, written, tell)
    prompts = [prompt for suite in suites for prompt in suite.prompts]
    if settings.prompt_ids is not None and not resumes:
        prompts = choose_prompts(prompts, settings.prompt_ids)
    context_text = None
    if context is not None and not has_named_prompts:
        prompts = _choose_for_context(prompts, suites)
    if context is not None:
        prompts = add_context(prompts, context)
        size = f"{len(context.system or '')} characters, {plural(len(context.tools), 'tool')}"
        context_text = f"{settings.in_context} ({size})"
    # Prompts are kept in the run folder and sent to models: no place for a key.
    if secrets:
        refuse_secret_prompts(prompts, secrets)
    if not resumes:
        prompts = _leave_out_shell_prompts(prompts, tell)
    suite_infos = [describe_suite(suite) for suite in suites]
    return PromptSelection(
        settings=settings,
        prompts=prompts,
        suites=suite_infos,
        context=context_text,
        written={suite.name: file for suite, file in zip(suites, written, strict=True)},
    )


def _choose_for_context(prompts: Sequence[Prompt], suites: Sequence[SuiteRecord]) -> list[Prompt]:
    """Some of every suite, the first in the order in which everybody asks them."""
    pools = find_pools(prompts, {})
    versions = {suite.name: suite.version for suite in suites}
    chosen: set[PromptKey] = set()
    for suite, n_prompts in _N_IN_CONTEXT.items():
        members = [prompt for prompt in prompts if prompt.suite == suite]
        texts = order_texts(members, pools, versions, order=0, n_drawings=0)
        chosen.update(text.prompt.key for text in texts[:n_prompts])
    return [prompt for prompt in prompts if prompt.key in chosen]


def _build_suites(
    settings: Settings, written: Sequence[WrittenSuite], tell: Tell
) -> list[SuiteRecord]:
    """The suites with the drawing that is wanted; reports those in which nothing can be drawn."""
    suites = [suite.build(settings.draw) for suite in written]
    names = [suite.name for suite in suites]
    for name in names:
        if names.count(name) > 1:
            # They could not be told apart in the records.
            raise SuiteError(
                f"two suites are named {name!r}: name each only once, or rename one in its header"
            )
    if settings.draw:
        undrawn = []
        for suite, file in zip(suites, written, strict=True):
            if suite.prompts == file.build().prompts:
                undrawn.append(suite.name)
        if undrawn:
            where = ", ".join(undrawn)
            tell(f"--draw {settings.draw}: nothing can be drawn in {where}; asked as written")
    return suites


def _leave_out_shell_prompts(prompts: list[Prompt], tell: Tell) -> list[Prompt]:
    """The prompts that can be judged on this machine; refused where that is none of them."""
    n_needing_shell = sum(needs_shell(prompt) for prompt in prompts)
    if not n_needing_shell or can_run():
        return prompts
    why = "the package bashkit is not installed, and has no build for every system"
    others = [prompt for prompt in prompts if not needs_shell(prompt)]
    if not others:
        raise ConfigError(
            f"every prompt chosen needs the simulated shell: {why}; choose other suites with -s"
        )
    left_out = plural(n_needing_shell, "prompt that needs", "prompts that need")
    tell(f"left out {left_out} the simulated shell: {why}")
    return others


def choose_prompts(prompts: Sequence[Prompt], prompt_ids: Sequence[str]) -> list[Prompt]:
    """The prompts that ids name; raises `ConfigError` for an id that names none.

    `P1` is the one of every suite, `SUITE/P1` of one suite, `P1#2` one form of a prompt with
    variants.
    """
    ids_by_prompt = [_ids_of(prompt) for prompt in prompts]
    known_ids = set().union(*ids_by_prompt)
    unknown_ids = [prompt_id for prompt_id in prompt_ids if prompt_id not in known_ids]
    if unknown_ids or not prompt_ids:
        listed = ", ".join(repr(prompt_id) for prompt_id in unknown_ids) or "nothing"
        suites = ", ".join(dict.fromkeys(prompt.suite for prompt in prompts))
        raise ConfigError(f"--prompt-ids names {listed}, which is in none of the suites {suites}")
    wanted_ids = set(prompt_ids)
    chosen = []
    for prompt, ids in zip(prompts, ids_by_prompt, strict=True):
        if ids & wanted_ids:
            chosen.append(prompt)
    return chosen


def _ids_of(prompt: Prompt) -> set[str]:
    """Every id by which a prompt can be named."""
    ids = {prompt.id}
    if prompt.variant_of is not None:
        ids.add(prompt.variant_of)
        # The form that was written first has no number of its own.
        ids.add(f"{prompt.id}#1" if prompt.id == prompt.variant_of else prompt.id)
    return ids | {f"{prompt.suite}/{prompt_id}" for prompt_id in ids}


def refuse_secrets(
    texts_by_place: Mapping[str, Collection[str]],
    secrets: Mapping[str, str],
    error: type[RequestError] = ConfigError,
) -> None:
    """Raise `error` where a text holds a key, which it does not repeat.

    What names a run is written down as it is and cannot be masked. A key that is split by
    characters nobody sees, or encoded, is one as well.
    """
    spellings: dict[str, str] = {}
    for secret in secrets:
        if looks_secret(secret):
            spellings[secret] = secret
            spellings[json.dumps(secret, ensure_ascii=False)[1:-1]] = secret
    if not spellings:
        return
    for place, texts in texts_by_place.items():
        readable = [reading.text for text in texts for reading in readings(text)]
        for spelling, secret in spellings.items():
            if any(spelling in text for text in readable):
                masked_place = SecretMask(secrets).mask(place)
                raise error(
                    f"{masked_place} holds the value of {secrets[secret]}; "
                    "take it out: a key is never written down, only named"
                )


def refuse_secret_prompts(prompts: Iterable[Prompt], secrets: Mapping[str, str]) -> None:
    contexts, lean_prompts = share_contexts(prompts)
    texts: dict[str, list[str]] = {}
    for key, context in contexts.items():
        texts[f"context {key}"] = [msgspec.json.encode(context).decode()]
    for prompt in lean_prompts:
        texts[f"prompt {prompt.suite}/{prompt.id}"] = [msgspec.json.encode(prompt).decode()]
    refuse_secrets(texts, secrets, SuiteError)


async def find_targets(
    patterns: Sequence[TargetPattern],
    providers: ProviderSet,
    environ: Mapping[str, str],
    redact: Callable[[str], str],
    tell: Tell,
) -> list[Target]:
    """Patterns expanded by asking servers; where none was named, what this machine has for free."""
    if all(pattern.excludes for pattern in patterns):
        free_targets = await _find_free_targets(providers, tell)
        _report_paid_providers(providers, environ, tell)
        return apply_patterns([*map(TargetPattern, free_targets), *patterns], {})
    listed: dict[str, list[str]] = {}
    for pattern in patterns:
        if pattern.excludes or not pattern.is_wild:
            continue
        name = pattern.target.provider
        label = pattern.target.label
        if not listed.get(name):
            try:
                provider = await providers.open(name)
                models = await provider.models()
            except CallFailure as failure:
                raise ConfigError(
                    f"cannot list the models of {name} for {label!r}: {redact(failure.message)}; "
                    "start the server or name the models one by one"
                ) from failure
            listed[name] = [model.name for model in models if model.kind == "chat"]
        if not any(fnmatch.fnmatchcase(model, pattern.target.model) for model in listed[name]):
            raise TargetError(
                f"{label!r} matches none of {plural(len(listed[name]), 'model')} of {name}"
            )
    return apply_patterns(patterns, listed)


async def _find_free_targets(providers: ProviderSet, tell: Tell) -> list[Target]:
    """The chat models of the user's Ollama, else the embedded model."""
    ollama = await providers.open(OLLAMA_OPENAI.name)
    probe = await ollama.probe()
    targets = [
        Target(OLLAMA_OPENAI.name, model.name) for model in probe.models if model.kind == "chat"
    ]
    if targets:
        models = plural(len(targets), "chat model")
        tell(f"no target named: taking {models} of Ollama at {probe.address}")
        return targets
    tell(f"no target named and no Ollama model found: taking the embedded model {EMBEDDED_MODEL}")
    return [Target(EMBEDDED.name, EMBEDDED_MODEL)]


def _report_paid_providers(providers: ProviderSet, environ: Mapping[str, str], tell: Tell) -> None:
    """Tell the user how to add providers that cost money, which never run unasked."""
    for name, provider_type in PROVIDER_TYPES.items():
        settings = providers.settings[name]
        vendor = provider_type.vendor
        if vendor is None or not provider_type.uses_vendor_variables:
            continue
        if provider_type.suggested_model and settings.api_key:
            key_variable = settings.api_key_env
            tell(f"{key_variable} is set: add {vendor.title} with -t {name}:MODEL (costs money)")
    if shutil.which(str(CLAUDE_CODE_CLI.program), path=environ.get("PATH", "")):
        name = CLAUDE_CODE_CLI.name
        tell(f"the claude CLI is here: add it with -t {name}:MODEL (uses your plan or key)")


def check_targets(
    targets: Sequence[Target], providers: ProviderSet, secrets: Mapping[str, str]
) -> None:
    """Refuse targets that are none, cannot be had, or are named as a key is spelled.

    Those whose thinking level cannot be sent are no targets either.
    """
    for target in targets:
        unusable = providers.settings[target.provider].unusable
        if unusable is not None:
            raise ConfigError(unusable)
        provider = providers.get(target.provider)
        why_not_model = provider.why_not_model(target.model)
        if why_not_model is not None:
            raise TargetError(f"target {target.label!r}: {why_not_model}")
        if target.thinking_level is not None:
            why_not = provider.why_not_level(target.model, target.thinking_level)
            if why_not is not None:
                raise TargetError(f"target {target.label!r}: {why_not}")
    if not targets:
        raise TargetError(
            "no target is left after the exclusions: loosen a '!' pattern or name a target with -t"
        )
    if secrets:
        labels = [target.label for target in targets]
        refuse_secrets({"the name of a listed model": labels}, secrets, TargetError)


async def refuse_eviction(
    settings: Settings,
    targets: Sequence[Target],
    providers: ProviderSet,
    free_bytes: int,
    redact: Callable[[str], str],
) -> None:
    """Refuse interleaved targets that one server cannot hold side by side.

    A model that makes another leave is timed while it loads.
    """
    if len(targets) == 1:
        raise ConfigError(
            "--interleave asks several targets in turn: name at least two with -t, or leave it out"
        )
    if settings.unload_others:
        raise ConfigError(
            "--interleave keeps all models loaded, and --unload-others unloads them: leave one out"
        )
    models_by_provider: dict[str, list[str]] = {}
    for target in targets:
        models = models_by_provider.setdefault(target.provider, [])
        if target.model not in models:
            models.append(target.model)
    for name, models in models_by_provider.items():
        if len(models) > 1:
            provider = await providers.open(name)
            why_not = await provider.why_not_together(models, free_bytes)
            if why_not is not None:
                raise ConfigError(f"--interleave cannot be done: {redact(why_not)}")


def fit_concurrency(
    settings: Settings, targets: Sequence[Target], providers: ProviderSet, tell: Tell
) -> int:
    """How many calls may be in flight: no more than this machine has descriptors for.

    Reports where that is fewer than were wanted, and what a provider cannot be told.
    """
    most_calls = settings.concurrency
    if most_calls == FIND_CONCURRENCY:
        most_calls = MOST_CALLS_AT_ONCE
    fitted = most_calls
    if fitted > 1:
        per_call = max(providers.get(target.provider).descriptors_per_call for target in targets)
        fitted = fit_to_descriptors(fitted, per_call)
    lines: list[str] = []
    if fitted < settings.concurrency:
        lines.append(
            f"--concurrency {settings.concurrency} is more than this machine's limit of open files "
            f"allows: {plural(fitted, 'call')} at once"
        )
    if settings.concurrency == FIND_CONCURRENCY and fitted == most_calls:
        fitted = FIND_CONCURRENCY
    for target in targets:
        provider = providers.get(target.provider)
        lines += _find_ignored_settings(settings, target, provider)
        reports_cost = find_type(provider.settings.type).reports_cost
        if fitted > 1 and settings.max_cost_usd is not None and reports_cost:
            lines.append(
                f"--max-cost: {target.provider} is asked one call at a time; "
                "what one costs is known afterwards"
            )
    for line in dict.fromkeys(lines):
        tell(line)
    return fitted


def _find_ignored_settings(settings: Settings, target: Target, provider: Provider) -> Iterator[str]:
    """What of the settings a provider cannot be told."""
    ignored = []
    if settings.temperature is not None and "temperature" not in provider.takes:
        ignored.append("temperature")
    if settings.seed is not None and "seed" not in provider.takes:
        ignored.append("seed")
    if ignored:
        yield f"{target.provider} takes no {' and no '.join(ignored)}: not sent"
    if target.thinking_level is not None and not provider.takes_thinking:
        yield f"{target.provider} takes no thinking level: @{target.thinking_level} is ignored"


class Pricing(NamedTuple):
    """The prices that are known, and the targets that need none."""

    prices: Mapping[Target, Price]
    free: Collection[Target]


def price_targets(
    settings: Settings,
    targets: Sequence[Target],
    providers: ProviderSet,
    recorded_prices: Mapping[str, Price | None],
) -> Pricing:
    """What the targets' tokens cost.

    A resumed run keeps its `recorded_prices`, by target label, unless a file is named: its costs
    add up. Raises `ConfigError` where a cost limit cannot be kept.
    """
    price_file = settings.prices
    # The package's own table is all of vendors' prices: without a vendor among the targets there is
    # nothing to read.
    table: PriceTable | None = None
    if price_file is not None:
        table = load_prices(Path(price_file))
    prices: dict[Target, Price] = {}
    free: set[Target] = set()
    unpriced: list[str] = []
    for target in targets:
        model_target = providers.model_target(target)
        provider = providers.get(model_target.provider)
        described = provider.describe()
        price = None
        if price_file is None:
            price = recorded_prices.get(target.label)
        if price is None and (table is not None or vendor_of(described) is not None):
            if table is None:
                table = load_prices()
            price = table.find(model_target.provider, model_target.model, described)
        if price is not None:
            prices[target] = price
        elif provider.local and not described.get("api_key_env"):
            # Who asks for a key may pass calls on to someone who charges for them.
            free.add(target)
        elif not find_type(str(described.get("type"))).reports_cost:
            unpriced.append(target.label)
    if settings.max_cost_usd is not None and unpriced:
        raise ConfigError(
            f"--max-cost cannot be kept: the price of {', '.join(unpriced)} is not known; "
            "add it with --prices FILE, or leave the option out"
        )
    return Pricing(prices, frozenset(free))
