"""From what a user typed to the run folder meant."""

from __future__ import annotations

import difflib
import re
import stat
from pathlib import Path

from clawgauge.errors import RunFolderError
from clawgauge.journal.disk import CONFIG, LATEST, RESULTS, is_barren, open_file, stat_file
from clawgauge.journal.reader import started_at_ms

_MAX_SUGGESTIONS = 5
_LOOKED_AT_BYTES = 4 << 20
_ANSWERED = re.compile(rb'"availability_status": *"ok"')


def locate_run(ref: str, runs_dir: Path, *, answered: bool = True) -> Path:
    """The folder of the run `ref`: `latest`, a run id under `runs_dir`, or a path to a run folder.

    `latest` is the newest run in which something was `answered`, unless there is none or that does not matter.
    """
    if ref == LATEST:
        runs = []
        for path in list_runs(runs_dir):
            found = [stat_file(path, name) for name in (CONFIG, RESULTS)]
            # What only looks like a run must not stand in front of those that are.
            if all(entry is None or stat.S_ISREG(entry.st_mode) for entry in found):
                if not answered or _has_answer(path):
                    return path
                runs.append(path)
        if runs:
            return runs[0]
        raise RunFolderError(f"There is no run in {runs_dir}; make one with `clawgauge run`, or name its --runs-dir.")
    by_id, by_path = runs_dir / ref, Path(ref)
    # A ref with a path in it is never a run id, though `runs_dir / ref` may well exist.
    is_plain = by_path.name == ref and ref != ".."
    for candidate in (by_id, by_path) if is_plain else (by_path,):
        if ref and is_run_folder(candidate):
            return candidate
    looked_for = f"{by_id} and ./{by_path}" if is_plain else str(by_path)
    names = [path.name for path in list_runs(runs_dir)]
    hint = f"{runs_dir} holds no run; check --runs-dir."
    if names:
        containing = [name for name in names if ref and ref in name]
        near = containing or difflib.get_close_matches(ref, names, n=_MAX_SUGGESTIONS, cutoff=0.5) or names
        shown = ", ".join([*near[:_MAX_SUGGESTIONS], *(["…"] if len(near) > _MAX_SUGGESTIONS else [])])
        hint = f"Runs in {runs_dir}: {shown}."
    raise RunFolderError(f"There is no run {ref!r}: looked for {looked_for}. {hint}")


def _has_answer(path: Path) -> bool:
    """Whether one of the first calls on record was answered: of a run that was dead, none is."""
    try:
        with open_file(path, RESULTS) as file:
            return _ANSWERED.search(file.read(_LOOKED_AT_BYTES)) is not None
    except (OSError, RunFolderError):
        return False


def list_runs(runs_dir: Path) -> list[Path]:
    """Every run folder in `runs_dir`, the most recently started first; anything else there is passed over."""
    try:
        found = [path for path in runs_dir.iterdir() if not path.name.startswith(".") and is_run_folder(path)]
    except OSError:
        return []
    runs = [path for path in found if not is_barren(path)]
    return sorted(runs, key=lambda path: (started_at_ms(path), path.name), reverse=True)


def is_run_folder(path: Path) -> bool:
    """A folder with a config.json or a results.jsonl in it, whatever these are."""
    try:
        return path.is_dir() and (stat_file(path, CONFIG) is not None or stat_file(path, RESULTS) is not None)
    except OSError:
        return False
