"""One stretch of a run, from its plan to the exit code, and what a person sees meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from clawgauge import __version__
from clawgauge.cli import process
from clawgauge.cli.beside import ReferenceRun, describe_beside
from clawgauge.cli.decidability import undecidable_lines
from clawgauge.cli.estimate import first_line, plan_lines
from clawgauge.cli.expected_calls import ExpectedCalls, expected_calls
from clawgauge.cli.files import render, tell_unreadable, write_summary
from clawgauge.cli.planner import DecidedRun
from clawgauge.cli.preflight import look_ahead, refuse_wrong_names
from clawgauge.cli.process import cancellable, interruption
from clawgauge.cli.resume import ResumedRun, find_changes
from clawgauge.config.providers import Tell
from clawgauge.config.settings import OPTIONS
from clawgauge.console.plain import PlainLines, Progress, Tally, count_calls
from clawgauge.errors import DiskFailure, MachineError, RunFolderError, TargetError
from clawgauge.figures import passed_of_asked, passed_of_needed
from clawgauge.host.inventory import collect_inventory, package_versions
from clawgauge.journal import encode_document, encode_line, iter_results, withhold
from clawgauge.journal.disk import INVENTORY, way_out
from clawgauge.journal.folder import RunFolder, missing_folders
from clawgauge.plan import Plan, PlanDraft, runs_alone
from clawgauge.providers.base import Call, Provider, Sampling, make_call, make_plain_call
from clawgauge.records import (
    RULE,
    SCHEMA_VERSION,
    Event,
    GroupSummary,
    ProviderProbe,
    RunConfig,
    RunOptions,
    RunSummary,
    SentSettings,
    Target,
    plan_targets,
)
from clawgauge.reports.clean import clean_cell, one_row
from clawgauge.reports.grid import describe_grid
from clawgauge.reports.summary import count_unanswered, describe_ending
from clawgauge.reports.words import word_failure, word_given_up
from clawgauge.run_data import Row, Run
from clawgauge.run_data.resume import resume_command
from clawgauge.runner.agenda import cost_budget
from clawgauge.runner.agendas import make_agenda
from clawgauge.runner.context import Observer
from clawgauge.secrets import SecretMask, mask_shapes, mask_strings, public_settings
from clawgauge.suites import prompts_sha256
from clawgauge.verdict.ranking import Fitness
from clawgauge.verdict.wording import word_state
from clawgauge.words import plural, word_unasked

_VERSIONED = (
    "bashkit",
    "google-re2",
    "httptools",
    "jsonschema-rs",
    "msgspec",
    "psutil",
    "uvloop",
    "xllamacpp",
)

Ask: TypeAlias = Callable[[Plan, RunFolder, Observer], Coroutine[Any, Any, None]]
"""What asks the models, here or on other machines, and records the answers."""
Probes: TypeAlias = Mapping[str, ProviderProbe]


class OutputOptions(NamedTuple):
    """What of a run is shown."""

    quiet: bool
    verbose: bool
    as_json: bool


async def run_session(
    decided: DecidedRun, run_id: str | None, ask: Ask, output: OutputOptions, tell: Tell
) -> int:
    """Take the folder, ask, sum up and report; returns the exit code."""
    draft = decided.draft
    # What the user asks, and of whom, is recorded as it is, though a few letters of it may also be
    # those of a key. None of it holds a whole key: that has been refused.
    if draft.secrets:
        withhold(draft.secrets, encode_line((draft.prompts, draft.targets)).decode())
    if decided.resumed is None:
        return await _run_new(decided, run_id, ask, output, tell)
    with RunFolder.open_existing(decided.resumed.path) as folder:
        if draft.capacity is None:
            for warning in folder.warnings:
                tell(warning)
        plan = draft.complete(decided.open_work())
        probes: Probes = {}
        if plan.capacity is None:
            probes = await _go_on(plan, decided.resumed, folder, tell)
        expected = _foretell(plan, output, tell)
        with _reading_records():
            await _ask_and_report(plan, folder, probes, expected, ask, output)
            return _conclude(plan, folder, output)


async def _run_new(
    decided: DecidedRun, run_id: str | None, ask: Ask, output: OutputOptions, tell: Tell
) -> int:
    plan = decided.draft.complete(decided.open_work())
    if not plan.settings.targets and plan.capacity is None:
        tell("\n".join(plan_lines(plan)))
    expected = _foretell(plan, output, tell)
    probes = await look_ahead(plan, plan.targets, tell)
    # What a run that comes to nothing takes away again; what was there before stays.
    missing = missing_folders(Path(plan.settings.runs_dir))
    with _begin(plan, run_id, missing) as folder, _reading_records():
        tally = await _ask_and_report(plan, folder, probes, expected, ask, output)
        if plan.capacity is None and not tally.n_answered:
            try:
                refuse_wrong_names(plan, plan.targets, tally.ended, probes)
            except TargetError:
                # A slip of the hand is no evidence: it would only take the run id.
                _remove(folder, missing)
                raise
        return _conclude(plan, folder, output, decided.beside)


def _foretell(plan: Plan, output: OutputOptions, tell: Tell) -> Mapping[Target, ExpectedCalls]:
    """Say what the run will take, and what it cannot decide, before anybody is asked."""
    if output.quiet or plan.capacity is not None:
        return {}
    expected = expected_calls(plan)
    if any(calls.n for calls in expected.values()):
        tell(clean_cell(first_line(plan, expected)))
    for line in undecidable_lines(plan):
        tell(clean_cell(line))
    return expected


@contextmanager
def _reading_records() -> Iterator[None]:
    try:
        yield
    except RunFolderError as fault:
        # The request was right, and calls were made: what cannot be read any more is the machine's
        # doing.
        raise MachineError(str(fault)) from fault


async def _ask_and_report(
    plan: Plan,
    folder: RunFolder,
    probes: Probes,
    expected: Mapping[Target, ExpectedCalls],
    ask: Ask,
    output: OutputOptions,
) -> Tally:
    """All that is to be asked, with what a person sees meanwhile."""
    interruption.advice = f", calls in flight are lost; {_word_go_on(plan, folder, 'them')}"
    is_silent = output.quiet or plan.capacity is not None
    tally = _make_silent_tally(plan) if is_silent else _make_display(plan, folder.path, expected)
    try:
        with tally:
            await _ask(plan, folder, tally, probes, ask)
    finally:
        if tally.n_given_up:
            what_next = _word_go_on(plan, folder, "it" if tally.n_given_up == 1 else "them")
            process.tell(word_given_up(tally.n_given_up, what_next))
    return tally


def _word_go_on(plan: Plan, folder: RunFolder, calls: str) -> str:
    """How to make up for calls that were lost when a run was ended; `calls` is "it" or "them"."""
    resume = resume_command(folder.path, plan.config_file)
    if plan.capacity is None:
        return f"{resume} asks {calls} again"
    if plan.capacity.swap:
        return "a run that changes between models cannot be resumed"
    return f"{resume} measures the broken step anew"


async def _ask(plan: Plan, folder: RunFolder, tally: Tally, probes: Probes, ask: Ask) -> None:
    """All that is to be asked; an interruption ends it early, and what was recorded stands."""
    try:
        if not folder.has(INVENTORY):
            redacted = []
            for probe in probes.values():
                redacted.append(msgspec.structs.replace(probe, detail=plan.redact(probe.detail)))
            collecting = asyncio.to_thread(collect_inventory, redacted, environ=plan.environ)
            folder.write(INVENTORY, await cancellable(collecting))
        await cancellable(ask(plan, folder, tally))
    except asyncio.CancelledError:
        if not interruption.happened:
            raise


def _make_silent_tally(plan: Plan) -> Tally:
    return Tally({target: Progress() for target in plan.targets})


def _make_display(plan: Plan, path: Path, expected: Mapping[Target, ExpectedCalls]) -> Tally:
    """A live table where a person looks at stderr, else plain lines.

    The figures are those of the whole run, earlier stretches included.
    """
    rows: dict[Target, Progress] = {}
    for target, calls in expected.items():
        past_s = None
        past_usd = None
        if calls.seconds and calls.n:
            past_s = calls.seconds / calls.n
        if calls.usd is not None and calls.n:
            past_usd = calls.usd / calls.n
        rows[target] = Progress(calls.n, past_s, past_usd)
    context_suites = frozenset(prompt.suite for prompt in plan.prompts if prompt.in_context)
    if plan.work.done:
        _count_earlier_calls(plan, rows, path, context_suites)
    # Targets on other machines are asked side by side.
    elsewhere = [target for target in plan.targets if not runs_alone(plan.providers, target)]
    interleaved = plan.settings.interleave or plan.is_asked_elsewhere or len(elsewhere) > 1
    settings: dict[str, Any] = {
        "interleaved": interleaved,
        "counts_turns": plan.decision is not None,
        "context_suites": context_suites,
        "redact": plan.redact,
    }
    if sys.stderr.isatty():
        from clawgauge.console.live import LiveTable

        table = LiveTable(rows, **settings)
        if table.can_redraw:
            return table
    return PlainLines(rows, **settings)


def _count_earlier_calls(
    plan: Plan, rows: Mapping[Target, Progress], path: Path, context_suites: frozenset[str]
) -> None:
    for record in iter_results(path, Row):
        row = rows.get(record.target)
        if not record.was_asked or row is None:
            continue
        row.n_before += count_calls(record, counts_turns=plan.decision is not None)
        if record.suite not in context_suites:
            row.n_judged += record.objective_pass is not None
            row.n_passed += record.objective_pass is True


def _begin(plan: Plan, run_id: str | None, missing: Sequence[Path]) -> RunFolder:
    """The folder of a new run with its config.json; nothing is left if that cannot be written."""
    folder = RunFolder.create(Path(plan.settings.runs_dir), run_id)
    try:
        folder.write("config.json", make_config(plan, folder.run_id))
    except BaseException as fault:
        # A folder without its plan can be neither read nor resumed, and would only take the run id.
        _remove(folder, missing)
        if not isinstance(fault, DiskFailure):
            raise
        reason = getattr(fault.__cause__, "strerror", None) or fault.__cause__
        raise DiskFailure(
            f"Cannot begin a run in {plan.settings.runs_dir} ({reason}); nothing was asked: "
            f"{way_out(fault.__cause__)}, and run again."
        ) from fault
    return folder


def _remove(folder: RunFolder, missing: Sequence[Path]) -> None:
    """Take a run's folder away, and those above it that it was the first in."""
    folder.close()
    shutil.rmtree(folder.path, ignore_errors=True)
    for path in missing:
        with suppress(OSError):  # where another run has begun in it
            path.rmdir()


async def _go_on(
    plan: Plan, resumed: ResumedRun, folder: RunFolder, tell: Tell
) -> dict[str, ProviderProbe]:
    """Put aside what is to be asked again, and report and record what is other than it was."""
    cost = cost_budget(plan)
    agendas = {target: make_agenda(plan, target, cost) for target in plan.targets}
    open_targets = [target for target, agenda in agendas.items() if agenda.n_open]
    if plan.decision is not None and plan.decision.best:
        # Who is asked on to find the best is known once the answers have been read.
        open_targets = list(plan.targets)
    probes = await look_ahead(plan, open_targets, tell)
    if plan.work.refill:
        again = plural(
            len(plan.work.refill), "prompt that had no answer", "prompts that had no answer"
        )
        tell(f"asking {again} again; their old lines are in superseded.jsonl")
        folder.supersede(set(plan.work.refill))
    forced = _report_forced_changes(plan, resumed, folder, tell)
    if forced or _changes_extent(plan, resumed.recorded.options):
        config = make_config(plan, folder.run_id, resumed.recorded.created_at_ms)
        folder.write("config.json", config)
    if not open_targets:
        spent = None
        for agenda in agendas.values():
            for outcome in agenda.outcomes():
                if outcome.event == "budget_spent" and spent is None:
                    spent = str(outcome.detail["budget"])
        if spent is None:
            tell("nothing is left to ask")
        else:
            option = spent.replace("_", "-")
            tell(f"--{option} is spent: give a larger number to go on")
    return probes


def _report_forced_changes(plan: Plan, resumed: ResumedRun, folder: RunFolder, tell: Tell) -> bool:
    """Whether --force goes on with a run that has changed; it is recorded then."""
    if not resumed.force:
        return False
    changes = find_changes(
        resumed.recorded,
        settings=plan.settings,
        prompts=plan.prompts,
        targets=plan.targets,
        wanted_targets=plan.targets,
        providers=plan.providers,
        redact=plan.redact,
    )
    if not changes:
        return False
    tell(f"--force: records before and after are not comparable where {'; '.join(changes)}")
    at_ms = time.time_ns() // 1_000_000
    folder.event(Event(event="forced_resume", at_ms=at_ms, detail={"differences": changes}))
    return True


def _changes_extent(plan: Plan, recorded: RunOptions) -> bool:
    """Whether an option that decides how many cells there are is another than before."""
    for name in RunOptions.__struct_fields__:
        if OPTIONS[name].resume not in ("extent", "more"):
            continue
        if getattr(plan.settings, name) != getattr(recorded, name):
            return True
    return False


def _conclude(
    plan: Plan, folder: RunFolder, output: OutputOptions, beside: ReferenceRun | None = None
) -> int:
    """Write the summary, show it, and say by the exit code how the run went."""
    summary = write_summary(folder, plan.config_file)
    if output.quiet:
        _report_failures(summary)
    else:
        _show_ending(plan, folder, summary, verbose=output.verbose)
        if beside is not None:
            sections = describe_beside(beside, plan, folder.path, summary)
            sys.stderr.write(f"\n{render(sections, stream=sys.stderr)}\n")
    if folder.n_events_lost:
        lost = plural(folder.n_events_lost, "event")
        sys.stderr.write(
            f"{lost} could not be written: figures of machine and clock may be missing\n"
        )
    if output.as_json:
        sys.stdout.write(encode_document(summary).decode())
    else:
        sys.stdout.write(f"{folder.path}\n")
    # Asked last: a signal while the summary was written counts too.
    if interruption.happened:
        return process.INTERRUPTED
    if not any(group.n_ok for group in summary.models):
        return process.NOTHING_ANSWERED
    if summary.n_unreadable_lines:
        return process.UNREADABLE_LINES
    is_passed = True
    if plan.settings.fail_under:
        is_passed = _passes_gate(summary, plan.settings.fail_under)
    for job in plan.settings.require:
        is_passed = _has_fit_model(summary, job) and is_passed
    return process.DONE if is_passed else process.GATE_FAILED


def _report_failures(summary: RunSummary) -> None:
    """One line for each kind of error, where nothing else is shown."""
    for group in summary.models:
        for failure in group.failures:
            sys.stderr.write(one_row(f"{group.target.label}: {word_failure(failure)}"))
    tell_unreadable(summary.n_unreadable_lines)


def _show_ending(plan: Plan, folder: RunFolder, summary: RunSummary, *, verbose: bool) -> None:
    """The answer of the run, or all its figures, and the command that asks what is left."""
    interrupted = interruption.happened
    # After Ctrl-C the run goes on first, as said where calls were given up; errors come after.
    is_unfinished = any(group.attempted < group.n_scheduled for group in summary.models)
    has_failures = any(count_unanswered(group) for group in summary.models)
    retry_errors = has_failures and not (interrupted and is_unfinished)
    resume = resume_command(folder.path, plan.config_file, retry_errors=retry_errors)
    config = Run.open(folder.path).config
    sections = describe_ending(
        summary,
        config,
        folder.path,
        resume,
        interrupted=interrupted,
        grid=describe_grid(folder.path, summary),
        verbose=verbose,
    )
    sys.stderr.write(f"\n{render(sections, stream=sys.stderr)}\n")
    sys.stderr.flush()


def _passes_gate(summary: RunSummary, wanted_rate: float) -> bool:
    """Whether every target passes often enough of what it was asked; reports each that does not.

    One without a single verdict to give cannot fail.
    """
    all_pass = True
    for group in summary.models:
        if not group.n_scheduled_judged:
            continue
        rate = passed_of_needed(group).value or 0.0
        is_met = rate >= wanted_rate
        all_pass = all_pass and is_met
        # Who passes by a part of what was planned has not shown the rest: that is reported, too.
        unasked = word_unasked(group.attempted, group.n_scheduled)
        if not is_met or unasked:
            verdict = "passed" if is_met else "failed"
            line = clean_cell(_gate_line(group, wanted_rate, unasked))
            sys.stderr.write(f"gate {verdict}: {line}\n")
    return all_pass


def _has_fit_model(summary: RunSummary, job_name: str) -> bool:
    """Whether some model is decided fit for a job; reports how each one stands if not."""
    states = []
    for job in summary.jobs:
        if job.job != job_name:
            continue
        for fit in job.ranking:
            if fit.fit == Fitness.YES:
                return True
            states.append(f"{fit.target} {word_state(fit)}")
    standing = ", ".join(states) or "it was not judged"
    line = clean_cell(f"no model is decided fit for {job_name!r}: {standing}")
    sys.stderr.write(f"gate failed: {line}\n")
    return False


def _gate_line(group: GroupSummary, wanted_rate: float, unasked: str) -> str:
    n_asked = passed_of_asked(group).n
    needed = passed_of_needed(group)
    n_counted = needed.n
    rate = needed.value or 0.0
    prompts = "the prompts it was asked"
    if n_counted > n_asked:
        # A target that was given up is held to what it was not asked, too.
        prompts = f"{n_counted} prompts, {n_counted - n_asked} of them not asked"
    line = f"{group.target.label} passed {rate:.1%} of {prompts}, wanted {wanted_rate:.1%}"
    if unasked:
        line += f" ({unasked})"
    return line


def make_config(plan: PlanDraft, run_id: str, created_at_ms: int | None = None) -> RunConfig:
    """All that decides the run, and no secret."""
    described: dict[str, dict[str, Any]] = {}
    sampling: dict[str, dict[str, Any]] = {}
    prompt_sampling: dict[str, dict[str, dict[str, Any]]] = {}
    sent: dict[Target, SentSettings] = {}
    for target in plan.targets:
        provider = plan.provider(target.provider)
        described[target.provider] = provider.describe()
        model_provider = plan.providers.model_target(target).provider
        if model_provider != target.provider:
            described[model_provider] = plan.provider(model_provider).describe()
        call = _plain_call(plan, target, provider)
        usual = provider.sampling(call)
        sampling[target.label] = usual._asdict()
        settings = provider.request_settings(call)
        if settings is not None:
            body = public_settings(settings.body)
            sent[target] = msgspec.structs.replace(settings, body=body)
        differing = _prompt_sampling(plan, target, provider, usual)
        if differing:
            prompt_sampling[target.label] = differing
    argv = sys.argv[1:]
    if plan.secrets:
        mask = SecretMask(plan.secrets).mask
        described = {name: mask_strings(facts, mask) for name, facts in described.items()}
        for target, settings in sent.items():
            body = mask_strings(settings.body, mask)
            sent[target] = msgspec.structs.replace(settings, body=body)
        argv = [mask(word) for word in argv]
    versions = {"clawgauge": __version__, "python": sys.version.split()[0]}
    versions |= package_versions(_VERSIONED)
    return RunConfig(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        clawgauge_version=__version__,
        created_at_ms=created_at_ms or time.time_ns() // 1_000_000,
        models=list(dict.fromkeys(target.model for target in plan.targets)),
        planned_targets=plan_targets(plan.targets, sent),
        options=plan.settings.recorded(),
        suites=plan.suites,
        prompts=plan.prompts,
        prompts_sha256=prompts_sha256(plan.prompts),
        providers=described,
        sampling=sampling,
        prompt_sampling=prompt_sampling,
        prices={target.label: price for target, price in plan.prices.items()},
        versions=versions,
        argv=[mask_shapes(word) for word in argv],
        jobs=dict(plan.jobs),
        capacity=plan.capacity,
        context=plan.context,
        rule=RULE,
        decision=plan.decision,
    )


def _plain_call(plan: PlanDraft, target: Target, provider: Provider) -> Call:
    """The call that asks a target a prompt without wishes of its own.

    In a capacity run that is every prompt.
    """
    max_tokens = None if plan.capacity is None else plan.capacity.output_tokens
    return make_plain_call(provider, target, plan.settings, max_tokens)


def _prompt_sampling(
    plan: PlanDraft, target: Target, provider: Provider, usual: Sampling
) -> dict[str, dict[str, Any]]:
    """By `SUITE/ID`, the prompts whose first call is sent otherwise than the target's usual one."""
    differing = {}
    for prompt in plan.prompts:
        sampling = provider.sampling(make_call(provider, target, plan.settings, prompt))
        if sampling != usual:
            differing[f"{prompt.suite}/{prompt.id}"] = sampling._asdict()
    return differing
