"""Figures and counts as a person reads them: the same in every report."""

from __future__ import annotations

from collections import Counter

from clawgauge import words
from clawgauge.journal import iter_results
from clawgauge.records import CostSummary, Repeatability, RunOptions
from clawgauge.reports.html.calls import CallColumns
from clawgauge.reports.html.texts import TextStore
from clawgauge.reports.summary import describe_summary, render_markdown, word_money, word_repeats
from clawgauge.reports.terminal import as_text
from clawgauge.reports.words import find_answers, short_names, word_options
from clawgauge.summary import summarize_folder
from clawgauge.words import (
    cut_text,
    format_latency,
    format_money,
    format_percent,
    list_names,
    plural,
    rounded,
    word_p,
)
from support.rows import every_row
from unit.summary.run_folders import record, write_run


@every_row(
    ("usd", "shown"),
    [(0, "$0"), (0.000012, "$0.000012"), (0.0041, "$0.0041"), (0.132, "$0.1320"), (12.3, "$12.30")],
)
def test_money_is_never_rounded_to_nothing(usd: float, shown: str) -> None:
    """Small sums get the digits they need; what is free is nothing."""
    assert format_money(usd) == shown
    assert f"{shown} a call" in word_money(
        CostSummary(usd=1, per_call_usd=usd, per_pass_usd=None, n_priced=3)
    )


@every_row(("p", "shown"), [(0.00002, "p < 0.001"), (0.004, "p = 0.004"), (0.5, "p = 0.50")])
def test_a_p_value_reads_as_one(p: float, shown: str) -> None:
    """Never `p = <0.001`, never 0."""
    assert word_p(p) == shown


def test_repeats_of_nothing_are_not_told() -> None:
    """Where no prompt was judged that often there is no sentence."""
    assert word_repeats(Repeatability(k=2, n_prompts=0, pass_at_k=None, pass_hat_k=None)) == ""


def test_one_is_not_many() -> None:
    """One call, two calls; one more character; nothing is not at most 0."""
    assert (plural(1, "call"), plural(2, "call"), plural(1, "retry", "retries")) == (
        "1 call",
        "2 calls",
        "1 retry",
    )
    assert word_options(RunOptions(max_retries=0)).endswith(", no retries")
    assert cut_text("abc", 2) == "ab\n… 1 more character" and cut_text("ab", 2) == "ab"


@every_row(
    ("n", "shown"),
    [(0, ""), (1, "a"), (2, "a and b"), (3, "a, b and c"), (5, "a, b, c and 2 more")],
)
def test_names_are_listed_up_to_a_point(n: int, shown: str) -> None:
    """The last with `and`; what is left out is counted."""
    assert list_names("abcde"[:n], 3) == shown


def test_a_half_goes_up_as_in_the_page() -> None:
    """A browser rounds 140.5 to 141: so does the terminal."""
    assert (rounded(140.5), rounded(141.5), rounded(0.25, 1), format_percent(0.125)) == (
        "141",
        "142",
        "0.3",
        "13%",
    )
    assert (format_latency(8.46), format_latency(140.5), format_latency(1500)) == (
        "8.5 ms",
        "141 ms",
        "1.50 s",
    )


def test_one_call_takes_the_same_time_everywhere(tmp_path) -> None:
    """141.46 ms are recorded as 141 ms, and the page must not make 142 of them; tenths are for the very short."""
    timings = {"e2e": 141_460, "ttft": 8_440, "ttfa": None, "connect": None, "lag": None}
    folder = write_run(tmp_path / "run", [record("P0", e2e_ms=141, ttft_ms=8, timings_us=timings)])
    columns = CallColumns(TextStore())
    for result in iter_results(folder):
        columns.add(result, 0, 0, sampled=True)
    shown = columns.as_json()["columns"]
    assert (shown["e2e"], shown["ttft"]) == ({"every": 141}, {"every": 8.4})


def test_all_reports_name_the_same_fastest_model(tmp_path) -> None:
    """A quick model that fails is the fastest in no report."""
    quick = [
        record(f"P{i}", model="quick", e2e_ms=50, objective_pass=False, violation="v: x")
        for i in range(4)
    ]
    good = [record(f"P{i}", model="good", e2e_ms=1500) for i in range(4)]
    summary = summarize_folder(write_run(tmp_path / "run", quick + good))
    _, fastest, _ = find_answers(summary, Counter())
    assert fastest.answer == "good, median 1.50 s over 4 calls."
    assert f"{fastest.question} {fastest.answer}" in render_markdown(summary)


def test_what_is_worth_knowing_is_broken_between_words(tmp_path) -> None:
    """On a terminal no line is wider than it, and no word is cut; for a pipe each is one line."""
    rows = [record("P0", warnings=["odd: " + "wording " * 30])]
    summary = summarize_folder(write_run(tmp_path / "run", rows))
    texts = [as_text(describe_summary(summary), width) for width in (60, None)]
    narrow, piped = (text.partition("worth knowing\n")[2].partition("\n\n")[0] for text in texts)
    assert max(map(len, narrow.splitlines())) <= 60 and len(narrow.splitlines()) > len(
        piped.splitlines()
    )
    assert narrow.split() == piped.split()


def test_one_of_one_is_no_plural():
    """What is counted agrees with its number, in points of a rate too."""
    moved = {0.01: "+1 point", -0.0101: "-1 point", 0.0: "+0 points", 0.12: "+12 points"}
    assert {share: words.in_points(share) for share in moved} == moved
    assert words.word_unasked(0, 1) == "1 of 1 planned prompt was never asked"
    assert words.word_unasked(1, 3) == "2 of 3 planned prompts were never asked"


def test_a_model_file_is_shown_by_its_file_name() -> None:
    """Unless two are called alike in two folders: then their paths tell them apart."""
    one, other, same = (
        "embedded:/home/me/models/Qwen3-4B-Q4_K_M.gguf",
        "embedded:C:\\models\\tiny.GGUF@low",
        "embedded:/mnt/old/Qwen3-4B-Q4_K_M.gguf",
    )
    assert short_names([one, other]) == {
        one: "Qwen3-4B-Q4_K_M.gguf",
        other: "tiny.GGUF@low",
    }
    assert short_names([one, same]) == {one: one, same: same}
    assert short_names(["ollama:org/qwen3:8b"]) == {"ollama:org/qwen3:8b": "org/qwen3:8b"}
