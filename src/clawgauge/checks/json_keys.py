"""The `json_keys` validator: an answer that is one JSON object with certain keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Verdict, failed, passed, quoted
from clawgauge.checks.json import JsonRefused, decode_answer, is_type, same_value, shown
from clawgauge.checks.text_rules import matches_fully, re2_pattern
from clawgauge.checks.validators import TextValidator

ValueFault: TypeAlias = tuple[str, str]  # a violation's code, and what is wrong with the value


class KeyRule(shape.Spec, tag_field="type", frozen=True):
    """What the value of one key must be. A subclass is tagged with the type it asks for."""

    def find_fault(self, value: Any) -> ValueFault | None:
        """What is wrong with the value, or None."""
        wanted = type(self).__struct_config__.tag
        if not is_type(value, str(wanted)):
            return ("wrong_type", f"wanted {wanted}, got {shape.kind_of(value)}")
        return self.find_fault_in_type(value)

    def find_fault_in_type(self, value: Any) -> ValueFault | None:
        """What is wrong with a value that is of the right type."""
        return None


class _Bounded(KeyRule, frozen=True):
    min: Annotated[int | float | None, shape.finite_number] = None
    max: Annotated[int | float | None, shape.finite_number] = None

    def find_contradiction(self) -> shape.KeyFault | None:
        if self.min is not None and self.max is not None and self.min > self.max:
            return ("min", f"is {self.min}, above 'max', which is {self.max}")
        return None

    def find_fault_in_type(self, value: Any) -> ValueFault | None:
        if self.min is not None and value < self.min:
            return ("below_min", f"got {shown(value)}, minimum {self.min}")
        if self.max is not None and value > self.max:
            return ("above_max", f"got {shown(value)}, maximum {self.max}")
        return None


class NumberRule(_Bounded, tag="number", frozen=True):
    """A number, whole or not."""


class IntegerRule(_Bounded, tag="integer", frozen=True):
    """A whole number; 1.0 is none."""


class StringRule(KeyRule, tag="string", frozen=True):
    """A text, which the pattern matches as a whole where there is one."""

    pattern: Annotated[str | None, re2_pattern] = None

    def find_fault_in_type(self, value: Any) -> ValueFault | None:
        if self.pattern is not None and not matches_fully(self.pattern, value):
            return ("pattern_mismatch", f"got {shown(value)}, wanted {quoted(self.pattern)}")
        return None


class BooleanRule(KeyRule, tag="boolean", frozen=True):
    """True or false."""


class ArrayRule(KeyRule, tag="array", frozen=True):
    """A list of anything."""


class ObjectRule(KeyRule, tag="object", frozen=True):
    """An object of anything."""


class NullRule(KeyRule, tag="null", frozen=True):
    """Null, and nothing else."""


class OneOfRule(KeyRule, tag="one_of", frozen=True):
    """One of the values listed."""

    values: Annotated[list[Any], shape.ListOf(shape.anything, "values to accept")]

    def find_fault(self, value: Any) -> ValueFault | None:
        if any(same_value(value, allowed) for allowed in self.values):
            return None
        return ("value_not_allowed", f"got {shown(value)}")


AnyKeyRule: TypeAlias = (
    NumberRule
    | IntegerRule
    | StringRule
    | BooleanRule
    | ArrayRule
    | ObjectRule
    | NullRule
    | OneOfRule
)
_RULE_TYPES: Mapping[str, type[KeyRule]] = {
    "number": NumberRule,
    "integer": IntegerRule,
    "string": StringRule,
    "boolean": BooleanRule,
    "array": ArrayRule,
    "object": ObjectRule,
    "null": NullRule,
    "one_of": OneOfRule,
}
_rule = shape.ByType(
    _RULE_TYPES, lambda name: shape.fields_of(_RULE_TYPES[name]), "a rule", short=True
)


class JsonKeys(TextValidator, tag="json_keys", frozen=True):
    """One JSON object that has the required keys, with values by the rules.

    `strict` refuses a fenced block; `closed` refuses keys that are neither required nor ruled on.
    """

    takes_notes: ClassVar[bool] = True
    required_keys: Annotated[list[str], shape.ListOf(shape.some_text, "texts", least=0)]
    strict: Annotated[bool, shape.true_or_false] = False
    closed: Annotated[bool, shape.true_or_false] = False
    # A text is short for a rule of that type and nothing else.
    key_rules: Annotated[dict[str, str | AnyKeyRule], shape.Named(_rule, "rules")] = {}

    def judge_text(self, text: str) -> Verdict:
        try:
            value = decode_answer(text, strict=self.strict)
        except JsonRefused as error:
            return failed(error.code, error.detail, None)
        if not isinstance(value, dict):
            return failed("json_not_object", f"the top level is {shape.kind_of(value)}", None)
        missing = [key for key in self.required_keys if key not in value]
        if missing:
            return failed("missing_key", ", ".join(missing), value)
        if self.closed:
            known_keys = {*self.required_keys, *self.key_rules}
            others = [key for key in value if key not in known_keys]
            if others:
                return failed("unexpected_key", ", ".join(others), value)
        for key, written_rule in self.key_rules.items():
            if key not in value:
                continue
            fault = _read_rule(written_rule).find_fault(value[key])
            if fault is not None:
                code, detail = fault
                return failed(code, f"{key}: {detail}", value)
        return passed(value)


def _read_rule(rule: str | KeyRule) -> KeyRule:
    if isinstance(rule, str):
        return msgspec.convert({"type": rule}, _RULE_TYPES[rule])
    return rule
