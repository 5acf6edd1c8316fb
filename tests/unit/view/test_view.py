"""`clawgauge view`: what its pages show."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import clawgauge
from support.rows import every_row
from support.view import View, viewing
from support.waiting import PATIENCE_S
from support.written_runs import MODEL, config, prompt, record, write_run

PROMPTS = [prompt(f"P{n}", category="json") for n in range(10)]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("view")
    records = [record(f"P{n}", n != 3) for n in range(10)]
    write_run(tmp_path / "runs" / "before", records, config=config(PROMPTS))
    records = [
        record(f"P{n}", n != 5, raw_output=HOSTILE, violation="not_exact" if n == 5 else None)
        for n in range(10)
    ]
    write_run(tmp_path / "runs" / "after", records, config=config(PROMPTS))
    return tmp_path


@pytest.fixture(scope="module")
def view(runs: Path) -> Iterator[View]:
    with viewing(runs) as view:
        yield view


@every_row("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(view: View, method: str) -> None:
    assert view.ask("/runs/before", method).status == 405


def test_every_run_is_listed_with_its_models_and_its_answer(view: View) -> None:
    """A row a run; before them what all of them say, each model by the newest run that can tell."""
    above, _, rows = view.ask("/").body.partition('<tbody>\n<tr>\n<td class="sides">')
    for words in ("main agent", "structured data", "each model by its newest run that can tell"):
        assert words in above
    row = next(row for row in rows.split("<tr>") if ">before</a>" in row)
    for words in (MODEL, "core", "90% 9/10", "jobs not decided"):
        assert words in row, words


def test_pages_may_load_nothing_from_elsewhere(view: View) -> None:
    for path in ("/", "/history", "/compare?a=before&b=after", "/runs/before/live"):
        reply = view.ask(path)
        assert reply.status == 200
        assert reply.headers["Content-Security-Policy"].startswith(
            "default-src 'none'; style-src 'self'"
        )
        assert "http://" not in reply.body and "https://" not in reply.body
        assert view.base not in reply.body, (
            "a page that is saved and sent on must not hold the secret"
        )


def test_a_run_opens_as_its_report(view: View) -> None:
    reply = view.ask("/runs/before")
    assert (
        reply.status == 200 and "Content-Security-Policy" in reply.body and "before" in reply.body
    )


def test_a_report_leads_back_to_the_list_and_its_file_does_not(runs: Path, view: View) -> None:
    """Opened from the list it has a link to the list; the file that `report` writes stands alone. Both are known by
    the same hashes."""
    opened = view.ask("/runs/before").body
    assert clawgauge(runs, "report", "before", "-o", "alone.html").code == 0
    alone = (runs / "alone.html").read_text("utf-8")
    assert '<a href="../">← All runs</a>' in opened
    assert "All runs" not in alone

    def policy(page: str) -> str:
        found = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
        assert found is not None
        return found[1]

    assert policy(opened) == policy(alone) and "sha256-" in policy(opened)


def test_a_large_run_says_that_its_report_is_being_made_and_then_opens(tmp_path: Path) -> None:
    """Nobody looks at an empty window meanwhile: the page that comes first asks again by itself."""
    records = [record(f"P{n}", True, raw_output=f"{n} " * 15_000) for n in range(150)]
    prompts = [prompt(f"P{n}", category="json") for n in range(150)]
    write_run(tmp_path / "runs" / "large", records, config=config(prompts))
    with viewing(tmp_path) as view:
        while "Refresh" in (reply := view.ask("/runs/large")).headers:
            assert reply.status == 200 and "is being made" in reply.body
        assert "core/P149" in reply.body or "P149" in reply.body
        assert view.ask("/runs/large").body == reply.body


def test_two_runs_stand_beside_each_other_with_their_differences_marked(view: View) -> None:
    page = view.ask("/compare?a=before&b=after").body
    assert "core/P3" in page and "core/P5" in page and "<mark>" in page
    assert "<script>alert" not in page and "alert" in page
    for run in ("before", "after"):
        assert f'<a href="./runs/{run}">{run}</a>' in page, "each leads to its report"


def test_what_cannot_be_compared_is_said(runs: Path, view: View) -> None:
    other = [{**one, "prompt": "something else"} for one in PROMPTS]
    write_run(runs / "runs" / "other", [record(f"P{n}") for n in range(10)], config=config(other))
    write_run(runs / "runs" / "alien", [record("Q0")], config=config([prompt("Q0")]))
    assert "cannot be compared" in view.ask("/compare?a=before&b=other").body
    assert "no prompt in common" in view.ask("/compare?a=before&b=alien").body
    assert "two different runs" in view.ask("/compare?a=before&b=before").body


def test_history_has_a_picture(view: View) -> None:
    page = view.ask("/history").body
    assert "<svg" in page and MODEL in page


def test_a_port_that_is_taken_or_none_is_one_sentence(runs: Path, view: View) -> None:
    taken = clawgauge(runs, "view", "--no-open", "--port", str(view.place.port))
    assert (
        taken.code == 2
        and "choose another --port" in taken.stderr
        and taken.stderr.count("\n") == 1
    )
    assert clawgauge(runs, "view", "--port", "99999").code == 2


def test_a_folder_without_runs_says_how_to_make_one_and_it_ends_when_told_to(
    tmp_path: Path,
) -> None:
    with viewing(tmp_path) as view:
        assert "make one with clawgauge run" in view.ask("/").body
        view.process.send_signal(signal.SIGINT)
        assert view.process.wait(PATIENCE_S) == 130


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a name is text")
def test_a_folder_whose_name_is_no_text_hides_no_other(runs: Path, view: View) -> None:
    odd = write_run(
        runs / "runs" / os.fsdecode(b"odd\xff\xfe"), [record("P0")], config=config([prompt("P0")])
    )
    try:
        page = view.ask("/")
        assert page.status == 200 and "before" in page.body and "odd" in page.body
        assert 'href="runs/odd%FF%FE"' in page.body and view.ask("/runs/odd%FF%FE").status == 200
    finally:
        shutil.rmtree(odd)
