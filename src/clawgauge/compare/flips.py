"""The prompts that changed sides, those that only one side answered, and the answers themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from clawgauge.compare.findings import Flip, PairComparison, Unanswered
from clawgauge.compare.pairing import SharedPrompt
from clawgauge.compare.sides import Side
from clawgauge.compare.tallies import PromptTally
from clawgauge.words import cut_text

MAX_ANSWER_CHARS = 4_000
MAX_ANSWERS = 50


def find_flips(prompts: Sequence[SharedPrompt]) -> list[Flip]:
    """The prompts that passed on one side and not on the other, the lost ones first."""
    lost = []
    gained = []
    for prompt in prompts:
        if not prompt.a.n_judged or not prompt.b.n_judged:
            continue
        if prompt.a.passes == prompt.b.passes:
            continue
        if prompt.a.passes:
            lost.append(_make_flip(prompt, failed=prompt.b))
        else:
            gained.append(_make_flip(prompt, failed=prompt.a))
    return lost + gained


def _make_flip(prompt: SharedPrompt, failed: PromptTally) -> Flip:
    suite, prompt_id = prompt.key
    return Flip(
        suite=suite,
        prompt_id=prompt_id,
        prompt_name=prompt.b.name or prompt.a.name,
        direction="lost" if failed is prompt.b else "gained",
        passes_a=prompt.a.n_passed,
        trials_a=prompt.a.n_judged,
        passes_b=prompt.b.n_passed,
        trials_b=prompt.b.n_judged,
        violation=failed.violation,
    )


def find_unanswered(prompts: Sequence[SharedPrompt]) -> list[Unanswered]:
    """Prompts with a success on one side and none on the other: no pair, and easily overlooked."""
    unanswered = []
    for prompt in prompts:
        if prompt.a.has_success == prompt.b.has_success:
            continue
        silent = prompt.b if prompt.a.has_success else prompt.a
        # What was not planned was left out on purpose, because the tier was already decided.
        if silent.n_planned == silent.n_recorded == 0:
            continue
        suite, prompt_id = prompt.key
        unanswered.append(
            Unanswered(
                suite=suite,
                prompt_id=prompt_id,
                missing_in="b" if prompt.a.has_success else "a",
                failure_type=silent.failure_type or "not asked",
            )
        )
    return unanswered


class _AnswerOffsets(NamedTuple):
    """Where the answers that a flip is shown with begin; None where there is none."""

    a: int | None
    b: int | None


def add_answers(
    a: Side,
    b: Side,
    prompts_by_pair: Sequence[Sequence[SharedPrompt]],
    pairs: Sequence[PairComparison],
) -> list[PairComparison]:
    """The pairs with both answers of their first flips: on each side the first that has its
    verdict. A run is read once."""
    offsets_by_pair = []
    for prompts, pair in zip(prompts_by_pair, pairs, strict=True):
        offsets_by_pair.append(_find_offsets(prompts, pair.flips[:MAX_ANSWERS]))
    texts_a = _read_answers(a, [flip.a for offsets in offsets_by_pair for flip in offsets])
    texts_b = _read_answers(b, [flip.b for offsets in offsets_by_pair for flip in offsets])
    with_answers = []
    for pair, offsets in zip(pairs, offsets_by_pair, strict=True):
        flips = list(pair.flips)
        for number, flip_offsets in enumerate(offsets):
            flips[number] = msgspec.structs.replace(
                flips[number],
                answer_a=texts_a.get(flip_offsets.a),
                answer_b=texts_b.get(flip_offsets.b),
            )
        with_answers.append(msgspec.structs.replace(pair, flips=flips))
    return with_answers


def _find_offsets(prompts: Sequence[SharedPrompt], flips: Sequence[Flip]) -> list[_AnswerOffsets]:
    prompt_by_key = {prompt.key: prompt for prompt in prompts}
    offsets = []
    for flip in flips:
        prompt = prompt_by_key[flip.suite, flip.prompt_id]
        passed_in_a = flip.direction == "lost"
        offsets.append(
            _AnswerOffsets(
                a=prompt.a.first_offset_by_verdict.get(passed_in_a),
                b=prompt.b.first_offset_by_verdict.get(not passed_in_a),
            )
        )
    return offsets


def _read_answers(side: Side, offsets: Sequence[int | None]) -> dict[int | None, str]:
    """The answers of the side's first run, by where their lines begin."""
    present = [offset for offset in offsets if offset is not None]
    texts: dict[int | None, str] = {}
    if present:
        for offset, result in side.first_run.results_at(present):
            texts[offset] = cut_text(result.raw_output, MAX_ANSWER_CHARS)
    return texts
