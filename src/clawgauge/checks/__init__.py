"""Pure judgement: an answer and an expectation in, a verdict out.

Owns: validators, the detection of tool calls in text, and what counts as tool use. Refuses: I/O, time, the network, and
raising on any answer; only a specification can be refused, by `check_spec`, before the first request.
"""

from clawgauge.checks.answer import Answer, Verdict
from clawgauge.checks.detection import detect_tools
from clawgauge.checks.judgement import Judgement, judge_answer, not_judged
from clawgauge.checks.strict_json import JsonRefused, decode_strictly
from clawgauge.checks.thinking import answer_start, split_thinking
from clawgauge.checks.tool_call import expected_names
from clawgauge.checks.tool_call_offer import check_offer
from clawgauge.checks.tool_calls import NATIVE, counted_calls, tool_calls_of, tool_channel_of, tool_use_success
from clawgauge.checks.validators import VALIDATORS_VERSION, check_spec, judge

__all__ = [
    "NATIVE",
    "VALIDATORS_VERSION",
    "Answer",
    "JsonRefused",
    "Judgement",
    "Verdict",
    "answer_start",
    "check_offer",
    "check_spec",
    "counted_calls",
    "decode_strictly",
    "detect_tools",
    "expected_names",
    "judge",
    "judge_answer",
    "not_judged",
    "split_thinking",
    "tool_calls_of",
    "tool_channel_of",
    "tool_use_success",
]
