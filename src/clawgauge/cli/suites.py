"""List the built-in suites, show one, or check a suite file without asking any model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

from clawgauge.cli.process import DONE
from clawgauge.journal import encode_document
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
    listing = actions.add_parser("list", help="the built-in suites")
    listing.add_argument("--json", action="store_true", help="as JSON")
    showing = actions.add_parser("show", help="the prompts of a suite")
    showing.add_argument("name", metavar="NAME|FILE")
    showing.add_argument("--source", action="store_true", help="the file itself, to copy and edit")
    showing.add_argument("--json", action="store_true", help="as JSON, loaded and checked")
    checking = actions.add_parser("check", help="say whether a suite file would be accepted")
    checking.add_argument("file", metavar="FILE")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.action == "show":
        return show_suite(arguments.name, source=arguments.source, as_json=arguments.json, out=sys.stdout)
    if arguments.action == "check":
        return check_suite(arguments.file, Path(), out=sys.stdout)
    return list_suites(as_json=getattr(arguments, "json", False), out=sys.stdout)


def list_suites(*, as_json: bool, out: TextIO) -> int:
    """The built-in suites."""
    suites = list_builtin()
    if as_json:
        out.write(encode_document(suites).decode())
        return DONE
    width = max(len(suite.name) for suite in suites)
    for suite in suites:
        out.write(f"{suite.name:<{width}}  {suite.n_prompts:>3} prompts  v{suite.version}  {suite.description}\n")
    return DONE


def show_suite(name: str, *, source: bool, as_json: bool, out: TextIO) -> int:
    """A suite's prompts, or its file as it is."""
    suite = load_suite(name, base_dir=Path())
    if source:
        text = suite_path(name, base_dir=Path()).read_text(encoding="utf-8")
        # A copy for a file is the file; on a terminal somebody else's suite must not steer it.
        out.write(clean_lines(text) if out.isatty() else text)
        return DONE
    if as_json:
        out.write(encode_document(suite).decode())
        return DONE
    out.write(one_row(f"{suite.name} v{suite.version}: {suite.description}"))
    out.write(f"{plural(len(suite.prompts), 'prompt')}, sha256 {suite.sha256}\n\n")
    for prompt in suite.prompts:
        preview = one_line(prompt.prompt, _PREVIEW_CHARS)
        out.write(
            clean_lines(
                f"{clean_cell(prompt.id):<5} {clean_cell(prompt.name):<32} {prompt.validator['type']:<16} {preview}"
            )
        )
    return DONE


def check_suite(file: str, base_dir: Path, *, out: TextIO) -> int:
    """Load it as `run` would; a bad one ends in its own sentence and exit 2."""
    suite = load_suite(file, base_dir=base_dir)
    kinds: dict[str, int] = {}
    for prompt in suite.prompts:
        kinds[prompt.validator["type"]] = kinds.get(prompt.validator["type"], 0) + 1
    mix = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
    out.write(clean_lines(f"{suite.name}: {plural(len(suite.prompts), 'prompt is', 'prompts are')} fine ({mix})"))
    return DONE
