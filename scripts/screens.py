"""Writes docs/screens.md: how a run ends on terminals of 80, 120 and 200 columns. The run is a real one.

Five models are scripted, as in the tests (a server of ours plays them); the embedded model is asked too where it is
installed, unless `--scripted` leaves it out. With `--runs DIR` the run stays there, to be looked at.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from clawgauge.providers.embedded.provider import is_fetched
from support.coin_model import CoinModel
from support.command import clawgauge, trust_configuration
from support.http_exchange import ReceivedRequest
from support.scripted_server import Reply, ScriptedServer, Status, Text

PAGE = ROOT / "docs" / "screens.md"
WIDTHS = (80, 120, 200)
EMBEDDED = "embedded:smollm2-135m"
CONFIG = """\
[providers.here]
type = "openai_chat"
base_url = "{url}"
local = true

[providers.gateway]
type = "openai_chat"
base_url = "{url}"
api_key_env = "GATEWAY_KEY"
"""
PRICES = '[[price]]\nprovider = "gateway"\nmodel = "thorough"\ninput = 2.0\noutput = 8.0\n'
OPENING = """\
# What the end of a run looks like

The same real run on three terminals. Five of its models are scripted, one of them behind a gateway that has a price;
where it is installed, the embedded one is asked too. On a terminal the marks are in colour. This page is made by
`.venv/bin/python scripts/screens.py`, in a few minutes with the embedded model, in seconds with `--scripted`.
"""


# Who they are: how often they are right, how long they take for the first word, and one call in how
# many fails.
MODELS: dict[str, tuple[CoinModel, float, int]] = {
    "here:steady": (CoinModel(1.0), 0.03, 0),
    "gateway:thorough": (CoinModel(0.96, seed=1), 0.12, 0),
    "here:hasty": (CoinModel(1.0, rates={"restraint": 0.0}), 0.008, 0),
    "here:talker": (CoinModel(0.85, seed=2, rates={"agentic": 0.0}), 0.02, 0),
    "here:flaky": (CoinModel(0.75, seed=3, rates={"agentic": 0.0}), 0.05, 5),
}


def _number(text: str) -> int:
    """The same for the same text on every machine."""
    return crc32(text.encode())


def reply(request: ReceivedRequest) -> Reply:
    labels = {label.partition(":")[2]: label for label in MODELS}
    model, first_s, failing = MODELS[labels[request.json["model"]]]
    number = _number(str(request.json["messages"]))
    if failing and number % failing == 0:
        return Status(503, message="the model is being loaded")
    answer: Text = model.reply(request)
    return replace(answer, first_delay_s=first_s * (0.6 + number % 100 / 100), gap_s=0.001)


def make_run(cwd: Path, labels: Sequence[str]) -> str:
    """The folder of a run that asks these models."""
    with ScriptedServer(models=[label.partition(":")[2] for label in MODELS]) as server:
        server.reply_with(reply)
        (cwd / "clawgauge.toml").write_text(CONFIG.format(url=server.v1_url))
        (cwd / "prices.toml").write_text(PRICES)
        trust_configuration(cwd)
        targets = []
        for label in labels:
            targets += ["-t", label]
        options = ["--concurrency", "2", "--max-retries", "1", "--prices", "prices.toml", "--quiet"]
        done = clawgauge(
            cwd, "run", *targets, *options, timeout_s=3600, env={"GATEWAY_KEY": "none"}
        )
    if done.code not in (0, 1, 4):
        sys.exit(done.stderr)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripted", action="store_true", help="leave the embedded model out")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="keep the run there")
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cwd = arguments.runs or Path(folder)
        cwd.mkdir(parents=True, exist_ok=True)
        labels = list(MODELS)
        if not arguments.scripted and is_fetched(os.environ):
            labels.append(EMBEDDED)
        run = make_run(cwd, labels)
        blocks = [OPENING]
        for width in WIDTHS:
            shown = clawgauge(cwd, "show", run, env={"COLUMNS": str(width)})
            blocks.append(f"## {width} columns\n\n```text\n{shown.stdout.strip()}\n```\n")
    arguments.output.write_text("\n".join(blocks), encoding="utf-8")
    print(arguments.output)


if __name__ == "__main__":
    main()
