"""The only reader and writer of a run folder.

Writing is in `journal.folder`; reading, gathered here, needs no lock.
"""

from clawgauge.journal.disk import replace_beside_records, stat_file
from clawgauge.journal.lines import KEY_WITHHELD, encode_document, encode_line, withhold
from clawgauge.journal.locate import is_run_folder, list_runs, locate_run
from clawgauge.journal.names import check_run_id, resource_tag
from clawgauge.journal.reader import (
    CellKey,
    RunReader,
    cell_key,
    index_cells,
    iter_results,
    iter_superseded,
)
