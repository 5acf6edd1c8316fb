"""What things in a run folder are called, which names are refused, and a file-safe name for a target."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from datetime import datetime

from clawgauge.errors import RunFolderError
from clawgauge.records import Target

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
MAX_TAG_CHARS = 120
_HASH_CHARS = 16
# A plain tag can be read back in one way only: the model has no '_', so the last '_' ends the provider; '@' and '~' are
# in neither; and there are no capitals, so file systems that ignore case tell plain tags apart.
_PLAIN_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_PLAIN_MODEL = re.compile(r"[a-z0-9.-]+")
_PLAIN_LEVEL = re.compile(r"[a-z]+")
_UNSAFE_RUN = re.compile(r"[^a-z0-9_.@-]+")


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


def resource_tag(target: Target) -> str:
    """The target's name where that is unmistakable, otherwise a readable likeness, `~` and a hash of the target."""
    level = "" if target.thinking_level is None else f"@{target.thinking_level}"
    name = f"{target.provider}_{target.model}{level}"
    if _is_plain(target) and len(name) <= MAX_TAG_CHARS:
        return name
    identity = json.dumps([target.provider, target.model, target.thinking_level])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARS]
    likeness = _UNSAFE_RUN.sub("-", name.lower()).lstrip(".@-")[: MAX_TAG_CHARS - _HASH_CHARS - 1]
    return f"{likeness}~{digest}"


def _is_plain(target: Target) -> bool:
    return (
        _PLAIN_PROVIDER.fullmatch(target.provider) is not None
        and _PLAIN_MODEL.fullmatch(target.model) is not None
        and (target.thinking_level is None or _PLAIN_LEVEL.fullmatch(target.thinking_level) is not None)
    )
