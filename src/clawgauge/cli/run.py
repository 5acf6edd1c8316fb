"""Ask models the prompts of one or more suites and record every answer in RUNS_DIR/RUN_ID/.

Prints the run folder's path on stdout (the summary with --json); everything for a person goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from clawgauge.errors import RequestError

SUMMARY = "run suites on models and record every answer"
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
        from clawgauge.cli.rehearsal import rehearse

        return rehearse(arguments, _teller(arguments.quiet))
    from clawgauge.cli.run_session import run_session

    return run_session(arguments, _teller(arguments.quiet))


def _teller(quiet: bool) -> Callable[[str], None]:
    def tell(line: str) -> None:
        if not quiet:
            # Loaded only now: most commands have nothing to say here.
            from clawgauge.reports.phrases import clean_lines

            sys.stderr.write(clean_lines(line))

    return tell
