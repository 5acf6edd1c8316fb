"""An openclaw.json that is there already: read, patched, held against the evidence, and written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyjson5

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.json_limits import SETTINGS_LIMITS, find_excess
from clawgauge.routing.openclaw_keys import is_marker_useless
from clawgauge.secrets import mask_shapes
from clawgauge.small_file import UnfitFile, read_small_file, replacing
from clawgauge.words import list_names

_BACKUP_SUFFIX = ".bak"
_UNDONE_SUFFIX = ".undone"
MAX_LEVELS = 100  # of a configuration: nobody writes a tenth of it
_MAX_BYTES = 8 << 20
_LIMITS = SETTINGS_LIMITS._replace(depth=None)  # its decoder counts the levels
# `$${NAME}` stands for `${NAME}`.
_ESCAPED_REFERENCE = re.compile(r"\$(?=\$\{[A-Z_][A-Z0-9_]*\})")
# Half a surrogate pair, which the user's own file may hold as an escape, can be written as nothing
# else.
_HALF_PAIR = re.compile("[\ud800-\udfff]")
# How a provider is reached is the user's to say, where they have said it.
_OWN_SETTINGS = (
    "baseUrl",
    "apiKey",
    "api",
    "temperature",
    "keep_alive",
    "num_ctx",
    "injectNumCtxForOpenAICompat",
)
_OWN_OBJECTS = ("cost", "extra_body", "chat_template_kwargs")
_OWN_LISTS = ("supportedReasoningEfforts",)
# A longer time limit changes no answer; the others have sentences of their own.
_TOLD_ELSEWHERE = ("baseUrl", "apiKey", "api", "name", "id", "timeoutSeconds")
_LIMITS_NEVER_LOWERED = ("timeoutSeconds", "contextWindow", "contextTokens", "maxTokens")
# What an agent's own entry sets in the place of the defaults, as it is written in both.
_AGENT_SETTINGS = (
    ("model",),
    ("utilityModel",),
    ("subagents", "model"),
    ("subagents", "thinking"),
    ("heartbeat", "model"),
    ("compaction", "model"),
    ("compaction", "memoryFlush", "model"),
)
_MAX_OVERRULING = 5


def as_openclaw_reads(text: str) -> str:
    """The name that an escaped text stands for."""
    return _ESCAPED_REFERENCE.sub("", text)


def read_openclaw(path: Path) -> dict[str, Any]:
    """The configuration in `path`. JSON5, as OpenClaw itself reads it: comments, trailing commas,
    bare keys.

    Raises `ConfigError` for a file that cannot be read, is too large, or is no openclaw.json.
    """
    try:
        data = read_small_file(path, _MAX_BYTES, "it is over 8 MiB; that is no openclaw.json")
        excess = find_excess(data, _LIMITS, "json5")
        if excess is not None:
            raise ConfigError(f"{path} holds {excess}; that is no openclaw.json")
        config = pyjson5.decode(data.decode("utf-8-sig"), MAX_LEVELS)
    except UnfitFile as unfit:
        raise ConfigError(f"cannot read {path}: {unfit}") from None
    except pyjson5.Json5NestingTooDeep:
        raise ConfigError(f"{path} is nested more than {MAX_LEVELS} levels deep") from None
    except (pyjson5.Json5DecoderException, UnicodeDecodeError) as fault:
        # Of a pyjson5 fault the first of three arguments is its message.
        problem = fault.args[0] if len(fault.args) == 3 else fault
        raise ConfigError(f"{path} is not JSON5: {problem}") from fault
    if not isinstance(config, dict):
        raise ConfigError(f"{path} does not hold an object; that is no openclaw.json")
    return config


def merge_patch(
    config: dict[str, Any], patch: dict[str, Any], path: tuple[str, ...] = ()
) -> dict[str, Any]:
    """`config` with `patch` in it; neither is changed. A list of models keeps the models the patch
    does not name; what is the user's to say stays, and no limit gets lower.

    Raises `ConfigError` where `config` has something else than OpenClaw has at a place, which the
    patch would put away.
    """
    merged = dict(config)
    for key, value in patch.items():
        here = (*path, key)
        present: Any = merged.get(key)
        if present is None:
            merged[key] = value
        elif isinstance(present, str) and _is_model_chain(value):
            # `model: "a/b"` is short for an object with that primary.
            merged[key] = merge_patch({"primary": present}, value, here)
        elif isinstance(value, dict):
            if not isinstance(present, dict) and present != []:
                raise ConfigError(_misshapen(here, present, "an object"))
            merged[key] = merge_patch(present or {}, value, here)
        elif isinstance(value, list):
            if not isinstance(present, list) and present != {}:
                raise ConfigError(_misshapen(here, present, "a list"))
            merged[key] = _merge_lists(present or [], value, here)
        else:
            merged[key] = _merge_values(present, value, here, config)
    return merged


def _misshapen(path: Sequence[str], present: Any, wanted: str) -> str:
    kind = "an object" if isinstance(present, dict) else "a list"
    if not isinstance(present, dict | list):
        kind = "a single value"
    place = ".".join(path)
    return (
        f"the file has {kind} at {place} where OpenClaw has {wanted}: nothing was changed; "
        "`openclaw doctor` says how to mend it"
    )


def _merge_lists(present: list[Any], patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    if path[-1] == "models":
        return _merge_models(present, patch, path)
    if path[-1] == "deny":
        return _merge_denials(present, patch)
    if path[-1] in _OWN_LISTS:
        return [*present, *(item for item in patch if item not in present)]
    return patch


def _merge_values(
    present: Any, patch: Any, path: tuple[str, ...], beside: Mapping[str, Any]
) -> Any:
    """One value: the user's own where it is theirs to say, and the higher one of two limits."""
    key = path[-1]
    if key == "apiKey" and is_marker_useless(beside):
        return patch
    is_own = key in _OWN_SETTINGS or path[-2:] == ("subagents", "thinking")
    is_inside_own = any(part in _OWN_OBJECTS for part in path[:-1])
    # An empty name of a model switches off what it would be for.
    if is_own or is_inside_own or present == "":
        return present
    are_numbers = _is_number(present) and _is_number(patch)
    if key in _LIMITS_NEVER_LOWERED and are_numbers:
        return max(present, patch)
    return patch


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_model_chain(value: Any) -> bool:
    return isinstance(value, dict) and set(value) <= {"primary", "fallbacks"}


def _merge_denials(present: list[Any], patch: list[Any]) -> list[Any]:
    """All that either denies; `*` says the rest by itself."""
    if "*" in present:
        return present
    if "*" in patch:
        return list(patch)
    return [*present, *(tool for tool in patch if tool not in present)]


def _merge_models(present: list[Any], patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    patches = {model["id"]: model for model in patch}
    merged = []
    for model in present:
        own_patch = patches.pop(model.get("id"), {}) if isinstance(model, dict) else {}
        # The name is the user's own word for a model they already have.
        settings = {key: value for key, value in own_patch.items() if key != "name"}
        merged.append(merge_patch(model, settings, path) if settings else model)
    return [*merged, *patches.values()]


def find_conflicts(config: dict[str, Any], patch: dict[str, Any]) -> list[str]:
    """Where the file and the evidence do not go together, for the person to decide: each as a
    sentence."""
    conflicts = []
    for provider_id, provider in object_at(patch, "models", "providers").items():
        address = object_at(config, "models", "providers", provider_id).get("baseUrl")
        measured = provider.get("baseUrl")
        if address is not None and address != measured:
            masked = mask_shapes(str(address))
            where = f"{provider_id} is at {masked} in the file and was measured at {measured}"
            conflicts.append(f"{where}: left as it is")
    for path in (("agents", "defaults", "model"), ("agents", "defaults", "subagents", "model")):
        primary = object_at(patch, *path).get("primary")
        name = as_openclaw_reads(str(primary))
        denied = object_at(config, "tools", "byProvider", name).get("deny")
        if denied:
            tools = ", ".join(map(str, denied)) if isinstance(denied, list) else str(denied)
            place = f"{primary} becomes {'.'.join(path)}"
            conflicts.append(f"{place}, and the file denies it tools ({tools}): left as it is")
    return conflicts


def find_kept(
    config: Mapping[str, Any], patch: Mapping[str, Any], merged: Mapping[str, Any]
) -> list[str]:
    """Which settings of the file stay although others were measured, each as a sentence. Values of
    the file are not repeated: they may be anything."""
    kept = []
    for path, value in _leaves(patch):
        if path[-1] in _TOLD_ELSEWHERE:
            continue
        stands = _value_at(merged, path)
        if stands != value and _is_plain(stands):
            place = ".".join(path)
            kept.append(
                f"{place} is {value} by what was measured: the file says otherwise, and stays"
            )
    return kept


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every plain value of a patch with its path; a model of a list goes by its id."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(value, list) and path[-1] == "models":
        for model in value:
            yield from _leaves(model, (*path, str(model["id"])))
    elif not isinstance(value, list):
        yield path, value


def _value_at(config: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = config
    for key in path:
        if isinstance(value, list):
            value = next(
                (item for item in value if isinstance(item, dict) and item.get("id") == key), None
            )
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def find_overruling(config: Mapping[str, Any]) -> list[str]:
    """Where an agent's own entry goes before what is set for all, each as a sentence."""
    notes = []
    for name, entry in _agent_entries(config):
        settings = []
        for path in _AGENT_SETTINGS:
            *parents, key = path
            if object_at(entry, *parents).get(key) is not None:
                settings.append(".".join(path))
        if object_at(entry, "models"):
            settings.append("models")
        if settings:
            own = list_names(settings, len(settings))
            notes.append(f"{name} has {own} of its own, which goes before what is set for all")
    if len(notes) > _MAX_OVERRULING:
        others = len(notes) - _MAX_OVERRULING
        notes[_MAX_OVERRULING:] = [f"and so do {others} more agents"]
    return notes


def _agent_entries(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of agents, by name, or in a list as in earlier releases."""
    for name, entry in object_at(config, "agents", "entries").items():
        if isinstance(entry, dict):
            yield f"agents.entries.{name}", entry
    entries = object_at(config, "agents").get("list")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield f"agents.list {entry.get('id')}", entry


def object_at(config: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """The object at a path of a configuration; an empty one where there is none."""
    value: Any = config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def write_openclaw(path: Path, config: dict[str, Any]) -> Path | None:
    """Put `config` into `path` at one stroke. Returns where what was there is kept, None if nothing
    was there.

    Raises `DiskFailure` where it cannot be written; then the file is as it was.
    """
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    escaped = _HALF_PAIR.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    path = path.resolve()  # a link stays a link; what it points at is replaced
    try:
        backup = _back_up(path)
        with replacing(path, 0o600) as file:
            file.write(escaped.encode())
    except OSError as fault:
        raise DiskFailure(f"cannot write {path} ({fault.strerror}); it is as it was") from fault
    return backup


class Undone(NamedTuple):
    """What a write was undone with."""

    backup: Path
    replaced: Path
    """Where what was there until then is kept."""


def undo_write(path: Path) -> Undone:
    """Put the youngest backup of `path` back, at one stroke; what is there now is kept beside it.

    Raises `ConfigError` where there is no backup, `DiskFailure` where it cannot be put back; then
    all is as it was.
    """
    path = path.resolve()
    backup = _find_last_backup(path)
    if backup is None:
        raise ConfigError(f"there is no backup of {path} ({path.name}.bak): nothing to put back")
    try:
        content = read_small_file(backup, _MAX_BYTES, "it is over 8 MiB; that is no openclaw.json")
        replaced = _back_up(path, _UNDONE_SUFFIX)
        with replacing(path, 0o600) as file:
            file.write(content)
        backup.unlink()
    except UnfitFile as unfit:
        raise ConfigError(f"cannot read {backup}: {unfit}") from None
    except OSError as fault:
        raise DiskFailure(f"cannot write {path} ({fault.strerror}); it is as it was") from fault
    return Undone(backup, replaced or path)


def _find_last_backup(path: Path) -> Path | None:
    """The backup with the highest number: each write takes the first free one."""
    last = None
    for number in count():
        backup = _numbered(path, _BACKUP_SUFFIX, number)
        if not backup.is_file():
            return last
        last = backup
    return last


def _numbered(path: Path, suffix: str, number: int) -> Path:
    ending = f".{number}" if number else ""
    return path.with_name(f"{path.name}{suffix}{ending}")


def _back_up(path: Path, suffix: str = _BACKUP_SUFFIX) -> Path | None:
    """A copy of `path` under the first free name."""
    if not path.exists():
        return None
    content = path.read_bytes()
    mode = path.stat().st_mode & 0o777
    for number in count():
        backup = _numbered(path, suffix, number)
        with suppress(FileExistsError):
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            break
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return backup
