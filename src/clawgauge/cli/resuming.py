"""Going on with a run: is the plan still the recorded one, and which cells are open?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from clawgauge.cli.planning import Plan
from clawgauge.config import choose_prompts, load_suites
from clawgauge.errors import RunFolderError, SuiteError
from clawgauge.journal import CellKey, index_cells
from clawgauge.records import Prompt, RunConfig, RunOptions
from clawgauge.suites import prompts_sha256

# What a flag may change on resuming without making the records incomparable.
_FREE_OPTIONS = frozenset({"max_retries", "retry_base_s", "max_wait_s", "concurrency", "timeout_s", "warm_up"})


def resumed_plan(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> Plan:
    """The recorded plan, with what the command line says anew; a change that matters is refused without --force."""
    changes = _target_changes(plan, config, arguments) + _option_changes(plan, config, arguments)
    prompts, suite_changes = _prompts(plan, config, arguments)
    changes += suite_changes
    if changes and not arguments.force:
        raise RunFolderError(
            f"cannot resume {config.run_id}: {'; '.join(changes)}. Start a new run, or go on with --force and give up "
            "comparing the records made before with those made after"
        )
    targets = plan.targets if arguments.target else config.targets
    return replace(plan, targets=targets, prompts=prompts, options=_options(plan, config, arguments))


def forced_changes(plan: Plan, config: RunConfig) -> list[str]:
    """What --force gives up, for the person and for events.jsonl."""
    lines = _prompt_differences(config.prompts, plan.prompts)
    if plan.targets != config.targets:
        lines.append("the targets differ")
    if plan.options != config.options:
        lines.append("the options differ")
    return lines


def open_cells(plan: Plan, folder: Path, *, retry_errors: bool) -> tuple[set[CellKey], set[CellKey]]:
    """The cells that are done, and those whose record is to be superseded because they failed."""
    index = index_cells(folder)
    planned = {
        CellKey(target.provider, target.model, target.thinking_level, prompt.suite, prompt.id, repeat)
        for target in plan.targets
        for prompt in plan.prompts
        for repeat in range(plan.options.repeats)
    }
    failed = {key for key, outcome in index.items() if outcome.availability_status != "ok" and key in planned}
    refill = failed if retry_errors else set()
    return set(index) - refill, refill


def _target_changes(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> list[str]:
    if not arguments.target or set(plan.targets) == set(config.targets):
        return []
    gone = ", ".join(t.label for t in config.targets if t not in plan.targets)
    new = ", ".join(t.label for t in plan.targets if t not in config.targets)
    return [f"the targets differ ({'; '.join(filter(None, (gone and f'without {gone}', new and f'new {new}')))})"]


def _option_changes(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> list[str]:
    said = {name for name, value in vars(arguments).items() if value is not None}
    before, now = config.options, plan.options
    return [
        f"--{name.removesuffix('_s').replace('_', '-')} was {getattr(before, name)} and is now {getattr(now, name)}"
        for name in RunOptions.__struct_fields__
        if name not in _FREE_OPTIONS and name.removesuffix("_s") in said and getattr(before, name) != getattr(now, name)
    ]


def _options(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> RunOptions:
    """The recorded options, overridden by what the command line says."""
    said = {name for name, value in vars(arguments).items() if value is not None}
    fresh = {"timeout_s": "timeout", "max_wait_s": "max_wait"}
    merged = {
        name: getattr(plan.options if fresh.get(name, name) in said else config.options, name)
        for name in RunOptions.__struct_fields__
    }
    merged["retry_base_s"] = plan.options.retry_base_s
    return RunOptions(**merged)


def _prompts(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> tuple[list[Prompt], list[str]]:
    """The prompts to go on with: as recorded, unless the suites they came from have changed since."""
    if arguments.suite:
        current = plan.prompts
    else:
        try:
            suites = load_suites([suite.source for suite in config.suites], Path.cwd())
            current = choose_prompts(suites, config.options.prompt_ids)
        except SuiteError:
            # The file is gone: the run folder has all that is needed.
            return config.prompts, []
    if prompts_sha256(current) == config.prompts_sha256:
        return config.prompts, []
    return current, _prompt_differences(config.prompts, current)


def _prompt_differences(before: list[Prompt], now: list[Prompt]) -> list[str]:
    old = {f"{p.suite}/{p.id}": p for p in before}
    new = {f"{p.suite}/{p.id}": p for p in now}
    lines = [
        f"{what} {', '.join(ids[:5])}{' …' if len(ids) > 5 else ''}"
        for what, ids in (
            ("changed prompts", [key for key in new if key in old and new[key] != old[key]]),
            ("prompts gone", [key for key in old if key not in new]),
            ("new prompts", [key for key in new if key not in old]),
        )
        if ids
    ]
    return lines
