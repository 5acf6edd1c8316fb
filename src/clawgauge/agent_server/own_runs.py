"""Runs that an agent asks for: rehearsed always, started only within limits that the user gave.

Each is a `clawgauge run` of its own, in a child process, with the user's own configuration and what
of it is trusted. Nothing that the agent says becomes an option, a path or a suite file.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from clawgauge.agent_server.arguments import Asking
from clawgauge.child_processes import KILL, adopt, isolated_module, release, signal_group
from clawgauge.errors import ClawgaugeError, RequestError
from clawgauge.records import RunConfig
from clawgauge.run_data import Row, Run
from clawgauge.suites.load import BUILTIN_SUITES

# Clients wait a minute for an answer, as a rule.
_REHEARSAL_S = 50.0
_STARTS_WITHIN_S = 20.0
_LOOK_PAUSE_S = 0.05
_MAX_OUTPUT_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 16
_NOTES_KEPT = 20
# What Ctrl-C is to a run; on Windows only a group of its own can be sent the like.
_END_IN_ORDER = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)
_NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
# How long a run has to write its summary once it is told to end.
_FAREWELL_S = 20.0


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What all runs of one server may take together. `usd` is 0 where only free models may be
    asked."""

    calls: int
    seconds: float
    usd: float

    def without(self, other: RunLimits) -> RunLimits:
        return RunLimits(
            calls=max(0, self.calls - other.calls),
            seconds=max(0.0, self.seconds - other.seconds),
            usd=max(0.0, self.usd - other.usd),
        )

    def describe(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "seconds": round(self.seconds),
            "usd": round(self.usd, 4),
        }


@dataclass(slots=True)
class _StartedRun:
    """A run that goes on, or has ended, in a child process."""

    run_id: str
    process: asyncio.subprocess.Process
    reserved: RunLimits
    started_s: float
    ended_s: float | None = None
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=_NOTES_KEPT))
    watching: asyncio.Task[None] | None = None


class RunLauncher:
    """Rehearses runs, and starts one at a time where `limits` are given.

    What a run may take is set aside when it starts; what it did not take is given back when it has
    ended and its records say so.
    """

    def __init__(self, runs_dir: Path, limits: RunLimits | None) -> None:
        self._runs_dir = runs_dir
        self._left = limits
        self._current: _StartedRun | None = None
        self._starting = asyncio.Lock()

    async def rehearse(self, asking: Asking) -> dict[str, Any]:
        """What a run would ask, how long it would take and at what cost. No model is asked."""
        options = [*_options_of(asking), "--dry-run", "--json"]
        if asking.max_calls is not None:
            options.append(f"--max-calls={asking.max_calls}")
        if asking.max_time_s is not None:
            options.append(f"--max-time={asking.max_time_s}s")
        process = await self._start(options)
        try:
            async with asyncio.timeout(_REHEARSAL_S):
                output, messages = await process.communicate()
        except TimeoutError:
            raise RequestError(
                f"the plan was not ready within {_REHEARSAL_S:.0f} s: does a server hang?"
            ) from None
        finally:
            await _end(process)
        notes = messages[-_MAX_OUTPUT_BYTES:].decode("utf-8", "replace").splitlines()
        if process.returncode != 0:
            raise RequestError(_last_note(notes))
        plan = json.loads(output[:_MAX_OUTPUT_BYTES])
        return {"plan": plan, "notes": notes[-_NOTES_KEPT:]}

    async def start(self, asking: Asking) -> dict[str, Any]:
        """Start a run; it goes on while its progress can be asked for.

        Raises `RequestError` where runs may not be started, one is under way, or nothing is left.
        """
        if self._left is None:
            raise RequestError(
                "runs may not be started: the user has to start clawgauge mcp with --allow-run"
            )
        async with self._starting:
            if self._current is not None and self._current.process.returncode is None:
                raise RequestError(
                    f"run {self._current.run_id} is under way: wait for its end, or stop it"
                )
            await self._settle()
            reserved = self._reserve(asking, self._left)
            run_id = self._unused_run_id()
            options = [
                *_options_of(asking),
                f"--max-calls={max(1, reserved.calls // len(asking.targets))}",
                f"--max-time={reserved.seconds:.0f}s",
                f"--max-cost={reserved.usd}",
                f"--run-id={run_id}",
                f"--runs-dir={self._runs_dir}",
            ]
            process = await self._start(options)
            self._left = self._left.without(reserved)
            run = _StartedRun(
                run_id=run_id, process=process, reserved=reserved, started_s=time.monotonic()
            )
            watching = asyncio.create_task(_watch(run))
            run.watching = watching
            self._current = run
        await self._wait_for_folder(run, watching)
        return {"run": run_id, "limits": reserved.describe()}

    async def stop(self, run_id: str) -> dict[str, Any]:
        """End a run in order, as Ctrl-C does: what is recorded stands, and it can be resumed."""
        run = self._current
        if run is None or run.run_id != run_id:
            raise RequestError(
                f"run {run_id!r} was not started here, so it is not stopped from here"
            )
        await _interrupt(run)
        await self._settle()
        return {"run": run_id, **self.describe(run_id)}

    def describe(self, run_id: str) -> dict[str, Any]:
        """Of a run that was started here how it ended, and what it said last; nothing of others."""
        run = self._current
        if run is None or run.run_id != run_id:
            return {}
        described: dict[str, Any] = {"notes": list(run.notes)}
        code = run.process.returncode
        if code is not None:
            described["exit_code"] = code
        if self._left is not None:
            described["left_for_further_runs"] = self._left.describe()
        return described

    @property
    def newest(self) -> str | None:
        return None if self._current is None else self._current.run_id

    async def close(self) -> None:
        """End what is under way: nobody could stop it any more."""
        if self._current is not None:
            await _interrupt(self._current)

    async def settle(self) -> None:
        """Give back what a run that has ended did not take."""
        async with self._starting:
            await self._settle()

    async def _settle(self) -> None:
        run = self._current
        if run is None or self._left is None or run.process.returncode is None:
            return
        if run.watching is not None:
            await run.watching
            run.watching = None
            taken = await asyncio.to_thread(_read_taken, self._runs_dir / run.run_id, run)
            self._left = RunLimits(
                calls=self._left.calls + max(0, run.reserved.calls - taken.calls),
                seconds=self._left.seconds + max(0.0, run.reserved.seconds - taken.seconds),
                usd=self._left.usd + max(0.0, run.reserved.usd - taken.usd),
            )

    def _unused_run_id(self) -> str:
        """A name for a run that has no folder yet: two may begin within one second."""
        name = f"{datetime.now():%Y%m%d_%H%M%S}_mcp"
        run_id = name
        number = 1
        while (self._runs_dir / run_id).exists():
            number += 1
            run_id = f"{name}{number}"
        return run_id

    def _reserve(self, asking: Asking, left: RunLimits) -> RunLimits:
        n_targets = len(asking.targets)
        calls = left.calls
        if asking.max_calls is not None:
            calls = min(calls, asking.max_calls * n_targets)
        seconds = left.seconds
        if asking.max_time_s is not None:
            seconds = min(seconds, float(asking.max_time_s))
        if calls < n_targets or seconds < 1:
            raise RequestError(
                "what runs from here may take is used up: "
                "the user has to start clawgauge mcp anew, "
                "or run clawgauge run"
            )
        return RunLimits(calls=calls, seconds=seconds, usd=left.usd)

    async def _start(self, options: list[str]) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *isolated_module("clawgauge", "run", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
            start_new_session=True,
            creationflags=_NEW_GROUP,
        )
        adopt(process.pid)
        return process

    async def _wait_for_folder(self, run: _StartedRun, watching: asyncio.Task[None]) -> None:
        """Until the run has a folder to be looked at, or has ended: a refusal is told at once.

        One that takes its time, because it fetches a model first, is left to it.
        """
        config = self._runs_dir / run.run_id / "config.json"
        give_up_s = time.monotonic() + _STARTS_WITHIN_S
        while not config.exists():
            ended, _ = await asyncio.wait([watching], timeout=_LOOK_PAUSE_S)
            if ended:
                break
            if time.monotonic() > give_up_s:
                return
        if config.exists():
            return
        await self._settle()
        raise RequestError(_last_note(list(run.notes)))


def _options_of(asking: Asking) -> list[str]:
    """The options of `clawgauge run`. Each is one word, so that no value can be taken for another
    option."""
    unknown = [suite for suite in asking.suites if suite not in BUILTIN_SUITES]
    if unknown:
        raise RequestError(
            f"there is no built-in suite {', '.join(unknown)}; "
            f"there are {', '.join(BUILTIN_SUITES)}"
        )
    options = [f"--target={target}" for target in asking.targets]
    options += [f"--suite={suite}" for suite in asking.suites]
    options += [f"--job={job}" for job in asking.jobs]
    return options


def _last_note(notes: list[str]) -> str:
    """What a command that was refused said of it."""
    said = [note for note in notes if note.strip()]
    for note in said:
        if note.startswith("clawgauge: "):
            return note.removeprefix("clawgauge: ")
    return said[-1] if said else "clawgauge run ended without a word"


async def _watch(run: _StartedRun) -> None:
    """Read what a run says until it ends, so that it never waits for a reader."""
    process = run.process
    await asyncio.gather(_drain(process.stdout, None), _drain(process.stderr, run.notes))
    await process.wait()
    run.ended_s = time.monotonic()
    release(process.pid)


async def _drain(stream: asyncio.StreamReader | None, notes: deque[str] | None) -> None:
    while stream is not None:
        try:
            line = await stream.readline()
        except ValueError:
            # A line without an end: what was read of it is gone.
            continue
        if not line:
            return
        if notes is not None:
            notes.append(line.decode("utf-8", "replace").rstrip())


async def _interrupt(run: _StartedRun) -> None:
    process = run.process
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(_END_IN_ORDER)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await process.wait()
    await _end(process)
    if run.watching is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await asyncio.shield(run.watching)


async def _end(process: asyncio.subprocess.Process) -> None:
    """See that nothing is left of a child."""
    if process.returncode is None:
        signal_group(process.pid, KILL)
        await process.wait()
    release(process.pid)


class _Spending:
    """Counts what a run took, as its records say."""

    def __init__(self, config: RunConfig | None) -> None:
        self.n_calls = 0
        self.usd = 0.0
        self.is_countable = config is not None
        self._prices = {} if config is None else config.prices

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        for row in rows:
            if not row.was_asked:
                continue
            # Each turn of a task is a request.
            self.n_calls += max(1, row.turns or 1)
            if row.cost_usd is not None:
                self.usd += max(0.0, row.cost_usd)
            elif self._prices.get(row.target.label) is not None:
                # A paid call of which nobody knows what it cost.
                self.is_countable = False


def _read_taken(path: Path, run: _StartedRun) -> RunLimits:
    """What a run has taken; all that was set aside for it where that cannot be counted."""
    ended_s = time.monotonic() if run.ended_s is None else run.ended_s
    seconds = ended_s - run.started_s
    try:
        opened = Run.open(path)
        spending = _Spending(opened.config)
        opened.feed(spending)
    except (ClawgaugeError, OSError):
        if not path.exists():
            # It was refused before it began.
            return RunLimits(calls=0, seconds=0.0, usd=0.0)
        return run.reserved
    usd = spending.usd if spending.is_countable else run.reserved.usd
    return RunLimits(calls=spending.n_calls, seconds=seconds, usd=usd)
