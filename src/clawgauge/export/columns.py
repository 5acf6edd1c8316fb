"""The columns of an export: every field of a result, flat.

Owns: which columns there are, in which order, of which kind, and how a result fills them. Refuses: file formats; here a
value is a text, a number, a truth value, a list of texts or None. Objects and lists of objects become one column of
JSON text each, so that a table has the same types whatever a model wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.records import Result, Target, TimingsUs

Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "texts", "json"]
Value: TypeAlias = "str | int | float | bool | list[str] | None"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its kind, and where its value comes from."""

    name: str
    kind: Kind
    read: Callable[[Result], Value]


_LISTS_OF_TEXTS = frozenset({"tool_calls", "expected_tools", "warnings"})
_JSON_FIELDS = frozenset({"parsed_output", "attempts", "tool_invocations", "transcript"})
_KINDS: dict[str, Kind] = {"str": "text", "int": "integer", "float": "number", "bool": "boolean"}


def _make_columns() -> tuple[Column, ...]:
    columns = [Column("target", "text", lambda r: Target(r.provider, r.model, r.thinking_level).label)]
    for field in msgspec.structs.fields(Result):
        if field.name == "timings_us":
            columns += [Column(f"timings_us_{part}", "integer", _timing(part)) for part in TimingsUs.__struct_fields__]
        elif field.name == "attempts":
            columns += [Column("n_attempts", "integer", lambda r: len(r.attempts)), _json_column(field.name)]
        elif field.name in _JSON_FIELDS:
            columns.append(_json_column(field.name))
        elif field.name in _LISTS_OF_TEXTS:
            columns.append(Column(field.name, "texts", _attribute(field.name)))
        else:
            columns.append(Column(field.name, _kind_of(field), _attribute(field.name)))
    return tuple(columns)


def _kind_of(field: msgspec.structs.FieldInfo) -> Kind:
    """The kind of a plain field; `Literal` types are texts. An addition of another shape has to be named above."""
    shape = msgspec.inspect.type_info(field.type)
    parts = shape.types if isinstance(shape, msgspec.inspect.UnionType) else (shape,)
    names = {type(part).__name__.removesuffix("Type").lower() for part in parts} - {"none"}
    kind = _KINDS.get("str" if names == {"literal"} else next(iter(names)))
    if len(names) != 1 or kind is None:
        raise TypeError(f"Result.{field.name} has no flat form: name it in {__name__}")
    return kind


def _attribute(name: str) -> Callable[[Result], Value]:
    def read(result: Result) -> Value:
        value: Value = getattr(result, name)
        return value

    return read


def _timing(part: str) -> Callable[[Result], Value]:
    def read(result: Result) -> Value:
        value: int | None = getattr(result.timings_us, part)
        return value

    return read


def _json_column(name: str) -> Column:
    def read(result: Result) -> Value:
        value: Any = getattr(result, name)
        return None if value is None else msgspec.json.encode(value).decode()

    return Column(name, "json", read)


COLUMNS = _make_columns()


def choose_columns(names: Sequence[str] | None) -> tuple[Column, ...]:
    """All columns, or those named, in the order named."""
    if names is None:
        return COLUMNS
    known = {column.name: column for column in COLUMNS}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigError(
            f"--columns: there is no column {', '.join(unknown) or 'named'}; choose from {', '.join(known)}"
        )
    return tuple(known[name] for name in names)
