"""The first pass over the runs of a report: every call is counted, and where they are too many,
those to embed are chosen."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from clawgauge.records import RunSummary, Target
from clawgauge.reports.html.calls import ANSWERED, FAIL, NOT_ASKED, PASS, classify
from clawgauge.run_data import Row, Run
from clawgauge.summary import Strata, summarize

MAX_CALLS = 20_000


def call_digest(target: int, prompt: int, repeat: int) -> int:
    """A number for a call that looks random and is the same every time; target and prompt by their
    numbers."""
    name = b"%d/%d/%d" % (target, prompt, repeat)
    return int.from_bytes(blake2b(name, digest_size=8).digest())


class Survey:
    """What all runs of a report hold.

    Targets and prompts have numbers, in the order in which they came. `outcomes` counts the calls
    by target, prompt and outcome; `digests` has the calls of each target in the order of the file,
    `digests_to_look_at` those that went wrong."""

    def __init__(self) -> None:
        self.targets: dict[tuple[int, Target], int] = {}
        self.prompts: dict[tuple[str, str], int] = {}
        self.prompt_names: dict[tuple[str, str], str] = {}
        self.outcomes: Counter[tuple[int, int, int]] = Counter()
        self.digests: dict[int, array[int]] = {}
        self.digests_to_look_at: dict[int, array[int]] = {}

    def target_number(self, run: int, target: Target) -> int:
        return self.targets.setdefault((run, target), len(self.targets))

    def prompt_number(self, suite: str, prompt_id: str, name: str) -> int:
        self.prompt_names.setdefault((suite, prompt_id), name)
        return self.prompts.setdefault((suite, prompt_id), len(self.prompts))

    def count(self, target: int, prompt: int, outcome: int, digest: int) -> None:
        self.outcomes[target, prompt, outcome] += 1
        self.digests.setdefault(target, array("Q")).append(digest)
        # What a reader wants to see even where not all can be shown.
        if outcome not in (PASS, ANSWERED, NOT_ASKED):
            self.digests_to_look_at.setdefault(target, array("Q")).append(digest)


class CallCounter:
    """A collector: counts the calls of one run in the survey, and keeps where each stands in the
    file."""

    def __init__(self, survey: Survey, run_number: int) -> None:
        self.violations: Counter[str] = Counter()
        self.digests: array[int] = array("Q")
        self.offsets: array[int] = array("Q")
        self._survey = survey
        self._run_number = run_number

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        survey = self._survey
        self.offsets.extend(offsets)
        for row in rows:
            target = survey.target_number(self._run_number, row.target)
            prompt = survey.prompt_number(row.suite, row.prompt_id, row.prompt_name)
            outcome = classify(row)
            if outcome == FAIL:
                code = (row.violation or "unnamed").partition(":")[0]
                self.violations[code] += 1
            digest = call_digest(target, prompt, row.repeat)
            self.digests.append(digest)
            survey.count(target, prompt, outcome, digest)


@dataclass(frozen=True, slots=True)
class SurveyedRun:
    """One run to report on. `number` is its place among the runs of the report; `digests` and
    `offsets` go through its calls together."""

    number: int
    run: Run
    summary: RunSummary
    violations: Counter[str]
    digests: array[int]
    offsets: array[int]


def read_runs(paths: Sequence[Path], survey: Survey) -> list[SurveyedRun]:
    """The runs in these folders, each gone through once; `survey` counts their calls."""
    runs = [Run.open(path) for path in paths]
    # Prompts are numbered in the order of the suites, asked or not.
    for run in runs:
        for prompt in run.config.prompts if run.config else ():
            survey.prompt_number(prompt.suite, prompt.id, prompt.name)
    return [_read_run(number, run, survey) for number, run in enumerate(runs)]


def _read_run(number: int, run: Run, survey: Survey) -> SurveyedRun:
    for target in run.config.targets if run.config else ():
        survey.target_number(number, target)
    strata = Strata()
    calls = CallCounter(survey, number)
    rows_read = run.feed(strata, calls)
    return SurveyedRun(
        number=number,
        run=run,
        summary=summarize(run, strata, rows_read),
        violations=calls.violations,
        digests=calls.digests,
        offsets=calls.offsets,
    )


@dataclass(frozen=True, slots=True)
class CallChoice:
    """The digests of the calls to embed; with `everything` set, all of them.

    `n_calls` and `n_to_look_at` count all calls of the runs, and those among them that went
    wrong."""

    everything: bool
    n_calls: int
    n_to_look_at: int
    sampled: Set[int] = frozenset()
    looked_at: Set[int] = frozenset()

    def has(self, digest: int) -> bool:
        return self.everything or digest in self.sampled or digest in self.looked_at

    def is_sampled(self, digest: int) -> bool:
        return self.everything or digest in self.sampled


def choose_calls(survey: Survey, max_calls: int = MAX_CALLS) -> CallChoice:
    """All calls where they fit.

    Else an even sample of each target's, and the first of each target's that went wrong, in at most
    half of the room. The room is shared so that no target crowds out another."""
    sizes = _count_each(survey.digests)
    sizes_to_look_at = _count_each(survey.digests_to_look_at)
    n_calls = sum(sizes.values())
    n_to_look_at = sum(sizes_to_look_at.values())
    if n_calls <= max_calls:
        return CallChoice(everything=True, n_calls=n_calls, n_to_look_at=n_to_look_at)
    room_to_look_at = min(n_to_look_at, max_calls // 2)
    looked_at: set[int] = set()
    for target, n in share_room(sizes_to_look_at, room_to_look_at).items():
        looked_at.update(islice(survey.digests_to_look_at[target], n))
    sampled: set[int] = set()
    for target, n in share_room(sizes, max_calls - room_to_look_at).items():
        # The smallest of what looks random is a fair sample, whatever order the calls were made in.
        sampled.update(heapq.nsmallest(n, survey.digests[target]))
    return CallChoice(
        everything=False,
        n_calls=n_calls,
        n_to_look_at=n_to_look_at,
        sampled=sampled,
        looked_at=looked_at,
    )


def _count_each(digests: Mapping[int, array[int]]) -> dict[int, int]:
    return {target: len(of_target) for target, of_target in digests.items()}


def share_room(sizes: Mapping[int, int], room: int) -> dict[int, int]:
    """How many of each may come in: all that it has where that is little, an equal part of the rest
    where it is much."""
    shares: dict[int, int] = {}
    for key, size in sorted(sizes.items(), key=lambda item: item[1]):
        n_waiting = len(sizes) - len(shares)
        shares[key] = min(size, room // n_waiting)
        room -= shares[key]
    return shares
