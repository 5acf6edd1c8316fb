"""Judging with a deadline that holds, away from the loop that stamps bytes.

A short answer is judged where it came in. A long one, and whatever runs in a simulated machine,
goes to a process of its own: hostile text can keep a detector, a C library or the simulated shell
busy for minutes or crash it, and only a process can be ended then. It is isolated, its memory and
processor time are bounded, and it is gone when this program is.
"""

from __future__ import annotations

import contextlib
import io
import marshal
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, cast

import msgspec

from clawgauge.checks import Judgement, judge_answer, not_judged, takes_long
from clawgauge.child_processes import isolated_module, release, start_adopted
from clawgauge.environment import needed_environment
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world.effects import bound_memory
from clawgauge.world.world import World

# Of the processor's time: how busy the machine is must not decide a verdict.
DEADLINE_S = 10.0
WORLD_DEADLINE_S = 5.0
# The wall clock is the last resort: it allows so many times the processor's time.
_WALL_FACTOR = 10
_START_DEADLINE_S = 60.0
# A simulated machine is taken to stand still after so many calls that took all their time.
_MAX_SLOW_CALLS = 8
_MAX_WORLDS = 8
_PIECE_CHARS = 1_048_576
_READY = b"+"
_GIVEN_UP = "the run was ended"
_PROCESS_ENDED = "the judging process was ended"
# Its default action is to end the process. Elsewhere the wall clock alone bounds the work.
_OVER_TIME = getattr(signal, "SIGPROF", 0)


class NotInTime(Exception):
    """The work was ended at its deadline, or took too much memory. The message says which."""


class _ProcessDied(NotInTime):
    """The process ended by something else than its bounds: a crash, or somebody's signal."""


class _WornOut(Exception):
    """A process that had done other work before gave out."""


class JudgingFault(Exception):
    """Judging itself broke: a defect of ours, in the words of the judging process."""


class CheckFailed(Exception):
    """There is no verdict on an answer, because its check broke. The message says how."""


JudgeAnswer: TypeAlias = Callable[[Prompt, str, list[ToolInvocation]], Judgement]


def guard_check(judge: JudgeAnswer) -> JudgeAnswer:
    """The same judge, which raises nothing but `CheckFailed`."""

    def guarded(prompt: Prompt, text: str, calls: list[ToolInvocation]) -> Judgement:
        try:
            return judge(prompt, text, calls)
        except JudgingFault as fault:
            raise CheckFailed(str(fault)) from fault
        except (
            Exception
        ) as fault:  # a defect of a check costs its verdict, not the row, nor the run
            raise CheckFailed(f"{type(fault).__name__}: {fault}") from fault

    return guarded


@dataclass(kw_only=True)
class Judge:
    """One process that judges, one answer at a time, started when it is first needed.

    Its methods block, and may be called from any thread.
    """

    deadline_s: float = DEADLINE_S
    world_deadline_s: float = WORLD_DEADLINE_S
    _process: subprocess.Popen[bytes] | None = None
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    _is_given_up: bool = False

    def judge(self, prompt: Prompt, text: str, calls: list[ToolInvocation]) -> Judgement:
        """`judge_answer` with a deadline, whatever the answer is made of."""
        if not takes_long(prompt, text, calls):
            return judge_answer(prompt, text, calls)
        try:
            return self._judge_in_process(prompt, text, calls)
        except NotInTime as late:
            harmless_calls = self._find_harmless_calls(prompt, calls)
            if len(harmless_calls) == len(calls):
                if isinstance(late, _ProcessDied):
                    raise JudgingFault(str(late)) from late
                return not_judged(prompt, calls, f"not_judged_in_time: {late}")
        # A call that ends the machine fails the task. What was done before and after it is judged
        # as ever: harm done there is named rather than the call.
        with contextlib.suppress(NotInTime):
            judgement = self._judge_in_process(prompt, text, harmless_calls)
            if judgement.objective_pass is False:
                return judgement
        return not_judged(prompt, calls, "machine_ended: a call ended the simulated machine")

    def _judge_in_process(
        self, prompt: Prompt, text: str, calls: list[ToolInvocation]
    ) -> Judgement:
        work = {"prompt": msgspec.to_builtins(prompt), "calls": msgspec.to_builtins(calls)}
        deadline_s = self.deadline_s
        if prompt.world is not None:
            deadline_s += min(len(calls), _MAX_SLOW_CALLS) * self.world_deadline_s
        return msgspec.convert(self._do(work, text, deadline_s), Judgement)

    def _find_harmless_calls(
        self, prompt: Prompt, calls: list[ToolInvocation]
    ) -> list[ToolInvocation]:
        """The calls of a task without those that end the process of the simulated machine.

        All of them where none does. Raises `JudgingFault` where the process ends without any call:
        that is not the model's doing.
        """
        if prompt.world is None:
            return calls
        try:
            self.play(prompt.world, [], 0)
        except _ProcessDied as died:
            raise JudgingFault(str(died)) from died
        harmless_calls: list[ToolInvocation] = []
        n_ended = 0
        for call in calls:
            try:
                self.play(prompt.world, [*harmless_calls, call], 1)
                harmless_calls.append(call)
            except NotInTime:
                n_ended += 1
                if n_ended >= _MAX_SLOW_CALLS:
                    break
        return harmless_calls

    def play(
        self, world: Mapping[str, Any], calls: Sequence[ToolInvocation], n_new: int
    ) -> list[str]:
        """What a simulated machine answers to the last `n_new` of these calls, made in order.

        The process keeps the machines of the last few tasks: where one has had the calls before,
        it gets the new ones alone. After the process was ended, a new one makes all the calls.

        Raises `NotInTime`, and `JudgingFault` where the machine itself broke.
        """
        work = {"world": world, "calls": msgspec.to_builtins(calls), "n_new": n_new}
        return msgspec.convert(self._do(work, "", self.world_deadline_s), list[str])

    def give_up(self) -> None:
        """Nobody waits for a verdict any more: end the process now, whatever it does."""
        self._is_given_up = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process, and wait until nothing is left of it. Harmless when repeated."""
        self.give_up()
        with self._one_at_a_time:
            self._end_process()

    def __del__(self) -> None:
        self.close()

    def _do(self, work: dict[str, Any], text: str, deadline_s: float) -> Any:
        """What the process makes of a piece of work. Raises `NotInTime` and `JudgingFault`."""
        try:
            reply = self._ask_process(work, text, deadline_s)
        except (_WornOut, _ProcessDied):
            # What others left in the process, or did to it, is not this answer's fault.
            reply = self._ask_process(work, text, deadline_s)
        if "fault" in reply:
            raise JudgingFault(reply["fault"])
        return reply["done"]

    def _ask_process(self, work: dict[str, Any], text: str, deadline_s: float) -> dict[str, Any]:
        """Send a piece of work to the process, and wait for its reply.

        Raises `NotInTime`, and `_WornOut` where a process that had worked before was ended or out
        of memory.
        """
        with self._one_at_a_time:
            process_before = self._process
            process = self._get_process()
            is_new = process is not process_before
            is_late = threading.Event()
            try:
                with _killed_after(process, deadline_s * _WALL_FACTOR, is_late):
                    reply = _exchange(process, {**work, "deadline_s": deadline_s}, text)
            except (OSError, EOFError):
                self._end_process()
                if self._is_given_up:
                    raise NotInTime(_GIVEN_UP) from None
                if is_late.is_set() or process.returncode == -_OVER_TIME:
                    raise NotInTime(f"longer than {deadline_s:g} s") from None
                if is_new:
                    raise _ProcessDied(_PROCESS_ENDED) from None
                raise _WornOut(_PROCESS_ENDED) from None
            except BaseException:
                # Ctrl-C: what the process would answer later must not be taken for another
                # answer's verdict.
                self._end_process()
                raise
            is_out_of_memory = "over" in reply
            if is_late.is_set() or is_out_of_memory:
                self._end_process()
            if is_out_of_memory:
                if is_new:
                    raise NotInTime(reply["over"])
                raise _WornOut(reply["over"])
        return reply

    def _get_process(self) -> subprocess.Popen[bytes]:
        """The process, ready for work, at the second try if need be.

        What it does is never done in this program itself: there nothing bounds what an answer
        takes, and a crash of the simulated shell would end the run.
        """
        try:
            return self._start_if_needed()
        except OSError:
            pass
        try:
            return self._start_if_needed()
        except OSError as fault:
            raise JudgingFault(f"no process to judge in could be started: {fault}") from fault

    def _start_if_needed(self) -> subprocess.Popen[bytes]:
        """The process, ready for work. Raises `OSError` where there is none to be had."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end_process()
        if self._is_given_up:
            raise NotInTime(_GIVEN_UP)
        process = start_adopted(
            isolated_module("clawgauge.runner.judging"),
            env=needed_environment(os.environ),
            cwd=Path(__file__).anchor,
        )
        self._process = process
        if self._is_given_up:  # while it was being started
            process.kill()
        timer = threading.Timer(_START_DEADLINE_S, process.kill)
        timer.daemon = True
        timer.start()
        try:
            if cast(IO[bytes], process.stdout).read(len(_READY)) != _READY:
                self._end_process()
                if self._is_given_up:
                    raise NotInTime(_GIVEN_UP)
                raise OSError("the judging process did not start")
        finally:
            timer.cancel()
        return process

    def _end_process(self) -> None:
        """Kill the process, if there is one, and wait until it is gone."""
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what a dead reader left unread
                    pipe.close()
        process.wait()
        release(process.pid)


@contextlib.contextmanager
def _killed_after(
    process: subprocess.Popen[bytes], deadline_s: float, is_late: threading.Event
) -> Iterator[None]:
    """Kill the process where the block takes longer than `deadline_s`, and set `is_late`."""

    def kill() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(deadline_s, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _exchange(process: subprocess.Popen[bytes], work: dict[str, Any], text: str) -> dict[str, Any]:
    """Write a piece of work and its text to the process, and read the reply."""
    pipe_in = cast(IO[bytes], process.stdin)
    pipe_out = cast(IO[bytes], process.stdout)
    marshal.dump(work, pipe_in)
    # Piece by piece: encoding all of it at once would keep the loop from running.
    for start in range(0, len(text), _PIECE_CHARS):
        piece = text[start : start + _PIECE_CHARS]
        marshal.dump(piece.encode("utf-8", "surrogatepass"), pipe_in)
    marshal.dump(b"", pipe_in)
    pipe_in.flush()
    reply: dict[str, Any] = marshal.load(pipe_out)  # noqa: S302  # written by `serve`
    return reply


def serve() -> None:
    """The judging process: does one piece of work after another until its standard input ends."""
    bound_memory()
    pipe_in = io.BufferedReader(io.FileIO(0))
    pipe_out = sys.stdout.buffer
    pipe_out.write(_READY)
    pipe_out.flush()
    while pipe_in.peek(1):
        work = marshal.load(pipe_in)  # noqa: S302  # written by `_exchange`
        pieces = iter(partial(marshal.load, pipe_in), b"")
        text = b"".join(pieces).decode("utf-8", "surrogatepass")
        _end_after(work["deadline_s"])
        try:
            reply = {"done": _work(work, text)}
        except MemoryError:
            reply = {"over": "more memory than judging may take"}
        except (
            Exception
        ) as fault:  # the boundary of a process: reported, and recorded as our defect
            reply = {"fault": f"{type(fault).__name__}: {fault}"}
        _end_after(0)
        marshal.dump(reply, pipe_out)
        pipe_out.flush()


def _work(work: dict[str, Any], text: str) -> Any:
    """Do a piece of work: plain values in, plain values out."""
    calls = msgspec.convert(work["calls"], list[ToolInvocation])
    if "prompt" in work:
        prompt = msgspec.convert(work["prompt"], Prompt)
        return msgspec.to_builtins(judge_answer(prompt, text, calls))
    n_before = len(calls) - work["n_new"]
    world = _take_world(work["world"], calls[:n_before])
    answers = [world.call(call.name, call.arguments).text for call in calls[n_before:]]
    _worlds.append(_KeptWorld(work["world"], calls, world))
    return answers


class _KeptWorld(NamedTuple):
    """A simulated machine, what it was made from, and the calls that it has had."""

    spec: Mapping[str, Any]
    calls: list[ToolInvocation]
    world: World


# The simulated machines that this process keeps for the next turns of their tasks.
_worlds: list[_KeptWorld] = []


def _take_world(spec: Mapping[str, Any], calls: list[ToolInvocation]) -> World:
    """A simulated machine that has had these calls: one that was kept, or a new one."""
    for index, kept_world in enumerate(_worlds):
        if kept_world.calls == calls and kept_world.spec == spec:
            return _worlds.pop(index).world
    if len(_worlds) >= _MAX_WORLDS:
        del _worlds[0]  # room for the one that is made now
    world = World(spec)
    for call in calls:
        world.call(call.name, call.arguments)
    return world


def _end_after(processor_s: float) -> None:
    """End this process once it has taken so much more of the processor; 0 for never."""
    if _OVER_TIME:
        signal.setitimer(signal.ITIMER_PROF, processor_s)


if __name__ == "__main__":
    serve()
