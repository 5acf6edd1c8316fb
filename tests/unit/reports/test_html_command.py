"""`clawgauge report` as a user runs it."""

from __future__ import annotations

from support.command import clawgauge
from support.sample_runs import write_sample_run
from unit.summary.run_folders import record, write_run


def test_the_file_goes_into_the_run_folder(tmp_path):
    """Without -o the page is report.html in the run folder; its path is all that is printed."""
    write_sample_run(tmp_path / "runs" / "one")
    done = clawgauge(tmp_path, "report", "latest")
    assert (done.code, done.stdout, done.stderr) == (0, "runs/one/report.html\n", "")
    assert (
        (tmp_path / "runs/one/report.html")
        .read_text(encoding="utf-8")
        .startswith("<!doctype html>")
    )
    assert {path.name for path in (tmp_path / "runs/one").iterdir()} == {
        "config.json",
        "results.jsonl",
        "report.html",
    }


def test_several_runs_in_a_file_of_choice(tmp_path):
    """Two runs named, one of them twice, make one page where -o says."""
    for name in ("one", "two"):
        write_sample_run(tmp_path / "runs" / name, run_id=name)
    done = clawgauge(tmp_path, "report", "one", "runs/two", "one", "-o", "both.html")
    assert (done.code, done.stdout) == (0, "both.html\n")
    assert "<title>clawgauge · one, two</title>" in (tmp_path / "both.html").read_text(
        encoding="utf-8"
    )
    assert not (tmp_path / "runs/one/report.html").exists()


def test_the_page_on_stdout(tmp_path):
    """-o - writes the page itself, in UTF-8 whatever the terminal speaks."""
    write_sample_run(tmp_path / "runs" / "one")
    done = clawgauge(tmp_path, "report", "one", "-o", "-", env={"PYTHONIOENCODING": "latin-1"})
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("<!doctype html>") and "clawgauge ·" in done.stdout


def test_a_place_that_cannot_be_written(tmp_path):
    """A folder that is not there is a wrong request, said in one sentence; no half file is left."""
    write_sample_run(tmp_path / "runs" / "one")
    done = clawgauge(tmp_path, "report", "one", "-o", "nowhere/page.html")
    assert done.code == 2 and "nowhere/page.html" in done.stderr and done.stderr.count("\n") == 1


def test_a_link_stays_a_link(tmp_path):
    """Where -o names a link, the file behind it is replaced."""
    write_sample_run(tmp_path / "runs" / "one")
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    assert clawgauge(tmp_path, "report", "one", "-o", "link.html").code == 0
    assert (tmp_path / "link.html").is_symlink() and (
        tmp_path / "real.html"
    ).read_text().startswith("<!doctype")


def test_unreadable_lines_end_in_exit_code_5(tmp_path):
    """A spoilt line is told, and the page is made of the others."""
    write_run(tmp_path / "runs" / "one", [record(), "{nonsense"])
    done = clawgauge(tmp_path, "report", "one")
    assert done.code == 5 and "1 line of results.jsonl could not be read" in done.stderr
    assert (tmp_path / "runs/one/report.html").exists()


def test_a_run_that_is_not_there(tmp_path):
    """An unknown run is refused before anything is written."""
    done = clawgauge(tmp_path, "report", "nobody", "-o", "page.html")
    assert done.code == 2 and "nobody" in done.stderr and not (tmp_path / "page.html").exists()


def test_without_a_run_it_is_the_newest_and_a_browser_opens_it(tmp_path):
    """BROWSER names a program, as everywhere: it is given the file's address."""
    write_run(tmp_path / "runs" / "one", [record()])
    opened = tmp_path / "opened"
    program = tmp_path / "look"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    program.chmod(0o755)
    done = clawgauge(tmp_path, "report", "--open", env={"BROWSER": str(program)})
    assert done.code == 0 and (tmp_path / "runs" / "one" / "report.html").exists()
    assert (
        opened.read_text() == f"{(tmp_path / 'runs' / 'one' / 'report.html').resolve().as_uri()}\n"
    )
    for verb in ("export", "summarize", "rescore --dry-run"):
        assert clawgauge(tmp_path, *verb.split()).code in (0, 2), verb
