"""Going on with a run: is the plan still the recorded one, which cells are open, and what is known of them?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge import journal
from clawgauge.config.settings import FIELDS, OPTIONS, check_options, flag_of
from clawgauge.errors import RunFolderError, TargetError
from clawgauge.plan import Evidence, OpenWork, Plan, choose_from, refuse_secret_prompts, with_targets
from clawgauge.records import Prompt, PromptKey, RunConfig, RunOptions, SuiteInfo, Target
from clawgauge.reports.clean import clean_cell
from clawgauge.run_data import Row, Run
from clawgauge.runner.agenda import TierSearch, tier_pool
from clawgauge.suites import check_recorded, describe_suite, is_suite_there, load_suite, prompts_sha256


class Resumed(NamedTuple):
    path: Path
    recorded: RunConfig
    retry_errors: bool
    force: bool


def find_resumed(ref: str, runs_dir: Path, *, retry_errors: bool, force: bool) -> Resumed:
    path = journal.locate_run(ref, runs_dir, answered=False)
    recorded = Run.open(path).config
    if recorded is None:
        which = "a run that ended before it began, or one of another harness"
        none = f"{path} has no config.json of clawgauge's: {which}"
        raise RunFolderError(f"{none}; it can be summarised, but not resumed")
    check_recorded(recorded.prompts, path / "config.json")
    return Resumed(path, recorded, retry_errors, force)


def resumed_plan(plan: Plan, resumed: Resumed, said: Mapping[str, Any]) -> Plan:
    """The recorded plan, with what the command line says anew; a change that matters is refused without --force."""
    config = resumed.recorded
    # The recorded options, overridden by those that were named now and by the environment. Which prompts the run has
    # is decided: --prompt-ids chooses among them.
    named = {field for name, field in FIELDS.items() if name in said}
    anew = named.union(name for name in RunOptions.__struct_fields__ if OPTIONS[name].variable) - {"prompt_ids"}
    kept = {name: getattr(config.options, name) for name in RunOptions.__struct_fields__ if name not in anew}
    settings = msgspec.structs.replace(plan.settings, **kept)
    check_options(settings)
    suites, prompts = _prompts(plan, config, from_files="suites" in said)
    targets = [*config.targets, *(target for target in plan.targets if target not in config.targets)]
    for target in targets:
        if target.provider not in plan.providers:
            unknown = f"the run asked {target.label!r}, and no provider is called {target.provider!r} here"
            raise TargetError(f"{unknown}: name the configuration file that has it with --config")
    going_on = with_targets(plan, targets)
    going_on = replace(going_on, settings=settings, suites=suites, prompts=prompts, context=config.context)
    changes = find_changes(going_on, config, plan.targets if "targets" in said else config.targets)
    if changes and not resumed.force:
        why = f"cannot resume {clean_cell(config.run_id)}: {'; '.join(changes)}"
        force = "go on with --force and give up comparing the records made before with those made after"
        raise RunFolderError(f"{why}. Start a new run, or {force}")
    # With --prompt-ids only these of the run's own prompts are asked now; the others stay open.
    return replace(going_on, asked=choose_from(prompts, said["prompt_ids"]) if "prompt_ids" in said else prompts)


def _prompts(plan: Plan, config: RunConfig, *, from_files: bool) -> tuple[list[SuiteInfo], list[Prompt]]:
    """What to go on with: suites and prompts as recorded, unless the files they came from have changed since."""
    suites, prompts = plan.suites, plan.prompts
    if not from_files:
        sources = [suite.source for suite in config.suites]
        places = (Path(), plan.config_file.parent if plan.config_file else Path())
        base_dir = next((at for at in places if all(is_suite_there(source, at) for source in sources)), None)
        if base_dir is None or config.context is not None:
            # Where the files are gone, or a context was put around them, the run folder has all that is needed.
            return config.suites, config.prompts
        loaded = [load_suite(source, base_dir=base_dir, drawing=config.options.draw) for source in sources]
        suites = [describe_suite(suite) for suite in loaded]
        kept = {prompt.key for prompt in config.prompts}
        prompts = [prompt for suite in loaded for prompt in suite.prompts]
        if config.options.prompt_ids is not None:
            prompts = [prompt for prompt in prompts if prompt.key in kept]
    if prompts_sha256(prompts) == config.prompts_sha256:
        return config.suites, config.prompts
    refuse_secret_prompts(prompts, plan.secrets)
    return suites, prompts


def find_changes(plan: Plan, config: RunConfig, targets: list[Target]) -> list[str]:
    """What keeps records made from now on from being compared with those of the run; `targets` are those wanted now."""
    changes = []
    gone = ", ".join(target.label for target in config.targets if target not in targets)
    new = ", ".join(target.label for target in targets if target not in config.targets)
    if gone or new:
        moved = filter(None, (gone and f"without {gone}", new and f"new {new}"))
        changes.append(f"the targets differ ({'; '.join(moved)})")
    for name in RunOptions.__struct_fields__:
        old, now, resume = getattr(config.options, name), getattr(plan.settings, name), OPTIONS[name].resume
        # More repeats only add cells.
        if old != now and (resume == "fixed" or (resume == "more" and now < old)):
            changes.append(f"{flag_of(name)} was {old} and is now {now}")
    before = {f"{p.suite}/{p.id}": p for p in config.prompts}
    today = {f"{p.suite}/{p.id}": p for p in plan.prompts}
    found = {
        "changed prompts": [key for key in today if key in before and today[key] != before[key]],
        "prompts gone": [key for key in before if key not in today],
        "new prompts": [key for key in today if key not in before],
    }
    changes += [f"{what} {', '.join(ids[:5])}{' …' if len(ids) > 5 else ''}" for what, ids in found.items() if ids]
    for provider in dict.fromkeys(target.provider for target in plan.targets):
        # Another server behind the same name is another subject of measurement.
        was_at = config.providers.get(provider, {}).get("base_url")
        # A key inside the path is masked on disk, and so must be what it is compared with and shown beside.
        is_at = plan.redact(str(plan.provider(provider).describe().get("base_url") or "nowhere"))
        if was_at is not None and is_at != plan.redact(str(was_at)):
            changes.append(f"{provider} was at {was_at} and is now at {is_at}")
    # A run folder may come from anyone, and the names in it from any server.
    return [clean_cell(change) for change in changes]


def open_work(plan: Plan, resumed: Resumed) -> OpenWork:
    """The cells that are done, those whose record is to be superseded because they failed, and what is known by now."""
    folder, settings = resumed.path, plan.settings
    events, index = Run.open(folder).events, journal.index_cells(folder)
    stretch = sum(event.event == "stretch_started" for event in events)
    targets, asked = set(plan.targets), {prompt.key for prompt in plan.asked}
    unanswered = [key for key, status in index.items() if resumed.retry_errors and status != "ok"]
    planned = [key for key in unanswered if key.repeat in range(settings.repeats) and Target(*key[:3]) in targets]
    refill = {key for key in planned if (key.suite, key.prompt_id) in asked}
    if not settings.until_decided and settings.max_calls is None and settings.max_cost_usd is None:
        return OpenWork(set(index) - refill, refill, stretch=stretch)
    prompts = tier_pool(plan.prompts) if settings.until_decided else []
    pool = {prompt.key for prompt in prompts}
    known = _read_evidence(folder, pool)
    # Not asked again: failed cells whose tier is decided without them.
    decided = {target for target, seen in known.items() if TierSearch(prompts, settings.repeats, seen).is_decided}
    refill = {key for key in refill if (key.suite, key.prompt_id) not in pool or Target(*key[:3]) not in decided}
    evidence = _read_evidence(folder, pool, without=refill) if refill else known
    # What is about to be asked again was paid for all the same, and so was what has been superseded; of warm-ups, lost
    # attempts and calls given up only the events tell.
    beside_usd = sum(seen.cost_usd for seen in known.values()) - sum(seen.cost_usd for seen in evidence.values())
    beside_usd += sum(_paid(line.cost_usd) for line in journal.iter_superseded(folder, Row))
    endings = [event for event in events if event.event in ("stretch_ended", "node_left")]
    beside_usd += sum(_paid(event.detail.get("unrecorded_usd")) for event in endings)
    return OpenWork(set(index) - refill, refill, evidence, beside_usd, stretch)


def _read_evidence(
    path: Path, pool: Collection[PromptKey], *, without: Collection[journal.CellKey] = frozenset()
) -> dict[Target, Evidence]:
    """The evidence in run folder `path`; cells in `without` are about to lose their record and count as open."""
    found: dict[Target, Evidence] = {}
    for line in journal.iter_results(path, Row):
        if line.cell in without:
            continue
        seen = found.setdefault(line.target, Evidence())
        seen.cost_usd += _paid(line.cost_usd)
        seen.n_calls += line.was_asked
        if line.prompt in pool:
            seen.n_pool += 1
            if line.repeat == 0:
                is_evidence = line.availability_status == "ok" and line.not_judged is None
                seen.asked.append((line.prompt, line.tool_use_success if is_evidence else None))
    return found


def _paid(cost_usd: Any) -> float:
    """A folder may come from anyone, and no line in it earns money back."""
    return max(0.0, float(cost_usd)) if isinstance(cost_usd, int | float) else 0.0
