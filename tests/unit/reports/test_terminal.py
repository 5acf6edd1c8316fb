"""The summary in a terminal: what fits, what gives way, what is always said."""

from __future__ import annotations

import io
import re
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from clawgauge.reports.answer import choose, describe_models
from clawgauge.reports.clean import display_width, wrap
from clawgauge.reports.document import Column, Section, Table
from clawgauge.reports.summary import describe_ending, describe_summary
from clawgauge.reports.terminal import as_text, paint
from clawgauge.reports.words import find_answers
from clawgauge.summary import summarize_folder
from support.rows import every_row
from unit.summary.run_folders import config, failed, prompt, record, tool_record, write_run

from .test_markdown import write_agent_run, write_sample


def shown(folder, width=None):
    return as_text(describe_summary(summarize_folder(folder), verbose=True), width)


def table(text):
    """The lines of the models table: header, rule, one row a model."""
    lines = text.splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("of all:"))
    return lines[max(i for i in range(end) if lines[i].startswith("model ")) : end]


@every_row("width", [60, 80, 100, 120])
def test_nothing_is_wider_than_the_terminal(tmp_path, width):
    """Tables, paragraphs and failures with their hints keep within the terminal."""
    for write in (write_sample, write_agent_run):
        text = shown(write(tmp_path / write.__name__), width)
        assert max(map(len, text.splitlines())) <= width


def test_eighty_columns_keep_the_figures_that_matter(tmp_path):
    """In 80 columns a person still sees who answered, what passed of what, n, p50 and p95; models by their own name."""
    header, _, first, *_ = table(shown(write_sample(tmp_path / "run"), 80))
    assert header.split() == [
        "model",
        "answered",
        "passed",
        "of",
        "all",
        "n",
        "p50",
        "ms",
        "p95",
        "ms",
    ]
    assert " ".join(first.split()) == "llama3.2:3b 18/18 100% · 17/17 · 82–100% 17/17 18 204 211†"


def answer(folder, width):
    summary = summarize_folder(folder)
    return as_text([describe_models(summary.models, summary.jobs)], width)


@every_row("width", [None, 60, 80, 120])
def test_rows_line_up_on_a_stream_that_has_no_such_characters(width):
    """An escape is longer than what it stands for: it is measured as it will be shown."""
    names = ["通义千问:8b", "naïve", "日本語モデル→" * 4, "plain"]
    columns = [
        Column("model → n", narrow="name"),
        Column("B − A", "right"),
        Column("why", narrow="wrapped"),
    ]
    rows = [[name, "✓ 3", "a – b …"] for name in names]
    sections = [Section("×", [Table(columns, rows, legend={"✓": "✓ fit"}, ruled=True)])]
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    title, header, rule, *shown, legend = paint(
        as_text(sections, width, "ascii"), stream, {}
    ).splitlines()
    assert (
        f"{title} {header} {rule} {shown} {legend}".isascii()
        and legend == "+ fit"
        and len(shown) == len(names)
    )
    assert {line.index("+ 3") + 3 for line in shown} == {header.index("B - A") + 5}


@every_row("width", [60, 80, 100, 120, 200])
def test_a_name_keeps_what_tells_it_from_others(tmp_path, width):
    """A tag is part of a model's name in any width, and of a name too long for the table both ends are left."""
    names = [
        "llama3.2:3b",
        "hf.co/unsloth/Qwen3-14B-GGUF:Q4_K_M",
        "hf.co/unsloth/Qwen3-14B-GGUF:Q8_0",
        "通义千问:72b",
    ]
    text = answer(write_run(tmp_path / "run", [record("P0", model=name) for name in names]), width)
    shown_names = [line.split()[0] for line in text.splitlines()[2:6]]
    assert {"llama3.2:3b", "通义千问:72b"} < set(shown_names) and len(set(shown_names)) == 4
    assert {name[-4:] for name in shown_names} >= {"_K_M", "Q8_0"}
    assert max(map(display_width, text.splitlines())) <= width


def test_the_tier_has_room_in_eighty_columns(tmp_path):
    """Columns come back in where a wider one has left: marks stand close, and the tier is seen."""
    header = answer(write_agent_run(tmp_path / "run"), 80).splitlines()[0].split()
    assert {"tier", "pass", "tools", "tasks"} < set(header)


def test_a_caution_stands_in_the_row_of_its_model(tmp_path):
    """A mark beside the name, explained under the table; who has none has no mark."""
    text = answer(write_agent_run(tmp_path / "run"), 100)
    assert " ! " in text.splitlines()[2] and "! with a caution" in text
    assert "!" not in answer(write_sample(tmp_path / "sample"), 100)


def test_two_columns_of_long_names_keep_within_the_terminal():
    """Where the longest words of all columns have no room beside each other, they are folded."""
    columns = [Column("job"), Column("take", narrow="wrapped"), Column("why", narrow="wrapped")]
    names = [f"mistral-nemo:12b-instruct-2407-q4_{end}" for end in ("K_M", "0")]
    text = as_text(
        [Section("", [Table(columns, [["subagent with full tools", *names]], bare=True)])], 80
    )
    assert max(map(len, text.splitlines())) <= 80 and len(text.splitlines()) == 2


def test_wide_characters_are_counted_where_a_line_is_broken():
    """A name of ideographs takes two columns a character: no line of prose goes past the edge."""
    lines = wrap(
        f"  ollama:{'日本語モデル' * 2}: the model is being loaded and then some", 40
    ).splitlines()
    assert len(lines) > 1 and max(map(display_width, lines)) <= 40


def test_a_tie_of_many_says_how_many(tmp_path):
    """Three are named, the others counted; of four all are named."""

    def use(n):
        rows = [record(f"P{p}", model=f"m{m}") for m in range(n) for p in range(30)]
        plan = config([prompt(f"P{p}") for p in range(30)], [f"m{m}" for m in range(n)])
        plan["providers"] = {
            "ollama_openai": {"type": "ollama_openai", "base_url": "http://127.0.0.1:11434/v1"}
        }
        summary = summarize_folder(write_run(tmp_path / str(n), rows, config=plan))
        return next(
            choice.use for choice in choose(summary.jobs) if choice.job == "offline fallback"
        )

    assert use(4) == "m0, m1, m2 or m3" and use(6) == "m0, m1, m2 or 3 others"


def test_two_providers_of_one_model_keep_their_names_apart(tmp_path):
    """Where the model alone would not tell two rows apart, the provider stays."""
    rows = [record("P0", provider=provider) for provider in ("ollama_openai", "openai_chat")]
    text = "\n".join(table(shown(write_run(tmp_path / "run", rows), 80)))
    assert "ollama_openai:" in text and "openai_chat:" in text


def test_a_wide_terminal_shows_all(tmp_path):
    """Without a width every column is there and names are whole."""
    text = shown(write_sample(tmp_path / "run"))
    assert "\n".join(table(text)).count("ollama_openai:llama3.2:3b ") == 1
    assert all(word in table(text)[0] for word in ("p99 ms", "first token p95", "tok/s"))


def test_no_dagger_stands_where_calls_are_plenty(tmp_path):
    """And no legend of it."""
    plenty = write_run(tmp_path / "plenty", [record("P0", repeat=i) for i in range(368)])
    assert "†" not in shown(plenty, 100)


def test_a_command_in_prose_is_the_call_where_no_tool_is_offered(tmp_path):
    """Thirteen of thirteen called are not thirteen that only mentioned it."""
    named = {"name": "free", "arguments": {}, "channel": "mention", "valid": True}
    rows = [tool_record(f"T{i}", True) | {"tool_invocations": [named]} for i in range(13)]
    text = shown(write_run(tmp_path / "run", rows), 100)
    assert "13/13" in text and "13 in prose or code" in text and "mentioned" not in text


def test_the_run_that_would_tell_more_can_be_pasted(tmp_path):
    """One command for all models that could still be recommended, broken as a shell reads on; none where none is."""
    command = (
        "run:\n"
        "  clawgauge run -t ollama_openai:llama3.2:3b \\\n"
        "  -t ollama_openai:qwen3_8b \\\n"
        "  -s native_tools -s restraint -s agentic \\\n"
        "  -s core -s long_context\n"
    )
    assert command in shown(write_sample(tmp_path / "run"), 60)
    assert "  clawgauge run -t ollama_openai:llama3.2:3b -t ollama" in shown(
        write_sample(tmp_path / "wide"), 100
    )
    hopeless = [tool_record(f"T{i}", False, native=True) for i in range(13)]
    text = " ".join(shown(write_run(tmp_path / "hopeless", hopeless), 80).split())
    assert (
        "main agent, run" not in text
        and "subagent with full tools, run" not in text
        and "native calls 0 of 13 (Tier 3)" in text
    )


def test_repeats_say_what_they_are_worth(tmp_path):
    """Repeats of few prompts are told for what they are worth, beside the tier and under the table."""
    rows = [tool_record(f"T{p}", True, repeat=r) for p in range(3) for r in range(4)]
    plan = config([prompt(f"T{p}", "tool_use") for p in range(3)], options={"repeats": 4})
    text = " ".join(shown(write_run(tmp_path / "run", rows, config=plan), 100).split())
    assert "12 answers, but repeats are alike: as good as 3 independent ones" in text
    assert "over 3 prompts asked 4 times" in text


def test_the_ending_counts_what_is_missing_and_not_what_was_not_needed(tmp_path):
    """Cells left out after a decision are not called missing; failed ones are, with the command that asks again."""
    validator = {"type": "tool_invocation", "expected_tools": ["free"]}
    plan = config([prompt(f"T{i}", "tool_use", validator) for i in range(20)])
    detail = {"tier": 1, "not_asked": 6}
    event = {
        "event": "decided",
        "at_ms": 1,
        "target": "ollama_openai:llama3.2:3b",
        "detail": detail,
    }
    rows = [
        *(tool_record(f"T{i}", True) for i in range(13)),
        failed("T13", "error", "timeout", suite="tool_use"),
    ]
    summary = summarize_folder(write_run(tmp_path / "run", rows, config=plan, events=[event]))
    again = "clawgauge run --resume r"
    text = as_text(
        describe_ending(summary, None, Path("runs/r"), again, interrupted=False, verbose=True), 100
    )
    assert "1 call not answered; go on with:\n  clawgauge run --resume r" in text
    assert "not all was asked" not in text and "never asked" not in text
    assert "Tier 1 (decided); stopped early" in text and "To tell who is fit" in text
    # After Ctrl-C the one thing to do is to go on.
    stopped = as_text(describe_ending(summary, None, Path("runs/r"), again, interrupted=True), 100)
    assert f"go on with:\n  {again}" in stopped and "To tell who is fit" not in stopped


def test_what_was_never_asked_is_no_failure(tmp_path):
    """Three of five asked, all passed: that is 100%, and what is missing is said once, with the way to go on."""
    plan = config([prompt(f"P{i}") for i in range(5)])
    summary = summarize_folder(
        write_run(tmp_path / "run", [record(f"P{i}") for i in range(3)], config=plan)
    )
    text = as_text(
        describe_ending(
            summary, None, Path("runs/r"), "clawgauge run --resume r", interrupted=True
        ),
        120,
    )
    assert (
        "100% 3/3" in text and "3/5" not in text and "pass: of the prompts that were asked" in text
    )
    assert text.count("2 of 5 planned prompts were never asked") == text.count("never asked") == 1
    assert "not all was asked; go on with:\n  clawgauge run --resume r" in text
    (group,) = summary.models
    assert (group.n_asked_judged, group.n_scheduled_judged, group.pass_rate_scheduled) == (
        3,
        5,
        0.6,
    )
    answers = " ".join(
        found.answer + " ".join(found.notes) for found in find_answers(summary, Counter())
    )
    assert "llama3.2:3b, median" in answers and "3/3 of what was asked" in answers


def test_what_is_true_of_several_models_is_told_once(tmp_path):
    """A run that ended before its last three models says so in one line."""
    plan = config([prompt("P0")], models=("a", "b", "c", "d"))
    folder = write_run(tmp_path / "run", [record("P0", model="a")], config=plan)
    text = as_text(describe_summary(summarize_folder(folder)))
    assert (
        "ollama_openai:b, ollama_openai:c and ollama_openai:d: 1 of 1 planned prompt was never asked"
        in text
    )
    assert text.count("never asked") == 1


def glance(rows, width=None, **figures):
    """The line of each model by heading, with these figures of all of them; and the text."""
    with tempfile.TemporaryDirectory() as place:
        summary = summarize_folder(write_run(Path(place) / "run", rows))
    models = [msgspec.structs.replace(group, **figures) for group in summary.models]
    text = as_text([describe_models(models, summary.jobs)], width)
    heading, _, *lines = text.splitlines()
    return heading, {line.split()[0]: line for line in lines}, text


def test_memory_is_the_machines_and_only_where_the_model_ran_on_it(tmp_path):
    """A model of a vendor has none, and neither has one that did not answer."""
    rows = [record("P0", model="here"), record("P0", model="far", provider="openai_responses")]
    rows.append(failed("P0", "skipped_unavailable", "connection_refused", model="down"))
    heading, lines, text = glance(rows, peak_memory_bytes=2**33)
    assert (
        "machine" in heading
        and "memory" not in heading
        and "machine: the most memory in use on it" in text
    )
    assert ["8.0 GiB" in lines[name] for name in ("here", "far", "down")] == [True, False, False]


def test_who_answered_all_says_how_many_and_a_column_of_all_is_none(tmp_path):
    """No dash stands for the best there is."""
    whole = [record(f"P{i}", model="whole") for i in range(3)]
    assert "answered" not in glance(whole)[0]
    heading, lines, _ = glance(
        [*whole, record("P0", model="half"), failed("P1", "error", "timeout", model="half")]
    )
    assert "answered" in heading and " 3/3 " in lines["whole"] and " 1/2 " in lines["half"]


def test_a_narrow_terminal_keeps_what_decides_the_jobs_and_names_the_rest(tmp_path):
    """What passed always stays, tools and tasks longest of the rest; one line says what is left out, and how to see
    it."""
    text = as_text(describe_summary(summarize_folder(write_agent_run(tmp_path / "run"))), 80)
    heading = next(line for line in text.splitlines() if line.startswith("model "))
    assert heading.split()[-3:] == ["pass", "tools", "tasks"]
    told = " ".join(text.split())
    assert (
        "no room for" in told
        and " restraint" in told
        and "COLUMNS=200 before the command shows all" in told
    )
    assert "no room" not in as_text(describe_summary(summarize_folder(tmp_path / "run")), 200)


def test_what_is_free_of_charge_has_no_unknown_cost(tmp_path):
    """Beside a model that has a price, a local one is free; where nobody has one there is no column."""
    rows = [
        record("P0", model="paid", provider="openai_responses", cost_usd=0.25),
        record("P0", model="own"),
    ]
    heading, lines, _ = glance(rows)
    assert "cost" in heading and "$0.2500 a call" in lines["paid"] and " free" in lines["own"]
    assert "cost" not in glance(rows[1:])[0]


class Screen(io.StringIO):
    def isatty(self):
        return True


@every_row(
    ("stream", "environ", "coloured"),
    [
        (Screen(), {"TERM": "xterm"}, True),
        (Screen(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Screen(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_marks_have_a_colour_where_somebody_sees_it(tmp_path, stream, environ, coloured):
    """And say the same without: taking the colours out leaves the text as it was."""
    text = shown(write_sample(tmp_path / "run"), 80)
    painted = paint(text, stream, environ)
    assert ("\x1b[32m✓\x1b[0m" in painted) == coloured
    assert re.sub(r"\x1b\[\d+m", "", painted) == text
