"""One run folder, every way to read it: the same pass rate, answers, tier and latency everywhere."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from support.command import Outcome, clawgauge
from support.kinds_of_runs import DEADLINE_MS, KINDS, Truth, in_context, share, write_kind
from support.written_runs import LABEL, MODEL, config, write_run


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Truth]:
    """A place with the run `one` and a copy of it, `two`."""
    folder = tmp_path / "runs" / "one"
    truth = write_kind(folder, request.param)
    shutil.copytree(folder, folder.with_name("two"))
    assert do(tmp_path, "summarize", "one").code == 0
    return tmp_path, truth


def do(place: Path, *words: str) -> Outcome:
    done = clawgauge(place, *words)
    assert done.code in (0, 5), done.stderr
    return done


def cell_of(text: str, name: str, heading: str) -> str:
    """A terminal's cell of the model `name`, under a heading that leans to the right as its cells do."""
    lines = text.splitlines()
    pattern = re.compile(rf"(?<! ) {{2,}}{re.escape(heading)}(?= {{2}}|$)")
    start, found = next(
        (n, found) for n, line in enumerate(lines) if (found := pattern.search(line))
    )
    line = next(line for line in lines[start + 1 :] if name in line)
    return re.split(r" {2,}", line[: found.end()])[-1]


def row_of(text: str, heading: str) -> dict[str, str]:
    """The first row of the Markdown table that has this heading."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if re.search(rf"\| *{heading} *\|", line))
    headings, _, cells = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[start : start + 3]
    )
    return {name: cell.replace("&gt;", ">") for name, cell in zip(headings, cells, strict=True)}


def test_the_terminal(run: tuple[Path, Truth]) -> None:
    place, truth = run
    shown = do(place, "show", "one").stdout
    assert cell_of(shown, MODEL, "pass") == "{} {}/{}".format(
        share(truth.passed_of_asked), *truth.passed_of_asked
    )
    assert cell_of(shown, MODEL, "p50 ms") == f"{truth.p50_ms:.0f}"
    assert cell_of(shown, MODEL, "p95 ms") == truth.p95
    assert cell_of(shown, MODEL, "tools") == "{}/{}".format(*truth.tools)
    assert cell_of(shown, MODEL, "tier").startswith("1")
    if truth.answered[0] < truth.answered[1]:
        assert cell_of(shown, MODEL, "answered") == "{}/{}".format(*truth.answered)
    detail = do(place, "show", "one", "-v").stdout.partition("of all")
    detail_text = detail[0].splitlines()[-1] + detail[1] + detail[2]
    rate = "{} · {}/{}".format(share(truth.passed), *truth.passed)
    assert cell_of(detail_text, LABEL, "passed").startswith(rate)
    assert cell_of(detail_text, LABEL, "of all") == "{}/{}".format(*truth.passed_of_asked)
    assert cell_of(detail_text, LABEL, "answered") == "{}/{}".format(*truth.answered)
    assert cell_of(detail_text, LABEL, "p50 ms") == f"{truth.p50_ms:.0f}"
    assert cell_of(detail_text, LABEL, "p95 ms") == truth.p95
    assert cell_of(detail_text, LABEL, "n") == str(truth.n_timed)


def test_summary_md(run: tuple[Path, Truth]) -> None:
    place, truth = run
    text = (place / "runs" / "one" / "summary.md").read_text("utf-8")
    models = row_of(text, "Pass of asked")
    assert models["Pass rate"].startswith("{} · {}/{}".format(share(truth.passed), *truth.passed))
    assert models["Pass of asked"] == "{} · {}/{}".format(
        share(truth.passed_of_asked), *truth.passed_of_asked
    )
    assert models["Answered"] == "{}/{}".format(*truth.answered)
    assert (
        models["Tool tier"].startswith("1") and "{}/{}".format(*truth.tools) in models["Tool tier"]
    )
    times = row_of(text, "Measure")
    assert times["n"] == str(truth.n_timed) and times["p50"].split()[0] == f"{truth.p50_ms:.0f}"
    assert times["p95"].startswith(truth.p95)
    suite = row_of(text.partition("## By suite")[2], "p95 ms")
    assert (
        suite["Suite"] == "core"
        and suite["p95 ms"] == truth.p95
        and suite["Pass rate"] == models["Pass rate"]
    )


def test_the_page(run: tuple[Path, Truth]) -> None:
    """What the scripts are handed, and what stands there without them; nothing else to reckon a rate from."""
    place, truth = run
    do(place, "report", "one", "-o", "page.html")
    text = (place / "page.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    (target,) = json.loads(found[1])["targets"]
    figures = target["figures"]
    for part in (figures, next(suite for suite in figures["suites"] if suite["suite"] == "core")):
        cells = part["cells"]
        assert cells["objective_pass_rate"]["counts"] == "{}/{}".format(*truth.passed)
        assert cells["objective_pass_rate"]["value"] == truth.passed[0] / truth.passed[1]
        assert cells["objective_pass_rate"]["percent"] == share(truth.passed)
        assert cells["passed_of_asked"]["counts"] == "{}/{}".format(*truth.passed_of_asked)
        assert int(cells["p50_ms"]["value"] + 0.5) == truth.p50_ms
        assert cells["n_timed"]["value"] == truth.n_timed
        if truth.p95_ms is None:
            assert cells["p95_ms"]["beyond"] and cells["p95_ms"]["text"] == truth.p95
        else:
            assert int(cells["p95_ms"]["value"] + 0.5) == truth.p95_ms
        assert part.keys() <= {
            "cells",
            "suites",
            "tier",
            "cost",
            "tellsServer",
            "suite",
            "categories",
        }
    assert figures["cells"]["answered"]["counts"] == "{}/{}".format(*truth.answered)
    assert figures["cells"]["tool_use_rate"]["counts"] == "{}/{}".format(*truth.tools)
    assert figures["tier"]["tier"] == 1
    assert "{} {}/{}".format(share(truth.passed_of_asked), *truth.passed_of_asked) in text


def test_summary_json_and_the_exported_rows(run: tuple[Path, Truth]) -> None:
    place, truth = run
    summary = json.loads(do(place, "show", "one", "--json").stdout)
    (group,) = summary["models"]
    assert (group["n_ok"], group["n_total"]) == truth.answered and group["tool_use"]["tier"] == 1
    (core,) = [suite for suite in group["suites"] if suite["suite"] == "core"]
    assert (core["n_passed"], core["n_judged"]) == truth.passed
    assert (core["n_passed"], core["n_asked_judged"]) == truth.passed_of_asked
    do(place, "export", "one", "--format", "jsonl", "-o", "rows.jsonl")
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_text("utf-8").splitlines()]
    bare = [row for row in rows if row["suite"] == "core"]
    assert sum(row["objective_pass"] is True for row in bare) == truth.passed[0]
    assert sum(row["availability_status"] == "ok" for row in rows) == truth.answered[0]


def test_history_compare_and_route(run: tuple[Path, Truth]) -> None:
    place, truth = run
    (trend,) = json.loads(do(place, "history", "--json").stdout)["trends"]
    point = trend["latest"]
    assert point["pass_rate"] == truth.passed[0] / truth.passed[1] and point["tier"] == 1
    assert (point["n_passed"], point["n_asked"]) == truth.passed_of_asked
    (pair,) = json.loads(do(place, "compare", "one", "two", "--json").stdout)["pairs"]
    figures = {figure["name"]: figure for figure in pair["figures"]}
    paired = pair["rates"]["objective_pass_rate"]
    assert figures["objective_pass_rate"]["a"] == truth.passed[0] / truth.passed[1]
    assert (paired["rate_a"], paired["n_trials_a"]) == (
        pytest.approx(truth.passed[0] / truth.passed[1]),
        truth.passed[1],
    )
    assert figures["n_ok"]["a"] == truth.answered[0] and figures["tier"]["a"] == 1
    routed = clawgauge(place, "route", "one")
    assert routed.code == 0, routed.stderr
    row = next(line for line in routed.stderr.splitlines() if line.strip().startswith(("1 ", "– ")))
    assert "{}/{}".format(*truth.passed_of_asked) in row and "{}/{}".format(*truth.tools) in row
    for shown in (figures["p95_ms"]["a"], point["p95_ms"]):
        assert shown == DEADLINE_MS if truth.p95_ms is None else int(shown + 0.5) == truth.p95_ms
    assert f"{truth.p95} (n={truth.n_timed})" in row


def test_the_context_has_a_row_of_its_own_in_a_comparison(tmp_path: Path) -> None:
    """What passed inside it is compared by itself, and moves no other rate and no time."""
    prompts, rows = in_context()
    plan = config(prompts)
    write_run(tmp_path / "runs" / "one", rows, config=plan)
    better = [
        row | {"objective_pass": True, "e2e_ms": 90} if row["suite"] != "core" else row
        for row in rows
    ]
    write_run(tmp_path / "runs" / "two", better, config=plan)
    (pair,) = json.loads(do(tmp_path, "compare", "one", "two", "--json").stdout)["pairs"]
    assert (
        pair["rates"]["objective_pass_rate"]["difference"] == 0 and pair["latency_ms"]["ratio"] == 1
    )
    inside = pair["rates"]["in_context"]
    assert (inside["rate_a"], inside["rate_b"], inside["verdict"]) == (0, 1, "changed")
    assert "in context" in do(tmp_path, "compare", "one", "two").stdout
