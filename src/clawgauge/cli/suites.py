"""List the built-in suites, show one, or check a suite file without asking any model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

SUMMARY = "list, show or check prompt suites"
EXAMPLES = """\
examples:
  clawgauge suites list
  clawgauge suites show core
  clawgauge suites show core --source > my_suite.toml      a copy to edit
  clawgauge suites check my_suite.toml
"""


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
    from clawgauge.cli.suite_listing import check_suite, list_suites, show_suite

    if arguments.action == "show":
        return show_suite(arguments.name, source=arguments.source, as_json=arguments.json, out=sys.stdout)
    if arguments.action == "check":
        return check_suite(arguments.file, Path(), out=sys.stdout)
    return list_suites(as_json=getattr(arguments, "json", False), out=sys.stdout)
