"""One `clawgauge run` from plan to exit code."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from clawgauge.cli.estimating import plan_facts, plan_lines
from clawgauge.cli.interruption import interruption
from clawgauge.cli.loop import interruptible, run_async
from clawgauge.cli.planning import Plan, choose_targets, make_plan
from clawgauge.cli.recording import ignored_options, make_config
from clawgauge.cli.resuming import forced_changes, open_cells, resumed_plan
from clawgauge.cli.watching import make_observer, print_ending
from clawgauge.cli.writing import refill_command, write_summary
from clawgauge.errors import DiskFailure, MachineError, RequestError, RunFolderError
from clawgauge.host import collect_inventory
from clawgauge.journal import CellKey, RunFolder, check_run_id, locate_run, read_config, read_events
from clawgauge.providers.registry import create_provider
from clawgauge.records import Event, ProviderProbe, RunConfig, RunSummary, Target
from clawgauge.reports.sanitize import clean_terminal
from clawgauge.runner import Observer, RunRequest, SystemClock, plan_cells, run


@dataclass(slots=True)
class Session:
    """A run folder that is held, and what is still to be asked."""

    plan: Plan
    folder: RunFolder
    done: set[CellKey]
    stretch: int


def run_session(arguments: argparse.Namespace) -> int:
    """`run`: plan, ask, summarise."""
    if arguments.resume is None and (arguments.retry_errors or arguments.force):
        raise RequestError("--retry-errors and --force go on with a run: name it with --resume RUN")
    if arguments.resume is not None and arguments.run_id is not None:
        raise RequestError("--resume and --run-id exclude each other: a resumed run keeps its id")
    return run_async(_session(arguments))


async def _session(arguments: argparse.Namespace) -> int:
    tell = _teller(arguments.quiet)
    plan = make_plan(arguments, tell)
    if plan.config_path is not None and arguments.config is None:
        tell(f"using {plan.config_path.name}")
    if arguments.resume is None or arguments.target:
        plan = await choose_targets(plan, tell)
    path: Path | None = None
    if arguments.resume is not None:
        path = locate_run(arguments.resume, plan.runs_dir)
        recorded = _recorded_config(path)
        plan = resumed_plan(plan, recorded, arguments)
    if arguments.dry_run:
        return _show_plan(arguments, plan, path)
    for line in ignored_options(plan):
        tell(line)
    if path is not None:
        session = _resume(arguments, plan, recorded, path, tell)
    else:
        if not plan.patterns:
            tell("\n".join(plan_lines(plan)))
        session = _begin(plan, arguments.run_id)
    try:
        return await _run_and_summarise(arguments, session, tell)
    finally:
        session.folder.close()


def _show_plan(arguments: argparse.Namespace, plan: Plan, path: Path | None) -> int:
    if arguments.run_id is not None:
        check_run_id(arguments.run_id)
    done = open_cells(plan, path, retry_errors=arguments.retry_errors)[0] if path is not None else set()
    sys.stderr.write("\n".join(plan_lines(plan, done)) + "\n")
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(plan_facts(plan, done)).decode() + "\n")
    return 0


def _begin(plan: Plan, run_id: str | None) -> Session:
    folder = RunFolder.create(plan.runs_dir, run_id)
    try:
        folder.write_json("config.json", make_config(plan, folder.run_id))
    except BaseException as fault:
        # A folder without its plan can be neither read nor resumed, and would only take the run id.
        folder.close()
        shutil.rmtree(folder.path, ignore_errors=True)
        if not isinstance(fault, DiskFailure):
            raise
        why = getattr(fault.__cause__, "strerror", None) or fault.__cause__
        raise DiskFailure(
            f"Cannot begin a run in {plan.runs_dir} ({why}); nothing was asked: make room on the disk, and run again."
        ) from fault
    return Session(plan, folder, set(), 0)


def _resume(
    arguments: argparse.Namespace, plan: Plan, recorded: RunConfig, path: Path, tell: Callable[[str], None]
) -> Session:
    folder = RunFolder.open_existing(path)
    try:
        for warning in folder.warnings:
            tell(warning)
        stretch = sum(1 for event in read_events(path) if event.event == "stretch_started")
        done, refill = open_cells(plan, path, retry_errors=arguments.retry_errors)
        if refill:
            tell(f"asking {len(refill)} failed cells again; their old lines are in superseded.jsonl")
            folder.supersede(refill)
        if arguments.force:
            _give_up(plan, recorded, folder, tell)
        elif plan.options.repeats != recorded.options.repeats:
            folder.write_json("config.json", make_config(plan, folder.run_id, recorded.created_at_ms))
        if not any(plan_cells(target, plan.asked, plan.options.repeats, done) for target in plan.targets):
            tell("nothing is left to ask")
    except BaseException:
        folder.close()
        raise
    return Session(plan, folder, done, stretch)


def _give_up(plan: Plan, recorded: RunConfig, folder: RunFolder, tell: Callable[[str], None]) -> None:
    given_up = forced_changes(plan, recorded)
    if not given_up:
        return
    tell(f"--force: records before and after are not comparable where {'; '.join(given_up)}")
    now_ms = SystemClock().wall_ms()
    folder.event(Event(event="forced_resume", at_ms=now_ms, detail={"differences": given_up}))
    folder.write_json("config.json", make_config(plan, folder.run_id, recorded.created_at_ms))


def _recorded_config(path: Path) -> RunConfig:
    config = read_config(path)
    if config is None:
        raise RunFolderError(
            f"{path} has no config.json of clawgauge's: a run that ended before it began, or one of another harness; "
            "it can be summarised, but not resumed"
        )
    return config


async def _run_and_summarise(arguments: argparse.Namespace, session: Session, tell: Callable[[str], None]) -> int:
    plan, folder = session.plan, session.folder
    request = RunRequest(
        run_id=folder.run_id,
        targets=plan.targets,
        prompts=plan.asked,
        options=plan.options,
        provider_for=plan.provider_for,
        redact=plan.redact,
        environ=plan.environ,
        done=session.done,
        stretch=session.stretch,
        seed=plan.options.seed,
    )
    with make_observer(plan.targets, len(plan.asked) * plan.options.repeats, quiet=arguments.quiet) as observer:
        await interruptible(_measure(plan, request, folder, observer))
    summary = write_summary(folder)
    refill = refill_command(folder.path, _recorded_config(folder.path))
    print_ending(summary, folder.path, refill, interrupted=interruption.happened, quiet=arguments.quiet)
    _print_result(arguments, summary, folder.path)
    # Asked last: a signal while the summary was written counts too.
    return _exit_code(summary, plan.fail_under, interrupted=interruption.happened)


async def _measure(plan: Plan, request: RunRequest, folder: RunFolder, observer: Observer) -> None:
    if not folder.has("inventory.json"):
        await _take_inventory(plan, folder)
    try:
        await run(request, folder, observer)
    except BaseExceptionGroup as group:
        failure = _machine_failure(group)
        if failure is None:
            raise
        raise failure from group


def _machine_failure(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """What ended the run, where it was this machine: calls at once all fail with a full disk, and one sentence does."""
    found: BaseException | None = group.subgroup(MachineError)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


async def _take_inventory(plan: Plan, folder: RunFolder) -> None:
    names = dict.fromkeys(target.provider for target in plan.targets)
    probes = [await _probe(plan, name) for name in names]
    inventory = await asyncio.to_thread(collect_inventory, probes, environ=plan.environ)
    folder.write_json("inventory.json", inventory)


async def _probe(plan: Plan, name: str) -> ProviderProbe:
    async with create_provider(plan.settings[name]) as provider:
        probe = await provider.probe()
    return msgspec.structs.replace(probe, detail=plan.redact(probe.detail))


def _print_result(arguments: argparse.Namespace, summary: RunSummary, path: Path) -> None:
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode() + "\n")
    else:
        sys.stdout.write(f"{path}\n")


def _exit_code(summary: RunSummary, fail_under: float | None, *, interrupted: bool) -> int:
    if interrupted:
        return 130
    if not any(group.n_ok for group in summary.models):
        return 3
    if summary.n_unreadable_lines:
        return 5
    return 1 if fail_under is not None and not _passes_gate(summary, fail_under) else 0


def _passes_gate(summary: RunSummary, fail_under: float) -> bool:
    """Whether every target passed often enough; one without a single verdict to give has nothing to fail."""
    failed = [
        f"{Target(group.provider, group.model, group.thinking_level).label} passed "
        f"{group.pass_rate_scheduled:.1%} of its scheduled prompts, wanted {fail_under:.1%}"
        for group in summary.models
        if group.pass_rate_scheduled is not None and group.pass_rate_scheduled < fail_under
    ]
    for line in failed:
        sys.stderr.write(f"gate failed: {clean_terminal(line)}\n")
    return not failed


def _teller(quiet: bool) -> Callable[[str], None]:
    def tell(line: str) -> None:
        if not quiet:
            sys.stderr.write(f"{line}\n")

    return tell
