"""The `json_schema` validator: an answer that is JSON as a schema has it.

A suite may be a stranger's file, so a schema is bounded before it is compiled: nothing is fetched,
nothing refers to itself, patterns are matched in linear time. Judging is bounded as for any
library: it is done in a process of its own (`takes_long`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import unquote

from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Verdict, failed, passed
from clawgauge.checks.json import JsonRefused, decode_answer, shown
from clawgauge.checks.validators import TextValidator
from clawgauge.errors import SuiteError
from clawgauge.world.effects import encoded_size

MAX_SCHEMA_BYTES = 262_144
# Counted as if every `$ref` were replaced by what it refers to: so often they may be looked at.
MAX_SUBSCHEMAS = 2_000
MAX_PATTERNS = 100
MAX_LEVELS = 64
_MAX_PATTERN_BYTES = 1_048_576  # of one compiled pattern, and of what is kept while it is matched
_MAX_COMPILED_SCHEMAS = 16

# Where a schema holds others, by the keyword.
_ONE_SCHEMA = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LIST_OF_SCHEMAS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_SCHEMAS_BY_NAME = (
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
)
_OTHER_KEYWORDS = (
    "$anchor",
    "$comment",
    "$id",
    "$ref",
    "$schema",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
)
_KEYWORDS = frozenset((*_ONE_SCHEMA, *_LIST_OF_SCHEMAS, *_SCHEMAS_BY_NAME, *_OTHER_KEYWORDS))
# They refer to what only the way to them decides, so that it cannot be told how far they lead.
_DYNAMIC_KEYWORDS = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_NOTE_PREFIX = "x-"


def _sound_schema(value: Any, place: str) -> None:
    """A shape: a JSON Schema that can be compiled, and matched in bounded time."""
    shape.check(shape.an_object, value, place)
    size = encoded_size(value)
    if size is None or size > MAX_SCHEMA_BYTES:
        raise SuiteError(f"key '{place}' is larger than {MAX_SCHEMA_BYTES:,} bytes; split it")
    _SchemaWalk(value).visit(value, place)
    try:
        compile_schema(json.dumps(value))
    except ValueError as error:  # of the library; the first line has the reason
        path = "".join(f".{key}" for key in getattr(error, "instance_path", ()))
        reason = str(error).partition("\n")[0]
        raise SuiteError(f"key '{place}{path}' makes it no JSON Schema: {reason}") from None


class _SchemaWalk:
    """Visits all of a schema, through its references, and refuses what could not be bounded."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        # The dialect decides which formats there are.
        self._dialect = {key: root[key] for key in ("$schema",) if key in root}
        self._n_subschemas = 0
        self._n_patterns = 0
        self._visiting: list[int] = []  # the identities of the schemas around the one visited

    def visit(self, schema: Any, place: str) -> None:
        """Raise `SuiteError`, naming the place, for what this schema or one in it must not hold."""
        if not isinstance(schema, Mapping):
            return  # true and false bound nothing; anything else is refused when it is compiled
        self._n_subschemas += 1
        if self._n_subschemas > MAX_SUBSCHEMAS:
            problem = f"comes to more than {MAX_SUBSCHEMAS:,} schemas, every $ref written out"
            raise SuiteError(f"key '{place}' {problem}; make it smaller")
        if len(self._visiting) >= MAX_LEVELS:
            raise SuiteError(f"key '{place}' is nested deeper than {MAX_LEVELS} levels; flatten it")
        self._check_keywords(schema, place)
        self._check_patterns(schema, place)
        self._visiting.append(id(schema))
        for key_place, subschema in _subschemas(schema, place):
            self.visit(subschema, key_place)
        if "$ref" in schema:
            self._follow(schema["$ref"], shape.at(place, "$ref"))
        self._visiting.pop()

    def _check_keywords(self, schema: Mapping[str, Any], place: str) -> None:
        for key in schema:
            if key in _DYNAMIC_KEYWORDS:
                raise shape.fault(place, key, "is not supported; use '$ref'")
            if key not in _KEYWORDS and not str(key).startswith(_NOTE_PREFIX):
                advice = shape.suggest(str(key), _KEYWORDS) or f"; notes begin with {_NOTE_PREFIX}"
                raise shape.fault(place, key, f"is no keyword of JSON Schema{advice}")
        for key in ("$id", "id"):
            if key in schema and self._visiting:
                reason = "changes what '$ref' refers to; take it out"
                raise shape.fault(place, key, reason)

    def _check_patterns(self, schema: Mapping[str, Any], place: str) -> None:
        patterns = []
        if isinstance(schema.get("pattern"), str):
            patterns.append((shape.at(place, "pattern"), schema["pattern"]))
        by_pattern = schema.get("patternProperties")
        if isinstance(by_pattern, Mapping):
            for pattern in by_pattern:
                patterns.append((shape.at(place, "patternProperties"), pattern))
        for pattern_place, pattern in patterns:
            self._n_patterns += 1
            if self._n_patterns > MAX_PATTERNS:
                problem = f"is one of more than {MAX_PATTERNS} patterns, every $ref written out"
                raise SuiteError(f"key '{pattern_place}' {problem}; make do with fewer")
            if not _can_compile({"pattern": pattern}):
                reason = (
                    "cannot be matched in linear time, which takes a pattern without lookaround and"
                    " back-references, or is too large"
                )
                text = shown(pattern)
                raise SuiteError(f"key '{pattern_place}' {reason} ({text}); write it another way")
        format_name = schema.get("format")
        if isinstance(format_name, str) and not _can_compile(
            {**self._dialect, "format": format_name}
        ):
            raise shape.fault(place, "format", f"is {shown(format_name)}, which nothing checks")

    def _follow(self, ref: Any, place: str) -> None:
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            reason = "must lead to a place in the same schema, such as '#/$defs/item'"
            raise SuiteError(f"key '{place}' {reason}; nothing is fetched")
        target: Any = self._root
        for part in ref.removeprefix("#").split("/")[1:]:
            target = _step_into(target, unquote(part).replace("~1", "/").replace("~0", "~"))
        if target is None:
            raise SuiteError(f"key '{place}' is {shown(ref)}, and nothing is there")
        if id(target) in self._visiting:
            reason = "refers to a schema that it is part of; write out as many levels as you need"
            raise SuiteError(f"key '{place}' {reason}")
        self.visit(target, place)


def _subschemas(schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    """What a schema holds directly, each with its place."""
    for key in _ONE_SCHEMA:
        if key in schema and not isinstance(schema[key], list):
            yield shape.at(place, key), schema[key]
    for key in _LIST_OF_SCHEMAS:
        if isinstance(schema.get(key), list):
            for index, item in enumerate(schema[key]):
                yield f"{shape.at(place, key)}[{index}]", item
    for key in _SCHEMAS_BY_NAME:
        if isinstance(schema.get(key), Mapping):
            for name, item in schema[key].items():
                yield f"{shape.at(place, key)}.{name}", item


def _step_into(value: Any, key: str) -> Any:
    """One step of a JSON Pointer; None where it leads nowhere."""
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, list) and key.isascii() and key.isdigit() and int(key) < len(value):
        return value[int(key)]
    return None


def _can_compile(fragment: Mapping[str, Any]) -> bool:
    try:
        compile_schema(json.dumps(fragment))
    except ValueError:
        return False
    return True


@lru_cache(maxsize=_MAX_COMPILED_SCHEMAS)
def compile_schema(schema_json: str) -> Any:
    """What checks values by a schema. Raises `ValueError`, of the library, where it is none."""
    # Most suites have no schema to judge by.
    import jsonschema_rs

    linear_time = jsonschema_rs.RegexOptions(
        size_limit=_MAX_PATTERN_BYTES, dfa_size_limit=_MAX_PATTERN_BYTES
    )
    try:
        return jsonschema_rs.validator_for(
            json.loads(schema_json),
            offline=True,
            pattern_options=linear_time,
            validate_formats=True,
            ignore_unknown_formats=False,
            mask="the value",
        )
    except jsonschema_rs.ReferencingError as error:
        raise ValueError(str(error)) from None


class JsonSchema(TextValidator, tag="json_schema", frozen=True):
    """The whole answer is JSON that the schema allows. `strict` refuses a fenced block."""

    schema: Annotated[dict[str, Any], _sound_schema]
    strict: Annotated[bool, shape.true_or_false] = False

    def judge_text(self, text: str) -> Verdict:
        try:
            value = decode_answer(text, strict=self.strict)
        except JsonRefused as error:
            return failed(error.code, error.detail, None)
        parsed = value if isinstance(value, dict) else {"value": value}
        fault = _find_fault(compile_schema(json.dumps(self.schema)), value)
        if fault is not None:
            return failed("schema_mismatch", fault, parsed)
        return passed(parsed)


def _find_fault(compiled: Any, value: Any) -> str | None:
    """What the schema does not allow in a value, with the place in it, or None."""
    import jsonschema_rs

    try:
        compiled.validate(value)
    except jsonschema_rs.ValidationError as error:
        path = "$"
        for key in error.instance_path:
            path += f"[{key}]" if isinstance(key, int) else f".{key}"
        return f"{path}: {error.message}; got {shown(error.instance)}"
    return None
