"""List the built-in suites, show one, or check a suite file without asking any model."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from clawgauge.cli.process import DONE, print_json
from clawgauge.reports.clean import clean_cell, clean_lines, one_line, one_row
from clawgauge.suites import list_builtin, load_suite, suite_path
from clawgauge.words import plural

EXAMPLES = """\
examples:
  clawgauge suites list
  clawgauge suites show core
  clawgauge suites show core --source > my_suite.toml      a copy to edit
  clawgauge suites check my_suite.toml
"""
_PREVIEW_CHARS = 90


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="the built-in suites", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="as JSON")
    showing = actions.add_parser("show", help="the prompts of a suite", allow_abbrev=False)
    showing.add_argument("name", metavar="NAME|FILE")
    showing.add_argument("--source", action="store_true", help="the file itself, to copy and edit")
    showing.add_argument("--json", action="store_true", help="as JSON, loaded and checked")
    checking = actions.add_parser("check", help="say whether a suite file would be accepted")
    checking.add_argument("file", metavar="FILE")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.action == "show":
        show_suite(arguments.name, source=arguments.source, as_json=arguments.json)
    elif arguments.action == "check":
        # Loaded as `run` would; a bad one ends in its own sentence and exit 2.
        suite = load_suite(arguments.file, base_dir=Path())
        kinds = Counter(prompt.validator["type"] for prompt in suite.prompts)
        mix = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
        n_fine = plural(len(suite.prompts), "prompt is", "prompts are")
        sys.stdout.write(clean_lines(f"{suite.name}: {n_fine} fine ({mix})"))
    elif getattr(arguments, "json", False):
        print_json(list_builtin())
    else:
        suites = list_builtin()
        width = max(len(suite.name) for suite in suites)
        for one in suites:
            sys.stdout.write(f"{one.name:<{width}}  {one.n_prompts:>3} prompts  v{one.version}  {one.description}\n")
    return DONE


def show_suite(name: str, *, source: bool, as_json: bool) -> None:
    """A suite's prompts, or its file as it is."""
    suite = load_suite(name, base_dir=Path())
    if source:
        text = suite_path(name, base_dir=Path()).read_text(encoding="utf-8")
        # A copy for a file is the file; on a terminal somebody else's suite must not steer it.
        sys.stdout.write(clean_lines(text) if sys.stdout.isatty() else text)
        return
    if as_json:
        print_json(suite)
        return
    sys.stdout.write(one_row(f"{suite.name} v{suite.version}: {suite.description}"))
    sys.stdout.write(f"{plural(len(suite.prompts), 'prompt')}, sha256 {suite.sha256}\n\n")
    for prompt in suite.prompts:
        named = f"{clean_cell(prompt.id):<5} {clean_cell(prompt.name):<32} {prompt.validator['type']:<16}"
        sys.stdout.write(clean_lines(f"{named} {one_line(prompt.prompt, _PREVIEW_CHARS)}"))
