"""Run folders found: by name, by path, the most recent one, and when each began."""

from __future__ import annotations

import difflib
import re
import stat
from pathlib import Path
from typing import Annotated

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal.disk import (
    CAP_BYTES,
    CONFIG,
    RESULTS,
    is_barren,
    open_file,
    read_file,
    stat_file,
)
from clawgauge.journal.lines import REFUSALS
from clawgauge.journal.names import LATEST

_MAX_SUGGESTIONS = 5
_LEAST_LIKENESS = 0.5
# An answer, if a run has any, is among so many of its first bytes.
_SEARCHED_BYTES = 4 << 20
_LOAD = re.compile(rb'"load": *\{"client"')
_ANSWERED = re.compile(rb'"availability_status": *"ok"')
_END_OF_YEAR_9999_MS = 253_402_300_799_999


class _Creation(msgspec.Struct):
    """What config.json says of its making."""

    # A date that no calendar has would spoil every table it stands in.
    created_at_ms: Annotated[int, msgspec.Meta(ge=0, le=_END_OF_YEAR_9999_MS)]


def started_at_ms(path: Path) -> float:
    """When a run started.

    That is `created_at_ms` of its config.json, or else the time at which config.json or
    results.jsonl was written: the first harness recorded no start, but wrote its config.json at it.
    """
    try:
        data = read_file(path, CONFIG, CAP_BYTES[CONFIG])
        return msgspec.json.decode(data or b"", type=_Creation).created_at_ms
    except (OSError, RunFolderError, *REFUSALS):
        pass
    for name in (CONFIG, RESULTS):
        status = stat_file(path, name)
        if status is not None:
            written_at_ms = status.st_mtime_ns / 1_000_000
            return min(max(written_at_ms, 0.0), float(_END_OF_YEAR_9999_MS))
    return 0.0


def locate_run(ref: str, runs_dir: Path, *, answered: bool = True, loads: bool = True) -> Path:
    """The folder of the run `ref`: `latest`, a run id under `runs_dir`, or a path to a run folder.

    `latest` is the newest run in which a call was answered; the newest of all where there is no
    such run, or where `answered` is false. With `loads` false, a run that only loads a server does
    not count as answered.

    Raises `RunFolderError` where there is no such run.
    """
    if ref == LATEST:
        return _locate_latest(runs_dir, answered=answered, loads=loads)
    path_by_id = runs_dir / ref
    path = Path(ref)
    # A ref with a path in it is never a run id, though `runs_dir / ref` may well exist.
    may_be_id = path.name == ref and ref != ".."
    if ref and may_be_id and is_run_folder(path_by_id):
        return path_by_id
    if ref and is_run_folder(path):
        return path
    looked_for = f"{path_by_id} and ./{path}" if may_be_id else str(path)
    hint = _suggest_runs(ref, runs_dir)
    raise RunFolderError(f"There is no run {ref!r}: looked for {looked_for}. {hint}")


def _locate_latest(runs_dir: Path, *, answered: bool, loads: bool) -> Path:
    newest = None
    for path in list_runs(runs_dir):
        # What only looks like a run must not stand in front of those that are.
        if not _has_files_only(path):
            continue
        if not answered or has_answer(path, loads=loads):
            return path
        if newest is None:
            newest = path
    if newest is None:
        raise RunFolderError(
            f"There is no run in {runs_dir}; make one with `clawgauge run`, or name its --runs-dir."
        )
    return newest


def _has_files_only(path: Path) -> bool:
    """Whether config.json and results.jsonl, as far as they are there, are regular files."""
    for name in (CONFIG, RESULTS):
        status = stat_file(path, name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            return False
    return True


def _suggest_runs(ref: str, runs_dir: Path) -> str:
    """A sentence that names the runs most like `ref`, or else the newest ones."""
    names = [path.name for path in list_runs(runs_dir)]
    if not names:
        return f"{runs_dir} holds no run; check --runs-dir."
    candidates = [LATEST, *names]
    similar = [name for name in candidates if ref and ref in name]
    if not similar:
        similar = difflib.get_close_matches(
            ref, candidates, n=_MAX_SUGGESTIONS, cutoff=_LEAST_LIKENESS
        )
    suggestions = similar or names
    first_suggestions = suggestions[:_MAX_SUGGESTIONS]
    if len(suggestions) > _MAX_SUGGESTIONS:
        first_suggestions.append("…")
    if similar:
        return f"Did you mean {', '.join(first_suggestions)}?"
    return f"Runs in {runs_dir}: {', '.join(first_suggestions)}."


def has_answer(path: Path, *, loads: bool) -> bool:
    """Whether one of the first calls on record was answered: of a run that was dead, none is.

    With `loads` false, the answers of a run that only loads a server do not count.
    """
    try:
        with open_file(path, RESULTS) as file:
            head = file.read(_SEARCHED_BYTES)
    except (OSError, RunFolderError):
        return False
    if _ANSWERED.search(head) is None:
        return False
    return loads or _LOAD.search(head) is None


def list_runs(runs_dir: Path) -> list[Path]:
    """Every run folder in `runs_dir`, the most recently started first.

    Anything else there is passed over.
    """
    runs = []
    try:
        for path in runs_dir.iterdir():
            if not path.name.startswith(".") and is_run_folder(path) and not is_barren(path):
                runs.append(path)
    except OSError:
        return []
    return sorted(runs, key=lambda path: (started_at_ms(path), path.name), reverse=True)


def is_run_folder(path: Path) -> bool:
    """Whether there is a config.json or a results.jsonl in the folder, whatever these are."""
    try:
        if not path.is_dir():
            return False
    except OSError:
        return False
    return stat_file(path, CONFIG) is not None or stat_file(path, RESULTS) is not None
