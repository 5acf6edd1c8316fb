"""`clawgauge view` in a real Chromium: a real run watched as it goes on, two compared, and a large one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from clawgauge.journal.folder import RunFolder
from clawgauge.view.live import MAX_LISTENERS
from support.browser import READY, Browser, chromium, find_chromium
from support.command import chat_config, clean_environment, trust_configuration, write_suite
from support.sample_runs import write_large_run, write_sample_run
from support.scripted_server import Held, ScriptedServer, Text
from support.view import started_view, viewing
from support.waiting import PATIENCE_S, wait_until
from support.written_runs import config, prompt, record, write_run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        find_chromium() is None, reason="no Chromium here: make test-real looks for one"
    ),
]
N = 12


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        running.resize(1280, 900)
        yield running


def test_a_run_is_watched_from_its_first_row_to_its_last(tmp_path: Path, browser: Browser) -> None:
    said = {"prompt": "say yes", "validator": {"type": "exact", "value": "yes"}}
    prompts = [{"id": f"P{n}", "name": f"n{n}", **said} for n in range(N)]
    write_suite(tmp_path / "small.json", *prompts)
    with ScriptedServer() as server, viewing(tmp_path) as view:
        chat_config(tmp_path, fake=server.v1_url)
        trust_configuration(tmp_path)
        for n in range(N):
            server.script(Held(Text("yes" if n else "no"), (tmp_path / f"go{n}").exists))
        words = [
            "run",
            "-t",
            "fake:scripted-model",
            "-s",
            "small.json",
            "--run-id",
            "live",
            "--quiet",
        ]
        run = subprocess.Popen(
            [sys.executable, "-m", "clawgauge", *words], cwd=tmp_path, env=clean_environment()
        )
        try:
            while not server.calls:
                assert run.poll() is None
            browser.open(view.address, until="document.querySelector('a.running') !== null")
            browser.click("a.running")
            browser.wait_for("document.querySelector('#state')?.textContent === 'running'")
            for n in range(N):
                (tmp_path / f"go{n}").touch()
                browser.wait_for(f"document.querySelectorAll('#rows tbody tr').length === {n + 1}")
            browser.wait_for("document.querySelector('#state')?.textContent === 'ended'")
            assert run.wait(PATIENCE_S) == 0
        finally:
            run.kill()
            run.wait()
        done = browser.run("document.querySelector('#targets tbody tr').textContent")
        assert f"{N}/{N}" in done and str(N - 1) in done
        assert browser.console == [] and browser.dialogs == []
        entry, *requests = browser.requests
        assert entry == view.address
        assert all(address.startswith(f"{view.origin}{view.base}/") for address in requests)


def test_every_page_fits_a_phone(tmp_path: Path, browser: Browser) -> None:
    """At 390 pixels no page scrolls sideways, a run's answer stands in full width, and outcomes are in sight."""
    write_sample_run(tmp_path / "runs" / "one", run_id="one", hostile=False)
    write_sample_run(tmp_path / "runs" / "two", run_id="two", seed=2, hostile=False)
    browser.resize(390, 844, phone=True)
    try:
        with viewing(tmp_path) as view:
            browser.open(
                view.address, until="document.querySelectorAll('table.runs tbody tr').length === 2"
            )
            base = browser.run("location.href")
            assert (
                browser.run("document.querySelector('.runs .answer').getBoundingClientRect().width")
                > 300
            )
            for path in ("", "history", "compare?a=one&b=two", "runs/one/live"):
                browser.open(f"{base}{path}", until="document.readyState === 'complete'")
                assert browser.run("document.documentElement.scrollWidth") == 390, path
                wide = "[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth).length"
                assert browser.run(wide) == 0, f"{path}: a table scrolls sideways"
            browser.wait_for("document.querySelectorAll('#rows tbody tr').length > 0")
            assert (
                browser.run(
                    "document.querySelector('#rows .outcome').getBoundingClientRect().right"
                )
                < 390
            )
            edges = "[...document.querySelectorAll('#rows td')].map(cell => cell.getBoundingClientRect().right)"
            assert max(browser.run(edges)) <= 390
            assert browser.run(
                "[...document.querySelectorAll('.is-fail .why')].some(why => why.offsetHeight)"
            )
            browser.open(f"{base}compare?a=one&b=two", until="document.readyState === 'complete'")
            first = "document.querySelector('main h2').getBoundingClientRect().top"
            assert "passed: cannot tell" in browser.run(
                "document.querySelector('main').innerText.split('ollama')[0]"
            )
            assert browser.run(first) < 844, "what changed on the whole stands on the first screen"
            assert browser.console == []
    finally:
        browser.resize(1280, 900)


def test_the_list_shows_those_with_a_word_and_goes_by_any_column(
    tmp_path: Path, browser: Browser
) -> None:
    """What is hidden stays in the list; the choice of two runs to compare survives both."""
    prompts = [prompt(f"P{n}", category="json") for n in range(4)]
    for name, n_passed in (("worst", 1), ("best", 4), ("middle", 2)):
        records = [record(f"P{n}", n < n_passed) for n in range(4)]
        write_run(tmp_path / "runs" / name, records, config=config(prompts))
    names = "[...document.querySelectorAll('.runs tbody tr')].filter(row => !row.hidden)"
    names += ".map(row => row.querySelector('td.run a').textContent)"
    with viewing(tmp_path) as view:
        browser.open(view.address, until="document.querySelector('button.sort') !== null")
        browser.click("input[name=a][value=middle]")
        browser.click("th:nth-child(5) button")
        assert browser.run(names) == ["best", "middle", "worst"]
        browser.click("th:nth-child(5) button")
        assert browser.run(names) == ["worst", "middle", "best"]
        assert browser.run("document.querySelector('th:nth-child(5)').ariaSort") == "ascending"
        browser.click("input[type=search]")
        browser.type("mid")
        assert browser.run(names) == ["middle"]
        assert browser.run("document.querySelector('#shown').textContent") == "1 of 3 runs"
        browser.press("Enter")
        browser.run("document.querySelector('input[type=search]').value = ''")
        browser.type("s")
        assert len(browser.run(names)) == 3
        browser.click("input[name=b][value=best]")
        browser.click(".above button")
        browser.wait_for("document.querySelector('h1')?.textContent === 'middle → best'")
        assert browser.console == []


def test_a_large_run_is_listed_followed_and_compared(tmp_path: Path, browser: Browser) -> None:
    """Twenty thousand calls: the page holds the last ones and the sums of all."""
    write_large_run(tmp_path / "runs" / "large", 20_000)
    write_large_run(tmp_path / "runs" / "other", 2_000, seed=3)
    with viewing(tmp_path) as view:
        browser.open(
            view.address, until="document.querySelectorAll('table.runs tbody tr').length === 2"
        )
        base = browser.run("location.href")
        browser.open(
            f"{base}runs/large/live",
            until="document.querySelector('#state')?.textContent === 'ended'",
        )
        assert browser.run("document.querySelectorAll('#rows tbody tr').length") == 200
        counts = "[...document.querySelectorAll('#targets tbody tr')].map(row => parseInt(row.cells[1].textContent))"
        assert sum(browser.run(counts)) == 20_000
        browser.open(base, until="document.querySelectorAll('table.runs tbody tr').length === 2")
        browser.click("input[name=a][value=large]")
        browser.click("input[name=b][value=other]")
        browser.click("button")
        browser.wait_for("document.title.includes('large') && document.readyState === 'complete'")
        assert browser.run("document.querySelectorAll('main h1').length") == 1
        assert browser.console == []


def test_an_address_is_used_once_and_a_report_leads_back_to_the_list(
    tmp_path: Path, browser: Browser
) -> None:
    """The way a user goes: in by the printed address, to a report, back, reloaded, and by the same address again."""
    write_sample_run(tmp_path / "runs" / "one", run_id="one", hostile=False)
    write_sample_run(tmp_path / "runs" / "a#b c", run_id="a#b c", seed=2, hostile=False)
    listed = "document.querySelectorAll('table.runs tbody tr').length === 2"
    with viewing(tmp_path) as view:
        browser.open(view.address, until=listed)
        assert "token" not in browser.run("location.href")
        assert browser.run("document.cookie") == ""
        for link in ("runs/one", "runs/a%23b%20c"):
            browser.click(f"td a[href='{link}']")
            browser.wait_for(READY)
            assert browser.run("document.referrer") == ""
            browser.click("nav a[href='../']")
            browser.wait_for(listed)
        browser.run("location.reload()")
        browser.wait_for(listed)
        browser.click("header a[href='./history']")
        browser.wait_for(
            "document.title.startsWith('history') && document.readyState === 'complete'"
        )
        assert browser.console == []
        assert all(address.startswith(view.origin) for address in browser.requests)
        browser.open(
            view.address, until="document.body?.innerText.includes('has been used already')"
        )
        assert not any("Content Security Policy" in line for line in browser.console)


def test_the_file_that_opens_the_browser_leads_to_the_list(
    tmp_path: Path, browser: Browser
) -> None:
    """Chromium takes a page of a file for another site, and is let in all the same."""
    write_sample_run(tmp_path / "runs" / "one", run_id="one", hostile=False)
    folder = tmp_path / "temporary"
    folder.mkdir()
    with started_view(tmp_path, "--port", "0", BROWSER="true %s", TMPDIR=str(folder)):
        wait_until(lambda: list(folder.glob("*/open.html")))
        (page,) = folder.glob("*/open.html")
        browser.open(
            page.as_uri(), until="document.querySelectorAll('table.runs tbody tr').length === 1"
        )
        assert browser.run("location.pathname").startswith("/s/")
        wait_until(lambda: not page.exists())
        browser.click("td a")
        browser.wait_for(READY)
        assert browser.console == []


def test_a_run_that_was_killed_is_shown_as_interrupted(tmp_path: Path, browser: Browser) -> None:
    path = write_sample_run(tmp_path / "runs" / "killed", run_id="killed", hostile=False)
    started = {
        "record_type": "event",
        "at_ms": 1,
        "event": "stretch_started",
        "target": None,
        "detail": {},
    }
    (path / "events.jsonl").write_text(json.dumps(started) + "\n")
    (path / ".lock").write_text("{}\n")
    with viewing(tmp_path) as view:
        browser.open(view.address, until="document.querySelector('.interrupted code') !== null")
        base = browser.run("location.href")
        browser.open(
            f"{base}runs/killed/live",
            until="document.querySelector('#state')?.className === 'interrupted'",
        )
        assert "clawgauge run --resume killed" in browser.run(
            "document.querySelector('#state').textContent"
        )


def test_a_live_page_says_when_too_many_are_open(tmp_path: Path, browser: Browser) -> None:
    """And follows the run once there is room."""
    path = write_sample_run(tmp_path / "runs" / "going", run_id="going", hostile=False)
    with viewing(tmp_path) as view, RunFolder.open_existing(path):
        browser.open(view.address, until="document.querySelector('a.running') !== null")
        with ExitStack() as others:
            for _ in range(MAX_LISTENERS):
                others.enter_context(view.connect(f"{view.base}/runs/going/rows"))
            browser.click("a.running")
            browser.wait_for(
                "document.querySelector('#state')?.textContent.includes('close some of them')"
            )
        browser.wait_for("document.querySelector('#state')?.textContent === 'running'")
