"""Serve a run that another machine drives: --nodes starts this through ssh, and there is nothing to type."""

from __future__ import annotations

import argparse
import os
import stat

from clawgauge.cli.process import DONE, keep_secrets, run_async
from clawgauge.errors import RequestError
from clawgauge.fleet.node import Node


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The driver says it all."""


def execute(arguments: argparse.Namespace) -> int:
    # A terminal, a file, a device: the loop itself takes none of them, and would end the process for it.
    if not all(
        stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        for mode in (os.fstat(0).st_mode, os.fstat(1).st_mode)
    ):
        raise RequestError(
            "nothing to type here: `run --nodes` and `capacity --nodes` start this on their machines"
        )
    # Whatever else says something on standard output is heard on standard error.
    sink = os.dup(1)
    os.dup2(2, 1)
    run_async(Node(dict(os.environ), keep_secrets).serve(os.dup(0), sink))
    return DONE
