"""`python -m clawgauge.summary.second_reader FOLDER START`: accumulate the results from START on, for `shares`.

Writes the share to standard output; says nothing and ends with 1 where it cannot be had.
"""

from __future__ import annotations

import sys
from pathlib import Path

from clawgauge.errors import ClawgaugeError
from clawgauge.journal import iter_results
from clawgauge.summary.groups import BATCH_ROWS, stratify
from clawgauge.summary.rows import SummaryRow
from clawgauge.summary.share_wire import ShareRefused, encode_share


def main(folder: str, start: str) -> int:
    try:
        reader = iter_results(Path(folder), type=SummaryRow, start=int(start))
        strata = stratify(reader.batches(BATCH_ROWS))
        share = encode_share(strata, reader.bad_lines)
    except (ClawgaugeError, ShareRefused, OSError):
        return 1
    sys.stdout.buffer.write(share)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
