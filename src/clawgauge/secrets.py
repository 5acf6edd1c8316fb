"""Keeps secrets out of all that is written or printed: a `Redactor` for the words of servers and
programs, where one mask too many does no harm, a `SecretMask` for what goes to the disk, where
nothing but a known value may be touched. A piece of eight characters gives a secret away, so pieces
are masked as the whole is, wherever a text was cut. Texts are searched in all their `readings`: as
they are shown, and as they say once decoded."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import re2

from clawgauge.readings import (
    Reading,
    Span,
    as_shown,
    base64_marks,
    may_read_otherwise,
    readings,
    shown_readings,
)

MASK = "***"
# A piece that may be an ordinary word is one of a secret only if it is longer.
_PIECE_CHARS = 8
_WORDY_PIECE_CHARS = 12
# Shorter values are not looked for at all.
_MIN_SECRET_CHARS = 6
# From the first length on a value with letters and digits is a secret, from the second on any is.
_SHORTEST_SURE_CHARS = 8
_LONG_CHARS = 20
# A secret is searched by no more than its beginning.
_LONGEST_WHOLE_CHARS = 512
# Parts of a word drawn by lot, and whole words of hexadecimal digits, are keys from so many on.
_RANDOM_PART_CHARS = 16
_HEXADECIMAL_CHARS = 32
_SHORT_CHARS = 64
_SPELLING_BYTES = 128  # of a piece in its longest spelling, about
_SHAPES: dict[str, str] = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text("utf-8"))
_KEY_SHAPES = re.compile(f"{_SHAPES['key']}|{_SHAPES['around']}", re.VERBOSE)
_KEY_ALONE = re.compile(_SHAPES["key"], re.VERBOSE)
_NUMBER = re.compile(r"[-+]?[0-9._]+(?:[eE][-+]?[0-9]+)?")
# What a sentence may hold: words in small letters, capitalised or in capitals, and what stands
# between words.
_WORDY = re.compile(r"(?:[A-Z]?[a-z]*|[A-Z]*)(?:[\s\-_./:,'@](?:[A-Z]?[a-z]*|[A-Z]*))*")


def looks_secret(value: str) -> bool:
    """Whether a value that is used as a key can be nothing else: `ollama`, `not-needed` and
    `100000` can."""
    if len(value) < _SHORTEST_SURE_CHARS or _NUMBER.fullmatch(value):
        return False
    if len(value) >= _LONG_CHARS:
        return True
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    return has_digit and has_letter


def looks_like_key(word: str) -> bool:
    """Whether a word of which nothing is known is a key by its shape alone: a known form, or drawn
    by lot. Names of models (`gpt-4o-2024-08-06`, `Qwen2.5-Coder-32B-Instruct`) are not."""
    if _KEY_ALONE.search(word):
        return True
    parts = re.split(r"[-_.~:+/= ]+", word)
    for part in parts:
        is_mixed = part.isalnum() and not part.isalpha() and not part.isdigit()
        if is_mixed and len(part) >= _RANDOM_PART_CHARS:
            return True
    n_chars = sum(map(len, parts))
    if n_chars >= _HEXADECIMAL_CHARS and re.fullmatch("[0-9a-fA-F]+", "".join(parts)):
        return True
    n_changes = sum(map(_count_changes, parts))
    return n_chars >= _RANDOM_PART_CHARS and 3 * n_changes >= n_chars


def _count_changes(part: str) -> int:
    """How often digits, capitals and other characters follow each other; a first capital is
    none."""
    kinds = [(character.isdigit(), character.isupper()) for character in part[1:]]
    return sum(kind != next_kind for kind, next_kind in pairwise(kinds))


def has_key_form(text: str) -> bool:
    """Whether a text is nothing but a key of a known form, such as `sk-…` or `ghp_…`."""
    return _KEY_ALONE.fullmatch(text.strip()) is not None


def has_key_shape(text: str) -> bool:
    """Whether anything in a text is shaped like a key, or stands where keys do (`Authorization:
    Bearer …`)."""
    return _KEY_SHAPES.search(text) is not None


def mask_strings(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        masked = {}
        for key, item in value.items():
            masked_key = mask(key) if isinstance(key, str) else key
            masked[masked_key] = mask_strings(item, mask)
        return masked
    if isinstance(value, list | tuple):
        return [mask_strings(item, mask) for item in value]
    return value


def public_settings(value: Any) -> Any:
    """Settings as they may be stored: a text that is a key by its shape is masked, and what is
    shaped so in others."""
    return mask_strings(value, lambda text: MASK if is_bare_key(text) else mask_shapes(text))


def mask_shapes(text: str) -> str:
    """`text` without what is shaped like a key as it is shown, the words around it kept."""
    spans: list[Span] = []
    for reading in shown_readings(text):
        for match in _KEY_SHAPES.finditer(reading.text):
            start = match.end(match.lastgroup) if match.lastgroup else match.start()
            spans.append(reading.locate(start, match.end()))
    return _mask_spans(text, spans)


def _mask_spans(text: str, spans: list[Span]) -> str:
    """`text` with what is in one of these places masked; places that touch are one."""
    parts: list[str] = []
    masked_to = 0
    for start, end in sorted(spans):
        if not parts or start > masked_to:
            parts.append(text[masked_to:start])
            parts.append(MASK)
        masked_to = max(masked_to, end)
    parts.append(text[masked_to:])
    return "".join(parts)


def is_bare_key(text: str) -> bool:
    """Whether a setting is nothing but a key; sentences, templates and addresses are not."""
    if len(text) > _LONGEST_WHOLE_CHARS or re.search(r"\s|://", text):
        return False
    return looks_like_key(text)


@dataclass(eq=False)
class _Finder:
    """Finds any of some texts, in capitals or not, in time linear in what it is given."""

    patterns: set[str]

    @cached_property
    def search(self) -> Callable[..., Any]:
        options = re2.Options()
        options.case_sensitive = False
        options.max_mem = 256 << 20
        # Of those that begin at the same place the longest is found.
        longest_first = sorted(self.patterns, key=lambda pattern: (-len(pattern), pattern))
        pattern = "|".join(longest_first).encode()
        return cast(Callable[..., Any], re2.compile(pattern, options).search)

    def finds(self, data: bytes) -> bool:
        return bool(self.patterns) and self.search(data) is not None

    def mask(self, text: str, pieces: _Finder | None = None) -> str:
        """`text` with what is found in any reading of it replaced, and what of `pieces` hangs
        together with it."""
        if not self.patterns:
            return text
        spans: list[Span] = []
        for reading in readings(text):
            spans.extend(self._spans(reading, pieces or self))
        return _mask_spans(text, spans) if spans else text

    def _spans(self, reading: Reading, pieces: _Finder) -> Iterator[Span]:
        data = reading.text.encode("utf-8", "surrogatepass")
        n_bytes = 0
        n_chars = 0
        for start, end in self._byte_spans(data, pieces.search):
            # Places are counted in characters, going through the text once.
            first = n_chars + len(data[n_bytes:start].decode("utf-8", "surrogatepass"))
            last = first + len(data[start:end].decode("utf-8", "surrogatepass"))
            n_bytes = end
            n_chars = last
            yield reading.locate(first, last)

    def _byte_spans(self, data: bytes, search_piece: Callable[..., Any]) -> Iterator[Span]:
        match = self.search(data)
        while match is not None:
            start, end = match.span()
            # Pieces that touch or overlap are one.
            following = self.search(data, end)
            while following is not None and following.start() == end:
                match = following
                end = following.end()
                following = self.search(data, end)
            # Less than a piece may be left of the run: pieces that begin inside the last one reach
            # its end.
            inside = search_piece(data, match.start() + 1, end + _SPELLING_BYTES)
            while inside is not None and inside.start() < end:
                end = max(end, inside.end())
                inside = search_piece(data, inside.start() + 1, end + _SPELLING_BYTES)
            yield start, end
            match = following
            if following is not None and following.start() < end:
                match = self.search(data, end)


def _spelled(text: str) -> str:
    """A pattern of a text that may stand in JSON to any depth, or have `+` for its blanks as in an
    address. Other ways to write it down are read as what they say before they are searched."""
    spelled = []
    for character in text:
        literal = str(re2.escape(character))
        if character == "\\":
            spelled.append(r"\\+")
        elif character.isspace():
            spelled.append(r"[\s+]+")
        elif character.isalnum() or character in "-_.":
            spelled.append(literal)
        else:
            spelled.append(rf"\\*{literal}")
    return "".join(spelled)


def _base64_patterns(secrets: Iterable[str]) -> set[str]:
    """What stands in base64 that says a piece of a secret, in either alphabet."""
    marks: set[bytes] = set()
    for secret in secrets:
        for spelling in (secret, secret.lower(), secret.upper()):
            marks |= base64_marks(spelling.encode("utf-8", "replace"))
    patterns = set()
    for mark in marks:
        pattern = mark.decode().replace("+", r"[+\-]").replace("/", "[/_]")
        patterns.add(f"(?-i:{pattern})")
    return patterns


def _sure(secrets: Iterable[str]) -> set[str]:
    """Those that can be nothing else, as they stand and as they are shown. A variable may hold
    bytes that are no text."""
    spellings = set()
    for secret in filter(looks_secret, secrets):
        text = secret.encode("utf-8", "replace").decode()
        spellings.add(text)
        displayed = as_shown(text)
        if len(displayed) >= _PIECE_CHARS:
            spellings.add(displayed)
    return spellings


def _starts(secret: str) -> Iterator[str]:
    """What follows each place in a secret at which a piece may begin; a few characters repeated
    tell nothing."""
    for line in secret.splitlines():
        for at in range(len(line) - _PIECE_CHARS + 1):
            if len(set(line[at : at + _PIECE_CHARS])) > 3:
                yield line[at : at + _WORDY_PIECE_CHARS]


class Redactor:
    """Replaces known secret values, pieces of them, and anything shaped like a key."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        values = [secret for secret in secrets if secret and len(secret) >= _MIN_SECRET_CHARS]
        texts = _short_pieces(_sure(values))
        for value in values:
            whole = value.encode("utf-8", "replace").decode()[:_LONGEST_WHOLE_CHARS]
            texts.add(whole.lower())
        self._values = _Finder(set(map(_spelled, texts)))

    def __call__(self, text: str) -> str:
        # Shapes first: a piece of a known key may be all that tells of another one
        # (`sk-ant-api03-`).
        return self._values.mask(mask_shapes(text))


class SecretMask:
    """Replaces known secrets and their pieces in texts, and finds them in encoded JSON. To mask
    `ollama` in answers would spoil what was measured: so only values that `looks_secret`; a piece
    that could be ordinary words only from twelve characters on, or where a text begins or ends with
    it, was cut (…) or quotes nothing else; never `own_words`.
    """

    def __init__(self, secrets: Iterable[str] = (), own_words: str = "") -> None:
        sure = _sure(secrets)
        pieces = _telling_pieces(sure)
        # What a secret begins and ends with, for where a text was cut in it.
        heads = set()
        tails = set()
        for secret in sure:
            for n_chars in range(_PIECE_CHARS, _WORDY_PIECE_CHARS):
                heads.add(secret[:n_chars].lower())
                tails.add(secret[-n_chars:].lower())
        texts = {secret[:_LONGEST_WHOLE_CHARS].lower() for secret in sure}
        # Our own words are no secret, nor are pieces that stand in them.
        ordinary = own_words.lower()
        texts |= {piece for piece in pieces if piece not in ordinary}
        anywhere = set(map(_spelled, texts))
        at_end = [_spelled(text) for text in heads - pieces if text not in ordinary]
        at_start = [_spelled(text) for text in tails - pieces if text not in ordinary]
        in_text = set(anywhere)
        in_json = anywhere | _base64_patterns(sure)
        for pattern in at_end:
            in_text.add(f"{pattern}(?:\\z|…)")
            in_text.add(f'"{pattern}\\\\*"')
            in_json.add(f'{pattern}(?:\\\\*"|…)')
        for pattern in at_start:
            in_text.add(f"\\A{pattern}")
            in_text.add(f'"{pattern}\\\\*"')
            in_json.add(f'"{pattern}')
        self._thorough = _Finder(in_text)
        self._quick = _Finder(in_json)
        self._pieces = _Finder(set(map(_spelled, _short_pieces(sure))))
        # Names of fields, models and prompts come again with every record.
        self._mask_short = lru_cache(maxsize=4096)(self._mask)

    def mask(self, text: str) -> str:
        """`text` with every secret, and what is left of one that was cut, replaced."""
        if len(text) < _PIECE_CHARS:
            return text
        return self._mask_short(text) if len(text) <= _SHORT_CHARS else self._mask(text)

    def _mask(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        # In quotes, as in JSON: a text may begin or end with what is left of a secret.
        if not self.finds(b'"%b"' % data):
            return text
        return self._thorough.mask(text, self._pieces)

    def finds(self, data: bytes) -> bool:
        """Whether there may be something to mask in encoded JSON, or in a text in UTF-8. Cheap: it
        decodes nothing, and says yes to whatever could be read in another way than as it stands."""
        return self._quick.finds(data) or (bool(self._quick.patterns) and may_read_otherwise(data))


def _short_pieces(secrets: Iterable[str]) -> set[str]:
    """The shortest pieces that give one of these away, in small letters."""
    pieces = set()
    for secret in secrets:
        for start in _starts(secret):
            pieces.add(start[:_PIECE_CHARS].lower())
    return pieces


def _telling_pieces(secrets: Iterable[str]) -> set[str]:
    """The pieces that could not be ordinary words, in small letters."""
    pieces = set()
    for secret in secrets:
        for start in _starts(secret):
            piece = _telling_piece(start)
            if piece is not None:
                pieces.add(piece.lower())
    return pieces


def _telling_piece(start: str) -> str | None:
    """The least of `start` that could not be ordinary words; all twelve characters could be a
    passphrase."""
    for n_chars in range(_PIECE_CHARS, len(start) + 1):
        piece = start[:n_chars]
        if not _WORDY.fullmatch(piece):
            return piece
    return start if len(start) == _WORDY_PIECE_CHARS else None


def public_address(url: str) -> str:
    """The address without user-info, query and fragment, and without keys in its path: what may be
    shown and stored."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is not None:
        host = f"{host}:{parts.port}"
    words = []
    for word in parts.path.split("/"):
        words.append(MASK if looks_like_key(unquote(word)) else word)
    return urlunsplit((parts.scheme, host, "/".join(words), "", ""))
