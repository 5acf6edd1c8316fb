"""One call in full, as plain text: what was asked, what came back, how it was judged, what it took."""

from __future__ import annotations

import json

from clawgauge.records import Attempt, Prompt, Result, ToolInvocation
from clawgauge.reports.clean import clean_cell, clean_lines
from clawgauge.reports.words import verdict_word
from clawgauge.words import cut_text

_TEXT_CHARS = 20_000


def render_call(result: Result, prompt: Prompt | None) -> str:
    """Every part that has something to say, each under its name."""
    suite = f"{result.suite}/" if result.suite else ""
    head = f"{result.target.label}  {suite}{result.prompt_id}#{result.repeat}  {result.prompt_name}"
    blocks = [
        ("verdict", f"fail: {result.violation}" if result.violation else verdict_word(result)),
        ("time", _time(result)),
        ("tokens", _tokens(result)),
        ("attempts", "\n".join(clean_cell(_attempt(one)) for one in result.attempts)),
        ("tool calls", "\n".join(clean_cell(_invocation(one)) for one in result.tool_invocations)),
        ("error", clean_cell(result.error or "")),
        ("warnings", "\n".join(map(clean_cell, result.warnings))),
        ("system", prompt.system or "" if prompt else ""),
        ("prompt", prompt.prompt if prompt else ""),
        ("expected", json.dumps(prompt.validator, ensure_ascii=False) if prompt else ""),
        ("reasoning", cut_text(result.reasoning_text or "", _TEXT_CHARS)),
        ("answer", cut_text(result.raw_output, _TEXT_CHARS)),
    ]
    lines = [clean_cell(head)]
    for name, text in blocks:
        if text:
            lines += [f"── {name}", clean_lines(text).rstrip("\n")]
    return "\n".join(lines) + "\n\n"


def _invocation(call: ToolInvocation) -> str:
    arguments = "" if call.arguments is None else f" {json.dumps(call.arguments, ensure_ascii=False)}"
    return f"{call.name}{arguments} ({call.channel}{'' if call.valid else ', malformed'})"


def _time(result: Result) -> str:
    micro = result.timings_us
    parts = [
        f"e2e {result.e2e_ms} ms",
        "" if micro.ttft is None else f"first token {micro.ttft / 1000:.1f} ms",
        "" if micro.ttfa is None else f"first answer token {micro.ttfa / 1000:.1f} ms",
        "" if micro.connect is None else f"connect {micro.connect / 1000:.1f} ms (outside the clock)",
        "" if result.output_tps is None else f"{result.output_tps:.1f} tokens/s",
        f"waited in all {result.total_ms} ms" if len(result.attempts) > 1 else "",
        "cold start" if result.cold_start else "",
    ]
    return ", ".join(filter(None, parts))


def _tokens(result: Result) -> str:
    if result.input_tokens is None and result.output_tokens is None:
        return ""
    finish = f", finish: {result.finish_reason}" if result.finish_reason else ""
    cached = f" ({result.cached_tokens} cached)" if result.cached_tokens else ""
    return f"{result.input_tokens} in{cached}, {result.output_tokens} out{finish}"


def _attempt(attempt: Attempt) -> str:
    asked = f", server asked for {attempt.retry_after_s:g} s" if attempt.retry_after_s is not None else ""
    waited = f", then waited {attempt.waited_ms} ms" if attempt.waited_ms else ""
    return f"{attempt.status} {attempt.failure_type or ''} after {attempt.e2e_ms} ms{asked}{waited}".replace("  ", " ")
