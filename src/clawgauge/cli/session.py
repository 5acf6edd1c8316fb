"""One `clawgauge run` from plan to exit code, and what a person sees meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from clawgauge import __version__
from clawgauge.cli import process
from clawgauge.cli.estimate import expected_calls, plan_lines
from clawgauge.cli.files import render, tell_unreadable, write_summary
from clawgauge.cli.preflight import look_ahead, refuse_wrong_names
from clawgauge.cli.process import cancellable, interruption
from clawgauge.cli.resume import Resumed, find_changes, open_work
from clawgauge.config.providers import Tell
from clawgauge.config.settings import OPTIONS
from clawgauge.console.plain import PlainLines, Progress, Tally
from clawgauge.errors import DiskFailure, MachineError, RunFolderError, TargetError
from clawgauge.figures import passed_of_asked, passed_of_needed
from clawgauge.host.inventory import collect_inventory, package_versions
from clawgauge.journal import encode_document, encode_line, iter_results, withhold
from clawgauge.journal.disk import way_out
from clawgauge.journal.folder import RunFolder, missing_folders
from clawgauge.plan import Plan
from clawgauge.providers.base import Provider, Sampling, make_call
from clawgauge.records import SCHEMA_VERSION, Event, Prompt, ProviderProbe, RunConfig, RunOptions, Target
from clawgauge.reports.clean import clean_cell, one_row
from clawgauge.reports.summary import describe_ending
from clawgauge.reports.words import word_failure, word_given_up
from clawgauge.run_data import Row, Run
from clawgauge.run_data.resume import resume_command
from clawgauge.runner.agenda import cost_budget, make_agenda
from clawgauge.runner.run import Work, run
from clawgauge.secrets import SecretMask, mask_shapes, mask_strings
from clawgauge.suites import prompts_sha256
from clawgauge.words import plural, word_unasked

_VERSIONED = ("bashkit", "google-re2", "httptools", "msgspec", "psutil", "uvloop", "xllamacpp")


async def run_session(
    plan: Plan, resumed: Resumed | None, run_id: str | None, tell: Tell, *, work: Work | None = None, **shown: bool
) -> int:
    """`run`: take the folder, ask, or do the `work` instead, summarise, say how it went as far as that is `shown`."""
    # What the user asks, and of whom, is recorded as it is, though a few letters of it may also be those of a key.
    # None of it holds a whole key: that has been refused.
    if plan.secrets:
        withhold(plan.secrets, encode_line((plan.prompts, plan.targets)).decode())
    if resumed is None and not plan.settings.targets and work is None:
        tell("\n".join(plan_lines(plan)))
    probes = {} if resumed else await look_ahead(plan, plan.targets, tell)
    # What a run that comes to nothing takes away again; what was there before stays.
    missing = missing_folders(Path(plan.settings.runs_dir))
    with _begin(plan, run_id, missing) if resumed is None else RunFolder.open_existing(resumed.path) as folder:
        if resumed is not None and work is None:
            plan, probes = await _go_on(plan, resumed, folder, tell)
        interruption.advice = f", calls in flight are lost; {_word_go_on(plan, folder, 'them')}"
        try:
            tally = _watch(plan, folder.path, quiet=shown["quiet"] or work is not None)
            try:
                with tally:
                    await _ask(plan, folder, tally, probes, work)
            finally:
                if tally.n_given_up:
                    what_next = _word_go_on(plan, folder, "it" if tally.n_given_up == 1 else "them")
                    process.tell(word_given_up(tally.n_given_up, what_next))
            if resumed is None and work is None and not tally.n_answered:
                try:
                    refuse_wrong_names(plan, plan.targets, tally.ended, probes)
                except TargetError:
                    # A slip of the hand is no evidence: it would only take the run id.
                    _remove(folder, missing)
                    raise
            return _conclude(plan, folder, **shown)
        except RunFolderError as fault:
            # The request was right, and calls were made: what cannot be read any more is the machine's doing.
            raise MachineError(str(fault)) from fault


def _word_go_on(plan: Plan, folder: RunFolder, calls: str) -> str:
    """How to make up for calls that were lost when a run was ended."""
    resume = resume_command(folder.path, plan.config_file)
    if plan.capacity is None:
        return f"{resume} asks {calls} again"
    if plan.capacity.swap:
        return "a run that changes between models cannot be resumed"
    return f"{resume} measures the broken step anew"


async def _ask(
    plan: Plan, folder: RunFolder, tally: Tally, probes: Mapping[str, ProviderProbe], work: Work | None
) -> None:
    """All that is to be asked; an interruption ends it early, and what was recorded stands."""
    try:
        if not folder.has("inventory.json"):
            found = [msgspec.structs.replace(probe, detail=plan.redact(probe.detail)) for probe in probes.values()]
            looking = asyncio.to_thread(collect_inventory, found, environ=plan.environ)
            folder.write("inventory.json", await cancellable(looking))
        asking = plan.drive(plan, folder, tally) if plan.drive else run(plan, folder, tally, work=work)
        await cancellable(asking)
    except asyncio.CancelledError:
        if not interruption.happened:
            raise


def _watch(plan: Plan, path: Path, *, quiet: bool) -> Tally:
    if quiet:
        return Tally({target: Progress() for target in plan.targets})
    expected = expected_calls(plan).items()
    calls = {t: Progress(one.n, one.seconds / one.n if one.seconds and one.n else None) for t, one in expected}
    context_suites = frozenset(prompt.suite for prompt in plan.prompts if prompt.in_context)
    # The figures are those of the whole run.
    for line in iter_results(path, Row) if plan.work.done else ():
        if line.was_asked and (row := calls.get(line.target)) is not None:
            row.n_before += 1
            if line.suite not in context_suites:
                row.n_judged += line.objective_pass is not None
                row.n_passed += line.objective_pass is True
    shown: Any = {
        "interleaved": plan.settings.interleave or plan.drive is not None,
        "context_suites": context_suites,
        "redact": plan.redact,
    }
    if sys.stderr.isatty():
        from clawgauge.console.live import LiveTable

        table = LiveTable(calls, **shown)
        if table.can_redraw:
            return table
    return PlainLines(calls, **shown)


def _begin(plan: Plan, run_id: str | None, missing: Sequence[Path]) -> RunFolder:
    folder = RunFolder.create(Path(plan.settings.runs_dir), run_id)
    try:
        folder.write("config.json", make_config(plan, folder.run_id))
    except BaseException as fault:
        # A folder without its plan can be neither read nor resumed, and would only take the run id.
        _remove(folder, missing)
        if not isinstance(fault, DiskFailure):
            raise
        place = f"{plan.settings.runs_dir} ({getattr(fault.__cause__, 'strerror', None) or fault.__cause__})"
        words = f"Cannot begin a run in {place}; nothing was asked: {way_out(fault.__cause__)}, and run again."
        raise DiskFailure(words) from fault
    return folder


def _remove(folder: RunFolder, missing: Sequence[Path]) -> None:
    folder.close()
    shutil.rmtree(folder.path, ignore_errors=True)
    for path in missing:
        with suppress(OSError):  # where another run has begun in it
            path.rmdir()


async def _go_on(plan: Plan, resumed: Resumed, folder: RunFolder, tell: Tell) -> tuple[Plan, dict[str, ProviderProbe]]:
    for warning in folder.warnings:
        tell(warning)
    plan = replace(plan, work=open_work(plan, resumed))
    agendas = {target: make_agenda(plan, target, cost_budget(plan)) for target in plan.targets}
    probes = await look_ahead(plan, [target for target, agenda in agendas.items() if agenda.n_open], tell)
    if plan.work.refill:
        again = plural(len(plan.work.refill), "prompt that had no answer", "prompts that had no answer")
        tell(f"asking {again} again; their old lines are in superseded.jsonl")
        folder.supersede(set(plan.work.refill))
    before = resumed.recorded
    given_up = find_changes(plan, before, plan.targets) if resumed.force else []
    if given_up:
        tell(f"--force: records before and after are not comparable where {'; '.join(given_up)}")
        detail = {"differences": given_up}
        folder.event(Event(event="forced_resume", at_ms=time.time_ns() // 1_000_000, detail=detail))
    extent = [name for name in RunOptions.__struct_fields__ if OPTIONS[name].resume in ("extent", "more")]
    if given_up or any(getattr(plan.settings, name) != getattr(before.options, name) for name in extent):
        folder.write("config.json", make_config(plan, folder.run_id, before.created_at_ms))
    if not any(agenda.n_open for agenda in agendas.values()):
        outcomes = [outcome for agenda in agendas.values() for outcome in agenda.outcomes()]
        spent = next((outcome.detail["budget"] for outcome in outcomes if outcome.event == "budget_spent"), None)
        option = str(spent).replace("_", "-")
        tell("nothing is left to ask" if spent is None else f"--{option} is spent: give a larger number to go on")
    return plan, probes


def _conclude(plan: Plan, folder: RunFolder, *, quiet: bool, verbose: bool, as_json: bool) -> int:
    summary = write_summary(folder, plan.config_file)
    if not quiet:
        interrupted = interruption.happened
        # After Ctrl-C the run goes on first, as said where calls were given up; errors come after.
        goes_on = interrupted and any(group.attempted < group.n_scheduled for group in summary.models)
        resume = resume_command(folder.path, plan.config_file, retry_errors=not goes_on)
        config = Run.open(folder.path).config
        sections = describe_ending(summary, config, folder.path, resume, interrupted=interrupted, verbose=verbose)
        sys.stderr.write(f"\n{render(sections, stream=sys.stderr)}\n")
        sys.stderr.flush()
    else:
        failures = [(group.target.label, failure) for group in summary.models for failure in group.failures]
        sys.stderr.write("".join(one_row(f"{label}: {word_failure(failure)}") for label, failure in failures))
        tell_unreadable(summary.n_unreadable_lines)
    if folder.n_events_lost:
        lost = f"{plural(folder.n_events_lost, 'event')} could not be written"
        sys.stderr.write(f"{lost}: figures of machine and clock may be missing\n")
    sys.stdout.write(encode_document(summary).decode() if as_json else f"{folder.path}\n")
    # Asked last: a signal while the summary was written counts too.
    if interruption.happened:
        return process.INTERRUPTED
    if not any(group.n_ok for group in summary.models):
        return process.NOTHING_ANSWERED
    if summary.n_unreadable_lines:
        return process.UNREADABLE_LINES
    # Every target has to pass often enough of what it was asked; one without a single verdict to give cannot fail.
    wanted, failed = plan.settings.fail_under or 0.0, False
    for group in summary.models if wanted else ():
        n_asked = passed_of_asked(group).n
        needed = passed_of_needed(group)
        n_held_to = needed.n
        rate = needed.value or 0.0
        is_met = rate >= wanted
        unasked = word_unasked(group.attempted, group.n_scheduled)
        # Who passes by a part of what was planned has not shown the rest: that is said, too.
        if group.n_scheduled_judged and (not is_met or unasked):
            failed = failed or not is_met
            prompts = "the prompts it was asked"
            if n_held_to > n_asked:
                prompts = f"{n_held_to} prompts, {n_held_to - n_asked} of them not asked"
            line = f"{group.target.label} passed {rate:.1%} of {prompts}, wanted {wanted:.1%}"
            if unasked:
                line += f" ({unasked})"
            sys.stderr.write(f"gate {'passed' if is_met else 'failed'}: {clean_cell(line)}\n")
    return process.GATE_FAILED if failed else process.DONE


def make_config(plan: Plan, run_id: str, created_at_ms: int | None = None) -> RunConfig:
    """All that decides the run, and no secret."""
    providers = {target: plan.provider(target.provider) for target in plan.targets}
    described = {target.provider: one.describe() for target, one in providers.items()}
    words, settings = sys.argv[1:], plan.settings
    if plan.secrets:
        mask = SecretMask(plan.secrets).mask
        described = {name: mask_strings(one, mask) for name, one in described.items()}
        words = [mask(word) for word in words]
    sampling = {target: _target_sampling(plan, target, provider) for target, provider in providers.items()}
    prompt_sampling = {}
    for target, provider in providers.items():
        if other := _prompt_sampling(plan, target, provider, sampling[target]):
            prompt_sampling[target.label] = other
    return RunConfig(
        schema_version=SCHEMA_VERSION, run_id=run_id, clawgauge_version=__version__,
        created_at_ms=created_at_ms or time.time_ns() // 1_000_000,
        models=list(dict.fromkeys(target.model for target in plan.targets)), targets=plan.targets,
        options=RunOptions(**{name: getattr(settings, name) for name in RunOptions.__struct_fields__}),
        suites=plan.suites, prompts=plan.prompts, prompts_sha256=prompts_sha256(plan.prompts),
        providers=described, sampling={target.label: sent._asdict() for target, sent in sampling.items()},
        prompt_sampling=prompt_sampling,
        prices={target.label: price for target, price in plan.prices.items()},
        versions={"clawgauge": __version__, "python": sys.version.split()[0], **package_versions(_VERSIONED)},
        argv=[mask_shapes(word) for word in words],
        jobs=dict(plan.jobs), capacity=plan.capacity, context=plan.context,
    )  # fmt: skip


def _target_sampling(plan: Plan, target: Target, provider: Provider) -> Sampling:
    """What a target is sent for a prompt that asks for nothing of its own; in a capacity run, for all of them."""
    plain = Prompt(id="", name="", prompt="", validator={"type": "noop"})
    max_tokens = None if plan.capacity is None else plan.capacity.output_tokens
    return provider.sampling(make_call(provider, target, plan.settings, plain, max_tokens))


def _prompt_sampling(plan: Plan, target: Target, provider: Provider, usual: Sampling) -> dict[str, dict[str, Any]]:
    """By `SUITE/ID`, the prompts whose first call is sent otherwise than the target's usual one."""
    differing = {}
    for prompt in plan.prompts:
        sent = provider.sampling(make_call(provider, target, plan.settings, prompt))
        if sent != usual:
            differing[f"{prompt.suite}/{prompt.id}"] = sent._asdict()
    return differing
