"""From the words on the command line to a decided plan. Asks servers only for the models behind a pattern."""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from clawgauge.cli.tracebacks import redact_tracebacks
from clawgauge.config import (
    DEFAULT_SUITES,
    FileConfig,
    Flags,
    TargetPattern,
    apply_patterns,
    checked_fail_under,
    choose_prompts,
    find_secrets,
    load_suites,
    make_options,
    parse_target,
    provider_settings,
    read_environment,
    read_file_config,
)
from clawgauge.errors import CallFailure, ConfigError, RequestError, SuiteError, TargetError
from clawgauge.journal import withhold
from clawgauge.providers.base import Provider, ProviderSettings
from clawgauge.providers.embedded_model import DEFAULT_MODEL
from clawgauge.providers.registry import create_provider
from clawgauge.records import ModelInfo, Prompt, RunOptions, SuiteInfo, Target
from clawgauge.redaction import MASK, Redactor, looks_secret
from clawgauge.reports.sanitize import clean_terminal
from clawgauge.suites import describe_suite

OLLAMA = "ollama_openai"


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, decided but for the models that patterns stand for.

    `asked` is what this session asks: all of `prompts`, or, on resuming with --prompt-ids, some of them.
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
    redact: Callable[[str], str]
    secrets: Mapping[str, str]
    config_path: Path | None
    environ: Mapping[str, str]

    def provider_for(self, target: Target) -> Provider:
        """The provider a target names, ready to be entered."""
        return create_provider(self.settings[target.provider])

    @property
    def n_calls(self) -> int:
        return len(self.targets) * len(self.prompts) * self.options.repeats


def make_plan(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Plan:
    """Everything the flags, the file and the environment decide. Raises a `RequestError` for what cannot be."""
    environ = read_environment()
    _refuse_secrets(_words(arguments), find_secrets({}, environ), "the command line")
    cwd = Path.cwd()
    file, config_path = read_file_config(arguments.config, cwd)
    flags = _flags(arguments)
    options = make_options(flags, file.run, environ)
    settings = provider_settings(file, environ, concurrency=options.concurrency, tell=tell)
    base_dir = config_path.parent if config_path and not arguments.suite and file.run.suites else cwd
    secrets = find_secrets(settings, environ)
    redact = Redactor(secrets)
    withhold(secrets)
    redact_tracebacks(redact)
    wanted = arguments.target or file.run.targets or []
    named = [*_words(arguments), *wanted, str(runs_dir(arguments, file))]
    _refuse_secrets(named, secrets, "the command line or the configuration file")
    suites = load_suites(arguments.suite or file.run.suites or list(DEFAULT_SUITES), base_dir)
    # A resumed run has its own prompts to choose from.
    prompts = choose_prompts(suites, None if arguments.resume else flags.prompt_ids)
    refuse_secret_prompts(prompts, secrets)
    return Plan(
        patterns=[parse_target(text, settings) for text in wanted],
        targets=[],
        suites=[describe_suite(suite) for suite in suites],
        prompts=prompts,
        asked=prompts,
        options=options,
        settings=settings,
        runs_dir=runs_dir(arguments, file),
        fail_under=checked_fail_under(flags, file.run),
        redact=redact,
        secrets=secrets,
        config_path=config_path,
        environ=environ,
    )


def runs_dir(arguments: argparse.Namespace, file: FileConfig) -> Path:
    """Flag over file over `runs`."""
    return Path(arguments.runs_dir or file.run.runs_dir or "runs")


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


def _flags(arguments: argparse.Namespace) -> Flags:
    ids = arguments.prompt_ids
    return Flags(
        repeats=arguments.repeats,
        concurrency=arguments.concurrency,
        timeout=arguments.timeout,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        seed=arguments.seed,
        stream=arguments.stream,
        warm_up=arguments.warm_up,
        max_retries=arguments.max_retries,
        max_wait=arguments.max_wait,
        unload_others=arguments.unload_others,
        fail_under=arguments.fail_under,
        prompt_ids=None if ids is None else split_ids(ids),
    )


async def choose_targets(plan: Plan, tell: Callable[[str], None]) -> Plan:
    """Fill in the targets: patterns expanded, or, where none was named, what this machine has for free."""
    if not any(not pattern.excludes for pattern in plan.patterns):
        targets = await _unasked_targets(plan, tell)
    else:
        targets = apply_patterns(plan.patterns, await _list_models(plan))
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
