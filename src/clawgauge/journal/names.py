"""What things in a run folder are called, which names are refused, and a file-safe name for a target."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

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
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
_WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{digit}" for port in ("com", "lpt") for digit in range(1, 10)}
)
# Control, format (bidi marks among them), surrogate, line and paragraph separator: a name a person cannot read back.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
MAX_TAG_CHARS = 120
_HASH_CHARS = 16
# A plain tag can be read back in one way only: the model has no '_', so the last '_' ends the provider; '@' and '~' are
# in neither; and there are no capitals, so file systems that ignore case tell plain tags apart.
_PLAIN_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_PLAIN_MODEL = re.compile(r"[a-z0-9.-]+")
_PLAIN_LEVEL = re.compile(r"[a-z]+")
_UNSAFE_RUN = re.compile(r"[^a-z0-9_.@-]+")


def check_run_id(run_id: str) -> None:
    """Raise `RunFolderError` for a run id that is not one plain, portable folder name."""
    faults = {
        "is empty": not run_id,
        "has a control or invisible character in it": any(unicodedata.category(one) in _UNPRINTABLE for one in run_id),
        "has a path separator in it": "/" in run_id or "\\" in run_id,
        "starts with a dot": run_id.startswith("."),
        "starts or ends with a space or a dot": run_id != run_id.strip() or run_id.endswith("."),
        'has one of < > : " | ? * in it': not _WINDOWS_CHARACTERS.isdisjoint(run_id),
        "is a device name on Windows": run_id.partition(".")[0].rstrip().lower() in _WINDOWS_DEVICES,
        f"is longer than {_MAX_NAME_BYTES} bytes": len(run_id.encode("utf-8", "replace")) > _MAX_NAME_BYTES,
        f"is longer than {MAX_RUN_ID_CHARS} characters": len(run_id) > MAX_RUN_ID_CHARS,
        "starts with a dash": run_id.startswith("-"),
        "is the word for the most recent run": run_id.lower() == LATEST,
    }
    if (fault := next((words for words, holds in faults.items() if holds), None)) is not None:
        shown = run_id if len(run_id) <= MAX_RUN_ID_CHARS else run_id[:40] + "…"
        raise RunFolderError(f"The run id {shown!r} {fault}; use letters, digits, '_', '-' and '.'.")


def resource_tag(target: Target) -> str:
    """The target's name where that is unmistakable, otherwise a readable likeness, `~` and a hash of the target."""
    level = "" if target.thinking_level is None else f"@{target.thinking_level}"
    name = f"{target.provider}_{target.model}{level}"
    is_plain = (
        _PLAIN_PROVIDER.fullmatch(target.provider)
        and _PLAIN_MODEL.fullmatch(target.model)
        and (target.thinking_level is None or _PLAIN_LEVEL.fullmatch(target.thinking_level))
    )
    if is_plain and len(name) <= MAX_TAG_CHARS:
        return name
    identity = json.dumps([target.provider, target.model, target.thinking_level])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARS]
    likeness = _UNSAFE_RUN.sub("-", name.lower()).lstrip(".@-")[: MAX_TAG_CHARS - _HASH_CHARS - 1]
    return f"{likeness}~{digest}"
