"""The first pass over the runs: what there is, counted exactly, before anything is chosen for the page.

Owns: the numbering of targets and prompts, the counts behind the model × prompt matrix and the violations, and a digest
per call by which calls are chosen. Refuses: holding records; a run of a million calls passes in a few megabytes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from clawgauge.records import CellRow, Target
from clawgauge.reports.html.outcomes import FAIL, classify, needs_a_look


class CallRow(CellRow, frozen=True, kw_only=True, gc=False):
    """One line of results.jsonl, as far as a survey looks at it."""

    prompt_name: str = ""
    violation: str | None = None


class CallName(msgspec.Struct, frozen=True, gc=False):
    """What tells a call from every other one of the report; `target` and `prompt` are numbers of the survey."""

    target: int
    prompt: int
    repeat: int

    @property
    def digest(self) -> int:
        """A number that looks random and is the same every time."""
        packed = b"%d/%d/%d" % (self.target, self.prompt, self.repeat)
        return int.from_bytes(blake2b(packed, digest_size=8).digest())


class Survey:
    """Numbers and counts of all runs of a report, in the order they are looked at."""

    def __init__(self) -> None:
        self.targets: dict[tuple[int, Target], int] = {}
        self.prompts: dict[tuple[str, str], int] = {}
        self.prompt_names: list[str] = []
        self.outcomes: Counter[tuple[int, int, int]] = Counter()
        self.violations: Counter[tuple[int, str]] = Counter()
        self.digests: dict[int, array[int]] = {}
        self.digests_to_look_at: dict[int, array[int]] = {}

    @property
    def n_calls(self) -> int:
        return sum(map(len, self.digests.values()))

    def target_number(self, run: int, target: Target) -> int:
        return self.targets.setdefault((run, target), len(self.targets))

    def prompt_number(self, suite: str, prompt_id: str, name: str) -> int:
        number = self.prompts.setdefault((suite, prompt_id), len(self.prompts))
        if number == len(self.prompt_names):
            self.prompt_names.append(name)
        return number

    def look_at(self, run: int, rows: Iterable[CallRow]) -> None:
        """Count every call of one run."""
        for row in rows:
            target = self.target_number(run, Target(row.provider, row.model, row.thinking_level))
            prompt = self.prompt_number(row.suite, row.prompt_id, row.prompt_name)
            outcome = classify(row)
            self.outcomes[target, prompt, outcome] += 1
            if outcome == FAIL:
                self.violations[target, (row.violation or "unnamed").partition(":")[0]] += 1
            digest = CallName(target, prompt, row.repeat).digest
            self.digests.setdefault(target, array("Q")).append(digest)
            if needs_a_look(outcome):
                self.digests_to_look_at.setdefault(target, array("Q")).append(digest)
