"""Rows 36 and 57: a disk that fills up at any moment of a run, and a machine without its usual tools."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawgauge.errors import MachineError
from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.claude.provider import ClaudeCodeCli
from faults.processes import SMALL, await_gone, ended, started
from support.command import Outcome, clawgauge, read_records, write_suite
from support.fake_claude import install_fake_claude
from support.fake_tools import install_tool
from support.published_schema import check_run_folder
from support.scripted_server import Held, ScriptedServer, Text
from support.waiting import wait_until

ON_DISK = (*SMALL, "--runs-dir", "disk", "--run-id", "r")
BIG = Text("x" * 20_000, chunks=4)
DISK_BYTES = 192 * 1024
BLOCK_BYTES = 4096


@pytest.fixture
def disk(place: Path) -> Iterator[Path]:
    """A disk of 192 KiB."""
    path = place / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(disk: Path, *, leave_bytes: int = 0) -> Path:
    """Take all room but `leave_bytes`; removing the returned file gives it back."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * BLOCK_BYTES)
        except OSError:
            file.truncate(file.tell() - leave_bytes)
    return ballast


def ended_by_the_disk(done: Outcome) -> bool:
    """Exit 4, nothing on stdout, and one sentence that names the file and the way out."""
    *_, last = done.stderr.splitlines()
    clean = not any(word in done.stderr for word in ("Traceback", "Exception", "ExceptionGroup"))
    return (
        done.code == 4
        and clean
        and last.startswith("clawgauge: ")
        and "No space left on device" in last
    )


@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_row_36_disk_full_while_asking(
    place: Path, disk: Path, server: ScriptedServer, concurrency: int
) -> None:
    """The run stops with exit 4 and one sentence, asks nothing more, and goes on once there is room."""
    server.reply_with(BIG)
    ballast = fill(disk, leave_bytes=100 * 1024)
    done = clawgauge(place, *ON_DISK, "--repeats", "5", "--concurrency", str(concurrency))
    assert ended_by_the_disk(done) and done.stdout == "", done.stderr
    kept = read_records(disk / "r")
    assert 1 <= len(kept) < 20 and len(server.calls) <= len(kept) + concurrency
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    again = clawgauge(place, "run", "--resume", "r", "--runs-dir", "disk")
    assert again.code == 0, again.stderr
    records = read_records(disk / "r")
    check_run_folder(disk / "r")
    assert (
        records[: len(kept)] == kept
        and len({(r["prompt_id"], r["repeat"]) for r in records}) == len(records) == 20
    )


def test_row_36_a_full_disk_says_how_many_answers_were_lost(
    place: Path, disk: Path, server: ScriptedServer
) -> None:
    """Four answers come to a disk without room: none is recorded, four are said to be given up, and are asked again."""
    full = place / "full"
    server.script(Text("yes"))
    server.reply_with(Held(BIG, full.exists))
    words = (*ON_DISK, "--repeats", "5", "--concurrency", "4")
    with started(place, *words) as process:
        wait_until(lambda: len(server.calls) == 5)
        ballast = fill(disk)
        full.touch()
        code, out, err = ended(process)
    done = Outcome(code, out, err, place)
    assert ended_by_the_disk(done), err
    assert len(read_records(disk / "r")) == 1 and len(server.calls) == 5
    assert "4 calls were given up, in flight or with answers that were not written" in err
    assert "clawgauge run --resume r --runs-dir disk asks them again" in err
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    assert clawgauge(place, "run", "--resume", "r", "--runs-dir", "disk").code == 0
    assert len(read_records(disk / "r")) == 20 and len(server.calls) == 5 + 19


def test_row_36_disk_full_with_a_cli_at_work(place: Path, disk: Path) -> None:
    """Calls in flight when the disk fills are ended with all they started."""
    write_suite(place / "two.json", {"prompt": "one"}, {"prompt": "two"})
    fake = install_fake_claude(
        place / "bin", answer="x" * 3000, waits_for=place / "go", hang="after_result"
    )
    env = {
        "PATH": f"{fake.bin_dir}:{os.environ['PATH']}",
        "HOME": str(place),
        "ANTHROPIC_API_KEY": "key-of-a-test",
    }
    words = (
        "run",
        "-t",
        "claude_code_cli:m",
        "-s",
        "two.json",
        "--runs-dir",
        "disk",
        "--run-id",
        "r",
    )
    with started(place, *words, env=env) as process:
        wait_until(lambda: fake.calls)
        fill(disk)
        (place / "go").touch()
        code, _, err = ended(process)
    assert code == 4 and "No space left" in err and "Traceback" not in err
    await_gone(*(start.pid for start in fake.starts))
    check_run_folder(disk / "r")
    assert read_records(disk / "r") == []


def test_row_36_disk_full_from_the_start(place: Path, disk: Path, server: ScriptedServer) -> None:
    """Where not even the plan fits nothing is asked and no folder is left that would take the run id."""
    ballast = fill(disk)
    done = clawgauge(place, *ON_DISK)
    assert ended_by_the_disk(done) and "run again" in done.stderr
    assert server.calls == [] and [path.name for path in disk.iterdir()] == ["ballast"]
    ballast.unlink()
    assert clawgauge(place, *ON_DISK).code == 0


@pytest.mark.parametrize(
    "name",
    [
        "inventory.json",
        pytest.param("resources_fake_scripted-model_before.txt", marks=pytest.mark.slow),
    ],
)
def test_row_36_disk_full_at_each_document(
    place: Path, disk: Path, server: ScriptedServer, name: str
) -> None:
    """A disk that fills at any document before the first call ends the run the same way, and resume repairs it."""
    leave_bytes = {
        "inventory.json": 2 * BLOCK_BYTES,
        "resources_fake_scripted-model_before.txt": 3 * BLOCK_BYTES,
    }
    ballast = fill(disk, leave_bytes=leave_bytes[name])
    done = clawgauge(place, *ON_DISK)
    assert ended_by_the_disk(done) and name in done.stderr, done.stderr
    assert server.calls == [] and read_records(disk / "r") == []
    ballast.unlink()
    again = clawgauge(place, "run", "--resume", "r", "--runs-dir", "disk")
    assert again.code == 0 and len(read_records(disk / "r")) == 4


def test_row_36_disk_full_at_the_summary(place: Path, disk: Path) -> None:
    """The summary that does not fit leaves the old one whole, and every record."""
    assert clawgauge(place, *ON_DISK).code == 0
    old = (disk / "r" / "summary.json").read_bytes(), (disk / "r" / "results.jsonl").read_bytes()
    ballast = fill(disk)
    for words in (("run", "--resume", "r"), ("summarize", "r")):
        done = clawgauge(place, *words, "--runs-dir", "disk")
        assert ended_by_the_disk(done) and "summary.json" in done.stderr
    assert old == (
        (disk / "r" / "summary.json").read_bytes(),
        (disk / "r" / "results.jsonl").read_bytes(),
    )
    assert not list((disk / "r").glob(".*"))
    ballast.unlink()
    assert clawgauge(place, "summarize", "r", "--runs-dir", "disk").code == 0


def test_row_36_a_limit_on_file_sizes(place: Path, server: ScriptedServer) -> None:
    """`ulimit -f` stops a run as a full disk does; it needs no rights to try."""
    server.reply_with(BIG)
    limited = ("/bin/sh", "-c", 'ulimit -f 250; exec "$@"', "sh")
    with started(place, *SMALL, "--repeats", "3", "--run-id", "r", prefix=limited) as process:
        code, _, err = ended(process)
    assert code == 4 and "File too large" in err.splitlines()[-1] and "Traceback" not in err
    assert 1 <= len(read_records(place / "runs" / "r")) < 12
    # The answer that was too much for the file, and there was room for the event that says so.
    assert len(server.calls) == len(read_records(place / "runs" / "r")) + 1
    assert "1 call was given up" in err and "clawgauge run --resume r asks it again" in err
    *_, ending = (place / "runs" / "r" / "events.jsonl").read_text().splitlines()
    assert json.loads(ending)["detail"]["given_up"] == 1


def test_row_36_stdout_on_a_full_disk(place: Path) -> None:
    """The result that cannot be printed is a sentence and exit 4; the run itself is complete."""
    with (
        Path("/dev/full").open("wb") as full,
        started(place, *SMALL, "--run-id", "r", stdout=full) as process,
    ):
        code, _, err = ended(process)
    assert code == 4 and "standard output" in err.splitlines()[-1] and "Traceback" not in err
    assert (
        len(read_records(place / "runs" / "r")) == 4
        and (place / "runs" / "r" / "summary.md").is_file()
    )


def test_row_36_progress_on_a_full_disk(place: Path) -> None:
    """A log file without room costs the log, not the run."""
    with (
        Path("/dev/full").open("wb") as full,
        started(place, *SMALL, "--run-id", "r", stderr=full) as process,
    ):
        code, out, _ = ended(process)
    assert (code, out) == (0, "runs/r\n") and len(read_records(place / "runs" / "r")) == 4


def test_row_36_no_streams_at_all(place: Path) -> None:
    """Started with stdin, stdout and stderr closed, the run is recorded, and none of its files becomes a stream."""
    closed = ("/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    with started(place, *SMALL, "--run-id", "r", prefix=closed) as process:
        assert ended(process) == (0, "", "")
    assert len(read_records(place / "runs" / "r")) == 4


def test_row_36_no_folder_for_the_cli_to_work_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude Code gets an empty folder to work in; where none can be made, the machine ends the run and says why."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    provider = ClaudeCodeCli(ProviderSettings(name="c", type="claude_code_cli", environ={}))
    with pytest.raises(MachineError, match="TMPDIR") as caught:
        asyncio.run(provider.__aenter__())
    assert caught.value.exit_code == 4


def sections(text: str) -> dict[str, str]:
    """A resources file by its headings."""
    _, *parts = text.split("\n== ")
    return {part.partition(" ==\n")[0]: part.partition(" ==\n")[2].strip() for part in parts}


TOOLS = ("Memory (free -h)", "Disk (df -h)", "GPU (nvidia-smi)", "Ollama (ollama ps)")


@pytest.mark.parametrize(
    "path", ["empty", pytest.param("", marks=pytest.mark.slow)], ids=["empty_folder", "no_path"]
)
def test_row_57_no_tools_on_path(place: Path, path: str) -> None:
    """Without free, df, ollama and nvidia-smi the snapshots say "not available" and the run is like any other."""
    (place / "empty").mkdir()
    done = clawgauge(place, *SMALL, env={"PATH": path and str(place / path)})
    assert done.code == 0 and len(done.records()) == 4, done.stderr
    for moment in ("before", "after"):
        found = sections((done.folder / f"resources_fake_scripted-model_{moment}.txt").read_text())
        assert [found[name] for name in TOOLS] == ["not available"] * 4
        assert "not available" not in found["Figures"]  # these come from the system itself
    inventory = json.loads((done.folder / "inventory.json").read_bytes())
    assert inventory["cli_versions"]["ollama"] is None and inventory["ollama_list"] is None
    assert inventory["gpus"] == [] and inventory["memory"]["total_bytes"] > 0


def test_row_57_tools_that_fail(place: Path) -> None:
    """Tools that cannot start, fail, or print rubbish are told as they are, and the run goes on."""
    bin_dir = place / "bin"
    install_tool(bin_dir, "df", "echo no such disk; exit 1")
    install_tool(bin_dir, "nvidia-smi", "printf '\\377\\033]52;c;aGk=\\007 0, x, y, z'")
    (bin_dir / "ollama").write_bytes(b"\x7fELF made for another machine")
    (bin_dir / "ollama").chmod(0o755)
    (bin_dir / "free").mkdir()
    done = clawgauge(place, *SMALL, env={"PATH": str(bin_dir)})
    assert done.code == 0 and len(done.records()) == 4, done.stderr
    found = sections((done.folder / "resources_fake_scripted-model_after.txt").read_text())
    assert found["Memory (free -h)"] == found["Ollama (ollama ps)"] == "not available"
    assert found["Disk (df -h)"] == "no such disk\n(ended with exit code 1)"
    assert "\x1b" not in found["GPU (nvidia-smi)"]
    assert json.loads((done.folder / "inventory.json").read_bytes())["gpus"] == []


@pytest.mark.slow
def test_row_57_tools_that_hang(place: Path) -> None:
    """Tools that never answer cost their time limit once per look, not the run."""
    for name in ("free", "df", "ollama", "nvidia-smi"):
        install_tool(place / "bin", name, "exec /bin/sleep 600")
    done = clawgauge(place, *SMALL, env={"PATH": str(place / "bin")})
    assert done.code == 0 and len(done.records()) == 4
    found = sections((done.folder / "resources_fake_scripted-model_after.txt").read_text())
    assert all(found[name] == "(stopped: it went on for too long)" for name in TOOLS)
