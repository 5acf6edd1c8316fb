"""summary.md as a person, and as a Markdown parser, finds it."""

from __future__ import annotations

import re
import unicodedata

from markdown_it import MarkdownIt

from clawgauge.reports.summary import render_markdown
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder
from support.rows import every_row
from unit.summary.run_folders import (
    T0,
    config,
    failed,
    prompt,
    record,
    tool_record,
    write_run,
    write_subagent_run,
)

PARSER = MarkdownIt("commonmark").enable("table")
HOSTILE = "a|b`c`\n<script>x</script>\x1b[31m\u202e\\|漢字 *z* [l](javascript:x)"


def as_model(model, rows):
    return [
        row | {"model": model, "model_reported": row["model_reported"] and model} for row in rows
    ]


def write_sample(folder):
    """Four models: decided Tier 1, provisional with repeats' worth of gaps, one never up, one not reached."""
    core, tools = [f"P{i}" for i in range(4)], [f"T{i}" for i in range(13)]
    prompts = [prompt(p) for p in core] + [prompt("P4", validator={"type": "noop"})]
    prompts += [
        prompt(p, "tool_use", {"type": "tool_invocation", "expected_tools": ["free"]})
        for p in tools
    ]
    good = [record(p, e2e_ms=100 + 20 * i, cold_start=i == 0) for i, p in enumerate([*core, "P4"])]
    good[4]["objective_pass"] = None
    good += [
        tool_record(p, True, e2e_ms=200 + i, ended_at_ms=T0 + 61_000) for i, p in enumerate(tools)
    ]
    shaky = [
        record(p, objective_pass=i != 2, ttft_ms=None, finish_reason="length")
        for i, p in enumerate(core)
    ]
    shaky += [tool_record(p, i != 0) for i, p in enumerate(tools[:6])]
    shaky += [
        failed(p, "error", "timeout", error="no answer within 300 s", suite="tool_use")
        for p in tools[6:9]
    ]
    down = [
        failed(p, "skipped_unavailable", "connection_refused", error=f"refused | `{p}`")
        for p in core
    ]
    down = [down[0], *({**row, "attempts": [], "asked": False} for row in down[1:])]
    usage = {"taken_at_ms": T0, "memory_used_bytes": 3 * 2**30, "load_1m": 0.42}
    detail = {
        "resources_before": usage,
        "resources_after": usage | {"load_1m": 1.5},
        "peak_memory_bytes": 5 * 2**30,
    }
    plan = config(
        prompts,
        models=("llama3.2:3b", "qwen3_8b", "down:1b", "later:7b"),
        providers={"ollama_openai": {"base_url": "http://127.0.0.1:11434/v1"}},
        suites=[
            {
                "name": name,
                "version": "1",
                "description": "",
                "n_prompts": n,
                "sha256": "0",
                "source": "builtin",
            }
            for name, n in (("core", 5), ("tool_use", 13))
        ],
    )
    rows = as_model("llama3.2:3b", good) + as_model("qwen3_8b", shaky) + as_model("down:1b", down)
    event = {
        "event": "target_finished",
        "at_ms": T0,
        "target": "ollama_openai:llama3.2:3b",
        "detail": detail,
    }
    return write_run(folder, rows, config=plan, events=[event])


def write_agent_run(folder):
    """One model on prompts that offer tools: a wrong argument, a call too many, one task done, a late loop."""
    call = {"type": "tool_call", "expected_calls": [{"name": "free"}]}
    prompts = [prompt(f"N{i}", "agent", call) for i in range(14)]
    prompts += [prompt(f"R{i}", "agent", {"type": "tool_call", "no_call": True}) for i in range(2)]
    prompts.append(prompt("W0", "tasks", {"type": "world_state", "expect": []}))
    rows = [
        tool_record(f"N{i}", True, native=True, suite="agent", objective_pass=i > 0)
        for i in range(14)
    ]
    waits = [{"status": "error", "failure_type": "http_503", "e2e_ms": 1, "waited_ms": 700}]
    rows[0]["attempts"] = [*waits, {"status": "ok", "failure_type": None, "e2e_ms": 100}]
    rows[1]["timings_us"] = {
        "e2e": 100_000,
        "ttft": 20_000,
        "ttfa": 25_000,
        "connect": None,
        "lag": 2_000,
    }
    channels = {"R0": "native", "R1": "none"}
    rows += [
        record(
            p,
            suite="agent",
            tools_offered=True,
            tool_channel=channel,
            objective_pass=channel == "none",
        )
        for p, channel in channels.items()
    ]
    rows.append(record("W0", suite="tasks", tools_offered=True, turns=4, output_tokens=120))
    clock = {"resolution_ns": 1, "client_cpu_s": 0.8, "cores": 2, "load_1m": 5.1}
    event = {
        "event": "target_finished",
        "at_ms": T0,
        "target": "ollama_openai:llama3.2:3b",
        "detail": {"clock": clock},
    }
    return write_run(folder, rows, config=config(prompts), events=[event])


def render(folder):
    refill = "clawgauge run --resume 20260213_235930 --retry-errors"
    return render_markdown(summarize_folder(folder), Run.open(folder).config, refill=refill)


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
        0
        if unicodedata.category(c) in ("Mn", "Me", "Cf")
        else widths.get(unicodedata.east_asian_width(c), 1)
        for c in line
    )


def test_hostile_names_and_errors_cannot_break_a_table(tmp_path):
    """Pipes, line breaks, back-ticks, HTML and controls in names and errors leave every column count alone."""
    rows = [
        record(
            "P0", model=HOSTILE, model_reported=HOSTILE + "2", suite=HOSTILE, warnings=[HOSTILE]
        ),
        failed("P1", "error", "http_500", model=HOSTILE, error=HOSTILE * 20),
        failed("P2", "error", HOSTILE, model=HOSTILE, provider="p|q"),
    ]
    text = render(write_run(tmp_path / "run|x", rows))
    clean = tables(
        render(write_run(tmp_path / "clean", [record("P0"), failed("P1", "error", "http_500")]))
    )
    hostile = tables(text)
    assert [len(table[0]) for table in hostile] == [len(table[0]) for table in clean]
    assert all(len(row) == len(table[0]) for table in hostile for row in table)
    assert hostile[1][1][0].startswith("ollama_openai:a|b`c` <script>x</script>")
    assert not any(token.type in ("html_block", "html_inline") for token in PARSER.parse(text))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_columns_line_up_in_an_editor(tmp_path):
    """Every line of a table is equally wide, with East Asian names and combining marks in it."""
    rows = [
        record(model=model) for model in ("llama", "通义千问", "ｆｕｌｌ", "cafe\u0301", "👩‍💻")
    ]
    blocks = re.findall(r"(?:^\|.*\n)+", render(write_run(tmp_path / "run", rows)), re.MULTILINE)
    assert len(blocks) == 6
    for block in blocks:
        assert len({shown_width(line) for line in block.splitlines()}) == 1


def section(folder, heading):
    """The rows of one section's table as dictionaries."""
    text = render(folder).partition(f"## {heading}\n")[2].partition("\n## ")[0]
    (table,) = tables(text)
    return [dict(zip(table[0], row, strict=True)) for row in table[1:]]


@every_row(
    ("n", "p95_marked", "p99_marked"),
    [(71, True, True), (72, False, True), (367, False, True), (368, False, False)],
)
def test_thin_percentiles_are_marked(tmp_path, n, p95_marked, p99_marked):
    """p95 under 72 calls and p99 under 368 carry a dagger, and not one call longer; n stands beside them."""
    folder = write_run(tmp_path / "run", [record("P0", e2e_ms=i, repeat=i) for i in range(n)])
    whole = section(folder, "Times")[0]
    assert ("†" in whole["p95"], "†" in whole["p99"]) == (p95_marked, p99_marked)
    assert "†" not in whole["p50"] and whole["n"] == str(n)
    assert ("†" in section(folder, "By suite")[0]["p95 ms"]) == p95_marked


def test_every_rate_carries_its_n(tmp_path):
    """Success, both pass rates and the tier show k of n beside the per cent."""
    rows = [record("P0"), record("P1", objective_pass=False), tool_record("T0", True)]
    (cells,) = section(write_run(tmp_path / "run", rows), "Models")
    assert cells["Success"] == "100% · 3/3"
    assert cells["Pass rate"].startswith("67% · 2/3 · ")
    assert cells["Pass of asked"] == "67% · 2/3"
    assert cells["Tool tier"] == "1 (provisional) · 1/1"


def test_times_stand_with_their_intervals_and_timeouts(tmp_path):
    """Cold and warm calls apart, each percentile with its interval, the timeouts beside every row."""
    rows = [record("P0", e2e_ms=5000, cold_start=True)]
    rows += [record("P1", e2e_ms=100 + i, repeat=i, cold_start=False) for i in range(20)]
    rows += [failed("P2", "error", "timeout", repeat=i) for i in range(2)]
    by_measure = {
        row["Measure"]: row for row in section(write_run(tmp_path / "run", rows), "Times")
    }
    assert by_measure["whole call, ms"]["n"] == "23"
    assert (by_measure["· cold, ms"]["n"], by_measure["· cold, ms"]["p50"]) == ("1", "5000")
    assert by_measure["· warm, ms"]["p50"] == "110 (105–114)"
    assert {row["Timeouts"] for row in by_measure.values()} == {"2"}
    assert list(by_measure)[-1] == "tokens/s"


def test_who_is_recommended_stands_first(tmp_path):
    """In the words of the report; beside its tier, what a model of Tier 1 lacks where there is something."""
    able = "Who may be a subagent? llama3.2:3b: recommended for subagents with full tool access."
    assert able in render(write_subagent_run(tmp_path / "able"))
    lacking = "right arguments 13 of 14 (at least 69%, needs 70%); restraint 1 of 2"
    text = render(write_agent_run(tmp_path / "run"))
    assert f"    - not yet recommended for subagents with full tool access: {lacking}" in text


def test_rates_by_category_are_a_table_where_there_are_several(tmp_path):
    """And what stands beside the tier has no table where nothing of it was measured."""
    kinds = [prompt("P0") | {"category": "4k"}, prompt("P1") | {"category": "16k"}]
    rows = section(
        write_run(tmp_path / "kinds", [record("P0"), record("P1")], config=config(kinds)),
        "By category",
    )
    assert [(row["Suite"], row["Category"], row["Pass rate"][:10]) for row in rows] == [
        ("core", "4k", "100% · 1/1"),
        ("core", "16k", "100% · 1/1"),
    ]
    assert "Beside the tier" not in render(write_run(tmp_path / "plain", [record()]))


def test_a_choice_of_prompts_is_told(tmp_path):
    """Where only some prompts of a suite were asked, the set-up line does not claim the whole suite."""
    suites = [
        {
            "name": "core",
            "version": "1",
            "description": "",
            "n_prompts": 20,
            "sha256": "0",
            "source": "builtin",
        },
    ]
    plan = config([prompt("P0"), prompt("P1")], suites=suites, options={"prompt_ids": ["P0", "P1"]})
    assert "core 1 (2 of 20 prompts)" in render(
        write_run(tmp_path / "run", [record("P0")], config=plan)
    )


def test_stopping_early_is_told(tmp_path):
    """A tier reached by stopping early says so in its cell and in the notes, and shows the interval that then holds."""
    validator = {"type": "tool_invocation", "expected_tools": ["free"]}
    plan = config(
        [prompt(f"T{i}", "tool_use", validator) for i in range(20)], options={"until_decided": True}
    )
    event = {
        "event": "decided", "at_ms": T0, "target": "ollama_openai:llama3.2:3b", "detail": {"tier": 1, "not_asked": 7},
    }  # fmt: skip
    folder = write_run(
        tmp_path / "run",
        [tool_record(f"T{i}", True) for i in range(13)],
        config=plan,
        events=[event],
    )
    (models,) = section(folder, "Models")
    assert models["Tool tier"] == "1 (decided, stopped early) · 13/13"
    assert (models["Pass rate"], models["Answered"]) == ("100% · 13/13 · 67–100%", "13/13")
    assert section(folder, "Tool use")[0]["Answers with a call"] == "100% · 13/13 · 67–100%"
    assert "7 prompts were not needed" in render(
        folder
    ) and "stopped when a tier was decided" in render(folder)


def test_repeats_are_told(tmp_path):
    """Under repeats the chance that one try passes, and that all do, is said with how many prompts it rests on."""
    rows = [
        record(f"P{p}", repeat=r, objective_pass=p == 0 or r == 0)
        for p in range(2)
        for r in range(2)
    ]
    plan = config([prompt("P0"), prompt("P1")], options={"repeats": 2})
    text = render(write_run(tmp_path / "run", rows, config=plan))
    assert (
        "over 2 prompts asked 2 times, one of 2 passes in 100% (pass@2), all 2 in 50% (pass^2)."
        in text
    )


def test_unreadable_lines_are_told(tmp_path):
    """A spoilt line in results.jsonl is mentioned to whoever reads the summary."""
    assert "1 line of results.jsonl could not be read" in render(
        write_run(tmp_path / "run", [record(), "{nonsense"])
    )


def test_a_run_without_failures_says_so(tmp_path):
    """The section on what was not answered never silently disappears."""
    assert "Every recorded prompt was answered." in render(write_run(tmp_path / "run", [record()]))


def test_an_empty_run_renders(tmp_path):
    """A run with nothing recorded still has a title, tables and notes."""
    text = render(write_run(tmp_path / "run", []))
    assert text.startswith("# clawgauge run run\n")
    assert "0 models · 0 calls" in text and "This run recorded no call." in text
