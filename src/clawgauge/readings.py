"""The ways in which a text can be read, each with the places where its parts stand in the text.

A key that is split by marks nobody sees is whole again on a screen, and one that is written down in
base64 is a command away from being whole. So whoever looks for keys looks at every reading of a
text:

- as it stands;
- as it is shown: without control sequences, control characters, marks of no width and combining
  marks; with compatibility forms (fullwidth, mathematical, circled) as the letters they stand for;
  and with `%73`, `%u0073`, `\\u0073`, `\\u{73}`, `\\x73`, `\\163`, `\\r`, `&#115;`, `&#x73;` and
  `&amp;` decoded, characters in two halves or in the bytes of UTF-8 among them, up to four layers
  in any mixture;
- what base64 in it says, in either alphabet, at any alignment, over line ends;
- what hexadecimal digits in it say, with or without separators.

What the last two say is read in all these ways once more. All of it takes time linear in the text.
"""

from __future__ import annotations

import binascii
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from html.entities import html5
from itertools import accumulate
from typing import Any, TypeAlias

import re2

from clawgauge.characters import CONTROL_SEQUENCES, CONTROLS, WIDTHLESS, well_formed

Span: TypeAlias = tuple[int, int]
Locate: TypeAlias = Callable[[int, int], Span]

_MAX_LAYERS = 4
_MAX_DECODINGS = 2
# Eight bytes take eleven characters of base64, or sixteen hexadecimal digits.
_LEAST_BYTES = 8
_LEAST_BASE64_CHARS = 11

# Letters, digits and signs in other clothes: superscripts, letterlike, circled, ligatures, small,
# fullwidth and mathematical forms. What each stands for is asked of Unicode (NFKC). Not … and
# ！（），：；？: every second sentence of some languages has them, and keys do not.
_COMPATIBLE = (
    "\u00aa\u00b2\u00b3\u00b9\u00ba\u02b0-\u02b8\u02e0-\u02e3\u1d2c-\u1d6a\u1d78\u1d9b-\u1dbf"
    "\u2070-\u209c\u2100-\u2149\u2160-\u217f\u2460-\u24ff\u2c7c\u2c7d\ua7f2-\ua7f4"
    "\ufb00-\ufb06\ufb29\ufe50-\ufe6b\uff02-\uff07\uff0a\uff0b\uff0d-\uff19\uff1c-\uff1e"
    "\uff20-\uff5e"
    "\U0001d400-\U0001d7ff\U0001f100-\U0001f16f\U0001fbf0-\U0001fbf9"
)
_HEX = "[0-9A-Fa-f]"
_NOT_SHOWN = re.compile(f"[{CONTROLS}{WIDTHLESS}]+")
# As the cleaners of reports do it: a whole sequence goes first.
_NOT_SHOWN_AND_SEQUENCES = re.compile(f"(?P<sequence>{CONTROL_SEQUENCES})|[{CONTROLS}{WIDTHLESS}]")
_BEGINS_SEQUENCE = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")
# JSON in ASCII writes a character beyond U+FFFF as two escapes, each of which says half of it.
_TWO_HALVES = re.compile("(?P<halves>[\ud800-\udbff][\udc00-\udfff])")
_COMPATIBLE_FORM = re.compile(f"(?P<compatible>[{_COMPATIBLE}])")
# Each way begins with a sign of its own, so that the search goes from sign to sign. A run of
# backslashes is gone through from its first one alone: whatever follows it, follows it for each of
# them.
_PERCENT = "%(?:25)*+"
_BACKSLASHES = r"\\\\*+"
# A character of UTF-8 as its bytes, each escaped: the first tells how many follow.
_THEN_PERCENT = rf"{_PERCENT}[89ABab]{_HEX}"
_THEN_BYTE = rf"{_BACKSLASHES}[xX][89ABab]{_HEX}"
_THEN_OCTAL = rf"{_BACKSLASHES}2[0-7]{{2}}"
_UTF8_PERCENT = (
    rf"[CDcd]{_HEX}{_THEN_PERCENT}"
    rf"|[Ee]{_HEX}(?:{_THEN_PERCENT}){{2}}"
    rf"|[Ff]{_HEX}(?:{_THEN_PERCENT}){{3}}"
)
_UTF8_BYTES = (
    rf"[CDcd]{_HEX}{_THEN_BYTE}"
    rf"|[Ee]{_HEX}(?:{_THEN_BYTE}){{2}}"
    rf"|[Ff]{_HEX}(?:{_THEN_BYTE}){{3}}"
)
_UTF8_OCTAL = (
    rf"3[0-3][0-7]{_THEN_OCTAL}"
    rf"|3[45][0-7](?:{_THEN_OCTAL}){{2}}"
    rf"|36[0-7](?:{_THEN_OCTAL}){{3}}"
)
_ESCAPES = re.compile(
    rf"{_PERCENT}(?:(?P<percent>[0-7]{_HEX})"
    rf"|(?P<utf8>{_UTF8_PERCENT})"
    rf"|[uU](?P<percent_u>{_HEX}{{4}}))"
    rf"|(?<!\\){_BACKSLASHES}(?:[uU](?P<unicode>{_HEX}{{4}}(?:(?<=0000){_HEX}{{4}})?)"
    rf"|[xX](?:(?P<utf8_bytes>{_UTF8_BYTES})|(?P<byte>{_HEX}{{2}}))"
    rf"|[uUxX]\{{0*(?P<braced>{_HEX}{{1,6}})\}}?"
    rf"|(?P<utf8_octal>{_UTF8_OCTAL})|(?P<octal>[01][0-7]{{2}})|(?P<letter>[0abefnrtv]))"
    rf"|&(?:amp;)*+(?:\#[xX]0*(?P<entity16>{_HEX}{{1,6}});?"
    r"|\#0*(?P<entity10>[0-9]{1,7});?|(?P<named>[A-Za-z][A-Za-z0-9]{1,30};))"
    r"|&(?P<ampersand>(?:amp;)++)"
)
# The escapes of one letter, in JSON, in C and in a shell.
_LETTERS = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_BASES = {
    "percent": 16,
    "percent_u": 16,
    "unicode": 16,
    "byte": 16,
    "braced": 16,
    "octal": 8,
    "entity16": 16,
    "entity10": 10,
}

# How marks of no width begin in UTF-8 (zero-width ones and those of direction, soft hyphens,
# U+FEFF, variation selectors, tags), and fullwidth and mathematical letters. Not accents and C1
# controls, which begin like much else.
_COMMON_MARKS = (
    b"\xe2\x80",
    b"\xe2\x81",
    b"\xc2\xad",
    b"\xef\xbb\xbf",
    b"\xef\xb8",
    b"\xf3\xa0",
    b"\xef\xbc",
    b"\xef\xbd",
    b"\xf0\x9d",
)

_BASE64_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/]{%d,}" % _LEAST_BASE64_CHARS)
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_LINE_ENDS = b"\r\n"
# No text: whatever is at its ends stays apart.
_BETWEEN_RUNS = b"////"
_SEPARATOR = r"[ :,;\-\n]{0,2}(?:0[xX])?"
_HEX_RUN = re.compile(rf"{_HEX}{{2}}(?:{_SEPARATOR}{_HEX}{{2}}){{{_LEAST_BYTES - 1},}}+{_HEX}?")
_HEX_PREFIX = re.compile("0[xX]|[^0-9A-Fa-f]")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it can be read. `locate` tells where a span of it stands in the text that was
    given."""

    text: str
    locate: Locate


def _compile(pattern: str, *, of_bytes: bool = False) -> Any:
    """A pattern for a search through much text that mostly finds nothing, which re2 does ten times
    as fast."""
    options = re2.Options()
    options.never_capture = True
    if of_bytes:
        options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern.encode("latin-1" if of_bytes else "utf-8"), options)


def _base64_class(values: list[int]) -> str:
    """A character class of these values of base64, in either alphabet."""
    characters = "".join([chr(_BASE64_ALPHABET[value]) for value in values])
    return "[" + characters.replace("+", r"+\-").replace("/", "/_") + "]"


def _base64_of_ascii() -> list[str]:
    """Patterns of which one is found in base64 of nine ASCII characters: the high bit of each byte
    is zero."""
    high_bits = (0b100000, 0b001000, 0b000010, 0)
    classes = []
    for high_bit in high_bits:
        classes.append(_base64_class([value for value in range(64) if not value & high_bit]))
    patterns = []
    for phase in range(4):
        patterns.append("".join([classes[(phase + at) % 4] for at in range(11)]))
    return patterns


def _base64_of_marks() -> list[str]:
    """Patterns of which one is found in base64 of any text with one of the common unseen marks in
    it."""
    patterns = []
    for mark in _COMMON_MARKS:
        for n_before in range(3):
            n_bits = 8 * (n_before + len(mark))
            n_free_after = -n_bits % 6
            bits = int.from_bytes(mark, "big") << n_free_after
            fixed = ((1 << 8 * len(mark)) - 1) << n_free_after
            pattern = ""
            for shift in range(n_bits + n_free_after - 6, -1, -6):
                sextet = bits >> shift & 63
                sextet_fixed = fixed >> shift & 63
                if sextet_fixed:
                    fits = [value for value in range(64) if value & sextet_fixed == sextet]
                    pattern += _base64_class(fits)
            patterns.append(pattern)
    return patterns


def _hex_of_text() -> list[str]:
    """Patterns of which one is found in hexadecimal digits of eight ASCII characters, or of a
    common mark."""
    patterns = [rf"(?:[0-7]{_HEX}{_SEPARATOR}){{{_LEAST_BYTES}}}"]
    for mark in _COMMON_MARKS:
        patterns.append("(?i:" + _SEPARATOR.join([f"{byte:02x}" for byte in mark]) + ")")
    return patterns


_UNLIKE_SHOWN = (
    f"[{CONTROLS}{WIDTHLESS}{_COMPATIBLE}]"
    rf"|%(?:{_HEX}{{2}}|[uU]{_HEX})"
    r"|&(?:#[0-9xX]|[A-Za-z][A-Za-z0-9]{1,30};)"
    r"|\\(?:[uUxX]|[0-3][0-7]|[0abefrv])"
)
# An escaped line end or tab splits no key that is promised to be found, but may stand inside
# base64; and in JSON, which has one in every other text, it is nothing to look into by itself.
_unlike_shown = _compile(rf"{_UNLIKE_SHOWN}|\\[nt]")
_read_otherwise = _compile(
    "|".join([_UNLIKE_SHOWN, *_base64_of_ascii(), *_base64_of_marks(), *_hex_of_text()])
)
_hex_digits = _compile(rf"(?:{_HEX}{{2}}{_SEPARATOR}){{{_LEAST_BYTES}}}")
_TEXT_BYTE = r"[\x00-\x7f]|[\xc2-\xf4][\x80-\xbf]{1,3}"
_text_bytes = _compile(f"(?:{_TEXT_BYTE}){{{_LEAST_BYTES},}}", of_bytes=True)


def may_read_otherwise(data: bytes) -> bool:
    """Whether encoded JSON, or a text in UTF-8, may hold text that can be read in another way than
    as it stands. Base64 of nine bytes is noticed; for that of eight, look for `base64_marks` as
    well."""
    return _read_otherwise.search(data) is not None


def base64_marks(value: bytes) -> set[bytes]:
    """Texts of which one stands in any base64, of the common alphabet, that says eight bytes of
    `value` in a row."""
    marks = set()
    for start in range(len(value) - 5):
        marks.add(binascii.b2a_base64(value[start : start + 6], newline=False))
    return marks


def readings(text: str) -> Iterator[Reading]:
    """Every reading of `text`, the first as it stands."""
    whole = Reading(text, _same_place)
    yield whole
    yield from _other_readings(whole, _MAX_DECODINGS)


def shown_readings(text: str) -> Iterator[Reading]:
    """`text` as it stands and, where that differs, without what is not shown; nothing is
    decoded."""
    whole = Reading(text, _same_place)
    yield whole
    if _unlike_shown.search(_as_bytes(text)) is None:
        return
    reading, has_sequences = _drop(whole, sequences=True)
    if reading is not whole:
        yield reading
    if has_sequences:
        inside_sequences, _ = _drop(whole, sequences=False)
        yield inside_sequences


def as_shown(text: str) -> str:
    """`text` without what is not shown, and with the escapes in it decoded."""
    shown, _ = _decode_layers(Reading(text, _same_place), sequences=True)
    return shown.text


def _same_place(start: int, end: int) -> Span:
    return start, end


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _other_readings(reading: Reading, n_decodings: int) -> Iterator[Reading]:
    shown = list(_shown(reading))
    yield from shown
    if n_decodings == 0 or len(reading.text) < _LEAST_BASE64_CHARS:
        return
    for source in shown or [reading]:
        for decoded in (*_read_base64(source), *_read_hex(source)):
            yield decoded
            yield from _other_readings(decoded, n_decodings - 1)


def _shown(reading: Reading) -> list[Reading]:
    """The reading as a screen shows it, with escapes decoded; none where that is as it stands.
    Where whole sequences are dropped, what is inside them is read as well."""
    if _unlike_shown.search(_as_bytes(reading.text)) is None:
        return []
    decoded, has_sequences = _decode_layers(reading, sequences=True)
    if not has_sequences:
        return [decoded]
    inside_sequences, _ = _decode_layers(reading, sequences=False)
    return [decoded, inside_sequences]


def _decode_layers(reading: Reading, *, sequences: bool) -> tuple[Reading, bool]:
    """The reading without what is not shown and with escapes decoded; and whether a sequence was
    dropped."""
    reading, has_sequences = _drop(reading, sequences=sequences)
    for _ in range(_MAX_LAYERS):
        decoded = _rewrite(reading, _ESCAPES)
        if decoded is reading:
            break
        reading, has_more = _drop(decoded, sequences=sequences)
        has_sequences = has_sequences or has_more
    return reading, has_sequences


def _drop(reading: Reading, *, sequences: bool) -> tuple[Reading, bool]:
    """The reading without what is not shown, in plain letters; and whether a control sequence was
    dropped."""
    has_sequences = False
    if not reading.text.isascii():
        reading = _rewrite(reading, _TWO_HALVES)
    if sequences and _BEGINS_SEQUENCE.search(reading.text):
        has_sequences = True
        reading = _rewrite(reading, _NOT_SHOWN_AND_SEQUENCES)
    else:
        reading = _rewrite(reading, _NOT_SHOWN)
    if not reading.text.isascii():
        reading = _rewrite(reading, _COMPATIBLE_FORM)
    return reading, has_sequences


class _Changes:
    """Where the changes to a text stand, in the new text and in the old one, in their order."""

    def __init__(self) -> None:
        self._new_starts: list[int] = []
        self._new_ends: list[int] = []
        self._old_starts: list[int] = []
        self._old_ends: list[int] = []

    def add(self, *, new_start: int, new_end: int, old_start: int, old_end: int) -> None:
        self._new_starts.append(new_start)
        self._new_ends.append(new_end)
        self._old_starts.append(old_start)
        self._old_ends.append(old_end)

    def locate(self, start: int, end: int) -> Span:
        """The span of the old text that a span of the new one was made of."""
        return self._find_old_start(start), self._find_old_end(end)

    def _find_old_start(self, start: int) -> int:
        change = bisect_right(self._new_starts, start) - 1
        if change < 0:
            return start
        if start < self._new_ends[change]:
            return self._old_starts[change]
        return self._old_ends[change] + start - self._new_ends[change]

    def _find_old_end(self, end: int) -> int:
        change = bisect_right(self._new_starts, end - 1) - 1
        if change < 0:
            return end
        return self._old_ends[change] + max(0, end - self._new_ends[change])


def _rewrite(reading: Reading, pattern: re.Pattern[str]) -> Reading:
    """`reading` with every match replaced by what it stands for; itself where there is none."""
    text = reading.text
    parts: list[str] = []
    changes = _Changes()
    n_read = 0
    n_written = 0
    for match in pattern.finditer(text):
        replacement = _stands_for(match)
        if replacement is None:
            continue
        start, end = match.span()
        parts.append(text[n_read:start])
        parts.append(replacement)
        new_start = n_written + start - n_read
        n_written = new_start + len(replacement)
        changes.add(new_start=new_start, new_end=n_written, old_start=start, old_end=end)
        n_read = end
    if not parts:
        return reading
    parts.append(text[n_read:])
    locate_in_source = reading.locate

    def locate(start: int, end: int) -> Span:
        return locate_in_source(*changes.locate(start, end))

    return Reading("".join(parts), locate)


def _stands_for(match: re.Match[str]) -> str | None:
    """What an escape says; nothing for what is not shown, None for what is no escape after all."""
    kind = match.lastgroup
    if kind is None or kind == "sequence":
        return ""
    value = match[kind]
    if kind == "compatible":
        normal = unicodedata.normalize("NFKC", value)
        return normal if normal != value else None
    if kind == "halves":
        return well_formed(value)
    if kind == "letter":
        return _LETTERS[value]
    if kind == "ampersand":
        return "&"
    if kind == "named":
        return _name_character(match[0], value)
    if kind == "utf8":
        return _decode_utf8(bytes.fromhex(re.sub(_PERCENT, "", value)))
    if kind == "utf8_bytes":
        data = bytes.fromhex(re.sub(r"\\+[xX]", "", value))
        return _decode_utf8(data) or data.decode("latin-1")
    if kind == "utf8_octal":
        return _decode_utf8(bytes([int(digits, 8) for digits in re.findall("[0-7]+", value)]))
    code = int(value, _BASES[kind])
    return chr(code) if code <= 0x10FFFF else None


def _name_character(entity: str, name: str) -> str | None:
    """The character that `&name;` stands for; None where it stands for none."""
    character = html5.get(name)
    if character is not None or entity == f"&{name}":
        return character
    # `&amp;Cd2;` is no name of a character, but the ampersand before it is written as one.
    return f"&{name}"


def _decode_utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _read_base64(reading: Reading) -> Iterator[Reading]:
    # One byte for each character, so that places stay the same.
    one_byte_each = reading.text.encode("ascii", "replace")
    joined = one_byte_each.translate(_URL_SAFE, _LINE_ENDS)
    runs = [match.span() for match in _BASE64_RUN.finditer(joined)]
    if not runs:
        return
    data = _BETWEEN_RUNS.join([joined[start:end] for start, end in runs])
    sizes = (end - start + len(_BETWEEN_RUNS) for start, end in runs)
    run_starts = list(accumulate(sizes, initial=0))[:-1]

    @cache
    def kept_places() -> list[int] | None:
        """Where the characters of `joined` stand in the text; None where that is the same place."""
        if len(joined) == len(one_byte_each):
            return None
        return [index for index, byte in enumerate(one_byte_each) if byte not in _LINE_ENDS]

    def place_of(at: int) -> int:
        """Where a character of `data` stands in the text; what is between runs counts to the run
        before it."""
        run = bisect_right(run_starts, at) - 1
        start, end = runs[run]
        place = min(start + at - run_starts[run], end - 1)
        places = kept_places()
        return place if places is None else places[place]

    for shift in range(4):
        n_chars = (len(data) - shift) // 4 * 4
        rest = data[shift + n_chars :]
        decoded = binascii.a2b_base64(data[shift : shift + n_chars])
        if len(rest) > 1:
            # The last group is not whole: what it says is its first one or two bytes.
            decoded += binascii.a2b_base64(rest.ljust(4, b"A"))[: len(rest) - 1]

        def locate_bytes(start: int, end: int, shift: int = shift) -> Span:
            first = place_of(shift + start * 8 // 6)
            last = place_of(shift + (end * 8 - 1) // 6)
            return reading.locate(first, last + 1)

        yield from _texts_in(decoded, locate_bytes)


def _read_hex(reading: Reading) -> Iterator[Reading]:
    if _hex_digits.search(_as_bytes(reading.text)) is None:
        return
    for run in _HEX_RUN.finditer(reading.text):
        places: list[int] = []
        done = run.start()
        for prefix in _HEX_PREFIX.finditer(run[0]):
            places.extend(range(done, run.start() + prefix.start()))
            done = run.start() + prefix.end()
        places.extend(range(done, run.end()))
        digits = "".join([reading.text[place] for place in places])
        for shift in range(2):
            n_digits = (len(digits) - shift) // 2 * 2

            def locate_bytes(
                start: int, end: int, shift: int = shift, places: list[int] = places
            ) -> Span:
                return reading.locate(places[shift + 2 * start], places[shift + 2 * end - 1] + 1)

            yield from _texts_in(bytes.fromhex(digits[shift : shift + n_digits]), locate_bytes)


def _texts_in(data: bytes, locate_bytes: Locate) -> Iterator[Reading]:
    """The stretches of decoded bytes that are text, as one reading, set apart by U+FFFD."""
    stretches = [match.span() for match in _text_bytes.finditer(data)]
    if not stretches:
        return
    text = "\ufffd".join([data[start:end].decode("utf-8", "replace") for start, end in stretches])

    @cache
    def byte_places() -> list[int]:
        """Where in `data` each character of `text` begins, and where the last one ends."""
        places: list[int] = []
        for start, end in stretches:
            part = data[start:end].decode("utf-8", "replace")
            if len(part) == end - start:
                places.extend(range(start, end))
            else:
                places.extend(_character_places(data, start, end, len(part)))
            places.append(end)
        return places

    def locate(start: int, end: int) -> Span:
        places = byte_places()
        return locate_bytes(places[start], places[end])

    yield Reading(text, locate)


def _character_places(data: bytes, start: int, end: int, n_chars: int) -> list[int]:
    """Where the characters of a stretch begin. One that is broken may be several: then they share a
    place."""
    places: list[int] = []
    at = start
    while at < end:
        size = 1
        while at + size < end and 0x80 <= data[at + size] < 0xC0:
            size += 1
        places.extend([at] * len(data[at : at + size].decode("utf-8", "replace")))
        at += size
    # Never fewer than there are characters, whatever a decoder makes of broken ones.
    return (places + [end] * n_chars)[:n_chars]
