"""Going on with a run: is the plan still the recorded one, which cells are open, and what is known of them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.config.settings import FIELDS, OPTIONS, check_options, flag_of
from clawgauge.errors import RunFolderError, TargetError
from clawgauge.journal import (
    CellKey,
    index_cells,
    iter_results,
    iter_superseded,
    locate_run,
)
from clawgauge.plan import (
    Evidence,
    OpenWork,
    Plan,
    choose_from,
    load_suites,
    refuse_secret_prompts,
    with_settings,
    with_targets,
)
from clawgauge.records import Prompt, PromptKey, RunConfig, RunOptions, SuiteInfo, Target
from clawgauge.reports.clean import clean_cell
from clawgauge.run_data import Row, Run
from clawgauge.runner.agenda import TierSearch, tier_pool
from clawgauge.suites import check_recorded, describe_suite, is_suite_there, prompts_sha256


class Resumed(NamedTuple):
    """The run that is gone on with: its folder, the plan it was begun with, and what the user allows."""

    path: Path
    recorded: RunConfig
    retry_errors: bool = False
    force: bool = False


def read_evidence(
    path: Path, pool: Collection[PromptKey], *, without: Collection[CellKey] = frozenset()
) -> dict[Target, Evidence]:
    """The evidence in run folder `path`; cells in `without` are about to lose their record and count as open."""
    counts: dict[Target, Counter[str]] = {}
    asked: dict[Target, list[tuple[PromptKey, bool | None]]] = {}
    costs: dict[Target, float] = {}
    for line in iter_results(path, Row):
        if line.cell in without:
            continue
        target = line.target
        count = counts.setdefault(target, Counter())
        costs[target] = costs.get(target, 0.0) + _paid(line.cost_usd)
        count["n_calls"] += bool(line.attempts)
        if (line.suite, line.prompt_id) not in pool:
            continue
        count["n_pool"] += 1
        if line.repeat == 0:
            answered = line.availability_status == "ok"
            asked.setdefault(target, []).append((line.prompt, line.tool_use_success if answered else None))
    return {
        target: Evidence(**count, asked=asked.get(target, ()), cost_usd=costs[target])
        for target, count in counts.items()
    }


def _paid(cost_usd: Any) -> float:
    """A folder may come from anyone, and no line in it earns money back."""
    return max(0.0, float(cost_usd)) if isinstance(cost_usd, int | float) else 0.0


def find_resumed(ref: str, runs_dir: Path, *, retry_errors: bool, force: bool) -> Resumed:
    """The run that a RUN word stands for, with the plan it was begun with."""
    path = locate_run(ref, runs_dir)
    recorded = Run.open(path).config
    if recorded is None:
        raise RunFolderError(
            f"{path} has no config.json of clawgauge's: a run that ended before it began, or one of another harness; "
            "it can be summarised, but not resumed"
        )
    check_recorded(recorded.prompts, path / "config.json")
    return Resumed(path, recorded, retry_errors, force)


def resumed_plan(plan: Plan, resumed: Resumed, said: Mapping[str, Any]) -> Plan:
    """The recorded plan, with what the command line says anew; a change that matters is refused without --force."""
    config = resumed.recorded
    named = [field for name, field in FIELDS.items() if name in said and field in RunOptions.__struct_fields__]
    # The recorded options, overridden by those that were named now and by the environment. Which prompts the run has
    # is decided: --prompt-ids chooses among them.
    kept = {
        name: getattr(config.options, name)
        for name in RunOptions.__struct_fields__
        if name == "prompt_ids" or (name not in named and OPTIONS[name].variable is None)
    }
    settings = msgspec.structs.replace(plan.settings, **kept)
    check_options(settings)
    suites, prompts, suite_changes = _prompts(plan, config, from_files="suites" in said)
    targets = [*config.targets, *(target for target in plan.targets if target not in config.targets)]
    for target in targets:
        if target.provider not in plan.providers:
            raise TargetError(
                f"the run asked {target.label!r}, and no provider is called {target.provider!r} here: "
                "name the configuration file that has it with --config"
            )
    going_on = replace(with_settings(with_targets(plan, targets), settings), suites=suites, prompts=prompts)
    changes = [
        *(_target_changes(config.targets, plan.targets) if "targets" in said else []),
        *_option_changes(config.options, settings, named),
        *suite_changes,
        *_address_changes(plan, config, targets),
    ]
    if changes and not resumed.force:
        # A run folder may come from anyone, and the names in it from any server.
        difference = clean_cell(f"{config.run_id}: {'; '.join(changes)}")
        raise RunFolderError(
            f"cannot resume {difference}. Start a new run, or go on with --force and give up "
            "comparing the records made before with those made after"
        )
    # With --prompt-ids only these of the run's own prompts are asked now; the others stay open.
    asked = choose_from(prompts, said["prompt_ids"]) if "prompt_ids" in said else prompts
    return replace(going_on, asked=asked)


def changes_extent(plan: Plan, config: RunConfig) -> bool:
    """Whether the command line asks for more or fewer cells than the run was begun with."""
    return any(
        OPTIONS[name].resume in ("extent", "more") and getattr(plan.settings, name) != getattr(config.options, name)
        for name in RunOptions.__struct_fields__
    )


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
    lines += _target_changes(config.targets, plan.targets)
    lines += _option_changes(config.options, plan.settings, RunOptions.__struct_fields__)
    return [clean_cell(line) for line in lines]


def open_work(plan: Plan, resumed: Resumed) -> OpenWork:
    """The cells that are done, those whose record is to be superseded because they failed, and what is known by now."""
    folder, settings = resumed.path, plan.settings
    events, index = Run.open(folder).events, index_cells(folder)
    stretch = sum(event.event == "stretch_started" for event in events)
    targets, asked = set(plan.targets), {prompt.key for prompt in plan.asked}
    refill = {
        key
        for key, status in index.items()
        if resumed.retry_errors and status != "ok" and key.repeat in range(settings.repeats)
        if Target(*key[:3]) in targets and (key.suite, key.prompt_id) in asked
    }
    if not settings.until_decided and settings.max_calls is None and settings.max_cost_usd is None:
        return OpenWork(set(index) - refill, refill, stretch=stretch)
    prompts = tier_pool(plan.prompts) if settings.until_decided else []
    pool = {prompt.key for prompt in prompts}
    known = read_evidence(folder, pool)
    # Not asked again: failed cells whose tier is decided without them.
    decided = {target for target, seen in known.items() if TierSearch(prompts, settings.repeats, seen).is_decided}
    refill = {key for key in refill if (key.suite, key.prompt_id) not in pool or Target(*key[:3]) not in decided}
    evidence = read_evidence(folder, pool, without=refill) if refill else known
    # What is about to be asked again was paid for all the same, and so was what has been superseded; of warm-ups, lost
    # attempts and calls given up only the events tell.
    beside_usd = sum(seen.cost_usd for seen in known.values()) - sum(seen.cost_usd for seen in evidence.values())
    beside_usd += sum(_paid(line.cost_usd) for line in iter_superseded(folder, Row))
    beside_usd += sum(_paid(event.detail.get("unrecorded_usd")) for event in events if event.event == "stretch_ended")
    return OpenWork(set(index) - refill, refill, evidence, beside_usd, stretch)


def _target_changes(before: list[Target], now: list[Target]) -> list[str]:
    if set(before) == set(now):
        return []
    gone = ", ".join(target.label for target in before if target not in now)
    new = ", ".join(target.label for target in now if target not in before)
    return [f"the targets differ ({'; '.join(filter(None, (gone and f'without {gone}', new and f'new {new}')))})"]


def _option_changes(before: RunOptions, now: RunOptions, names: Iterable[str]) -> list[str]:
    """Which of these options differ so that records made before and after cannot be compared."""
    lines = []
    for name in names:
        old, new, resume = getattr(before, name), getattr(now, name), OPTIONS[name].resume
        # More repeats only add cells.
        if old != new and (resume == "fixed" or (resume == "more" and new < old)):
            lines.append(f"{flag_of(name)} was {old} and is now {new}")
    return lines


def _prompts(plan: Plan, config: RunConfig, *, from_files: bool) -> tuple[list[SuiteInfo], list[Prompt], list[str]]:
    """What to go on with: suites and prompts as recorded, unless the files they came from have changed since."""
    suites, prompts = plan.suites, plan.prompts
    if not from_files:
        # Found from here, or from the configuration file that named them.
        sources = [suite.source for suite in config.suites]
        places = (Path(), plan.config_file.parent if plan.config_file else Path())
        base_dir = next((at for at in places if all(is_suite_there(source, at) for source in sources)), None)
        if base_dir is None:
            # Where the files are gone, the run folder has all that is needed.
            return config.suites, config.prompts, []
        loaded = load_suites(sources, base_dir, config.options.draw)
        suites = [describe_suite(suite) for suite in loaded]
        kept = {prompt.key for prompt in config.prompts}
        prompts = [prompt for suite in loaded for prompt in suite.prompts]
        if config.options.prompt_ids is not None:
            prompts = [prompt for prompt in prompts if prompt.key in kept]
    if prompts_sha256(prompts) == config.prompts_sha256:
        return config.suites, config.prompts, []
    refuse_secret_prompts(prompts, plan.secrets)
    return suites, prompts, _prompt_differences(config.prompts, prompts)


def _prompt_differences(before: list[Prompt], now: list[Prompt]) -> list[str]:
    old = {f"{p.suite}/{p.id}": p for p in before}
    new = {f"{p.suite}/{p.id}": p for p in now}
    found = {
        "changed prompts": [key for key in new if key in old and new[key] != old[key]],
        "prompts gone": [key for key in old if key not in new],
        "new prompts": [key for key in new if key not in old],
    }
    return [f"{what} {', '.join(ids[:5])}{' …' if len(ids) > 5 else ''}" for what, ids in found.items() if ids]
