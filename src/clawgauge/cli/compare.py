"""Compare two runs, or two targets of one run, prompt by prompt: what changed, and is it more than luck?

Every change is B minus A. What cannot be compared is refused with what differs (exit 2); --force compares it anyway.
With --fail-on it is a gate: exit 1 when a rule is broken, or cannot be judged.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "paired differences of two runs, and a gate for CI"
EXAMPLES = """\
rules: METRIC OP NUMBER[%] [(significant)]; the change B − A that must not be, with % in per cent of A
  objective_pass_rate<-0.05      p50_ms>20%      n_error>0      'tool_use_rate<0 (significant)'

examples:
  clawgauge compare 20260213_235930 latest
  clawgauge compare latest --models embedded:smollm2-135m ollama_openai:llama3.2:3b --answers
  clawgauge compare before after --map llama3.2:1b=llama3.2:3b
  clawgauge compare main pr --fail-on 'objective_pass_rate<-0.05 (significant)' --format junit -o compare.xml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a run id, a path to a run folder, or latest")
    parser.add_argument("b", metavar="B", nargs="?", help="another run; not with --models")
    parser.add_argument("--models", nargs=2, metavar=("X", "Y"), help="compare two targets of run A")
    parser.add_argument(
        "--map", action="append", default=[], metavar="X=Y", help="target X of A beside target Y of B; repeatable"
    )
    parser.add_argument("--answers", action="store_true", help="both answers of every prompt that changed sides")
    parser.add_argument("--skip-changed", action="store_true", help="leave out prompts that differ between A and B")
    parser.add_argument("--force", action="store_true", help="compare although something differs that spoils it")
    gate = parser.add_argument_group("gate")
    gate.add_argument("--fail-on", action="append", default=[], metavar="RULE", help="exit 1 if broken; repeatable")
    gate.add_argument("--significant", action="store_true", help="a rule is broken only by more than luck (p < 0.05)")
    out = parser.add_argument_group("output")
    out.add_argument("--format", choices=("text", "markdown", "json", "junit"), default="text")
    out.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    out.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of stdout")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.comparing import compare

    return compare(arguments)
