"""Keeps secrets out of all that is written or printed: a `Redactor` for the words of servers and programs, where one
mask too many does no harm, a `SecretMask` for what goes to the disk, where nothing but a known value may be touched.
A piece of eight characters gives a secret away, so pieces are masked as the whole is, wherever a text was cut."""

from __future__ import annotations

import re
import tomllib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import re2

MASK = "***"
# A piece that may be an ordinary word is one of a secret only if it is longer.
_PIECE_CHARS, _WORDY_PIECE_CHARS = 8, 12
_MIN_SECRET_CHARS, _SHORTEST_SURE_CHARS, _LONG_CHARS, _LONGEST_WHOLE_CHARS = 6, 8, 20, 512
_SPELLING_BYTES = 128  # of a piece in its longest spelling, about
_SHAPES: dict[str, str] = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text("utf-8"))
_KEY_SHAPES = re.compile(f"{_SHAPES['key']}|{_SHAPES['around']}", re.VERBOSE)
_KEY_ALONE = re.compile(_SHAPES["key"], re.VERBOSE)
_NUMBER = re.compile(r"[-+]?[0-9._]+(?:[eE][-+]?[0-9]+)?")
# What a sentence may hold: words in small letters, capitalised or in capitals, and what stands between words.
_WORDY = re.compile(r"(?:[A-Z]?[a-z]*|[A-Z]*)(?:[\s\-_./:,'@](?:[A-Z]?[a-z]*|[A-Z]*))*")


def looks_secret(value: str) -> bool:
    """Whether a value that is used as a key can be nothing else: `ollama`, `not-needed` and `100000` can."""
    if len(value) < _SHORTEST_SURE_CHARS or _NUMBER.fullmatch(value):
        return False
    return len(value) >= _LONG_CHARS or (any(map(str.isdigit, value)) and any(map(str.isalpha, value)))


def looks_like_key(word: str) -> bool:
    """Whether a word of which nothing is known is a key by its shape alone: a known form, or drawn by lot. Names
    of models (`gpt-4o-2024-08-06`, `Qwen2.5-Coder-32B-Instruct`) are not."""
    if _KEY_ALONE.search(word):
        return True
    parts = re.split(r"[-_.~:+/= ]+", word)
    if any(len(part) >= 16 and not part.isalpha() and not part.isdigit() and part.isalnum() for part in parts):
        return True
    n_chars = sum(map(len, parts))
    if n_chars >= 32 and re.fullmatch("[0-9a-fA-F]+", "".join(parts)):
        return True
    kinds = ([(one.isdigit(), one.isupper()) for one in part[1:]] for part in parts)
    return n_chars >= 16 and 3 * sum(a != b for part in kinds for a, b in pairwise(part)) >= n_chars


def mask_strings(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(key) if isinstance(key, str) else key: mask_strings(item, mask) for key, item in value.items()}
    return [mask_strings(item, mask) for item in value] if isinstance(value, list | tuple) else value


def public_settings(value: Any) -> Any:
    """Settings as they may be stored: a text that is a key by its shape is masked, and what is shaped so in others."""
    return mask_strings(value, lambda text: MASK if is_bare_key(text) else mask_shapes(text))


def mask_shapes(text: str) -> str:
    """`text` without what is shaped like a key, the words around it kept."""
    return _KEY_SHAPES.sub(lambda found: f"{found[found.lastgroup] if found.lastgroup else ''}{MASK}", text)


def is_bare_key(text: str) -> bool:
    """Whether a setting is nothing but a key; sentences, templates and addresses are not."""
    return len(text) <= _LONGEST_WHOLE_CHARS and not re.search(r"\s|://", text) and looks_like_key(text)


@dataclass(eq=False)
class _Finder:
    """Finds any of some texts in bytes, however each character is spelled; in time linear in what it is given."""

    patterns: set[str]

    @cached_property
    def search(self) -> Callable[..., Any]:
        options = re2.Options()
        options.case_sensitive, options.max_mem = False, 256 << 20
        return cast(Callable[..., Any], re2.compile("|".join(sorted(self.patterns)).encode(), options).search)

    def finds(self, data: bytes) -> bool:
        return bool(self.patterns) and self.search(data) is not None

    def mask(self, text: str, pieces: _Finder | None = None) -> str:
        """`text` with what is found replaced, and what of `pieces` hangs together with it."""
        data = text.encode("utf-8", "surrogatepass")
        if not self.finds(data):
            return text
        kept: list[bytes] = []
        done, found, search_piece = 0, self.search(data), (pieces or self).search
        while found is not None:
            start, end = found.span()
            # Pieces that touch or overlap are one.
            following = self.search(data, end)
            while following is not None and following.start() == end:
                found, end = following, following.end()
                following = self.search(data, end)
            # Less than a piece may be left of the run: pieces that begin inside the last one reach its end.
            inside = search_piece(data, found.start() + 1, end + _SPELLING_BYTES)
            while inside is not None and inside.start() < end:
                end = max(end, inside.end())
                inside = search_piece(data, inside.start() + 1, end + _SPELLING_BYTES)
            if start > done or not kept:
                kept += (data[done:start], MASK.encode())
            done = end
            found = following if following is None or following.start() >= end else self.search(data, end)
        return b"".join((*kept, data[done:])).decode("utf-8", "surrogatepass")


def _spelled(text: str) -> str:
    """A pattern of all the ways a text may be written down: as it is, in JSON to any depth, in URLs, in HTML."""
    spelled = []
    for character in text:
        literal = str(re2.escape(character))
        if (character.isalnum() and character.isascii()) or character in "-_.":
            spelled.append(literal)
            continue
        percent = "".join(f"%(?:25)*{byte:02x}" for byte in character.encode("utf-8", "replace"))
        units = character.encode("utf-16-be", "surrogatepass")
        escape = "".join(rf"\\+u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        plain = r"\\+" if character == "\\" else rf"\\*{literal}"
        blank = r"|\+" if character == " " else ""
        spelled.append(f"(?:{plain}|{percent}|{escape}|&#?[0-9a-z]{{1,6}};{blank})")
    return "".join(spelled)


def _sure(secrets: Iterable[str]) -> set[str]:
    """Those that can be nothing else, each also as a Basic header carries a key that is the user's name: without the
    end, which depends on what follows. A variable may hold bytes that are no text."""
    raw = [secret.encode("utf-8", "replace") for secret in filter(looks_secret, secrets)]
    return {one.decode() for one in raw} | {b64encode(one[: len(one) // 3 * 3]).decode() for one in raw}


def _starts(secret: str) -> Iterator[str]:
    """What follows each place in a secret at which a piece may begin; a few characters repeated tell nothing."""
    for line in secret.splitlines():
        for at in range(len(line) - _PIECE_CHARS + 1):
            if len(set(line[at : at + _PIECE_CHARS])) > 3:
                yield line[at : at + _WORDY_PIECE_CHARS]


class Redactor:
    """Replaces known secret values, pieces of them, and anything shaped like a key."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        known = [secret for secret in secrets if secret and len(secret) >= _MIN_SECRET_CHARS]
        pieces = (start[:_PIECE_CHARS] for secret in _sure(known) for start in _starts(secret))
        wholes = (secret.encode("utf-8", "replace").decode()[:_LONGEST_WHOLE_CHARS] for secret in known)
        self._known = _Finder({_spelled(text.lower()) for text in {*wholes, *pieces}})

    def __call__(self, text: str) -> str:
        # Shapes first: a piece of a known key may be all that tells of another one (`sk-ant-api03-`).
        return self._known.mask(mask_shapes(text))


class SecretMask:
    """Replaces known secrets and their pieces in texts, and finds them in encoded JSON. To mask `ollama` in answers
    would spoil what was measured: so only values that `looks_secret`; a piece that could be ordinary words only from
    twelve characters on, or where a text begins or ends with it, was cut (…) or quotes nothing else; never `own_words`.
    """

    def __init__(self, secrets: Iterable[str] = (), own_words: str = "") -> None:
        sure = _sure(secrets)
        shreds = _Finder({_spelled(start[:_PIECE_CHARS].lower()) for one in sure for start in _starts(one)})
        pieces = {piece.lower() for secret in sure for piece in map(_telling_piece, _starts(secret)) if piece}
        own = own_words.lower()
        wholes = {secret[:_LONGEST_WHOLE_CHARS].lower() for secret in sure}
        inside = set(map(_spelled, wholes | {piece for piece in pieces if piece not in own}))
        first = {secret[:n].lower() for secret in sure for n in range(_PIECE_CHARS, _WORDY_PIECE_CHARS)}
        last = {secret[-n:].lower() for secret in sure for n in range(_PIECE_CHARS, _WORDY_PIECE_CHARS)}
        heads = [_spelled(text) for text in first - pieces if text not in own]
        tails = [_spelled(text) for text in last - pieces if text not in own]
        alone = [f'"{text}\\\\*"' for text in (*heads, *tails)]
        ends = {*(f"{text}(?:\\z|…)" for text in heads), *(f"\\A{text}" for text in tails)}
        # A text with every secret, and what is left of one that was cut, replaced.
        self.mask: Callable[[str], str] = partial(_Finder({*inside, *ends, *alone}).mask, pieces=shreds)
        # Whether there may be something to mask in encoded JSON, or in a text in UTF-8.
        cut = {*(f'{text}(?:\\\\*"|…)' for text in heads), *(f'"{text}' for text in tails)}
        self.finds = _Finder(inside | cut).finds


def _telling_piece(start: str) -> str | None:
    """The least of `start` that could not be ordinary words; all twelve characters could be a passphrase."""
    telling = (start[:n] for n in range(_PIECE_CHARS, len(start) + 1) if not _WORDY.fullmatch(start[:n]))
    return next(telling, start if len(start) == _WORDY_PIECE_CHARS else None)


def public_address(url: str) -> str:
    """The address without user-info, query and fragment, and without keys in its path: what may be shown and stored."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    place = (f"[{host}]" if ":" in host else host) + ("" if parts.port is None else f":{parts.port}")
    path = "/".join(MASK if looks_like_key(unquote(word)) else word for word in parts.path.split("/"))
    return urlunsplit((parts.scheme, place, path, "", ""))
