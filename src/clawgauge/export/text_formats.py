"""Rows as CSV and as JSON Lines.

Owns: quoting. Refuses: files; a row is bytes here.

CSV follows RFC 4180 in UTF-8 with plain line feeds between rows: a text is always quoted and its line ends kept, None
is nothing at all between two commas and so differs from an empty text, lists are JSON text. A NUL, which no two CSV
readers agree about, becomes U+FFFD. By default a cell is what the record says, for data tools; `excel_safe` is for
spreadsheets, which would run a cell that begins like a formula and need a mark to read UTF-8.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from clawgauge.export.columns import Column, Value
from clawgauge.journal import encode_line, repair_text
from clawgauge.records import Result

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FORMULA_STARTS = frozenset("=+-@\u2212")

_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")


def iter_csv(results: Iterable[Result], columns: Sequence[Column], *, excel_safe: bool = False) -> Iterator[bytes]:
    """A header and one line per result."""
    header = ",".join(column.name for column in columns) + "\n"
    yield (_BYTE_ORDER_MARK if excel_safe else b"") + header.encode()
    for result in results:
        cells = [_csv_cell(column.read(result), excel_safe=excel_safe) for column in columns]
        yield (",".join(cells) + "\n").encode()


def _csv_cell(value: Value, *, excel_safe: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if excel_safe and _begins_a_formula(text):
        text = f"'{text}"
    return '"' + repair_text(text)[0].replace("\0", "\ufffd").replace('"', '""') + '"'


def _begins_a_formula(text: str) -> bool:
    """Whether a spreadsheet may run it: it passes over blanks and what is not seen, and folds wide and small forms.

    A text that begins with a control character or a mark is marked too: no two spreadsheets agree about those.
    """
    for character in text:
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
            return True
        if kind not in ("Zs", "Mn", "Me") and character not in _BLANK_LETTERS:
            return unicodedata.normalize("NFKC", character)[0] in _FORMULA_STARTS
    return False


def iter_jsonl(results: Iterable[Result], columns: Sequence[Column]) -> Iterator[bytes]:
    """One flat object per result. Numbers that JSON cannot hold are null."""
    for result in results:
        yield encode_line({column.name: _finite(column.read(result)) for column in columns})


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value
