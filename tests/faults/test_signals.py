"""Rows 38 to 40: one writer per folder; Ctrl-C, SIGTERM and closed pipes, at every moment of a run."""

from __future__ import annotations

import itertools
import json
import os
import pty
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from faults.processes import (
    SMALL,
    await_gone,
    ended,
    has_ended_or_is_interrupted,
    interrupt_until_it_ends,
    started,
)
from support.command import clawgauge, clean_environment, read_records
from support.fake_tools import install_tool
from support.scripted_server import Hang, Held, ScriptedServer, Text
from support.waiting import FOREVER_S, PATIENCE_S, wait_until

CUT = (*SMALL, "--run-id", "cut")
SLOW = Text("yes", first_delay_s=FOREVER_S)


def loop_environment(place: Path, name: str) -> dict[str, str]:
    """What makes the command run on one of the two event loops: one is taken only where the other is missing."""
    if name == "uvloop":
        return {}
    (place / "no_uvloop").mkdir()
    (place / "no_uvloop" / "uvloop.py").write_text("raise ImportError\n")
    return {"PYTHONPATH": str(place / "no_uvloop")}


def summary_of(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "summary.json").read_bytes())
    return loaded


def says_nothing_strange(err: str) -> bool:
    """No traceback, and none of the interpreter's own last words."""
    return not any(word in err for word in ("Traceback", "Exception", "Error:", "never awaited"))


def test_row_38_two_processes_one_run_folder(place: Path, server: ScriptedServer) -> None:
    """A second writer, of whatever verb, is turned away and told who holds the folder; kill -9 frees it."""
    server.script(Text("yes"), SLOW)
    with started(place, *SMALL, "--run-id", "held") as holder:
        wait_until(lambda: len(server.calls) == 2)
        before = (place / "runs" / "held" / "results.jsonl").read_bytes()
        for words in (("run", "--resume", "held"), ("rescore", "held")):
            refused = clawgauge(place, *words)
            assert refused.code == 4 and f"process {holder.pid} " in refused.stderr
            assert says_nothing_strange(refused.stderr) and len(refused.stderr.splitlines()) <= 2
        assert (place / "runs" / "held" / "results.jsonl").read_bytes() == before
        holder.kill()
        ended(holder)
    assert clawgauge(place, "run", "--resume", "held").code == 0
    assert len(read_records(place / "runs" / "held")) == 4


@pytest.mark.parametrize(
    ("number", "loop"),
    [(signal.SIGINT, "asyncio"), (signal.SIGTERM, "uvloop")],
    ids=["row_39", "row_40"],
)
def test_row_39_and_40_one_signal_ends_the_run_in_order(
    place: Path, server: ScriptedServer, number: signal.Signals, loop: str
) -> None:
    """Ctrl-C or SIGTERM once: the call in flight is given up, the summary is written, exit 130, no traceback."""
    server.script(Text("yes"), SLOW)
    with started(place, *CUT, env=loop_environment(place, loop)) as process:
        wait_until(lambda: len(server.calls) == 2)
        process.send_signal(number)
        code, out, err = ended(process)
    assert (code, out) == (130, "runs/cut\n") and says_nothing_strange(err)
    assert [r["prompt_id"] for r in read_records(place / "runs" / "cut")] == ["P0"]
    assert summary_of(place / "runs" / "cut")["models"][0]["n_total"] == 1
    assert not (place / "runs" / "cut" / ".lock").exists()
    # The call that was given up, and all that was not asked: one command for both.
    assert (
        re.findall(r"clawgauge run --resume cut(?: --\S+)*", err)
        == ["clawgauge run --resume cut"] * 2
    )


def last_event(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])
    return loaded


@pytest.mark.parametrize(
    ("n_in_flight", "said"), [(1, "1 call was given up"), (3, "3 calls were given up")]
)
def test_row_39_ctrl_c_says_how_many_calls_were_given_up_and_resume_asks_them_again(
    place: Path, server: ScriptedServer, n_in_flight: int, said: str
) -> None:
    """Calls that a server holds are lost with Ctrl-C: how many is on the terminal, quiet or not, and in the run."""
    server.script(Text("yes"), *([SLOW] * n_in_flight))
    words = (*CUT, "--repeats", "5", "--concurrency", str(n_in_flight), "-q")
    with started(place, *words) as process:
        wait_until(lambda: len(server.calls) == 1 + n_in_flight)
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
    assert code == 130 and says_nothing_strange(err)
    assert said in err and "clawgauge run --resume cut asks" in err
    ending = last_event(place / "runs" / "cut")
    assert (ending["event"], ending["detail"]["given_up"]) == ("stretch_ended", n_in_flight)
    assert len(read_records(place / "runs" / "cut")) == 1
    given_up = [call.prompt for call in server.calls[1:]]
    assert clawgauge(place, "run", "--resume", "cut").code == 0
    assert not Counter(given_up) - Counter(call.prompt for call in server.calls[1 + n_in_flight :])
    assert (
        len(read_records(place / "runs" / "cut")) == 20
        and "given_up" not in last_event(place / "runs" / "cut")["detail"]
    )


def test_row_39_where_no_call_was_in_flight_none_is_said_to_be_given_up(
    place: Path, server: ScriptedServer
) -> None:
    """Ctrl-C while the machine is looked at for the last time: all that was asked is on record."""
    env, flag = hanging_tool(place)
    server.script(Text("yes"), Text("yes"), Text("yes"), Held(Text("yes"), flag.exists))
    with started(place, *CUT, env=env) as process:
        wait_until(lambda: len(server.calls) == 4)
        flag.touch()
        wait_until((place / "tool pid").exists)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: has_ended_or_is_interrupted(process))
        # The run may have ended it, and itself, by now.
        with suppress(ProcessLookupError):
            os.kill(int((place / "tool pid").read_text()), signal.SIGKILL)
        code, _, err = ended(process)
    assert code == 130 and "given up" not in err
    assert len(read_records(place / "runs" / "cut")) == 4


def hanging_tool(place: Path) -> tuple[dict[str, str], Path]:
    """A PATH whose `nvidia-smi` hangs once a certain file is there, and that file."""
    flag = place / "hang now"
    note = place / "tool pid"
    script = f"[ -e '{flag}' ] || exit 0; echo $$ > '{note}'; exec /bin/sleep 600"
    install_tool(place / "tools", "nvidia-smi", script)
    return {"PATH": f"{place / 'tools'}:{os.environ['PATH']}"}, flag


@pytest.mark.parametrize("loop", ["uvloop", pytest.param("asyncio", marks=pytest.mark.slow)])
def test_row_39_ctrl_c_twice_during_the_last_snapshot(
    place: Path, server: ScriptedServer, loop: str
) -> None:
    """A second Ctrl-C does not wait for a machine that does not answer: it ends at once, and the records stand."""
    env, flag = hanging_tool(place)
    server.script(Text("yes"), SLOW)
    with started(place, *CUT, env={**env, **loop_environment(place, loop)}) as process:
        wait_until(lambda: len(server.calls) == 2)
        flag.touch()
        process.send_signal(signal.SIGINT)
        wait_until((place / "tool pid").exists)
        interrupt_until_it_ends(process)
        code, _, err = ended(process)
    assert code == 130 and says_nothing_strange(err)
    assert not list((place / "runs" / "cut").glob("resources_*_after.txt"))
    assert [r["prompt_id"] for r in read_records(place / "runs" / "cut")] == ["P0"]
    assert "ended at once" in err and "clawgauge run --resume cut asks them again" in err
    await_gone(int((place / "tool pid").read_text()))


def test_row_39_ctrl_c_while_a_server_is_loaded_says_what_was_given_up(
    place: Path, server: ScriptedServer
) -> None:
    """The calls of a capacity run count as any other; what they were part of is measured anew."""
    n_calls = itertools.count()
    answer = Text("word " * 8)
    server.reply_with(lambda request: answer if next(n_calls) < 3 else SLOW)
    load = (
        "capacity",
        "-t",
        "fake:scripted-model",
        "--context",
        "500",
        "--output",
        "8",
        "--max-concurrency",
        "2",
    )
    with started(place, *load, "--run-id", "load") as process:
        wait_until(lambda: len(server.calls) >= 4)
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
    assert code == 130 and says_nothing_strange(err)
    assert "1 call was given up" in err and "clawgauge capacity --resume load" in err
    assert "measures the broken step anew" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["row_39", "row_40"])
def test_row_39_and_40_a_signal_while_the_run_is_planned(
    place: Path, server: ScriptedServer, number: signal.Signals
) -> None:
    """While the models of a pattern are listed, one signal ends the command: exit 130, nothing made, no traceback."""
    server.route("/v1/models", Hang("before_headers"))
    with started(place, "run", "-t", "fake:*", "-s", "small.json") as process:
        wait_until(lambda: server.requests)
        process.send_signal(number)
        code, out, err = ended(process)
    assert (code, out) == (130, "") and says_nothing_strange(err)
    assert not (place / "runs").exists()


def test_row_40_sigterm_during_the_inventory(place: Path, server: ScriptedServer) -> None:
    """Before the first call the folder is there already: it gets its summary, and the run can be gone on with."""
    env, flag = hanging_tool(place)
    flag.touch()
    with started(place, *CUT, env=env) as process:
        wait_until((place / "tool pid").exists)
        process.send_signal(signal.SIGTERM)
        code, out, err = ended(process)
    assert (code, out) == (130, "runs/cut\n") and says_nothing_strange(err)
    assert summary_of(place / "runs" / "cut")["models"][0]["n_total"] == 0 and server.calls == []
    flag.unlink()
    assert clawgauge(place, "run", "--resume", "cut").code == 0
    assert (place / "runs" / "cut" / "inventory.json").is_file()


def is_pending(process_id: int, number: signal.Signals) -> bool:
    """Whether a signal has been sent to a process that has not been woken by it yet."""
    status = Path(f"/proc/{process_id}/status")
    if not status.exists():
        time.sleep(0.2)  # no other system shows it
        return False
    masks = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


class SlowDisk:
    """A disk that, once told to, does not answer whoever opens config.json, as the summary does, until `answer`."""

    def __init__(self, place: Path) -> None:
        folder = place / "slow_disk"
        folder.mkdir()
        self._held, self._waited_for = folder / "held", folder / "waited_for"
        self.path = str(folder)
        (folder / "sitecustomize.py").write_text(
            f"""import os, sys, time
def wait(event, arguments):
    if event == "open" and str(arguments[0]).endswith("config.json"):
        while os.path.exists({str(self._held)!r}):
            os.path.exists({str(self._waited_for)!r}) or os.mkdir({str(self._waited_for)!r})
            time.sleep(0.01)
sys.addaudithook(wait)
"""
        )

    def hold(self) -> None:
        self._held.touch()

    def is_held(self) -> bool:
        return self._held.exists()

    def is_waited_for(self) -> bool:
        return self._waited_for.exists()

    def answer(self) -> None:
        self._held.unlink()


@pytest.mark.parametrize(
    ("number", "loop"),
    [(signal.SIGINT, "uvloop"), (signal.SIGTERM, "asyncio")],
    ids=["row_39", "row_40"],
)
def test_row_39_and_40_a_signal_while_the_summary_is_written(
    place: Path, server: ScriptedServer, number: signal.Signals, loop: str
) -> None:
    """A signal after the last call does not cost the summary: it is written whole, and the exit code is 130."""
    disk = SlowDisk(place)
    server.reply_with(Held(Text("yes"), disk.is_held))
    path = os.pathsep.join([disk.path, *loop_environment(place, loop).values()])
    with started(place, *CUT, env={"PYTHONPATH": path}) as process:
        wait_until(lambda: server.calls)
        disk.hold()
        wait_until(disk.is_waited_for)
        process.send_signal(number)
        wait_until(lambda: not is_pending(process.pid, number))
        disk.answer()
        code, out, err = ended(process)
    assert (code, out) == (130, "runs/cut\n") and says_nothing_strange(err)
    assert summary_of(place / "runs" / "cut")["models"][0]["n_total"] == 4


def test_row_39_ctrl_c_twice_while_the_summary_is_written(
    place: Path, server: ScriptedServer
) -> None:
    """A disk that does not answer holds the summary, not the person: the second Ctrl-C ends it at once."""
    disk = SlowDisk(place)
    server.reply_with(Held(Text("yes"), disk.is_held))
    with started(place, *CUT, env={"PYTHONPATH": disk.path}) as process:
        wait_until(lambda: server.calls)
        disk.hold()
        wait_until(disk.is_waited_for)
        interrupt_until_it_ends(process)
        code, _, err = ended(process)
    assert code == 130 and says_nothing_strange(err)
    assert len(read_records(place / "runs" / "cut")) == 4
    assert clawgauge(place, "run", "--resume", "cut").code == 0


@pytest.mark.slow
def test_row_39_and_40_a_signal_at_any_moment(place: Path) -> None:
    """Wherever a signal falls between start and end: 130 or done, no traceback, and a folder that is whole."""
    rng = random.Random(39)
    for turn in range(60):
        number = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
        with started(place, *SMALL, "--run-id", f"r{turn}") as process:
            time.sleep(rng.uniform(0.0, 0.8))
            process.send_signal(number)
            code, _, err = ended(process)
        folder = place / "runs" / f"r{turn}"
        if not folder.exists() and code != 130:
            # Python itself was still starting: nothing of the command had begun.
            assert code == -number or "KeyboardInterrupt" in err
            continue
        assert code in (0, 130) and says_nothing_strange(err), err
        if folder.exists():
            assert summary_of(folder)["models"][0]["n_total"] == len(read_records(folder))
            assert not list(folder.glob(".*"))


def test_row_40_a_program_that_says_it_twice(place: Path, server: ScriptedServer) -> None:
    """`timeout` and closing terminals signal a process and then its group: that is one wish, and ends in order."""
    server.script(Text("yes"), SLOW)
    with started(place, *CUT) as process:
        wait_until(lambda: len(server.calls) == 2)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_pending(process.pid, signal.SIGTERM))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        code, out, err = ended(process)
    assert (code, out) == (130, "runs/cut\n") and says_nothing_strange(err)
    assert summary_of(place / "runs" / "cut")["models"][0]["n_total"] == 1


def test_row_40_nohup_is_respected(place: Path, server: ScriptedServer) -> None:
    """A SIGHUP that was ignored when the command started stays ignored: the run goes on to its end."""
    hung_up = threading.Event()
    server.script(Held(Text("yes"), hung_up.is_set))
    with started(place, *CUT, prefix=["nohup"]) as process:
        wait_until(lambda: server.calls)
        process.send_signal(signal.SIGHUP)
        hung_up.set()
        code, _, err = ended(process)
    assert code == 0, err
    assert len(read_records(place / "runs" / "cut")) == 4


def in_shell(place: Path, script: str) -> tuple[list[str], str]:
    """What a shell line prints, by lines, and all that went to stderr. `$CG` is the command."""
    env = clean_environment(CG=shlex.join([sys.executable, "-m", "clawgauge"]))
    done = subprocess.run(
        ["bash", "-c", script], cwd=place, env=env, capture_output=True, timeout=PATIENCE_S
    )
    return done.stdout.decode().splitlines(), done.stderr.decode()


def test_row_40_progress_into_a_closed_pipe(place: Path, server: ScriptedServer) -> None:
    """`2>&1 | head -2` ends the run as one Ctrl-C: 130, what was answered stands and is summed up, no traceback."""
    server.reply_with(Held(Text("yes"), (place / "closed").exists))
    head = "{ head -n 2; exec <&-; : > closed; }"
    lines, err = in_shell(place, f"$CG {shlex.join(CUT)} 2>&1 | {head}; echo ${{PIPESTATUS[0]}}")
    # What was said before the run began, and how it ended.
    using, first_line, code = lines
    assert using == "using clawgauge.toml (trusted)" and first_line.startswith("asking 4 prompts")
    assert code == "130" and err == ""
    folder = place / "runs" / "cut"
    assert len(read_records(folder)) < 4 and len(server.calls) < 4
    assert (folder / "summary.json").is_file() and not (folder / ".lock").exists()
    assert clawgauge(place, "run", "--resume", "cut").code == 0
    assert len(read_records(folder)) == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [(CUT, 130), (("suites", "list"), 0), (("--help",), 0)],
    ids=["run", "suites", "help"],
)
def test_row_40_results_into_a_closed_pipe(
    place: Path, words: tuple[str, ...], expected: int
) -> None:
    """A reader that is gone before the first line ends a run as a signal does, and is nothing to whoever only reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed, started(place, *words, stdout=closed) as process:
        code, _, err = ended(process)
    assert code == expected and says_nothing_strange(err)
    if words == CUT:
        assert (
            len(read_records(place / "runs" / "cut")) == 4
            and summary_of(place / "runs" / "cut")["models"]
        )


def test_row_40_a_reader_that_has_had_enough(place: Path, server: ScriptedServer) -> None:
    """`export | head` ends quietly and well, as other filters do, also under pipefail."""
    assert clawgauge(place, *CUT).code == 0
    lines, err = in_shell(
        place, "set -o pipefail; $CG export cut cut cut --format jsonl | head -n 1 | wc -l; echo $?"
    )
    assert ([line.strip() for line in lines], says_nothing_strange(err)) == (["1", "0"], True)


def test_row_40_ctrl_c_for_a_whole_pipeline(place: Path, server: ScriptedServer) -> None:
    """In `run 2>&1 | tee log` Ctrl-C ends both: a pipe that closes with the signal does not cost the summary."""
    server.script(Text("yes"), SLOW)
    with started(place, *CUT) as process:
        wait_until(lambda: len(server.calls) == 2)
        assert process.stderr is not None and process.stdout is not None
        process.send_signal(signal.SIGINT)
        process.stderr.close()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 130
    assert summary_of(place / "runs" / "cut")["models"][0]["n_total"] == 1


class Terminal:
    """A pseudo-terminal for the command's stderr, and all that was shown on it."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.shown = b""

    def read(self) -> bytes:
        os.set_blocking(self.master, False)
        try:
            while part := os.read(self.master, 65536):
                self.shown += part
        except OSError:  # nothing more for now, or the other side is closed
            pass
        return self.shown

    def close(self) -> None:
        os.close(self.master)


def test_row_39_the_cursor_is_back_after_ctrl_c_twice(place: Path, server: ScriptedServer) -> None:
    """The live table hides the cursor; a hurried end gives it back."""
    env, flag = hanging_tool(place)
    server.script(SLOW)
    terminal = Terminal()
    how: dict[str, Any] = {
        "stderr": terminal.slave,
        "env": {**env, "TERM": "xterm"},
        "start_new_session": True,
    }
    with started(place, *CUT, **how) as process:
        os.close(terminal.slave)
        wait_until(lambda: server.calls and b"\x1b[?25l" in terminal.read())
        flag.touch()
        process.send_signal(signal.SIGINT)
        wait_until((place / "tool pid").exists)
        # What is drawn has to be read, or the program would wait for that.
        wait_until(lambda: terminal.read() and has_ended_or_is_interrupted(process), every_s=0.2)
    assert process.returncode == 130
    assert terminal.read().rindex(b"\x1b[?25h") > terminal.shown.rindex(b"\x1b[?25l")
    terminal.close()


@pytest.mark.parametrize("hang_up", [True, False], ids=["sighup", "silent"])
def test_row_40_a_terminal_that_goes_away(
    place: Path, server: ScriptedServer, hang_up: bool
) -> None:
    """With its terminal closed the run ends in order on SIGHUP, and without one goes on to its end unseen."""
    closed = threading.Event()
    server.script(Text("yes"), SLOW if hang_up else Held(Text("yes"), closed.is_set))
    terminal = Terminal()
    how: dict[str, Any] = {
        "stderr": terminal.slave,
        "env": {"TERM": "xterm"},
        "start_new_session": True,
    }
    with started(place, *CUT, **how) as process:
        os.close(terminal.slave)
        wait_until(lambda: terminal.read() is not None and len(server.calls) == 2)
        terminal.close()
        closed.set()
        if hang_up:
            process.send_signal(signal.SIGHUP)
        code, out, _ = ended(process)
    assert (code, out) == (130 if hang_up else 0, "runs/cut\n")
    assert summary_of(place / "runs" / "cut")["models"][0]["n_total"] == (1 if hang_up else 4)
