"""Messages in the harmony format: `<|channel|>commentary to=functions.f<|message|>{…}<|call|>`.

Owns: which messages are calls (those addressed to a tool, on whichever channel) and which are thinking (the rest of
the analysis channel). Refuses: the other messages; they are the answer and are read on.
"""

from __future__ import annotations

import re

from clawgauge.checks.detection.formats.json_arguments import read_named_arguments
from clawgauge.checks.detection.formats.readings import Format, Reading, WrittenCall, find_stop
from clawgauge.checks.detection.lazy_pattern import lazy_pattern

_OPENING = r"<\|(?:start|channel)\|>"
_HEAD = lazy_pattern(
    r"(?:<\|start\|>(?P<author>[^<\n]{0,200}))?(?:<\|channel\|>(?P<channel>[^<\n]{0,200}))?"
    r"(?:<\|constrain\|>[^<\n]{0,100})?<\|message\|>"
)
_RECIPIENT = lazy_pattern(r"(?:^|\s)to=([^\s<]{1,200})")
_STOP = lazy_pattern(rf"<\|(?:call|end|return)\|>|(?={_OPENING})")
_PEOPLE = frozenset(("assistant", "user", "system", "developer"))
# Takes source code where every other tool takes an object.
_CODE_TOOL = "python"


def _read_message(text: str, mark: re.Match[str]) -> Reading | None:
    head = _HEAD.match(text, mark.start())
    if head is None:
        return None
    author, channel = head["author"] or "", head["channel"] or ""
    recipient = _RECIPIENT.search(author) or _RECIPIENT.search(channel)
    if recipient and recipient[1] not in _PEOPLE:
        return _read_call(text, head.end(), recipient[1])
    if channel.split()[:1] == ["analysis"]:
        return Reading(find_stop(text, head.end(), _STOP)[1], "harmony", [])
    return None


def _read_call(text: str, start: int, recipient: str) -> Reading:
    if recipient == _CODE_TOOL:
        body_end, end = find_stop(text, start, _STOP)
        return Reading(end, "harmony", [WrittenCall(recipient, text[start:body_end].strip())])
    call, end = read_named_arguments(text, start, _STOP, recipient)
    return Reading(end, "harmony", [call])


FORMATS = (Format(_OPENING, _read_message),)
