"""The only reader and writer of a run folder.

Writing goes through one `RunFolder`, which holds the lock (import it from `journal.folder`); reading, gathered here,
needs no lock, no right to write and no event loop.
"""

from clawgauge.journal.disk import check_run_id as check_run_id
from clawgauge.journal.disk import replace_beside_records as replace_beside_records
from clawgauge.journal.disk import resource_tag as resource_tag
from clawgauge.journal.disk import stat_file as stat_file
from clawgauge.journal.lines import KEY_WITHHELD as KEY_WITHHELD
from clawgauge.journal.lines import encode_document as encode_document
from clawgauge.journal.lines import encode_line as encode_line
from clawgauge.journal.lines import withhold as withhold
from clawgauge.journal.locate import is_run_folder as is_run_folder
from clawgauge.journal.locate import list_runs as list_runs
from clawgauge.journal.locate import locate_run as locate_run
from clawgauge.journal.locate import started_at_ms as started_at_ms
from clawgauge.journal.reader import CellKey as CellKey
from clawgauge.journal.reader import ResultReader as ResultReader
from clawgauge.journal.reader import as_config as as_config
from clawgauge.journal.reader import cell_key as cell_key
from clawgauge.journal.reader import index_cells as index_cells
from clawgauge.journal.reader import is_first_harness as is_first_harness
from clawgauge.journal.reader import iter_results as iter_results
from clawgauge.journal.reader import iter_superseded as iter_superseded
from clawgauge.journal.reader import read_config as read_config
from clawgauge.journal.reader import read_event_log as read_event_log
from clawgauge.journal.reader import read_events as read_events
from clawgauge.journal.reader import read_inventory as read_inventory
from clawgauge.journal.reader import read_raw_config as read_raw_config
from clawgauge.journal.reader import read_results_at as read_results_at
from clawgauge.journal.reader import read_summary as read_summary
