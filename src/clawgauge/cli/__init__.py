"""The command line: one file per verb, loaded when it is called.

What went wrong becomes a sentence and an exit code.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from clawgauge import __version__
from clawgauge.cli.process import (
    DONE,
    INTERRUPTED,
    guarded_streams,
    hide_keys,
    interruption,
    machine_failure,
    report_own_fault,
    tell,
)

VERBS = {
    "init": "look for models and write a clawgauge.toml",
    "capture": "keep your agent's own prompt, to ask models in it",
    "run": "run suites on models and record every answer",
    "capacity": "load a server and say what it can carry",
    "doctor": "what can be reached from here",
    "suites": "list, show or check prompt suites",
    "show": "the summary of a run, or one call in full",
    "summarize": "rebuild summary.json and summary.md",
    "rescore": "judge recorded answers again; no calls",
    "report": "one self-contained HTML file to look at",
    "view": "all runs in a browser, live",
    "compare": "paired differences of two runs, and a gate for CI",
    "history": "all runs as one table, and what is missing",
    "export": "results as CSV, Parquet or JSON Lines",
    "route": "tiers and figures into OpenClaw or LiteLLM configuration",
    "completion": "what makes a shell complete all this",
    "node": "serve a run that another machine drives",
    "mcp": "the runs of this machine as tools for an agent",
    "trust": "let the clawgauge.toml found here count in full",
}
_PURPOSE = (
    "Benchmark LLMs for agents: is it up, how fast, does it keep a format, does it really use "
    "tools."
)
_FIRST = """\
first:
  clawgauge init                           find models, write a clawgauge.toml
  clawgauge run                            Ollama's models, else the embedded
  clawgauge run -t ollama_openai:qwen3:8b  one model, prompts of every kind
  clawgauge show                           the newest run again
  clawgauge view                           all runs in a browser
  clawgauge --help                         every verb
"""
_EPILOG = f"""{_FIRST}
exit codes: 0 done, 1 a gate failed, 2 the request was wrong, nothing recorded
            3 nothing was answered, 4 this machine ended the run
            5 some recorded lines could not be read, 130 interrupted
            70 a fault of clawgauge itself
"""


class _Parser(argparse.ArgumentParser):
    """A parser that guesses what a misspelled word was meant to be.

    `vocabulary` has the words it guesses among. The help of a `verb` ends with its examples.
    """

    vocabulary: Sequence[str] = tuple(VERBS)
    verb: str | None = None

    def error(self, message: str) -> NoReturn:
        import difflib

        match = re.search(r"unrecognized arguments: (\S*)|invalid choice: '([^' ]*)", message)
        misspelled = ""
        if match is not None:
            misspelled = match[1] or match[2] or ""
        similar_words = difflib.get_close_matches(misspelled, self.vocabulary, n=1)
        if similar_words:
            message = f"{message}; did you mean {similar_words[0]}?"
        hide_keys()
        super().error(message)

    def format_help(self) -> str:
        if self.verb is not None:
            self.epilog = _read_examples(self.verb)
        return super().format_help()


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """A parser for these arguments.

    Only the verb among them is loaded: a list of all verbs needs none of what they do.
    """
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    style: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(prog="clawgauge", description=_PURPOSE, epilog=_EPILOG, **style)
    parser.add_argument("--version", action="version", version=f"clawgauge {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for name, summary in VERBS.items():
        verb = verbs.add_parser(name, help=summary, **style)
        if name == chosen:
            module = importlib.import_module(f"clawgauge.cli.{name}")
            verb.verb = name
            verb.description = module.__doc__
            module.add_arguments(verb)
            verb.set_defaults(execute=module.execute)
            parser.vocabulary = [*VERBS, *verb._option_string_actions]
    return parser


def _read_examples(verb: str) -> str | None:
    """What the help of a verb ends with; None where it has no examples."""
    from pathlib import Path  # a list of all verbs does without

    text = Path(__file__).with_name("examples.txt").read_text("utf-8")
    for block in text.removeprefix("== ").split("\n== "):
        name, _, examples = block.partition("\n")
        if name == verb:
            return examples
    return None


def main(argv: Sequence[str] | None = None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        from clawgauge.cli.completion import complete

        complete(build_parser)
    interruption.listen()
    try:
        with guarded_streams():
            try:
                try:
                    given_arguments = sys.argv[1:] if argv is None else argv
                    parser = build_parser(given_arguments)
                    arguments = parser.parse_args(given_arguments)
                    if arguments.verb is None:
                        parser.exit(2, f"{_PURPOSE}\n\n{_FIRST}")
                    interruption.ends_with_reader = arguments.verb in ("run", "capacity")
                    code = int(arguments.execute(arguments))
                finally:
                    sys.stdout.flush()
            except (Exception, BaseExceptionGroup) as fault:
                wrong = machine_failure(fault)
                if wrong is None:
                    code = report_own_fault(fault)
                else:
                    # The text may be a server's, a file's name, or what was pasted in the wrong
                    # place.
                    hide_keys()
                    tell(f"clawgauge: {wrong}", *(f"  {line}" for line in wrong.lines))
                    code = wrong.exit_code
        # Kept for the end where code could not be broken off; a failure of its own says more.
        return INTERRUPTED if interruption.happened and code == DONE else code
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        interruption.stop_listening()
        # The process ends now: the interpreter need not look through all that was loaded for what
        # could be freed.
        gc.freeze()
