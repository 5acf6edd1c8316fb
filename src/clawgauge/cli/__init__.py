"""The command line: one file per verb, wiring and exit codes. Verbs load their rooms when called, not before."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from clawgauge import __version__
from clawgauge.cli import doctor, rescore, run, show, suites, summarize
from clawgauge.cli.interruption import EXIT_INTERRUPTED, interruption
from clawgauge.cli.streams import guarded_streams
from clawgauge.errors import ClawgaugeError

EXIT_DONE = 0

_VERBS = {
    "run": run,
    "doctor": doctor,
    "suites": suites,
    "show": show,
    "summarize": summarize,
    "rescore": rescore,
}
_EPILOG = """\
examples:
  clawgauge run                                        the models of a running Ollama, else the embedded model
  clawgauge run -t ollama_openai:llama3.2:3b           one model, both built-in suites
  clawgauge run -t openai_responses:gpt-5-codex@high -s core --repeats 3
  clawgauge show latest                                the newest run again
  clawgauge doctor                                     what can be reached from here

exit codes: 0 done · 1 a gate failed · 2 the request was wrong, nothing was sent · 3 no cell was answered
            4 this machine ended the run · 5 some recorded lines could not be read · 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Cheap: no room is loaded to print a help text."""
    parser = argparse.ArgumentParser(
        prog="clawgauge",
        description="Benchmark LLMs for agents: is it up, how fast, does it keep a format, does it really use tools.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"clawgauge {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in _VERBS.items():
        verb = verbs.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(verb)
        verb.set_defaults(execute=module.execute)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The whole life of the process: parse, run, turn what went wrong into one sentence and an exit code."""
    interruption.listen()
    try:
        with guarded_streams():
            code = _execute(argv)
        # Kept for the end where code could not be broken off; a failure of its own says more.
        return EXIT_INTERRUPTED if interruption.happened and code == EXIT_DONE else code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        interruption.stop_listening()


def _execute(argv: Sequence[str] | None) -> int:
    try:
        try:
            arguments = build_parser().parse_args(argv)
            return int(arguments.execute(arguments))
        finally:
            sys.stdout.flush()
    except ClawgaugeError as wrong:
        sys.stderr.write(f"clawgauge: {wrong}\n")
        return wrong.exit_code
