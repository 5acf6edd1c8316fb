"""The `tool_invocation` validator: the tools an answer must call, and those it must not.

Owns: the verdict on names. Refuses: looking at the text (calls count, not words) and at arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawgauge.checks.answer import Answer, Verdict, failed, passed
from clawgauge.checks.spec_keys import require_texts
from clawgauge.checks.tool_calls import counted_calls, tool_calls_of
from clawgauge.errors import SuiteError


def check_tool_invocation(spec: Mapping[str, Any]) -> None:
    expected = require_texts(spec, "expected_tools")
    if spec.get("match", "any") not in ("any", "all"):
        raise SuiteError(f"key 'match' is {spec['match']!r}; it must be 'any' or 'all'")
    if "forbidden_tools" in spec:
        forbidden = require_texts(spec, "forbidden_tools", may_be_empty=True)
        both = sorted(set(_lowered(expected)) & set(_lowered(forbidden)))
        if both:
            raise SuiteError(f"key 'forbidden_tools' names '{both[0]}', which 'expected_tools' asks for")


def judge_tool_invocation(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    called = tool_calls_of(counted_calls(answer.tool_invocations, tools_offered=answer.tools_offered))
    parsed = {"tools": called}
    forbidden = [name for name in _lowered(spec.get("forbidden_tools", [])) if name in called]
    if forbidden:
        return failed("forbidden_tool", ", ".join(forbidden), parsed)
    wanted = _lowered(spec["expected_tools"])
    if spec.get("match", "any") == "all":
        absent = [name for name in wanted if name not in called]
        fulfilled = not absent
    else:
        absent = list(dict.fromkeys([*wanted, *_lowered(answer.expected_tools)]))
        fulfilled = any(name in called for name in absent)
    if fulfilled:
        return passed(parsed)
    return failed("tool_not_invoked", f"wanted {', '.join(absent)}, got {', '.join(called) or 'none'}", parsed)


def _lowered(names: list[str]) -> list[str]:
    return [name.strip().lower() for name in names]
