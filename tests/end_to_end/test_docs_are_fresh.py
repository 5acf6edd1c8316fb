"""What the docs say is what the program is."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from clawgauge import __version__
from clawgauge.cli import VERBS
from clawgauge.records import GroupSummary, Result, RunSummary
from clawgauge.reports.clean import display_width
from support.waiting import PATIENCE_S

DOCS = Path(__file__).parents[2] / "docs"
GENERATOR = runpy.run_path(str(DOCS.parent / "scripts" / "generate_docs.py"))


@pytest.mark.parametrize("name", GENERATOR["DOCUMENTS"])
def test_the_published_schema_is_fresh(name: str) -> None:
    """docs/schema/ is what the structs say today; `make docs` writes it."""
    assert (DOCS / "schema" / f"{name}.schema.json").read_text(encoding="utf-8") == GENERATOR[
        "render_schema"
    ](name)


def test_the_page_of_commands_is_fresh() -> None:
    """docs/commands.md is what the parsers say today; `make docs` writes it."""
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == GENERATOR["render_commands"]()


def test_the_page_of_the_configuration_is_fresh() -> None:
    """docs/configuration.md has every key of clawgauge.toml as it is today; `make docs` writes it."""
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert page == GENERATOR["render_configuration"]()
    assert "| `stop_after_errors` | whole number |" in page


def test_the_page_of_failures_is_fresh() -> None:
    """docs/troubleshooting.md has the hints that the program prints today; `make docs` writes it."""
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert page == GENERATOR["render_troubleshooting"]()
    assert "Start: ollama serve" in page


def test_every_option_of_every_verb_is_on_some_page() -> None:
    """Whatever a parser takes is explained in docs/ or in the README, under every name it has."""
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    parsers = list(GENERATOR["iter_parsers"]())
    assert {words.split()[0] for words, _, _ in parsers} == set(VERBS)
    options = {
        (words, option) for words, _, parser in parsers for option in parser._option_string_actions
    }
    assert len(options) > 150
    missing = [
        f"{words} {option}"
        for words, option in sorted(options)
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text)
    ]
    assert missing == []


@pytest.mark.parametrize("record", [Result, GroupSummary, RunSummary])
def test_the_schema_page_names_every_field(record: type) -> None:
    """A field that is written is explained in docs/schema.md."""
    page = (DOCS / "schema.md").read_text(encoding="utf-8")
    missing = [field for field in record.__struct_fields__ if f"`{field}`" not in page]
    assert missing == []


def test_the_changelog_begins_with_the_version_that_is_installed() -> None:
    """Its newest heading is this version, with what to mind when one comes from the last."""
    log = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, *_ = re.findall(r"^## (.+)$", log, re.MULTILINE)
    assert newest == __version__.partition(".dev")[0]
    assert "### Upgrading from 0.2.0" in log.partition(f"## {newest}")[2].partition("\n## ")[0]


@pytest.mark.slow
def test_the_screens_can_be_made_anew(tmp_path: Path) -> None:
    """A real run of the five scripted models: three terminals, none of them overflowing, each with the answer."""
    made = [
        sys.executable,
        str(DOCS.parent / "scripts" / "screens.py"),
        "--scripted",
        "-o",
        str(tmp_path / "page.md"),
    ]
    assert (
        subprocess.run(made, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S).returncode == 0
    )
    pages = [
        (tmp_path / "page.md").read_text(encoding="utf-8"),
        (DOCS / "screens.md").read_text(encoding="utf-8"),
    ]
    for page in pages:
        for width in (80, 120, 200):
            screen = page.partition(f"## {width} columns\n\n```text\n")[2].partition("\n```")[0]
            assert max(map(display_width, screen.splitlines())) <= width
            assert re.search("steady +✓ +✓", screen) and "heartbeat and triage" in screen
