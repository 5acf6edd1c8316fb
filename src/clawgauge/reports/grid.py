"""A small run prompt by prompt: what each model answered, and why a failure is one.

Of a run of few prompts a person wants to see the answers themselves, and not a rate of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from clawgauge.records import Result, RunSummary
from clawgauge.reports.clean import one_line
from clawgauge.reports.document import Column, Commands, Prose, Section, Table
from clawgauge.reports.words import name_models
from clawgauge.run_data import Row, Run
from clawgauge.run_data.resume import show_command
from clawgauge.summary.trust import word_violation
from clawgauge.verdict import best_first
from clawgauge.words import ABSENT

MAX_PROMPTS = 20
_MAX_MODELS = 4
_MAX_REPEATS = 10
_MAX_ANSWER_CHARS = 32
_MAX_REASON_CHARS = 40
_MAX_PROMPT_CHARS = 32
# How a check tells what it wanted instead.
_WANTED = ", wanted "
_WRONG_CALL_COUNT = "wrong_call_count"
_NOT_CALLED = "not_called"
_PASSED = "✓"
_FAILED = "✗"

NO_GRID = Section("", [])
"""What is shown of a run that is too large for a grid."""

_PromptKey = tuple[str, str, int]


class _Place(NamedTuple):
    """One square of the grid."""

    prompt: _PromptKey
    target: str


class _CellFinder:
    """Finds the rows of each square, and gives up where there are more prompts than a grid
    shows."""

    def __init__(self) -> None:
        self.offsets: dict[_Place, list[int]] = {}
        self.names: dict[_PromptKey, str] = {}
        self.is_too_large = False

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        for row, offset in zip(rows, offsets, strict=True):
            if self.is_too_large:
                return
            self.names.setdefault(row.text, row.prompt_name)
            place = _Place(prompt=row.text, target=row.target.label)
            self.offsets.setdefault(place, []).append(offset)
            self.is_too_large = len(self.names) > MAX_PROMPTS


def describe_grid(path: Path, summary: RunSummary) -> Section:
    """The models beside each other, a row a prompt; nothing of a run that is too large for it."""
    groups = best_first(summary.models, summary.jobs)
    if summary.capacity or not 0 < len(groups) <= _MAX_MODELS:
        return NO_GRID
    if sum(group.attempted for group in groups) > MAX_PROMPTS * _MAX_MODELS * _MAX_REPEATS:
        return NO_GRID
    run = Run.open(path)
    finder = _CellFinder()
    run.feed(finder)
    if finder.is_too_large or not finder.names:
        return NO_GRID
    results_by_place = _read_results(run, finder)
    labels = [group.target.label for group in groups]
    rows = []
    for prompt, name in finder.names.items():
        cells = []
        for label in labels:
            cells.append(_word_cell(results_by_place.get(_Place(prompt, label), [])))
        rows.append([_word_prompt(prompt, name, finder.names), *cells])
    names = name_models(labels)
    columns = [Column("prompt", narrow="cut")]
    for label in labels:
        columns.append(Column(names[label], narrow="wrapped"))
    table = Table(columns, rows, ruled=True)
    in_full = Prose(["one of these in full:"])
    return Section("prompt by prompt", [table, in_full, Commands([show_command(path, "PROMPT")])])


def _read_results(run: Run, finder: _CellFinder) -> dict[_Place, list[Result]]:
    place_of_offset: dict[int, _Place] = {}
    for place, offsets in finder.offsets.items():
        for offset in offsets:
            place_of_offset[offset] = place
    results: dict[_Place, list[Result]] = {}
    for offset, result in run.results_at(sorted(place_of_offset)):
        results.setdefault(place_of_offset[offset], []).append(result)
    return results


def _word_prompt(prompt: _PromptKey, name: str, prompts: Iterable[_PromptKey]) -> str:
    """`P3 strict_json`, with the suite before it where there are several: what `show` takes."""
    suite, prompt_id, draw = prompt
    is_one_suite = len({other_suite for other_suite, _, _ in prompts}) == 1
    label = prompt_id if is_one_suite or not suite else f"{suite}/{prompt_id}"
    if draw:
        name = f"{name} (drawing {draw})"
    return one_line(f"{label} {name}", _MAX_PROMPT_CHARS)


def _word_cell(results: list[Result]) -> str:
    """The mark, the answer in a few words, and of a failure its reason; of repeats how many passed,
    and the first that did not."""
    asked_results = [result for result in results if result.was_asked]
    if not asked_results:
        return ABSENT
    representative = next(
        (result for result in asked_results if not result.objective_pass), asked_results[0]
    )
    cell = _word_result(representative)
    if len(asked_results) == 1:
        return cell
    n_passed = sum(bool(result.objective_pass) for result in asked_results)
    return f"{n_passed} of {len(asked_results)} passed, {cell}"


def _word_result(result: Result) -> str:
    if not result.success:
        reason = result.failure_type or result.availability_status
        return f"no answer: {_plain(reason)}"
    answer = _word_answer(result)
    if result.objective_pass is None:
        return answer
    if result.objective_pass:
        return f"{_PASSED} {answer}"
    reason = _word_reason(result.violation or "")
    return f"{_FAILED} {answer}: {reason}" if reason else f"{_FAILED} {answer}"


def _word_reason(violation: str) -> str:
    """Why an answer failed: what was wanted, where a few words say that."""
    code, _, detail = violation.partition(":")
    _, separator, wanted = detail.rpartition(_WANTED)
    if separator and len(wanted) <= _MAX_REASON_CHARS:
        return one_line(f"wanted {wanted}", _MAX_REASON_CHARS)
    if code == _WRONG_CALL_COUNT and detail:
        # `0 native calls, 1 expected`
        is_none = detail.split()[0] == "0"
        return word_violation(_NOT_CALLED) if is_none else one_line(detail, _MAX_REASON_CHARS)
    return one_line(word_violation(code), _MAX_REASON_CHARS) if code else ""


def _word_answer(result: Result) -> str:
    """The text of the answer, or the tools that it calls."""
    text = one_line(result.raw_output, _MAX_ANSWER_CHARS)
    if text:
        return text
    calls = []
    for call in result.tool_invocations:
        arguments = json.dumps(call.arguments, ensure_ascii=False) if call.arguments else ""
        calls.append(f"{call.name}({arguments})")
    if calls:
        return one_line(", ".join(calls), _MAX_ANSWER_CHARS)
    return "(nothing)"


def _plain(code: str) -> str:
    return one_line(code.replace("_", " "), _MAX_REASON_CHARS)
