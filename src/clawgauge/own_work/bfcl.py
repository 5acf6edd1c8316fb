"""Suites of the Berkeley Function-Calling Leaderboard, out of its own package `bfcl-eval` (Apache-2.0)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

from clawgauge.checks import check_offer, check_spec
from clawgauge.checks.tool_call import is_listed
from clawgauge.checks.tool_schema import find_misfit
from clawgauge.child_processes import isolated_module
from clawgauge.environment import with_proxies
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.json_limits import find_excess
from clawgauge.small_file import replacing
from clawgauge.words import plural

_NAMES = ["simple", "multiple", "parallel", "parallel_multiple", "irrelevance"]
CATEGORIES = [*_NAMES, *(f"live_{name}" for name in _NAMES), "live_relevance"]
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_MAX_FORMS, _MAX_BYTES, _FETCH_TIMEOUT_S = 1_000, 64 << 20, 600
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What a package that is no such package, or means harm, comes to when it is read.
_UNUSABLE: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    RuntimeError,
    LookupError,
    TypeError,
    ValueError,
)
_UNUSABLE += (AttributeError, zipfile.BadZipFile, zlib.error)


def write_suites(categories: Sequence[str], folder: Path, package: Path | None) -> Iterator[str]:
    """Write a suite for each category into the folder, and tell of each: how many cases, and which were left out."""
    if unknown := [name for name in categories if name not in CATEGORIES]:
        raise ConfigError(f"no category is called {unknown[0]!r}: they are {', '.join(CATEGORIES)}")
    with tempfile.TemporaryDirectory() as scratch:
        if package is None:
            words = isolated_module(
                "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", scratch
            )
            # What pip may need to reach its index: all but keys that are not pip's own.
            env = with_proxies(os.environ, allowed_prefixes=("PIP_",))
            options: dict[str, Any] = {
                "env": env,
                "stdin": subprocess.DEVNULL,
                "timeout": _FETCH_TIMEOUT_S,
            }
            try:
                done = subprocess.run(
                    [*words, "bfcl-eval"], capture_output=True, text=True, check=False, **options
                )
                why = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            except (subprocess.TimeoutExpired, OSError) as fault:
                why = (
                    str(fault)
                    if isinstance(fault, OSError)
                    else f"it took over {_FETCH_TIMEOUT_S} s"
                )
            if (package := next(Path(scratch).glob("*.whl"), None)) is None:
                raise ConfigError(
                    f"bfcl-eval cannot be downloaded ({why}): try again, or name it with --package"
                )
        try:
            with zipfile.ZipFile(package) as archive:
                folder.mkdir(parents=True, exist_ok=True)
                for category in categories or CATEGORIES:
                    path, (prompts, left_out) = (
                        folder / f"bfcl_{category}.json",
                        read_category(archive, category),
                    )
                    suite = {
                        "name": path.stem,
                        "description": "BFCL, Apache-2.0",
                        "prompts": prompts,
                    }
                    with replacing(path) as file:
                        file.write(json.dumps(suite, ensure_ascii=False).encode())
                    names = f"; left out, for their schema refuses what they expect: {', '.join(left_out)}"
                    yield f"{path}: {plural(len(prompts), 'case')}{names if left_out else ''}"
        except _UNUSABLE as fault:
            raise ConfigError(f"the package of bfcl-eval cannot be used: {fault}") from fault


def read_category(
    archive: zipfile.ZipFile, category: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The cases as prompts, and the ids of those that cannot be asked."""
    name = re.compile(
        rf"bfcl_eval/data/(possible_answer/)?BFCL_v[0-9]+_{category}(?:_python)?\.json"
    )
    rows: list[dict[str, Any]] = []
    truths: dict[str, Any] = {}
    for member in archive.infolist():
        if (found := name.fullmatch(member.filename)) and member.compress_type in _PACKED:
            with archive.open(member) as file:
                # Never by the size that it claims to have.
                raw = file.read(_MAX_BYTES + 1)
            if len(raw) > _MAX_BYTES:
                raise ValueError(f"{member.filename} is larger than {_MAX_BYTES >> 20} MiB")
            excess = find_excess(raw)
            if excess is not None:
                raise ValueError(f"{member.filename} holds {excess}")
            lines = [json.loads(line) for line in raw.splitlines() if line.strip()]
            rows += [] if found[1] else lines
            truths |= {row["id"]: row["ground_truth"] for row in lines} if found[1] else {}
    if not rows:
        raise ConfigError(
            f"the package has no category {category}: name a bfcl-eval of 2025 or later with --package"
        )
    prompts, left_out = [], []
    for row in rows:
        prompt = make_prompt(row, truths.get(row["id"]), calls="irrelevance" not in category)
        try:
            check_spec(prompt["validator"])
            check_offer(prompt["validator"], prompt["tools"])
            prompts.append(prompt)
        except SuiteError:
            left_out.append(row["id"])
    return prompts, left_out


def make_prompt(
    row: dict[str, Any], truth: list[dict[str, Any]] | None, *, calls: bool
) -> dict[str, Any]:
    """A case as a prompt. Without a truth any call will do, or none may be made."""
    tools = [
        {"type": "function", "function": _in_json_schema(one) | {"name": _name(one)}}
        for one in row["function"]
    ]
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    validator: dict[str, Any] = {"type": "tool_call", "no_call": True}
    if truth is not None:
        made = [
            _expect(_name({"name": name}), given, schemas)
            for call in truth
            for name, given in call.items()
        ]
        validator = {"type": "tool_call", "loose": True, "expected_calls": made}
    elif calls:
        validator = {"type": "tool_invocation", "expected_tools": list(schemas)}
    return {
        "id": row["id"],
        "name": row["id"],
        "messages": row["question"][0],
        "tools": tools,
        "validator": validator,
    }


def _expect(name: str, given: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A call with the values that each argument may have; "" among them says that it may be left out."""
    call: dict[str, Any] = {"name": name, "arguments": {}, "optional": {}}
    for key, allowed in given.items():
        schema = schemas[name]["properties"].get(key, {})
        # Nothing is a value too, where the schema takes it.
        takes_nothing = find_misfit(schema, "", "") is None and is_listed(schema, "", exact=False)
        given_ones = [one for one in allowed if one is not None and (one != "" or takes_nothing)]
        forms = [r"re:\*" if form == "*" else form for one in given_ones for form in _forms(one)]
        is_optional = "" in allowed and key not in schemas[name].get("required", ())
        if forms or not is_optional:
            call["optional" if is_optional else "arguments"][key] = forms
    return call


def _forms(value: Any) -> list[Any]:
    """What a value may look like: under each key of an object stands a list of what is allowed there."""
    if isinstance(value, list):
        return [list(one) for one in islice(product(*map(_forms, value)), _MAX_FORMS)]
    if not isinstance(value, dict):
        return [value]
    listed = {
        key: allowed if isinstance(allowed, list) else [allowed] for key, allowed in value.items()
    }
    ways = [
        [(key, form) for one in allowed for form in _forms(one)] for key, allowed in listed.items()
    ]
    return [
        {key: form for key, form in one if form != ""} for one in islice(product(*ways), _MAX_FORMS)
    ]


def _in_json_schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_json_schema(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {
        key: _in_json_schema(one) for key, one in value.items() if key != "type" or one != "any"
    }
    return (
        inner | {"type": _TYPES.get(inner["type"], inner["type"])}
        if isinstance(inner.get("type"), str)
        else inner
    )


def _name(function: dict[str, Any]) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", function["name"])
