"""Two runs, or two models of one run, prompt by prompt: what changed, and is it more than luck?"""

from clawgauge.compare.comparison import IncomparableRuns, Wishes, compare_runs
from clawgauge.compare.findings import (
    METRICS,
    Comparison,
    Difference,
    Flip,
    PairComparison,
    PairedRate,
    PairedShift,
    RuleFinding,
    SideInfo,
    StoppedSide,
    Unanswered,
)
from clawgauge.compare.gate import parse_rule, say_untested
from clawgauge.compare.pairing import prompt_fingerprint

__all__ = [
    "METRICS",
    "Comparison",
    "Difference",
    "Flip",
    "IncomparableRuns",
    "PairComparison",
    "PairedRate",
    "PairedShift",
    "RuleFinding",
    "SideInfo",
    "StoppedSide",
    "Unanswered",
    "Wishes",
    "compare_runs",
    "parse_rule",
    "prompt_fingerprint",
    "say_untested",
]
