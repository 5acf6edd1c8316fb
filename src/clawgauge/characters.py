"""Characters that deceive whoever reads them, and text that is not well formed: one list and one repair for all."""

from __future__ import annotations

from typing import Any

REPLACEMENT = "\ufffd"

# ECMA-48 sequences in their 7-bit and 8-bit forms. A string sequence (OSC, DCS…) must end on its own line: otherwise
# one stray introducer could hide pages of an answer from whoever reads it. Nor does it go on past the beginning of
# another one: with possessive repeats, no character is gone over from two beginnings, and the search is linear.
CONTROL_SEQUENCES = (
    "(?:\x1b\\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n\x90\x98\x9d-\x9f]*+(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*+[0-~]"
)
# Every control character but the tab and the line feed, as the inside of a character class.
CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"

_ALWAYS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d\ufe00-\ufe0f"
# Every mark that is ever dropped or has no width of its own, as the inside of a character class: for whoever looks
# for what a reader will see, and not for what to show. Combining marks are among them; so are what stands for a
# character that could not be shown (U+FFFD), and private characters, which look like nothing in most fonts.
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_COMBINING = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
WIDTHLESS = f"{_ALWAYS}{_JOINERS}{REPLACEMENT}{_PRIVATE}{_COMBINING}\ufff0-\ufff8"
# Marks that reorder text, have no width or are not seen; joiners, which scripts and emoji need, only beside ASCII.
UNSEEN = f"[{_ALWAYS}]|(?<![^\x00-\x7f])[{_JOINERS}]|[\u200c\u200d](?![^\x00-\x7f])"


def well_formed(text: str) -> str:
    """`text` with surrogate halves joined where they meet and replaced by U+FFFD where they stand alone."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # UTF-16 is where a surrogate pair is one character, so a round trip joins what belongs together.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def repair_value(value: Any) -> tuple[Any, bool]:
    """`well_formed` for every string, key or value, of a JSON-like value; the flag says that a half stood alone."""
    if isinstance(value, str):
        repaired = well_formed(value)
        return repaired, repaired is not value and repaired.count(REPLACEMENT) > value.count(
            REPLACEMENT
        )
    if isinstance(value, dict):
        pairs = [(repair_value(key), repair_value(item)) for key, item in value.items()]
        return {key: item for (key, _), (item, _) in pairs}, any(a or b for (_, a), (_, b) in pairs)
    if isinstance(value, (list, tuple)):
        items = [repair_value(item) for item in value]
        return [item for item, _ in items], any(lost for _, lost in items)
    return value, False
