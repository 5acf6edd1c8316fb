"""Why a model has its place, as codes with their figures. `verdict.wording` makes the text of
them."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class ReasonCode(Enum):
    """One kind of reason. What stands in brackets are the fields of a `Reason` that belong to
    it."""

    # A rate held against its limit (k, n, figures: the end of its interval, the limit).
    RATE_AT_LEAST = auto()
    RATE_AT_MOST = auto()
    # A rate whose answers say nothing of other prompts (k, n).
    TOO_FEW_TO_TELL = auto()
    # Agreement in turns of too few sessions (k, n, figures: the sessions, how many would tell).
    TOO_FEW_SESSIONS = auto()
    # What answers have decided so far (k, n, figures: too low a rate, and the line between fit and
    # not fit): met, not met, open.
    DECIDED_YES = auto()
    DECIDED_NO = auto()
    STILL_OPEN = auto()
    # Native calls and their tier (k, n, figures: the tier).
    TIER_DECIDED = auto()
    TIER_NOT_DECIDED = auto()
    NOT_TIER_1 = auto()
    # Tasks, in some of which something forbidden was done (k, n, figures: in how many).
    HARM = auto()
    # Nothing was measured; of native calls, or only calls that were written as text.
    NOT_MEASURED = auto()
    ONLY_TEXT_CALLS = auto()
    # Nothing was measured of several needs (figures: their names).
    NEEDS_NOT_MEASURED = auto()
    # The model was never shown the tools it was offered (k: of how many calls that shows, n: calls
    # with tools).
    TEMPLATE_WITHOUT_TOOLS = auto()
    TOO_FEW_PROMPT_TOKENS = auto()
    TAKES_NO_TOOLS = auto()
    # The texts do not fit its context window (figures: the window).
    WINDOW_TOO_SMALL = auto()
    # Where a model runs.
    RUNS_HERE = auto()
    RUNS_ELSEWHERE = auto()
    WANTS_KEY = auto()
    # What a job weighs: a plain rate (k, n), a time (figures: the time), what a call costs
    # (figures: the amount).
    RATE = auto()
    TIME = auto()
    TIME_BEYOND_DEADLINE = auto()
    COST = auto()
    FREE_OF_CHARGE = auto()
    COST_UNKNOWN = auto()
    # What a reader of a tier must also know (k, n).
    CALLED_UNWANTED = auto()
    WROTE_UNWANTED = auto()
    CALLS_RESCUED = auto()
    WRONG_ARGUMENTS = auto()


# The model was never shown what the need is about. No other run would show it.
NEVER_SHOWN = frozenset(
    {
        ReasonCode.TEMPLATE_WITHOUT_TOOLS,
        ReasonCode.TOO_FEW_PROMPT_TOKENS,
        ReasonCode.TAKES_NO_TOOLS,
        ReasonCode.WINDOW_TOO_SMALL,
    }
)
# What can be told without counting answers.
NEEDS_NO_ANSWER = NEVER_SHOWN | {
    ReasonCode.RUNS_HERE,
    ReasonCode.RUNS_ELSEWHERE,
    ReasonCode.WANTS_KEY,
}


class Reason(NamedTuple):
    """A code with its figures, which are held as they are shown: equal reasons read alike.

    `subject` is what was counted or timed: the name of a need, of a figure, or a job's own name for
    its prompts.
    """

    code: ReasonCode
    subject: str = ""
    k: int = 0
    n: int = 0
    figures: tuple[str, ...] = ()
