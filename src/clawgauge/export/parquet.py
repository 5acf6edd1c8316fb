"""Rows as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from clawgauge.characters import well_formed
from clawgauge.export.rows import Column
from clawgauge.records import Result

_GROUP_ROWS = 1_000
_GROUP_TEXT_CHARS = 16 << 20
_TYPES = {
    "text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(),
    "texts": pa.list_(pa.string()), "json": pa.string(),
}  # fmt: skip


def write_parquet(results: Iterable[Result], columns: Sequence[Column], file: BinaryIO) -> int:
    """All results into `file`, row group by row group. Returns how many there were."""
    schema = pa.schema([(column.name, _TYPES[column.kind]) for column in columns])
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
                writer.write_batch(_record_batch(batch, schema))
                batch, n_chars = [[] for _ in columns], 0
        if batch[0]:
            writer.write_batch(_record_batch(batch, schema))
    return n_rows


def _record_batch(batch: Sequence[list[Any]], schema: Any) -> Any:
    arrays = [pa.array(cells, type=kind) for cells, kind in zip(batch, schema.types, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _repaired(value: Any) -> Any:
    # A damaged line may claim any number; a column of 64 bits has no place for it.
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, str):
        return well_formed(value)
    return [well_formed(text) for text in value] if isinstance(value, list) else value
