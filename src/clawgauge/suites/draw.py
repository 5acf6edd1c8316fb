"""Other values for the same prompt, and long texts to find something in: both follow from the number of the drawing.

`draw` names texts of a prompt and what may stand in their place; drawing 0 leaves everything as it is written. `long`
makes the text that `{long}` stands for. One number, one text, on every machine: the choices are hashes.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from clawgauge.suites.document import Place, describe_kind, refuse_unknown_keys

MAX_DRAWING = 2**31 - 1
DRAWN_KEYS = ("prompt", "system", "validator", "world", "variants", "long")
_TOGETHER = "|"
_LONG_FIELD = "{long}"
_LONG_KEYS = ("tokens", "of", "insert")
_MAX_TOKENS = 200_000
# English and logs: a little under four characters a token with the tokenizers in use.
_CHARS_PER_TOKEN = 3.6
_SLOT = re.compile(r"\{(time|n|id)\}")


def draw_values(entry: object, drawing: int, suite: str, place: Place) -> object:
    """`entry` as drawing `drawing` has it, its long text written out; an entry that draws nothing is returned as is."""
    if not isinstance(entry, dict):
        return entry
    seed = f"{drawing}\0{suite}\0{entry.get('id')}"
    if entry.get("draw") is not None:
        swap = read_swap(entry, seed if drawing else None, place.at("draw"))
        entry = {key: _swapped(value, swap) if key in DRAWN_KEYS else value for key, value in entry.items()}
    if entry.get("long") is not None:
        entry = {**entry, "prompt": _with_long_text(entry, seed, place.at("long"))}
    if isinstance(entry.get("world"), dict) and isinstance(entry["world"].get("files"), dict):
        entry = {**entry, "world": _with_long_files(entry["world"], seed, place.at("world").at("files"))}
    return {key: value for key, value in entry.items() if key not in ("draw", "long")}


class Swap:
    """Texts and what stands in their place, all put in at once: what was put in is not looked at again."""

    def __init__(self, new_texts: Mapping[str, str]) -> None:
        self._new_texts = new_texts
        words = sorted(map(_bounded, new_texts), key=len, reverse=True)
        self._pattern = re.compile("|".join(words)) if words else None

    def text(self, text: str) -> str:
        """`text` with every whole occurrence replaced."""
        return text if self._pattern is None else self._pattern.sub(lambda match: self._new_texts[match[0]], text)


def read_swap(entry: Mapping[str, Any], seed: str | None, place: Place) -> Swap:
    """What `draw` of a prompt puts in the place of what; nothing without a `seed`, but checked all the same."""
    rules = entry["draw"]
    if not isinstance(rules, dict) or not rules:
        raise place.refusal('must be an object of texts and what may stand in their place: {"ash" = ["elm", "oak"]}')
    everything = "\n".join(_texts_of([entry.get(key) for key in DRAWN_KEYS]))
    chosen: dict[str, str] = {}
    for key, choices in rules.items():
        here, old = place.at(key), key.split(_TOGETHER)
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, str) for choice in choices):
            raise here.refusal("must be a list of texts and no empty one")
        for number, choice in enumerate(choices):
            if len(choice.split(_TOGETHER)) != len(old):
                raise here.at(number).refusal(f"must have {len(old)} parts between '{_TOGETHER}', as its key has")
        for part in old:
            if part in chosen:
                raise here.refusal(f"{part!r} is drawn twice; draw it once")
            if not part or not re.search(_bounded(part), everything):
                raise here.refusal(f"{part!r} stands nowhere in this prompt; write it as it stands there")
        new = choices[_pick(f"{seed}\0{key}", len(choices))].split(_TOGETHER) if seed else old
        chosen |= dict(zip(old, new, strict=True))
    return Swap(chosen if seed else {})


def _pick(seed: str, n: int) -> int:
    return int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest()) % n


def _bounded(text: str) -> str:
    """A pattern for `text` where it is not part of a longer word or number."""
    before = r"(?<![\w])" if re.match(r"\w", text) else ""
    after = r"(?![\w])" if re.search(r"\w$", text) else ""
    return f"{before}{re.escape(text)}{after}"


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_of(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _swapped(value: Any, swap: Swap) -> Any:
    if isinstance(value, str):
        return swap.text(value)
    if isinstance(value, dict):
        return {swap.text(key): _swapped(item, swap) for key, item in value.items()}
    if isinstance(value, list):
        return [_swapped(item, swap) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = swap.text(str(value))
        return value if text == str(value) else float(text) if isinstance(value, float) else int(text)
    return value


def _with_long_text(entry: Mapping[str, Any], seed: str, place: Place) -> str:
    prompt = entry.get("prompt")
    if not isinstance(prompt, str) or _LONG_FIELD not in prompt:
        raise place.refusal(f"fills nothing; write {_LONG_FIELD} in prompt")
    return prompt.replace(_LONG_FIELD, _read_long(entry["long"], seed, place))


def _with_long_files(world: Mapping[str, Any], seed: str, place: Place) -> dict[str, Any]:
    files = dict(world["files"])
    for path, file in files.items():
        if not isinstance(file, dict) or "long" not in file:
            continue
        here = place.at(path).at("long")
        if "text" in file:
            raise here.refusal("makes the text of a file that has one in 'text'; keep one of them")
        text = _read_long(file["long"], f"{seed}\0{path}", here)
        files[path] = {key: value for key, value in file.items() if key != "long"} | {"text": f"{text}\n"}
    return {**world, "files": files}


def _read_long(rules: object, seed: str, place: Place) -> str:
    if not isinstance(rules, dict):
        raise place.refusal(f"must be an object with {', '.join(_LONG_KEYS)}, not {describe_kind(rules)}")
    refuse_unknown_keys(rules, _LONG_KEYS, place)
    tokens, patterns, inserts = rules.get("tokens"), rules.get("of"), rules.get("insert", [])
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens <= _MAX_TOKENS:
        raise place.at("tokens").refusal(f"must be a whole number from 1 to {_MAX_TOKENS}")
    for key, lines in (("of", patterns), ("insert", inserts)):
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise place.at(key).refusal("must be a list of lines")
    if not patterns:
        raise place.at("of").refusal("empty; give at least one line to make the text of")
    return long_text(round(tokens * _CHARS_PER_TOKEN), patterns, inserts, seed)


def long_text(n_chars: int, patterns: list[str], inserts: list[str], seed: str) -> str:
    """About `n_chars` of lines made from `patterns`, with `inserts` in their order at places that are drawn.

    In every line `{time}` is a moment a little after that of the line before, `{n}` a number, `{id}` eight hex digits.
    """
    drawn = random.Random(_pick(seed, 2**63))  # random() alone is promised to stay the same between versions
    lines: list[str] = []
    size = 0
    while size < n_chars:
        lines.append(patterns[int(drawn.random() * len(patterns))])
        size += len(lines[-1]) + 8
    places = sorted(int(drawn.random() * len(lines)) for _ in inserts)
    for place, line in reversed(list(zip(places, inserts, strict=True))):
        lines.insert(place, line)
    seconds = 0.0

    def fill(match: re.Match[str]) -> str:
        nonlocal seconds
        if match[1] == "n":
            return str(1 + int(drawn.random() * 998))
        if match[1] == "id":
            return f"{int(drawn.random() * 2**32):08x}"
        seconds = (seconds + drawn.random() * 20) % 86_400
        whole = int(seconds)
        return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"

    return "\n".join(_SLOT.sub(fill, line) for line in lines)
