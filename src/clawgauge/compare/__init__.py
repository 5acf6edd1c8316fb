"""Two runs, or two models of one run, prompt by prompt: what changed, and is it more than luck?

Owns: pairing, comparability, paired tests, flipped prompts and the gate. Refuses: calling models, judging answers again
and writing files; all it says can be rebuilt from the run folders alone.
"""

from clawgauge.compare.comparison import IncomparableRuns, Wishes, compare_runs
from clawgauge.compare.figures import METRICS
from clawgauge.compare.findings import (
    Comparison,
    Difference,
    Figure,
    Flip,
    PairComparison,
    PairedRate,
    PairedShift,
    RuleFinding,
    SideInfo,
    StoppedSide,
    Unanswered,
)
from clawgauge.compare.fingerprints import prompt_fingerprint
from clawgauge.compare.gate import SIGNIFICANCE_LEVEL, Rule, parse_rule

__all__ = [
    "METRICS",
    "SIGNIFICANCE_LEVEL",
    "Comparison",
    "Difference",
    "Figure",
    "Flip",
    "IncomparableRuns",
    "PairComparison",
    "PairedRate",
    "PairedShift",
    "Rule",
    "RuleFinding",
    "SideInfo",
    "StoppedSide",
    "Unanswered",
    "Wishes",
    "compare_runs",
    "parse_rule",
    "prompt_fingerprint",
]
