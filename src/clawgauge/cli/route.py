"""Turn runs into a routing: which model answers, which takes over, which may have tools. No model is asked.

The configuration goes to stdout, the table of every model to stderr, and the reason for each line into a Markdown file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "tiers and figures into OpenClaw or LiteLLM configuration"
EXAMPLES = """\
examples:
  clawgauge route latest                                   a patch for openclaw.json on stdout
  clawgauge route latest --config ~/.openclaw/openclaw.json --dry-run
  clawgauge route latest --config ~/.openclaw/openclaw.json --write
  clawgauge route run-a run-b --for litellm -o litellm.yaml
  clawgauge route latest --policy policy.toml --simulate 'local>codex>claude'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="+", help="a run id, a path to a run folder, or latest")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    parser.add_argument("--for", dest="made_for", choices=("openclaw", "litellm"), default="openclaw")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="limits and weights, as TOML")
    parser.add_argument("--prices", type=Path, metavar="FILE", help="your own prices, as TOML, over the built-in table")
    parser.add_argument("--config", type=Path, metavar="FILE", help="an openclaw.json that is there already (JSON5)")
    parser.add_argument("--dry-run", action="store_true", help="show what --write would change, as a diff")
    parser.add_argument("--write", action="store_true", help="write the patched --config FILE; a backup is kept")
    parser.add_argument("--simulate", metavar="CHAIN", help="forecast a chain, e.g. 'local>codex>claude', and the best")
    parser.add_argument("--reasons", type=Path, metavar="FILE", help="where the reasons go (default: the run folder)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the configuration into a file")
    parser.add_argument("--json", action="store_true", help="decision, reasons and configuration as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.routing import route, simulate

    return simulate(arguments) if arguments.simulate is not None else route(arguments)
