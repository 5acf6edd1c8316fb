"""A resource snapshot can always be taken, tells what it can, and gives nothing away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from clawgauge.host import snapshot
from clawgauge.host.snapshot import take_snapshot
from clawgauge.records import Resources
from support.fake_tools import install_tool, path_of

GPU_TABLE = (
    "printf 'index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%%], temperature.gpu, driver\\n';"
    "printf '0, NVIDIA GeForce RTX 4090, 24564, 1024, 37, 45, 550.54\\n';"
    "printf '1, Tesla T4, [N/A], [N/A], [N/A], [N/A], 550.54\\n'"
)


def section(text: str, title: str) -> str:
    return text.split(f"== {title} ==\n")[1].split("\n\n==")[0].strip("\n")


def test_with_an_empty_path_the_figures_are_still_there() -> None:
    """Without any tool the text says so, and memory, disk, load and processes are known all the same."""
    text, figures = take_snapshot(["llama3.2:3b"], environ={"PATH": ""})
    for title in (
        "Memory (free -h)",
        "Disk (df -h)",
        "Load (uptime)",
        "GPU (nvidia-smi)",
        "Ollama (ollama ps)",
    ):
        assert section(text, title) == "not available"
    assert figures.memory_total_bytes == psutil.virtual_memory().total
    assert 0 < (figures.memory_used_bytes or 0) < figures.memory_total_bytes
    assert figures.disk_free_bytes
    assert figures.load_1m is not None
    assert (figures.process_count or 0) >= 1
    assert figures.gpus == []
    assert section(text, "Loaded models") == "llama3.2:3b"


def test_tools_are_shown_and_gpus_parsed(tmp_path: Path) -> None:
    """What the tools print stands in the text, and each GPU in the figures with its unknowns as null."""
    install_tool(tmp_path, "free", "printf 'Mem: 23Gi %s' \"$*\"")
    install_tool(tmp_path, "nvidia-smi", GPU_TABLE)
    install_tool(tmp_path, "ollama", "printf 'NAME ID SIZE\\nllama3.2:3b a80c4f17acd5 4.0 GB\\n'")
    text, figures = take_snapshot([], environ=path_of(tmp_path))
    assert section(text, "Memory (free -h)") == "Mem: 23Gi -h"
    assert "llama3.2:3b" in section(text, "Ollama (ollama ps)")
    assert "RTX 4090" in section(text, "GPU (nvidia-smi)")
    first, second = figures.gpus
    assert (first["name"], first["memory_total_bytes"]) == ("NVIDIA GeForce RTX 4090", 24564 << 20)
    assert (first["memory_used_bytes"], first["utilization_percent"]) == (1 << 30, 37)
    assert (second["name"], second["memory_used_bytes"]) == ("Tesla T4", None)


def test_garbage_from_every_tool_does_no_harm(tmp_path: Path) -> None:
    """Tools that print rubbish and fail leave a readable text and no GPUs."""
    for name in ("free", "df", "uptime", "nvidia-smi", "rocm-smi", "ollama"):
        install_tool(
            tmp_path, name, r"printf '\377\000\033]52;c;eA==\007 0,,,,,, {\"card0\": [1'; exit 7"
        )
    text, figures = take_snapshot([], environ=path_of(tmp_path))
    assert figures.gpus == []
    assert "(ended with exit code 7)" in section(text, "Disk (df -h)")
    assert not set(text) & {"\x1b", "\x00", "\x07"}


def test_silent_tool_is_not_a_missing_one(tmp_path: Path) -> None:
    """A tool that prints nothing is told apart from one that is not there."""
    install_tool(tmp_path, "uptime", "")
    text, _ = take_snapshot([], environ=path_of(tmp_path))
    assert section(text, "Load (uptime)") == "(printed nothing)"


def test_amd_cards_are_parsed(tmp_path: Path) -> None:
    """rocm-smi's JSON gives name and memory, in the spelling of old and of new versions."""
    old = '"card0": {"Card series": "Radeon VII", "VRAM Total Memory (B)": "17163091968"}'
    new = '"card1": {"Card Series": "MI300X", "VRAM Total Used Memory (B)": "4096"}, "system": {"Driver version": "6"}'
    install_tool(tmp_path, "rocm-smi", f"printf '%s' '{{{old}, {new}}}'")
    _, figures = take_snapshot([], environ=path_of(tmp_path))
    assert [gpu["name"] for gpu in figures.gpus] == ["Radeon VII", "MI300X"]
    assert figures.gpus[0]["memory_total_bytes"] == 17163091968
    assert figures.gpus[1]["memory_used_bytes"] == 4096


def test_processes_are_shown_without_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with a key in its arguments, and even in its title, is shown by its kernel name alone."""
    monkeypatch.setattr(snapshot, "TOP_PROCESSES", sys.maxsize)  # this machine may have larger ones
    program = tmp_path / "benchmark-worker-with-a-long-name"
    program.symlink_to(sys.executable)
    title = "benchmark-worker-with-a-long-name --api-key=sk-canary"
    hold = "import sys; print('ready', flush=True); sys.stdin.read()"
    command = [title, "-S", "-c", hold, "--api-key=sk-canary"]
    with subprocess.Popen(
        command, executable=program, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        text, _ = take_snapshot([], environ={"PATH": ""})
        process.communicate()
    assert "benchmark-worke" in text
    assert "sk-canary" not in text


def test_names_cannot_steer_a_terminal() -> None:
    """A model that calls itself an escape sequence, or half a character, is shown without it."""
    text, _ = take_snapshot(["evil\x1b]52;c;eA==\x07\u202e", "half\ud83d"], environ={"PATH": ""})
    assert section(text, "Loaded models") == "evil]52;c;eA==\nhalf?"


def test_a_disk_that_is_not_there_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder that was deleted leaves the disk figures unknown and nothing else."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    text, figures = take_snapshot([], environ={"PATH": ""})
    assert (figures.disk_total_bytes, figures.disk_free_bytes) == (None, None)
    assert "disk free          not available of not available" in text
    assert figures.memory_total_bytes


def test_figures_survive_the_disk() -> None:
    """The parsed snapshot is JSON that reads back as it was written."""
    _, figures = take_snapshot(["m"], environ={"PATH": ""})
    assert msgspec.json.decode(msgspec.json.encode(figures), type=Resources) == figures
