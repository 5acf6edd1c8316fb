"""A run folder read back: its documents and events, results.jsonl as a stream of typed records, and its cells.

Reading needs no lock, no right to write and no event loop. What cannot be read is counted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar, cast, overload

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal.disk import (
    CONFIG,
    EVENTS,
    INVENTORY,
    LINE_CAP_BYTES,
    RESULTS,
    SUMMARY,
    SUPERSEDED,
    open_file,
    read_file,
    read_lines,
)
from clawgauge.journal.first_harness import Upgrade, tells_first_harness, upgrade_event
from clawgauge.journal.lines import decode_line, decode_object
from clawgauge.records import SCHEMA_VERSION, CellRow, Event, Inventory, Result, RunConfig, RunSummary, Status

T = TypeVar("T", bound=msgspec.Struct)

# Far beyond what a run writes: config.json holds whole suites, events.jsonl a line per retry.
CAP_BYTES = {CONFIG: 256 << 20, INVENTORY: 32 << 20, SUMMARY: 64 << 20, EVENTS: 1 << 30}
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# What a required field is where a line does not say, whichever of these its type takes.
_UNKNOWNS: tuple[Any, ...] = (None, False, 0, "", [], {"e2e": 0})


def read_config(path: Path) -> RunConfig | None:
    """config.json of the run folder `path`; None where there is none, or where the first harness made it."""
    return as_config(path, read_raw_config(path))


def read_raw_config(path: Path) -> dict[str, Any] | None:
    """config.json as it stands, whoever made it; None where there is none."""
    return _read_object(path, CONFIG)


def as_config(path: Path, raw: dict[str, Any] | None) -> RunConfig | None:
    """What `read_config` makes of what `read_raw_config` read."""
    return _as_document(path / CONFIG, raw, RunConfig)


def read_inventory(path: Path) -> Inventory | None:
    """inventory.json; None where there is none, or where it has another shape."""
    return _as_document(path / INVENTORY, _read_object(path, INVENTORY), Inventory)


def read_summary(path: Path) -> RunSummary | None:
    """summary.json; None where there is none, or where it has another shape."""
    return _as_document(path / SUMMARY, _read_object(path, SUMMARY), RunSummary)


def read_events(path: Path) -> list[Event]:
    """events.jsonl, in order. A line that is no event is passed over: events explain a run, they do not count in it.

    The first harness wrote its events among the results; they are found there.
    """
    events = read_event_log(path)
    if is_first_harness(path):
        for raw in _read_objects(path, RESULTS):
            events += _as_event(raw, upgrade_event) if raw.get("record_type") == "event" else []
    return events


def read_event_log(path: Path) -> list[Event]:
    """events.jsonl alone."""
    read = partial(msgspec.convert, type=Event)
    return [event for raw in _read_objects(path, EVENTS) for event in _as_event(raw, read)]


def _as_event(raw: dict[str, Any], read: Callable[[dict[str, Any]], Event]) -> list[Event]:
    try:
        return [read(raw)] if _has_plain_numbers(raw) else []
    except (msgspec.ValidationError, RecursionError):
        return []


def _as_document(path: Path, raw: dict[str, Any] | None, document: type[T]) -> T | None:
    if raw is None or "schema_version" not in raw:
        return None
    version = raw["schema_version"]
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise RunFolderError(f"{path} has schema version {version}, newer than this program knows; update clawgauge.")
    # A suite may hold a number of any length in its prompts; nothing else does.
    if not _has_plain_numbers({key: value for key, value in raw.items() if key != "prompts"}):
        raise RunFolderError(f"{path} holds a number of over 64 bits, which no run writes; restore it from a copy.")
    try:
        return msgspec.convert(raw, document)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path} cannot be read: {error}; restore it from a copy, or run again.") from error


def _has_plain_numbers(value: dict[str, Any]) -> bool:
    """Whether all numbers fit 64 bits: a longer one can be no quantity, and spoils every sum it comes into."""
    try:
        msgspec.msgpack.encode(value)
    except OverflowError:
        return False
    return True


def _read_object(folder: Path, name: str) -> dict[str, Any] | None:
    try:
        data = read_file(folder, name, CAP_BYTES[name])
    except OSError as error:
        raise _unreadable(folder / name, error) from error
    if data is None:
        return None
    raw = decode_object(data)
    if raw is None:
        raise RunFolderError(f"{folder / name} is not a JSON object; restore it from a copy, or run again.")
    return raw


def _read_objects(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    try:
        with open_file(folder, name, CAP_BYTES.get(name)) as file:
            yield from (raw for raw in map(decode_line, read_lines(file)) if raw is not None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(folder / name, error) from error


def _unreadable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"Cannot read {path} ({error.strerror or error}); check its permissions.")


class ResultReader(Generic[T]):
    """Iterates the results of one run folder, as often as asked, each time from the file anew.

    After a full pass `bad_lines` says how many whole lines were no record, and `events` holds what the first harness
    wrote among its results. A last line cut short, as in a run that is being written or was killed, is not counted.
    `raw_config` is the folder's config.json as far as it can be read: it tells who made the folder.
    """

    def __init__(self, folder: Path, record: type[T], raw_config: Mapping[str, Any] | None) -> None:
        self.bad_lines = 0
        self.events: list[Event] = []
        self.first_harness: bool | None = None
        self._folder = folder
        self._record = record
        self._raw_config = raw_config

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(records for records, _ in self.batches(1))

    def batches(self, size: int) -> Iterator[tuple[list[T], list[int]]]:
        """The same records by up to `size` at a time, and at which byte each line begins."""
        self.bad_lines, self.events = 0, []
        try:
            with open_results(self._folder) as file:
                self.first_harness = _tells_first_harness(self._raw_config, file)
                file.seek(0)
                decode: Callable[[bytes], T | None] = msgspec.json.Decoder(self._record).decode
                decode = self._old_decoder() if self.first_harness else decode
                batch: list[T] = []
                offsets: list[int] = []
                offset = 0
                for line in read_lines(file):
                    try:
                        record = decode(line)
                    except _REFUSALS:
                        record = self._look_again(file, line)
                    if record is not None:
                        batch.append(record)
                        offsets.append(offset)
                        if len(batch) == size:
                            yield batch, offsets
                            batch, offsets = [], []
                    offset += len(line)
                    if record is None:
                        # The rest of a line over the cap may have been passed over.
                        offset = file.tell()
                if batch:
                    yield batch, offsets
        except OSError as error:
            raise _unreadable(self._folder / RESULTS, error) from error

    def _look_again(self, file: BinaryIO, line: bytes) -> T | None:
        """Tell blank, oversized, torn and bad lines apart; save what can be of a line that does not fit at once."""
        if not line.strip():
            return None
        ended = line.endswith(b"\n")
        if not ended and len(line) >= LINE_CAP_BYTES:
            _skip_rest_of_line(file)
        elif not self.first_harness and (record := decode_again(line, self._record)) is not None:
            return record
        elif not ended and decode_line(line) is None:
            return None
        self.bad_lines += 1
        return None

    def _old_decoder(self) -> Callable[[bytes], T | None]:
        upgrade = Upgrade(self._folder.resolve().name)
        record = self._record

        def decode(line: bytes) -> T | None:
            raw = decode_line(line)
            if raw is not None and raw.get("record_type") == "event":
                self.events += _as_event(raw, upgrade_event)
                return None
            result = None if raw is None else upgrade.result(raw)
            if result is None:
                raise msgspec.DecodeError("not a result")
            if record is Result:
                return cast(T, result)
            try:
                return msgspec.convert(result, record, from_attributes=True)
            except msgspec.ValidationError:
                return _fit(msgspec.to_builtins(result), record)

        return decode


@overload
def iter_results(path: Path) -> ResultReader[Result]: ...
@overload
def iter_results(path: Path, type: type[T]) -> ResultReader[T]: ...
def iter_results(path: Path, type: type[msgspec.Struct] = Result) -> ResultReader[Any]:
    """The results in run folder `path`, streamed, each as a `type`. Folders of the first harness are read as ours."""
    open_results(path).close()
    return ResultReader(path, type, _config_or_none(path))


def read_results_at(path: Path, offsets: Iterable[int]) -> Iterator[tuple[int, Result]]:
    """The whole results whose lines begin at `offsets`, which a pass over the same folder has told, in file order."""
    wanted = sorted(set(offsets))
    if is_first_harness(path):
        # What an old record is the repeat of only those before it tell.
        places = set(wanted)
        yield from ((at, result) for (result,), (at,) in iter_results(path).batches(1) if at in places)
        return
    decode = line_decoder(Result)
    with open_results(path) as file:
        for offset in wanted:
            file.seek(offset)
            # A line that somebody changed meanwhile is no longer what was asked for.
            if (result := decode(file.readline(LINE_CAP_BYTES))) is not None:
                yield offset, result


def iter_superseded(path: Path, type: type[T]) -> Iterator[T]:
    """The lines that `--retry-errors` moved aside in run folder `path`, each as a `type`; others are passed over."""
    decode = line_decoder(type)
    with suppress(FileNotFoundError), open_file(path, SUPERSEDED) as file:
        yield from (record for line in read_lines(file) if (record := decode(line)) is not None)


def is_first_harness(path: Path) -> bool:
    """Whether the first harness made run folder `path`: by its config.json, else by its first telling line."""
    config = _config_or_none(path)
    if config is None or "schema_version" not in config:
        with suppress(OSError, RunFolderError), open_file(path, RESULTS) as file:
            return _tells_first_harness(config, file)
    return config is not None and "schema_version" not in config


def _tells_first_harness(config: Mapping[str, Any] | None, file: BinaryIO) -> bool:
    # Every config.json of ours has a schema version; the first harness knew none.
    if config is not None and "schema_version" in config:
        return False
    for line in read_lines(file):
        verdict = tells_first_harness(decode_line(line) or {})
        if verdict is not None:
            return verdict
        if not line.endswith(b"\n"):
            _skip_rest_of_line(file)
    return config is not None


def line_decoder(record: type[T], *, fitting: bool = False) -> Callable[[bytes], T | None]:
    """Reads one line exactly as `iter_results` would; None for a line that is no record.

    With `fitting`, one of which a field had to be given up is none either: for whoever writes it anew.
    """
    fast = msgspec.json.Decoder(record).decode

    def decode(line: bytes) -> T | None:
        try:
            return fast(line)
        except _REFUSALS:
            if fitting:
                # Only its text may be repaired.
                try:
                    msgspec.convert(decode_object(line), record)
                except msgspec.ValidationError:
                    return None
            return decode_again(line, record)

    return decode


def decode_again(line: bytes, record: type[T]) -> T | None:
    """What msgspec refused at once, read the slow way; None where it is no record to anyone."""
    raw = decode_line(line)
    if raw is None:
        return None
    try:
        msgspec.convert(raw, CellRow)
    except msgspec.ValidationError:
        return None
    return _fit(raw, record)


def _fit(raw: dict[str, Any], record: type[T]) -> T:
    """`raw` as a `record`, of each field what fits its type."""
    fitting: dict[str, Any] = {}
    for field in msgspec.structs.fields(record):
        values = (raw[field.name],) if field.name in raw else ()
        for value in (*values, *_UNKNOWNS) if field.required else values:
            try:
                fitting[field.name] = msgspec.convert(value, field.type)
                break
            except msgspec.ValidationError:
                continue
    return record(**fitting)


def open_results(folder: Path) -> BinaryIO:
    """results.jsonl of `folder` for reading, or `RunFolderError`."""
    try:
        return open_file(folder, RESULTS)
    except FileNotFoundError as error:
        raise RunFolderError(f"{folder} has no {RESULTS}; name the folder of a run.") from error
    except OSError as error:
        raise _unreadable(folder / RESULTS, error) from error


def _config_or_none(path: Path) -> dict[str, Any] | None:
    # A spoilt config.json must not keep anyone from the results.
    try:
        return read_raw_config(path)
    except RunFolderError:
        return None


def _skip_rest_of_line(file: BinaryIO) -> None:
    while (piece := file.readline(LINE_CAP_BYTES)) and not piece.endswith(b"\n"):
        # On to where there is data again: a terabyte of nothing in a sparse file takes no time to make.
        if hasattr(os, "SEEK_DATA"):
            here = file.tell()
            try:
                file.seek(os.lseek(file.fileno(), here, os.SEEK_DATA))
            except OSError as error:
                # Where no data follows there is nothing left to read; else the file system does not tell.
                file.seek(0, os.SEEK_END) if error.errno == errno.ENXIO else file.seek(here)


class CellKey(NamedTuple):
    """What one line of results.jsonl is about."""

    provider: str
    model: str
    thinking_level: str | None
    suite: str
    prompt_id: str
    repeat: int


def cell_key(result: Result | CellRow) -> CellKey:
    """The cell `result` fills."""
    return CellKey(
        # Many lines share few names: one copy of each keeps a large index small.
        intern(result.provider),
        intern(result.model),
        result.thinking_level,
        intern(result.suite),
        intern(result.prompt_id),
        result.repeat,
    )


def index_cells(path: Path) -> dict[CellKey, Status]:
    """How every cell recorded in run folder `path` ended, by its last line. Unreadable lines fill no cell."""
    return {cell_key(line): line.availability_status for line in iter_results(path, CellRow)}
