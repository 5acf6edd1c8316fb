"""Pure judgement: an answer and an expectation in, a verdict out."""

from clawgauge.checks.answer import (
    NATIVE,
    Answer,
    Verdict,
    answer_start,
    split_thinking,
    tool_calls_of,
    tool_use_success,
)
from clawgauge.checks.detection import detect_tools
from clawgauge.checks.json import JsonRefused, decode_strictly
from clawgauge.checks.tool_call import COMPARISONS, expected_names
from clawgauge.checks.tool_schema import check_offer
from clawgauge.checks.validators import VALIDATORS_VERSION, Judgement, check_spec, judge, judge_answer, not_judged

__all__ = [
    "COMPARISONS",
    "NATIVE",
    "VALIDATORS_VERSION",
    "Answer",
    "JsonRefused",
    "Judgement",
    "Verdict",
    "answer_start",
    "check_offer",
    "check_spec",
    "decode_strictly",
    "detect_tools",
    "expected_names",
    "judge",
    "judge_answer",
    "not_judged",
    "split_thinking",
    "tool_calls_of",
    "tool_use_success",
]
