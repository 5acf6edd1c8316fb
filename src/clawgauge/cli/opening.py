"""Where runs are, for every verb that reads them: a RUN word, --runs-dir, or what clawgauge.toml says."""

from __future__ import annotations

from pathlib import Path

from clawgauge.config import DEFAULT_RUNS_DIR, read_file_config
from clawgauge.journal import locate_run


def open_run(ref: str, runs_dir: Path | None) -> Path:
    """The folder a RUN word stands for. Without --runs-dir, run ids are looked up where clawgauge.toml says."""
    return locate_run(ref, runs_dir or configured_runs_dir())


def configured_prices() -> Path | None:
    """The user's own price file, where ./clawgauge.toml names one."""
    file, path = read_file_config(None, Path.cwd())
    return path.parent / file.run.prices if path and file.run.prices else None


def configured_runs_dir() -> Path:
    """Where runs are kept unless the command line says otherwise."""
    file, _ = read_file_config(None, Path.cwd())
    return Path(file.run.runs_dir or DEFAULT_RUNS_DIR)
