"""Where runs are, for every verb that reads them: a RUN word, --runs-dir, or what clawgauge.toml says."""

from __future__ import annotations

from pathlib import Path

from clawgauge.config import DEFAULT_RUNS_DIR, read_configuration, read_environment
from clawgauge.journal import locate_run


def open_run(ref: str, runs_dir: Path | None) -> Path:
    """The folder a RUN word stands for. Without --runs-dir, run ids are looked up where clawgauge.toml says."""
    if runs_dir is None and Path(ref).name != ref:
        # A path says it all: whatever lies in the current directory has no say.
        runs_dir = Path(DEFAULT_RUNS_DIR)
    return locate_run(ref, runs_dir or configured_runs_dir())


def configured_prices() -> Path | None:
    """The user's own price file, where ./clawgauge.toml names one."""
    configuration = read_configuration(None, read_environment())
    configuration.refuse_withheld(["prices"])
    prices, path = configuration.file.run.prices, configuration.path
    return path.parent / prices if path and prices else None


def configured_runs_dir() -> Path:
    """Where runs are kept unless the command line says otherwise."""
    configuration = read_configuration(None, read_environment())
    configuration.refuse_withheld(["runs_dir"])
    return Path(configuration.file.run.runs_dir or DEFAULT_RUNS_DIR)
