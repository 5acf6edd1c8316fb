"""A large results.jsonl read by two processes at once.

The second process is this package's own module, run by the same interpreter (`python_child`), so nothing depends on
how the caller was started. A frozen program has no interpreter to run and reads alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from clawgauge.child_processes import isolated_module, needed_environment
from clawgauge.journal import find_line_start, is_first_harness, iter_results, stat_file
from clawgauge.summary.groups import BATCH_ROWS, Strata, stratify
from clawgauge.summary.rows import SummaryRow
from clawgauge.summary.share_wire import ShareRefused, decode_share

SPLIT_BYTES = 64 << 20
SECOND_READER = "clawgauge.summary.second_reader"
_RESULTS = "results.jsonl"


class FolderStrata(NamedTuple):
    """All rows of a run folder, accumulated, and how many lines were no record."""

    strata: Strata
    bad_lines: int


def stratify_folder(path: Path, *, split_bytes: int = SPLIT_BYTES) -> FolderStrata:
    """Everything a summary needs of the results in `path`; files of `split_bytes` or more are read by two processes."""
    first = iter_results(path, type=SummaryRow)
    middle = _find_middle(path, split_bytes)
    if middle is None:
        return FolderStrata(stratify(first.batches(BATCH_ROWS)), first.bad_lines)
    with _second_reader(path, middle) as child:
        first = iter_results(path, type=SummaryRow, end=middle)
        strata = stratify(first.batches(BATCH_ROWS))
        answer = _await_answer(child)
    try:
        second_strata, bad_lines = decode_share(answer)
    except ShareRefused:
        rest = iter_results(path, type=SummaryRow, start=middle)
        stratify(rest.batches(BATCH_ROWS), strata)
        return FolderStrata(strata, first.bad_lines + rest.bad_lines)
    for key, stratum in second_strata.items():
        if key in strata:
            strata[key].merge(stratum)
        else:
            strata[key] = stratum
    return FolderStrata(strata, first.bad_lines + bad_lines)


def _find_middle(path: Path, split_bytes: int) -> int | None:
    """Where the second half begins; None where one reader is enough, or all there can be."""
    found = stat_file(path, _RESULTS)
    size = 0 if found is None else found.st_size
    if size < split_bytes or _count_cores() < 2 or not sys.executable or getattr(sys, "frozen", False):
        return None
    # Old records number their repeats in the order they come, so they cannot be read from the middle.
    if is_first_harness(path):
        return None
    middle = find_line_start(path, size // 2)
    return middle if middle < size else None


def _count_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@contextmanager
def _second_reader(path: Path, start: int) -> Iterator[subprocess.Popen[bytes] | None]:
    """A process that reads from `start` on; None where the system gives none. It never outlives the block."""
    words = isolated_module(SECOND_READER, os.fspath(path.absolute()), str(start))
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=needed_environment(os.environ),
        )
    except OSError:
        yield None
        return
    with child:
        try:
            yield child
        finally:
            child.kill()


def _await_answer(child: subprocess.Popen[bytes] | None) -> bytes:
    """What the second process wrote; nothing where it failed."""
    if child is None:
        return b""
    answer, _ = child.communicate()
    return answer if child.returncode == 0 else b""
