"""Pure judgement: an answer and an expectation in, a verdict out."""

# ruff: isort: skip_file
from clawgauge.checks.answer import NATIVE, Answer, Verdict, answer_start, split_thinking, tool_calls_of
from clawgauge.checks.tool_call import COMPARISONS, check_offer
from clawgauge.checks.validators import LONG_CHARS, VALIDATORS_VERSION, Judgement, check_spec, judge, judge_answer
from clawgauge.checks.validators import load_judges, needs_shell, not_judged, takes_long, unjudged
