"""Settings, suites and prices made into one frozen `Plan`: all that a run is but for the folder it goes into."""

from __future__ import annotations

import fnmatch
import json
import shutil
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.checks import needs_shell
from clawgauge.client_limits import fit_to_descriptors
from clawgauge.config.providers import TargetPattern, Tell, apply_patterns
from clawgauge.config.settings import Settings
from clawgauge.errors import CallFailure, ConfigError, RequestError, SuiteError, TargetError
from clawgauge.journal import CellKey
from clawgauge.prices import Price, load_prices, vendor_of
from clawgauge.providers.base import Provider, ProviderSettings, create_provider
from clawgauge.readings import readings
from clawgauge.records import CapacityOptions, Job, Prompt, PromptKey, SuiteInfo, Target, share_contexts
from clawgauge.registry import CLAUDE_CODE_CLI, EMBEDDED, EMBEDDED_MODEL, OLLAMA_OPENAI, PROVIDER_TYPES, find_type
from clawgauge.secrets import SecretMask, looks_secret
from clawgauge.suites import BUILTIN_SUITES, SELECTION, describe_suite, load_suite
from clawgauge.suites.context import CONTEXT_SUITES, add_context, load_context
from clawgauge.words import plural
from clawgauge.world import can_run


@dataclass(slots=True)
class Evidence:
    """What earlier sessions of a run know of a target: `n_pool` cells of the tier's pool have a record. `asked` has
    those that are no repeats, as they came, and whether an expected tool was called, None where there was no answer."""

    n_calls: int = 0
    n_pool: int = 0
    asked: list[tuple[PromptKey, bool | None]] = field(default_factory=list)
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What a run folder already has. `beside_usd` was paid and has no record; `stretch` counts sessions before."""

    done: Collection[CellKey] = frozenset()
    refill: Collection[CellKey] = frozenset()
    evidence: Mapping[Target, Evidence] = field(default_factory=dict)
    beside_usd: float = 0.0
    stretch: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, decided. `asked` is what this session asks of `prompts`. `free` are the targets on the user's own machine
    that have no price and need none; `context` is whose context some prompts are asked in. `drive` runs it elsewhere.
    """

    settings: Settings
    prompts: list[Prompt] = field(default_factory=list)
    asked: list[Prompt] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    suites: list[SuiteInfo] = field(default_factory=list)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    prices: Mapping[Target, Price] = field(default_factory=dict)
    free: Collection[Target] = frozenset()
    work: OpenWork = OpenWork()
    config_file: Path | None = None
    jobs: Mapping[str, Job] = field(default_factory=dict)
    capacity: CapacityOptions | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    redact: Callable[[str], str] = str
    context: str | None = None
    drive: Callable[..., Coroutine[Any, Any, None]] | None = None

    def provider(self, name: str) -> Provider:
        return create_provider(replace(self.providers[name], concurrency=self.settings.concurrency))


def with_prompts(plan: Plan, suites_dir: Path, tell: Tell, *, resumes: bool) -> Plan:
    """The plan with its prompts; a run that `resumes` another has its own to choose from."""
    settings = plan.settings
    context = load_context(Path(settings.in_context)) if settings.in_context and not resumes else None
    if not settings.suites and (settings.full or settings.prompt_ids is not None):
        settings = msgspec.structs.replace(settings, suites=list(BUILTIN_SUITES))
    elif not settings.suites:
        chosen = list(CONTEXT_SUITES if context else SELECTION)
        ids = [f"{suite}/{prompt_id}" for suite in chosen for prompt_id in SELECTION[suite]]
        settings = msgspec.structs.replace(settings, suites=chosen, prompt_ids=ids)
    suites = [load_suite(ref, base_dir=suites_dir, drawing=settings.draw) for ref in settings.suites]
    names = [suite.name for suite in suites]
    if twice := next((name for name in names if names.count(name) > 1), None):
        # They could not be told apart in the records.
        raise SuiteError(f"two suites are named {twice!r}: name each only once, or rename one in its header")
    written = [load_suite(ref, base_dir=suites_dir) for ref in settings.suites] if settings.draw else []
    if same := [suite.name for suite, plain in zip(suites, written, strict=False) if suite.prompts == plain.prompts]:
        tell(f"--draw {settings.draw}: nothing can be drawn in {', '.join(same)}; asked as written")
    prompts = [prompt for suite in suites for prompt in suite.prompts]
    if settings.prompt_ids is not None and not resumes:
        prompts = choose_from(prompts, settings.prompt_ids)
    if context is not None:
        size = f"{len(context.system or '')} characters, {plural(len(context.tools), 'tool')}"
        prompts, plan = add_context(prompts, context), replace(plan, context=f"{settings.in_context} ({size})")
    # Prompts are kept in the run folder and sent to models: no place for a key.
    if plan.secrets:
        refuse_secret_prompts(prompts, plan.secrets)
    n_needing = sum(needs_shell(prompt) for prompt in prompts)
    if n_needing and not resumes and not can_run():
        why = "the package bashkit is not installed, and has no build for every system"
        prompts = [prompt for prompt in prompts if not needs_shell(prompt)]
        if not prompts:
            raise ConfigError(f"every prompt chosen needs the simulated shell: {why}; choose other suites with -s")
        tell(f"left out {plural(n_needing, 'prompt that needs', 'prompts that need')} the simulated shell: {why}")
    infos = [describe_suite(suite) for suite in suites]
    return replace(plan, settings=settings, prompts=prompts, asked=prompts, suites=infos)


def choose_from(prompts: list[Prompt], prompt_ids: list[str]) -> list[Prompt]:
    """The prompts that ids name: `P1` of every suite, `SUITE/P1` of one, `P1#2` one form of a prompt with variants."""
    names_of: list[set[str]] = []
    for prompt in prompts:
        ids = {prompt.id}
        if prompt.variant_of is not None:
            ids |= {prompt.variant_of, f"{prompt.id}#1" if prompt.id == prompt.variant_of else prompt.id}
        names_of.append(ids | {f"{prompt.suite}/{one}" for one in ids})
    known = set().union(*names_of)
    missing = [wanted for wanted in prompt_ids if wanted not in known]
    if missing or not prompt_ids:
        named = ", ".join(repr(wanted) for wanted in missing) or "nothing"
        suites = ", ".join(dict.fromkeys(prompt.suite for prompt in prompts))
        raise ConfigError(f"--prompt-ids names {named}, which is in none of the suites {suites}")
    wanted_ids = set(prompt_ids)
    return [prompt for prompt, names in zip(prompts, names_of, strict=True) if names & wanted_ids]


def refuse_secrets(
    places: Mapping[str, Collection[str]], secrets: Mapping[str, str], error: type[RequestError] = ConfigError
) -> None:
    """What names a run is written down as it is and cannot be masked: a key in it is refused, and not repeated. A key
    that is split by what nobody sees, or encoded, is one as well."""
    spellings: dict[str, str] = {}
    for secret in filter(looks_secret, secrets):
        spellings[secret] = secret
        spellings[json.dumps(secret, ensure_ascii=False)[1:-1]] = secret
    if not spellings:
        return
    for place, words in places.items():
        texts = [reading.text for word in words for reading in readings(word)]
        for spelling, secret in spellings.items():
            if any(spelling in text for text in texts):
                what = f"{SecretMask(secrets).mask(place)} holds the value of {secrets[secret]}"
                raise error(f"{what}; take it out: a key is never written down, only named")


def refuse_secret_prompts(prompts: Collection[Prompt], secrets: Mapping[str, str]) -> None:
    contexts, lean = share_contexts(prompts)
    parts: dict[str, Any] = {f"context {key}": context for key, context in contexts.items()}
    parts |= {f"prompt {one.suite}/{one.id}": one for one in lean}
    refuse_secrets({place: [msgspec.json.encode(one).decode()] for place, one in parts.items()}, secrets, SuiteError)


async def find_targets(plan: Plan, patterns: list[TargetPattern], tell: Tell) -> list[Target]:
    """Patterns expanded by asking servers, or, where none was named, what this machine has for free."""
    if all(pattern.excludes for pattern in patterns):
        # Paid providers never run unasked; it is said that they are there and how to add them.
        async with plan.provider(OLLAMA_OPENAI.name) as ollama:
            probe = await ollama.probe()
        found = [Target(OLLAMA_OPENAI.name, model.name) for model in probe.models if model.kind == "chat"]
        if found:
            tell(f"no target named: taking {plural(len(found), 'chat model')} of Ollama at {probe.address}")
        else:
            tell(f"no target named and no Ollama model found: taking the embedded model {EMBEDDED_MODEL}")
        for name, provider_type in PROVIDER_TYPES.items():
            paid = plan.providers[name]
            vendor = provider_type.vendor
            if vendor is None or not provider_type.uses_vendor_variables:
                continue
            if provider_type.suggested_model and paid.api_key:
                tell(f"{paid.api_key_env} is set: add {vendor.title} with -t {name}:MODEL (costs money)")
        if shutil.which(str(CLAUDE_CODE_CLI.program), path=plan.environ.get("PATH", "")):
            name = CLAUDE_CODE_CLI.name
            tell(f"the claude CLI is here: add it with -t {name}:MODEL (uses your plan or key)")
        return apply_patterns([*map(TargetPattern, found or [Target(EMBEDDED.name, EMBEDDED_MODEL)]), *patterns], {})
    listed: dict[str, list[str]] = {}
    for pattern in patterns:
        name, label = pattern.target.provider, pattern.target.label
        if pattern.excludes or not pattern.is_wild:
            continue
        try:
            if not listed.get(name):
                async with plan.provider(name) as provider:
                    listed[name] = [model.name for model in await provider.models() if model.kind == "chat"]
        except CallFailure as failure:
            what = f"cannot list the models of {name} for {label!r}: {plan.redact(failure.message)}"
            raise ConfigError(f"{what}; start the server or name the models one by one") from failure
        if not any(fnmatch.fnmatchcase(model, pattern.target.model) for model in listed[name]):
            raise TargetError(f"{label!r} matches none of {plural(len(listed[name]), 'model')} of {name}")
    return apply_patterns(patterns, listed)


def with_targets(plan: Plan, targets: list[Target]) -> Plan:
    """The plan with its targets: at least one, each of a provider that can be had, none named as a key is spelled."""
    for target in targets:
        if (why := plan.providers[target.provider].unusable) is not None:
            raise ConfigError(why)
    if not targets:
        raise TargetError("no target is left after the exclusions: loosen a '!' pattern or name a target with -t")
    if plan.secrets:
        refuse_secrets({"the name of a listed model": [one.label for one in targets]}, plan.secrets, TargetError)
    return replace(plan, targets=targets)


async def refuse_eviction(plan: Plan, free_bytes: int) -> None:
    """Interleaved targets have to be served side by side: a model that makes another leave is timed while it loads."""
    if len(plan.targets) == 1:
        raise ConfigError("--interleave asks several targets in turn: name at least two with -t, or leave it out")
    if plan.settings.unload_others:
        raise ConfigError("--interleave keeps all models loaded, and --unload-others unloads them: leave one out")
    for name in dict.fromkeys(target.provider for target in plan.targets):
        models = list(dict.fromkeys(target.model for target in plan.targets if target.provider == name))
        if len(models) > 1:
            async with plan.provider(name) as provider:
                why = await provider.why_not_together(models, free_bytes)
            if why is not None:
                raise ConfigError(f"--interleave cannot be done: {plan.redact(why)}")


def fit_to_providers(plan: Plan, tell: Tell) -> Plan:
    """No more calls in flight than this machine has descriptors for. Says what a provider cannot be told."""
    settings, fitted = plan.settings, plan.settings.concurrency
    asked = {"temperature": settings.temperature, "seed": settings.seed}
    providers = {target.provider: plan.provider(target.provider) for target in plan.targets}
    if fitted > 1:
        fitted = fit_to_descriptors(fitted, max(provider.descriptors_per_call for provider in providers.values()))
    told: list[str] = []
    if fitted < settings.concurrency:
        limit = f"--concurrency {settings.concurrency} is more than this machine's limit of open files allows"
        told.append(f"{limit}: {plural(fitted, 'call')} at once")
    for target in plan.targets:
        name, provider = target.provider, providers[target.provider]
        refused = [option for option, value in asked.items() if value is not None and option not in provider.takes]
        if refused:
            told.append(f"{name} takes no {' and no '.join(refused)}: not sent")
        if target.thinking_level is not None and not provider.takes_thinking:
            told.append(f"{name} takes no thinking level: @{target.thinking_level} is ignored")
        if fitted > 1 and settings.max_cost_usd is not None and find_type(provider.settings.type).reports_cost:
            told.append(f"--max-cost: {name} is asked one call at a time; what one costs is known afterwards")
    for line in dict.fromkeys(told):
        tell(line)
    return replace(plan, settings=msgspec.structs.replace(settings, concurrency=fitted))


def price_targets(plan: Plan, begun_with: Mapping[str, Price | None]) -> Plan:
    """Fill in the prices. A resumed run keeps those it was begun with, unless a file is named: its costs add up."""
    own = plan.settings.prices
    # The package's own table is all of vendors' prices: without a vendor among the targets there is nothing to read.
    table = None if own is None else load_prices(Path(own))
    prices: dict[Target, Price] = {}
    free, unpriced = set(), []
    for target in plan.targets:
        provider = plan.provider(target.provider)
        settings = provider.describe()
        price = begun_with.get(target.label) if own is None else None
        if price is None and (table is not None or vendor_of(settings) is not None):
            table = table or load_prices()
            price = table.find(target.provider, target.model, settings)
        if price is not None:
            prices[target] = price
        elif provider.local and not settings.get("api_key_env"):
            # Who asks for a key may pass calls on to someone who charges for them.
            free.add(target)
        elif not find_type(str(settings.get("type"))).reports_cost:
            unpriced.append(target.label)
    if plan.settings.max_cost_usd is not None and unpriced:
        what = f"--max-cost cannot be kept: the price of {', '.join(unpriced)} is not known"
        raise ConfigError(f"{what}; add it with --prices FILE, or leave the option out")
    return replace(plan, prices=prices, free=frozenset(free))
