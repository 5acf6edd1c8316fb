"""One `clawgauge run` from plan to exit code, and what a person sees meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from clawgauge import __version__
from clawgauge.cli import process
from clawgauge.cli.estimate import plan_lines
from clawgauge.cli.files import refill_command, write_summary
from clawgauge.cli.process import cancellable, interruption
from clawgauge.cli.resume import Resumed, find_changes, open_work
from clawgauge.config.providers import Tell
from clawgauge.config.settings import OPTIONS
from clawgauge.console.plain import PlainLines
from clawgauge.errors import DiskFailure, MachineError, RunFolderError
from clawgauge.host.inventory import collect_inventory, package_versions
from clawgauge.journal import encode_document, encode_line, withhold
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.records import SCHEMA_VERSION, Event, RunConfig, RunOptions
from clawgauge.reports.clean import clean_cell, one_row
from clawgauge.reports.summary import describe_ending
from clawgauge.reports.terminal import as_text, paint
from clawgauge.reports.words import word_failure
from clawgauge.runner.agenda import cost_budget, make_agenda
from clawgauge.runner.run import run
from clawgauge.runner.target import Observer
from clawgauge.secrets import SecretMask, mask_shapes, mask_strings
from clawgauge.suites import prompts_sha256

_VERSIONED = ("bashkit", "google-re2", "httptools", "msgspec", "psutil", "uvloop", "xllamacpp")


async def run_session(
    plan: Plan, resumed: Resumed | None, run_id: str | None, tell: Tell, *, quiet: bool, verbose: bool, as_json: bool
) -> int:
    """`run`: take the folder, ask, summarise, say how it went."""
    # What the user asks, and of whom, is recorded as it is, though a few letters of it may also be those of a key.
    # None of it holds a whole key: that has been refused.
    withhold(plan.secrets, encode_line((plan.prompts, plan.targets)).decode())
    if resumed is None and not plan.settings.targets:
        tell("\n".join(plan_lines(plan)))
    with _begin(plan, run_id) if resumed is None else RunFolder.open_existing(resumed.path) as folder:
        if resumed is not None:
            plan = _go_on(plan, resumed, folder, tell)
        try:
            # A live table on a terminal, plain lines elsewhere.
            shown = Observer() if quiet else PlainLines(sys.stderr)
            if not quiet and sys.stderr.isatty():
                from clawgauge.console.live import LiveTable

                table = LiveTable(plan.targets, len(plan.asked) * plan.settings.repeats)
                shown = table if table.can_redraw else shown
            with shown as observer:
                try:
                    await cancellable(_measure(plan, folder, observer))
                except asyncio.CancelledError:
                    if not interruption.happened:
                        raise
            return _conclude(plan, folder, quiet=quiet, verbose=verbose, as_json=as_json)
        except RunFolderError as fault:
            # The request was right, and calls were made: what cannot be read any more is the machine's doing.
            raise MachineError(str(fault)) from fault


def _begin(plan: Plan, run_id: str | None) -> RunFolder:
    folder = RunFolder.create(Path(plan.settings.runs_dir), run_id)
    try:
        folder.write("config.json", make_config(plan, folder.run_id))
    except BaseException as fault:
        # A folder without its plan can be neither read nor resumed, and would only take the run id.
        folder.close()
        shutil.rmtree(folder.path, ignore_errors=True)
        if not isinstance(fault, DiskFailure):
            raise
        place = f"{plan.settings.runs_dir} ({getattr(fault.__cause__, 'strerror', None) or fault.__cause__})"
        words = f"Cannot begin a run in {place}; nothing was asked: make room on the disk, and run again."
        raise DiskFailure(words) from fault
    return folder


def _go_on(plan: Plan, resumed: Resumed, folder: RunFolder, tell: Tell) -> Plan:
    """The plan with what is open in the folder, which is made ready for it."""
    for warning in folder.warnings:
        tell(warning)
    plan = replace(plan, work=open_work(plan, resumed))
    if plan.work.refill:
        tell(f"asking {len(plan.work.refill)} failed cells again; their old lines are in superseded.jsonl")
        folder.supersede(set(plan.work.refill))
    before = resumed.recorded
    given_up = find_changes(plan, before, plan.targets) if resumed.force else []
    if given_up:
        tell(f"--force: records before and after are not comparable where {'; '.join(given_up)}")
        now_ms = time.time_ns() // 1_000_000
        folder.event(Event(event="forced_resume", at_ms=now_ms, detail={"differences": given_up}))
    # Whether the command line asks for more or fewer cells than the run was begun with.
    extent = [name for name in RunOptions.__struct_fields__ if OPTIONS[name].resume in ("extent", "more")]
    if given_up or any(getattr(plan.settings, name) != getattr(before.options, name) for name in extent):
        folder.write("config.json", make_config(plan, folder.run_id, before.created_at_ms))
    agendas = [make_agenda(plan, target, cost_budget(plan)) for target in plan.targets]
    if not any(agenda.n_open for agenda in agendas):
        outcomes = [outcome for agenda in agendas for outcome in agenda.outcomes()]
        spent = next((outcome.detail["budget"] for outcome in outcomes if outcome.event == "budget_spent"), None)
        option = str(spent).replace("_", "-")
        tell("nothing is left to ask" if spent is None else f"--{option} is spent: give a larger number to go on")
    return plan


async def _measure(plan: Plan, folder: RunFolder, observer: Observer) -> None:
    if not folder.has("inventory.json"):
        probes = []
        for name in dict.fromkeys(target.provider for target in plan.targets):
            async with plan.provider(name) as provider:
                probe = await provider.probe()
            probes.append(msgspec.structs.replace(probe, detail=plan.redact(probe.detail)))
        folder.write("inventory.json", await asyncio.to_thread(collect_inventory, probes, environ=plan.environ))
    await run(plan, folder, observer)


def _conclude(plan: Plan, folder: RunFolder, *, quiet: bool, verbose: bool, as_json: bool) -> int:
    """The summary, the tiers, what was not answered, the command that refills it, and the exit code."""
    summary = write_summary(folder, plan.config_file)
    if not quiet:
        refill = refill_command(folder.path, plan.config_file)
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
        interrupted = interruption.happened
        sections = describe_ending(summary, folder.path, refill, interrupted=interrupted, verbose=verbose)
        sys.stderr.write(f"\n{paint(as_text(sections, width), sys.stderr, plan.environ)}\n")
        sys.stderr.flush()
    else:
        # Without progress, not without failures.
        failures = [(group.target.label, failure) for group in summary.models for failure in group.failures]
        sys.stderr.write("".join(one_row(f"{label}: {word_failure(failure)}") for label, failure in failures))
    if folder.n_events_lost:
        sys.stderr.write(f"{folder.n_events_lost} events could not be written: figures of machine and clock may lack\n")
    sys.stdout.write(encode_document(summary).decode() if as_json else f"{folder.path}\n")
    # Asked last: a signal while the summary was written counts too.
    if interruption.happened:
        return process.INTERRUPTED
    if not any(group.n_ok for group in summary.models):
        return process.NOTHING_ANSWERED
    if summary.n_unreadable_lines:
        return process.UNREADABLE_LINES
    # Every target has to pass often enough; one without a single verdict to give has nothing to fail.
    wanted = plan.settings.fail_under or 0.0
    rates = {group.target.label: group.pass_rate_scheduled for group in summary.models}
    failed = {label: rate for label, rate in rates.items() if rate is not None and rate < wanted}
    for label, rate in failed.items():
        line = f"{label} passed {rate:.1%} of its scheduled prompts, wanted {wanted:.1%}"
        sys.stderr.write(f"gate failed: {clean_cell(line)}\n")
    return process.GATE_FAILED if failed else process.DONE


def make_config(plan: Plan, run_id: str, created_at_ms: int | None = None) -> RunConfig:
    """All that decides the run, and no secret."""
    providers = {target: plan.provider(target.provider) for target in plan.targets}
    mask, settings = SecretMask(plan.secrets).mask, plan.settings
    # What each target is really sent, where a prompt does not say otherwise.
    sampling: dict[str, dict[str, Any]] = {}
    for target, provider in providers.items():
        temperature = settings.temperature if settings.temperature is not None else 0.0 if provider.local else None
        sampling[target.label] = {
            "temperature": temperature if "temperature" in provider.takes else None,
            "max_tokens": settings.max_tokens or provider.default_max_tokens,
            "seed": settings.seed if "seed" in provider.takes else None,
        }
    return RunConfig(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        created_at_ms=created_at_ms or time.time_ns() // 1_000_000,
        clawgauge_version=__version__,
        models=list(dict.fromkeys(target.model for target in plan.targets)),
        targets=plan.targets,
        options=RunOptions(**{name: getattr(settings, name) for name in RunOptions.__struct_fields__}),
        suites=plan.suites,
        prompts=plan.prompts,
        prompts_sha256=prompts_sha256(plan.prompts),
        providers={target.provider: mask_strings(one.describe(), mask) for target, one in providers.items()},
        sampling=sampling,
        prices={target.label: price for target, price in plan.prices.items()},
        versions={"clawgauge": __version__, "python": sys.version.split()[0], **package_versions(_VERSIONED)},
        argv=[mask_shapes(mask(word)) for word in sys.argv[1:]],
        jobs=dict(plan.jobs),
    )
