"""Serve a run that another machine drives: --nodes starts this through ssh, and there is nothing to
type."""

from __future__ import annotations

import argparse
import os
import stat
import sys

from clawgauge.cli.process import DONE, keep_secrets, run_async
from clawgauge.errors import RequestError
from clawgauge.fleet.node import NodeProgram


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none: the driver sends everything."""


def execute(arguments: argparse.Namespace) -> int:
    if sys.platform == "win32":
        raise RequestError(
            "a node needs Linux or macOS, and this is Windows: drive a run from here, "
            "and let another machine be the node"
        )
    # A terminal, a file, a device: the loop itself takes none of them, and would end the process
    # for it.
    if not _is_pipe(0) or not _is_pipe(1):
        raise RequestError(
            "nothing to type here: `run --nodes` and `capacity --nodes` start this on their "
            "machines"
        )
    # Whatever else is printed to standard output goes to standard error.
    sink = os.dup(1)
    os.dup2(2, 1)
    program = NodeProgram(dict(os.environ), keep_secrets)
    run_async(program.serve(os.dup(0), sink))
    return DONE


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
