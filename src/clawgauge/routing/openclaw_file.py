"""An openclaw.json that is there already: read, patched, held against the evidence, and written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyjson5

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.json_limits import SETTINGS_LIMITS, find_excess
from clawgauge.secrets import mask_shapes
from clawgauge.small_file import UnfitFile, read_small_file, replacing

MAX_LEVELS = 100  # of a configuration: nobody writes a tenth of it
_MAX_BYTES = 8 << 20
_LIMITS = SETTINGS_LIMITS._replace(depth=None)  # its decoder counts the levels
# `$${NAME}` stands for `${NAME}`.
_ESCAPED_REFERENCE = re.compile(r"\$(?=\$\{[A-Z_][A-Z0-9_]*\})")
# Half a surrogate pair, which the user's own file may hold as an escape, can be written as nothing
# else.
_HALF_PAIR = re.compile("[\ud800-\udfff]")
# How a provider is reached is the user's to say, where they have said it.
_OWN_SETTINGS = ("baseUrl", "apiKey", "api")


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


def merge_patch(config: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """`config` with `patch` in it; neither is changed. A list of models keeps the models the patch
    does not name."""
    merged = dict(config)
    for key, value in patch.items():
        present: Any = merged.get(key)
        are_lists = isinstance(present, list) and isinstance(value, list)
        if isinstance(present, dict) and isinstance(value, dict):
            merged[key] = merge_patch(present, value)
        elif key == "models" and are_lists:
            merged[key] = _merge_models(present, value)
        elif key == "deny" and are_lists:
            merged[key] = _merge_denials(present, value)
        elif key in _OWN_SETTINGS and present is not None:
            continue
        elif isinstance(present, str) and _is_model_chain(value):
            # `model: "a/b"` is short for an object with that primary.
            merged[key] = merge_patch({"primary": present}, value)
        else:
            merged[key] = value
    return merged


def _is_model_chain(value: Any) -> bool:
    return isinstance(value, dict) and set(value) <= {"primary", "fallbacks"}


def _merge_denials(present: list[Any], patch: list[Any]) -> list[Any]:
    """All that either denies; `*` says the rest by itself."""
    if "*" in present:
        return present
    if "*" in patch:
        return list(patch)
    return [*present, *(tool for tool in patch if tool not in present)]


def _merge_models(present: list[Any], patch: list[Any]) -> list[Any]:
    patches = {model["id"]: model for model in patch}
    merged = []
    for model in present:
        own_patch = patches.pop(model.get("id"), {}) if isinstance(model, dict) else {}
        # The name is the user's own word for a model they already have.
        settings = {key: value for key, value in own_patch.items() if key != "name"}
        merged.append(merge_patch(model, settings) if settings else model)
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


def _back_up(path: Path) -> Path | None:
    """A copy of `path` under the first free name."""
    if not path.exists():
        return None
    content = path.read_bytes()
    mode = path.stat().st_mode & 0o777
    for number in count():
        suffix = f".{number}" if number else ""
        backup = path.with_name(f"{path.name}.bak{suffix}")
        with suppress(FileExistsError):
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            break
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return backup
