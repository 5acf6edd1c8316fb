"""The command that goes on with a run is the same wherever it is named."""

from __future__ import annotations

from pathlib import Path

from clawgauge.run_data.resume import resume_command
from support.written_runs import config, prompt, record, write_run


def test_the_command_names_the_folder_of_the_runs_and_the_file_that_the_user_named(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path / "runs" / "r", [record("P0")], config=config([prompt("P0")]))
    again = f"clawgauge run --resume r --runs-dir {tmp_path / 'runs'}"
    assert resume_command(run) == again
    assert resume_command(run, Path("my.toml")) == f"{again} --config my.toml"
    retry = resume_command(run, retry_errors=True)
    assert retry == f"clawgauge run --resume r --retry-errors --runs-dir {tmp_path / 'runs'}"


def test_a_capacity_run_goes_on_with_its_own_verb_wherever_its_settings_are(tmp_path: Path) -> None:
    capacity = {
        "contexts": [1000],
        "output_tokens": 8,
        "slo": {},
        "max_concurrency": 2,
        "rates": [],
        "duration_s": 5,
        "shared_prefix": 0,
        "shape": "plain",
        "swap": False,
        "max_time_s": 60,
    }
    run = write_run(tmp_path / "r", [], config=config([], capacity=capacity))
    again = f"clawgauge capacity --resume r --runs-dir {tmp_path} --config my.toml"
    assert resume_command(run, Path("my.toml")) == again
    assert resume_command(run, Path("my.toml"), retry_errors=True) == again


def test_a_run_whose_settings_cannot_be_read_has_a_command_all_the_same(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", [record("P0")], config=config([prompt("P0")]))
    (run / "config.json").write_text("{")
    assert resume_command(run) == f"clawgauge run --resume r --runs-dir {tmp_path}"
