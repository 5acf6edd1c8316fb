"""Ask models the prompts of one or more suites and record every answer in RUNS_DIR/RUN_ID/.

Prints the run folder's path on stdout (the summary with --json); everything for a person goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from clawgauge.cli.estimate import plan_facts, plan_lines, tier_lines
from clawgauge.cli.planning import (
    OpenWork,
    Plan,
    Pricing,
    choose_named_targets,
    choose_targets,
    fit_concurrency,
    ignored_options,
    make_plan,
    names_targets,
)
from clawgauge.cli.process import DONE
from clawgauge.cli.resume import open_work, settle_plan
from clawgauge.errors import RequestError
from clawgauge.journal import encode_document
from clawgauge.journal.folder import RunFolder

EXAMPLES = """\
targets: PROVIDER:MODEL[@low|medium|high|xhigh]
  ollama_openai:llama3.2:3b      ollama_openai:* (all of them)      '!ollama_openai:*70b*' (takes out)
  openai_responses:gpt-5-codex@high      claude_code_cli:claude-opus      embedded:smollm2-135m
  embedded:path/to/model.gguf      NAME:MODEL for a server named in clawgauge.toml

examples:
  clawgauge run -t embedded:smollm2-135m -s core --prompt-ids P0,P1
  clawgauge run -t 'ollama_openai:*' --repeats 3 --warm-up
  clawgauge run -t 'ollama_openai:*' --until-decided --max-calls 60
  clawgauge run --resume 20260213_235930 --retry-errors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`. None means: not said here, so file or default decide."""
    what = parser.add_argument_group("what to ask")
    what.add_argument("-t", "--target", action="append", metavar="TARGET", help="whom to ask; repeatable")
    what.add_argument("-s", "--suite", action="append", metavar="NAME|FILE", help="default: core and tool_use")
    what.add_argument("--prompt-ids", metavar="P0,P1", help="only these prompts (P1 of every suite, or SUITE/P1)")
    what.add_argument("--repeats", type=int, metavar="N", help="ask each prompt N times (default 1)")
    how = parser.add_argument_group("how to ask")
    how.add_argument("--concurrency", type=int, metavar="N", help="calls in flight to one target (default 1)")
    how.add_argument("--timeout", type=float, metavar="S", help="total deadline of one attempt (default 300)")
    how.add_argument("--max-tokens", type=int, metavar="N", help="bound a reply (default 1024; embedded 256)")
    how.add_argument("--temperature", type=float, metavar="T", help="default 0 for local models, none sent to others")
    how.add_argument("--seed", type=int, metavar="N", help="sampling seed, where the provider takes one")
    how.add_argument("--stream", action=argparse.BooleanOptionalAction, help="stream replies (default)")
    how.add_argument("--warm-up", action="store_true", default=None, help="one unrecorded-as-result call first")
    how.add_argument("--max-retries", type=int, metavar="N", help="after 429, 5xx, resets (default 5)")
    how.add_argument("--max-wait", type=float, metavar="S", help="longest wait a server may ask for (default 60)")
    how.add_argument(
        "--unique-prefix",
        action="store_true",
        default=None,
        help="a line of its own before every prompt: no cached start",
    )
    how.add_argument("--unload-others", action="store_true", default=None, help="unload other Ollama models first")
    enough = parser.add_argument_group("how much is enough")
    enough.add_argument(
        "--until-decided",
        action=argparse.BooleanOptionalAction,
        help="ask tool prompts only until the tier is 95%% sure",
    )
    enough.add_argument("--max-calls", type=int, metavar="N", help="ask each target at most N cells in all")
    enough.add_argument("--max-cost", type=float, metavar="USD", help="stop when the calls have cost this much")
    enough.add_argument("--prices", metavar="FILE", help="your own prices, as TOML, over the built-in table")
    where = parser.add_argument_group("where it goes")
    where.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: runs")
    where.add_argument("--run-id", metavar="ID", help="default: local time, YYYYMMDD_HHMMSS")
    where.add_argument("--resume", metavar="RUN", help="go on with an unfinished run")
    where.add_argument("--retry-errors", action="store_true", help="with --resume: ask failed cells again")
    where.add_argument("--force", action="store_true", help="with --resume: go on although the plan has changed")
    where.add_argument(
        "--config", type=Path, metavar="FILE", help="default: ./clawgauge.toml; in full only once trusted"
    )
    where.add_argument("--dry-run", action="store_true", help="show the plan; ask nothing")
    where.add_argument("--quiet", action="store_true", help="no progress")
    where.add_argument("--json", action="store_true", help="the summary as JSON on stdout")
    where.add_argument("--fail-under", type=float, metavar="RATE", help="exit 1 if a target's pass rate is lower")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.resume is None and (arguments.retry_errors or arguments.force):
        raise RequestError("--retry-errors and --force go on with a run: name it with --resume RUN")
    if arguments.resume is not None and arguments.run_id is not None:
        raise RequestError("--resume and --run-id exclude each other: a resumed run keeps its id")
    if arguments.dry_run:
        return rehearse(arguments, _teller(arguments.quiet))
    from clawgauge.cli.session import run_session

    return run_session(arguments, _teller(arguments.quiet))


def _teller(quiet: bool) -> Callable[[str], None]:
    def tell(line: str) -> None:
        if not quiet:
            # Loaded only now: most commands have nothing to say here.
            from clawgauge.reports.clean import clean_lines

            sys.stderr.write(clean_lines(line))

    return tell


def rehearse(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    """Show what a run would do; what it would refuse is refused, by the same code and in the same words."""
    plan = make_plan(arguments, tell)
    if names_targets(arguments):
        plan = choose_named_targets(plan) or _ask_servers(plan, tell)
    plan, path, _ = settle_plan(plan, arguments)
    plan = fit_concurrency(plan, tell)
    for line in ignored_options(plan):
        tell(line)
    # Loads the providers, which is most of what a rehearsal costs: only where there is something to refuse.
    if plan.options.max_cost_usd is not None or plan.prices_path is not None:
        Pricing(plan)
    if path is None:
        RunFolder.check_creatable(plan.runs_dir, arguments.run_id)
    work = open_work(plan, path, retry_errors=arguments.retry_errors) if path else OpenWork()
    sys.stderr.write("".join(f"{line}\n" for line in [*plan_lines(plan, work), *tier_lines(plan)]))
    if arguments.json:
        sys.stdout.write(encode_document(plan_facts(plan, work), pretty=False).decode())
    return DONE


def _ask_servers(plan: Plan, tell: Callable[[str], None]) -> Plan:
    # The event loop is loaded only where a pattern needs a server's list.
    from clawgauge.cli.loop import run_async

    return run_async(choose_targets(plan, tell))
