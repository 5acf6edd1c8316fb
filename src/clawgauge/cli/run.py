"""Ask models the prompts of one or more suites and record every answer in RUNS_DIR/RUN_ID/.

Prints the run folder's path on stdout (the summary with --json); everything for a person goes to
stderr."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from clawgauge.cli import process
from clawgauge.cli.consent import (
    find_expected_cost,
    guard_expected_cost,
    guard_private_prompts,
)
from clawgauge.cli.estimate import foresight_lines, plan_facts, plan_lines
from clawgauge.cli.planner import DecidedRun, PlanRequest, decide_run
from clawgauge.cli.preflight import look_ahead, refuse_wrong_names
from clawgauge.cli.process import DONE, run_async
from clawgauge.cli.resume import ResumeRequest
from clawgauge.config.providers import Tell
from clawgauge.config.settings import FIELDS
from clawgauge.errors import RequestError
from clawgauge.journal import encode_line
from clawgauge.journal.folder import RunFolder
from clawgauge.run_data.schedule import is_own_work
from clawgauge.runner.agendas import make_agenda

_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([smh]?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # None means: not said here, so file or default decide.
    switch: Any = {"action": "store_true", "default": None}
    either = argparse.BooleanOptionalAction
    add = parser.add_argument_group("what to ask").add_argument
    add(
        "-t",
        "--target",
        dest="targets",
        action="append",
        metavar="TARGET",
        help="whom to ask; repeatable",
    )
    add(
        "--nodes",
        metavar="NAME,…",
        help="machines of clawgauge.toml to ask on; then -t NODE.PROVIDER:MODEL",
    )
    add(
        "-s",
        "--suite",
        dest="suites",
        action="append",
        metavar="NAME|FILE",
        help="default: what it takes to decide the jobs",
    )
    add(
        "--job",
        action="append",
        metavar="NAME",
        help="decide this job alone; repeatable (default: the four that everybody has)",
    )
    add("--full", **switch, help="all prompts of all built-in suites")
    add("--prompt-ids", metavar="P0,P1", help="only these prompts (P1 of every suite, or SUITE/P1)")
    add(
        "--draw",
        type=int,
        metavar="N",
        help="other values in the same prompts (default 0: as written)",
    )
    add(
        "--in-context",
        metavar="FILE",
        help="tool prompts also inside your own prompt (see clawgauge capture)",
    )
    add("--repeats", type=int, metavar="N", help="ask each prompt N times (default 1)")
    add(
        "--beside",
        metavar="RUN",
        help="the prompts of this run, for a model that it has not asked; ends with a table of "
        "both",
    )
    add = parser.add_argument_group("how to ask").add_argument
    add(
        "--concurrency",
        type=int,
        metavar="N",
        help="calls in flight to one target (default: found out; 1 on your own machine)",
    )
    add("--timeout", type=float, metavar="S", help="total deadline of one attempt (default 300)")
    add("--max-tokens", type=int, metavar="N", help="bound a reply (default 1024; embedded 256)")
    add(
        "--temperature",
        type=float,
        metavar="T",
        help="default 0 for local models, none sent to others",
    )
    add("--order", type=int, metavar="N", help="another order of the same prompts (default 0)")
    add("--seed", type=int, metavar="N", help="sampling seed, where the provider takes one")
    add("--stream", action=either, help="stream replies (default)")
    add("--warm-up", **switch, help="one call first that counts in nothing")
    add("--max-retries", type=int, metavar="N", help="after 429, 5xx, resets (default 5)")
    add(
        "--max-wait", type=float, metavar="S", help="longest wait a server may ask for (default 60)"
    )
    add("--unique-prefix", **switch, help="a line of its own before every prompt: no cached start")
    add(
        "--interleave",
        action=either,
        help="ask all targets a prompt before the next: times can be compared",
    )
    add("--unload-others", **switch, help="unload other Ollama models first")
    add = parser.add_argument_group("how much is enough").add_argument
    add(
        "--until-decided",
        action=either,
        help="with -s or --prompt-ids: ask until all that they can decide is decided",
    )
    add(
        "--best",
        action=either,
        help="ask the models that are fit on, all the same prompts, until the best is known",
    )
    add(
        "--max-calls",
        type=int,
        metavar="N",
        help="at most N requests to each target (default 400 where no prompts are named)",
    )
    add("--max-time", metavar="TIME", help="begin no call after this long: 90s, 3m, 2h")
    add("--max-cost", type=float, metavar="USD", help="stop when the calls have cost this much")
    add(
        "--stop-after-errors",
        type=int,
        metavar="N",
        help="give a target up after N errors in a row",
    )
    add("--prices", metavar="FILE", help="your own prices, as TOML, over the built-in table")
    add = parser.add_argument_group("where it goes").add_argument
    add("--runs-dir", metavar="DIR", help="default: runs")
    add("--run-id", metavar="ID", help="default: local time, YYYYMMDD_HHMMSS")
    add("--resume", metavar="RUN", help="go on with an unfinished run")
    add("--retry-errors", action="store_true", help="with --resume: ask again what had no answer")
    add("--force", action="store_true", help="with --resume: go on although the plan has changed")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="default: ./clawgauge.toml; in full only once trusted",
    )
    add(
        "--yes",
        action="store_true",
        help="it may cost what is expected, and what is your own may be sent to models elsewhere",
    )
    add("--dry-run", action="store_true", help="show the plan; ask no model")
    add("--quiet", "-q", action="store_true", help="no progress; errors are told all the same")
    add("--verbose", "-v", action="store_true", help="every figure at the end, not only the answer")
    add("--json", action="store_true", help="the summary as JSON on stdout")
    add(
        "--fail-under",
        type=float,
        metavar="RATE",
        help="exit 1 if a target's pass rate is lower; needs named prompts",
    )
    add(
        "--require",
        action="append",
        metavar="JOB",
        help="exit 1 if no model is decided fit for this job; repeatable",
    )


def execute(arguments: argparse.Namespace) -> int:
    if arguments.resume is None and (arguments.retry_errors or arguments.force):
        raise RequestError("--retry-errors and --force go on with a run: name it with --resume RUN")
    is_for_new_run = arguments.run_id is not None or arguments.in_context is not None
    if arguments.resume is not None and is_for_new_run:
        raise RequestError(
            "--resume goes without --run-id and --in-context: a resumed run keeps both"
        )
    if arguments.beside is not None:
        _require_new_models(arguments)

    def tell(line: str) -> None:
        if not arguments.quiet:
            process.tell(*line.split("\n"))

    decided = decide_run(_read_request(arguments), tell)
    if arguments.dry_run:
        _rehearse(decided, arguments.run_id, tell, as_json=arguments.json)
        return DONE
    draft = decided.draft
    if draft.context is not None:
        guard_private_prompts(draft, "your own prompt", yes=arguments.yes)
    elif any(is_own_work(prompt) for prompt in draft.asked):
        guard_private_prompts(draft, "your own history", yes=arguments.yes)
    guard_expected_cost(decided, yes=arguments.yes)
    # Loaded only now: a rehearsal needs none of it.
    from clawgauge.cli.session import OutputOptions, run_session
    from clawgauge.runner.run import run

    ask = run if decided.nodes is None else decided.nodes.drive
    output = OutputOptions(quiet=arguments.quiet, verbose=arguments.verbose, as_json=arguments.json)
    return run_async(run_session(decided, arguments.run_id, ask, output, tell))


def _require_new_models(arguments: argparse.Namespace) -> None:
    if arguments.resume is not None:
        raise RequestError("--beside begins a run of its own: it goes without --resume")
    if not arguments.targets:
        raise RequestError("--beside asks a new model what another run asked: name it with -t")


def _read_request(arguments: argparse.Namespace) -> PlanRequest:
    options = {}
    for name in FIELDS:
        value = getattr(arguments, name)
        if value is not None:
            options[name] = value
    for name in ("prompt_ids", "nodes"):
        if name in options:
            options[name] = split_list(options[name])
    if "max_time" in options:
        options["max_time"] = read_seconds(options["max_time"])
    resume = None
    if arguments.resume is not None:
        resume = ResumeRequest(arguments.resume, arguments.retry_errors, arguments.force)
    return PlanRequest(
        options=options,
        words=typed_words(arguments),
        config_file=arguments.config,
        run_id=arguments.run_id,
        resume=resume,
        beside=arguments.beside,
    )


def read_seconds(text: str) -> float:
    """The seconds of a time such as `90s`, `3m` or `2h`; a bare number is seconds."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise RequestError(f"--max-time {text!r}: give a time such as 90s, 3m or 2h")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def split_list(text: str) -> list[str]:
    """The words of an option that takes several, separated by commas."""
    words = [word.strip() for word in text.split(",")]
    return [word for word in words if word]


def typed_words(arguments: argparse.Namespace) -> list[str]:
    """Every text on the command line that could hold a key."""
    words = []
    for value in vars(arguments).values():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str | Path):
                words.append(str(word))
    return words


def _rehearse(decided: DecidedRun, run_id: str | None, tell: Tell, *, as_json: bool) -> None:
    """Show what a run would ask, and refuse what it would refuse, in the same words.

    Servers are asked which models they have, as before a run; no model is called.
    """
    plan = decided.draft.complete(decided.open_work())
    open_targets = [target for target in plan.targets if make_agenda(plan, target).n_open]
    refuse_wrong_names(plan, open_targets)
    if decided.resumed is None:
        RunFolder.check_creatable(Path(plan.settings.runs_dir), run_id)
    if decided.nodes is None and open_targets:
        run_async(look_ahead(plan, open_targets, tell, a_call_follows=False))
    process.tell(*plan_lines(plan), *foresight_lines(plan))
    expected_cost = find_expected_cost(decided)
    if expected_cost is not None:
        process.tell(
            f"{expected_cost}: it will be asked whether it may, or takes --yes or --max-cost"
        )
    if as_json:
        sys.stdout.write(encode_line(plan_facts(plan)).decode())
