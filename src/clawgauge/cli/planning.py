"""From the words on the command line to a decided plan. Asks servers only for the models behind a pattern."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clawgauge.config import (
    DEFAULT_SUITES,
    FileConfig,
    Flags,
    TargetPattern,
    apply_patterns,
    checked_fail_under,
    choose_prompts,
    load_suites,
    make_options,
    parse_target,
    provider_settings,
    read_environment,
    read_file_config,
    secret_values,
)
from clawgauge.errors import CallFailure, ConfigError, TargetError
from clawgauge.providers.base import Provider, ProviderSettings
from clawgauge.providers.embedded_model import DEFAULT_MODEL
from clawgauge.providers.registry import create_provider
from clawgauge.records import Prompt, RunOptions, SuiteRecord, Target
from clawgauge.redaction import Redactor

OLLAMA = "ollama_openai"


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, decided but for the models that patterns stand for."""

    patterns: list[TargetPattern]
    targets: list[Target]
    suites: list[SuiteRecord]
    prompts: list[Prompt]
    options: RunOptions
    settings: dict[str, ProviderSettings]
    runs_dir: Path
    fail_under: float | None
    redact: Callable[[str], str]
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
    cwd = Path.cwd()
    file, config_path = read_file_config(arguments.config, cwd)
    flags = _flags(arguments)
    options = make_options(flags, file.run, environ)
    settings = provider_settings(file, environ, concurrency=options.concurrency, tell=tell)
    base_dir = config_path.parent if config_path and not arguments.suite and file.run.suites else cwd
    suites = load_suites(arguments.suite or file.run.suites or list(DEFAULT_SUITES), base_dir)
    addresses = [setting.base_url for setting in settings.values()]
    keys = {setting.api_key for setting in settings.values() if setting.api_key}
    return Plan(
        patterns=[parse_target(text, settings) for text in arguments.target or file.run.targets or []],
        targets=[],
        suites=suites,
        prompts=choose_prompts(suites, flags.prompt_ids),
        options=options,
        settings=settings,
        runs_dir=runs_dir(arguments, file),
        fail_under=checked_fail_under(flags, file.run),
        redact=Redactor(keys | secret_values(environ, addresses)),
        config_path=config_path,
        environ=environ,
    )


def runs_dir(arguments: argparse.Namespace, file: FileConfig) -> Path:
    """Flag over file over `runs`."""
    return Path(arguments.runs_dir or file.run.runs_dir or "runs")


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
        prompt_ids=None if ids is None else [word.strip() for word in ids.split(",") if word.strip()],
    )


async def choose_targets(plan: Plan, tell: Callable[[str], None]) -> Plan:
    """Fill in the targets: patterns expanded, or, where none was named, what this machine has for free."""
    if not any(not pattern.excludes for pattern in plan.patterns):
        targets = await _unasked_targets(plan, tell)
    else:
        targets = apply_patterns(plan.patterns, await _list_models(plan))
    if not targets:
        raise TargetError("no target is left after the exclusions: loosen a '!' pattern or name a target with -t")
    return replace(plan, targets=targets)


async def _list_models(plan: Plan) -> dict[str, list[str]]:
    """The models of every provider that a pattern with wild cards names."""
    listed: dict[str, list[str]] = {}
    for pattern in plan.patterns:
        name = pattern.target.provider
        if pattern.excludes or not pattern.is_wild or name in listed:
            continue
        try:
            async with create_provider(plan.settings[name]) as provider:
                models = await provider.models()
        except CallFailure as failure:
            raise ConfigError(
                f"cannot list the models of {name} for {pattern.target.label!r}: {plan.redact(failure.message)}; "
                "start the server or name the models one by one"
            ) from failure
        listed[name] = [model.name for model in models if model.kind == "chat"]
        if not any(TargetPattern.matches(pattern, Target(name, model)) for model in listed[name]):
            raise TargetError(f"{pattern.target.label!r} matches none of the {len(listed[name])} models of {name}")
    return listed


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
