"""Results in other people's formats: one flat row per result, for pandas, DuckDB, Polars and spreadsheets.

Owns: the columns and the formats. Refuses: figures (those are in summary.json) and loading a Parquet library unasked:
`export.parquet` is imported by whoever wants it.
"""

from clawgauge.export.columns import COLUMNS, Column, choose_columns
from clawgauge.export.source import ResultStream
from clawgauge.export.text_formats import iter_csv, iter_jsonl

__all__ = ["COLUMNS", "Column", "ResultStream", "choose_columns", "iter_csv", "iter_jsonl"]
