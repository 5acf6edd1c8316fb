"""A run folder read back: documents, events, and results as typed records.

What cannot be read is counted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, Generic, NamedTuple, TypeAlias, TypeVar, cast, overload

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal import disk
from clawgauge.journal.disk import CAP_BYTES, CONFIG, LINE_CAP_BYTES, RESULTS, open_file
from clawgauge.journal.first_harness import Upgrade, tells_first_harness, upgrade_event
from clawgauge.journal.lines import REFUSALS, decode_line, decode_object
from clawgauge.journal.locate import started_at_ms
from clawgauge.json_limits import (
    MAX_DEPTH,
    RECORD_LIMITS,
    VALUE_LIMITS,
    count_values,
    find_excess,
    nests_deeper,
)
from clawgauge.records import (
    SCHEMA_VERSION,
    CellRow,
    DrawnPrompt,
    Event,
    Inventory,
    Prompt,
    Result,
    RunConfig,
    RunSummary,
    Status,
)
from clawgauge.records.run import fill_contexts

T = TypeVar("T", bound=msgspec.Struct)

TextKey: TypeAlias = tuple[str, str, int]
"""A text that was asked: suite, prompt id, drawing."""
# Of all events together, which are held at once: those of some hundred thousand retries.
_MAX_EVENT_VALUES = 8_000_000
_NOTHING = msgspec.Raw(b"")
# What a required field is where a line does not say: whichever of these its type takes first.
_UNKNOWNS: tuple[Any, ...] = (None, False, 0, "", [], {"e2e": 0})


class _Head(msgspec.Struct):
    """What tells whose document it is. All else is passed over, and costs no memory."""

    schema_version: msgspec.Raw = _NOTHING

    @property
    def is_ours(self) -> bool:
        """Every document of ours has a schema version; the first harness knew none."""
        return bytes(self.schema_version) != b""

    @property
    def is_newer(self) -> bool:
        version = bytes(self.schema_version).strip()
        return version.isdigit() and int(version[:10]) > SCHEMA_VERSION


def _read_event(line: bytes) -> Event | None:
    """The event of a line; None where it is none, or holds what no run writes."""
    if find_excess(line, RECORD_LIMITS) is not None:
        return None
    try:
        event = msgspec.json.decode(line, type=Event)
    except REFUSALS:
        raw = decode_line(line)
        if raw is None:
            return None
        return _convert_event(raw, partial(msgspec.convert, type=Event))
    return event if _has_plain_numbers(event) else None


def _read_drawn_prompt(line: bytes) -> DrawnPrompt | None:
    """The drawing of a line; None where it is none, or holds what no run writes."""
    if find_excess(line, VALUE_LIMITS) is not None:
        return None
    try:
        return msgspec.json.decode(line, type=DrawnPrompt)
    except REFUSALS:
        return None


def _convert_event(raw: dict[str, Any], convert: Callable[[dict[str, Any]], Event]) -> Event | None:
    if not _has_plain_numbers(raw):
        return None
    try:
        return convert(raw)
    except (msgspec.ValidationError, RecursionError):
        return None


def _read_document(folder: Path, name: str, document_type: type[T]) -> T | None:
    """A document of a run folder, decoded as what it is.

    None where there is none, or where the first harness made one of its own. Raises
    `RunFolderError` where it cannot be read, or holds what no run writes.
    """
    path = folder / name
    data = _read_bytes(folder, name)
    if data is None:
        return None
    head = _read_head(path, data)
    if not head.is_ours:
        return None
    if head.is_newer:
        version = bytes(head.schema_version)[:10].decode()
        raise RunFolderError(
            f"{path} has schema version {version}, newer than this program knows; update clawgauge."
        )
    _refuse_excess(path, data)
    document = _decode_document(path, data, document_type)
    if nests_deeper(document, MAX_DEPTH):
        raise _holds_too_much(path, f"values nested more than {MAX_DEPTH} levels deep")
    # A suite may hold a number of any length in its prompts and their contexts; nothing else does.
    without_prompts: msgspec.Struct = document
    if isinstance(document, RunConfig):
        without_prompts = msgspec.structs.replace(document, prompts=[], contexts={})
    if not _has_plain_numbers(without_prompts):
        raise RunFolderError(
            f"{path} holds a number of over 64 bits, which no run writes; restore it from a copy."
        )
    return document


def _decode_document(path: Path, data: bytes, document_type: type[T]) -> T:
    try:
        try:
            return msgspec.json.decode(data, type=document_type)
        except msgspec.ValidationError:
            raise
        except REFUSALS:  # half a surrogate pair, perhaps, which is repaired
            return msgspec.convert(_decode_whole(path, data), document_type)
    except msgspec.ValidationError as error:
        raise RunFolderError(
            f"{path} cannot be read: {error}; restore it from a copy, or run again."
        ) from error


def _refuse_excess(path: Path, data: bytes) -> None:
    """Raise where decoding a few bytes would take more memory than any document of a run does."""
    excess = find_excess(data, VALUE_LIMITS)
    if excess is not None:
        raise _holds_too_much(path, excess)


def _holds_too_much(path: Path, excess: str) -> RunFolderError:
    return RunFolderError(
        f"{path} holds {excess}, which no run writes; restore it from a copy, or run again."
    )


def _read_head(path: Path, data: bytes) -> _Head:
    try:
        head = msgspec.json.decode(data, type=_Head)
        # What is taken as it stands holds on to the whole file.
        return _Head(head.schema_version.copy())
    except REFUSALS:
        pass
    _refuse_excess(path, data)
    raw = _decode_whole(path, data)
    if "schema_version" not in raw:
        return _Head()
    return _Head(msgspec.Raw(msgspec.json.encode(raw["schema_version"])))


def _decode_whole(path: Path, data: bytes) -> dict[str, Any]:
    raw = decode_object(data)
    if raw is None:
        raise RunFolderError(f"{path} is not a JSON object; restore it from a copy, or run again.")
    return raw


def _has_plain_numbers(value: Any) -> bool:
    """Whether all numbers fit 64 bits.

    A longer one can be no quantity, and spoils every sum it comes into.
    """
    with suppress(OverflowError):
        msgspec.msgpack.encode(value)
        return True
    return False


def _read_bytes(folder: Path, name: str) -> bytes | None:
    cap_bytes = CAP_BYTES.get(name, CAP_BYTES[disk.INVENTORY])
    try:
        return disk.read_file(folder, name, cap_bytes)
    except OSError as error:
        raise _unreadable(folder / name, error) from error


def _read_lines(folder: Path, name: str) -> Iterator[bytes]:
    """The lines of a file of the run folder; none where there is no such file."""
    try:
        with open_file(folder, name, CAP_BYTES.get(name)) as file:
            yield from disk.read_lines(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(folder / name, error) from error


def _unreadable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"Cannot read {path} ({error.strerror or error}); check its permissions.")


class RunReader(Generic[T]):
    """A run folder, ours or the first harness's: its documents, and its results as `record_type`.

    Documents are remembered; results are read from the file anew each time. After a full pass
    `n_unreadable_lines` says how many whole lines were no record. A last line cut short, as in a
    run that is being written or was killed, is not counted.
    """

    def __init__(self, path: Path, record_type: type[T]) -> None:
        self.path = path
        self.n_unreadable_lines = 0
        self._record_type = record_type
        # What the first harness wrote among its results, once they have been gone through.
        self._old_events: list[Event] | None = None

    @property
    def run_id(self) -> str:
        return self.config.run_id if self.config else self.path.resolve().name

    @cached_property
    def _config_head(self) -> _Head | None:
        """The head of config.json; None where there is none, or none that can be read."""
        # A spoilt config.json must not keep anyone from the results.
        with suppress(RunFolderError):
            data = _read_bytes(self.path, CONFIG)
            if data is not None:
                return _read_head(self.path / CONFIG, data)
        return None

    @property
    def _has_own_config(self) -> bool:
        return self._config_head is not None and self._config_head.is_ours

    @cached_property
    def config(self) -> RunConfig | None:
        """config.json; None where there is none, or where the first harness made it."""
        config = _read_document(self.path, CONFIG, RunConfig)
        if config is None or not config.contexts:
            return config
        try:
            prompts = list(fill_contexts(config.contexts, config.prompts))
        except ValueError as error:
            raise RunFolderError(f"{self.path / CONFIG} cannot be read: {error}") from error
        return msgspec.structs.replace(config, prompts=prompts)

    @cached_property
    def inventory(self) -> Inventory | None:
        """The machine of this program."""
        return self.inventory_of("")

    def inventory_of(self, node: str) -> Inventory | None:
        """The machine of a node of a fleet; without a name, that of this program."""
        name = f"inventory_{node}.json" if node else disk.INVENTORY
        return _read_document(self.path, name, Inventory)

    @cached_property
    def summary(self) -> RunSummary | None:
        """summary.json as it was last written: it may be older than the records."""
        return _read_document(self.path, disk.SUMMARY, RunSummary)

    @cached_property
    def started_at_ms(self) -> float:
        return started_at_ms(self.path)

    @cached_property
    def events(self) -> list[Event]:
        """The events, in order; lines that are none are passed over.

        Those of events.jsonl come first, then what the first harness wrote among its results.
        """
        events: list[Event] = []
        n_values = 0
        for line in _read_lines(self.path, disk.EVENTS):
            n_values += count_values(line)
            if n_values > _MAX_EVENT_VALUES:
                raise RunFolderError(
                    f"{self.path / disk.EVENTS} holds more than {_MAX_EVENT_VALUES:,} values, and "
                    f"no run has so many events; restore it from a copy, or move it aside to read "
                    f"the results alone."
                )
            event = _read_event(line)
            if event is not None:
                events.append(event)
        if self._old_events is not None:
            return events + self._old_events
        if self.first_harness:
            for line in _read_lines(self.path, RESULTS):
                event = _read_old_event(decode_line(line) or {})
                if event is not None:
                    events.append(event)
        return events

    @cached_property
    def drawn_prompts(self) -> dict[TextKey, Prompt]:
        """The further drawings of prompts that were asked, by suite, id and drawing.

        Lines that are none are passed over; of two for one drawing the first counts.
        """
        drawn_prompts: dict[TextKey, Prompt] = {}
        n_values = 0
        for line in _read_lines(self.path, disk.DRAWN_PROMPTS):
            n_values += count_values(line)
            if n_values > _MAX_EVENT_VALUES:
                raise RunFolderError(
                    f"{self.path / disk.DRAWN_PROMPTS} holds more than {_MAX_EVENT_VALUES:,} "
                    f"values, and no run asks so much; restore it from a copy."
                )
            drawn = _read_drawn_prompt(line)
            if drawn is not None:
                key = (drawn.prompt.suite, drawn.prompt.id, drawn.draw)
                drawn_prompts.setdefault(key, drawn.prompt)
        return drawn_prompts

    @cached_property
    def first_harness(self) -> bool:
        """Whether the first harness made the folder.

        Its config.json tells that, or else the first of its lines that does.
        """
        if self._has_own_config:
            return False
        with suppress(OSError, RunFolderError), open_file(self.path, RESULTS) as file:
            return self._has_lines_of_first_harness(file)
        return self._config_head is not None

    def _has_lines_of_first_harness(self, file: BinaryIO) -> bool:
        for line in disk.read_lines(file):
            verdict = tells_first_harness(decode_line(line) or {})
            if verdict is not None:
                return verdict
            if not line.endswith(b"\n"):
                _skip_rest_of_line(file)
        return self._config_head is not None

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(records for records, _ in self.batches(1))

    def batches(self, size: int) -> Iterator[tuple[list[T], list[int]]]:
        """The results by up to `size` at a time, and at which byte the line of each begins."""
        self.n_unreadable_lines = 0
        self._old_events = []
        try:
            with open_results(self.path) as file:
                # Not by the property: this file is open.
                self.first_harness = not self._has_own_config and self._has_lines_of_first_harness(
                    file
                )
                file.seek(0)
                decode: Callable[[bytes], T | None]
                if self.first_harness:
                    decode = self._make_old_decoder(self._old_events)
                else:
                    decode = msgspec.json.Decoder(self._record_type).decode
                batch: list[T] = []
                offsets: list[int] = []
                offset = 0
                for line in disk.read_lines(file):
                    try:
                        if find_excess(line, RECORD_LIMITS) is not None:
                            raise msgspec.DecodeError("more in it than any record has")
                        record = decode(line)
                    except REFUSALS:
                        record = self._read_refused_line(file, line)
                    if record is not None:
                        batch.append(record)
                        offsets.append(offset)
                        if len(batch) == size:
                            yield batch, offsets
                            batch = []
                            offsets = []
                        offset += len(line)
                    else:
                        # The rest of a line over the cap may have been passed over.
                        offset = file.tell()
                if batch:
                    yield batch, offsets
        except OSError as error:
            raise _unreadable(self.path / RESULTS, error) from error

    def _read_refused_line(self, file: BinaryIO, line: bytes) -> T | None:
        """What can be saved of a line that msgspec refused at once; None where that is nothing.

        Counts the line as unreadable, unless it is blank or torn.
        """
        if not line.strip():
            return None
        is_whole = line.endswith(b"\n")
        if not is_whole and len(line) >= LINE_CAP_BYTES:
            _skip_rest_of_line(file)
            self.n_unreadable_lines += 1
            return None
        if not self.first_harness:
            record = decode_again(line, self._record_type)
            if record is not None:
                return record
        is_torn = not is_whole and decode_line(line) is None
        if not is_torn:
            self.n_unreadable_lines += 1
        return None

    def _make_old_decoder(self, events: list[Event]) -> Callable[[bytes], T | None]:
        """A decoder of the first harness's lines; those that are events are added to `events`."""
        upgrade = Upgrade(self.path.resolve().name)

        def decode(line: bytes) -> T | None:
            raw = decode_line(line) or {}
            if raw.get("record_type") == "event":
                event = _read_old_event(raw)
                if event is not None:
                    events.append(event)
                return None
            result = upgrade.result(raw)
            if result is None:
                raise msgspec.DecodeError("not a result")
            if self._record_type is Result:
                return cast(T, result)
            return _fit(msgspec.to_builtins(result), self._record_type)

        return decode

    def results_at(self, offsets: Iterable[int]) -> Iterator[tuple[int, Result]]:
        """The whole results whose lines begin at `offsets`, each with its own, in file order.

        `batches` tells the offsets.
        """
        offsets_in_order = sorted(set(offsets))
        if self.first_harness:
            # Which repeat an old record is, only those before it tell.
            yield from self._old_results_at(set(offsets_in_order))
            return
        decode = line_decoder(Result)
        with open_results(self.path) as file:
            for offset in offsets_in_order:
                file.seek(offset)
                result = decode(file.readline(LINE_CAP_BYTES))
                # A line that somebody changed meanwhile is no longer what was asked for.
                if result is not None:
                    yield offset, result

    def _old_results_at(self, offsets: set[int]) -> Iterator[tuple[int, Result]]:
        for results, result_offsets in RunReader(self.path, Result).batches(1):
            if result_offsets[0] in offsets:
                yield result_offsets[0], results[0]


def _read_old_event(raw: dict[str, Any]) -> Event | None:
    """The event of a line of the first harness; None where it is none."""
    if raw.get("record_type") != "event":
        return None
    return _convert_event(raw, upgrade_event)


@overload
def iter_results(path: Path) -> RunReader[Result]: ...
@overload
def iter_results(path: Path, record_type: type[T]) -> RunReader[T]: ...
def iter_results(path: Path, record_type: type[msgspec.Struct] = Result) -> RunReader[Any]:
    """The results in run folder `path`, streamed, each as a `record_type`.

    Folders of the first harness are read as ours. Raises `RunFolderError` where there are no
    results.
    """
    open_results(path).close()
    return RunReader(path, record_type)


def iter_superseded(path: Path, record_type: type[T]) -> Iterator[T]:
    """The lines that `--retry-errors` moved aside in run folder `path`, each as a `record_type`.

    Lines that are no record are passed over.
    """
    decode = line_decoder(record_type)
    with suppress(FileNotFoundError), open_file(path, disk.SUPERSEDED) as file:
        for line in disk.read_lines(file):
            record = decode(line)
            if record is not None:
                yield record


def line_decoder(record_type: type[T], *, fitting: bool = False) -> Callable[[bytes], T | None]:
    """A function that reads one line as `iter_results` would, or returns None.

    With `fitting` it returns None for a line of which a field had to be given up.
    """
    decode_at_once = msgspec.json.Decoder(record_type).decode

    def decode(line: bytes) -> T | None:
        if find_excess(line, RECORD_LIMITS) is not None:
            return None
        with suppress(*REFUSALS):
            return decode_at_once(line)
        if fitting:
            try:
                # Only its text may be repaired.
                msgspec.convert(decode_object(line), record_type)
            except msgspec.ValidationError:
                return None
        return decode_again(line, record_type)

    return decode


def decode_again(line: bytes, record_type: type[T]) -> T | None:
    """What msgspec refused at once, read the slow way; None where it is no record to anyone."""
    raw = decode_line(line) or {}
    with suppress(msgspec.ValidationError):
        msgspec.convert(raw, CellRow)
        return _fit(raw, record_type)
    return None


def _fit(raw: dict[str, Any], record_type: type[T]) -> T:
    """`raw` as a `record_type`, of each field what fits its type."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(record_type):
        candidates: list[Any] = []
        if field.name in raw:
            candidates.append(raw[field.name])
        if field.required:
            candidates.extend(_UNKNOWNS)
        for candidate in candidates:
            try:
                fields[field.name] = msgspec.convert(candidate, field.type)
                break
            except msgspec.ValidationError:
                continue
    return record_type(**fields)


def open_results(folder: Path) -> BinaryIO:
    """results.jsonl, open for reading. Raises `RunFolderError` where there is none."""
    try:
        return open_file(folder, RESULTS)
    except FileNotFoundError as error:
        raise RunFolderError(f"{folder} has no {RESULTS}; name the folder of a run.") from error
    except OSError as error:
        raise _unreadable(folder / RESULTS, error) from error


def _skip_rest_of_line(file: BinaryIO) -> None:
    """Read on to the end of a line of which a piece was read."""
    while True:
        piece = file.readline(LINE_CAP_BYTES)
        if not piece or piece.endswith(b"\n"):
            return
        _seek_data(file)


def _seek_data(file: BinaryIO) -> None:
    """Go on to where there is data again.

    A terabyte of nothing in a sparse file takes no time to make.
    """
    if not hasattr(os, "SEEK_DATA"):
        return
    position = file.tell()
    try:
        file.seek(os.lseek(file.fileno(), position, os.SEEK_DATA))
    except OSError as error:
        if error.errno == errno.ENXIO:
            # No data follows, so there is nothing left to read.
            file.seek(0, os.SEEK_END)
        else:
            # The file system does not tell.
            file.seek(position)


class CellKey(NamedTuple):
    """What tells the cells of a run apart."""

    provider: str
    model: str
    thinking_level: str | None
    suite: str
    prompt_id: str
    repeat: int
    draw: int = 0


def cell_key(row: Result | CellRow) -> CellKey:
    # Many lines share few names: one copy of each keeps a large index small.
    return CellKey(
        provider=intern(row.provider),
        model=intern(row.model),
        thinking_level=row.thinking_level,
        suite=intern(row.suite),
        prompt_id=intern(row.prompt_id),
        repeat=row.repeat,
        draw=row.draw,
    )


def index_cells(path: Path) -> dict[CellKey, Status]:
    """How every cell recorded in run folder `path` ended, by its last line.

    Unreadable lines fill no cell.
    """
    return {cell_key(row): row.availability_status for row in iter_results(path, CellRow)}
