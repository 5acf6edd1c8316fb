"""One `clawgauge run` from plan to exit code, and what a person sees meanwhile."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from clawgauge.cli.estimate import plan_lines
from clawgauge.cli.files import refill_command, write_summary
from clawgauge.cli.loop import interruptible, run_async
from clawgauge.cli.planning import (
    OpenWork,
    Plan,
    Pricing,
    choose_targets,
    fit_concurrency,
    ignored_options,
    make_config,
    make_plan,
    names_targets,
    spare_own_words,
)
from clawgauge.cli.process import DONE, GATE_FAILED, INTERRUPTED, NOTHING_ANSWERED, UNREADABLE_LINES, interruption
from clawgauge.cli.resume import changes_extent, forced_changes, open_work, recorded_config, settle_plan
from clawgauge.console.plain import PlainLines
from clawgauge.errors import DiskFailure, MachineError, RunFolderError
from clawgauge.host import collect_inventory
from clawgauge.journal import encode_document, read_events
from clawgauge.journal.folder import RunFolder
from clawgauge.providers.registry import create_provider
from clawgauge.records import Event, ProviderProbe, RunConfig, RunSummary, Target
from clawgauge.reports.clean import clean_cell
from clawgauge.reports.summary import describe_ending
from clawgauge.reports.terminal import as_text
from clawgauge.runner.agenda import Agenda
from clawgauge.runner.clock import SystemClock
from clawgauge.runner.run import RunRequest, run
from clawgauge.runner.target import Observer


def make_observer(targets: list[Target], cells_per_target: int, *, quiet: bool) -> AbstractContextManager[Observer]:
    """A live table on a terminal, plain lines elsewhere, nothing if asked to be quiet."""
    if quiet:
        return nullcontext(Observer())
    if sys.stderr.isatty():
        from clawgauge.console.live import LiveTable, can_redraw

        if can_redraw():
            return LiveTable(targets, cells_per_target)
    return PlainLines(sys.stderr)


def print_ending(summary: RunSummary, path: Path, refill: str, *, interrupted: bool, quiet: bool) -> None:
    """The summary, the tiers, what was not answered, and the command that refills it."""
    if not quiet:
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
        sections = describe_ending(summary, path, refill, interrupted=interrupted)
        sys.stderr.write(f"\n{as_text(sections, width)}\n")
        sys.stderr.flush()


@dataclass(slots=True)
class Session:
    """A run folder that is held, and what is still to be asked."""

    plan: Plan
    folder: RunFolder
    work: OpenWork
    stretch: int


def run_session(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    """`run`: plan, ask, summarise."""
    return run_async(_session(arguments, tell))


async def _session(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    plan = make_plan(arguments, tell)
    if names_targets(arguments):
        plan = await choose_targets(plan, tell)
    settled = settle_plan(plan, arguments)
    spare_own_words(plan.secrets, settled.plan.prompts, settled.plan.targets)
    for line in ignored_options(settled.plan):
        tell(line)
    pricing = Pricing(settled.plan)
    if settled.path is not None and settled.recorded is not None:
        session = _resume(arguments, settled.plan, pricing, settled.recorded, settled.path, tell)
    else:
        plan = fit_concurrency(plan, tell)
        if not plan.patterns:
            tell("\n".join(plan_lines(plan, OpenWork())))
        session = _begin(plan, pricing, arguments.run_id)
    try:
        return await _run_and_summarise(arguments, session, pricing)
    except RunFolderError as fault:
        # The request was right, and calls were made: what cannot be read any more is the machine's doing.
        raise MachineError(str(fault)) from fault
    finally:
        session.folder.close()


def _begin(plan: Plan, pricing: Pricing, run_id: str | None) -> Session:
    folder = RunFolder.create(plan.runs_dir, run_id)
    try:
        folder.write_json("config.json", make_config(plan, pricing, folder.run_id))
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
    return Session(plan, folder, OpenWork(), 0)


def _resume(
    arguments: argparse.Namespace,
    plan: Plan,
    pricing: Pricing,
    recorded: RunConfig,
    path: Path,
    tell: Callable[[str], None],
) -> Session:
    folder = RunFolder.open_existing(path)
    try:
        for warning in folder.warnings:
            tell(warning)
        stretch = sum(1 for event in read_events(path) if event.event == "stretch_started")
        work = open_work(plan, path, retry_errors=arguments.retry_errors)
        if work.refill:
            tell(f"asking {len(work.refill)} failed cells again; their old lines are in superseded.jsonl")
            folder.supersede(set(work.refill))
        given_up = _give_up(plan, recorded, folder, tell) if arguments.force else False
        if given_up or changes_extent(plan, recorded):
            folder.write_json("config.json", make_config(plan, pricing, folder.run_id, recorded.created_at_ms))
        _tell_idle([plan.agenda(target, work) for target in plan.targets], tell)
        plan = fit_concurrency(plan, tell)
    except BaseException:
        folder.close()
        raise
    return Session(plan, folder, work, stretch)


def _tell_idle(agendas: list[Agenda], tell: Callable[[str], None]) -> None:
    """Where nothing will be asked, say why."""
    if any(agenda.n_open for agenda in agendas):
        return
    outcomes = [outcome for agenda in agendas for outcome in agenda.outcomes()]
    spent = next((outcome.detail["budget"] for outcome in outcomes if outcome.event == "budget_spent"), None)
    option = str(spent).replace("_", "-")
    tell("nothing is left to ask" if spent is None else f"--{option} is spent: give a larger number to go on")


def _give_up(plan: Plan, recorded: RunConfig, folder: RunFolder, tell: Callable[[str], None]) -> bool:
    """Whether --force gives up the comparison of records before and after."""
    given_up = forced_changes(plan, recorded)
    if not given_up:
        return False
    tell(f"--force: records before and after are not comparable where {'; '.join(given_up)}")
    now_ms = SystemClock().wall_ms()
    folder.event(Event(event="forced_resume", at_ms=now_ms, detail={"differences": given_up}))
    return True


async def _run_and_summarise(arguments: argparse.Namespace, session: Session, pricing: Pricing) -> int:
    plan, folder = session.plan, session.folder
    request = RunRequest(
        run_id=folder.run_id,
        targets=plan.targets,
        prompts=plan.asked,
        options=plan.options,
        provider_for=plan.provider_for,
        redact=plan.redact,
        environ=plan.environ,
        done=session.work.done,
        stretch=session.stretch,
        seed=plan.options.seed,
        tier_pool=plan.tier_pool,
        evidence=session.work.evidence,
        price_for=pricing.find,
        cost_budget=pricing.budget(session.work),
    )
    with make_observer(plan.targets, len(plan.asked) * plan.options.repeats, quiet=arguments.quiet) as observer:
        await interruptible(_measure(plan, request, folder, observer))
    summary = write_summary(folder)
    refill = refill_command(folder.path, recorded_config(folder.path))
    print_ending(summary, folder.path, refill, interrupted=interruption.happened, quiet=arguments.quiet)
    if folder.n_events_lost:
        sys.stderr.write(f"{folder.n_events_lost} events could not be written: figures of machine and clock may lack\n")
    _print_result(arguments, summary, folder.path)
    # Asked last: a signal while the summary was written counts too.
    return _exit_code(summary, plan.fail_under, interrupted=interruption.happened)


async def _measure(plan: Plan, request: RunRequest, folder: RunFolder, observer: Observer) -> None:
    if not folder.has("inventory.json"):
        await _take_inventory(plan, folder)
    await run(request, folder, observer)


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
        sys.stdout.write(encode_document(summary).decode())
    else:
        sys.stdout.write(f"{path}\n")


def _exit_code(summary: RunSummary, fail_under: float | None, *, interrupted: bool) -> int:
    if interrupted:
        return INTERRUPTED
    if not any(group.n_ok for group in summary.models):
        return NOTHING_ANSWERED
    if summary.n_unreadable_lines:
        return UNREADABLE_LINES
    gate_failed = fail_under is not None and not _passes_gate(summary, fail_under)
    return GATE_FAILED if gate_failed else DONE


def _passes_gate(summary: RunSummary, fail_under: float) -> bool:
    """Whether every target passed often enough; one without a single verdict to give has nothing to fail."""
    failed = [
        f"{Target(group.provider, group.model, group.thinking_level).label} passed "
        f"{group.pass_rate_scheduled:.1%} of its scheduled prompts, wanted {fail_under:.1%}"
        for group in summary.models
        if group.pass_rate_scheduled is not None and group.pass_rate_scheduled < fail_under
    ]
    for line in failed:
        sys.stderr.write(f"gate failed: {clean_cell(line)}\n")
    return not failed
