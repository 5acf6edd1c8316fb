"""Characters that deceive whoever reads them, and text that is not well formed.

There is one list of them and one repair for the whole program."""

from __future__ import annotations

from typing import Any

REPLACEMENT = "\ufffd"

# ECMA-48 sequences in their 7-bit and 8-bit forms. A string sequence (OSC, DCS…) must end on its
# own line: otherwise one stray introducer could hide pages of an answer from whoever reads it. Nor
# does it go on past the beginning of another one: with possessive repeats, no character is gone
# over from two beginnings, and the search is linear.
CONTROL_SEQUENCES = (
    "(?:\x1b\\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n\x90\x98\x9d-\x9f]*+"
    "(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*+[0-~]"
)
# Every control character but the tab and the line feed, as the inside of a character class.
CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"

# Marks that reorder text, have no width or are not seen.
_ALWAYS_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners, which scripts and emoji need; they are unseen beside ASCII.
_JOINERS = "\u200c\u200d\ufe00-\ufe0f"
UNSEEN = f"[{_ALWAYS_UNSEEN}]|(?<![^\x00-\x7f])[{_JOINERS}]|[\u200c\u200d](?![^\x00-\x7f])"
# Private characters, which look like nothing in most fonts.
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_COMBINING = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
# Every mark that is ever dropped or has no width of its own, as the inside of a character class:
# to look for what a reader will see, not to decide what to show. U+FFFD is among them, which stands
# for a character that could not be shown.
WIDTHLESS = f"{_ALWAYS_UNSEEN}{_JOINERS}{REPLACEMENT}{_PRIVATE}{_COMBINING}\ufff0-\ufff8"


def well_formed(text: str) -> str:
    """`text` with the halves of surrogate pairs joined where they meet; a half that stands alone
    becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # UTF-16 is where a pair is one character, so a round trip joins what belongs together.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def repair_value(value: Any) -> tuple[Any, bool]:
    """`well_formed` for every string, key or value, of a JSON-like value.

    The flag says that a half of a surrogate pair stood alone somewhere."""
    if isinstance(value, str):
        return _repair_text(value)
    if isinstance(value, dict):
        return _repair_object(value)
    if isinstance(value, (list, tuple)):
        items = []
        is_repaired = False
        for item in value:
            repaired_item, is_item_repaired = repair_value(item)
            items.append(repaired_item)
            is_repaired = is_repaired or is_item_repaired
        return items, is_repaired
    return value, False


def _repair_text(text: str) -> tuple[str, bool]:
    repaired = well_formed(text)
    if repaired is text:
        return text, False
    return repaired, repaired.count(REPLACEMENT) > text.count(REPLACEMENT)


def _repair_object(value: dict[Any, Any]) -> tuple[dict[Any, Any], bool]:
    repaired = {}
    is_repaired = False
    for key, item in value.items():
        repaired_key, is_key_repaired = repair_value(key)
        repaired_item, is_item_repaired = repair_value(item)
        repaired[repaired_key] = repaired_item
        is_repaired = is_repaired or is_key_repaired or is_item_repaired
    return repaired, is_repaired
