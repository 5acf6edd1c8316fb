"""Calls as JSON objects between marks, one family a row: `<tool_call>{"name": "f", "arguments": {}}</tool_call>`.

Owns: the marks. The closing one may be missing. Refuses: payloads that do not start like JSON; there the mark is only
mentioned, or it opens another grammar.
"""

from __future__ import annotations

import re

from clawgauge.checks.detection.formats.json_calls import read_broken_call, read_keyed_calls, read_meant_calls
from clawgauge.checks.detection.formats.json_values import read_payload
from clawgauge.checks.detection.formats.readings import Format, Reader, Reading
from clawgauge.checks.detection.lazy_pattern import lazy_pattern

_PAYLOAD = lazy_pattern(r"(?=\s*+(?:```[A-Za-z_]*+\s*+)?(?:\{|\[\s*+[\[{\]\"]))")

TOOL_CALL = r"<tool_call>"
LONGCAT_TOOL_CALL = r"<longcat_tool_call>"
TOOL_CALLS = r"\[TOOL_CALLS\]"
LFM2_START = r"<\|tool_call_start\|>"
PYTHON_TAG = r"<\|python_tag\|>"


def json_reader(format_id: str, opening: str, closing: str | None = None, *, keyed: bool = False) -> Reader:
    """A reader of the calls behind `opening`; `keyed` where the names are the keys."""
    stop = lazy_pattern(f"(?={opening})" if closing is None else f"{closing}|(?={opening})")
    read_calls = read_keyed_calls if keyed else read_meant_calls

    def read(text: str, mark: re.Match[str]) -> Reading | None:
        if _PAYLOAD.match(text, mark.end()) is None:
            return None
        payload = read_payload(text, mark.end(), stop)
        if payload.values is None:
            return Reading(payload.end, format_id, [read_broken_call(payload.written, keyed=keyed)])
        return Reading(payload.end, format_id, [call for value in payload.values for call in read_calls(value)])

    return read


def _format(format_id: str, opening: str, closing: str | None = None, *, keyed: bool = False) -> Format:
    return Format(opening, json_reader(format_id, opening, closing, keyed=keyed))


read_hermes = json_reader("hermes", TOOL_CALL, r"</tool_call>")
read_longcat = json_reader("longcat", LONGCAT_TOOL_CALL, r"</longcat_tool_call>")
read_mistral_list = json_reader("mistral", TOOL_CALLS, r"\[/TOOL_CALLS\]")
read_lfm2_json = json_reader("lfm2", LFM2_START, r"<\|tool_call_end\|>")
read_python_tag_json = json_reader("llama3_json", PYTHON_TAG, r"<\|eo[mt]_id\|>")

FORMATS = (
    _format("jamba", r"<tool_calls>", r"</tool_calls>"),
    _format("granite", r"<\|tool_call\|>", r"<\|/tool_call\|>"),
    _format("granite", r"<function_call>", r"</function_call>"),
    _format("apertus", r"<\|tools_prefix\|>", r"<\|tools_suffix\|>", keyed=True),
    _format("internlm", r"<\|action_start\|>\s*<\|plugin\|>", r"<\|action_end\|>"),
    _format("cohere", r"<\|START_ACTION\|>", r"<\|END_ACTION\|>"),
    _format("phi4", r"(?<![\w.])functools(?=\[)"),
)
