"""The command line: one file per verb, wiring and exit codes. Verbs load their rooms when called, not before."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from clawgauge import __version__
from clawgauge.cli import compare, doctor, export, history, report, rescore, route, run, show, suites, summarize, trust
from clawgauge.cli.exit_codes import DONE, INTERRUPTED
from clawgauge.cli.interruption import interruption
from clawgauge.cli.streams import guarded_streams
from clawgauge.errors import ClawgaugeError

_VERBS = {
    "run": run,
    "doctor": doctor,
    "suites": suites,
    "show": show,
    "summarize": summarize,
    "rescore": rescore,
    "report": report,
    "compare": compare,
    "history": history,
    "export": export,
    "route": route,
    "trust": trust,
}
_EPILOG = """\
examples:
  clawgauge run                                        the models of a running Ollama, else the embedded model
  clawgauge run -t ollama_openai:llama3.2:3b           one model, the suites core and tool_use
  clawgauge run -t openai_responses:gpt-5-codex@high -s core --repeats 3
  clawgauge show latest                                the newest run again
  clawgauge doctor                                     what can be reached from here

exit codes: 0 done · 1 a gate failed · 2 the request was wrong, nothing was sent · 3 no cell was answered
            4 this machine ended the run · 5 some recorded lines could not be read · 130 interrupted
"""


class _WholeWords(argparse.ArgumentParser):
    """Takes options as they are written: one that is cut short would not be found again in a recorded command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Cheap: no room is loaded to print a help text."""
    parser = _WholeWords(
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
        return INTERRUPTED if interruption.happened and code == DONE else code
    except KeyboardInterrupt:
        return INTERRUPTED
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
        return _tell(wrong)
    except (OSError, MemoryError, RuntimeError, BaseExceptionGroup) as fault:
        from clawgauge.cli.tracebacks import machine_failure

        if (refused := machine_failure(fault)) is None:
            raise
        return _tell(refused)


def _tell(wrong: ClawgaugeError) -> int:
    # Loaded only now: a help text needs none of it. The words may be a server's, or a file's name.
    from clawgauge.reports.sanitize import clean_cell

    sys.stderr.write(f"clawgauge: {clean_cell(str(wrong))}\n")
    return wrong.exit_code
