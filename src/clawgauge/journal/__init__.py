"""The only reader and writer of a run folder.

Writing goes through one `RunFolder`, which holds the lock (import it from `journal.folder`); reading, gathered here,
needs no lock, no right to write and no event loop.
"""

from clawgauge.journal.disk import replace_beside_records, stat_file
from clawgauge.journal.lines import KEY_WITHHELD, encode_document, encode_line, withhold
from clawgauge.journal.locate import is_run_folder, list_runs, locate_run, started_at_ms
from clawgauge.journal.names import check_run_id, resource_tag
from clawgauge.journal.reader import (
    CellKey,
    ResultReader,
    as_config,
    cell_key,
    index_cells,
    is_first_harness,
    iter_results,
    iter_superseded,
    read_config,
    read_event_log,
    read_events,
    read_inventory,
    read_raw_config,
    read_results_at,
    read_summary,
)

__all__ = [
    "KEY_WITHHELD",
    "CellKey",
    "ResultReader",
    "as_config",
    "cell_key",
    "check_run_id",
    "encode_document",
    "encode_line",
    "index_cells",
    "is_first_harness",
    "is_run_folder",
    "iter_results",
    "iter_superseded",
    "list_runs",
    "locate_run",
    "read_config",
    "read_event_log",
    "read_events",
    "read_inventory",
    "read_raw_config",
    "read_results_at",
    "read_summary",
    "replace_beside_records",
    "resource_tag",
    "started_at_ms",
    "stat_file",
    "withhold",
]
