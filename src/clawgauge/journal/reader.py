"""A run folder found and read back: documents, events, results as typed records. What cannot be read is counted."""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Annotated, Any, BinaryIO, Generic, NamedTuple, TypeVar, cast, overload

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal import disk
from clawgauge.journal.disk import CONFIG, LATEST, RESULTS, decode_line, decode_object, is_barren, open_file, stat_file
from clawgauge.journal.first_harness import Upgrade, tells_first_harness, upgrade_event
from clawgauge.json_limits import MAX_DEPTH, RECORD_LIMITS, VALUE_LIMITS, count_values, find_excess, nests_deeper
from clawgauge.records import SCHEMA_VERSION, CellRow, Event, Inventory, Result, RunConfig, RunSummary, Status
from clawgauge.records.run import fill_contexts

T = TypeVar("T", bound=msgspec.Struct)

# Far beyond what a run writes: config.json holds whole suites, events.jsonl a line per retry.
CAP_BYTES = {CONFIG: 256 << 20, disk.INVENTORY: 32 << 20, disk.SUMMARY: 64 << 20, disk.EVENTS: 1 << 30}
_MAX_SUGGESTIONS = 5
_LOOKED_AT_BYTES = 4 << 20
# Of all events together, which are held at once: those of some hundred thousand retries.
_MAX_EVENT_VALUES = 8_000_000
_LOAD = re.compile(rb'"load": *\{"client"')
_ANSWERED = re.compile(rb'"availability_status": *"ok"')
_END_OF_YEAR_9999_MS = 253_402_300_799_999
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NOTHING = msgspec.Raw(b"")
# What a required field is where a line does not say, whichever of these its type takes.
_UNKNOWNS: tuple[Any, ...] = (None, False, 0, "", [], {"e2e": 0})


class _Birth(msgspec.Struct):
    # A date that no calendar has would spoil every table it stands in.
    created_at_ms: Annotated[int, msgspec.Meta(ge=0, le=_END_OF_YEAR_9999_MS)]


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


def started_at_ms(path: Path) -> float:
    """When a run started: `created_at_ms` of its config.json, else the time config.json or results.jsonl was written.
    The first harness recorded no start, but wrote its config.json at it."""
    try:
        data = disk.read_file(path, CONFIG, CAP_BYTES[CONFIG])
        return msgspec.json.decode(data or b"", type=_Birth).created_at_ms
    except (OSError, RunFolderError, *_REFUSALS):
        pass
    for name in (CONFIG, RESULTS):
        found = stat_file(path, name)
        if found is not None:
            return min(max(found.st_mtime_ns / 1_000_000, 0.0), float(_END_OF_YEAR_9999_MS))
    return 0.0


def _as_event(line: bytes) -> Event | None:
    """The event of a line; None where it is none, or holds what no run writes."""
    if find_excess(line, RECORD_LIMITS) is not None:
        return None
    try:
        event = msgspec.json.decode(line, type=Event)
    except _REFUSALS:
        raw = decode_line(line)
        if raw is None:
            return None
        return _convert_event(raw, partial(msgspec.convert, type=Event))
    return event if _has_plain_numbers(event) else None


def _convert_event(raw: dict[str, Any], read: Callable[[dict[str, Any]], Event]) -> Event | None:
    try:
        return read(raw) if _has_plain_numbers(raw) else None
    except (msgspec.ValidationError, RecursionError):
        return None


def _read_document(folder: Path, name: str, document: type[T]) -> T | None:
    """A document, decoded as what it is. None where there is none, or where the first harness made one of its own."""
    path = folder / name
    data = _read_bytes(folder, name)
    head = _read_head(path, data)
    if data is None or head is None or not head.is_ours:
        return None
    if head.is_newer:
        version = bytes(head.schema_version)[:10].decode()
        raise RunFolderError(f"{path} has schema version {version}, newer than this program knows; update clawgauge.")
    _refuse_bomb(path, data)
    try:
        try:
            found = msgspec.json.decode(data, type=document)
        except msgspec.ValidationError:
            raise
        except _REFUSALS:  # half a surrogate pair, perhaps, which is repaired
            found = msgspec.convert(_decode_whole(path, data), document)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path} cannot be read: {error}; restore it from a copy, or run again.") from error
    if nests_deeper(found, MAX_DEPTH):
        raise _beyond(path, f"values nested more than {MAX_DEPTH} levels deep")
    # A suite may hold a number of any length in its prompts and their contexts; nothing else does.
    plain = msgspec.structs.replace(found, prompts=[], contexts={}) if isinstance(found, RunConfig) else found
    if not _has_plain_numbers(plain):
        raise RunFolderError(f"{path} holds a number of over 64 bits, which no run writes; restore it from a copy.")
    return found


def _refuse_bomb(path: Path, data: bytes) -> None:
    excess = find_excess(data, VALUE_LIMITS)
    if excess is not None:
        raise _beyond(path, excess)


def _beyond(path: Path, excess: str) -> RunFolderError:
    return RunFolderError(f"{path} holds {excess}, which no run writes; restore it from a copy, or run again.")


def _read_head(path: Path, data: bytes | None) -> _Head | None:
    if data is None:
        return None
    try:
        head = msgspec.json.decode(data, type=_Head)
        # What is taken as it stands holds on to the whole file.
        return _Head(head.schema_version.copy())
    except _REFUSALS:
        pass
    _refuse_bomb(path, data)
    raw = _decode_whole(path, data)
    head_fields = {name: raw[name] for name in _Head.__struct_fields__ if name in raw}
    return msgspec.json.decode(msgspec.json.encode(head_fields), type=_Head)


def _decode_whole(path: Path, data: bytes) -> dict[str, Any]:
    raw = decode_object(data)
    if raw is None:
        raise RunFolderError(f"{path} is not a JSON object; restore it from a copy, or run again.")
    return raw


def _has_plain_numbers(value: Any) -> bool:
    """Whether all numbers fit 64 bits: a longer one can be no quantity, and spoils every sum it comes into."""
    with suppress(OverflowError):
        msgspec.msgpack.encode(value)
        return True
    return False


def _read_bytes(folder: Path, name: str) -> bytes | None:
    try:
        return disk.read_file(folder, name, CAP_BYTES.get(name, CAP_BYTES[disk.INVENTORY]))
    except OSError as error:
        raise _unreadable(folder / name, error) from error


def _read_lines(folder: Path, name: str) -> Iterator[bytes]:
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
    """A run folder, ours or the first harness's: its documents, and its results as records of one type. Documents are
    remembered; results are read from the file anew each time. After a full pass `n_unreadable_lines` says how many
    whole lines were no record. A last line cut short, as in a run that is being written or was killed, is not
    counted."""

    def __init__(self, path: Path, record: type[T]) -> None:
        self.path, self._record, self.n_unreadable_lines = path, record, 0
        # What the first harness wrote among its results, once they have been gone through.
        self._old_events: list[Event] | None = None

    @property
    def run_id(self) -> str:
        return self.config.run_id if self.config else self.path.resolve().name

    @cached_property
    def _config_head(self) -> _Head | None:
        # A spoilt config.json must not keep anyone from the results.
        with suppress(RunFolderError):
            return _read_head(self.path / CONFIG, _read_bytes(self.path, CONFIG))
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
            return msgspec.structs.replace(config, prompts=list(fill_contexts(config.contexts, config.prompts)))
        except ValueError as error:
            raise RunFolderError(f"{self.path / CONFIG} cannot be read: {error}") from error

    @cached_property
    def inventory(self) -> Inventory | None:
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
        """events.jsonl, in order, and what the first harness wrote among its results; others are passed over."""
        events: list[Event] = []
        n_values = 0
        for line in _read_lines(self.path, disk.EVENTS):
            n_values += count_values(line)
            if n_values > _MAX_EVENT_VALUES:
                path = self.path / disk.EVENTS
                why = f"{path} holds more than {_MAX_EVENT_VALUES:,} values, and no run has so many events"
                raise RunFolderError(f"{why}; restore it from a copy, or move it aside to read the results alone.")
            event = _as_event(line)
            if event is not None:
                events.append(event)
        if self._old_events is None and self.first_harness:
            for line in _read_lines(self.path, RESULTS):
                raw = decode_line(line)
                if raw is not None and raw.get("record_type") == "event":
                    event = _convert_event(raw, upgrade_event)
                    if event is not None:
                        events.append(event)
            return events
        return events + (self._old_events or [])

    @cached_property
    def first_harness(self) -> bool:
        """Whether the first harness made the folder: by its config.json, else by its first telling line."""
        if self._has_own_config:
            return False
        with suppress(OSError, RunFolderError), open_file(self.path, RESULTS) as file:
            return self._tells_first_harness(file)
        return self._config_head is not None

    def _tells_first_harness(self, file: BinaryIO) -> bool:
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
        """The same records by up to `size` at a time, and at which byte each line begins."""
        self.n_unreadable_lines, self._old_events = 0, []
        try:
            with open_results(self.path) as file:
                # Not by the property: this file is open.
                self.first_harness = not self._has_own_config and self._tells_first_harness(file)
                file.seek(0)
                decode: Callable[[bytes], T | None] = msgspec.json.Decoder(self._record).decode
                decode = self._old_decoder() if self.first_harness else decode
                batch: list[T] = []
                offsets: list[int] = []
                offset = 0
                for line in disk.read_lines(file):
                    try:
                        if find_excess(line, RECORD_LIMITS) is not None:
                            raise msgspec.DecodeError("more in it than any record has")
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
            raise _unreadable(self.path / RESULTS, error) from error

    def _look_again(self, file: BinaryIO, line: bytes) -> T | None:
        """Tell blank, oversized, torn and bad lines apart; save what can be of a line that does not fit at once."""
        if not line.strip():
            return None
        ended = line.endswith(b"\n")
        if not ended and len(line) >= disk.LINE_CAP_BYTES:
            _skip_rest_of_line(file)
        elif not self.first_harness and (record := decode_again(line, self._record)) is not None:
            return record
        elif not ended and decode_line(line) is None:
            return None
        self.n_unreadable_lines += 1
        return None

    def _old_decoder(self) -> Callable[[bytes], T | None]:
        upgrade, events = Upgrade(self.path.resolve().name), list[Event]()
        self._old_events = events

        def decode(line: bytes) -> T | None:
            raw = decode_line(line) or {}
            if raw.get("record_type") == "event":
                event = _convert_event(raw, upgrade_event)
                if event is not None:
                    events.append(event)
                return None
            if (result := upgrade.result(raw)) is None:
                raise msgspec.DecodeError("not a result")
            return cast(T, result) if self._record is Result else _fit(msgspec.to_builtins(result), self._record)

        return decode

    def results_at(self, offsets: Iterable[int]) -> Iterator[tuple[int, Result]]:
        """The whole results whose lines begin at `offsets`, which a pass has told, each with its own, in file order."""
        wanted = sorted(set(offsets))
        if self.first_harness:
            # What an old record is the repeat of only those before it tell.
            places, whole = set(wanted), RunReader(self.path, Result)
            yield from ((at, result) for (result,), (at,) in whole.batches(1) if at in places)
            return
        decode = line_decoder(Result)
        with open_results(self.path) as file:
            for offset in wanted:
                file.seek(offset)
                # A line that somebody changed meanwhile is no longer what was asked for.
                if (result := decode(file.readline(disk.LINE_CAP_BYTES))) is not None:
                    yield offset, result


@overload
def iter_results(path: Path) -> RunReader[Result]: ...
@overload
def iter_results(path: Path, type: type[T]) -> RunReader[T]: ...
def iter_results(path: Path, type: type[msgspec.Struct] = Result) -> RunReader[Any]:
    """The results in run folder `path`, streamed, each as a `type`. Folders of the first harness are read as ours."""
    open_results(path).close()
    return RunReader(path, type)


def iter_superseded(path: Path, type: type[T]) -> Iterator[T]:
    """The lines that `--retry-errors` moved aside in run folder `path`, each as a `type`; others are passed over."""
    decode = line_decoder(type)
    with suppress(FileNotFoundError), open_file(path, disk.SUPERSEDED) as file:
        yield from (record for line in disk.read_lines(file) if (record := decode(line)) is not None)


def line_decoder(record: type[T], *, fitting: bool = False) -> Callable[[bytes], T | None]:
    """Reads one line as `iter_results` would, or None; with `fitting`, none of which a field had to be given up."""
    fast = msgspec.json.Decoder(record).decode

    def decode(line: bytes) -> T | None:
        if find_excess(line, RECORD_LIMITS) is not None:
            return None
        with suppress(*_REFUSALS):
            return fast(line)
        with suppress(msgspec.ValidationError):
            if fitting:  # only its text may be repaired
                msgspec.convert(decode_object(line), record)
            return decode_again(line, record)
        return None

    return decode


def decode_again(line: bytes, record: type[T]) -> T | None:
    """What msgspec refused at once, read the slow way; None where it is no record to anyone."""
    raw = decode_line(line) or {}
    with suppress(msgspec.ValidationError):
        msgspec.convert(raw, CellRow)
        return _fit(raw, record)
    return None


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
    try:
        return open_file(folder, RESULTS)
    except FileNotFoundError as error:
        raise RunFolderError(f"{folder} has no {RESULTS}; name the folder of a run.") from error
    except OSError as error:
        raise _unreadable(folder / RESULTS, error) from error


def _skip_rest_of_line(file: BinaryIO) -> None:
    while (piece := file.readline(disk.LINE_CAP_BYTES)) and not piece.endswith(b"\n"):
        # On to where there is data again: a terabyte of nothing in a sparse file takes no time to make.
        if hasattr(os, "SEEK_DATA"):
            here = file.tell()
            try:
                file.seek(os.lseek(file.fileno(), here, os.SEEK_DATA))
            except OSError as error:
                # Where no data follows there is nothing left to read; else the file system does not tell.
                file.seek(0, os.SEEK_END) if error.errno == errno.ENXIO else file.seek(here)


class CellKey(NamedTuple):
    provider: str
    model: str
    thinking_level: str | None
    suite: str
    prompt_id: str
    repeat: int


def cell_key(row: Result | CellRow) -> CellKey:
    # Many lines share few names: one copy of each keeps a large index small.
    provider, model, suite, prompt_id = map(intern, (row.provider, row.model, row.suite, row.prompt_id))
    return CellKey(provider, model, row.thinking_level, suite, prompt_id, row.repeat)


def index_cells(path: Path) -> dict[CellKey, Status]:
    """How every cell recorded in run folder `path` ended, by its last line. Unreadable lines fill no cell."""
    return {cell_key(line): line.availability_status for line in iter_results(path, CellRow)}


def locate_run(ref: str, runs_dir: Path, *, answered: bool = True, loads: bool = True) -> Path:
    """The folder of the run `ref`: `latest`, a run id under `runs_dir`, or a path to a run folder. `latest` is the
    newest run in which something was `answered`, unless there is none or that does not matter; one that only `loads` a
    server can be left out."""
    if ref == LATEST:
        runs = []
        for path in list_runs(runs_dir):
            found = [stat_file(path, name) for name in (CONFIG, RESULTS)]
            # What only looks like a run must not stand in front of those that are.
            if all(entry is None or stat.S_ISREG(entry.st_mode) for entry in found):
                if not answered or has_answer(path, loads=loads):
                    return path
                runs.append(path)
        if runs:
            return runs[0]
        raise RunFolderError(f"There is no run in {runs_dir}; make one with `clawgauge run`, or name its --runs-dir.")
    by_id, by_path = runs_dir / ref, Path(ref)
    # A ref with a path in it is never a run id, though `runs_dir / ref` may well exist.
    is_plain = by_path.name == ref and ref != ".."
    for candidate in (by_id, by_path) if is_plain else (by_path,):
        if ref and is_run_folder(candidate):
            return candidate
    looked_for = f"{by_id} and ./{by_path}" if is_plain else str(by_path)
    hint = f"{runs_dir} holds no run; check --runs-dir."
    if names := [path.name for path in list_runs(runs_dir)]:
        known = [LATEST, *names]
        containing = [name for name in known if ref and ref in name]
        near = containing or difflib.get_close_matches(ref, known, n=_MAX_SUGGESTIONS, cutoff=0.5)
        names = near or names
        shown = ", ".join([*names[:_MAX_SUGGESTIONS], *(["…"] if len(names) > _MAX_SUGGESTIONS else [])])
        hint = f"Did you mean {shown}?" if near else f"Runs in {runs_dir}: {shown}."
    raise RunFolderError(f"There is no run {ref!r}: looked for {looked_for}. {hint}")


def has_answer(path: Path, *, loads: bool) -> bool:
    """Whether one of the first calls on record was answered: of a run that was dead, none is."""
    try:
        with open_file(path, RESULTS) as file:
            head = file.read(_LOOKED_AT_BYTES)
            return _ANSWERED.search(head) is not None and (loads or _LOAD.search(head) is None)
    except (OSError, RunFolderError):
        return False


def list_runs(runs_dir: Path) -> list[Path]:
    """Every run folder in `runs_dir`, the most recently started first; anything else there is passed over."""
    try:
        found = [path for path in runs_dir.iterdir() if not path.name.startswith(".") and is_run_folder(path)]
    except OSError:
        return []
    runs = [path for path in found if not is_barren(path)]
    return sorted(runs, key=lambda path: (started_at_ms(path), path.name), reverse=True)


def is_run_folder(path: Path) -> bool:
    """A folder with a config.json or a results.jsonl in it, whatever these are."""
    try:
        return path.is_dir() and (stat_file(path, CONFIG) is not None or stat_file(path, RESULTS) is not None)
    except OSError:
        return False
