"""results.jsonl as a stream of typed records.

Owns: splitting into lines, typed decoding, and counting what could not be read; of a part of the file alone, where the
reading is shared out. Refuses: locks, repairs, and holding more than one line in memory. A caller names a struct of
the fields it needs; the rest of each line is skipped unread.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, cast, overload

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal.disk import LINE_CAP_BYTES, READ_BUFFER_BYTES, read_lines
from clawgauge.journal.documents import read_raw_config
from clawgauge.journal.first_harness import Upgrade, is_first_harness_config, tells_first_harness
from clawgauge.journal.lines import decode_object
from clawgauge.journal.names import RESULTS, SUPERSEDED
from clawgauge.records import Result

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T", bound=msgspec.Struct)

MAX_BAD_EXAMPLES = 10
REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ResultReader(Generic[T]):
    """Iterates the results of one run folder, as often as asked; each time the counts start anew.

    After a full pass `bad_lines` says how many whole lines were no record, `bad_examples` gives the first line
    numbers, and `torn_tail` tells of a last line cut short, as in a run that is being written or was killed.
    """

    def __init__(
        self, folder: Path, record: type[T], *, first_harness: bool, start: int = 0, end: int | None = None
    ) -> None:
        self.bad_lines = 0
        self.bad_examples: list[int] = []
        self.torn_tail = False
        self._folder = folder
        self._record = record
        self._first_harness = first_harness
        self._span = start, end

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.batches(1))

    def batches(self, size: int) -> Iterator[list[T]]:
        """The same records by up to `size` at a time, for whoever counts a million of them: each costs less so."""
        self.bad_lines, self.bad_examples, self.torn_tail = 0, [], False
        decode = self._old_decoder() if self._first_harness else msgspec.json.Decoder(self._record).decode
        with open_results(self._folder, *self._span) as file:
            lines = enumerate(iter(partial(file.readline, LINE_CAP_BYTES), b""), 1)
            while batch := self._decode_some(file, lines, size, decode):
                yield batch

    def _decode_some(
        self, file: BinaryIO, lines: Iterator[tuple[int, bytes]], size: int, decode: Callable[[bytes], T | None]
    ) -> list[T]:
        """Up to `size` records; fewer only at the end of the file."""
        batch: list[T] = []
        for number, line in lines:
            try:
                record = decode(line)
            except REFUSALS:
                record = self._look_again(file, number, line)
            if record is not None:
                batch.append(record)
                if len(batch) == size:
                    break
        return batch

    def _look_again(self, file: BinaryIO, number: int, line: bytes) -> T | None:
        """Tell blank, oversized, torn and bad lines apart; save those with lone surrogate escapes."""
        if not line.strip():
            return None
        ended = line.endswith(b"\n")
        if not ended and len(line) >= LINE_CAP_BYTES:
            _skip_rest_of_line(file)
        elif not self._first_harness and (record := decode_again(line, self._record)) is not None:
            return record
        elif not ended and decode_object(line) is None:
            self.torn_tail = True
            return None
        self.bad_lines += 1
        if len(self.bad_examples) < MAX_BAD_EXAMPLES:
            self.bad_examples.append(number)
        return None

    def _old_decoder(self) -> Callable[[bytes], T | None]:
        upgrade = Upgrade(self._folder.resolve().name)
        record = self._record

        def decode(line: bytes) -> T | None:
            raw = decode_object(line)
            if raw is not None and raw.get("record_type") == "event":
                return None
            result = None if raw is None else upgrade.result(raw)
            if result is None:
                raise msgspec.DecodeError("not a result")
            return cast(T, result) if record is Result else msgspec.convert(result, record, from_attributes=True)

        return decode


@overload
def iter_results(path: Path) -> ResultReader[Result]: ...
@overload
def iter_results(path: Path, type: type[T], *, start: int = 0, end: int | None = None) -> ResultReader[T]: ...
def iter_results(
    path: Path, type: type[msgspec.Struct] = Result, *, start: int = 0, end: int | None = None
) -> ResultReader[Any]:
    """The results in run folder `path`, streamed, each as a `type`. Folders of the first harness are read as ours.

    `start` and `end` are places in the file where lines begin, as `find_line_start` gives them; without them the whole.
    """
    open_results(path).close()
    return ResultReader(path, type, first_harness=is_first_harness(path), start=start, end=end)


def iter_superseded(path: Path, type: type[T]) -> Iterator[T]:
    """The lines that `--retry-errors` moved aside in run folder `path`, each as a `type`; others are passed over."""
    file = path / SUPERSEDED
    decoder = msgspec.json.Decoder(type)
    for line in read_lines(file) if file.is_file() else ():
        with suppress(msgspec.MsgspecError):
            yield decoder.decode(line)


def find_line_start(path: Path, offset: int) -> int:
    """The first place at or after `offset` where a line of the results in run folder `path` begins, or their end."""
    if offset <= 0:
        return 0
    with open_results(path) as file:
        file.seek(offset - 1)
        _skip_rest_of_line(file)
        return file.tell()


def is_first_harness(path: Path) -> bool:
    """Whether the first harness made run folder `path`: by its config.json, else by its first telling line."""
    config = _config_or_none(path)
    if config is not None and not is_first_harness_config(config):
        return False
    with suppress(OSError):
        for line in read_lines(path / RESULTS):
            verdict = tells_first_harness(decode_object(line) or {})
            if verdict is not None:
                return verdict
    return config is not None


def decode_again(line: bytes, record: type[T]) -> T | None:
    """What msgspec refused, read the slow way: a line with lone surrogate escapes, or None."""
    raw = decode_object(line)
    if raw is None:
        return None
    try:
        return msgspec.convert(raw, record)
    except msgspec.ValidationError:
        return None


class _Part(io.RawIOBase):
    """A file that begins at `start` and is at its end at `end`."""

    def __init__(self, path: Path, start: int, end: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._file.seek(start)
        self._left = max(0, end - start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        n = self._file.readinto(memoryview(buffer)[: self._left])
        self._left -= n
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


def open_results(folder: Path, start: int = 0, end: int | None = None) -> BinaryIO:
    """results.jsonl of `folder` for reading, from `start` to `end`, or `RunFolderError`."""
    path = folder / RESULTS
    try:
        if end is not None:
            return io.BufferedReader(_Part(path, start, end), READ_BUFFER_BYTES)
        file = path.open("rb", buffering=READ_BUFFER_BYTES)
        file.seek(start)
        return file
    except FileNotFoundError as error:
        raise RunFolderError(f"{folder} has no {RESULTS}; name the folder of a run.") from error
    except OSError as error:
        raise RunFolderError(f"Cannot read {path} ({error.strerror or error}); check its permissions.") from error


def _config_or_none(path: Path) -> dict[str, Any] | None:
    # A spoilt config.json must not keep anyone from the results.
    try:
        return read_raw_config(path)
    except RunFolderError:
        return None


def _skip_rest_of_line(file: BinaryIO) -> None:
    while (piece := file.readline(LINE_CAP_BYTES)) and not piece.endswith(b"\n"):
        pass
