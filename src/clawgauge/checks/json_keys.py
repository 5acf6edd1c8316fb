"""The `json_keys` validator: an answer that is one JSON object with the keys and values asked for.

Owns: which text counts as the object (the whole answer, or one fenced block around it) and which keys must be there.
Leaves decoding to `strict_json` and single values to `key_rules`. Refuses: fishing JSON out of prose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clawgauge.checks.answer import Verdict, failed, passed
from clawgauge.checks.key_rules import check_rule, find_fault
from clawgauge.checks.spec_keys import kind_of, refuse, require_flag, require_texts
from clawgauge.checks.strict_json import JsonRefused, decode_strictly

_FENCED = re.compile(r"(?P<fence>`{3,}+|~{3,}+)[^\n`]*\n(?P<body>.*)(?P=fence)", re.DOTALL)


def check_json_keys(spec: Mapping[str, Any]) -> None:
    require_texts(spec, "required_keys", may_be_empty=True)
    if "strict" in spec:
        require_flag(spec, "strict")
    rules = spec.get("key_rules", {})
    if not isinstance(rules, Mapping):
        raise refuse("key_rules", "an object of rules", rules)
    for key, rule in rules.items():
        check_rule(str(key), rule)


def judge_json_keys(spec: Mapping[str, Any], text: str) -> Verdict:
    if not spec.get("strict", False):
        text = _unfenced(text)
    try:
        value = decode_strictly(text)
    except JsonRefused as error:
        return failed(error.code, error.detail, None)
    if not isinstance(value, dict):
        return failed("json_not_object", f"the top level is {kind_of(value)}", None)
    missing = [key for key in spec["required_keys"] if key not in value]
    if missing:
        return failed("missing_key", ", ".join(missing), value)
    for key, rule in spec.get("key_rules", {}).items():
        fault = find_fault(rule, value[key]) if key in value else None
        if fault:
            code, detail = fault
            return failed(code, f"{key}: {detail}", value)
    return passed(value)


def _unfenced(text: str) -> str:
    """The inside of one fenced block that is the whole of `text`, else `text`."""
    block = _FENCED.fullmatch(text)
    return block["body"] if block else text
