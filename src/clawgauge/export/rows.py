"""Results as flat rows, from several runs, as CSV, JSON Lines and Parquet."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import msgspec

from clawgauge.characters import well_formed
from clawgauge.errors import ConfigError
from clawgauge.journal import encode_line, iter_results
from clawgauge.records import Result, TimingsUs


class ResultStream:
    """The results of `folders`, one after the other; after a pass `n_unreadable` and `n_rows` say what was met."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.n_rows = 0
        # Opened here once, so that a folder without results is refused before anything is written.
        self._readers = [iter_results(folder) for folder in folders]

    def __iter__(self) -> Iterator[Result]:
        self.n_rows = 0
        for result in chain.from_iterable(self._readers):
            self.n_rows += 1
            yield result

    @property
    def n_unreadable(self) -> int:
        return sum(reader.n_unreadable_lines for reader in self._readers)


Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "texts", "json"]
Value: TypeAlias = "str | int | float | bool | list[str] | None"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    read: Callable[[Result], Value]


_KINDS: dict[str, Kind] = {
    "StrType": "text", "LiteralType": "text", "IntType": "integer", "FloatType": "number", "BoolType": "boolean"
}  # fmt: skip


def _make_columns() -> tuple[Column, ...]:
    columns = [Column("target", "text", lambda r: r.target.label)]
    for field in msgspec.structs.fields(Result):
        name, kind = field.name, _kind_of(field.type)
        if name == "timings_us":
            parts = {part: attrgetter(f"timings_us.{part}") for part in TimingsUs.__struct_fields__}
            columns += [
                Column(f"timings_us_{part}", "integer", read) for part, read in parts.items()
            ]
            continue
        if name == "attempts":
            columns.append(Column("n_attempts", "integer", lambda r: len(r.attempts)))
        if name == "asked":
            columns.append(Column(name, kind, attrgetter("was_asked")))
            continue
        columns.append(
            Column(name, kind, partial(_read_json, name) if kind == "json" else attrgetter(name))
        )
    return tuple(columns)


def _kind_of(annotation: Any) -> Kind:
    """Lists of texts are texts; what else is not plain is JSON."""
    shape = msgspec.inspect.type_info(annotation)
    parts = shape.types if isinstance(shape, msgspec.inspect.UnionType) else (shape,)
    (part,) = (part for part in parts if not isinstance(part, msgspec.inspect.NoneType))
    if isinstance(part, msgspec.inspect.ListType) and isinstance(
        part.item_type, msgspec.inspect.StrType
    ):
        return "texts"
    return _KINDS.get(type(part).__name__, "json")


def _read_json(name: str, result: Result) -> Value:
    value: Any = getattr(result, name)
    return None if value is None else msgspec.json.encode(value).decode()


COLUMNS = _make_columns()


def choose_columns(names: Sequence[str] | None) -> tuple[Column, ...]:
    if names is None:
        return COLUMNS
    known = {column.name: column for column in COLUMNS}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        words = (
            f"there is no column {', '.join(unknown) or 'named'}; choose from {', '.join(known)}"
        )
        raise ConfigError(f"--columns: {words}")
    return tuple(known[name] for name in names)


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FORMULA_STARTS = frozenset("=+-@\u2212")
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_GROUP_ROWS, _GROUP_TEXT_CHARS = 1_000, 16 << 20


def iter_csv(
    results: Iterable[Result], columns: Sequence[Column], *, excel_safe: bool = False
) -> Iterator[bytes]:
    header = ",".join(column.name for column in columns) + "\n"
    yield (_BYTE_ORDER_MARK if excel_safe else b"") + header.encode()
    for result in results:
        cells = [_csv_cell(column.read(result), excel_safe=excel_safe) for column in columns]
        yield (",".join(cells) + "\n").encode()


def _csv_cell(value: Value, *, excel_safe: bool) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if excel_safe and _begins_a_formula(text):
        text = f"'{text}"
    return '"' + well_formed(text).replace("\0", "\ufffd").replace('"', '""') + '"'


def _begins_a_formula(text: str) -> bool:
    """Whether a spreadsheet may run it: they pass over what is not seen, fold wide forms, and disagree about marks."""
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
        yield encode_line({column.name: column.read(result) for column in columns})


def write_parquet(results: Iterable[Result], columns: Sequence[Column], file: BinaryIO) -> int:
    """All results into `file`, row group by row group. Returns how many there were. Needs pyarrow, an extra."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "text": pa.string(),
        "json": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
    }
    types |= {"boolean": pa.bool_(), "texts": pa.list_(pa.string())}
    schema = pa.schema([(column.name, types[column.kind]) for column in columns])

    def flush(batch: Sequence[list[Any]]) -> None:
        arrays = [
            pa.array(cells, type=kind) for cells, kind in zip(batch, schema.types, strict=True)
        ]
        writer.write_batch(pa.record_batch(arrays, schema=schema))

    n_rows = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        batch: list[list[Any]] = [[] for _ in columns]
        n_chars = 0
        for result in results:
            for cells, column in zip(batch, columns, strict=True):
                cells.append(_repaired(column.read(result)))
            n_rows += 1
            n_chars += len(result.raw_output) + len(result.reasoning_text or "")
            if len(batch[0]) >= _GROUP_ROWS or n_chars >= _GROUP_TEXT_CHARS:
                flush(batch)
                batch, n_chars = [[] for _ in columns], 0
        if batch[0]:
            flush(batch)
    return n_rows


def _repaired(value: Any) -> Any:
    # A damaged line may claim any number; a column of 64 bits has no place for it.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, str):
        return well_formed(value)
    return [well_formed(text) for text in value] if isinstance(value, list) else value
