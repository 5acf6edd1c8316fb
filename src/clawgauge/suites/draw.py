"""Other values for the same prompt (`draw`; drawing 0 leaves all as written), long texts to find something in (`long`),
and several prompts made of one (`variants`). One number, one text, on every machine: the choices are hashes."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from clawgauge.checks import spec as shape
from clawgauge.errors import SuiteError
from clawgauge.suites.document import Place

DRAWN_KEYS = ("prompt", "system", "validator", "world", "variants", "long", "messages")
FILLED_KEYS = ("prompt", "system", "validator", "messages")
_TEXTS = ("prompt", "system")
_TOGETHER, _LONG_FIELD = "|", "{long}"
_LINES = shape.ListOf(shape.any_text, "lines")
LONG_KEYS: dict[str, shape.Shape] = {"tokens": shape.whole_number(1, 200_000), "of": _LINES}
LONG_KEYS |= {"insert": replace(_LINES, least=0)}
_LONG = shape.Fields({key: LONG_KEYS[key] for key in ("tokens", "of")}, {"insert": LONG_KEYS["insert"]})
# `\p{Greek}` and `\x{FF}` belong to patterns.
_FIELD = re.compile(r"(?<!\\[pPx])\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What common tokenizers make one token of: a word of no great length, a digit, a blank before one, a mark, a new line.
_TOKEN = re.compile(r"[^\W\d_]{1,8}|\d| (?=\d)|[^\w\s]|_|\n")
_SLOT = re.compile(r"\{(time|n|id|[^{}|]*+(?:\|[^{}|]*+)++)\}")
_TYPICAL = {"time": "12:34:56", "n": "123", "id": "1a2b3c4d"}
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")


class Drawing(NamedTuple):
    """One drawing of a suite; `long_defaults` are for prompts with a long text that leave these keys out."""

    number: int
    suite: str
    long_defaults: Mapping[str, Any] = {}

    def seed_of(self, entry: Mapping[str, Any]) -> str:
        return f"{self.number}\0{self.suite}\0{entry.get('id')}"


def draw_values(entry: object, drawing: Drawing, place: Place) -> object:
    """`entry` as the drawing has it, its long texts written out."""
    if not isinstance(entry, dict):
        return entry
    if entry.get("draw") is not None and (chosen := draw_texts(entry, drawing, place.at("draw"))):
        swap = Swap(chosen)
        entry = {key: swap.value(value) if key in DRAWN_KEYS else value for key, value in entry.items()}
    if entry.get("long") is not None:
        here, prompt = place.at("long"), entry.get("prompt")
        if not isinstance(prompt, str) or _LONG_FIELD not in prompt:
            raise here.refusal(f"fills nothing; write {_LONG_FIELD} in prompt")
        text = _make_long_text(entry["long"], drawing.long_defaults, drawing.seed_of(entry), here)
        entry = {**entry, "prompt": prompt.replace(_LONG_FIELD, text)}
    world = entry.get("world")
    if isinstance(world, dict) and isinstance(world.get("files"), dict):
        files = dict(world["files"])
        for path, file in world["files"].items():
            if isinstance(file, dict) and "long" in file:
                here = place.at("world", "files", path, "long")
                if "text" in file:
                    raise here.refusal("makes the text of a file that has one in 'text'; keep one of them")
                text = _make_long_text(file["long"], {}, f"{drawing.seed_of(entry)}\0{path}", here)
                files[path] = {key: value for key, value in file.items() if key != "long"} | {"text": f"{text}\n"}
        entry = {**entry, "world": {**world, "files": files}}
    return {key: value for key, value in entry.items() if key not in ("draw", "long")}


class Swap:
    """Texts and what stands in their place, all put in at once: what was put in is not looked at again."""

    def __init__(self, new_texts: Mapping[str, str]) -> None:
        escaped = {old.replace(".", r"\."): new.replace(".", r"\.") for old, new in new_texts.items()}
        self._new_texts = {**escaped, **new_texts}  # as patterns have them, and as they are
        longest_first = sorted(self._new_texts, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_bounded, longest_first))) if new_texts else None

    def text(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(lambda match: self._new_texts[match[0]], text)

    def value(self, value: Any) -> Any:
        if shape.is_number(value):
            text = self.text(str(value))
            return value if text == str(value) else int(text) if text.lstrip("-").isdecimal() else float(text)
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value


def draw_texts(entry: Mapping[str, Any], drawing: Drawing, place: Place) -> dict[str, str]:
    """What the drawing puts in the place of what: nothing in drawing 0, but every rule is checked all the same."""
    rules = entry["draw"]
    if not isinstance(rules, dict) or not rules:
        raise place.refusal('must be an object of texts and what may stand in their place: {"ash" = ["elm", "oak"]}')
    leaves = list(_leaves_of([entry.get(key) for key in DRAWN_KEYS]))
    numbers = {str(leaf) for leaf in leaves if not isinstance(leaf, str)}
    everything = "\n".join([*(leaf for leaf in leaves if isinstance(leaf, str)), *numbers])
    chosen: dict[str, str] = {}
    for key, choices in rules.items():
        here, old = place.at(key), key.split(_TOGETHER)
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, str) for choice in choices):
            raise here.refusal("must be a list of texts and no empty one")
        counted = [part for part in old if any(re.search(_bounded(part), number) for number in numbers)]
        for index, choice in enumerate(choices):
            new = dict(zip(old, choice.split(_TOGETHER), strict=False))
            if choice.count(_TOGETHER) != key.count(_TOGETHER):
                raise here.at(index).refusal(f"must have {len(old)} parts between '{_TOGETHER}', as its key has")
            if wrong := next((part for part in counted if not _NUMBER.fullmatch(new[part])), None):
                raise here.at(index).refusal(f"{new[wrong]!r} takes the place of the number {wrong}; write a number")
        for part in old:
            if part in chosen:
                raise here.refusal(f"{part!r} is drawn twice; draw it once")
            if not part or not re.search(_bounded(part), everything):
                raise here.refusal(f"{part!r} stands nowhere in this prompt; write it as it stands there")
        drawn = choices[_pick(f"{drawing.seed_of(entry)}\0{key}", len(choices))] if drawing.number else key
        chosen |= dict(zip(old, drawn.split(_TOGETHER), strict=True))
    return chosen if drawing.number else {}


def _pick(seed: str, n: int) -> int:
    return int.from_bytes(hashlib.blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest()) % n


def _bounded(text: str) -> str:
    r"""A pattern for `text` where it is no part of a longer word or number; it may follow an author's `\b`."""
    before = after = ""
    if re.match(r"\w", text):
        before = r"(?:(?<!\w)(?<!\d\.)|(?<=\\b))" if text[0].isdigit() else r"(?:(?<!\w)|(?<=\\b))"
    if re.search(r"\w\Z", text):
        after = r"(?!\w)(?!\.\d)" if text[-1].isdigit() else r"(?!\w)"
    return f"{before}{re.escape(text)}{after}"


def _leaves_of(value: Any) -> Iterator[str | int | float]:
    """Every text, key or value, and every number."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves_of(item)
    elif type(value) in (str, int, float):
        yield value


def _make_long_text(own: object, defaults: Mapping[str, Any], seed: str, place: Place) -> str:
    """About `tokens` of lines made from the patterns in `of`, with those of `insert` in their order, each in a part of
    its own. In every line `{time}` is a moment a little after that of the line before, `{n}` a number, `{id}` eight hex
    digits and `{a|b|c}` one of the three."""
    rules: Any = own
    if isinstance(own, dict):
        rules = {**defaults, **{key: value for key, value in own.items() if value is not None}}
    place.check(_LONG, rules)
    patterns, inserts = rules["of"], rules.get("insert", [])
    drawn = random.Random(_pick(seed, 2**63)).random  # which alone is promised to stay the same between versions
    costs = [estimate_tokens(line) for line in patterns]
    n_left = rules["tokens"] - sum(map(estimate_tokens, inserts))
    lines: list[str] = []
    while n_left > 0 or not lines:
        index = int(drawn() * len(patterns))
        lines.append(patterns[index])
        n_left -= costs[index]
    share = len(lines) / max(len(inserts), 1)
    places = [int((number + drawn()) * share) for number in range(len(inserts))]
    for index, line in reversed(list(zip(places, inserts, strict=True))):
        lines.insert(index, line)
    text = "\n".join(lines)
    # All within a day.
    step_s = min(20.0, 86_399 / max(text.count("{time}"), 1))
    now_s = 0.0

    def fill(slot: re.Match[str]) -> str:
        """What stands in a slot, from the top of the text to its end: the clock goes on by `step_s` at most."""
        nonlocal now_s
        match slot[1]:
            case "n":
                return str(1 + int(drawn() * 998))
            case "id":
                return f"{int(drawn() * 2**32):08x}"
            case "time":
                now_s += drawn() * step_s
                minutes, seconds = divmod(int(now_s), 60)
                return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
        choices = slot[1].split(_TOGETHER)
        return choices[int(drawn() * len(choices))]

    return _SLOT.sub(fill, text)


def estimate_tokens(line: str) -> int:
    """About how many tokens a text has with the tokenizers in use; what a slot will hold is counted as is typical."""
    sample = _SLOT.sub(lambda match: _TYPICAL.get(match[1]) or match[1].partition(_TOGETHER)[0], line)
    return len(_TOKEN.findall(sample)) + 1


def unfold(entry: object, place: Place) -> Iterator[tuple[Any, str | None]]:
    """The forms of one entry of a suite, each with the id it is a variant of; itself, where it has no variants."""
    variants = entry.get("variants") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or variants is None:
        yield entry, None
        return
    own_id = entry.get("id")
    if isinstance(own_id, str) and "#" in own_id:
        why = "holds a '#', which numbers the forms of a prompt with variants; take it out"
        raise place.at("id").refusal(f"{own_id!r} {why}")
    place.at("variants").check(_VARIANTS, variants)
    bare = {key: value for key, value in entry.items() if key != "variants"}
    for number, values in enumerate(variants, start=1):
        form = _fill(bare, values, place.at("variants", number - 1))
        if number > 1 and isinstance(own_id, str):
            form["id"] = f"{own_id}#{number}"
        yield form, own_id if isinstance(own_id, str) else None


def _values(value: Any, place: str) -> None:
    if not value or not isinstance(value, dict):
        found = "empty" if value == {} else shape.kind_of(value)
        wanted = 'an object with a value for each field, such as {"city": "Paris"}'
        raise SuiteError(f"key '{place}' is {found}; give {wanted}")
    for name, item in value.items():
        if not _NAME.fullmatch(name):
            raise shape.fault(place, name, "is no name for a field; use letters, digits and underscores")
        if item is None:
            raise shape.fault(place, name, "has no value; give one")


_VARIANTS = shape.ListOf(_values, "objects, one for each form")


def _fill(entry: Mapping[str, Any], values: Mapping[str, Any], place: Place) -> dict[str, Any]:
    used: set[str] = set()

    def value_of(name: str) -> Any:
        if name not in values:
            raise place.refusal(f"has no value for the field {{{name}}}; give one")
        used.add(name)
        return values[name]

    def text_of(field: re.Match[str]) -> str:
        value = value_of(field[1])
        if not isinstance(value, str) and not shape.is_number(value):
            wanted = "stands in a text and must be text or a number"
            raise place.at(field[1]).refusal(f"{wanted}, not {shape.kind_of(value)}")
        return str(value)

    def fill(value: Any, *, is_text: bool = False) -> Any:
        if isinstance(value, str):
            whole = None if is_text else _FIELD.fullmatch(value)
            return value_of(whole[1]) if whole else _FIELD.sub(text_of, value)
        if isinstance(value, list):
            return [fill(item) for item in value]
        return {key: fill(item) for key, item in value.items()} if isinstance(value, dict) else value

    filled = {key: fill(value, is_text=key in _TEXTS) if key in FILLED_KEYS else value for key, value in entry.items()}
    for name in values:
        if name not in used:
            where = f"{', '.join(FILLED_KEYS[:-1])} or {FILLED_KEYS[-1]}"
            raise place.at(name).refusal(f"fills nothing; write {{{name}}} in {where}")
    return filled
