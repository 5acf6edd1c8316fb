"""The only reader and writer of a run folder. Writing is in `journal.folder`; reading, gathered here, needs no lock."""

# ruff: isort: skip_file
from clawgauge.journal.disk import KEY_WITHHELD, check_run_id, encode_document, encode_line, replace_beside_records
from clawgauge.journal.disk import resource_tag, stat_file, withhold
from clawgauge.journal.reader import CellKey, RunReader, cell_key, index_cells, is_run_folder, iter_results
from clawgauge.journal.reader import iter_superseded, list_runs, locate_run
