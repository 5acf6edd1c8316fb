"""What Ctrl-C, SIGTERM and SIGHUP do to a command, at any moment of its life.

Owns: their handlers from the first line of the command to its last. The first signal ends the work in order: plain code
by `Interrupted`, a coroutine by cancellation, so that all clean-up runs. The second ends the process at once and
takes its children along. Refuses: touching a signal that was ignored when we started, for that is what `nohup` asks.

Plain handlers and not the event loop's: those wait for the loop, which does not turn while a summary is written.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from clawgauge.cli.exit_codes import INTERRUPTED
from clawgauge.process_groups import kill_all_groups

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# `timeout`, service managers and closing terminals say it twice in one breath; only a person repeats Ctrl-C.
_ONE_BREATH_S = 1.0
_SHOW_CURSOR = b"\x1b[?25h\n"
_STDERR = 2


class Interrupted(KeyboardInterrupt):
    """What a signal raises in plain code.

    A class of its own: of a plain `KeyboardInterrupt` that passes through code made from a string, as every dataclass
    is, Python keeps a note even where it is caught, and in the end kills the process by SIGINT, whatever it returned.
    """


class Interruption:
    """Whether the command was told to end, and who has to hear of it."""

    def __init__(self) -> None:
        self.happened = False
        self._cancel: Callable[[], object] | None = None
        self._first_signal_s: float | None = None

    def listen(self) -> None:
        """From now on the signals are ours, and none has come yet."""
        self.happened = False
        self._first_signal_s = None
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hear)

    def stop_listening(self) -> None:
        """All is done and written: a signal could only make the interpreter's own end look like a failure."""
        self.happened = True
        for number in _SIGNALS:
            if signal.getsignal(number) == self._hear:
                signal.signal(number, _overhear)
                # The interpreter gives up handlers before its end, but leaves alone what is ignored. Only at the very
                # end: a program started by whoever called us would inherit it.
                atexit.register(signal.signal, number, signal.SIG_IGN)

    def request(self) -> None:
        """End the work in order, as the first signal does. Repeated, it changes nothing; callable from any thread."""
        if self.happened:
            return
        self.happened = True
        if self._cancel is not None:
            self._cancel()
        elif not _is_importing():
            raise Interrupted

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Within the block an interruption calls `cancel`, and raises nothing."""
        before, self._cancel = self._cancel, cancel
        try:
            yield
        finally:
            self._cancel = before

    def _hear(self, number: int, _frame: object) -> None:
        now_s = time.monotonic()
        if self._first_signal_s is None:
            self._first_signal_s = now_s
        elif number == signal.SIGINT or now_s - self._first_signal_s > _ONE_BREATH_S:
            _end_at_once()
        self.request()


def _is_importing() -> bool:
    """Whether a module is being loaded. An exception in the middle of that can crash an extension module, and with it
    the interpreter; loading is soon over, and whoever comes after it asks whether something `happened`.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _overhear(_number: int, _frame: object) -> None:
    """A signal that comes too late to matter."""


def _end_at_once() -> None:
    kill_all_groups()
    if os.isatty(_STDERR):
        # The live table hides it.
        with suppress(OSError):
            os.write(_STDERR, _SHOW_CURSOR)
    os._exit(INTERRUPTED)


interruption = Interruption()
