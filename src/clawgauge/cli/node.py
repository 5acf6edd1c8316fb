"""Serve a run that another machine drives: --nodes starts this through ssh, and there is nothing to type."""

from __future__ import annotations

import argparse
import os

from clawgauge.cli.process import DONE, keep_secrets, run_async
from clawgauge.errors import RequestError
from clawgauge.fleet.node import Node

EXAMPLES = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The driver says it all."""


def execute(arguments: argparse.Namespace) -> int:
    if os.isatty(0):
        raise RequestError("nothing to type here: `run --nodes` and `capacity --nodes` start this on their machines")
    # Whatever else says something on standard output is heard on standard error.
    sink = os.dup(1)
    os.dup2(2, 1)
    run_async(Node(dict(os.environ), keep_secrets).serve(os.dup(0), sink))
    return DONE
