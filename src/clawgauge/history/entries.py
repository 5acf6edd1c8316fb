"""The runs of a folder, each read once at most: its summary where that still holds, else its
records."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median

import msgspec

from clawgauge.compare.comparability import prompt_fingerprint
from clawgauge.errors import RunFolderError
from clawgauge.history.findings import UnreadableRun
from clawgauge.journal import is_run_folder, list_runs
from clawgauge.records import GroupSummary, PromptKey, RunSummary, Target
from clawgauge.run_data import RowsRead, Run, read_schedule
from clawgauge.summary import Strata, summarize
from clawgauge.summary.groups import Group
from clawgauge.summary.rates import cluster
from clawgauge.summary.stored import read_summary
from clawgauge.summary.summarize import summarize_group


class RunEntry:
    """One run that could be read. `fingerprints` tells the content of every prompt it holds."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.path = run.path
        self.config = run.config
        self.started_at_ms = run.started_at_ms
        self.fingerprints: dict[PromptKey, str] = {}
        if run.config is not None:
            for prompt in run.config.prompts:
                self.fingerprints[prompt.key] = prompt_fingerprint(prompt)
        self.summary = self._read_summary()

    @property
    def run_id(self) -> str:
        return self.summary.run_id

    @property
    def is_decision(self) -> bool:
        """Whether the answers decided what was asked."""
        return self.config is not None and self.config.decision is not None

    @property
    def decides_jobs(self) -> bool:
        """Whether it asked until jobs were decided: no list of prompts was to be asked."""
        decision = None if self.config is None else self.config.decision
        return decision is not None and bool(decision.jobs)

    @property
    def is_load(self) -> bool:
        """Whether it is a capacity run."""
        return self.config is not None and self.config.capacity is not None

    def cells(self, target: Target) -> dict[PromptKey, bool]:
        """Which prompts have a record of this target, and whether one of these is an answer."""
        cells: dict[PromptKey, bool] = {}
        group = self._groups.get(target)
        if group is not None:
            for ending in group.endings:
                cells[ending.prompt] = cells.get(ending.prompt, False) or ending.answered
        return cells

    def prompt_medians_ms(self, target: Target, suite: str | None) -> dict[PromptKey, float]:
        """How long a whole call of each prompt took in the middle; with `suite`, of its prompts
        alone."""
        medians = {}
        group = self._groups.get(target)
        if group is not None:
            for key, times_ms in group.prompt_times_ms().items():
                if suite in (None, key[0]):
                    medians[key] = median(times_ms)
        return medians

    def prompt_rates(self, target: Target, suite: str | None) -> dict[PromptKey, float]:
        """What share of its verdicts each prompt passed; with `suite`, of its prompts alone."""
        outcomes = []
        group = self._groups.get(target)
        if group is not None:
            for ending in group.endings:
                if ending.judged and suite in (None, ending.suite):
                    outcomes.append((ending.prompt, ending.passed, ending.n))
        return {key: prompt.passes / prompt.trials for key, prompt in cluster(outcomes).items()}

    def asked_prompts(self, target: Target, suite: str | None) -> set[PromptKey]:
        """The prompts that were asked; with `suite`, of its prompts alone."""
        group = self._groups.get(target)
        if group is None:
            return set()
        prompt_keys = set()
        for ending in group.endings:
            if ending.was_asked and suite in (None, ending.suite):
                prompt_keys.add(ending.prompt)
        return prompt_keys

    def summarize_only(self, target: Target, prompts: Collection[PromptKey]) -> GroupSummary:
        """The figures of a target over some of the prompts it was asked."""
        strata = Strata(only=(target, prompts))
        self._run.feed(strata)
        group = strata.groups([target])[target]
        config = self.config
        if config is not None:
            shared_prompts = [prompt for prompt in config.prompts if prompt.key in prompts]
            config = msgspec.structs.replace(config, prompts=shared_prompts)
        return summarize_group(group, read_schedule(config), self._run.events, {})

    def _read_summary(self) -> RunSummary:
        """summary.json, where this version made it of these records; else it is made anew."""
        stored = read_summary(self._run)
        if stored is not None:
            return stored
        strata, rows_read = self._counted
        return summarize(self._run, strata, rows_read)

    @cached_property
    def _groups(self) -> dict[Target, Group]:
        strata, _ = self._counted
        return strata.groups()

    @cached_property
    def _counted(self) -> tuple[Strata, RowsRead]:
        """The one pass over the records; a summary that holds spares most runs this pass."""
        strata = Strata()
        rows_read = self._run.feed(strata)
        return strata, rows_read


def read_entries(runs_dir: Path) -> tuple[list[RunEntry], list[UnreadableRun]]:
    """Every run in `runs_dir`, the newest first, and what could not be read."""
    unreadable = []
    for path in _find_closed_folders(runs_dir):
        reason = f"Cannot read {path}; check its permissions."
        unreadable.append(UnreadableRun(path=str(path), reason=reason))
    entries = []
    for path in list_runs(runs_dir):
        try:
            entries.append(RunEntry(Run.open(path)))
        except RunFolderError as error:
            unreadable.append(UnreadableRun(path=str(path), reason=str(error)))
    return entries, unreadable


def _find_closed_folders(runs_dir: Path) -> Sequence[Path]:
    """Folders nobody may look into: there may be a run in them."""
    closed = []
    try:
        for path in sorted(runs_dir.iterdir()):
            is_open = os.access(path, os.R_OK | os.X_OK)
            if path.is_dir() and not is_run_folder(path) and not is_open:
                closed.append(path)
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(
            f"There is no folder {runs_dir}; make a run with `clawgauge run`, or name its "
            f"--runs-dir."
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFolderError(
            f"Cannot read {runs_dir} ({reason}); check its permissions."
        ) from error
    return closed
