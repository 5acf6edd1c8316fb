"""clawgauge: the OpenClaw LLM benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clawgauge.version import __version__ as __version__

if TYPE_CHECKING:
    from pathlib import Path


def load(run: str | Path = "latest", runs_dir: str | Path = "runs") -> list[dict[str, Any]]:
    """Every call of a run as a flat row, for pandas or Polars: the columns of `clawgauge export`.

    `run` is a run id, a path to a run folder, or `latest`; `runs_dir` is where runs are kept.

    >>> import pandas as pd
    >>> calls = pd.DataFrame(clawgauge.load("latest"))"""
    # Loaded only now: `clawgauge --help` needs none of it.
    from pathlib import Path

    from clawgauge.export import COLUMNS, ResultStream
    from clawgauge.journal import locate_run

    results = ResultStream([locate_run(str(run), Path(runs_dir))])
    return [{column.name: column.read(result) for column in COLUMNS} for result in results]
