"""From the words on the command line to a decided plan: settings, targets, prices, and config.json as its record.

Asks servers only for the models behind a pattern."""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge import __version__
from clawgauge.cli.process import mask_output, redact_tracebacks
from clawgauge.client_limits import fit_to_descriptors
from clawgauge.config import (
    DEFAULT_RUNS_DIR,
    DEFAULT_SUITES,
    Configuration,
    RunSettings,
    TargetPattern,
    apply_patterns,
    checked_fail_under,
    choose_prompts,
    find_secrets,
    load_suites,
    make_options,
    parse_target,
    provider_name,
    provider_settings,
    read_configuration,
    read_environment,
)
from clawgauge.errors import CallFailure, ConfigError, RequestError, SuiteError, TargetError
from clawgauge.journal import CellKey, encode_line, withhold
from clawgauge.prices import Price, load_prices
from clawgauge.providers.base import Provider, ProviderSettings
from clawgauge.providers.embedded.model import DEFAULT_MODEL
from clawgauge.providers.registry import create_provider
from clawgauge.records import SCHEMA_VERSION, ModelInfo, Prompt, RunConfig, RunOptions, SuiteInfo, Target
from clawgauge.reports.clean import clean_terminal
from clawgauge.runner.agenda import Agenda, make_agenda
from clawgauge.runner.budgets import CostBudget, Evidence, tier_pool
from clawgauge.secrets import MASK, Redactor, SecretMask, looks_secret, mask_shapes, mask_strings
from clawgauge.suites import describe_suite, prompts_sha256
from clawgauge.world import can_run

OLLAMA = "ollama_openai"
# This one says itself what a call cost, once it is made.
REPORTING_TYPE = "claude_code_cli"
_VERSIONED = ("aiohttp", "bashkit", "google-re2", "msgspec", "psutil", "uvloop", "xllamacpp")


class Secrecy(NamedTuple):
    """Every secret value with the words a user knows it by, and what masks them in a text."""

    secrets: Mapping[str, str]
    redact: Redactor


def keep_secrets(settings: Mapping[str, ProviderSettings], environ: Mapping[str, str]) -> Secrecy:
    """From now on no run folder, no output and no traceback of this process shows a secret."""
    secrets = find_secrets(settings, environ)
    redact = Redactor(secrets)
    withhold(secrets)
    mask = SecretMask(secrets).mask
    # By value first of all: a path or a command that a person is to paste keeps its ordinary words.
    mask_output(results=mask, words=lambda text: mask_shapes(mask(text)))
    redact_tracebacks(redact)
    return Secrecy(secrets, redact)


def spare_own_words(secrets: Mapping[str, str], prompts: Sequence[Prompt], targets: Sequence[Target]) -> None:
    """What the user asks, and of whom, is recorded as it is, though a few letters of it may also be those of a key.

    None of it holds a whole key: that has been refused.
    """
    withhold(secrets, encode_line((prompts, targets)).decode())


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What a run folder already has: the cells that need no call, those to be asked again, and what is known by now."""

    done: Collection[CellKey] = frozenset()
    refill: Collection[CellKey] = frozenset()
    evidence: Mapping[Target, Evidence] = field(default_factory=dict)
    beside_usd: float = 0.0

    @property
    def spent_usd(self) -> float:
        """What the run has cost so far: also for answers that were asked again, and for what has no record."""
        return self.beside_usd + sum(known.cost_usd for known in self.evidence.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, decided but for the models that patterns stand for.

    `asked` is what this session asks: all of `prompts`, or, on resuming with --prompt-ids, some of them. `prices` are
    those the run was begun with, by target; a price file that is named now comes before them.
    """

    patterns: list[TargetPattern]
    targets: list[Target]
    suites: list[SuiteInfo]
    prompts: list[Prompt]
    asked: list[Prompt]
    options: RunOptions
    settings: dict[str, ProviderSettings]
    runs_dir: Path
    fail_under: float | None
    prices_path: Path | None
    prices: Mapping[str, Price | None]
    redact: Callable[[str], str]
    secrets: Mapping[str, str]
    configuration: Configuration
    environ: Mapping[str, str]

    def provider_for(self, target: Target) -> Provider:
        """The provider a target names, ready to be entered."""
        return create_provider(self.settings[target.provider])

    @property
    def tier_pool(self) -> list[Prompt]:
        """The prompts that are asked only until the tier is decided."""
        return tier_pool(self.prompts) if self.options.until_decided else []

    def agenda(self, target: Target, work: OpenWork) -> Agenda:
        """What is open of a target."""
        limit_usd = self.options.max_cost_usd
        return make_agenda(
            target,
            self.asked,
            self.options,
            done=work.done,
            pool=self.tier_pool,
            evidence=work.evidence.get(target),
            shared=[] if limit_usd is None else [CostBudget(limit_usd, work.spent_usd)],
        )


def make_plan(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Plan:
    """Everything the flags, the file and the environment decide. Raises a `RequestError` for what cannot be."""
    plan = _decide(arguments, tell)
    if plan.configuration.path is not None:
        tell(_describe_configuration(plan.configuration))
    return plan


def _describe_configuration(used: Configuration) -> str:
    """Which file has a say in the run, by which right, and what of it has none."""
    withheld = [f"[run] {name}" for name in sorted(used.withheld_run)]
    withheld += [f"[providers.{name}]" for name in sorted(used.withheld_providers)]
    told = f"; left out, until `clawgauge trust`: {', '.join(withheld)}" if withheld else ""
    return " ".join(clean_terminal(f"using {used.path} ({used.standing}){told}").split("\n"))


def _decide(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Plan:
    environ = read_environment()
    _refuse_secrets(_words(arguments), find_secrets({}, environ), "the command line")
    configuration = read_configuration(arguments.config, environ)
    file, config_path = configuration.file, configuration.path
    on_command_line = _said(arguments)
    configuration.refuse_withheld(
        set(RunSettings.__struct_fields__) - on_command_line.said().keys() - _unneeded(arguments)
    )
    said = on_command_line.over(file.run)
    options = make_options(said, environ)
    named = None if arguments.resume else {provider_name(text) for text in said.targets or []}
    settings = provider_settings(configuration, environ, concurrency=options.concurrency, tell=tell, named=named)
    base_dir = config_path.parent if config_path and not arguments.suite and file.run.suites else Path()
    secrets, redact = keep_secrets(settings, environ)
    wanted = said.targets or []
    runs_dir = Path(said.runs_dir or DEFAULT_RUNS_DIR)
    _refuse_secrets([*_words(arguments), *wanted, str(runs_dir)], secrets, "the command line or the configuration file")
    suites = load_suites(said.suites or list(DEFAULT_SUITES), base_dir)
    # A resumed run has its own prompts to choose from.
    prompts = _that_can_run(choose_prompts(suites, None if arguments.resume else said.prompt_ids))
    refuse_secret_prompts(prompts, secrets)
    patterns = [parse_target(text, settings) for text in wanted]
    if names_targets(arguments):
        refuse_unusable(settings, {pattern.target.provider for pattern in patterns if not pattern.excludes})
    return Plan(
        patterns=patterns,
        targets=[],
        suites=[describe_suite(suite) for suite in suites],
        prompts=prompts,
        asked=prompts,
        options=options,
        settings=settings,
        runs_dir=runs_dir,
        fail_under=checked_fail_under(said),
        prices_path=_prices_path(arguments, said, config_path),
        prices={},
        redact=redact,
        secrets=secrets,
        configuration=configuration,
        environ=environ,
    )


def _unneeded(arguments: argparse.Namespace) -> set[str]:
    """The options that a resumed run has no use for: it has targets of its own."""
    return set() if names_targets(arguments) else {"targets", "unload_others"}


def refuse_unusable(settings: Mapping[str, ProviderSettings], names: Collection[str]) -> None:
    """A provider that is named and cannot be had stops the run before anything is sent."""
    for name in names:
        if (why := settings[name].unusable) is not None:
            raise ConfigError(why)


def _prices_path(arguments: argparse.Namespace, said: RunSettings, config_path: Path | None) -> Path | None:
    """The user's own price file: as named on the command line, or beside the configuration file that names it."""
    if said.prices is None:
        return None
    from_file = arguments.prices is None and config_path is not None
    return config_path.parent / said.prices if from_file and config_path else Path(said.prices)


def names_targets(arguments: argparse.Namespace) -> bool:
    """Whether the targets are to be chosen here; a resumed run has its own."""
    return arguments.resume is None or bool(arguments.target)


def refuse_endless_search(plan: Plan) -> None:
    """A tier can be decided only where prompts of the run count toward it."""
    if plan.options.until_decided and not plan.tier_pool:
        suites = ", ".join(suite.name for suite in plan.suites)
        raise ConfigError(
            f"--until-decided needs prompts that expect a tool, and the prompts chosen of {suites} have none: "
            "add -s tool_use, or leave the option out"
        )


def fit_concurrency(plan: Plan, tell: Callable[[str], None]) -> Plan:
    """No more calls in flight than this machine has descriptors for, with room left to write everything down."""
    wanted = plan.options.concurrency
    if wanted == 1:
        return plan
    providers = [create_provider(plan.settings[name]) for name in {target.provider for target in plan.targets}]
    fitted = fit_to_descriptors(wanted, max((each.descriptors_per_call for each in providers), default=1))
    if fitted == wanted:
        return plan
    tell(f"--concurrency {wanted} is more than this machine's limit of open files allows: {fitted} calls at once")
    settings = {name: replace(setting, concurrency=fitted) for name, setting in plan.settings.items()}
    return replace(plan, options=msgspec.structs.replace(plan.options, concurrency=fitted), settings=settings)


def refuse_secret_prompts(prompts: list[Prompt], secrets: Mapping[str, str]) -> None:
    """Prompts are kept in the run folder and sent to models: no place for a key."""
    for prompt in prompts:
        words = list(_strings(msgspec.to_builtins(prompt)))
        _refuse_secrets(words, secrets, f"prompt {prompt.suite}/{prompt.id}", SuiteError)


def _strings(value: object) -> Iterator[str]:
    """Every text in a JSON-like value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        parts = itertools.chain(value, value.values()) if isinstance(value, dict) else value
        for part in parts:
            yield from _strings(part)


def _refuse_secrets(
    words: Collection[str], secrets: Mapping[str, str], place: str, error: type[RequestError] = ConfigError
) -> None:
    """What names a run is written down as it is and cannot be masked: a key in it is refused, and not repeated."""
    for secret, origin in secrets.items():
        if looks_secret(secret) and any(secret in word for word in words):
            where = place.replace(secret, MASK)
            raise error(f"{where} holds the value of {origin}: take it out; a key is never written down, only named")


def _words(arguments: argparse.Namespace) -> list[str]:
    """What the command line says, as the words it was said in."""
    values = [value if isinstance(value, list) else [value] for value in vars(arguments).values()]
    return [str(word) for value in values for word in value if isinstance(word, str | Path)]


def split_ids(words: str) -> list[str]:
    """`P0,P1` as a list."""
    return [word.strip() for word in words.split(",") if word.strip()]


def _said(arguments: argparse.Namespace) -> RunSettings:
    """What the command line said."""
    named_otherwise = {
        "targets": arguments.target,
        "suites": arguments.suite,
        "prompt_ids": None if arguments.prompt_ids is None else split_ids(arguments.prompt_ids),
        "runs_dir": None if arguments.runs_dir is None else str(arguments.runs_dir),
    }
    alike = (name for name in RunSettings.__struct_fields__ if name not in named_otherwise)
    return RunSettings(**named_otherwise, **{name: getattr(arguments, name) for name in alike})


def choose_named_targets(plan: Plan) -> Plan | None:
    """Fill in the targets where the plan names them all; None where a server must be asked for its models."""
    chosen = [pattern for pattern in plan.patterns if not pattern.excludes]
    if not chosen or any(pattern.is_wild for pattern in chosen):
        return None
    return _with_targets(plan, apply_patterns(plan.patterns, {}))


async def choose_targets(plan: Plan, tell: Callable[[str], None]) -> Plan:
    """Fill in the targets: patterns expanded, or, where none was named, what this machine has for free."""
    if (named := choose_named_targets(plan)) is not None:
        return named
    if not any(not pattern.excludes for pattern in plan.patterns):
        return _with_targets(plan, await _unasked_targets(plan, tell))
    return _with_targets(plan, apply_patterns(plan.patterns, await _list_models(plan)))


def _with_targets(plan: Plan, targets: list[Target]) -> Plan:
    if not targets:
        raise TargetError("no target is left after the exclusions: loosen a '!' pattern or name a target with -t")
    _refuse_secrets([target.label for target in targets], plan.secrets, "the name of a listed model", TargetError)
    return replace(plan, targets=targets)


async def _list_models(plan: Plan) -> dict[str, list[str]]:
    """The models of every provider that a pattern with wild cards names."""
    listed: dict[str, list[str]] = {}
    known: dict[str, list[ModelInfo]] = {}
    for pattern in plan.patterns:
        name = pattern.target.provider
        if pattern.excludes or not pattern.is_wild:
            continue
        try:
            models = known.get(name) or await _models_of(plan, name)
        except CallFailure as failure:
            raise ConfigError(
                f"cannot list the models of {name} for {pattern.target.label!r}: "
                f"{clean_terminal(plan.redact(failure.message))}; "
                "start the server or name the models one by one"
            ) from failure
        known[name] = models
        listed[name] = [model.name for model in models if model.kind == "chat"]
        if not any(fnmatch.fnmatchcase(model, pattern.target.model) for model in listed[name]):
            raise TargetError(f"{pattern.target.label!r} matches none of the {len(listed[name])} models of {name}")
    return listed


async def _models_of(plan: Plan, name: str) -> list[ModelInfo]:
    async with create_provider(plan.settings[name]) as provider:
        return await provider.models()


async def _unasked_targets(plan: Plan, tell: Callable[[str], None]) -> list[Target]:
    async with create_provider(plan.settings[OLLAMA]) as ollama:
        probe = await ollama.probe()
    chat_models = [model.name for model in probe.models if model.kind == "chat"]
    if chat_models:
        tell(f"no target named: taking the {len(chat_models)} chat models of Ollama at {probe.address}")
        found = [Target(OLLAMA, name) for name in chat_models]
    else:
        tell(f"no target named and no Ollama model found: taking the embedded model {DEFAULT_MODEL}")
        found = [Target("embedded", DEFAULT_MODEL)]
    for line in _offers(plan):
        tell(line)
    return [target for target in found if not any(p.excludes and p.matches(target) for p in plan.patterns)]


def _offers(plan: Plan) -> list[str]:
    """Paid providers never run unasked; say that they are there and how to add them."""
    lines = []
    if plan.settings["openai_responses"].api_key:
        lines.append("OPENAI_API_KEY is set: add OpenAI with -t openai_responses:MODEL (costs money)")
    if shutil.which("claude", path=plan.environ.get("PATH", "")):
        lines.append("the claude CLI is here: add it with -t claude_code_cli:MODEL (uses your plan or key)")
    return lines


class Pricing:
    """The prices that hold for a plan's targets; a model on the user's own machine has none and needs none.

    A resumed run keeps the prices it was begun with, so that its costs add up, unless a price file is named now. With a
    limit on the cost, a target of unknown price is refused: a limit on what cannot be counted would be none.
    """

    def __init__(self, plan: Plan) -> None:
        self._limit_usd = plan.options.max_cost_usd
        self._prices: dict[Target, Price | None] = {}
        self._free: set[Target] = set()
        unpriced: list[Target] = []
        table = load_prices(plan.prices_path)
        for target in plan.targets:
            provider = plan.provider_for(target)
            settings = provider.describe()
            price = None if plan.prices_path else plan.prices.get(target.label)
            price = price or table.find(target.provider, target.model, settings)
            self._prices[target] = price
            if price is None and provider.local:
                self._free.add(target)
            elif price is None and settings.get("type") != REPORTING_TYPE:
                unpriced.append(target)
        if self._limit_usd is not None and unpriced:
            names = ", ".join(target.label for target in unpriced)
            raise ConfigError(
                f"--max-cost cannot be kept: the price of {names} is not known; "
                "add it with --prices FILE, or leave the option out"
            )

    def find(self, target: Target) -> Price | None:
        """The price of a target's tokens, None where it is not known."""
        return self._prices.get(target)

    def describe(self) -> dict[str, Price | None]:
        """The prices for config.json: those that are known."""
        return {target.label: price for target, price in self._prices.items() if price is not None}

    def budget(self, work: OpenWork) -> CostBudget | None:
        """What may still be spent, given what earlier stretches of the run have cost."""
        return None if self._limit_usd is None else CostBudget(self._limit_usd, work.spent_usd, frozenset(self._free))


def make_config(plan: Plan, pricing: Pricing, run_id: str, created_at_ms: int | None = None) -> RunConfig:
    """All that decides the run, and no secret."""
    providers = {target: plan.provider_for(target) for target in plan.targets}
    mask = SecretMask(plan.secrets).mask
    return RunConfig(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        created_at_ms=created_at_ms or time.time_ns() // 1_000_000,
        clawgauge_version=__version__,
        models=list(dict.fromkeys(target.model for target in plan.targets)),
        targets=plan.targets,
        options=plan.options,
        suites=plan.suites,
        prompts=plan.prompts,
        prompts_sha256=prompts_sha256(plan.prompts),
        providers={target.provider: mask_strings(one.describe(), mask) for target, one in providers.items()},
        sampling={target.label: _sampling(plan, provider) for target, provider in providers.items()},
        prices=pricing.describe(),
        versions=_versions(),
        argv=[mask_shapes(mask(word)) for word in sys.argv[1:]],
    )


def _that_can_run(prompts: list[Prompt]) -> list[Prompt]:
    """The prompts without those that need the simulated shell, where there is none; said on standard error."""
    needing = [prompt for prompt in prompts if prompt.world is not None or prompt.validator.get("type") == "effect"]
    if not needing or can_run():
        return prompts
    why = "the package bashkit is not installed, and has no build for every system"
    if len(needing) == len(prompts):
        raise ConfigError(f"every prompt chosen needs the simulated shell: {why}; choose other suites with -s")
    sys.stderr.write(f"left out {len(needing)} prompts that need the simulated shell: {why}\n")
    return [prompt for prompt in prompts if prompt not in needing]


def ignored_options(plan: Plan) -> list[str]:
    """What was asked for and a provider cannot be told: a sentence each."""
    asked = {"temperature": plan.options.temperature, "seed": plan.options.seed}
    wished = [*asked.values(), plan.options.max_cost_usd, *(target.thinking_level for target in plan.targets)]
    if all(wish is None for wish in wished):
        return []
    lines: dict[str, None] = {}
    for target in plan.targets:
        provider = plan.provider_for(target)
        refused = [name for name, value in asked.items() if value is not None and name not in provider.takes]
        if refused:
            lines[f"{target.provider} takes no {' and no '.join(refused)}: not sent"] = None
        if target.thinking_level is not None and not provider.takes_thinking:
            lines[f"{target.provider} takes no thinking level: @{target.thinking_level} is ignored"] = None
        wide_and_limited = plan.options.concurrency > 1 and plan.options.max_cost_usd is not None
        if wide_and_limited and provider.settings.type == REPORTING_TYPE:
            lines[f"--max-cost: {target.provider} is asked one call at a time; what one costs is known afterwards"] = (
                None
            )
    return list(lines)


def _sampling(plan: Plan, provider: Provider) -> dict[str, Any]:
    """What this target is really sent, where a prompt does not say otherwise."""
    options = plan.options
    temperature = options.temperature if options.temperature is not None else 0.0 if provider.local else None
    return {
        "temperature": temperature if "temperature" in provider.takes else None,
        "max_tokens": options.max_tokens or provider.default_max_tokens,
        "seed": options.seed if "seed" in provider.takes else None,
    }


def _versions() -> dict[str, str]:
    # Takes as long to load as all else that a rehearsal, which needs no versions, does.
    from importlib.metadata import PackageNotFoundError, version

    found = {"clawgauge": __version__, "python": sys.version.split()[0]}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
