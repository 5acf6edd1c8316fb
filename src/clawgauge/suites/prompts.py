"""One entry of a suite file → its prompts, in all their variants, or a refusal that names the key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clawgauge.checks import COMPARISONS, check_offer, check_spec, expected_names
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt
from clawgauge.suites.document import Place, describe_kind, refuse_unknown_keys
from clawgauge.suites.tools import (
    Tool,
    check_task,
    expected_tools_of,
    read_task,
    read_tool_choice,
    read_tools,
    task_toolbox,
)

FILLED_KEYS = ("prompt", "system", "validator")
NUMBER_MARK = "#"
_TEXTS = ("prompt", "system")
_SHARED_EFFECT_KEYS = ("world", "forbid", "env", "stand_ins")
# `\p{Greek}` and `\x{FF}` belong to patterns.
_FIELD = re.compile(r"(?<!\\[pPx])\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a prompt as the suite might have written it, and the id it is a variant of, if any."""

    entry: Any
    variant_of: str | None = None


def unfold(entry: object, place: Place) -> Iterator[Form]:
    """The forms of one entry of a suite: itself, where it has no variants."""
    variants = entry.get("variants") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or variants is None:
        yield Form(entry)
        return
    own_id = entry.get("id")
    if isinstance(own_id, str) and NUMBER_MARK in own_id:
        raise place.at("id").refusal(
            f"{own_id!r} holds a '{NUMBER_MARK}', which numbers the forms of a prompt with variants; take it out"
        )
    place = place.at("variants")
    if not isinstance(variants, list) or not variants:
        found = "empty" if isinstance(variants, list) else f"must be a list, not {describe_kind(variants)}"
        raise place.refusal(f'{found}; give one object of values for each form, such as {{"city": "Paris"}}')
    bare = {key: value for key, value in entry.items() if key != "variants"}
    for number, values in enumerate(variants, start=1):
        form = _Filling(_read_values(values, place.at(number - 1)), place.at(number - 1)).fill_entry(bare)
        if number > 1 and isinstance(own_id, str):
            form["id"] = f"{own_id}{NUMBER_MARK}{number}"
        yield Form(form, own_id if isinstance(own_id, str) else None)


def _read_values(values: object, place: Place) -> Mapping[str, Any]:
    if not isinstance(values, dict) or not values:
        found = "empty" if isinstance(values, dict) else f"must be an object, not {describe_kind(values)}"
        raise place.refusal(f'{found}; give a value for each field, such as {{"city": "Paris"}}')
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            raise place.at(name).refusal("is no name for a field; use letters, digits and underscores")
        if value is None:
            raise place.at(name).refusal("has no value; give one")
    return values


@dataclass(slots=True)
class _Filling:
    """The values of one variant on their way into a prompt."""

    values: Mapping[str, Any]
    place: Place
    used: set[str] = field(default_factory=set)

    def fill_entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        filled = {key: self._fill_key(key, value) for key, value in entry.items()}
        unused = [name for name in self.values if name not in self.used]
        if unused:
            raise self.place.at(unused[0]).refusal(
                f"fills nothing; write {{{unused[0]}}} in {', '.join(FILLED_KEYS[:-1])} or {FILLED_KEYS[-1]}"
            )
        return filled

    def _fill_key(self, key: str, value: Any) -> Any:
        if key not in FILLED_KEYS:
            return value
        return self._fill_text(value) if key in _TEXTS and isinstance(value, str) else self._fill(value)

    def _fill(self, value: Any) -> Any:
        if isinstance(value, str):
            whole = _FIELD.fullmatch(value)
            return self._value_of(whole[1]) if whole else self._fill_text(value)
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        if isinstance(value, dict):
            return {key: self._fill(item) for key, item in value.items()}
        return value

    def _fill_text(self, text: str) -> str:
        return _FIELD.sub(lambda match: self._text_of(match[1]), text)

    def _value_of(self, name: str) -> Any:
        if name not in self.values:
            raise self.place.refusal(f"has no value for the field {{{name}}}; give one")
        self.used.add(name)
        return self.values[name]

    def _text_of(self, name: str) -> str:
        value = self._value_of(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.place.at(name).refusal(
                f"stands in a text and must be text or a number, not {describe_kind(value)}"
            )
        return str(value)


PROMPT_KEYS = (
    "id",
    "name",
    "prompt",
    "validator",
    "expected_tool_calls",
    "category",
    "system",
    "temperature",
    "max_tokens",
    "tools",
    "tool_choice",
    "variants",
    "draw",
    "long",
    "world",
    "max_turns",
)
_LABEL = re.compile(r"[^\s,\x00-\x1f\x7f](?:[^,\x00-\x1f\x7f]*[^\s,\x00-\x1f\x7f])?")


@dataclass(frozen=True, slots=True)
class SuiteContext:
    """What a prompt takes from the suite it stands in: its name, its defaults, its tools by name.

    `validator_defaults` holds, by the type of a validator, the keys it has unless it says otherwise. Of a built-in
    suite the tests know that its effects can be: a run need not load the simulated world to find that out.
    """

    name: str
    defaults: Sampling
    toolbox: Mapping[str, Tool]
    validator_defaults: Mapping[str, Mapping[str, Any]]
    is_builtin: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a suite says for all its prompts, and each prompt may say for itself. None: not said."""

    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


def build_prompt(entry: object, suite: SuiteContext, place: Place, variant_of: str | None = None) -> Prompt:
    """Check one entry and fold the suite's defaults into it. `place` already names the prompt."""
    if not isinstance(entry, dict):
        raise place.refusal(f"must be an object with {', '.join(PROMPT_KEYS[:4])}, not {describe_kind(entry)}")
    refuse_unknown_keys(entry, PROMPT_KEYS, place)
    fields = {key: value for key, value in entry.items() if value is not None}
    own, defaults = read_sampling(fields, place), suite.defaults
    task = read_task(fields, place)
    tools = read_tools(fields, task_toolbox(task, suite.toolbox), place)
    validator = _read_validator(fields, tools, suite, place)
    check_task(task, validator, tools, place)
    return Prompt(
        id=read_label(fields, "id", place),
        name=_read_required_text(fields, "name", place),
        prompt=_read_required_text(fields, "prompt", place),
        validator=validator,
        suite=suite.name,
        expected_tools=_merge_expected_tools(validator, fields, place),
        category=read_text(fields, "category", place),
        system=(own.system if own.system is not None else defaults.system) or None,
        temperature=own.temperature if own.temperature is not None else defaults.temperature,
        max_tokens=own.max_tokens if own.max_tokens is not None else defaults.max_tokens,
        tools=tools,
        tool_choice=read_tool_choice(fields, tools, place),
        variant_of=variant_of,
        world=task.world,
        max_turns=task.max_turns,
    )


def read_sampling(fields: Mapping[str, Any], place: Place) -> Sampling:
    """`system`, `temperature` and `max_tokens`, from a prompt or from a suite's header."""
    temperature = fields.get("temperature")
    if temperature is not None:
        if isinstance(temperature, bool) or not isinstance(temperature, int | float):
            raise place.at("temperature").refusal(f"must be a number, not {describe_kind(temperature)}")
        if temperature < 0:
            raise place.at("temperature").refusal(f"must be 0 or more, not {temperature}")
        temperature = float(temperature)
    max_tokens = fields.get("max_tokens")
    if max_tokens is not None:
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int):
            raise place.at("max_tokens").refusal(f"must be a whole number, not {_describe_number(max_tokens)}")
        if max_tokens < 1:
            raise place.at("max_tokens").refusal(f"must be 1 or more, not {max_tokens}")
    return Sampling(read_text(fields, "system", place), temperature, max_tokens)


def read_text(fields: Mapping[str, Any], key: str, place: Place) -> str | None:
    """A text value, or None where the key is not given."""
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
        raise place.at(key).refusal(f"must be text, not {describe_kind(value)}{hint}")
    return value


def read_label(fields: Mapping[str, Any], key: str, place: Place) -> str:
    """A text by which something is selected on the command line, where commas separate and control characters hide."""
    label = _read_required_text(fields, key, place)
    if not _LABEL.fullmatch(label):
        raise place.at(key).refusal(
            f"{label!r} holds a comma, a control character, or white space at an end; use a short plain word"
        )
    return label


def _read_required_text(fields: Mapping[str, Any], key: str, place: Place) -> str:
    text = read_text(fields, key, place)
    if text is None:
        raise place.at(key).refusal(f"missing; every prompt has {', '.join(PROMPT_KEYS[:3])} and {PROMPT_KEYS[3]}")
    if not text.strip():
        raise place.at(key).refusal("empty; write some text")
    return text


def _describe_number(value: object) -> str:
    return str(value) if isinstance(value, float) else describe_kind(value)


def read_validator_defaults(header: Mapping[str, Any], place: Place) -> dict[str, Mapping[str, Any]]:
    """`compare` and `effect` of a suite's header, as defaults of the validators they are for."""
    defaults: dict[str, Mapping[str, Any]] = {}
    if (compare := read_text(header, "compare", place)) is not None:
        if compare not in COMPARISONS:
            raise place.at("compare").refusal(f"must be {' or '.join(map(repr, COMPARISONS))}, not {compare!r}")
        defaults["tool_call"] = {"compare": compare}
    if (effect := header.get("effect")) is not None:
        if not isinstance(effect, dict):
            raise place.at("effect").refusal(f"must be an object of keys for 'effect', not {describe_kind(effect)}")
        refuse_unknown_keys(effect, _SHARED_EFFECT_KEYS, place.at("effect"))
        defaults["effect"] = effect
    return defaults


def _with_defaults(validator: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A validator's own keys before the suite's; of a world its keys, and of the files in it each by itself."""
    merged = {**defaults, **validator}
    own, shared = validator.get("world"), defaults.get("world")
    if isinstance(own, dict) and isinstance(shared, dict):
        merged["world"] = {**shared, **own}
        if isinstance(own.get("files"), dict) and isinstance(shared.get("files"), dict):
            merged["world"]["files"] = {**shared["files"], **own["files"]}
    return merged


def _read_validator(fields: Mapping[str, Any], tools: list[Tool], suite: SuiteContext, place: Place) -> dict[str, Any]:
    validator = fields.get("validator")
    if validator is None:
        raise place.at("validator").refusal('missing; use {"type": "noop"} to record the answer without judging it')
    if not isinstance(validator, dict):
        raise place.at("validator").refusal(
            f'must be an object such as {{"type": "exact", "value": "OK"}}, not {describe_kind(validator)}'
        )
    kind = validator.get("type")
    if isinstance(kind, str) and kind in suite.validator_defaults:
        validator = _with_defaults(validator, suite.validator_defaults[kind])
    if suite.is_builtin and kind == "effect":
        return validator
    try:
        check_spec(validator)
        check_offer(validator, tools)
    except SuiteError as error:
        raise place.refusal(f"validator: {error}") from None
    return validator


def _merge_expected_tools(validator: Mapping[str, Any], fields: Mapping[str, Any], place: Place) -> list[str]:
    own = fields.get("expected_tool_calls", [])
    place = place.at("expected_tool_calls")
    if not isinstance(own, list):
        raise place.refusal(f"must be a list of tool names, not {describe_kind(own)}")
    for index, name in enumerate(own):
        if not isinstance(name, str) or not name.strip():
            raise place.at(index).refusal("must be the name of a tool, as text that is not empty")
    merged = [*validator.get("expected_tools", []), *expected_names(validator), *expected_tools_of(validator), *own]
    return list(dict.fromkeys(name.strip().lower() for name in merged))
