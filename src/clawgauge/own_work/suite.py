"""The suite made of turns: masked, with what several share written once, for its owner alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from clawgauge.checks.agreement import Call
from clawgauge.checks.detection.shell import load_lexicon
from clawgauge.checks.same_prose import WORD
from clawgauge.errors import ConfigError
from clawgauge.own_work.masking import Mask
from clawgauge.own_work.request import Message
from clawgauge.own_work.simulation import find_effect, past_calls
from clawgauge.own_work.turns import HistoryTurn
from clawgauge.records import Context
from clawgauge.secrets import mask_strings
from clawgauge.suites.document import MAX_FILE_BYTES
from clawgauge.words import plural

_JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
# "Yes, do it" speaks of what was said before.
_N_QUESTIONS_COMPARED = 2


def make_suite(
    turns: Sequence[HistoryTurn], name: str, mask: Mask, capture: Context | None
) -> bytes:
    """The suite as TOML. Without a `capture` it has no system prompt, and its tools are inferred.

    Raises `ConfigError` where there are no tools, or where it gets too large.
    """
    toolbox = _make_toolbox(turns, capture)
    if turns and not toolbox:
        raise ConfigError(
            "no tool was called in these turns, so none can be offered: give them with --capture"
        )
    tools_source = "inferred" if capture is None else "captured"
    contexts: list[dict[str, Any]] = []
    prompts: list[dict[str, Any]] = []
    shared: list[Message] = []
    # Sessions are numbered: what OpenClaw calls them may tell of the user.
    sessions: dict[str, str] = {}
    for turn in turns:
        calls = [Call(call.name, mask_strings(call.arguments, mask)) for call in turn.calls]
        if not shared or turn.messages[: len(shared)] != shared:
            shared = turn.messages
            contexts.append({"tools": list(toolbox), "messages": mask_strings(shared, mask)})
        validator = _make_validator(turn, calls, mask, tools_source)
        own_messages = mask_strings(turn.messages[len(shared) :], mask)
        prompt = {
            "id": f"m{len(prompts) + 1}",
            "name": _title_of(turn),
            "category": turn.tools or "no call",
            "session": sessions.setdefault(turn.session_id, f"s{len(sessions) + 1}"),
            "context": f"c{len(contexts)}",
            "messages": own_messages or None,
            "validator": validator,
        }
        prompts.append(prompt)
    system = mask(capture.system or "") if capture is not None else None
    lines = _toml_lines(name, system, mask_strings(toolbox, mask), contexts, prompts)
    data = "\n".join([*lines, ""]).encode()
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(
            f"these turns come to more than {MAX_FILE_BYTES >> 20} MiB: give a smaller --max"
        )
    return data


def _title_of(turn: HistoryTurn) -> str:
    if turn.calls:
        return turn.tools
    return "a question" if turn.asks else "an answer"


def _toml_lines(
    name: str,
    system: str | None,
    toolbox: Mapping[str, Any],
    contexts: Sequence[Mapping[str, Any]],
    prompts: Sequence[Mapping[str, Any]],
) -> list[str]:
    content = f"{plural(len(prompts), 'turn')} of your own OpenClaw history"
    header = {"name": name, "description": f"Agreement with the reference model in {content}."}
    lines = [
        f"# PRIVATE. {content}: what you wrote, what tools returned, what was called. "
        "Keys are masked, little else is.",
        *_assignments(header),
    ]
    lines += _assignments({"system": system})
    lines += ["\n[toolbox]", *_assignments(toolbox)]
    for number, context in enumerate(contexts, start=1):
        lines += [f"\n[contexts.c{number}]", *_assignments(context)]
    for prompt in prompts:
        lines += ["\n[[prompts]]", *_assignments(prompt)]
    return lines


def _make_validator(
    turn: HistoryTurn, calls: Sequence[Call], mask: Mask, tools_source: str
) -> dict[str, Any]:
    """What the reference model did, for the validator `agreement`. `calls` are masked."""
    validator: dict[str, Any] = {"type": "agreement"}
    if calls:
        validator["expected_calls"] = [call._asdict() for call in calls]
    elif turn.asks:
        validator["ask"] = True
    else:
        validator["no_call"] = True
    validator["telling"] = _find_telling_words(turn, calls, mask)
    validator["effect"] = find_effect(turn, mask) if calls else None
    validator["cwd"] = mask(turn.cwd)
    validator["incumbent"] = turn.model
    validator["tools_source"] = tools_source
    return validator


def _find_telling_words(turn: HistoryTurn, calls: Sequence[Call], mask: Mask) -> list[str]:
    """The words of the user that came back in a call, grammar left out."""
    questions = []
    for message in turn.messages:
        if message["role"] == "user":
            questions.append(message["content"])
    question = mask(" ".join(questions[-_N_QUESTIONS_COMPARED:]))
    words_of_calls = set(WORD.findall(str(calls).replace("\\n", " ").casefold()))
    words_of_calls -= load_lexicon().function_words
    return sorted(words_of_calls.intersection(WORD.findall(question.casefold())))


def _make_toolbox(
    turns: Sequence[HistoryTurn], capture: Context | None
) -> dict[str, dict[str, Any]]:
    """The tools on offer: those captured, and of others that were called what the calls tell."""
    toolbox: dict[str, dict[str, Any]] = {}
    for tool in capture.tools if capture else []:
        function = tool["function"]
        described = {key: function[key] for key in ("description", "parameters") if key in function}
        toolbox[function["name"]] = described
    arguments_by_name = _collect_arguments(turns, known_names=list(toolbox))
    for name in sorted(arguments_by_name):
        # Nobody has to search for a tool that is offered.
        if name not in toolbox and not name.startswith("tool_"):
            schema = {"properties": {}, **_infer_schema(arguments_by_name[name])}
            toolbox[name] = {"parameters": schema}
    return toolbox


def _collect_arguments(
    turns: Sequence[HistoryTurn], known_names: Sequence[str]
) -> dict[str, list[Any]]:
    """The arguments of all calls, by the name of the tool.

    Names that differ in case alone are one, spelled as among the known names, else as it was first
    called. Of a tool that is called in a turn, earlier calls do not count: those of turns that were
    left out may be wrong.
    """
    spelling = {name.lower(): name for name in known_names}
    called_in_turns = set()
    for turn in turns:
        for call in turn.calls:
            called_in_turns.add(call.name.lower())
    arguments_by_name: dict[str, list[Any]] = defaultdict(list)
    for turn in turns:
        calls = list(turn.calls)
        for past_call in past_calls(turn):
            if past_call.name.lower() not in called_in_turns:
                calls.append(Call(past_call.name, past_call.arguments))
        for call in calls:
            name = spelling.setdefault(call.name.lower(), call.name)
            arguments_by_name[name].append(call.arguments)
    return arguments_by_name


def _infer_schema(values: Sequence[Any]) -> dict[str, Any]:
    """A JSON schema that takes all these values."""
    types = sorted({_JSON_TYPES.get(type(value), "string") for value in values})
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if "array" in types:
        items = []
        for value in values:
            if isinstance(value, list):
                items += value
        schema["items"] = _infer_schema(items or [""])
    objects = [value for value in values if isinstance(value, dict)]
    if objects:
        schema |= _infer_object_schema(objects)
    return schema


def _infer_object_schema(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    values_by_key: dict[str, list[Any]] = defaultdict(list)
    for value in objects:
        for key, inner in value.items():
            values_by_key[key].append(inner)
    properties = {}
    required = []
    for key, values in values_by_key.items():
        properties[key] = _infer_schema(values)
        # One call tells nothing of what may be left out.
        if len(values) == len(objects) > 1:
            required.append(key)
    return {"properties": properties, "required": required}


def _assignments(fields: Mapping[str, Any]) -> list[str]:
    """The fields as lines of TOML; those that are None are left out."""
    lines = []
    for key, value in fields.items():
        if value is not None:
            lines.append(f"{_to_toml(key)} = {_to_toml(value)}")
    return lines


def _to_toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(_assignments(value))}}}"
    if isinstance(value, list):
        return f"[{', '.join(_to_toml(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
