"""Text from models, servers and file names, made harmless for the place it is shown in; never what is recorded."""

from __future__ import annotations

import re
import sys
import unicodedata

from clawgauge.characters import CONTROL_SEQUENCES, CONTROLS, UNSEEN, well_formed

# Sequences first, then every control character that is left, then what is not seen. `clawgauge.readings` drops all
# of it too, so that what is put together here has been searched for keys as it is shown.
_UNSAFE = re.compile(f"{CONTROL_SEQUENCES}|[{CONTROLS}]|{UNSEEN}")
_LINE_ENDS = re.compile("\r\n|[\x85\u2028\u2029]")

_MARKUP = re.compile(r"[\\|`*~$\[\]]")
# Underscores inside a word are literal in Markdown, and model names are full of them.
_EDGE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
# What could begin or end a tag; `<1%` and `>99%` cannot.
_TAG_MARK = re.compile(r"&|[<>](?!\d)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BLOCK_MARK = re.compile(r"[#>+=-]")


def clean_terminal(text: str) -> str:
    """Without what moves a cursor, sets a clipboard, recolours, reorders or is not seen; line ends and tabs stay."""
    return well_formed(_UNSAFE.sub("", _LINE_ENDS.sub("\n", text)))


def clean_cell(text: str) -> str:
    """`text` as part of a line that others wrote too, all of it on one line: a line end would forge a row."""
    return " ".join(clean_terminal(text).split())


def one_line(text: str, limit: int) -> str:
    """Foreign text as part of a line: nothing that steers a terminal, no line end, at most `limit` characters."""
    plain = clean_cell(text)
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def escape_cell(text: str, *, limit: int | None = None) -> str:
    """`text` as one Markdown table cell: one line, no markup, at most `limit` characters of the original."""
    plain = clean_cell(text) if limit is None else one_line(text, limit)
    escaped = _EDGE_UNDERSCORE.sub(r"\\_", _MARKUP.sub(r"\\\g<0>", plain))
    return _TAG_MARK.sub(lambda mark: _ENTITIES[mark[0]], escaped)


def escape_line(text: str) -> str:
    """`text` as a line of a paragraph or list, which begins no block of its own."""
    escaped = escape_cell(text)
    return f"\\{escaped}" if _BLOCK_MARK.match(escaped) else escaped


def one_row(text: str, room: int | None = None) -> str:
    """A line with foreign words in it, as far in as it began, with its line end; only `room` breaks it."""
    return f"{wrap(text, room or sys.maxsize)}\n"


def clean_lines(text: str) -> str:
    """Strip what could steer a terminal from every line, keep the lines, make no new ones; ends with one line end."""
    return "".join(
        clean_terminal(line).replace("\n", " ") + "\n" for line in text.rstrip("\n").split("\n")
    )


def display_width(text: str) -> int:
    if text.isascii():
        return len(text)
    seen = [
        c
        for c in text
        if not unicodedata.combining(c) and unicodedata.category(c) not in {"Mn", "Me", "Cf"}
    ]
    return len(seen) + sum(
        unicodedata.east_asian_width(character) in {"W", "F"} for character in seen
    )


def wrap(line: str, room: int) -> str:
    """A line broken between words, what follows two columns further in. Names and paths are to be typed: never cut."""
    own = " " * (len(line) - len(line.lstrip(" ")))
    first, *words = clean_cell(line).split(" ")
    rows = [f"{own}{first}"]
    for word in words:
        if display_width(rows[-1]) + 1 + display_width(word) > room:
            rows.append(f"{own}  {word}")
        else:
            rows[-1] += f" {word}"
    return "\n".join(rows)
