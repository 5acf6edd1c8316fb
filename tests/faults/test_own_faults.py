"""What goes wrong on our side is ours: no server is blamed for it, no clock runs on, and no row is lost."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
from clawgauge.providers.claude.provider import _spawn_failure
from clawgauge.records import Prompt
from clawgauge.runner.attempts import own_fault
from clawgauge.runner.judging import Judge
from faults.asking import ask_provider, verdict
from support.command import clawgauge, clean_environment, write_suite
from support.scripted_server import ScriptedServer, Text
from support.waiting import PATIENCE_S

HOSTILE = "`` ` " * 3_000_000


class Speaking(Provider):
    """Answers at once with what it is given, the same to every call."""

    def __init__(
        self, text: str = "", tool_calls: list[tuple[str, dict[str, Any]]] | None = None
    ) -> None:
        super().__init__(ProviderSettings(name="speaking", type="speaking"))
        self._text = text
        self._calls = tool_calls or []
        self.histories: list[Any] = []
        self.beats = 0

    async def attempt(self, call: Call, sink: Sink) -> None:
        self.histories.append(call.history)
        sink.start(time.perf_counter_ns())
        if call.history or not self._calls:
            sink.text(time.perf_counter_ns(), self._text)
        else:
            for n, (name, arguments) in enumerate(self._calls):
                sink.tool_delta(time.perf_counter_ns(), n, name, json.dumps(arguments))
        sink.end(time.perf_counter_ns())


class Beating(Speaking):
    """Counts how often the loop comes round, from its first call on."""

    async def __aenter__(self) -> Beating:
        self._beating = asyncio.ensure_future(self._beat())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._beating.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            self.beats += 1


def task(**fields: Any) -> Prompt:
    given: dict[str, Any] = {
        "id": "P0", "name": "p", "prompt": "go", "suite": "faults", "expected_tools": ["free"],
        "validator": {"type": "tool_invocation", "expected_tools": ["free"]},
    }  # fmt: skip
    return Prompt(**{**given, **fields})


@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_loop_goes_on_while_a_hostile_answer_is_judged(
    tmp_path: Path, concurrency: int
) -> None:
    """15 MB that take minutes to judge: the row is kept, false at the deadline, and every clock went on meanwhile."""
    provider = Beating(HOSTILE)
    (record,) = ask_provider(
        tmp_path, provider, prompts=[task()], judge=Judge(deadline_s=1.0), concurrency=concurrency
    )
    assert verdict(record) == ("ok", True, None)
    assert record["objective_pass"] is False and record["violation"].startswith(
        "not_judged_in_time: "
    )
    assert record["tool_calls"] == [] and record["raw_output_bytes"] == len(HOSTILE)
    assert provider.beats > 20, "a second on the loop would have let it come round twice"


@pytest.mark.slow
def test_a_task_goes_on_after_a_call_that_was_killed(tmp_path: Path) -> None:
    """A call that keeps the simulated shell busy is answered as killed, the model goes on, and the row is a verdict."""
    provider = Beating("Done.", [("exec", {"command": "jq -n 'def f: f; f'"})])
    prompt = task(
        world={}, max_turns=3, validator={"type": "world_state", "expect": [{"file": "/srv"}]}
    )
    judge = Judge(deadline_s=1.0, world_deadline_s=1.0)
    (record,) = ask_provider(tmp_path, provider, prompts=[prompt], judge=judge)
    assert "killed" in provider.histories[1][0].answers[0]
    assert verdict(record) == ("ok", True, None)
    assert record["violation"].startswith("machine_ended: ")
    assert [call["name"] for call in record["tool_invocations"]] == ["exec"]


def test_a_deadline_that_we_slept_through_is_not_the_servers(tmp_path: Path) -> None:
    """This program stood still when the deadline came: the attempt is ours, and is made again."""

    class Stopped(Speaking):
        n = 0

        async def attempt(self, call: Call, sink: Sink) -> None:
            self.n += 1
            if self.n == 1:
                time.sleep(1.6)  # noqa: ASYNC251  # the fault itself
                await asyncio.sleep(0.1)
            await super().attempt(call, sink)

    (record,) = ask_provider(tmp_path, Stopped("yes"), timeout_s=0.5)
    assert [attempt["failure_type"] for attempt in record["attempts"]] == ["client_stalled", None]
    assert verdict(record) == ("ok", True, None)


def test_a_server_that_hangs_is_still_blamed(tmp_path: Path) -> None:
    """A deadline that passes while we do nothing but wait is the server's."""

    class Hanging(Speaking):
        async def attempt(self, call: Call, sink: Sink) -> None:
            await asyncio.Event().wait()

    (record,) = ask_provider(tmp_path, Hanging(), timeout_s=0.2)
    assert verdict(record) == ("error", False, "timeout")


def test_a_sleep_of_the_machine_is_ours() -> None:
    """What a connection looks like after the lid was closed says nothing of the server; a status it sent does."""
    reset = CallFailure("error", "connection_reset", "gone", retryable=True)
    found = own_fault(reset, held_ns=0, slept_ns=3_600_000_000_000)
    assert found is not None and (found.failure_type, found.retryable) == ("client_stalled", True)
    assert own_fault(reset, held_ns=5_000_000_000, slept_ns=0) is None
    assert (
        own_fault(CallFailure("error", "http_500"), held_ns=5_000_000_000, slept_ns=5_000_000_000)
        is None
    )


def test_a_timeout_of_somebodys_code_is_an_exception(tmp_path: Path) -> None:
    """Python's TimeoutError long before the deadline is no deadline."""

    class Careless(Speaking):
        async def attempt(self, call: Call, sink: Sink) -> None:
            raise TimeoutError("of my own")

    (record,) = ask_provider(tmp_path, Careless())
    assert verdict(record) == ("error", False, "exception") and "of my own" in record["error"]


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENOMEM])
def test_a_process_that_could_not_be_had_is_no_fault_of_the_program(number: int) -> None:
    """Too many processes or files here say nothing of Claude Code, and may pass."""
    failure = _spawn_failure(Path(sys.executable), OSError(number, os.strerror(number)))
    assert (failure.failure_type, failure.retryable) == ("client_limit", True)


def is_judging(pid: int) -> bool:
    """Whether a command has a process beside it that has been busy judging for a while."""
    try:
        children = psutil.Process(pid).children()
        return any(
            "clawgauge.runner.judging" in child.cmdline() and child.cpu_times().user > 1
            for child in children
        )
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_a_hostile_reply_holds_neither_the_run_nor_ctrl_c(
    place: Path, server: ScriptedServer
) -> None:
    """15 MiB of marks: the command records them as failed, in time or not, rescores them and heeds Ctrl-C."""
    reply = Text(text=HOSTILE, chunks=[HOSTILE])
    write_suite(
        place / "one.json",
        {"prompt": "p", "validator": {"type": "max_words", "value": 3}},
        {"prompt": "q"},
    )
    words = ("run", "-t", "fake:scripted-model", "-s", "one.json", "--no-stream")
    server.script(reply)
    done = clawgauge(place, *words)
    assert done.code == 0, done.stderr
    first, second = done.records()
    # A fast machine counts six million words before the deadline: `too_many_words` then.
    assert first["objective_pass"] is False and first["violation"] and second["success"]
    assert clawgauge(place, "rescore", "latest").code == 0
    server.script(reply)
    with subprocess.Popen(
        [sys.executable, "-m", "clawgauge", *words],
        cwd=place,
        env=clean_environment(),
        stderr=subprocess.DEVNULL,
    ) as running:
        while not is_judging(running.pid):
            assert running.poll() is None, "the run ended before anything was judged"
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(PATIENCE_S) == 130
