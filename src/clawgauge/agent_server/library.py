"""Which runs an agent may see: those in one folder, by their names, none that hold the user's own
work."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from clawgauge.errors import ClawgaugeError, RunFolderError
from clawgauge.journal import list_runs, stat_file
from clawgauge.journal.disk import CONFIG, RESULTS
from clawgauge.journal.locate import has_answer
from clawgauge.journal.names import LATEST
from clawgauge.records import RunConfig, RunSummary
from clawgauge.run_data import Run
from clawgauge.run_data.schedule import is_own_work
from clawgauge.summary import summarize_folder

_MAX_SUMMARIES = 64


class VisibleRuns(NamedTuple):
    """The runs that may be seen, the newest first, and how many others there are."""

    paths: list[Path]
    n_of_own_work: int
    n_unreadable: int


class RunLibrary:
    """The runs in `runs_dir`. A run is asked for by its name, never by a path, and links are passed
    over: nothing outside the folder can be reached.

    With `include_own_work` runs that hold the user's own prompt or history count, too.
    """

    def __init__(self, runs_dir: Path, *, include_own_work: bool) -> None:
        self.runs_dir = runs_dir
        self._include_own_work = include_own_work
        self._cached_summary = lru_cache(maxsize=_MAX_SUMMARIES)(_summarize)

    def visible_runs(self) -> VisibleRuns:
        paths = []
        n_of_own_work = 0
        n_unreadable = 0
        for path in list_runs(self.runs_dir):
            if path.is_symlink():
                continue
            try:
                is_left_out = self._is_left_out(path)
            except ClawgaugeError:
                # Whose work it is cannot be told.
                n_unreadable += 1
                continue
            if is_left_out:
                n_of_own_work += 1
            else:
                paths.append(path)
        return VisibleRuns(paths, n_of_own_work, n_unreadable)

    def find(self, name: str) -> Path:
        """The folder of a run. Raises `RunFolderError` where no such run may be seen."""
        runs = self.visible_runs()
        if name == LATEST:
            for path in runs.paths:
                if has_answer(path, loads=True):
                    return path
            if runs.paths:
                return runs.paths[0]
        for path in runs.paths:
            if path.name == name:
                return path
        hint = "list_runs names the runs that there are"
        if runs.n_of_own_work and not self._include_own_work:
            hint += (
                "; runs of the user's own work are left out, unless the user starts "
                "clawgauge mcp with --include-own-work"
            )
        raise RunFolderError(f"There is no run {name!r} to be seen here: {hint}.")

    def summarize(self, path: Path) -> RunSummary:
        """The summary, made from the records. Raises `ClawgaugeError` where they cannot be read."""
        status = stat_file(path, RESULTS)
        if status is None:
            return self._cached_summary(path, 0, 0)
        return self._cached_summary(path, status.st_size, status.st_mtime_ns)

    def _is_left_out(self, path: Path) -> bool:
        if self._include_own_work:
            return False
        status = stat_file(path, CONFIG)
        if status is None:
            # Without config.json there is no prompt in the folder; but what was asked is unknown,
            # too, unless it is a folder of the first harness.
            return not Run.open(path).first_harness
        return _holds_own_work(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _holds_own_work(path: Path, _size: int, _mtime_ns: int) -> bool:
    run = Run.open(path)
    config = run.config
    if config is None:
        return not run.first_harness
    return holds_own_work(config)


def holds_own_work(config: RunConfig) -> bool:
    """Whether a run asked the user's own prompt, or turns of their own history."""
    if config.context is not None:
        return True
    return any(prompt.in_context or is_own_work(prompt) for prompt in config.prompts)


def _summarize(path: Path, _size: int, _mtime_ns: int) -> RunSummary:
    return summarize_folder(path)
