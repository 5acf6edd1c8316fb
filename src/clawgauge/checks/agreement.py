"""The `agreement` validator: does an answer do what the reference model did at that turn?

It tells agreement, never truth. Arguments are compared as what they are: paths by where they lead,
commands by their words, free text by what it says.
"""

from __future__ import annotations

import importlib
import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import dropwhile
from typing import Annotated, Any, ClassVar, NamedTuple

from clawgauge.checks import spec as shape
from clawgauge.checks.agreement_words import LEXICON, PATTERNS
from clawgauge.checks.answer import Answer, Verdict, failed, parsed_tools, passed
from clawgauge.checks.command_lines import commands_of, composed, only_looks, resolve_path
from clawgauge.checks.detection.shell import load_lexicon
from clawgauge.checks.json import same_value, shown, try_json
from clawgauge.checks.same_prose import says_the_same
from clawgauge.checks.speech import judge_restraint
from clawgauge.checks.tool_call import (
    MAX_EXPECTED_CALLS,
    CallFault,
    find_nearest,
    find_want,
    refuse_without_tools,
)
from clawgauge.checks.tool_schema import (
    Schema,
    parameters_by_tool,
    property_schema,
    required_arguments,
)
from clawgauge.checks.validators import Validator

_NO_SCHEMA: Schema = {}


class Call(NamedTuple):
    """A call as it was meant; see `unwrap`."""

    name: str
    arguments: dict[str, Any]


def unwrap(name: str, arguments: Any) -> Call:
    """A call as it was meant: `tool_call` of OpenClaw's tool search names another tool.

    A null is no argument.
    """
    inner: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
    while name == "tool_call" and isinstance(inner.get("id"), str):
        name = inner["id"].rpartition(":")[2]
        inner_arguments = inner.get("args")
        inner = inner_arguments if isinstance(inner_arguments, dict) else {}
    return Call(name, {key: value for key, value in inner.items() if value is not None})


def meaning(call: Call, cwd: str = "", schema: Schema = _NO_SCHEMA) -> dict[str, Any]:
    """The arguments that make a difference.

    None is among them that might as well be left out, and nothing that only goes with a command.
    """
    arguments = {}
    for key, value in call.arguments.items():
        if not _is_idle(key, value, schema):
            arguments[key] = value
    if not any(key in arguments for key in load_lexicon().exec_args):
        return arguments
    beside_command = {}
    for key, value in arguments.items():
        if PATTERNS["beside"].fullmatch(key):
            continue
        is_here = key == "workdir" and resolve_path(str(value), cwd) == resolve_path(".", cwd)
        if not is_here:
            beside_command[key] = value
    return beside_command


def _is_idle(key: str, value: Any, schema: Schema) -> bool:
    """Whether an argument says what goes without saying: nothing, or that something is off."""
    if key in required_arguments(schema):
        return False
    if value is None or value in ("", [], {}):
        return True
    if value is not False:
        return False
    is_on_by_default = (property_schema(schema, key) or {}).get("default") is True
    return not is_on_by_default and PATTERNS["on"].fullmatch(key) is None


class ReferenceCall(shape.Spec, frozen=True):
    """A call the reference model made."""

    name: Annotated[str, shape.some_text]
    arguments: Annotated[dict[str, Any], shape.an_object] = {}


class Agreement(Validator, tag="agreement", frozen=True):
    """What the reference model did: calls, or none. `incumbent` is that model's name on disk."""

    is_part: ClassVar[bool] = False
    expected_calls: Annotated[
        list[ReferenceCall] | None,
        shape.ListOf(shape.fields_of(ReferenceCall), "calls", most=MAX_EXPECTED_CALLS),
    ] = None
    # Words that the user gave, which a text has to hold.
    telling: Annotated[list[str], shape.ListOf(shape.any_text, "words", least=0)] = []
    # An `effect`, of what the reference model's command printed.
    effect: Annotated[dict[str, Any] | None, shape.an_object] = None
    tools_source: Annotated[str | None, shape.choice("captured", "inferred")] = None
    cwd: Annotated[str, shape.any_text] = ""
    incumbent: Annotated[str | None, shape.any_text] = None
    no_call: Annotated[bool, shape.only_true] = False
    ask: Annotated[bool, shape.only_true] = False

    def find_contradiction(self) -> shape.KeyFault | None:
        find_want(self)
        return None

    def check_offer(self, tools: Iterable[Mapping[str, Any]]) -> None:
        refuse_without_tools("agreement", parameters_by_tool(tools))

    def judge(self, answer: Answer) -> Verdict:
        """By the calls as they were made.

        Where they differ, and the suite knows what the reference model's printed, by that.
        """
        if self.expected_calls is None:
            # Where somebody's own work goes on, much has been done before.
            return judge_restraint(answer, must_ask=self.ask, may_claim=self.no_call)
        parsed = parsed_tools(answer.native_calls)
        reference_calls = [unwrap(call.name, call.arguments) for call in self.expected_calls]
        if not answer.native_calls:
            names = ", ".join(call.name for call in reference_calls)
            return failed("not_called", f"the reference model called {names}", parsed)
        for invocation in answer.native_calls:
            if not invocation.valid:
                detail = f"{invocation.name}: the arguments are not a JSON object"
                return failed("malformed_call", detail, parsed)
        calls = [unwrap(call.name, call.arguments) for call in answer.native_calls]
        fault = self._find_mismatch(reference_calls, calls, parameters_by_tool(answer.tools))
        is_same_count = len(calls) == len(reference_calls)
        if fault is None and is_same_count:
            return passed(parsed)
        if len(calls) == len(reference_calls) == 1 and self._has_same_effect(
            reference_calls[0], calls[0], answer
        ):
            return passed(parsed)
        if fault is None or not is_same_count:
            detail = f"got {len(calls)}, the reference model made {len(reference_calls)}"
            return failed("wrong_call_count", detail, parsed)
        return failed(*fault, parsed)

    def _find_mismatch(
        self, reference_calls: list[Call], calls: list[Call], schemas: Mapping[str, Schema]
    ) -> CallFault | None:
        faults = []
        for reference in reference_calls:
            schema = schemas.get(reference.name.lower(), {})
            faults.append([self._find_difference(reference, call, schema) for call in calls])
        return find_nearest(faults)

    def _find_difference(self, reference: Call, call: Call, schema: Schema) -> CallFault | None:
        if call.name.lower() != reference.name.lower():
            return ("unexpected_call", call.name)
        wanted = meaning(reference, self.cwd, schema)
        arguments = meaning(call, self.cwd, schema)
        is_prose_file = _writes_prose(wanted)
        for key, value in wanted.items():
            if key not in arguments:
                return ("missing_argument", key)
            # What is written to a table or a program is no prose, whatever words it holds.
            is_data = PATTERNS["prose"].fullmatch(key) is not None and not is_prose_file
            if not self._is_same(arguments[key], value, "" if is_data else key):
                return ("wrong_value", f"{key}: got {shown(arguments[key])}")
        for key in arguments:
            if key not in wanted:
                return ("unexpected_argument", key)
        return None

    def _has_same_effect(self, reference: Call, call: Call, answer: Answer) -> bool:
        """Whether a call that only looks prints what the suite knows of the reference model's."""
        if self.effect is None or not self._only_differs_in_looking(reference, call):
            return False
        # Most answers need no simulated machine.
        effect = importlib.import_module("clawgauge.checks.effect")
        return effect.judge_effect(self.effect, answer).objective_pass is True

    def _only_differs_in_looking(self, reference: Call, call: Call) -> bool:
        """Whether a call only reads a file, or is the reference but for a command that only looks.

        What else a line did would not show on a small machine: it lacks most programs, and the
        files of everyone.
        """
        wanted = meaning(reference, self.cwd)
        arguments = meaning(call, self.cwd)
        if call.name.lower() in ("read", "read_file"):
            return all(
                PATTERNS["path"].fullmatch(key) or key in ("offset", "limit") for key in arguments
            )
        if call.name.lower() != reference.name.lower():
            return False
        command_keys = load_lexicon().exec_args
        lines = [arguments[key] for key in command_keys if key in arguments]
        if _without(arguments, command_keys) != _without(wanted, command_keys):
            return False
        return len(lines) == 1 and isinstance(lines[0], str) and only_looks(lines[0])

    def _is_same(self, value: Any, wanted: Any, key: str) -> bool:
        """Whether two values mean the same as the argument `key`, whose name says what they are."""
        if isinstance(value, dict) and isinstance(wanted, dict):
            value = _without_nulls(value)
            wanted = _without_nulls(wanted)
            if value.keys() != wanted.keys():
                return False
            return all(self._is_same(value[name], wanted[name], name) for name in wanted)
        if isinstance(value, list) and isinstance(wanted, list):
            if len(value) != len(wanted):
                return False
            pairs = zip(value, wanted, strict=True)
            return all(self._is_same(item, wanted_item, key) for item, wanted_item in pairs)
        if not isinstance(wanted, str) or not isinstance(value, str):
            return same_value(value, wanted)
        return self._is_same_text(value, wanted, key)

    def _is_same_text(self, text: str, wanted: str, key: str) -> bool:
        if key in load_lexicon().exec_args:
            return commands_of(text, self.cwd) == commands_of(wanted, self.cwd)
        if PATTERNS["path"].fullmatch(key):
            return resolve_path(text, self.cwd) == resolve_path(wanted, self.cwd)
        if PATTERNS["address"].fullmatch(key):
            return _bare_address(text) == _bare_address(wanted)
        is_prose = PATTERNS["prose"].fullmatch(key) is not None
        if is_prose and not _holds_code(text) and not _holds_code(wanted):
            return says_the_same(text, wanted, self.telling)
        return bool(_as_it_is(text) == _as_it_is(wanted))


def _writes_prose(arguments: Mapping[str, Any]) -> bool:
    """Whether every file that the arguments name holds prose, by its ending."""
    for key, value in arguments.items():
        if PATTERNS["path"].fullmatch(key):
            ending = posixpath.splitext(str(value))[1].lower()
            if ending not in LEXICON["prose_files"]:
                return False
    return True


def _without(arguments: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    dropped = set(keys)
    return {key: value for key, value in arguments.items() if key not in dropped}


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item is not None}


def _bare_address(address: str) -> str:
    """An address without its scheme, login, and a port that goes without saying."""

    def bare_host(host: re.Match[str]) -> str:
        return f"{host[1].lower()}{host[3] or ''}{host[4].lower()}/"

    return PATTERNS["host"].sub(bare_host, address.strip())


def _holds_code(text: str) -> bool:
    return PATTERNS["code"].search(PATTERNS["exact"].sub("", text)) is not None


def _as_it_is(text: str) -> Any:
    """A text to compare sign by sign; a point in time, a telephone number or JSON by what it is.

    Blank lines around a text make no difference, nor do blanks (no tabs) that neither indent nor
    are quoted.
    """
    stripped = text.strip()
    if PATTERNS["time"].fullmatch(stripped):
        with suppress(ValueError):
            return datetime.fromisoformat(stripped)
    if PATTERNS["telephone"].fullmatch(stripped):
        return re.sub(r"\D", "", stripped)
    if stripped.startswith(("{", "[")):
        value, is_json = try_json(stripped)
        if is_json:
            return json.dumps(value, sort_keys=True)
    lines = composed(text).rstrip().removeprefix("\ufeff").splitlines()
    return [_plain_spacing(line) for line in dropwhile(_is_blank, lines)]


def _is_blank(line: str) -> bool:
    return not line.strip()


def _plain_spacing(line: str) -> str:
    """A line with single blanks, but in its indent and in quotes."""
    line = line.rstrip()
    content = line.strip()
    indent = line.removesuffix(content)
    return indent + PATTERNS["blanks"].sub(lambda gap: gap[1] or " ", content)
