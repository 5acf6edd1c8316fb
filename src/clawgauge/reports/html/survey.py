"""The first pass over the runs: what there is, counted exactly, how each call ended, and the prompts asked."""

from __future__ import annotations

from array import array
from collections import Counter
from hashlib import blake2b
from typing import Any

import msgspec

from clawgauge.records import Prompt, Result, Target
from clawgauge.reports.html.texts import Text, show_json
from clawgauge.run_data import Row

PASS, FAIL, ANSWERED, NO_ANSWER, ERROR, RATE_LIMITED, AUTH_ERROR, UNAVAILABLE = range(8)
OUTCOMES = ("pass", "fail", "no_verdict", "no_answer", "error", "rate_limited", "auth_error", "unavailable")
_BY_STATUS = {
    "ok": NO_ANSWER,
    "error": ERROR,
    "rate_limited": RATE_LIMITED,
    "auth_error": AUTH_ERROR,
    "skipped_unavailable": UNAVAILABLE,
}


def classify(call: Row | Result) -> int:
    """The code of a call's outcome: its verdict where it was answered, else why it was not."""
    if not call.success:
        return _BY_STATUS[call.availability_status]
    if call.objective_pass is None:
        return ANSWERED
    return PASS if call.objective_pass else FAIL


def describe_prompt(prompt: Prompt) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "prompt": Text(prompt.prompt),
        "system": Text(prompt.system or ""),
        "validator": Text(show_json(prompt.validator)),
        "tools": Text(show_json(prompt.tools)) if prompt.tools else "",
        "world": Text(show_json(prompt.world)) if prompt.world else "",
        "category": prompt.category or "",
        "maxTurns": prompt.max_turns,
    }
    return {key: value for key, value in detail.items() if value}


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


class RunSurvey:
    """Counts every call of one run in the survey of all, and keeps where each stands in the file."""

    def __init__(self, survey: Survey, run: int) -> None:
        self._survey = survey
        self._run = run
        self.digests, self.offsets = array("Q"), array("Q")

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        survey = self._survey
        self.offsets.extend(offsets)
        for row in rows:
            target = survey.target_number(self._run, row.target)
            prompt = survey.prompt_number(row.suite, row.prompt_id, row.prompt_name)
            outcome = classify(row)
            survey.outcomes[target, prompt, outcome] += 1
            if outcome == FAIL:
                survey.violations[target, (row.violation or "unnamed").partition(":")[0]] += 1
            digest = CallName(target, prompt, row.repeat).digest
            self.digests.append(digest)
            survey.digests.setdefault(target, array("Q")).append(digest)
            # What a reader wants to see even where not all can be shown.
            if outcome not in (PASS, ANSWERED):
                survey.digests_to_look_at.setdefault(target, array("Q")).append(digest)
