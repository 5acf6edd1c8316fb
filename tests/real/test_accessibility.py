"""Report and view as axe-core sees them: contrast, names, headings, landmarks, in both schemes and widths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import READY, Browser, chromium, find_chromium
from support.command import clawgauge
from support.sample_runs import write_sample_run
from support.view import viewing
from support.written_runs import config, prompt, record, write_run

AXE = Path(__file__).parents[2] / ".cache/axe/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SCREENS = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]
LOADED = "document.readyState === 'complete'"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        find_chromium() is None, reason="no Chromium here: make test-real looks for one"
    ),
    pytest.mark.skipif(not AXE.is_file(), reason="no axe-core here: scripts/get-axe brings it"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of six models, and one of a user's own prompts."""
    place = tmp_path_factory.mktemp("place")
    write_sample_run(place / "runs" / "one", run_id="one", hostile=False)
    write_sample_run(place / "runs" / "two", run_id="two", seed=2, hostile=False)
    own = [record("P0", suite="mine"), record("P1", False, suite="mine")]
    asked = config([prompt("P0", "mine"), prompt("P1", "mine")])
    write_run(place / "runs" / "own", own, config=asked)
    return place


def find_violations(browser: Browser) -> list[str]:
    """What axe-core finds wrong in the page that is open, a line each."""
    browser.run(f"{AXE.read_text(encoding='utf-8')}; true")
    options = f"{{runOnly: {RULES}, resultTypes: ['violations']}}"
    found = browser.run(
        f"axe.run(document, {options}).then(({{violations}}) => violations.flatMap(rule => "
        "rule.nodes.map(node => `${rule.id}: ${node.target.join(' ')}: ${node.failureSummary}`)))"
    )
    return list(found)


@pytest.mark.parametrize("run", ["one", "own"])
def test_nothing_is_wrong_with_a_report(place: Path, browser: Browser, run: str) -> None:
    """A report of many models, and one of a few prompts of one's own."""
    assert clawgauge(place, "report", run).code == 0
    for width, scheme in SCREENS:
        browser.resize(width, 900)
        browser.prefer(scheme)
        browser.open(f"file://{place}/runs/{run}/report.html")
        assert find_violations(browser) == [], f"{width} {scheme}"


def test_nothing_is_wrong_with_an_open_call(place: Path, browser: Browser) -> None:
    """The dialog with one call in full."""
    assert clawgauge(place, "report", "one").code == 0
    for scheme in ("light", "dark"):
        browser.resize(1440, 900)
        browser.prefer(scheme)
        browser.open(f"file://{place}/runs/one/report.html")
        browser.click("#calls-window tr[data-place='0']")
        browser.wait_for("document.getElementById('call').open")
        assert find_violations(browser) == [], scheme


def test_nothing_is_wrong_with_the_pages_of_the_view(place: Path, browser: Browser) -> None:
    """The list, the history, two runs beside each other, a run as it goes on."""
    with viewing(place) as view:
        browser.open(view.address, until=LOADED)
        base = browser.run("location.href")
        for path in ("", "history", "compare?a=one&b=two", "runs/one/live", "runs/one"):
            for width, scheme in SCREENS:
                browser.resize(width, 900)
                browser.prefer(scheme)
                browser.open(f"{base}{path}", until=READY if path == "runs/one" else LOADED)
                assert find_violations(browser) == [], f"{path} {width} {scheme}"
