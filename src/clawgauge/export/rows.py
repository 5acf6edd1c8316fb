"""Results as flat rows, from several runs, as CSV, JSON Lines and Parquet."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

import msgspec

from clawgauge.characters import well_formed
from clawgauge.errors import ConfigError
from clawgauge.journal import encode_line, iter_results
from clawgauge.records import Result, TimingsUs

if TYPE_CHECKING:
    import pyarrow as pa


class ResultStream:
    """The results of `folders`, one after the other; after a pass `n_unreadable` and `n_rows` say
    what was met."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.n_rows = 0
        # Opened here once, so that a folder without results is refused before anything is written.
        self._readers = [iter_results(folder) for folder in folders]

    def __iter__(self) -> Iterator[Result]:
        self.n_rows = 0
        for reader in self._readers:
            for result in reader:
                self.n_rows += 1
                yield result

    @property
    def n_unreadable(self) -> int:
        return sum(reader.n_unreadable_lines for reader in self._readers)


Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "texts", "json"]
Value: TypeAlias = "str | int | float | bool | list[str] | None"
Read: TypeAlias = Callable[[Result], Value]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    read: Read


def _make_columns() -> tuple[Column, ...]:
    """A column for each field of a result, in their order, and some that are worked out."""
    columns = [Column("target", "text", lambda result: result.target.label)]
    for field in msgspec.structs.fields(Result):
        if field.name == "timings_us":
            columns += _make_timing_columns()
            continue
        if field.name == "attempts":
            columns.append(Column("n_attempts", "integer", lambda result: len(result.attempts)))
        kind = _kind_of(field.type)
        columns.append(Column(field.name, kind, _make_reader(field.name, kind)))
    return tuple(columns)


def _make_timing_columns() -> list[Column]:
    columns = []
    for part in TimingsUs.__struct_fields__:
        read = attrgetter(f"timings_us.{part}")
        columns.append(Column(f"timings_us_{part}", "integer", read))
    return columns


def _make_reader(name: str, kind: Kind) -> Read:
    """What reads a field of a result as the value of a cell."""
    if name == "asked":
        # A record may leave it out: its attempts tell.
        return attrgetter("was_asked")
    if kind != "json":
        return attrgetter(name)

    def read_json(result: Result) -> Value:
        value: Any = getattr(result, name)
        return None if value is None else msgspec.json.encode(value).decode()

    return read_json


def _kind_of(annotation: Any) -> Kind:
    """The kind of a field by its type, None aside. Lists of texts are texts; what else is not plain
    is JSON."""
    shape = msgspec.inspect.type_info(annotation)
    if isinstance(shape, msgspec.inspect.UnionType):
        (shape,) = [
            member for member in shape.types if not isinstance(member, msgspec.inspect.NoneType)
        ]
    match shape:
        case msgspec.inspect.StrType() | msgspec.inspect.LiteralType():
            return "text"
        case msgspec.inspect.IntType():
            return "integer"
        case msgspec.inspect.FloatType():
            return "number"
        case msgspec.inspect.BoolType():
            return "boolean"
        case msgspec.inspect.ListType(item_type=msgspec.inspect.StrType()):
            return "texts"
        case _:
            return "json"


COLUMNS = _make_columns()


def choose_columns(names: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns of these names, in this order; without names all of them."""
    if names is None:
        return COLUMNS
    column_by_name = {column.name: column for column in COLUMNS}
    unknown = [name for name in names if name not in column_by_name]
    if unknown or not names:
        raise ConfigError(
            f"--columns: there is no column {', '.join(unknown) or 'named'}; choose from "
            f"{', '.join(column_by_name)}"
        )
    return tuple(column_by_name[name] for name in names)


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FORMULA_STARTS = frozenset("=+-@\u2212")
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
# A row group of Parquet is written once it has so many rows, or so much text.
_GROUP_ROWS = 1_000
_GROUP_TEXT_CHARS = 16 << 20


def iter_csv(
    results: Iterable[Result], columns: Sequence[Column], *, excel_safe: bool = False
) -> Iterator[bytes]:
    """A header and a line for each result; with `excel_safe` no cell is a formula, and the file is
    marked as UTF-8."""
    if excel_safe:
        yield _BYTE_ORDER_MARK + _csv_header(columns)
    else:
        yield _csv_header(columns)
    for result in results:
        cells = [_csv_cell(column.read(result), excel_safe=excel_safe) for column in columns]
        yield (",".join(cells) + "\n").encode()


def _csv_header(columns: Sequence[Column]) -> bytes:
    return (",".join(column.name for column in columns) + "\n").encode()


def _csv_cell(value: Value, *, excel_safe: bool) -> str:
    """Texts are in quotes, so that no text is empty and nothing is; null is nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if excel_safe and _begins_a_formula(text):
        text = f"'{text}"
    harmless = well_formed(text).replace("\0", "\ufffd")
    return '"' + harmless.replace('"', '""') + '"'


def _begins_a_formula(text: str) -> bool:
    """Whether a spreadsheet may run it: they pass over what is not seen, fold wide forms, and
    disagree about marks."""
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
    """All results into `file`, row group by row group. Returns how many there were. Needs pyarrow,
    an extra."""
    import pyarrow.parquet as pq

    schema = _make_schema(columns)
    n_rows = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for cells_by_column in read_row_groups(results, columns):
            writer.write_batch(_make_record_batch(cells_by_column, schema))
            n_rows += len(cells_by_column[0])
    return n_rows


def read_row_groups(
    results: Iterable[Result], columns: Sequence[Column]
) -> Iterator[list[list[Any]]]:
    """The cells of every column as Parquet takes them, of as many results as make a row group."""
    cells_by_column: list[list[Any]] = [[] for _ in columns]
    n_rows = 0
    n_chars = 0
    for result in results:
        for cells, column in zip(cells_by_column, columns, strict=True):
            cells.append(_repair(column.read(result)))
        n_rows += 1
        n_chars += len(result.raw_output) + len(result.reasoning_text or "")
        if n_rows >= _GROUP_ROWS or n_chars >= _GROUP_TEXT_CHARS:
            yield cells_by_column
            cells_by_column = [[] for _ in columns]
            n_rows = 0
            n_chars = 0
    if n_rows:
        yield cells_by_column


def _make_schema(columns: Sequence[Column]) -> pa.Schema:
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "json": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "texts": pa.list_(pa.string()),
    }
    return pa.schema([(column.name, types[column.kind]) for column in columns])


def _make_record_batch(cells_by_column: Sequence[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = []
    for cells, kind in zip(cells_by_column, schema.types, strict=True):
        arrays.append(pa.array(cells, type=kind))
    return pa.record_batch(arrays, schema=schema)


def _repair(value: Any) -> Any:
    """The value as Parquet takes it."""
    # A damaged line may claim any number; a column of 64 bits has no place for it.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed(text) for text in value]
    return value
