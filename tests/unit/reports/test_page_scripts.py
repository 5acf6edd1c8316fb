"""The scripts of the page of a report: read by rules of our own, checked and tested by node where node is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawgauge import words
from clawgauge.reports.html import Survey, read_runs
from clawgauge.reports.html.data import build_data
from clawgauge.reports.html.page import SCRIPTS, STATIC, assemble_script
from support.sample_runs import write_sample_run
from support.script_tokens import Token, tokenize
from support.waiting import PATIENCE_S

TESTS = Path(__file__).parent / "page_scripts"
LEAST_NODE = 20
VALUES = (
    0,
    0.04,
    1,
    8.46,
    9.96,
    42,
    204.5,
    850,
    999.4,
    1500,
    9_990,
    10_000,
    41_960,
    119_900,
    120_000,
    3_599_400,
    1e7,
)
SHARES = (0, 0.004, 0.01, 0.125, 0.5, 0.835, 0.99, 0.994, 1)
DOLLARS = (0, 0.0000123, 0.00041, 0.0041, 0.2, 1.32, 12.5)
# What is divided, in the only scripts that divide: lengths on the screen, and units of one value.
DIVIDING = {
    "axis.js": "places on an axis, and units of its ticks",
    "call_parts.js": "the parts of the bar of one call",
    "calls.js": "rows in sight",
    "foreign.js": "a repeated character by its length",
    "format.js": "units",
    "latency.js": "places in a strip",
    "matrix.js": "pieces on paper",
    "rates.js": "letters that have room",
    "scatter.js": "the slope of a line",
    "tradeoff.js": "sizes of marks, and letters that have room",
}
# What a browser has.
GLOBALS = """
    Array Blob Boolean Date DecompressionStream Error Event Infinity Intl JSON Map Math Number Object Promise RegExp
    Response Set String URLSearchParams Uint8Array addEventListener atob clearTimeout constructor document
    encodeURIComponent history innerHeight innerWidth localStorage location matchMedia requestAnimationFrame setTimeout
    undefined
"""
# The language's own.
WORDS = """
    async await break case catch class const continue delete else export extends false finally for from function get
    if import in instanceof let new null of return set static super switch this throw true try typeof void while with
    yield
"""


def read_scripts() -> dict[str, str]:
    return {name: (STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS}


def is_name(token: Token) -> bool:
    return token.kind == "name" and token.text not in WORDS.split()


def free_names(tokens: list[Token]) -> list[str]:
    """Names that stand for something, and are no properties: neither after a dot nor keys of an object."""
    names = []
    for place, token in enumerate(tokens):
        before = tokens[place - 1].text if place else ""
        after = tokens[place + 1].text if place + 1 < len(tokens) else ""
        is_key = after == ":" and before in ("{", ",")
        if is_name(token) and before not in (".", "?.") and not is_key:
            names.append(token.text)
    return names


def test_every_script_is_in_the_page_once() -> None:
    assert sorted(SCRIPTS) == sorted(
        file.name for file in STATIC.iterdir() if file.name.endswith(".js")
    )


def test_no_name_is_mistyped_and_none_is_left_over() -> None:
    """What is declared is used, what is used is declared: a name that occurs once in all scripts is neither."""
    names = Counter(name for text in read_scripts().values() for name in free_names(tokenize(text)))
    properties = Counter(
        token.text for text in read_scripts().values() for token in tokenize(text) if is_name(token)
    )
    lonely = {name for name, n in names.items() if n == 1 and properties[name] == 1}
    assert lonely - set(GLOBALS.split()) == set()


def test_functions_have_names_of_their_own() -> None:
    """The scripts are one function body: of two functions of one name, the first would be lost."""
    declared = re.compile(r"^(?:async )?function (\w+)|^(?:const|let|class) (\w+)", re.MULTILINE)
    found = Counter(
        first or second
        for text in read_scripts().values()
        for first, second in declared.findall(text)
    )
    assert [name for name, n in found.items() if n > 1] == []


def test_scripts_are_written_in_the_strict_half_of_the_language() -> None:
    for name, text in read_scripts().items():
        tokens = [token.text for token in tokenize(text) if token.kind != "string"]
        assert not {"var", "eval", "with", "==", "!=", "debugger", "console", "alert"} & set(
            tokens
        ), name


def test_scripts_divide_lengths_and_units_alone() -> None:
    """A rate, a mean or a percentile is received: whoever divides more than before says here what."""
    dividing = set()
    for name, text in read_scripts().items():
        if any(token.kind == "sign" and token.text in ("/", "/=") for token in tokenize(text)):
            dividing.add(name)
        assert not re.search(r"\b(percentile|median|mean|average)\(", text), name
    assert dividing == set(DIVIDING)


def find_node() -> str:
    """The program; skips where it is missing or too old."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not here: the page's scripts are not run")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < LEAST_NODE:
        pytest.skip(
            f"node {version.strip()} is older than {LEAST_NODE}: the page's scripts are not run"
        )
    return node


def run_node(*arguments: str | Path, **environment: str) -> None:
    done = subprocess.run(
        [find_node(), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_node_takes_the_script_of_the_page(tmp_path: Path) -> None:
    script = tmp_path / "page.js"
    script.write_text(assemble_script(), encoding="utf-8")
    run_node("--check", script)


@pytest.mark.parametrize(
    "file", sorted(TESTS.glob("*.test.mjs")), ids=lambda file: file.name.partition(".")[0]
)
def test_the_functions_of_the_page(file: Path, tmp_path: Path) -> None:
    """Each file of tests by itself, over the data of a report of six models."""
    find_node()
    survey = Survey()
    runs = read_runs([write_sample_run(tmp_path / "run")], survey)
    data, texts = build_data(runs, survey, datetime(2026, 2, 14, tzinfo=UTC), max_calls=20_000)
    scripts = read_scripts()
    given = {
        # All but the last, which sets the page up.
        "script": "\n".join(scripts[name] for name in SCRIPTS[:-1]),
        "data": data,
        "blocks": texts.blocks,
        "formats": {
            "milliseconds": [(value, words.format_latency(value)) for value in VALUES],
            "percent": [(share, words.format_percent(share)) for share in SHARES],
            "dollars": [(usd, words.format_money(usd)) for usd in DOLLARS],
            "rounded": [(value, words.rounded(value)) for value in VALUES],
        },
    }
    page = tmp_path / "page.json"
    page.write_text(json.dumps(given), encoding="utf-8")
    run_node("--test", file, CLAWGAUGE_PAGE=str(page))
