"""Pure judgement: an answer and an expectation in, a verdict out."""

from clawgauge.checks.answer import NATIVE as NATIVE
from clawgauge.checks.answer import Answer as Answer
from clawgauge.checks.answer import Verdict as Verdict
from clawgauge.checks.answer import answer_start as answer_start
from clawgauge.checks.answer import split_thinking as split_thinking
from clawgauge.checks.answer import tool_calls_of as tool_calls_of
from clawgauge.checks.detection import detect_tools as detect_tools
from clawgauge.checks.tool_call import COMPARISONS as COMPARISONS
from clawgauge.checks.tool_call import check_offer as check_offer
from clawgauge.checks.validators import VALIDATORS_VERSION as VALIDATORS_VERSION
from clawgauge.checks.validators import Judgement as Judgement
from clawgauge.checks.validators import check_spec as check_spec
from clawgauge.checks.validators import judge as judge
from clawgauge.checks.validators import judge_answer as judge_answer
from clawgauge.checks.validators import not_judged as not_judged
