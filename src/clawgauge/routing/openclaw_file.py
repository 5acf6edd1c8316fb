"""An openclaw.json that is there already: read as JSON5, patched without losing what it says, written with a backup.

Owns: merging (objects recursively, lists of models by id, denials added up, a provider's own settings left alone, other
lists and values by replacement), and putting the file back at one stroke. Refuses: writing what it could not read,
writing over a backup, and giving back a tool that the user has denied.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import json5

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.routing.openclaw_names import as_openclaw_reads
from clawgauge.small_file import UnfitFile, read_small_file

_SIZE_CAP_BYTES = 8 << 20
# Half a surrogate pair, which the user's own file may hold as an escape, can be written as nothing else.
_HALF = re.compile("[\ud800-\udfff]")
# How a provider is reached is the user's to say, where they have said it.
_OWN_SETTINGS = ("baseUrl", "apiKey", "api")


def read_openclaw(path: Path) -> dict[str, Any]:
    """The configuration in `path`. JSON5, as OpenClaw itself reads it: comments, trailing commas, bare keys."""
    try:
        raw = read_small_file(path, _SIZE_CAP_BYTES, "it is over 8 MiB; that is no openclaw.json")
    except UnfitFile as unfit:
        raise ConfigError(f"cannot read {path}: {unfit}") from None
    try:
        text = raw.decode("utf-8-sig")
        found = _parse(text)
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"{path} is not JSON5: {fault}") from fault
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not hold an object; that is no openclaw.json")
    return found


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # Slow, but right: only files with comments and the like come this far.
        return json5.loads(text, allow_duplicate_keys=False)


def merge_patch(config: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """`config` with `patch` in it; neither is changed. A list of models keeps the models the patch does not name."""
    merged = dict(config)
    for key, value in patch.items():
        there = merged.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            merged[key] = merge_patch(there, value)
        elif key == "models" and isinstance(there, list) and isinstance(value, list):
            merged[key] = _merge_models(there, value)
        elif key == "deny" and isinstance(there, list) and isinstance(value, list):
            merged[key] = _merge_denials(there, value)
        elif key in _OWN_SETTINGS and there is not None:
            continue
        elif isinstance(there, str) and isinstance(value, dict) and set(value) <= {"primary", "fallbacks"}:
            # `model: "a/b"` is short for an object with that primary.
            merged[key] = merge_patch({"primary": there}, value)
        else:
            merged[key] = value
    return merged


def find_conflicts(config: dict[str, Any], patch: dict[str, Any]) -> list[str]:
    """Where the file and the evidence do not go together, for the person to decide: each as a sentence."""
    found = []
    for provider_id, wanted in _at(patch, "models", "providers").items():
        there = _at(config, "models", "providers", provider_id).get("baseUrl")
        if there is not None and there != wanted.get("baseUrl"):
            found.append(
                f"{provider_id} is at {there} in the file and was measured at {wanted.get('baseUrl')}: left as it is"
            )
    for place in (("agents", "defaults", "model"), ("agents", "defaults", "subagents", "model")):
        primary = _at(patch, *place).get("primary")
        denied = _at(config, "tools", "byProvider", as_openclaw_reads(str(primary))).get("deny")
        if denied:
            shown = ", ".join(map(str, denied)) if isinstance(denied, list) else str(denied)
            found.append(f"{primary} becomes {'.'.join(place)}, and the file denies it tools ({shown}): left as it is")
    return found


def _at(config: dict[str, Any], *path: str) -> dict[str, Any]:
    """The object at a path; an empty one where there is none."""
    place: Any = config
    for key in path:
        place = place.get(key) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else {}


def _merge_denials(there: list[Any], wanted: list[Any]) -> list[Any]:
    """All that either denies; `*` says the rest by itself."""
    if "*" in there:
        return there
    return list(wanted) if "*" in wanted else [*there, *(tool for tool in wanted if tool not in there)]


def _merge_models(there: list[Any], wanted: list[Any]) -> list[Any]:
    patches = {model["id"]: model for model in wanted}
    kept: list[Any] = []
    for model in there:
        patch = patches.pop(model.get("id"), None) if isinstance(model, dict) else None
        if patch is None:
            kept.append(model)
        else:
            # The name is the user's own word for a model they already have.
            kept.append(merge_patch(model, {key: value for key, value in patch.items() if key != "name"}))
    return [*kept, *patches.values()]


def write_openclaw(path: Path, config: dict[str, Any]) -> Path | None:
    """Put `config` into `path` at one stroke. Returns where what was there is kept, None if nothing was there."""
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    path = path.resolve()  # a link stays a link; what it points at is replaced
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        backup = _back_up(path)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(_HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as fault:
        fresh.unlink(missing_ok=True)
        raise DiskFailure(f"cannot write {path} ({fault.strerror}); it is as it was") from fault
    return backup


def _back_up(path: Path) -> Path | None:
    """A copy of `path` under the first free name."""
    if not path.exists():
        return None
    content, mode = path.read_bytes(), path.stat().st_mode & 0o777
    number = 0
    while True:
        backup = path.with_name(f"{path.name}.bak" + (f".{number}" if number else ""))
        try:
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return backup
