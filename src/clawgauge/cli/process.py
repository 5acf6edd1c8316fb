"""The life of the command's process: exit codes, signals, event loop, streams that may go away."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import io
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any, NoReturn, TextIO, TypeVar

from clawgauge.errors import ClawgaugeError, DiskFailure, MachineError, RequestError
from clawgauge.reports.clean import clean_lines, one_row

DONE = 0
GATE_FAILED = 1
NOTHING_ANSWERED = 3
UNREADABLE_LINES = 5
# A fault of this program (EX_SOFTWARE of sysexits.h). Python's own code for it, 1, means here that
# a gate failed.
OWN_FAULT = 70
INTERRUPTED = 130
_ESCAPED = "clawgauge.escaped"
_SIGNAL_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # no system has all
_SIGNALS = [getattr(signal, name) for name in _SIGNAL_NAMES if hasattr(signal, name)]
# `timeout`, service managers and closing terminals send a signal twice in one breath; only a person
# repeats Ctrl-C.
_ONE_BREATH_S = 1.0
# What masks keys in the texts written to each standard stream.
_masks: dict[str, list[Callable[[str], str]]] = {}
T = TypeVar("T")
_NAME = "clawgauge"
# A command that is printed: the name, and a verb or an option.
_COMMAND = re.compile(rf"(?<![\w./-]){_NAME} (?=[a-z-]+)")


def keep_secrets(secrets: Mapping[str, str]) -> Callable[[str], str]:
    """From now on no run folder, output or traceback of this process shows one of these values.

    Returns what masks them, and what looks like a key, in other texts.
    """
    # Loaded only now: a help text needs none of it.
    from traceback import format_exception

    from clawgauge.journal import withhold
    from clawgauge.secrets import Redactor, SecretMask, mask_shapes

    withhold(secrets)
    redact: Callable[[str], str] = mask_shapes
    _masks["stdout"] = []
    _masks["stderr"] = [mask_shapes]
    if secrets:
        redact = Redactor(secrets)
        # By value first of all: a path or a command that a person is to paste keeps its ordinary
        # words.
        mask_values = SecretMask(secrets).mask
        _masks["stdout"] = [mask_values]
        _masks["stderr"] = [mask_values, mask_shapes]

    def show_fault(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        lines = "".join(format_exception(kind, error, trace))
        sys.stderr.write(clean_lines(redact(lines)))

    sys.excepthook = show_fault
    return redact


def hide_keys() -> None:
    """From now on no output shows a key of the environment, if `keep_secrets` was not called."""
    if _masks:
        return
    from clawgauge.config.providers import find_secrets
    from clawgauge.secrets import SecretMask

    secrets = find_secrets({}, os.environ)
    if secrets:
        mask = SecretMask(secrets).mask
        _masks["stdout"] = [mask]
        _masks["stderr"] = [mask]


def columns_of(stream: TextIO) -> int | None:
    """How wide the terminal behind a stream is, by COLUMNS or by itself; None if there is none."""
    with suppress(OSError, ValueError):
        columns = os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns
        return int(columns) or None
    return None


def row_for(stream: TextIO, line: str) -> str:
    """A line of prose, broken between words where a person looks at it; a pipe gets one line."""
    # A pipe is no terminal, whatever COLUMNS says.
    return one_row(line, columns_of(stream) if stream.isatty() else None)


def tell(*lines: str) -> None:
    """Write lines for a person to standard error."""
    for line in lines:
        sys.stderr.write(row_for(sys.stderr, as_typed(line)))


def as_typed(text: str) -> str:
    """`text` with the commands in it as this one was typed, so that they can be pasted.

    Where a shell finds this program by its name, that is the name alone.
    """
    program = _find_program()
    if program == _NAME:
        return text
    return _COMMAND.sub(lambda _: f"{program} ", text)


@lru_cache(maxsize=1)
def _find_program() -> str:
    """What a shell runs this program by: its name, or the path that it was called by."""
    # Loaded only now: a help text needs none of it.
    import shlex
    import shutil
    from pathlib import Path

    called = Path(sys.argv[0])
    if called.name != _NAME or not called.is_file():
        # `python -m clawgauge`, or another program that uses this one.
        return _NAME
    found = shutil.which(_NAME)
    if found is not None and Path(found).samefile(called):
        return _NAME
    with suppress(OSError, ValueError):
        if called.is_absolute() and called.is_relative_to(Path.cwd()):
            called = called.relative_to(Path.cwd())
    return shlex.quote(os.fspath(called))


def print_json(document: Any) -> None:
    """Indented JSON and a line end, escaped as in the files: nothing in it steers a terminal."""
    from clawgauge.journal import encode_document

    sys.stdout.write(encode_document(document).decode())


def _escape(error: Any) -> tuple[str, int]:
    """What a stream cannot encode as `\\uXXXX`, as in JSON."""
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "\\u" + units.hex(" ", 2).replace(" ", "\\u"), error.end


codecs.register_error(_ESCAPED, _escape)


class _Output(io.TextIOBase):
    """A text stream that fails once at most: after that, what is written to it goes nowhere."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self.isatty = stream.isatty  # type: ignore[method-assign]
        self.fileno = stream.fileno  # type: ignore[method-assign]

    # Read-only, as it is on every real stream.
    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def write(self, text: str) -> int:
        masked = text
        for mask in _masks.get(self._name, ()):
            masked = mask(masked)
        try:
            try:
                self._stream.write(masked)
            except UnicodeEncodeError:
                self._stream.write(masked.encode(self.encoding, _ESCAPED).decode(self.encoding))
        except OSError as error:
            self._give_up(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        # Python flushes once more when it ends: what is left in its buffer needs somewhere to go.
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            interruption.lose_reader()
        elif self._name == "stdout":
            raise DiskFailure(
                f"Cannot write to standard output ({error.strerror or error}); "
                "what was recorded stands: make room, or send the output elsewhere."
            ) from error


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Within the block standard output and error mask keys, and may go away."""
    # A command started with `>&-` has no stdout, and the next file it opens would become it.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # Never closed: they stand for streams that live as long as the process.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    _masks.clear()
    output = _Output(sys.stdout, "stdout")
    errors = _Output(sys.stderr, "stderr")
    with redirect_stdout(output), redirect_stderr(errors):
        yield


def machine_failure(fault: BaseException) -> ClawgaugeError | None:
    """What this machine or we refuse, in a sentence; None where the fault is another's.

    Of calls that failed at once one speaks for all. An `OSError` without a number is some
    library's, and a network's is no fault of this machine.
    """
    if isinstance(fault, BaseExceptionGroup):
        for inner in fault.exceptions:
            failure = machine_failure(inner)
            if failure is not None:
                return failure
        return None
    if isinstance(fault, ClawgaugeError):
        return fault
    if isinstance(fault, OSError) and fault.errno is not None:
        if isinstance(fault, ConnectionError):
            return None
        reason = f"{fault.strerror}: {fault.filename}" if fault.filename else f"{fault.strerror}"
        return _refused_by_machine(reason)
    if isinstance(fault, MemoryError):
        return _refused_by_machine("no memory is left")
    if isinstance(fault, RuntimeError) and "start new thread" in str(fault):
        return _refused_by_machine("no thread can be started")
    context = fault.__context__
    is_full = isinstance(context, OSError) and context.errno in (errno.EMFILE, errno.ENFILE)
    if isinstance(fault, RuntimeError) and context is not None and is_full:
        # uvloop, out of descriptors, fails once more while it closes.
        return machine_failure(context)
    if str(fault).startswith(("Symlink loop", "Could not determine home")):
        return RequestError(f"a path cannot be followed to its end ({fault}): name another")
    return None


def _refused_by_machine(reason: str) -> MachineError:
    return MachineError(
        f"This machine would not go on ({reason}); what was recorded stands: "
        "give it what it lacks, then try again."
    )


def report_own_fault(fault: BaseException) -> int:
    """Show where this program failed, with no key in it, and return the exit code that says so."""
    hide_keys()
    sys.excepthook(type(fault), fault, fault.__traceback__)
    tell(
        "clawgauge: this is a fault of clawgauge itself, no result and no failed gate; "
        "what was recorded stands. Please report the lines above."
    )
    return OWN_FAULT


class Interrupted(KeyboardInterrupt):
    """What a signal raises in plain code.

    Of a plain `KeyboardInterrupt` that passes through code made from a string, as every dataclass
    is, Python keeps a note even where it is caught, and in the end kills the process by SIGINT.
    """


def _loading_a_module() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


class Interruption:
    """What ends the command early: a signal, or that nobody reads its output any more."""

    def __init__(self) -> None:
        self.happened = False
        self.ends_with_reader = False
        """Whether the command ends when nobody reads its output any more."""
        self.reader_left = False
        self.advice = ""
        """How to go on with what a second signal ends at once.

        Then there is no time to find it out.
        """
        self._cancel: Callable[[], object] | None = None
        self._first_signal_s: float | None = None

    def listen(self) -> None:
        """From now on signals are handled, but for those that our caller has us ignore."""
        self.happened = False
        self.ends_with_reader = False
        self.reader_left = False
        self.advice = ""
        self._first_signal_s = None
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def stop_listening(self) -> None:
        """All is done and written.

        A signal could only make the interpreter's own end look like a failure.
        """
        self.happened = True
        for number in _SIGNALS:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, lambda _number, _frame: None)
                # The interpreter gives up handlers before its end, but leaves alone what is
                # ignored. Only at the very end: a program started by whoever called us would
                # inherit it.
                atexit.register(signal.signal, number, signal.SIG_IGN)

    def lose_reader(self) -> None:
        """Whoever read the output has had enough.

        That ends a run as a signal does; all else goes on unheard.
        """
        self.reader_left = True
        if self.ends_with_reader:
            self.request()

    def request(self) -> None:
        """End the work in order, as the first signal does.

        Repeated, it changes nothing; it can be called from any thread.
        """
        if self.happened:
            return
        self.happened = True
        if self._cancel is not None:
            self._cancel()
        elif not _loading_a_module():
            # An exception while a module is loaded can crash an extension module, and with it the
            # interpreter; loading is soon over, and whoever comes after it asks whether something
            # `happened`.
            raise Interrupted

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Within the block an interruption calls `cancel`, and raises nothing."""
        outer = self._cancel
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = outer

    def _on_signal(self, number: int, _frame: object) -> None:
        now_s = time.monotonic()
        if self._first_signal_s is None:
            self._first_signal_s = now_s
        elif number == signal.SIGINT or now_s - self._first_signal_s > _ONE_BREATH_S:
            _end_at_once(self.advice)
        self.request()


def _end_at_once(advice: str) -> NoReturn:
    """End the process and its children, with nothing more written down."""
    # Not imported by a help text, and not here: a signal may come while it is being loaded.
    child_processes = sys.modules.get("clawgauge.child_processes")
    end_children = getattr(child_processes, "kill_all_groups", None)
    if end_children is not None:
        end_children()
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\x1b[?25h\n")  # a live table has hidden the cursor
        message = f"clawgauge: ended at once; what was on disk by then is kept{advice}\n"
        os.write(2, message.encode(errors="replace"))
    os._exit(INTERRUPTED)


interruption = Interruption()


def run_async(main: Coroutine[Any, Any, T], *, with_uvloop: bool = True) -> T:
    """Run `main` in an event loop of its own; an interruption cancels it, and raises `Interrupted`.

    `with_uvloop` is for calls that are timed. It takes longer to load than all else of a dry run.
    """
    # Loaded only now: a help text needs none of it.
    import asyncio

    from clawgauge.client_limits import require_descriptors

    loop_factory = None
    if with_uvloop and sys.platform != "win32":
        with suppress(ImportError):
            from uvloop import new_event_loop as loop_factory  # type: ignore[assignment]
    try:
        try:
            # What an event loop and a run folder take before anything is asked.
            require_descriptors(10)
        except OSError as fault:
            raise MachineError(
                "this program may open too few files to work: raise the limit with ulimit -n 256"
            ) from fault
        # Around the loop's own life an interruption is only noted: nothing of it is half built or
        # half closed.
        with interruption.cancelling(lambda: None):
            # What was made while importing is out of the collector's way.
            gc.freeze()
            # A thread that judges gives way to the loop that stamps within a millisecond.
            sys.setswitchinterval(0.001)
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                try:
                    return runner.run(cancellable(main))
                except asyncio.CancelledError:
                    if interruption.happened:
                        raise Interrupted from None
                    raise
    finally:
        # Where no loop could be made nobody has awaited it.
        main.close()


async def cancellable(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, which an interruption cancels; what stands after it can still be done."""
    import asyncio

    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    # Wakes the loop as well: a signal handler runs between two of its turns, or in the middle of
    # one.
    with interruption.cancelling(lambda: loop.call_soon_threadsafe(task.cancel)):
        if interruption.happened:
            task.cancel()
        return await task
