"""The only reader and writer of a run folder.

Writing goes through one `RunFolder`, which holds the lock (import it from `journal.folder`); reading, gathered here,
needs no lock, no right to write and no event loop.
"""

from clawgauge.journal.disk import check_run_id, replace_beside_records, resource_tag, stat_file
from clawgauge.journal.lines import KEY_WITHHELD, encode_document, encode_line, withhold
from clawgauge.journal.locate import is_run_folder, list_runs, locate_run
from clawgauge.journal.reader import CellKey, RunReader, cell_key, index_cells, iter_results, iter_superseded

__all__ = [
    "KEY_WITHHELD", "CellKey", "RunReader", "cell_key", "check_run_id", "encode_document", "encode_line",
    "index_cells", "is_run_folder", "iter_results", "iter_superseded", "list_runs", "locate_run",
    "replace_beside_records", "resource_tag", "stat_file", "withhold",
]  # fmt: skip
