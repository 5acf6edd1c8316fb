"""Judging with a deadline that holds, away from the loop that stamps bytes.

A short answer is judged where it came in. A long one, and whatever runs in a simulated world, goes to a process of its
own: hostile text can keep a detector, a C library or the simulated shell busy for minutes or crash it, and only a
process can be ended then. It is isolated, its memory and processor time are bounded, and it is gone with us."""

from __future__ import annotations

import contextlib
import io
import marshal
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import msgspec

from clawgauge.checks import Judgement, judge_answer, not_judged, takes_long
from clawgauge.child_processes import isolated_module, release, start_adopted
from clawgauge.environment import needed_environment
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world.effects import bound_memory
from clawgauge.world.world import World

# Of the processor's time: how busy the machine is must not decide a verdict. The wall clock is the last resort.
DEADLINE_S = 10.0
WORLD_DEADLINE_S, _WALL_FACTOR, _START_DEADLINE_S = 5.0, 10, 60.0
# A world stands still after so many calls that took all their time.
_MAX_SLOW_CALLS = 8
_MAX_WORLDS, _PIECE_CHARS = 8, 1_048_576
_READY = b"+"
_GIVEN_UP = "the run was ended"
# Its default action is to end the process. Elsewhere the wall clock alone bounds the work.
_OVER_TIME = getattr(signal, "SIGPROF", 0)


class NotInTime(Exception):
    """The work was ended at its deadline, or had eaten the memory it may have. The message says which."""


class _ProcessDied(NotInTime):
    """The process ended by something else than its bounds: a crash, or somebody's signal."""


class _Worn(Exception):
    """A process that had done other work before gave out."""


class JudgingFault(Exception):
    """Judging itself broke: a defect of ours, in the other process's words."""


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
        except Exception as fault:  # a defect of a check costs its verdict, not the row, nor the run
            raise CheckFailed(f"{type(fault).__name__}: {fault}") from fault

    return guarded


@dataclass(kw_only=True)
class Judge:
    """One process that judges, one answer at a time, started when it is first needed. Blocking; for any thread."""

    deadline_s: float = DEADLINE_S
    world_deadline_s: float = WORLD_DEADLINE_S
    _process: subprocess.Popen[bytes] | None = None
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    _given_up: bool = False

    def judge(self, prompt: Prompt, text: str, calls: list[ToolInvocation]) -> Judgement:
        """`judge_answer` with a deadline, whatever the answer is made of."""
        if not takes_long(prompt, text, calls):
            return judge_answer(prompt, text, calls)
        try:
            return self._judge_aside(prompt, text, calls)
        except NotInTime as late:
            kept = self._calls_that_end(prompt, calls)
            if len(kept) == len(calls):
                if isinstance(late, _ProcessDied):
                    raise JudgingFault(str(late)) from late
                return not_judged(prompt, calls, f"not_judged_in_time: {late}")
        # A call that ends the machine is judged as what it is, and what was done before and after it as ever.
        with contextlib.suppress(NotInTime):
            judged = self._judge_aside(prompt, text, kept)
            if judged.objective_pass is False:
                return judged
        return not_judged(prompt, calls, "machine_ended: a call ended the simulated machine")

    def _judge_aside(self, prompt: Prompt, text: str, calls: list[ToolInvocation]) -> Judgement:
        work = {"prompt": msgspec.to_builtins(prompt), "calls": msgspec.to_builtins(calls)}
        slow = 0 if prompt.world is None else min(len(calls), _MAX_SLOW_CALLS)
        return msgspec.convert(self._ask(work, text, self.deadline_s + slow * self.world_deadline_s), Judgement)

    def _calls_that_end(self, prompt: Prompt, calls: list[ToolInvocation]) -> list[ToolInvocation]:
        """The calls of a task without those that take the world's process with them; all of them where none does.
        Raises `JudgingFault` where the process ends without any call: that is not the model's doing."""
        if prompt.world is None:
            return calls
        try:
            self.play(prompt.world, [], 0)
        except _ProcessDied as died:
            raise JudgingFault(str(died)) from died
        kept: list[ToolInvocation] = []
        n_ended = 0
        for call in calls:
            try:
                self.play(prompt.world, [*kept, call], 1)
                kept.append(call)
            except NotInTime:
                n_ended += 1
                if n_ended >= _MAX_SLOW_CALLS:
                    break
        return kept

    def play(self, world: Mapping[str, Any], calls: Sequence[ToolInvocation], n_new: int) -> list[str]:
        """What a world answers to the last `n_new` of these calls, made in order. Raises `NotInTime`. The process keeps
        the worlds of the last few tasks: where it has made the calls before, it makes the new ones alone. After it was
        ended, a new one makes them all."""
        work = {"world": world, "calls": msgspec.to_builtins(calls), "n_new": n_new}
        return msgspec.convert(self._ask(work, "", self.world_deadline_s), list[str])

    def give_up(self) -> None:
        """Nobody waits for a verdict any more: end the process now, whatever it does. From any thread."""
        self._given_up = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        self.give_up()
        with self._one_at_a_time:
            self._bury()

    def __del__(self) -> None:
        self.close()

    def _ask(self, work: dict[str, Any], text: str, deadline_s: float) -> Any:
        try:
            reply = self._ask_process(work, text, deadline_s)
        except (_Worn, _ProcessDied):
            # What others left in the process, or did to it, is not this answer's fault.
            reply = self._ask_process(work, text, deadline_s)
        if "fault" in reply:
            raise JudgingFault(reply["fault"])
        return reply["done"]

    def _ask_process(self, work: dict[str, Any], text: str, deadline_s: float) -> Any:
        """Raises `NotInTime`, and `_Worn` where a process that had worked before was ended or out of memory."""
        with self._one_at_a_time:
            before = self._process
            process = self._started_at_last()
            is_new = process is not before
            pipe_in, pipe_out = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
            late = threading.Event()

            def end() -> None:
                late.set()
                process.kill()

            timer = threading.Timer(deadline_s * _WALL_FACTOR, end)
            timer.daemon = True
            timer.start()
            try:
                marshal.dump({**work, "deadline_s": deadline_s}, pipe_in)
                # Piece by piece: encoding all of it at once would keep the loop from running.
                for start in range(0, len(text), _PIECE_CHARS):
                    marshal.dump(text[start : start + _PIECE_CHARS].encode("utf-8", "surrogatepass"), pipe_in)
                marshal.dump(b"", pipe_in)
                pipe_in.flush()
                reply = marshal.load(pipe_out)  # noqa: S302  # our own words
            except (OSError, EOFError):
                self._bury()
                if self._given_up:
                    raise NotInTime(_GIVEN_UP) from None
                if late.is_set() or process.returncode == -_OVER_TIME:
                    raise NotInTime(f"longer than {deadline_s:g} s") from None
                died = "the judging process was ended"
                raise (_ProcessDied(died) if is_new else _Worn(died)) from None
            except BaseException:  # Ctrl-C: what it would answer later must not be taken for another answer's verdict
                self._bury()
                raise
            finally:
                timer.cancel()
                timer.join()
            if late.is_set() or "over" in reply:
                self._bury()
            if "over" in reply:
                raise NotInTime(reply["over"]) if is_new else _Worn(reply["over"])
        return reply

    def _started_at_last(self) -> subprocess.Popen[bytes]:
        """The process, at the second try if need be. What it does is never done in the program itself: there nothing
        bounds what an answer takes, and a crash of the simulated shell would end the run."""
        try:
            return self._started()
        except OSError:
            pass
        try:
            return self._started()
        except OSError as fault:
            raise JudgingFault(f"no process to judge in could be started: {fault}") from fault

    def _started(self) -> subprocess.Popen[bytes]:
        """The process, ready for work; `OSError` where there is none to be had."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._bury()
        if self._given_up:
            raise NotInTime(_GIVEN_UP)
        command, env = isolated_module("clawgauge.runner.judging"), needed_environment(os.environ)
        process = self._process = start_adopted(command, env=env, cwd=Path(__file__).anchor)
        if self._given_up:  # said while it was being started
            process.kill()
        timer = threading.Timer(_START_DEADLINE_S, process.kill)
        timer.daemon = True
        timer.start()
        try:
            if cast(IO[bytes], process.stdout).read(len(_READY)) != _READY:
                self._bury()
                raise NotInTime(_GIVEN_UP) if self._given_up else OSError("the judging process did not start")
        finally:
            timer.cancel()
        return process

    def _bury(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(OSError):  # what a dead reader left unread
                pipe.close()
        process.wait()
        release(process.pid)


def serve() -> None:
    """The other process: answers one piece of work after another until its standard input ends."""
    bound_memory()
    pipe_in, pipe_out = io.BufferedReader(io.FileIO(0)), sys.stdout.buffer
    pipe_out.write(_READY)
    pipe_out.flush()
    while pipe_in.peek(1):
        work = marshal.load(pipe_in)  # noqa: S302  # our own words
        text = b"".join(iter(partial(marshal.load, pipe_in), b"")).decode("utf-8", "surrogatepass")
        _end_after(work["deadline_s"])
        try:
            reply = {"done": _answer(work, text)}
        except MemoryError:
            reply = {"over": "more memory than judging may take"}
        except Exception as fault:  # the boundary of a process: told, and recorded as a defect of ours
            reply = {"fault": f"{type(fault).__name__}: {fault}"}
        _end_after(0)
        marshal.dump(reply, pipe_out)
        pipe_out.flush()


def _answer(work: dict[str, Any], text: str) -> Any:
    """The work itself, in whichever process: plain values in, plain values out."""
    calls = msgspec.convert(work["calls"], list[ToolInvocation])
    if "prompt" in work:
        return msgspec.to_builtins(judge_answer(msgspec.convert(work["prompt"], Prompt), text, calls))
    spec, n_before = work["world"], len(calls) - work["n_new"]
    # The world in which the calls before have been made: one that is kept, or a new one.
    at = next((n for n, (kept, made, _) in enumerate(_worlds) if made == calls[:n_before] and kept == spec), None)
    if at is not None:
        world = _worlds.pop(at)[2]
    else:
        del _worlds[: len(_worlds) - _MAX_WORLDS + 1]
        world = World(spec)
        for call in calls[:n_before]:
            world.call(call.name, call.arguments)
    answers = [world.call(call.name, call.arguments).text for call in calls[n_before:]]
    _worlds.append((spec, calls, world))
    return answers


_worlds: list[tuple[Mapping[str, Any], list[ToolInvocation], World]] = []


def _end_after(processor_s: float) -> None:
    """End this process, whatever it does then, once it has taken so much more of the processor; 0 for never."""
    if _OVER_TIME:
        signal.setitimer(signal.ITIMER_PROF, processor_s)


if __name__ == "__main__":
    serve()
