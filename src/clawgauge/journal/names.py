"""What things in a run folder are called, and which names are refused.

Owns: the file names of a run folder, the default run id, the rules a run id or file name must meet. Refuses: touching
the disk; a name is judged before anything is made.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime

from clawgauge.errors import RunFolderError

CONFIG = "config.json"
INVENTORY = "inventory.json"
RESULTS = "results.jsonl"
SUMMARY = "summary.json"
EVENTS = "events.jsonl"
SUPERSEDED = "superseded.jsonl"
TORN = "results.torn"
LOCK = ".lock"

RECORDS = frozenset({CONFIG, INVENTORY, RESULTS, SUMMARY, EVENTS, SUPERSEDED, TORN, LOCK})

LATEST = "latest"
"""The word that stands for the most recent run on the command line, so no run may bear it."""

MAX_RUN_ID_CHARS = 120
_MAX_NAME_BYTES = 240
_LINE_FILES = frozenset({RESULTS, EVENTS, SUPERSEDED, TORN})
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
_WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{digit}" for port in ("com", "lpt") for digit in range(1, 10)}
)
# Control, format (bidi marks among them), surrogate, line and paragraph separator: a name a person cannot read back.
_UNPRINTABLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def default_run_id(now: datetime | None = None) -> str:
    """Local time as `YYYYMMDD_HHMMSS`."""
    return (datetime.now() if now is None else now.astimezone()).strftime("%Y%m%d_%H%M%S")


def check_run_id(run_id: str) -> None:
    """Raise `RunFolderError` for a run id that is not one plain, portable folder name."""
    fault = _name_fault(run_id)
    if fault is None and len(run_id) > MAX_RUN_ID_CHARS:
        fault = f"is longer than {MAX_RUN_ID_CHARS} characters"
    if fault is None and run_id.startswith("-"):
        fault = "starts with a dash"
    if fault is None and run_id.lower() == LATEST:
        fault = "is the word for the most recent run"
    if fault is not None:
        shown = run_id if len(run_id) <= MAX_RUN_ID_CHARS else run_id[:40] + "…"
        raise RunFolderError(f"The run id {shown!r} {fault}; use letters, digits, '_', '-' and '.'.")


def check_file_name(name: str) -> None:
    """Raise `RunFolderError` for a name that is not one plain file, or is a file kept line by line."""
    fault = _name_fault(name)
    if fault is None and name in _LINE_FILES:
        fault = "is kept line by line and never replaced whole"
    if fault is not None:
        raise RunFolderError(f"The file name {name[:200]!r} {fault}; nothing was written.")


def _name_fault(name: str) -> str | None:
    if not name:
        return "is empty"
    if any(unicodedata.category(character) in _UNPRINTABLE_CATEGORIES for character in name):
        return "has a control or invisible character in it"
    if "/" in name or "\\" in name:
        return "has a path separator in it"
    if name.startswith("."):
        return "starts with a dot"
    if name != name.strip() or name.endswith("."):
        return "starts or ends with a space or a dot"
    if not _WINDOWS_CHARACTERS.isdisjoint(name):
        return 'has one of < > : " | ? * in it'
    if name.partition(".")[0].rstrip().lower() in _WINDOWS_DEVICES:
        return "is a device name on Windows"
    if len(name.encode()) > _MAX_NAME_BYTES:
        return f"is longer than {_MAX_NAME_BYTES} bytes"
    return None
