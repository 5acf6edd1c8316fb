"""Settings, suites and prices made into one frozen `Plan`.

A plan is all that a run is but for the folder it goes into: nothing else carries settings. Servers are asked only for
the models behind a pattern.
"""

from __future__ import annotations

import fnmatch
import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from clawgauge.client_limits import fit_to_descriptors
from clawgauge.config.providers import TargetPattern, apply_patterns
from clawgauge.config.settings import Settings
from clawgauge.errors import CallFailure, ConfigError, RequestError, SuiteError, TargetError
from clawgauge.journal import CellKey
from clawgauge.prices import Price, load_prices, vendor_of
from clawgauge.providers.base import EMBEDDED_MODEL, Provider, ProviderSettings, create_provider
from clawgauge.records import Prompt, PromptKey, SuiteInfo, SuiteRecord, Target
from clawgauge.secrets import MASK, looks_secret
from clawgauge.suites import BUILTIN_SUITES, SELECTION, describe_suite, load_suite
from clawgauge.words import plural
from clawgauge.world import can_run

OLLAMA = "ollama_openai"
# This one says itself what a call cost, once it is made.
REPORTING_TYPE = "claude_code_cli"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What earlier stretches of a run know of a target.

    `n_calls` cells were asked in all; `n_pool` cells of the tier's pool have a record. `asked` has those that are no
    repeats, as they came: the prompt, and whether an expected tool was called, None where there was no answer.
    `cost_usd` is what the records say was paid.
    """

    n_calls: int = 0
    n_pool: int = 0
    asked: Sequence[tuple[PromptKey, bool | None]] = ()
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What a run folder already has: the cells that need no call, those to be asked again, and what is known by now.

    `beside_usd` was paid for what has no record; `stretch` counts the earlier times the run was gone on with.
    """

    done: Collection[CellKey] = frozenset()
    refill: Collection[CellKey] = frozenset()
    evidence: Mapping[Target, Evidence] = field(default_factory=dict)
    beside_usd: float = 0.0
    stretch: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, decided.

    `asked` is what this session asks: all of `prompts`, or, on resuming with --prompt-ids, some of them. `prices` has
    what is known; `free` are the targets on the user's own machine that have no price and need none.
    `config_file` is the one that was named with --config.
    """

    settings: Settings
    prompts: list[Prompt]
    asked: list[Prompt]
    targets: list[Target] = field(default_factory=list)
    suites: list[SuiteInfo] = field(default_factory=list)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    prices: Mapping[Target, Price] = field(default_factory=dict)
    free: Collection[Target] = frozenset()
    work: OpenWork = OpenWork()
    config_file: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    redact: Callable[[str], str] = str

    def provider_for(self, target: Target) -> Provider:
        """The provider a target names, ready to be entered."""
        return create_provider(self.providers[target.provider])


def make_plan(
    settings: Settings,
    providers: Mapping[str, ProviderSettings],
    *,
    suites_dir: Path,
    config_file: Path | None,
    resumes: bool,
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    redact: Callable[[str], str],
    tell: Callable[[str], None],
) -> Plan:
    """The plan but for its targets and prices. A run that `resumes` another has its own prompts to choose from.

    Where no suite is named, the selection is asked, or what --prompt-ids or --full say of all built-in suites. Prompts
    that need the simulated shell are left out where it is not installed.
    """
    if not settings.suites and (settings.full or settings.prompt_ids is not None):
        settings = msgspec.structs.replace(settings, suites=list(BUILTIN_SUITES))
    elif not settings.suites:
        ids = [f"{suite}/{prompt_id}" for suite, prompt_ids in SELECTION.items() for prompt_id in prompt_ids]
        settings = msgspec.structs.replace(settings, suites=list(SELECTION), prompt_ids=ids)
    suites = load_suites(settings.suites, suites_dir, settings.draw)
    prompts = [prompt for suite in suites for prompt in suite.prompts]
    if settings.prompt_ids is not None and not resumes:
        prompts = choose_from(prompts, settings.prompt_ids)
    refuse_secret_prompts(prompts, secrets)
    needing = {p.key for p in prompts if p.needs_shell}
    if needing and not resumes and not can_run():
        why = "the package bashkit is not installed, and has no build for every system"
        prompts = [prompt for prompt in prompts if prompt.key not in needing]
        if not prompts:
            raise ConfigError(f"every prompt chosen needs the simulated shell: {why}; choose other suites with -s")
        tell(f"left out {plural(len(needing), 'prompt')} that need the simulated shell: {why}")
    return Plan(
        settings=settings,
        prompts=prompts,
        asked=prompts,
        suites=[describe_suite(suite) for suite in suites],
        providers=providers,
        config_file=config_file,
        environ=environ,
        secrets=secrets,
        redact=redact,
    )


def load_suites(refs: Collection[str], base_dir: Path, drawing: int) -> list[SuiteRecord]:
    """Load every suite; two of one name cannot be told apart in the records."""
    suites = [load_suite(ref, base_dir=base_dir, drawing=drawing) for ref in refs]
    names = [suite.name for suite in suites]
    for suite in suites:
        if names.count(suite.name) > 1:
            raise SuiteError(f"two suites are named {suite.name!r}: name each only once, or rename one in its header")
    return suites


def choose_from(prompts: list[Prompt], prompt_ids: list[str]) -> list[Prompt]:
    """The prompts that these ids name: `P1` of every suite, or `SUITE/P1` of one; an id that names none is refused.

    The id a prompt with variants was written under keeps all its forms; `P1#1`, `P1#2`, … keep one.
    """
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


def refuse_secret_prompts(prompts: list[Prompt], secrets: Mapping[str, str]) -> None:
    """Prompts are kept in the run folder and sent to models: no place for a key."""
    for prompt in prompts:
        text = msgspec.json.encode(prompt).decode()
        refuse_secrets([text], secrets, f"prompt {prompt.suite}/{prompt.id}", SuiteError)


def refuse_secrets(
    words: Collection[str], secrets: Mapping[str, str], place: str, error: type[RequestError] = ConfigError
) -> None:
    """What names a run is written down as it is and cannot be masked: a key in it is refused, and not repeated."""
    for secret, origin in secrets.items():
        # As it is, and as it stands in JSON.
        spellings = {secret, json.dumps(secret, ensure_ascii=False)[1:-1]} if looks_secret(secret) else set()
        if any(spelling in word for spelling in spellings for word in words):
            where = place.replace(secret, MASK)
            raise error(f"{where} holds the value of {origin}: take it out; a key is never written down, only named")


async def find_targets(plan: Plan, patterns: list[TargetPattern], tell: Callable[[str], None]) -> list[Target]:
    """What servers must be asked for: patterns expanded, or, where none was named, what this machine has for free."""
    if all(pattern.excludes for pattern in patterns):
        found = await _unasked_targets(plan, tell)
        return [target for target in found if not any(pattern.matches(target) for pattern in patterns)]
    return apply_patterns(patterns, await _list_models(plan, patterns))


def with_targets(plan: Plan, targets: list[Target]) -> Plan:
    """The plan with its targets, of which there must be one, and none named as a key is spelled.

    A provider that is named and cannot be had stops the run before anything is sent.
    """
    for target in targets:
        if (why := plan.providers[target.provider].unusable) is not None:
            raise ConfigError(why)
    if not targets:
        raise TargetError("no target is left after the exclusions: loosen a '!' pattern or name a target with -t")
    refuse_secrets([target.label for target in targets], plan.secrets, "the name of a listed model", TargetError)
    return replace(plan, targets=targets)


async def _list_models(plan: Plan, patterns: list[TargetPattern]) -> dict[str, list[str]]:
    """The chat models of every provider that a pattern with wild cards names."""
    listed: dict[str, list[str]] = {}
    for pattern in patterns:
        name = pattern.target.provider
        if pattern.excludes or not pattern.is_wild:
            continue
        try:
            if not listed.get(name):
                async with create_provider(plan.providers[name]) as provider:
                    listed[name] = [model.name for model in await provider.models() if model.kind == "chat"]
        except CallFailure as failure:
            raise ConfigError(
                f"cannot list the models of {name} for {pattern.target.label!r}: "
                f"{plan.redact(failure.message)}; "
                "start the server or name the models one by one"
            ) from failure
        if not any(fnmatch.fnmatchcase(model, pattern.target.model) for model in listed[name]):
            raise TargetError(f"{pattern.target.label!r} matches none of the {len(listed[name])} models of {name}")
    return listed


async def _unasked_targets(plan: Plan, tell: Callable[[str], None]) -> list[Target]:
    """Paid providers never run unasked; it is said that they are there and how to add them."""
    async with create_provider(plan.providers[OLLAMA]) as ollama:
        probe = await ollama.probe()
    found = [Target(OLLAMA, model.name) for model in probe.models if model.kind == "chat"]
    if found:
        tell(f"no target named: taking the {len(found)} chat models of Ollama at {probe.address}")
    else:
        tell(f"no target named and no Ollama model found: taking the embedded model {EMBEDDED_MODEL}")
        found = [Target("embedded", EMBEDDED_MODEL)]
    if plan.providers["openai_responses"].api_key:
        tell("OPENAI_API_KEY is set: add OpenAI with -t openai_responses:MODEL (costs money)")
    if shutil.which("claude", path=plan.environ.get("PATH", "")):
        tell("the claude CLI is here: add it with -t claude_code_cli:MODEL (uses your plan or key)")
    return found


async def refuse_eviction(plan: Plan, free_bytes: int) -> None:
    """Interleaved targets have to be served side by side: a model that makes another leave is timed while it loads."""
    if len(plan.targets) == 1:
        raise ConfigError("--interleave asks several targets in turn: name at least two with -t, or leave it out")
    if plan.settings.unload_others:
        raise ConfigError("--interleave keeps all models loaded, and --unload-others unloads them: leave one out")
    by_provider: dict[str, list[str]] = {}
    for target in plan.targets:
        by_provider.setdefault(target.provider, []).append(target.model)
    for name, models in by_provider.items():
        if len(set(models)) > 1:
            async with create_provider(plan.providers[name]) as provider:
                why = await provider.why_not_together(list(dict.fromkeys(models)), free_bytes)
            if why is not None:
                raise ConfigError(f"--interleave cannot be done: {plan.redact(why)}")


def fit_concurrency(plan: Plan, tell: Callable[[str], None]) -> Plan:
    """No more calls in flight than this machine has descriptors for, with room left to write everything down."""
    wanted = plan.settings.concurrency
    if wanted == 1:
        return plan
    providers = [create_provider(plan.providers[name]) for name in {target.provider for target in plan.targets}]
    fitted = fit_to_descriptors(wanted, max((each.descriptors_per_call for each in providers), default=1))
    if fitted == wanted:
        return plan
    tell(f"--concurrency {wanted} is more than this machine's limit of open files allows: {fitted} calls at once")
    return with_settings(plan, msgspec.structs.replace(plan.settings, concurrency=fitted))


def with_settings(plan: Plan, settings: Settings) -> Plan:
    """The plan with other settings, which its providers hear of."""
    providers = {name: replace(each, concurrency=settings.concurrency) for name, each in plan.providers.items()}
    return replace(plan, settings=settings, providers=providers)


def price_targets(plan: Plan, begun_with: Mapping[str, Price | None]) -> Plan:
    """Fill in the prices. A resumed run keeps those it was begun with, so that its costs add up, unless a price file
    is named now. With a limit on the cost, a target of unknown price is refused: a limit on what cannot be counted
    would be none.
    """
    own = plan.settings.prices
    # The package's own table is all of vendors' prices: without a vendor among the targets there is nothing to read.
    table = None if own is None else load_prices(Path(own))
    prices: dict[Target, Price] = {}
    free, unpriced = set(), []
    for target in plan.targets:
        provider = plan.provider_for(target)
        settings = provider.describe()
        price = begun_with.get(target.label) if own is None else None
        if price is None and (table is not None or vendor_of(settings) is not None):
            table = table or load_prices()
            price = table.find(target.provider, target.model, settings)
        if price is not None:
            prices[target] = price
        elif provider.local:
            free.add(target)
        elif settings.get("type") != REPORTING_TYPE:
            unpriced.append(target.label)
    if plan.settings.max_cost_usd is not None and unpriced:
        raise ConfigError(
            f"--max-cost cannot be kept: the price of {', '.join(unpriced)} is not known; "
            "add it with --prices FILE, or leave the option out"
        )
    return replace(plan, prices=prices, free=frozenset(free))


def ignored_options(plan: Plan) -> list[str]:
    """What was asked for and a provider cannot be told: a sentence each."""
    settings = plan.settings
    asked = {"temperature": settings.temperature, "seed": settings.seed}
    wished = [*asked.values(), settings.max_cost_usd, *(target.thinking_level for target in plan.targets)]
    if all(wish is None for wish in wished):
        return []
    lines: list[str] = []
    for target in plan.targets:
        provider = plan.provider_for(target)
        refused = [name for name, value in asked.items() if value is not None and name not in provider.takes]
        if refused:
            lines.append(f"{target.provider} takes no {' and no '.join(refused)}: not sent")
        if target.thinking_level is not None and not provider.takes_thinking:
            lines.append(f"{target.provider} takes no thinking level: @{target.thinking_level} is ignored")
        wide_and_limited = settings.concurrency > 1 and settings.max_cost_usd is not None
        if wide_and_limited and provider.settings.type == REPORTING_TYPE:
            lines.append(
                f"--max-cost: {target.provider} is asked one call at a time; what one costs is known afterwards"
            )
    return list(dict.fromkeys(lines))
