"""What the page says: verdicts are honest, and only the marked part of it changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.report import BEGIN, END, place, render
from bench.targets import judge

MACHINE = {
    "date": "2026-01-02T03:04:05+00:00",
    "system": "Linux",
    "cpu": "a CPU",
    "cores": 2,
    "memory_gb": 8.0,
    "python": "3.11.7",
    "libraries": {"aiohttp": "3.14"},
    "commit": None,
    "load_average": [0.5, 0.4, 0.3],
}


def startup(help_ms: float, dry_run_ms: float) -> dict[str, object]:
    figures = {"bare_interpreter": 12.0, "help": help_ms, "dry_run": dry_run_ms}
    rows = {name: {"wall_ms": ms, "cpu_ms": ms, "peak_rss_mb": 9.0} for name, ms in figures.items()}
    return {**rows, "load_average": [1.25, 1.0, 1.0]}


def test_a_target_is_met_missed_or_not_measured() -> None:
    """Nothing that was not measured counts as kept."""
    verdicts = {verdict.what: verdict.met for verdict in judge({"startup": startup(59.0, 151.0)})}
    assert verdicts["`clawgauge --help`"] is True
    assert verdicts["`clawgauge run --dry-run`"] is False
    assert [met for what, met in verdicts.items() if not what.startswith("`")] == [None] * (
        len(verdicts) - 2
    )


def test_a_missed_target_is_said_aloud_beside_its_load() -> None:
    """A reader sees the failure and how busy the machine was."""
    text = render({"machine": MACHINE, "startup": startup(59.0, 151.0)})
    assert "151 ms (Python alone 12) | **not met** |" in text
    assert "load average 1.25 1.00 1.00" in text


def test_a_busy_machine_is_owned_up_to() -> None:
    """Figures taken beside other work say so; those of a quiet machine do not."""
    loads = {
        load: render({"machine": {**MACHINE, "load_average": [load, 0.0, 0.0]}})
        for load in (0.5, 3.0)
    }
    assert ["busy" in text for text in loads.values()] == [False, True]


def test_only_the_marked_part_of_the_page_changes(tmp_path: Path) -> None:
    """Words around the tables stay, and writing again replaces what was written."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    place("new", page)
    place("newer", page)
    assert page.read_text() == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    """A page that lost its marks is not overwritten."""
    page = tmp_path / "page.md"
    page.write_text("mine\n")
    with pytest.raises(ValueError, match="page"):
        place("new", page)
    assert page.read_text() == "mine\n"
