"""Energy counters, on folders shaped like the kernel's and on a library with NVML's calls."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from clawgauge.host.energy import EnergyMeter

NO_LIBRARY = "libnothing-of-the-kind.so.1"
FAKE_NVML = """
static unsigned long long spent = 5000000;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) {
    if (device == (void *)2) return 3; /* not supported by this board */
    spent += 1500; *mj = spent; return 0;
}
"""


def _zone(
    folder: Path, name: str, kind: str, energy_uj: int, range_uj: int = 262_143_328_850
) -> Path:
    zone = folder / name
    zone.mkdir(parents=True)
    (zone / "name").write_text(f"{kind}\n")
    (zone / "energy_uj").write_text(f"{energy_uj}\n")
    (zone / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return zone


def test_packages_are_added_up_and_parts_of_them_are_not(tmp_path: Path) -> None:
    """Two sockets count; the cores inside one and the whole-platform zone would count the same joules twice."""
    zones = [
        _zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000),
        _zone(tmp_path, "intel-rapl:1", "package-1", 2_000_000),
        _zone(tmp_path, "intel-rapl:0:0", "core", 500_000),
        _zone(tmp_path, "intel-rapl:2", "psys", 9_000_000),
    ]
    meter = EnergyMeter(tmp_path, NO_LIBRARY)
    for zone in zones:
        (zone / "energy_uj").write_text("12000000")
    meter.sample()
    assert meter.gained_j == {"cpu": pytest.approx(11.0 + 10.0)}


def test_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    """A counter starts again from 0 at its range; the joules around the turn are not lost."""
    zone = _zone(tmp_path, "intel-rapl:0", "package-0", 90_000_000, range_uj=100_000_000)
    meter = EnergyMeter(tmp_path, NO_LIBRARY)
    (zone / "energy_uj").write_text("5000000")
    meter.sample()
    assert meter.gained_j == {"cpu": pytest.approx(15.0)}


def test_a_machine_without_counters_has_no_figure(tmp_path: Path) -> None:
    """No powercap folder and no driver: the figure is absent, not zero."""
    meter = EnergyMeter(tmp_path / "missing", NO_LIBRARY)
    meter.sample()
    assert meter.gained_j is None


def test_a_counter_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """A zone whose counter holds no number (or may not be read) is as good as none."""
    zone = _zone(tmp_path, "intel-rapl:0", "package-0", 1)
    (zone / "energy_uj").write_text("n/a")
    meter = EnergyMeter(tmp_path, NO_LIBRARY)
    meter.sample()
    assert meter.gained_j is None


@pytest.mark.skipif(
    shutil.which("cc") is None, reason="needs a C compiler to build a library with NVML's calls"
)
def test_gpu_boards_are_read_through_nvml(tmp_path: Path) -> None:
    """The library's own calling convention, by a library built on the spot; a board without a counter is left out."""
    source, library = tmp_path / "nvml.c", tmp_path / "libnvml.so"
    source.write_text(FAKE_NVML)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    meter = EnergyMeter(tmp_path, str(library))
    meter.sample()
    meter.sample()
    assert meter.gained_j == {"gpu": pytest.approx(3.0)}
