"""Text from models, servers and file names, made harmless for the place where it is shown.

What is recorded is never changed."""

from __future__ import annotations

import re
import sys
import unicodedata

from clawgauge.characters import CONTROL_SEQUENCES, CONTROLS, UNSEEN, well_formed

# Sequences first, then every control character that is left, then what is not seen.
# `clawgauge.readings` drops all of it too, so that what is put together here has been searched for
# keys as it is shown.
_UNSAFE = re.compile(f"{CONTROL_SEQUENCES}|[{CONTROLS}]|{UNSEEN}")
_LINE_ENDS = re.compile("\r\n|[\x85\u2028\u2029]")

_MARKUP = re.compile(r"[\\|`*~$\[\]]")
# Underscores inside a word are literal in Markdown, and model names are full of them.
_EDGE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
# What could begin or end a tag; `<1%` and `>99%` cannot.
_TAG_MARK = re.compile(r"&|[<>](?!\d)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BLOCK_MARK = re.compile(r"[#>+=-]")
# A command in parentheses counts as one word.
_WORDS = re.compile(r"\((?:[^\s()]*/)?clawgauge [^()]*\)\S*|\S+")
# Unicode's categories of characters that take no column: marks and format characters.
_WIDTHLESS_CATEGORIES = ("Mn", "Me", "Cf")


def clean_terminal(text: str) -> str:
    """`text` without what moves a cursor, sets a clipboard, recolours, reorders or is not seen.

    Line ends and tabs stay."""
    with_plain_ends = _LINE_ENDS.sub("\n", text)
    return well_formed(_UNSAFE.sub("", with_plain_ends))


def clean_cell(text: str) -> str:
    """`text` as part of a line that others wrote too. It has no line end: that would forge a
    row."""
    return " ".join(clean_terminal(text).split())


def one_line(text: str, limit: int) -> str:
    """The same with at most `limit` characters."""
    plain = clean_cell(text)
    if len(plain) <= limit:
        return plain
    return plain[: limit - 1].rstrip() + "…"


def escape_cell(text: str, *, limit: int | None = None) -> str:
    """`text` as one Markdown table cell, without line ends or markup.

    At most `limit` characters of the original are shown."""
    plain = clean_cell(text) if limit is None else one_line(text, limit)
    escaped = _MARKUP.sub(r"\\\g<0>", plain)
    escaped = _EDGE_UNDERSCORE.sub(r"\\_", escaped)
    return _TAG_MARK.sub(lambda mark: _ENTITIES[mark[0]], escaped)


def escape_line(text: str) -> str:
    """`text` as a line of a Markdown paragraph or list. It begins no block of its own."""
    escaped = escape_cell(text)
    return f"\\{escaped}" if _BLOCK_MARK.match(escaped) else escaped


def one_row(text: str, room: int | None = None) -> str:
    """`text` as a line with its indent and a line end; it is broken only where it is wider than
    `room`."""
    return f"{wrap(text, room or sys.maxsize)}\n"


def clean_lines(text: str) -> str:
    """Every line of `text`, cleaned. No new lines are made; the result ends with one line end."""
    lines = []
    for line in text.rstrip("\n").split("\n"):
        lines.append(clean_terminal(line).replace("\n", " ") + "\n")
    return "".join(lines)


def display_width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    width = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        if unicodedata.category(character) in _WIDTHLESS_CATEGORIES:
            continue
        is_wide = unicodedata.east_asian_width(character) in ("W", "F")
        width += 2 if is_wide else 1
    return width


def wrap(line: str, room: int) -> str:
    """`line` broken between words; what follows stands two columns further in.

    A word is never cut: names and paths are there to be typed. Nor is a command in parentheses, if
    a row has room for it: in two pieces it could not be pasted."""
    indent = " " * (len(line) - len(line.lstrip(" ")))
    first, *others = _unbroken_words(clean_cell(line), room - len(indent) - 2)
    rows = [f"{indent}{first}"]
    for word in others:
        if display_width(rows[-1]) + 1 + display_width(word) > room:
            rows.append(f"{indent}  {word}")
        else:
            rows[-1] += f" {word}"
    return "\n".join(rows)


def _unbroken_words(text: str, room: int) -> list[str]:
    words = []
    for word in _WORDS.findall(text):
        if display_width(word) <= room:
            words.append(word)
        else:
            words += word.split(" ")
    return words or [""]
