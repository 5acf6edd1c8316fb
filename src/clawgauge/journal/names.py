"""The names of runs, and of the files that a run keeps of each target."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

from clawgauge.errors import RunFolderError
from clawgauge.records import Target

LATEST = "latest"
"""The word that stands for the most recent run on the command line, so no run may bear it."""

MAX_RUN_ID_CHARS = 120
_MAX_NAME_BYTES = 240
_SHOWN_CHARS_OF_A_LONG_ID = 40
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
# Windows takes the raised digits for the plain ones.
_DOS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{n}" for port in ("com", "lpt") for n in "123456789\u00b9\u00b2\u00b3"}
)
# Control, format (bidi marks among them), surrogate, line and paragraph separator: a name with one
# of these is none that a person can read back.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

MAX_TAG_CHARS = 120
_HASH_CHARS = 16
# A plain tag can be read back in one way only: the model has no '_', so the last '_' ends the
# provider; '@' and '~' are in neither; and there are no capitals, so file systems that ignore case
# tell plain tags apart.
_PLAIN_TARGET = re.compile(r'\["[a-z0-9][a-z0-9_.-]*", "[a-z0-9.-]+", (?:null|"[a-z]+")\]')
_UNSAFE_IN_A_TAG = re.compile(r"[^a-z0-9_.@-]+")


def check_run_id(run_id: str) -> None:
    """Raise `RunFolderError` for a run id that is not one plain, portable folder name."""
    fault = _find_fault(run_id)
    if fault is None:
        return
    shown_id = run_id
    if len(run_id) > MAX_RUN_ID_CHARS:
        shown_id = run_id[:_SHOWN_CHARS_OF_A_LONG_ID] + "…"
    raise RunFolderError(f"The run id {shown_id!r} {fault}; use letters, digits, '_', '-' and '.'.")


def _find_fault(run_id: str) -> str | None:
    """What is wrong with a run id; None where nothing is."""
    if not run_id:
        return "is empty"
    if any(unicodedata.category(character) in _UNPRINTABLE for character in run_id):
        return "has a control or invisible character in it"
    if "/" in run_id or "\\" in run_id:
        return "has a path separator in it"
    if run_id.startswith("."):
        return "starts with a dot"
    if run_id != run_id.strip() or run_id.endswith("."):
        return "starts or ends with a space or a dot"
    if not _WINDOWS_CHARACTERS.isdisjoint(run_id):
        return 'has one of < > : " | ? * in it'
    if run_id.partition(".")[0].rstrip().lower() in _DOS_DEVICES:
        return "is a device name on Windows"
    if len(run_id.encode("utf-8", "replace")) > _MAX_NAME_BYTES:
        return f"is longer than {_MAX_NAME_BYTES} bytes"
    if len(run_id) > MAX_RUN_ID_CHARS:
        return f"is longer than {MAX_RUN_ID_CHARS} characters"
    if run_id.startswith("-"):
        return "starts with a dash"
    if run_id.lower() == LATEST:
        return "is the word for the most recent run"
    return None


def resource_tag(target: Target) -> str:
    """What stands for a target in the name of a file.

    The target's name where that is unmistakable; otherwise a readable likeness, `~` and a hash of
    the target.
    """
    name = f"{target.provider}_{target.model}"
    if target.thinking_level is not None:
        name += f"@{target.thinking_level}"
    identity = json.dumps([target.provider, target.model, target.thinking_level])
    if _PLAIN_TARGET.fullmatch(identity) and len(name) <= MAX_TAG_CHARS:
        return name
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARS]
    likeness = _UNSAFE_IN_A_TAG.sub("-", name.lower()).lstrip(".@-")
    return f"{likeness[: MAX_TAG_CHARS - _HASH_CHARS - 1]}~{digest}"
