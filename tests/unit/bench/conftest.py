"""The bench lives beside the package, not in it: its folder's parent has to be on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from bench.server_process import CalibratedServer, serving


@pytest.fixture(scope="module")
def server() -> Iterator[CalibratedServer]:
    """The calibrated server in a process of its own."""
    with serving() as running:
        yield running
