"""From what a user typed to the run folder meant.

Owns: what counts as a run folder, and which one is the latest. Refuses: opening anything for writing.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal.disk import TEMP_SUFFIX
from clawgauge.journal.names import CONFIG, LATEST, LOCK, RESULTS

_MAX_SUGGESTIONS = 5


class _Birth(msgspec.Struct):
    created_at_ms: int


def locate_run(ref: str, runs_dir: Path) -> Path:
    """The folder of the run `ref`: `latest`, a run id under `runs_dir`, or a path to a run folder."""
    if ref == LATEST:
        return _latest(runs_dir)
    by_id, by_path = runs_dir / ref, Path(ref)
    # A ref with a path in it is never a run id, though `runs_dir / ref` may well exist.
    is_plain = by_path.name == ref and ref != ".."
    for candidate in (by_id, by_path) if is_plain else (by_path,):
        if ref and is_run_folder(candidate):
            return candidate
    looked_for = f"{by_id} and ./{by_path}" if is_plain else str(by_path)
    raise RunFolderError(f"There is no run {ref!r}: looked for {looked_for}.{_suggest(ref, runs_dir)}")


def list_runs(runs_dir: Path) -> list[Path]:
    """Every run folder in `runs_dir`, the most recently started first; anything else there is passed over."""
    try:
        found = [path for path in runs_dir.iterdir() if not path.name.startswith(".") and is_run_folder(path)]
    except OSError:
        return []
    runs = [path for path in found if not is_barren(path)]
    return sorted(runs, key=lambda path: (started_at_ms(path), path.name), reverse=True)


def is_run_folder(path: Path) -> bool:
    """A folder with a config.json or a results.jsonl in it."""
    try:
        return path.is_dir() and ((path / CONFIG).exists() or (path / RESULTS).exists())
    except OSError:
        return False


def is_barren(path: Path) -> bool:
    """Whether nothing was ever written into folder `path`: what a kill leaves in the first instant of a run."""
    try:
        return path.is_dir() and all(map(_is_trace, path.iterdir()))
    except OSError:
        return False


def _is_trace(file: Path) -> bool:
    if file.name == RESULTS:
        return file.stat().st_size == 0
    return file.name == LOCK or (file.name.startswith(".") and file.name.endswith(TEMP_SUFFIX))


def started_at_ms(path: Path) -> float:
    """When a run started: `created_at_ms` of its config.json, else the time config.json or results.jsonl was written.

    The first harness recorded no start, but wrote its config.json at it.
    """
    try:
        return msgspec.json.decode((path / CONFIG).read_bytes(), type=_Birth).created_at_ms
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        pass
    for name in (CONFIG, RESULTS):
        try:
            return (path / name).stat().st_mtime_ns / 1_000_000
        except OSError:
            continue
    return 0.0


def _latest(runs_dir: Path) -> Path:
    runs = list_runs(runs_dir)
    if not runs:
        raise RunFolderError(f"There is no run in {runs_dir}; make one with `clawgauge run`, or name its --runs-dir.")
    return runs[0]


def _suggest(ref: str, runs_dir: Path) -> str:
    names = [path.name for path in list_runs(runs_dir)]
    if not names:
        return f" {runs_dir} holds no run; check --runs-dir."
    containing = [name for name in names if ref and ref in name]
    near = containing or difflib.get_close_matches(ref, names, n=_MAX_SUGGESTIONS, cutoff=0.5) or names
    return f" Runs in {runs_dir}: {', '.join(near[:_MAX_SUGGESTIONS])}{', …' if len(near) > _MAX_SUGGESTIONS else ''}."
