"""Every figure of the table, on every view: one value behind it, and the same figure to read."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.compare.findings import METRICS
from clawgauge.figures import (
    LOAD_FIGURES,
    MODEL_FIGURES,
    Amount,
    Percentile,
    Rate,
    Value,
    models,
    read_figure,
)
from clawgauge.records import GroupSummary, RunSummary, Target
from clawgauge.records.summary import CallBalance, CostSummary, RateWithInterval, TaskSummary
from clawgauge.reports import answer, capacity, summary
from clawgauge.reports.columns import ModelColumn
from clawgauge.reports.html import Survey, read_runs, render_report
from clawgauge.reports.html.figures import capacity_entry, model_figures
from clawgauge.reports.terminal import as_text
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder
from support.command import clawgauge
from support.kinds_of_runs import KINDS, write_kind
from support.rows import every_row
from support.runs_under_load import write_load
from support.view import viewing
from support.written_runs import config, write_run

from .test_figures_agree import do

# Fit whatever it did: its reasons name every figure that is weighed.
JOBS = {
    "all of it": {
        "weighs": {"latency": 1.0, "tools": 1.0, "passes": 1.0, "first_token": 1.0},
        "needs": [],
    }
}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for name in ("one", "two"):
        write_kind(tmp_path / "runs" / name, request.param, jobs=JOBS)
    return tmp_path


def read_model(place: Path) -> GroupSummary:
    """The one model of the run, as summary.json has it."""
    text = do(place, "show", "one", "--json").stdout
    (model,) = msgspec.json.decode(text, type=RunSummary).models
    return model


def page_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    page: dict[str, Any] = json.loads(found[1])
    return page


def is_shown(value: Value, text: str) -> bool:
    """Whether `text` is a way to write down the value, at the precision that it is written with."""
    if value.value is None or (isinstance(value, Rate) and not value.n):
        return text == "–"
    if isinstance(value, Rate):
        return f"{value.k}/{value.n}" in text.replace(",", "")
    if isinstance(value, Percentile) and value.is_beyond:
        return text == f"> {value.value / 1000:.{0 if value.value >= 10_000 else 1}f} s"
    shown = re.match(
        r"(?P<number>[\d.,]+) ?(?P<unit>s|ms|min|k?J|GiB|MiB|%)?",
        text.removeprefix("$").replace("<", ""),
    )
    if shown is None:
        return False
    number = shown["number"].replace(",", "").rstrip(".")
    factor = {"s": 1000.0, "kJ": 1000.0, "MiB": 2.0**20, "GiB": 2.0**30, "%": 0.01}.get(
        shown["unit"] or "", 1.0
    )
    digits = len(number.partition(".")[2])
    return abs(float(number) * factor - value.value) <= 0.500001 * 10**-digits * factor


def columns_of_tables() -> list[ModelColumn]:
    tables = (
        answer._FIGURES, summary._MODELS, summary._CALLS, summary._BESIDE_THE_TIER, summary._GLANCE, summary._RESOURCES,
    )  # fmt: skip
    return [column for table in tables for column in table]


def test_terminal_summary_md_and_page_show_the_same_value(place: Path) -> None:
    """Each figure on its own, whatever is shown beside it."""
    model = read_model(place)
    do(place, "report", "one", "-o", "page.html")
    (target,) = page_of((place / "page.html").read_text("utf-8"))["targets"]
    for name, cell in target["figures"]["cells"].items():
        value = read_figure(name, model)
        assert cell["value"] == value.value, name
        assert is_shown(value, cell["text"]), (name, cell)
    for column in columns_of_tables():
        value = read_figure(column.figure, model)
        assert is_shown(value, column.cell(model)), column
    for suite, part in zip(target["figures"]["suites"], model.suites, strict=True):
        for name, cell in suite["cells"].items():
            assert cell["value"] == read_figure(name, part).value, (suite["suite"], name)


def test_compare_gate_and_history_hold_the_same_value(place: Path) -> None:
    model = read_model(place)
    compared = clawgauge(place, "compare", "one", "two", "--json")
    (pair,) = json.loads(compared.stdout)["pairs"]
    for figure in pair["figures"]:
        value = read_figure(figure["name"], model)
        assert figure["a"] == figure["b"] == value.value, figure
        is_beyond = isinstance(value, Percentile) and value.is_beyond
        is_indicative = isinstance(value, Percentile) and value.is_indicative
        assert figure["beyond"] == (["a", "b"] if is_beyond else []), figure
        assert figure["indicative"] == (["a", "b"] if is_indicative else []), figure
    judged = (
        "objective_pass_rate",
        "tool_use_rate",
        "p50_ms",
        "p95_ms",
        "ttft_p50_ms",
        "output_tps_p50",
        "n_ok",
    )
    words = [word for name in judged for word in ("--fail-on", f"{name}>1e12")]
    for rule in json.loads(clawgauge(place, "compare", "one", "two", "--json", *words).stdout)[
        "rules"
    ]:
        assert rule["a"] == pytest.approx(
            read_figure(rule["rule"].partition(">")[0], model).value
        ), rule
    (trend,) = json.loads(do(place, "history", "--json").stdout)["trends"]
    point = trend["latest"]
    assert point["pass_rate"] == read_figure("objective_pass_rate", model).value
    assert (point["p50_ms"], point["p95_ms"]) == (
        read_figure("p50_ms", model).value,
        read_figure("p95_ms", model).value,
    )


def test_jobs_and_route_name_the_same_figures(place: Path) -> None:
    """The reason of a job that is weighed by them; and the table of a routing decision."""
    model = read_model(place)
    cells = model_figures(model)["cells"]
    jobs = {
        job["job"]: job for job in json.loads(do(place, "show", "one", "--json").stdout)["jobs"]
    }
    why = jobs["all of it"]["ranking"][0]["why"]
    p95 = cells["p95_ms"]["text"].removesuffix("†")
    if cells["p95_ms"]["beyond"]:
        p95 = "over 2 min 00 s"
    passed, tools, first = (
        cells[name] for name in ("objective_pass_rate", "tool_use_rate", "ttft_p50_ms")
    )
    assert why.split(", ") == [
        f"p95 {p95}",
        f"tools {tools['counts']}",
        f"passed {passed['counts']}",
        f"first token {first['text']}",
    ]
    routed = clawgauge(place, "route", "one").stderr
    row = next(line for line in routed.splitlines() if line.strip().startswith(("1 ", "– ")))
    for name in ("passed_of_asked", "tool_use_rate"):
        assert cells[name]["counts"] in row
    assert (
        f" {summary._GLANCE[5].cell(model).removesuffix('†')} (n={cells['n_timed']['value']})"
        in row
    )


def test_view_shows_the_same_page_and_the_same_history(place: Path) -> None:
    model = read_model(place)
    do(place, "report", "one", "-o", "page.html")
    (target,) = page_of((place / "page.html").read_text("utf-8"))["targets"]
    with viewing(place) as view:
        (viewed,) = page_of(view.ask("/runs/one").body)["targets"]
        history = view.ask("/history").body
        compared = view.ask("/compare?a=one&b=two").body
    assert viewed == target
    of_asked = read_figure("passed_of_asked", model)
    assert isinstance(of_asked, Rate) and f"{of_asked.k}/{of_asked.n}" in history
    answers = read_figure("objective_pass_rate", model)
    assert isinstance(answers, Rate) and f"(n={answers.n})" in compared


def test_export_adds_up_to_the_same_figures(place: Path) -> None:
    model = read_model(place)
    do(place, "export", "one", "--format", "jsonl", "-o", "rows.jsonl")
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_text("utf-8").splitlines()]
    assert (
        sum(row["availability_status"] == "ok" for row in rows) == read_figure("n_ok", model).value
    )
    assert (
        sum(row["output_tokens"] or 0 for row in rows) == read_figure("output_tokens", model).value
    )
    assert (
        sum(row["failure_type"] == "timeout" for row in rows)
        == read_figure("n_timeouts", model).value
    )
    bare = [row for row in rows if row["suite"] == "core"]
    passed = read_figure("objective_pass_rate", model)
    assert isinstance(passed, Rate)
    assert [row["objective_pass"] for row in bare].count(True) == passed.k
    tools = [
        row["tool_use_success"]
        for row in bare
        if row["expected_tools"] and row["availability_status"] == "ok"
    ]
    assert read_figure("tool_use_rate", model) == Rate.of(model.tool_use)
    assert (sum(tools), len(tools)) == (model.tool_use.k, model.tool_use.n)


class Noted(dict[str, Any]):
    """A table of figures that notes which of them were asked for."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__(table)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def test_no_figure_is_defined_that_nobody_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model that has all of them: each stands on a screen, on the page, or in what a gate may ask for."""
    write_kind(tmp_path / "run", KINDS[0])
    figures = Noted(MODEL_FIGURES)
    monkeypatch.setattr(models, "MODEL_FIGURES", figures)
    whole = summarize_folder(tmp_path / "run")
    (model,) = whole.models
    rate = RateWithInterval(n=10, k=9, rate=0.9, ci95=(0.6, 0.98), n_eff=10.0)
    everything = msgspec.structs.replace(
        model,
        latency_cold_ms=model.latency_all_ms or model.ttft_ms,
        latency_warm_ms=model.ttft_ms,
        ttfa_ms=msgspec.structs.replace(model.ttft_ms, n=7),
        server_ms={"load": model.ttft_ms},
        cost=CostSummary(n_priced=1, usd=1.0, per_call_usd=1.0, per_pass_usd=1.0),
        tasks=TaskSummary(n=10, k=9, rate=0.9, mean_turns=2.0, mean_tokens=30.0),
        agreement=rate,
        call_balance=CallBalance(n_call=1, k_call=1, n_no_call=1, k_no_call=1, rate=1.0),
    )
    shown = msgspec.structs.replace(whole, models=[everything])
    summary.render_markdown(shown)
    as_text(summary.describe_summary(shown, verbose=True))
    survey = Survey()
    (run,) = read_runs([tmp_path / "run"], survey)
    render_report(
        [dataclasses.replace(run, summary=shown)],
        survey,
        generated_at=datetime(2026, 2, 14, tzinfo=UTC),
    )
    assert figures.names | set(METRICS) == set(MODEL_FIGURES)


def test_every_figure_can_be_read_of_a_model_that_never_answered(tmp_path: Path) -> None:
    """Nothing measured is no figure, and no error."""
    prompts, _ = KINDS[0]()
    (model,) = summarize_folder(write_run(tmp_path / "run", [], config=config(prompts))).models
    for name in MODEL_FIGURES:
        assert not read_figure(name, model).value, name


def test_a_figure_nobody_defined_is_refused() -> None:
    with pytest.raises(KeyError):
        ModelColumn("p42_ms", "p42")


def test_an_unknown_column_of_a_stratum_is_refused(tmp_path: Path) -> None:
    """A column is named once; a name that is mistyped is an error and no empty figure."""
    from clawgauge.summary import Strata

    write_kind(tmp_path / "run", KINDS[0])
    strata = Strata()
    Run.open(tmp_path / "run").feed(strata)
    (group,) = strata.groups().values()
    mistyped: Any = "ttft"
    for read in (group.describe, group.total, group.prompt_times_ms):
        ask: Callable[[Any], Any] = read
        with pytest.raises((KeyError, ValueError)):
            ask(mistyped)


def test_a_capacity_run_reads_the_same_in_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    """Every figure of every step; one that lies among failures is only known to be longer, on both."""
    write_load(tmp_path / "runs" / "load", Target("ollama_openai", "qwen3:8b"), n_failed=20)
    done = do(tmp_path, "report", "load", "-o", "page.html")
    assert done.code in (0, 5)
    (run,) = page_of((tmp_path / "page.html").read_text("utf-8"))["runs"]
    (entry,) = summarize_folder(tmp_path / "runs" / "load").capacity
    (shown,) = run["capacity"]
    assert shown == json.loads(json.dumps(capacity_entry(entry)))
    terminal = do(tmp_path, "show", "load").stdout
    for step, on_page in zip(entry.steps, shown["steps"], strict=True):
        row = next(
            line for line in terminal.splitlines() if line.split()[:1] == [f"{step.level:g}"]
        )
        for column in capacity._COLUMNS:
            value = LOAD_FIGURES[column.figure].read(step)
            cell = column.cell(step)
            if column.figure in on_page["cells"]:
                assert on_page["cells"][column.figure]["value"] == value.value
                assert is_shown(value, on_page["cells"][column.figure]["text"]), column
            if cell != "–" and column.figure in (
                "n",
                "requests_per_s",
                "ttft_p50_ms",
                "ttft_p95_ms",
                "e2e_p95_ms",
            ):
                assert f" {cell}" in row, column
    last = shown["steps"][-1]["cells"]
    assert last["ttft_p95_ms"]["beyond"] and last["ttft_p95_ms"]["text"].startswith("> ")
    assert f" {last['ttft_p95_ms']['text']}" in terminal


@every_row(
    ("value", "text"),
    [(Amount(None), "–"), (Rate(0, 0), "–"), (Rate(5, 6), "83% 5/6"), (Percentile(9.5, 3), "10")],
)
def test_the_rule_of_these_tests_itself(value: Value, text: str) -> None:
    assert is_shown(value, text) and not is_shown(value, "7")
