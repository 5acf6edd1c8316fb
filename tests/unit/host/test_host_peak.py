"""The peak sampler sees the most memory that was in use, and leaves nothing running."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from clawgauge.host.peak import PeakSampler
from support.fake_tools import install_tool, path_of
from support.waiting import wait_until

BLOCK_BYTES = 96 << 20
HOLD = f"import sys; block = b'x' * {BLOCK_BYTES}; print('ready', flush=True); sys.stdin.read()"
NOTHING = {"PATH": ""}


def test_a_process_tree_is_added_up_and_its_peak_stays() -> None:
    """Memory of a grandchild counts for its root, and the peak outlives the process."""
    # The shell must not replace itself with its last command, or there would be no tree.
    command = ["/bin/sh", "-c", '"$0" -S -c "$1"; true', sys.executable, HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with PeakSampler(0.01, lambda: [process.pid], environ=NOTHING) as sampler:
            process.stdout.readline()
            wait_until(lambda: (sampler.peak_process_bytes or 0) >= BLOCK_BYTES)
            process.communicate()
    assert BLOCK_BYTES <= (sampler.peak_process_bytes or 0) < 3 * BLOCK_BYTES


def test_a_short_block_is_measured_too() -> None:
    """A block shorter than the interval still has a figure for the system, and none for processes it did not name."""
    with PeakSampler(60.0, environ=NOTHING) as sampler:
        pass
    assert (sampler.peak_memory_bytes or 0) > 0
    assert sampler.peak_process_bytes is None
    assert sampler.peak_vram_bytes is None


def test_a_process_that_is_gone_does_no_harm() -> None:
    """A process that has ended counts as nothing."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    with PeakSampler(60.0, lambda: [process.pid], environ=NOTHING) as sampler:
        pass
    assert sampler.peak_process_bytes == 0


def test_vram_is_summed_over_the_cards(tmp_path: Path) -> None:
    """Where nvidia-smi is there, the memory in use on all cards is added up."""
    install_tool(tmp_path, "nvidia-smi", "printf '1024\\n2048\\n[N/A]\\n'")
    with PeakSampler(60.0, environ=path_of(tmp_path)) as sampler:
        pass
    assert sampler.peak_vram_bytes == 3 << 30


def test_an_nvidia_smi_that_fails_gives_no_figure(tmp_path: Path) -> None:
    """A driver that is not there is an unknown, not a zero."""
    install_tool(tmp_path, "nvidia-smi", "printf 'NVIDIA-SMI has failed'; exit 9")
    with PeakSampler(60.0, environ=path_of(tmp_path)) as sampler:
        pass
    assert sampler.peak_vram_bytes is None


def test_nvidia_smi_is_not_asked_more_often_than_every_two_seconds(tmp_path: Path) -> None:
    """Fast sampling of memory does not start the costly tool any faster."""
    install_tool(tmp_path, "nvidia-smi", f"printf x >> {tmp_path}/asked; printf '1\\n'")
    began_s = time.monotonic()
    with PeakSampler(0.005, environ=path_of(tmp_path)):
        time.sleep(0.2)
    assert 1 <= len((tmp_path / "asked").read_text()) <= 1 + (time.monotonic() - began_s) // 2


def test_no_thread_is_left() -> None:
    """After the block the sampler's threads have ended, also when the block fails."""
    try:
        with PeakSampler(0.01, environ=NOTHING):
            raise LookupError("the work failed")
    except LookupError:
        pass
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("peak-")]
