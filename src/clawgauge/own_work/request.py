"""What the model was sent, rebuilt from the records before its answer: a request is not stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from clawgauge.checks.agreement import Call
from clawgauge.own_work.left_out import LeftOut
from clawgauge.own_work.messages import calls_of, has_image, text_of
from clawgauge.own_work.stores import Record

Message = dict[str, Any]
"""A message as a suite has it."""
# OpenClaw cuts a stored result at about 32,000 characters: the model may have seen more.
_CUT_CHARS = 31_500
_NO_RESULT = "Error: there is no result, the run was stopped."
_TURNS_WITH_IMAGE = 4
# Times beyond this, in the year 2096, are none.
_MAX_TIME_MS = 4e12


class RebuiltRequest:
    """The messages so far, as OpenClaw sends them.

    The result of a call is filled in as it comes, in every copy of `messages` too. `question` is
    what the user said last. `fault` says why what the model saw is not known, or cannot be asked.
    """

    def __init__(self, fault: LeftOut | None = None) -> None:
        self.fault = fault
        self.question = ""
        self.messages: list[Message] = []
        self._n_user_turns = 0
        self._shows_image_until = 0
        # By the ids of their calls; they are in `messages` too.
        self._results: dict[str, Message] = {}

    @property
    def shows_image(self) -> bool:
        return self._n_user_turns < self._shows_image_until

    def add(self, message: Record) -> None:
        """Take in one more message; neighbours of one speaker are joined, as they are sent."""
        role = message.get("role")
        text = text_of(message)
        if has_image(message):
            turn = self._n_user_turns + 1 if role == "user" else self._n_user_turns
            self._shows_image_until = turn + _TURNS_WITH_IMAGE
        if role == "toolResult":
            self._fill_in(str(message.get("toolCallId")), text)
        calls = calls_of(message)
        is_empty = not text.strip() and not calls
        if role not in ("user", "assistant") or is_empty:
            return
        if role == "user":
            self.question = text
            text = f"{_time_stamp(message.get('timestamp'))}{text}"
        if any(not call.name.strip() for call in calls.values()):
            self.fault = LeftOut.UNHELD_CALLS
        self._append(role, text, calls)

    def _fill_in(self, call_id: str, text: str) -> None:
        result = self._results.pop(call_id, None)
        if result is None:
            return
        result["content"] = text
        if len(text) >= _CUT_CHARS:
            self.fault = LeftOut.CUT_RESULTS

    def _append(self, role: str, text: str, calls: dict[str, Call]) -> None:
        last = self.messages[-1] if self.messages else {}
        is_same_speaker = last.get("role") == role
        if role == "user" and not is_same_speaker:
            self._n_user_turns += 1
        if is_same_speaker and not calls and "calls" not in last:
            self.messages.pop()
            text = f"{last['content']}\n\n{text}"
        message: Message = {"role": role, "content": text}
        if calls:
            message["calls"] = [call._asdict() for call in calls.values()]
        self._results = {call_id: {"role": "tool", "content": _NO_RESULT} for call_id in calls}
        self.messages.append(message)
        self.messages.extend(self._results.values())


def _time_stamp(at_ms: Any) -> str:
    """The time before a user's message, as OpenClaw sends and does not store it."""
    if not isinstance(at_ms, int | float) or not 0 < at_ms < _MAX_TIME_MS:
        return ""
    at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    offset = f"{at:%z}"
    hours = int(offset[:3])
    minutes = offset[3:5]
    zone = f"GMT{hours:+d}" if minutes == "00" else f"GMT{hours:+d}:{minutes}"
    return f"[{at:%a %Y-%m-%d %H:%M} {zone}] "
