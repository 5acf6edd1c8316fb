"""Other values for the same prompt (`draw`); drawing 0 leaves all as written.

One number, one text, on every machine: the choices are hashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from clawgauge.checks import spec as shape
from clawgauge.suites.document import Place
from clawgauge.suites.long_text import make_long_text, pick

DRAWN_KEYS = ("prompt", "system", "validator", "world", "variants", "long", "messages")
# Between texts that are drawn together, in a rule and in its choices.
_TOGETHER_SIGN = "|"
_LONG_FIELD = "{long}"
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")


class Drawing(NamedTuple):
    """One drawing of a suite.

    `long_defaults` are for prompts with a long text that leave these keys out.
    """

    number: int
    suite: str
    long_defaults: Mapping[str, Any] = {}

    def seed_of(self, entry: Mapping[str, Any]) -> str:
        return f"{self.number}\0{self.suite}\0{entry.get('id')}"


def draw_values(entry: object, drawing: Drawing, place: Place) -> object:
    """`entry` as the drawing has it, its long texts written out."""
    if not isinstance(entry, dict):
        return entry
    if entry.get("draw") is not None:
        new_texts = draw_texts(entry, drawing, place.at("draw"))
        if new_texts:
            entry = _swap_in_entry(entry, Swap(new_texts))
    if entry.get("long") is not None:
        entry = _write_out_prompt(entry, drawing, place.at("long"))
    world = entry.get("world")
    if isinstance(world, dict) and isinstance(world.get("files"), dict):
        files = _write_out_files(world["files"], drawing.seed_of(entry), place.at("world", "files"))
        entry = {**entry, "world": {**world, "files": files}}
    return {key: value for key, value in entry.items() if key not in ("draw", "long")}


def _swap_in_entry(entry: Mapping[str, Any], swap: Swap) -> dict[str, Any]:
    swapped = {}
    for key, value in entry.items():
        swapped[key] = swap.value(value) if key in DRAWN_KEYS else value
    return swapped


def _write_out_prompt(entry: dict[str, Any], drawing: Drawing, place: Place) -> dict[str, Any]:
    prompt = entry.get("prompt")
    if not isinstance(prompt, str) or _LONG_FIELD not in prompt:
        raise place.refusal(f"fills nothing; write {_LONG_FIELD} in prompt")
    seed = drawing.seed_of(entry)
    text = make_long_text(entry["long"], drawing.long_defaults, seed, place)
    return {**entry, "prompt": prompt.replace(_LONG_FIELD, text)}


def _write_out_files(files: Mapping[str, Any], seed: str, place: Place) -> dict[str, Any]:
    """The files of a world, with the text of those that have a `long` in its stead."""
    written_out = {}
    for path, file in files.items():
        if not isinstance(file, dict) or "long" not in file:
            written_out[path] = file
            continue
        long_place = place.at(path, "long")
        if "text" in file:
            reason = "makes the text of a file that has one in 'text'; keep one of them"
            raise long_place.refusal(reason)
        text = make_long_text(file["long"], {}, f"{seed}\0{path}", long_place)
        others = {key: value for key, value in file.items() if key != "long"}
        written_out[path] = {**others, "text": f"{text}\n"}
    return written_out


class Swap:
    """Texts and what stands in their place.

    All are put in at once: what was put in is not looked at again.
    """

    def __init__(self, new_texts: Mapping[str, str]) -> None:
        # A text may stand in a pattern, too.
        self._new_texts = {_escape(old): _escape(new) for old, new in new_texts.items()}
        self._new_texts.update(new_texts)
        self._pattern: re.Pattern[str] | None = None
        if new_texts:
            longest_first = sorted(self._new_texts, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_bounded, longest_first)))

    def text(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._new_texts[match[0]], text)

    def value(self, value: Any) -> Any:
        """A value with the texts and numbers in it swapped, the names of its keys, too."""
        if shape.is_number(value):
            return self._number(value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def _number(self, number: float) -> float:
        text = self.text(str(number))
        if text == str(number):
            return number
        if text.lstrip("-").isdecimal():
            return int(text)
        return float(text)


def _escape(text: str) -> str:
    return text.replace(".", r"\.")


def draw_texts(entry: Mapping[str, Any], drawing: Drawing, place: Place) -> dict[str, str]:
    """What the drawing puts in the place of what.

    Nothing in drawing 0, but every rule is checked all the same.
    """
    rules = entry["draw"]
    if not isinstance(rules, dict) or not rules:
        wanted = "an object of texts and what may stand in their place"
        raise place.refusal(f'must be {wanted}: {{"ash" = ["elm", "oak"]}}')
    texts = []
    numbers = set()
    for leaf in _leaves_of([entry.get(key) for key in DRAWN_KEYS]):
        if isinstance(leaf, str):
            texts.append(leaf)
        else:
            numbers.add(str(leaf))
    everything = "\n".join([*texts, *numbers])
    new_texts: dict[str, str] = {}
    for rule, choices in rules.items():
        rule_place = place.at(rule)
        old_texts = rule.split(_TOGETHER_SIGN)
        _check_choices(old_texts, choices, numbers, rule_place)
        for text in old_texts:
            if text in new_texts:
                raise rule_place.refusal(f"{text!r} is drawn twice; draw it once")
            if not text or not re.search(_bounded(text), everything):
                reason = "stands nowhere in this prompt; write it as it stands there"
                raise rule_place.refusal(f"{text!r} {reason}")
        choice = rule
        if drawing.number:
            choice = _choose(choices, drawing, _choice_seed(entry, rule, drawing))
        new_texts.update(zip(old_texts, choice.split(_TOGETHER_SIGN), strict=True))
    return new_texts if drawing.number else {}


def _choice_seed(entry: Mapping[str, Any], rule: str, drawing: Drawing) -> str:
    """What the choices of a rule hang on, apart from the drawing's number.

    The two prompts of a pair have the same words: rules of theirs that begin with the same text are
    drawn alike, although one of the two may have more to replace.
    """
    first_id = entry.get("pair") or entry.get("id")
    first_text = rule.partition(_TOGETHER_SIGN)[0]
    return f"{drawing.suite}\0{first_id}\0{first_text}"


def _choose(choices: list[str], drawing: Drawing, seed: str) -> str:
    """The choice of one rule in a drawing.

    Each round of as many drawings as there are choices takes every choice once, in an order of its
    own. So three choices are enough for drawings 1 to 3 to differ.
    """
    round_number, turn = divmod(drawing.number - 1, len(choices))
    order = sorted(
        range(len(choices)), key=lambda index: pick(f"{seed}\0{round_number}\0{index}", 2**63)
    )
    return choices[order[turn]]


def _check_choices(
    old_texts: list[str], choices: Any, numbers: Iterable[str], place: Place
) -> None:
    """Refuse choices that could not stand in the place of the texts, or of the numbers they are."""
    is_list_of_texts = isinstance(choices, list) and all(
        isinstance(choice, str) for choice in choices
    )
    if not is_list_of_texts or not choices:
        raise place.refusal("must be a list of texts and no empty one")
    number_texts = {old for old in old_texts if _stands_in_any(old, numbers)}
    for index, choice in enumerate(choices):
        parts = choice.split(_TOGETHER_SIGN)
        if len(parts) != len(old_texts):
            wanted = f"{len(old_texts)} parts between '{_TOGETHER_SIGN}', as its key has"
            raise place.at(index).refusal(f"must have {wanted}")
        for old, new in zip(old_texts, parts, strict=True):
            if old in number_texts and not _NUMBER.fullmatch(new):
                reason = f"takes the place of the number {old}; write a number"
                raise place.at(index).refusal(f"{new!r} {reason}")


def _stands_in_any(text: str, numbers: Iterable[str]) -> bool:
    return any(re.search(_bounded(text), number) for number in numbers)


def _bounded(text: str) -> str:
    r"""A pattern for `text` where it is no part of a longer word or number.

    It may follow an author's `\b`.
    """
    before = ""
    after = ""
    if re.match(r"\w", text):
        before = r"(?:(?<!\w)(?<!\d\.)|(?<=\\b))" if text[0].isdigit() else r"(?:(?<!\w)|(?<=\\b))"
    if re.search(r"\w\Z", text):
        after = r"(?!\w)(?!\.\d)" if text[-1].isdigit() else r"(?!\w)"
    return f"{before}{re.escape(text)}{after}"


def _leaves_of(value: Any) -> Iterator[str | int | float]:
    """Every text, key or value, and every number."""
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _leaves_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves_of(item)
    elif type(value) in (str, int, float):
        yield value
