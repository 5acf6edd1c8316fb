"""One call in full as plain text: what was asked, what came back, how it was judged, what it
took."""

from __future__ import annotations

import json
import re
import textwrap

from clawgauge.records import Attempt, Prompt, Result, ToolInvocation
from clawgauge.reports.agents import describe_cell
from clawgauge.reports.clean import clean_cell, clean_lines
from clawgauge.reports.words import shown_ms, verdict_word
from clawgauge.words import cut_text, format_latency, rounded

_MAX_TEXT_CHARS = 20_000
_WIDTH = 80
_HEADING = re.compile("^-- ", re.MULTILINE)


def render_call(result: Result, prompt: Prompt | None) -> str:
    """The call under one heading for each of its texts. `prompt` is None where it was not
    recorded."""
    blocks = _describe_result(result)
    if prompt is not None:
        blocks |= _describe_prompt(prompt)
    blocks["reasoning"] = cut_text(result.reasoning_text or "", _MAX_TEXT_CHARS)
    blocks["answer"] = cut_text(result.raw_output, _MAX_TEXT_CHARS)
    lines = [f"{clean_cell(_title(result))}\n"]
    for heading, text in blocks.items():
        if not text:
            continue
        # A line of an answer, or of a prompt, that looks like one of these headings stands further
        # in.
        indented = _HEADING.sub(" -- ", clean_lines(text))
        lines.append(f"-- {heading}\n{indented}")
    lines.append("\n")
    return "".join(lines)


def _title(result: Result) -> str:
    suite = f"{result.suite}/" if result.suite else ""
    prompt = f"{suite}{result.prompt_id}#{result.repeat}"
    return f"{result.target.label}  {prompt}  {result.prompt_name}"


def _describe_result(result: Result) -> dict[str, str]:
    verdict = f"fail: {result.violation}" if result.violation else verdict_word(result)
    attempts = [clean_cell(_word_attempt(attempt)) for attempt in result.attempts]
    invocations = [clean_cell(_word_invocation(call)) for call in result.tool_invocations]
    warnings = [clean_cell(warning) for warning in result.warnings]
    return {
        "verdict": clean_cell(verdict),
        "time": textwrap.fill(_word_times(result), _WIDTH),
        "tokens": clean_cell(_word_tokens(result)),
        "attempts": "\n".join(attempts),
        "tool calls": "\n".join(invocations),
        "inside the program": "\n".join(describe_cell(result)),
        "error": clean_cell(result.error or ""),
        "warnings": "\n".join(warnings),
    }


def _describe_prompt(prompt: Prompt) -> dict[str, str]:
    messages = "\n\n".join(str(message) for message in prompt.messages)
    return {
        "system": prompt.system or "",
        "messages": cut_text(messages, _MAX_TEXT_CHARS),
        "prompt": prompt.prompt,
        "expected": json.dumps(prompt.validator, ensure_ascii=False),
    }


def _word_invocation(call: ToolInvocation) -> str:
    arguments = ""
    if call.arguments is not None:
        arguments = f" {json.dumps(call.arguments, ensure_ascii=False)}"
    malformed = "" if call.valid else ", malformed"
    return f"{call.name}{arguments} ({call.channel}{malformed})"


def _word_times(result: Result) -> str:
    exact = result.timings_us
    parts = [f"e2e {result.e2e_ms} ms"]
    first_token_ms = shown_ms(exact.ttft, result.ttft_ms)
    if first_token_ms is not None:
        parts.append(f"first token {format_latency(first_token_ms)}")
    first_answer_ms = shown_ms(exact.ttfa, result.ttfa_ms)
    if first_answer_ms is not None:
        parts.append(f"first answer token {format_latency(first_answer_ms)}")
    if exact.connect is not None:
        parts.append(f"connect {format_latency(exact.connect / 1000)} (outside the clock)")
    if result.output_tps is not None:
        parts.append(f"{rounded(result.output_tps, 1)} tokens/s")
    if len(result.attempts) > 1:
        parts.append(f"waited in all {result.total_ms} ms")
    if result.cold_start:
        parts.append("cold start")
    return ", ".join(parts)


def _word_tokens(result: Result) -> str:
    if result.input_tokens is None and result.output_tokens is None:
        return ""
    cached = f" ({result.cached_tokens} cached)" if result.cached_tokens else ""
    finish = f", finish: {result.finish_reason}" if result.finish_reason else ""
    return f"{result.input_tokens} in{cached}, {result.output_tokens} out{finish}"


def _word_attempt(attempt: Attempt) -> str:
    ending = f"{attempt.status} {attempt.failure_type}" if attempt.failure_type else attempt.status
    text = f"{ending} after {attempt.e2e_ms} ms"
    if attempt.retry_after_s is not None:
        text += f", server asked for {attempt.retry_after_s:g} s"
    if attempt.waited_ms:
        text += f", then waited {attempt.waited_ms} ms"
    return text
