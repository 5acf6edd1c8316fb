"""What became of each call between model and tools: the wire's ledger beside the tools' log.

Of the programs tried only one passes a call's id on to its tools, so calls are joined by turn, then
by name and order. Arguments decide only whether a call was altered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawgauge.checks.answer import NATIVE
from clawgauge.checks.detection import detect_tools
from clawgauge.providers.agents.ledger import WireTurn
from clawgauge.records.agent import AgentCall, CallFate
from clawgauge.world.mcp import LoggedCall

_TEXT_CHANNEL = "text:"
_MAX_WRITTEN_CALLS = 50
# What may stand between a prefix and the name of a tool, as models write it.
_SEPARATOR = re.compile(r"::|__|[./]")


@dataclass(frozen=True, slots=True)
class RunCall:
    """A call that reached the tools, and where its entry among the joined calls stands."""

    turn: int
    made_ns: int
    """When the model began it; when it reached the tools, where it had not made it."""
    logged: LoggedCall


@dataclass(frozen=True, slots=True)
class JoinedCalls:
    """The calls of an attempt: each with its fate, and those that reached the tools, in order."""

    calls: list[AgentCall]
    run: list[RunCall]


@dataclass(slots=True)
class _MadeCall:
    """A call that the model made, natively or in writing."""

    name: str
    arguments: Any
    channel: str
    is_valid: bool
    at_ns: int
    is_joined: bool = False


def join_calls(
    turns: Sequence[WireTurn],
    logged_calls: Sequence[LoggedCall],
    tool_names: Mapping[str, str],
    *,
    was_withheld: bool,
) -> JoinedCalls:
    """Join what the model said with what reached the tools.

    `tool_names` has our name of each tool by that on the wire. With `was_withheld` the last turn's
    calls of other tools were stopped by us.
    """
    calls: list[AgentCall] = []
    run_calls: list[RunCall] = []
    for index, turn in enumerate(turns):
        number = index + 1
        is_last = number == len(turns)
        native = _native_calls(turn, tool_names)
        written = _written_calls(turn, tool_names) if tool_names else []
        for call in _calls_of_turn(index, turns, logged_calls):
            fate, made = _join_call(call, native, written)
            calls.append(_describe(number, fate, made, call))
            made_ns = call.arrived_ns if made is None else made.at_ns
            run_calls.append(RunCall(turn=number, made_ns=made_ns, logged=call))
        for unjoined in (*native, *written):
            if unjoined.is_joined:
                continue
            fate = "lost"
            if was_withheld and is_last and unjoined.name not in tool_names.values():
                fate = "withheld"
            calls.append(_describe(number, fate, unjoined, None))
    return JoinedCalls(calls, run_calls)


def _calls_of_turn(
    index: int, turns: Sequence[WireTurn], logged_calls: Sequence[LoggedCall]
) -> list[LoggedCall]:
    """The calls that reached the tools between this turn's request and the next one's."""
    is_last = index + 1 == len(turns)
    begins_ns = turns[index].arrived_ns if index else 0
    ends_ns = None if is_last else turns[index + 1].arrived_ns
    calls = []
    for call in logged_calls:
        if call.arrived_ns >= begins_ns and (ends_ns is None or call.arrived_ns < ends_ns):
            calls.append(call)
    return calls


def _join_call(
    call: LoggedCall, native: Sequence[_MadeCall], written: Sequence[_MadeCall]
) -> tuple[CallFate, _MadeCall | None]:
    """What became of a call that reached the tools, and the model's call that it was, if any."""
    fate: CallFate = "gained"
    made = _find_made(native, call)
    if made is not None:
        fate = "run" if _same(made.arguments, call.arguments) else "altered"
    else:
        # What was only written, and ran all the same, the program made a call of.
        made = _find_made(written, call)
    if made is not None:
        made.is_joined = True
    return fate, made


def _native_calls(turn: WireTurn, tool_names: Mapping[str, str]) -> list[_MadeCall]:
    made = []
    for call in turn.calls.values():
        arguments, is_valid = call.arguments()
        name = tool_names.get(call.name, call.name)
        made.append(_MadeCall(name, arguments, NATIVE, is_valid, call.at_ns))
    return made


def _written_calls(turn: WireTurn, tool_names: Mapping[str, str]) -> list[_MadeCall]:
    """Calls of offered tools that stand in the text of a reply, in one of the known formats."""
    names = {wire_name.lower(): name for wire_name, name in tool_names.items()}
    for name in tool_names.values():
        names.setdefault(name.lower(), name)
    detected = detect_tools(turn.answer_text, list(names), limit=_MAX_WRITTEN_CALLS)
    at_ns = turn.texts[0][0] if turn.texts else turn.arrived_ns
    made = []
    for call in detected:
        tool = names.get(call.name) or names.get(_SEPARATOR.split(call.name)[-1])
        if call.channel.startswith(_TEXT_CHANNEL) and tool is not None:
            made.append(_MadeCall(tool, call.arguments, call.channel, call.valid, at_ns))
    return made


def _find_made(made: Sequence[_MadeCall], call: LoggedCall) -> _MadeCall | None:
    """The first call of this name that is not joined yet, those with the same arguments before."""
    same_name = [candidate for candidate in made if _is_candidate(candidate, call)]
    for candidate in same_name:
        if _same(candidate.arguments, call.arguments):
            return candidate
    return same_name[0] if same_name else None


def _is_candidate(made: _MadeCall, call: LoggedCall) -> bool:
    return not made.is_joined and made.name.lower() == call.name.lower()


def _same(made: Any, run: Any) -> bool:
    return _canonical(made or {}) == _canonical(run or {})


def _canonical(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return "nested too deeply to be written"


def _describe(
    turn: int, fate: CallFate, made: _MadeCall | None, call: LoggedCall | None
) -> AgentCall:
    return AgentCall(
        turn=turn,
        fate=fate,
        made_name=None if made is None else made.name,
        made_arguments=None if made is None else made.arguments,
        made_channel=None if made is None else made.channel,
        made_valid=None if made is None else made.is_valid,
        run_name=None if call is None else call.name,
        run_arguments=None if call is None else call.arguments,
    )
