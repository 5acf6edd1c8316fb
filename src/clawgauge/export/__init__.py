"""Results in other people's formats: one flat row per result, for pandas, DuckDB, Polars and
spreadsheets."""

from clawgauge.export.otlp import OtlpExport
from clawgauge.export.rows import (
    COLUMNS,
    Column,
    ResultStream,
    choose_columns,
    iter_csv,
    iter_jsonl,
    write_parquet,
)

__all__ = [
    "COLUMNS",
    "Column",
    "OtlpExport",
    "ResultStream",
    "choose_columns",
    "iter_csv",
    "iter_jsonl",
    "write_parquet",
]
