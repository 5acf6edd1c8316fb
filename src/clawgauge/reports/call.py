"""One call in full, as plain text: what was asked, what came back, how it was judged, what it took."""

from __future__ import annotations

import json
import re
import textwrap

from clawgauge.records import Attempt, Prompt, Result, ToolInvocation
from clawgauge.reports.clean import clean_cell, clean_lines
from clawgauge.reports.words import shown_ms, verdict_word
from clawgauge.words import cut_text, format_latency, rounded

_TEXT_CHARS, _WIDTH = 20_000, 80
_HEADING = re.compile("^-- ", re.MULTILINE)


def render_call(result: Result, prompt: Prompt | None) -> str:
    suite = f"{result.suite}/" if result.suite else ""
    head = f"{result.target.label}  {suite}{result.prompt_id}#{result.repeat}  {result.prompt_name}"
    blocks = {
        "verdict": clean_cell(
            f"fail: {result.violation}" if result.violation else verdict_word(result)
        ),
        "time": textwrap.fill(_time(result), _WIDTH),
        "tokens": clean_cell(_tokens(result)),
        "attempts": "\n".join(clean_cell(_attempt(one)) for one in result.attempts),
        "tool calls": "\n".join(clean_cell(_invocation(one)) for one in result.tool_invocations),
        "error": clean_cell(result.error or ""),
        "warnings": "\n".join(map(clean_cell, result.warnings)),
    }
    if prompt is not None:
        messages = cut_text("\n\n".join(map(str, prompt.messages)), _TEXT_CHARS)
        blocks |= {"system": prompt.system or "", "messages": messages, "prompt": prompt.prompt}
        blocks["expected"] = json.dumps(prompt.validator, ensure_ascii=False)
    blocks["reasoning"] = cut_text(result.reasoning_text or "", _TEXT_CHARS)
    blocks["answer"] = cut_text(result.raw_output, _TEXT_CHARS)
    # A line of an answer, or of a prompt, that looks like one of these headings stands further in.
    told = [
        f"-- {name}\n{_HEADING.sub(' -- ', clean_lines(text))}"
        for name, text in blocks.items()
        if text
    ]
    return "".join([f"{clean_cell(head)}\n", *told, "\n"])


def _invocation(call: ToolInvocation) -> str:
    arguments = (
        "" if call.arguments is None else f" {json.dumps(call.arguments, ensure_ascii=False)}"
    )
    return f"{call.name}{arguments} ({call.channel}{'' if call.valid else ', malformed'})"


def _time(result: Result) -> str:
    micro = result.timings_us
    firsts = {
        "first token": (micro.ttft, result.ttft_ms),
        "first answer token": (micro.ttfa, result.ttfa_ms),
    }
    parts = [
        f"e2e {result.e2e_ms} ms",
        *(
            f"{name} {format_latency(ms)}"
            for name, both in firsts.items()
            if (ms := shown_ms(*both)) is not None
        ),
        ""
        if micro.connect is None
        else f"connect {format_latency(micro.connect / 1000)} (outside the clock)",
        "" if result.output_tps is None else f"{rounded(result.output_tps, 1)} tokens/s",
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
    asked = (
        f", server asked for {attempt.retry_after_s:g} s"
        if attempt.retry_after_s is not None
        else ""
    )
    waited = f", then waited {attempt.waited_ms} ms" if attempt.waited_ms else ""
    return f"{attempt.status} {attempt.failure_type or ''} after {attempt.e2e_ms} ms{asked}{waited}".replace(
        "  ", " "
    )
