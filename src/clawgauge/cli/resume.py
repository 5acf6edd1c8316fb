"""Going on with a run: is the plan still the recorded one, which cells are open, and what is known of them?"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from clawgauge.cli.planning import (
    OpenWork,
    Plan,
    refuse_endless_search,
    refuse_secret_prompts,
    refuse_unusable,
    split_ids,
)
from clawgauge.config import check_options, choose_from, load_suites
from clawgauge.errors import RunFolderError, TargetError
from clawgauge.journal import (
    CellKey,
    check_run_id,
    index_cells,
    iter_results,
    iter_superseded,
    locate_run,
    read_config,
    read_events,
)
from clawgauge.records import Prompt, RunConfig, RunOptions, SuiteInfo, Target
from clawgauge.reports.clean import clean_cell
from clawgauge.run_data import Row
from clawgauge.runner.budgets import Evidence, pool_key
from clawgauge.stats import is_decided, tier_posterior
from clawgauge.suites import check_recorded, describe_suite, is_suite_there, prompts_sha256

# What a flag may change on resuming without making the records incomparable.
_FREE_OPTIONS = frozenset(
    {
        "max_retries",
        "retry_base_s",
        "max_wait_s",
        "concurrency",
        "timeout_s",
        "warm_up",
        "prompt_ids",
        "until_decided",
        "max_calls",
        "max_cost_usd",
    }
)
# What decides which cells a run is to have: config.json must say it as it is now.
_EXTENT_OPTIONS = ("repeats", "until_decided", "max_calls", "max_cost_usd")


def read_evidence(
    path: Path, pool: Collection[Prompt], *, without: Collection[CellKey] = frozenset()
) -> dict[Target, Evidence]:
    """The evidence in run folder `path`; cells in `without` are about to lose their record and count as open."""
    keys = {pool_key(prompt) for prompt in pool}
    counts: dict[Target, Counter[str]] = {}
    costs: dict[Target, float] = {}
    for line in iter_results(path, Row):
        if line.cell in without:
            continue
        target = line.target
        count = counts.setdefault(target, Counter())
        costs[target] = costs.get(target, 0.0) + _paid(line.cost_usd)
        count["n_calls"] += bool(line.attempts)
        if (line.suite, line.prompt_id) not in keys:
            continue
        count["n_pool"] += 1
        count["n_repeats"] += line.repeat > 0
        if line.repeat == 0 and line.availability_status == "ok":
            count["n"] += 1
            count["k"] += line.tool_use_success
    return {target: Evidence(**count, cost_usd=costs[target]) for target, count in counts.items()}


def read_superseded_cost(path: Path) -> float:
    """What the calls cost whose records were superseded: they were paid for, though they count in no figure."""
    return sum(_paid(line.cost_usd) for line in iter_superseded(path, Row))


def read_unrecorded_cost(path: Path) -> float:
    """What earlier stretches spent, or may have, that no record tells: warm-ups, lost attempts, calls given up."""
    ended = (event.detail.get("unrecorded_usd") for event in read_events(path) if event.event == "stretch_ended")
    return sum(float(usd) for usd in ended if isinstance(usd, int | float) and usd > 0)


def _paid(cost_usd: float | None) -> float:
    """A folder may come from anyone, and no line in it earns money back."""
    return max(0.0, cost_usd or 0.0)


class Settled(NamedTuple):
    """A plan that nothing changes any more; the folder it goes on in and its recorded plan, None for a new run."""

    plan: Plan
    path: Path | None = None
    recorded: RunConfig | None = None


def settle_plan(plan: Plan, arguments: argparse.Namespace) -> Settled:
    """The plan with the run that it resumes, where it does."""
    if arguments.run_id is not None:
        check_run_id(arguments.run_id)
    settled = Settled(plan)
    if arguments.resume is not None:
        path = locate_run(arguments.resume, plan.runs_dir)
        recorded = recorded_config(path)
        check_recorded(recorded.prompts, path / "config.json")
        settled = Settled(resumed_plan(plan, recorded, arguments), path, recorded)
    refuse_endless_search(settled.plan)
    return settled


def recorded_config(path: Path) -> RunConfig:
    """The plan a run was begun with."""
    config = read_config(path)
    if config is None:
        raise RunFolderError(
            f"{path} has no config.json of clawgauge's: a run that ended before it began, or one of another harness; "
            "it can be summarised, but not resumed"
        )
    return config


def resumed_plan(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> Plan:
    """The recorded plan, with what the command line says anew; a change that matters is refused without --force."""
    options = _options(plan, config, arguments)
    check_options(options)
    suites, prompts, suite_changes = _prompts(plan, config, arguments)
    targets = _targets(plan, config)
    _require_providers(plan, targets)
    changes = [
        *_target_changes(plan, config, arguments),
        *_option_changes(plan, config, arguments),
        *suite_changes,
        *_address_changes(plan, config, targets),
    ]
    if changes and not arguments.force:
        # A run folder may come from anyone, and the names in it from any server.
        difference = clean_cell(f"{config.run_id}: {'; '.join(changes)}")
        raise RunFolderError(
            f"cannot resume {difference}. Start a new run, or go on with --force and give up "
            "comparing the records made before with those made after"
        )
    return replace(
        plan,
        targets=targets,
        suites=suites,
        prompts=prompts,
        asked=_asked(prompts, arguments.prompt_ids),
        options=options,
        settings={name: replace(setting, concurrency=options.concurrency) for name, setting in plan.settings.items()},
        prices=config.prices,
    )


def changes_extent(plan: Plan, config: RunConfig) -> bool:
    """Whether the command line asks for more or fewer cells than the run was begun with."""
    return any(getattr(plan.options, name) != getattr(config.options, name) for name in _EXTENT_OPTIONS)


def _targets(plan: Plan, config: RunConfig) -> list[Target]:
    """The recorded targets, and behind them those that --force adds."""
    return [*config.targets, *(target for target in plan.targets if target not in config.targets)]


def _asked(prompts: list[Prompt], prompt_ids: str | None) -> list[Prompt]:
    """With --prompt-ids only these of the run's own prompts are asked now; the others stay open."""
    return prompts if prompt_ids is None else choose_from(prompts, split_ids(prompt_ids))


def _address_changes(plan: Plan, config: RunConfig, targets: list[Target]) -> list[str]:
    """Another server behind the same name is another subject of measurement."""
    changes = {}
    for target in targets:
        before = config.providers.get(target.provider, {}).get("base_url")
        # A key inside the path is masked on disk, and so must be what it is compared with and shown beside.
        now = plan.redact(plan.provider_for(target).describe().get("base_url") or "nowhere")
        if before is not None and now != plan.redact(before):
            changes[target.provider] = f"{target.provider} was at {before} and is now at {now}"
    return list(changes.values())


def forced_changes(plan: Plan, config: RunConfig) -> list[str]:
    """What --force gives up, for the person and for events.jsonl."""
    lines = [*_prompt_differences(config.prompts, plan.prompts), *_address_changes(plan, config, plan.targets)]
    if set(plan.targets) != set(config.targets):
        lines.append(_describe_targets(config.targets, plan.targets))
    lines += _describe_options(config.options, plan.options, RunOptions.__struct_fields__)
    return [clean_cell(line) for line in lines]


def open_work(plan: Plan, folder: Path, *, retry_errors: bool) -> OpenWork:
    """The cells that are done, those whose record is to be superseded because they failed, and what is known by now."""
    index = index_cells(folder)
    planned = {
        CellKey(target.provider, target.model, target.thinking_level, prompt.suite, prompt.id, repeat)
        for target in plan.targets
        for prompt in plan.asked
        for repeat in range(plan.options.repeats)
    }
    failed = {key for key, status in index.items() if status != "ok" and key in planned}
    refill = failed if retry_errors else set()
    if not plan.options.until_decided and plan.options.max_calls is None and plan.options.max_cost_usd is None:
        return OpenWork(set(index) - refill, refill)
    known = read_evidence(folder, plan.tier_pool)
    refill -= _not_needed(plan, known, refill)
    evidence = read_evidence(folder, plan.tier_pool, without=refill) if refill else known
    # What is about to be asked again was paid for all the same.
    given_up_usd = sum(seen.cost_usd for seen in known.values()) - sum(seen.cost_usd for seen in evidence.values())
    beside_usd = read_superseded_cost(folder) + read_unrecorded_cost(folder) + given_up_usd
    return OpenWork(set(index) - refill, refill, evidence, beside_usd)


def _not_needed(plan: Plan, known: Mapping[Target, Evidence], failed: Collection[CellKey]) -> set[CellKey]:
    """Failed cells whose answer would no longer be asked for: their tier is decided without them."""
    keys = {pool_key(prompt) for prompt in plan.tier_pool}
    decided = {target for target, seen in known.items() if is_decided(tier_posterior(seen.k, seen.n))}
    return {
        key
        for key in failed
        if (key.suite, key.prompt_id) in keys and Target(key.provider, key.model, key.thinking_level) in decided
    }


def _require_providers(plan: Plan, targets: list[Target]) -> None:
    for target in targets:
        if target.provider not in plan.settings:
            raise TargetError(
                f"the run asked {target.label!r}, and no provider is called {target.provider!r} here: "
                "name the configuration file that has it with --config"
            )
    refuse_unusable(plan.settings, {target.provider for target in targets})


def _target_changes(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> list[str]:
    if not arguments.target or set(plan.targets) == set(config.targets):
        return []
    return [_describe_targets(config.targets, plan.targets)]


def _describe_targets(before: list[Target], now: list[Target]) -> str:
    gone = ", ".join(target.label for target in before if target not in now)
    new = ", ".join(target.label for target in now if target not in before)
    return f"the targets differ ({'; '.join(filter(None, (gone and f'without {gone}', new and f'new {new}')))})"


def _option_changes(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> list[str]:
    said = {name for name, value in vars(arguments).items() if value is not None}
    named = [name for name in RunOptions.__struct_fields__ if name.removesuffix("_s") in said]
    return _describe_options(config.options, plan.options, named)


def _describe_options(before: RunOptions, now: RunOptions, names: Iterable[str]) -> list[str]:
    """Which of these options differ, among those that make records incomparable."""
    return [
        f"--{name.removesuffix('_s').replace('_', '-')} was {getattr(before, name)} and is now {getattr(now, name)}"
        for name in names
        if name not in _FREE_OPTIONS
        and getattr(before, name) != getattr(now, name)
        # More repeats only add cells.
        and not (name == "repeats" and now.repeats > before.repeats)
    ]


def _options(plan: Plan, config: RunConfig, arguments: argparse.Namespace) -> RunOptions:
    """The recorded options, overridden by what the command line says."""
    said = {name for name, value in vars(arguments).items() if value is not None}
    fresh = {"timeout_s": "timeout", "max_wait_s": "max_wait", "max_cost_usd": "max_cost"}
    merged = {
        name: getattr(plan.options if fresh.get(name, name) in said else config.options, name)
        for name in RunOptions.__struct_fields__
    }
    merged["retry_base_s"] = plan.options.retry_base_s
    merged["prompt_ids"] = config.options.prompt_ids
    return RunOptions(**merged)


def _prompts(
    plan: Plan, config: RunConfig, arguments: argparse.Namespace
) -> tuple[list[SuiteInfo], list[Prompt], list[str]]:
    """What to go on with: suites and prompts as recorded, unless the files they came from have changed since."""
    current = (plan.suites, plan.prompts) if arguments.suite else _load_recorded(plan, config)
    # Where the files are gone, the run folder has all that is needed.
    if current is None or prompts_sha256(current[1]) == config.prompts_sha256:
        return config.suites, config.prompts, []
    suites, prompts = current
    refuse_secret_prompts(prompts, plan.secrets)
    return suites, prompts, _prompt_differences(config.prompts, prompts)


def _load_recorded(plan: Plan, config: RunConfig) -> tuple[list[SuiteInfo], list[Prompt]] | None:
    """The suites as their files hold them now: found from here, or from the configuration file that named them."""
    sources = [suite.source for suite in config.suites]
    named_in = plan.configuration.path
    for base_dir in (Path(), *([named_in.parent] if named_in else [])):
        if all(is_suite_there(source, base_dir) for source in sources):
            suites = load_suites(sources, base_dir)
            kept = {f"{prompt.suite}/{prompt.id}" for prompt in config.prompts}
            prompts = [prompt for suite in suites for prompt in suite.prompts]
            if config.options.prompt_ids is not None:
                prompts = [prompt for prompt in prompts if f"{prompt.suite}/{prompt.id}" in kept]
            return [describe_suite(suite) for suite in suites], prompts
    return None


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
