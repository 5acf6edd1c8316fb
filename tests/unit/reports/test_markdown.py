"""summary.md as a person, and as a Markdown parser, finds it."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from clawgauge.journal import read_config
from clawgauge.reports.markdown import render_markdown
from clawgauge.summary import summarize_folder
from unit.summary.run_folders import T0, config, failed, prompt, record, tool_record, write_run

EXPECTED = Path(__file__).parents[2] / "data" / "summary_expected.md"
PARSER = MarkdownIt("commonmark").enable("table")
HOSTILE = "a|b`c`\n<script>x</script>\x1b[31m\u202e\\|漢字 *z* [l](javascript:x)"


def as_model(model, rows):
    return [row | {"model": model, "model_reported": row["model_reported"] and model} for row in rows]


def write_sample(folder):
    """Four models: decided Tier 1, provisional with repeats' worth of gaps, one never up, one not reached."""
    core, tools = [f"P{i}" for i in range(4)], [f"T{i}" for i in range(13)]
    prompts = [prompt(p) for p in core] + [prompt("P4", validator={"type": "noop"})]
    prompts += [prompt(p, "tool_use", {"type": "tool_invocation", "expected_tools": ["free"]}) for p in tools]
    good = [record(p, e2e_ms=100 + 20 * i, cold_start=i == 0) for i, p in enumerate([*core, "P4"])]
    good[4]["objective_pass"] = None
    good += [tool_record(p, True, e2e_ms=200 + i, ended_at_ms=T0 + 61_000) for i, p in enumerate(tools)]
    shaky = [record(p, objective_pass=i != 2, ttft_ms=None, finish_reason="length") for i, p in enumerate(core)]
    shaky += [tool_record(p, i != 0) for i, p in enumerate(tools[:6])]
    shaky += [failed(p, "error", "timeout", error="no answer within 300 s", suite="tool_use") for p in tools[6:9]]
    down = [failed(p, "skipped_unavailable", "connection_refused", error=f"refused | `{p}`") for p in core]
    usage = {"taken_at_ms": T0, "memory_used_bytes": 3 * 2**30, "load_1m": 0.42}
    detail = {"resources_before": usage, "resources_after": usage | {"load_1m": 1.5}, "peak_memory_bytes": 5 * 2**30}
    plan = config(
        prompts,
        models=("llama3.2:3b", "qwen3_8b", "down:1b", "later:7b"),
        providers={"ollama_openai": {"base_url": "http://127.0.0.1:11434/v1"}},
        suites=[
            {"name": name, "version": "1", "description": "", "n_prompts": n, "sha256": "0", "source": "builtin"}
            for name, n in (("core", 5), ("tool_use", 13))
        ],
    )
    rows = as_model("llama3.2:3b", good) + as_model("qwen3_8b", shaky) + as_model("down:1b", down)
    event = {"event": "target_finished", "at_ms": T0, "target": "ollama_openai:llama3.2:3b", "detail": detail}
    return write_run(folder, rows, config=plan, events=[event])


def render(folder):
    refill = "clawgauge run --resume 20260213_235930 --retry-errors"
    return render_markdown(summarize_folder(folder), read_config(folder), refill=refill)


def tables(text):
    """Every table of a document as a list of rows of cell texts, as a Markdown parser sees it."""
    found, row = [], []
    tokens = PARSER.parse(text)
    for i, token in enumerate(tokens):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_close":
            found[-1].append(row)
            row = []
        elif token.type in ("th_open", "td_open"):
            row.append("".join(child.content for child in tokens[i + 1].children))
    return found


def shown_width(line):
    """Terminal columns, reckoned here anew: wide characters two, marks and format characters none."""
    widths = {"W": 2, "F": 2}
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else widths.get(unicodedata.east_asian_width(c), 1)
        for c in line
    )


def test_snapshot(tmp_path):
    """summary.md of a run with a good, a shaky, an absent and an unreached model reads exactly as agreed."""
    assert render(write_sample(tmp_path / "run")) == EXPECTED.read_text(encoding="utf-8")


def test_hostile_names_and_errors_cannot_break_a_table(tmp_path):
    """Pipes, line breaks, back-ticks, HTML and controls in names and errors leave every column count alone."""
    rows = [
        record("P0", model=HOSTILE, model_reported=HOSTILE + "2", suite=HOSTILE, warnings=[HOSTILE]),
        failed("P1", "error", "http_500", model=HOSTILE, error=HOSTILE * 20),
        failed("P2", "error", HOSTILE, model=HOSTILE, provider="p|q"),
    ]
    text = render(write_run(tmp_path / "run|x", rows))
    clean = tables(render(write_run(tmp_path / "clean", [record("P0"), failed("P1", "error", "http_500")])))
    hostile = tables(text)
    assert [len(table[0]) for table in hostile] == [len(table[0]) for table in clean]
    assert all(len(row) == len(table[0]) for table in hostile for row in table)
    assert hostile[0][1][0].startswith("ollama_openai:a|b`c` <script>x</script>")
    assert not any(token.type in ("html_block", "html_inline") for token in PARSER.parse(text))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_columns_line_up_in_an_editor(tmp_path):
    """Every line of a table is equally wide, with East Asian names and combining marks in it."""
    rows = [record(model=model) for model in ("llama", "通义千问", "ｆｕｌｌ", "cafe\u0301", "👩‍💻")]
    blocks = re.findall(r"(?:^\|.*\n)+", render(write_run(tmp_path / "run", rows)), re.MULTILINE)
    assert len(blocks) == 4
    for block in blocks:
        assert len({shown_width(line) for line in block.splitlines()}) == 1


@pytest.mark.parametrize(
    ("n", "p95_marked", "p99_marked"), [(58, True, True), (59, False, True), (298, False, True), (299, False, False)]
)
def test_thin_percentiles_are_marked(tmp_path, n, p95_marked, p99_marked):
    """p95 under 59 calls and p99 under 299 carry a dagger, and not one call longer."""
    folder = write_run(tmp_path / "run", [record("P0", e2e_ms=i, repeat=i) for i in range(n)])
    header, row = tables(render(folder))[0]
    cells = dict(zip(header, row, strict=True))
    assert ("†" in cells["p95 ms"], "†" in cells["p99 ms"]) == (p95_marked, p99_marked)
    assert "†" not in cells["p50 ms"]


def test_every_rate_carries_its_n(tmp_path):
    """Success, pass rates and tier show k of n beside the per cent."""
    rows = [record("P0"), record("P1", objective_pass=False), tool_record("T0", True)]
    header, row = tables(render(write_run(tmp_path / "run", rows)))[0]
    cells = dict(zip(header, row, strict=True))
    assert cells["Success"] == "100% · 3/3"
    assert cells["Pass rate"].startswith("67% · 2/3 · ")
    assert cells["Tool tier"].startswith("1 (provisional) · 1/1")


def test_unreadable_lines_are_told(tmp_path):
    """A spoilt line in results.jsonl is mentioned to whoever reads the summary."""
    assert "1 line of results.jsonl could not be read" in render(write_run(tmp_path / "run", [record(), "{nonsense"]))


def test_a_run_without_failures_says_so(tmp_path):
    """The section on what was not answered never silently disappears."""
    assert "Every recorded cell was answered." in render(write_run(tmp_path / "run", [record()]))


def test_an_empty_run_renders(tmp_path):
    """A run with nothing recorded still has a title, tables and notes."""
    text = render(write_run(tmp_path / "run", []))
    assert text.startswith("# clawgauge run run\n")
    assert "0 models, 0 cells recorded" in text
