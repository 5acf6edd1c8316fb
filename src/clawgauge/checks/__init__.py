"""Pure judgement: an answer and an expectation in, a verdict out."""

from clawgauge.checks.answer import (
    NATIVE,
    Answer,
    Verdict,
    answer_start,
    split_thinking,
    tool_calls_of,
)
from clawgauge.checks.judgement import (
    LONG_CHARS,
    VALIDATORS_VERSION,
    Judgement,
    judge_answer,
    load_judges,
    needs_shell,
    not_judged,
    takes_long,
    unjudged,
)
from clawgauge.checks.validators import check_offer, check_spec, judge
