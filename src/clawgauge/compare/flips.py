"""Which prompts changed sides, and what was answered.

Owns: what counts as flipped, which prompts only one side answered, and reading the answers of flipped prompts back.
Refuses: showing them; an answer is foreign text until a report has cleaned it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawgauge.compare.findings import Flip, Unanswered
from clawgauge.compare.pairing import SharedPrompt
from clawgauge.compare.tallies import PromptTally
from clawgauge.journal import iter_results
from clawgauge.records import CellRow, Target
from clawgauge.summary.schedule import PromptKey

MAX_ANSWER_CHARS = 4_000
NOT_ASKED = "not asked"


class AnswerRow(CellRow, frozen=True, kw_only=True, gc=False):
    """One answer and its verdict."""

    raw_output: str = ""


def find_flips(prompts: Sequence[SharedPrompt]) -> list[Flip]:
    """Prompts that most repeats passed on one side and not on the other: the lost ones first."""
    flips = [_flip(prompt) for prompt in prompts if _passes(prompt.a) is not None and _passes(prompt.b) is not None]
    return sorted((flip for flip in flips if flip is not None), key=lambda flip: flip.direction != "lost")


def _flip(prompt: SharedPrompt) -> Flip | None:
    before, after = prompt.a, prompt.b
    if _passes(before) == _passes(after):
        return None
    lost = bool(_passes(before))
    suite, prompt_id = prompt.key_a if prompt.key_a[0] else prompt.key_b
    return Flip(
        suite=suite,
        prompt_id=prompt_id,
        prompt_name=after.name or before.name,
        direction="lost" if lost else "gained",
        passes_a=before.n_passed,
        trials_a=before.n_judged,
        passes_b=after.n_passed,
        trials_b=after.n_judged,
        violation=after.violation if lost else before.violation,
    )


def _passes(tally: PromptTally) -> bool | None:
    return 2 * tally.n_passed > tally.n_judged if tally.n_judged else None


def find_unanswered(prompts: Sequence[SharedPrompt]) -> list[Unanswered]:
    """Prompts with a success on one side and none on the other: no pair, and easily overlooked."""
    found = []
    for prompt in prompts:
        answered_a, answered_b = _has_success(prompt.a), _has_success(prompt.b)
        if answered_a == answered_b:
            continue
        silent = prompt.b if answered_a else prompt.a
        if not silent.n_scheduled:
            # Left out on purpose, because the tier was already decided.
            continue
        suite, prompt_id = prompt.key_a if prompt.key_a[0] else prompt.key_b
        found.append(
            Unanswered(
                suite=suite,
                prompt_id=prompt_id,
                missing_in="b" if answered_a else "a",
                failure_type=silent.failure_type or NOT_ASKED,
            )
        )
    return found


def _has_success(tally: PromptTally) -> bool:
    return tally.n_judged > 0 or len(tally.e2e_ms) > 0 or tally.n_cold > 0


def read_answers(path: Path, target: Target, wanted: dict[PromptKey, bool]) -> dict[PromptKey, str]:
    """For each prompt the first answer with the wanted verdict, cut to a length a person reads."""
    answers: dict[PromptKey, str] = {}
    for row in iter_results(path, AnswerRow):
        key = (row.suite, row.prompt_id)
        if key in answers or wanted.get(key) is not row.objective_pass or row.objective_pass is None:
            continue
        if Target(row.provider, row.model, row.thinking_level) == target:
            answers[key] = _bounded(row.raw_output)
    return answers


def _bounded(text: str) -> str:
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    return f"{text[:MAX_ANSWER_CHARS]}\n… {len(text) - MAX_ANSWER_CHARS} characters more"
