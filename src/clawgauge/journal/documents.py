"""The whole-file documents of a run folder, and its events, read back.

Owns: config.json, inventory.json, summary.json and events.jsonl, for reading, with no lock. Refuses: writing, and
guessing at a document of another shape: such a one is None here, and config.json can still be had raw.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from clawgauge.errors import RunFolderError
from clawgauge.journal.directory import open_file, read_file
from clawgauge.journal.disk import read_lines
from clawgauge.journal.first_harness import is_first_harness_config, upgrade_event
from clawgauge.journal.lines import decode_line, decode_object
from clawgauge.journal.names import CONFIG, EVENTS, INVENTORY, RESULTS, SUMMARY
from clawgauge.records import SCHEMA_VERSION, Event, Inventory, RunConfig, RunSummary

T = TypeVar("T", bound=msgspec.Struct)

# Far beyond what a run writes: config.json holds whole suites, events.jsonl a line per retry.
CAP_BYTES = {CONFIG: 256 << 20, INVENTORY: 32 << 20, SUMMARY: 64 << 20, EVENTS: 1 << 30}


def read_config(path: Path) -> RunConfig | None:
    """config.json of the run folder `path`; None where there is none, or where the first harness made it."""
    return _read_document(path, CONFIG, RunConfig)


def read_raw_config(path: Path) -> dict[str, Any] | None:
    """config.json as it stands, whoever made it; None where there is none."""
    return _read_object(path, CONFIG)


def read_inventory(path: Path) -> Inventory | None:
    """inventory.json; None where there is none, or where it has another shape."""
    return _read_document(path, INVENTORY, Inventory)


def read_summary(path: Path) -> RunSummary | None:
    """summary.json; None where there is none, or where it has another shape."""
    return _read_document(path, SUMMARY, RunSummary)


def read_events(path: Path) -> list[Event]:
    """events.jsonl, in order. A line that is no event is passed over: events explain a run, they do not count in it.

    The first harness wrote its events among the results; they are found there.
    """
    raw_config = read_raw_config(path)
    events = [_as_event(raw) for raw in _read_objects(path, EVENTS)]
    if raw_config is None or is_first_harness_config(raw_config):
        events += [_as_old_event(raw) for raw in _read_objects(path, RESULTS) if raw.get("record_type") == "event"]
    return [event for event in events if event is not None]


def _as_event(raw: dict[str, Any]) -> Event | None:
    try:
        return msgspec.convert(raw, Event) if _has_plain_numbers(raw) else None
    except msgspec.ValidationError:
        return None


def _as_old_event(raw: dict[str, Any]) -> Event | None:
    try:
        return upgrade_event(raw) if _has_plain_numbers(raw) else None
    except RecursionError:
        return None


def _read_document(folder: Path, name: str, document: type[T]) -> T | None:
    path = folder / name
    raw = _read_object(folder, name)
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
