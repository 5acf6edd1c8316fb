"""Standard output and standard error whose other end may go away or fill up.

Owns: what that does to a command. A reader that left (`| head`) ends it as one Ctrl-C does. A disk without room is this
machine's failure where results go, on stdout, and nothing at all where a person's words go, on stderr: no run is lost
for the sake of its log. A character that the other end's encoding lacks goes there as a JSON escape: a person can still
read the rest, and JSON is still JSON. Refuses: knowing what is written, but for the secrets it was told to mask.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import TextIO

from clawgauge.cli.interruption import interruption
from clawgauge.errors import DiskFailure

_ESCAPED = "clawgauge.escaped"
_masks: dict[str, Callable[[str], str]] = {}


def mask_output(*, results: Callable[[str], str], words: Callable[[str], str]) -> None:
    """From now on stdout and stderr show what these make of it."""
    _masks.update(stdout=results, stderr=words)


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


codecs.register_error(_ESCAPED, _escape)


class _Output(io.TextIOBase):
    """A text stream that fails once at most: after that, what is written to it goes nowhere."""

    def __init__(self, stream: TextIO, name: str, *, must_arrive: bool) -> None:
        self._stream = stream
        self._name = name
        self._must_arrive = must_arrive

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only here, as it is on every real stream
        return self._stream.encoding

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> int:
        mask = _masks.get(self._name)
        shown = text if mask is None else mask(text)
        try:
            try:
                self._stream.write(shown)
            except UnicodeEncodeError:
                self._stream.write(shown.encode(self.encoding, _ESCAPED).decode(self.encoding))
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
            interruption.request()
        elif self._must_arrive:
            raise DiskFailure(
                f"Cannot write to standard output ({error.strerror or error}); what was recorded stands: make room, "
                "or send the output elsewhere."
            ) from error


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Within the block stdout and stderr are there, and fail as the module says."""
    _open_missing()
    _masks.clear()
    results = _Output(sys.stdout, "stdout", must_arrive=True)
    words = _Output(sys.stderr, "stderr", must_arrive=False)
    with redirect_stdout(results), redirect_stderr(words):
        yield


def _open_missing() -> None:
    """A command started with `>&-` has no stdout, and the next file it opens would become it."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # Never closed: they stand for streams that live as long as the process.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
