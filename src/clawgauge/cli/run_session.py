"""One `clawgauge run` from plan to exit code."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from clawgauge import __version__
from clawgauge.cli.estimating import plan_lines
from clawgauge.cli.loop import interruptible, run_async
from clawgauge.cli.planning import Plan, choose_targets, make_plan
from clawgauge.cli.resuming import forced_changes, open_cells, resumed_plan
from clawgauge.cli.watching import make_observer, print_ending
from clawgauge.cli.writing import write_summary
from clawgauge.errors import RequestError, RunFolderError
from clawgauge.host import collect_inventory
from clawgauge.journal import CellKey, RunFolder, locate_run, read_config, read_events
from clawgauge.providers.registry import create_provider
from clawgauge.records import SCHEMA_VERSION, Event, ProviderProbe, RunConfig, RunSummary
from clawgauge.runner import Observer, RunRequest, SystemClock, run
from clawgauge.suites import describe_suite, prompts_sha256

_VERSIONED = ("aiohttp", "google-re2", "msgspec", "psutil", "uvloop", "xllamacpp")


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
    if arguments.dry_run:
        return _show_plan(arguments, plan)
    session = _resume(arguments, plan, tell) if arguments.resume else _begin(plan, arguments.run_id)
    try:
        return await _run_and_summarise(arguments, session, tell)
    finally:
        session.folder.close()


def _show_plan(arguments: argparse.Namespace, plan: Plan) -> int:
    if arguments.resume is not None:
        path = locate_run(arguments.resume, plan.runs_dir)
        plan = resumed_plan(plan, _recorded_config(path), arguments)
    sys.stderr.write("\n".join(plan_lines(plan)) + "\n")
    if arguments.json:
        shown = {"targets": [t.label for t in plan.targets], "prompts": len(plan.prompts), "calls": plan.n_calls}
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    return 0


def _begin(plan: Plan, run_id: str | None) -> Session:
    folder = RunFolder.create(plan.runs_dir, run_id)
    folder.write_json("config.json", _config(plan, folder.run_id))
    return Session(plan, folder, set(), 0)


def _resume(arguments: argparse.Namespace, plan: Plan, tell: Callable[[str], None]) -> Session:
    path = locate_run(arguments.resume, plan.runs_dir)
    recorded = _recorded_config(path)
    plan = resumed_plan(plan, recorded, arguments)
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
    folder.write_json("config.json", _config(plan, folder.run_id, created_at_ms=recorded.created_at_ms))


def _recorded_config(path: Path) -> RunConfig:
    config = read_config(path)
    if config is None:
        raise RunFolderError(f"{path} was not made by clawgauge: it can be summarised, but not resumed")
    return config


def _config(plan: Plan, run_id: str, created_at_ms: int | None = None) -> RunConfig:
    providers, sampling = {}, {}
    for target in plan.targets:
        provider = plan.provider_for(target)
        providers[target.provider] = provider.describe()
        sampling[target.label] = {
            "temperature": plan.options.temperature if plan.options.temperature is not None else provider.local and 0.0,
            "max_tokens": plan.options.max_tokens or provider.default_max_tokens,
            "seed": plan.options.seed,
        }
        if sampling[target.label]["temperature"] is False:
            sampling[target.label]["temperature"] = None
    return RunConfig(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        created_at_ms=created_at_ms or SystemClock().wall_ms(),
        clawgauge_version=__version__,
        models=list(dict.fromkeys(target.model for target in plan.targets)),
        targets=plan.targets,
        options=plan.options,
        suites=[describe_suite(suite) for suite in plan.suites],
        prompts=plan.prompts,
        prompts_sha256=prompts_sha256(plan.prompts),
        providers=providers,
        sampling=sampling,
        versions=_versions(),
        argv=[plan.redact(word) for word in sys.argv[1:]],
    )


def _versions() -> dict[str, str]:
    found = {"clawgauge": __version__, "python": sys.version.split()[0]}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


async def _run_and_summarise(arguments: argparse.Namespace, session: Session, tell: Callable[[str], None]) -> int:
    plan, folder = session.plan, session.folder
    if not folder.has("inventory.json"):
        await _take_inventory(plan, folder)
    request = RunRequest(
        run_id=folder.run_id,
        targets=plan.targets,
        prompts=plan.prompts,
        options=plan.options,
        provider_for=plan.provider_for,
        redact=plan.redact,
        environ=plan.environ,
        done=session.done,
        stretch=session.stretch,
        seed=plan.options.seed,
    )
    with make_observer(plan.targets, len(plan.prompts) * plan.options.repeats, quiet=arguments.quiet) as observer:
        interrupted = await interruptible(_ask(request, folder, observer))
    summary = write_summary(folder)
    refill = refill_command(arguments, plan, folder)
    print_ending(summary, folder.path, refill, interrupted=interrupted, quiet=arguments.quiet)
    _print_result(arguments, summary, folder.path)
    return _exit_code(summary, plan.fail_under, interrupted=interrupted)


async def _ask(request: RunRequest, folder: RunFolder, observer: Observer) -> None:
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


def refill_command(arguments: argparse.Namespace, plan: Plan, folder: RunFolder) -> str:
    """The exact command that asks again what was not answered."""
    words = ["clawgauge", "run", "--resume", folder.run_id, "--retry-errors"]
    if plan.runs_dir != Path("runs"):
        words += ["--runs-dir", str(plan.runs_dir)]
    if arguments.config is not None:
        words += ["--config", str(arguments.config)]
    return shlex.join(words)


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
    if fail_under is not None and any((group.pass_rate_scheduled or 0.0) < fail_under for group in summary.models):
        return 1
    return 0


def _teller(quiet: bool) -> Callable[[str], None]:
    def tell(line: str) -> None:
        if not quiet:
            sys.stderr.write(f"{line}\n")

    return tell
