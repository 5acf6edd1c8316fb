"""Say what can be reached from here: Ollama and its models, keys, the claude CLI, the embedded model.

Asks servers only about themselves; no model is called and nothing costs money.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "what can be reached from here"
EXAMPLES = """\
examples:
  clawgauge doctor
  clawgauge doctor --get-embedded      fetch the embedded model now (93 MB, once)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--get-embedded", action="store_true", help="fetch the embedded model now")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="default: ./clawgauge.toml; in full only once trusted"
    )
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    from clawgauge.cli.examination import examine, get_embedded

    if arguments.get_embedded:
        return get_embedded()
    return examine(arguments.config, as_json=arguments.json)
