"""A comparison in a terminal."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clawgauge.compare.comparison import ComparisonOptions, compare_runs
from clawgauge.compare.findings import Comparison, PairedRate
from clawgauge.reports.compare import RATE_TITLES, SHIFT_TITLES, describe_comparison, say_overall
from clawgauge.reports.terminal import as_text
from support.written_runs import T0, config, prompt, record, unanswered, write_run

IDS = [f"P{n}" for n in range(120)]
PLAN = config([prompt(i) for i in IDS])
MOODS = (0.99, 1.0, 1.01)
SIDES = (("a", 1, 100), ("b", 3, 70))


@pytest.fixture
def wide(tmp_path: Path) -> Comparison:
    """Figures of five digits and more on both sides."""

    def write(name: str, factor: float, n_passed: int) -> Path:
        times = {"ttft_ms": round(9_000 * factor), "output_tokens": round(20_000 * factor)}
        lines = [
            record(i, n < n_passed, e2e_ms=round((50_000 + 97 * n) * factor), **times)
            for n, i in enumerate(IDS)
        ]
        day = MOODS.index(float(name[1:])) + (10 if name.startswith("b") else 0)
        plan = PLAN | {"created_at_ms": T0 + day * 86_400_000}
        return write_run(tmp_path / name, lines, config=plan)

    sides = [
        [write(f"{side}{mood}", mood * factor, n) for mood in MOODS] for side, factor, n in SIDES
    ]
    return compare_runs(*sides, ComparisonOptions())


@pytest.mark.parametrize("width", [80, 72])
def test_the_table_fits_a_narrow_terminal(wide: Comparison, width: int) -> None:
    """No interval is broken, no mark stands alone, and what is not there is not explained but named."""
    shown = as_text(describe_comparison(wide), width)
    table = shown.split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= width
    assert all(line.count("[") == line.count("]") for line in table) and "†" not in shown.split()
    assert "sees: the smallest" not in shown and "no room for sees" in shown
    assert "120 pairs" in shown and "+200% [+193, +207]" in shown


def test_the_table_stays_in_one_line_a_figure_where_there_is_room(wide: Comparison) -> None:
    """A wide terminal has each figure with its interval in one line."""
    (line,) = [
        line for line in as_text(describe_comparison(wide), 140).splitlines() if "latency " in line
    ]
    assert "120 pairs" in line and "[" in line and "+200%" in line


def test_the_change_of_the_pairs_stands_beside_no_medians_that_could_belie_it(
    tmp_path: Path,
) -> None:
    """Two prompts of three fall while the medians of both sides rise: one change is shown, and what it is is said."""
    plan = config([prompt(i) for i in IDS[:3]])
    sides = [(100, 200, 300), (90, 280, 210)]
    folders = [
        write_run(
            tmp_path / name,
            [record(i, e2e_ms=ms) for i, ms in zip(IDS, times, strict=False)],
            config=plan,
        )
        for name, times in zip("ab", sides, strict=True)
    ]
    shown = as_text(describe_comparison(compare_runs(*folders, ComparisonOptions())), 120)
    (line,) = [line for line in shown.splitlines() if "3 pairs" in line and "latency" in line]
    assert (
        "-10%" in line
        and "ms" not in line
        and shown.count("prompt by prompt, the median of B against A") == 1
    )


@pytest.mark.parametrize(
    "lost",
    [{"failure_type": "http_500"}, {"availability_status": "ok", "failure_type": "empty_response"}],
)
@pytest.mark.parametrize(
    ("n_a", "n_b", "marked"), [(72, 72, False), (72, 71, True), (71, 72, True)]
)
def test_a_tail_from_few_calls_is_marked(
    tmp_path: Path, n_a: int, n_b: int, marked: bool, lost: dict[str, Any]
) -> None:
    """A p95 that fewer than 72 timed calls of either side stand behind carries the mark, and the mark is explained."""
    prompts = config([prompt(i) for i in IDS[:72]])

    def write(name: str, n: int) -> Path:
        lines = [record(i) if k < n else unanswered(i, **lost) for k, i in enumerate(IDS[:72])]
        return write_run(tmp_path / name, lines, config=prompts)

    a, b = write("a", n_a), write("b", n_b)
    shown = as_text(describe_comparison(compare_runs(a, b, ComparisonOptions())), 140)
    (line,) = [line for line in shown.splitlines() if line.strip().startswith("p95")]
    assert ("†" in line) is marked
    assert ("indicative only: p95 under 72 calls" in shown) is marked


def compare_shares(
    tmp_path: Path, passes_a: Sequence[bool], passes_b: Sequence[bool]
) -> Comparison:
    """Two runs of plain prompts and as many tasks, with these verdicts each."""
    n = len(passes_a)
    tasks = [
        prompt(f"W{k}", "tasks", validator={"type": "world_state", "expect": []}) for k in range(n)
    ]
    plan = config([*(prompt(f"P{k}") for k in range(n)), *tasks])
    folders = []
    for name, passes in (("a", passes_a), ("b", passes_b)):
        lines = [record(f"P{k}") for k in range(n)]
        lines += [
            record(f"W{k}", passed, suite="tasks", turns=3) for k, passed in enumerate(passes)
        ]
        folders.append(write_run(tmp_path / name, lines, config=plan))
    return compare_runs(*folders, ComparisonOptions())


@pytest.mark.parametrize(
    ("lost", "n"),
    [(2, 6), (4, 12), (5, 15)],
    ids=["a third of 6", "a third of 12", "a third of 15"],
)
def test_a_drop_of_a_third_is_never_called_no_change(tmp_path: Path, lost: int, n: int) -> None:
    """Too few prompts to be sure of it: `cannot tell`, in the row, in the headline and in the sentence."""
    plan = config([prompt(f"P{k}") for k in range(n)])
    a = write_run(tmp_path / "a", [record(f"P{k}") for k in range(n)], config=plan)
    b = write_run(tmp_path / "b", [record(f"P{k}", k >= lost) for k in range(n)], config=plan)
    found = compare_runs(a, b, ComparisonOptions())
    shown = as_text(describe_comparison(found), 160)
    (row,) = [
        line
        for line in shown.splitlines()
        if "-33 points" in line and line.strip().startswith("passed ")
    ]
    assert "cannot tell" in row and "no change seen" not in row
    assert "passed: cannot tell" in shown and "passed: no change seen" not in shown
    assert "Whether the pass rate changed cannot be told" in shown


def test_the_headline_repeats_the_verdicts_of_the_rows(tmp_path: Path) -> None:
    """Whatever the figures: a verdict above the tables is that of its row, and no row that changed goes unsaid."""
    seed = random.Random(7)
    seen = set()
    for number in range(40):
        n = seed.choice((4, 12, 40, 100))
        rates = seed.choice(((1.0, 0.6), (0.9, 0.9), (0.5, 0.55), (0.2, 0.8)))
        sides = [[seed.random() < rate for _ in range(n)] for rate in rates]
        (pair,) = (found := compare_shares(tmp_path / str(number), *sides)).pairs
        told = dict(line.split(": ") for line in say_overall(found.pairs))
        titles = {RATE_TITLES[name]: rate for name, rate in pair.rates.items()}
        titles |= {SHIFT_TITLES[name]: shift for name, shift in pair.shifts.items()}
        for title, row in titles.items():
            seen.add((title, row.verdict))
            if row.verdict == "changed":
                assert told[title].endswith(" in B")
            elif title in ("passed", "latency"):
                assert told[title] == row.verdict.replace("_", " ")
            else:
                assert title not in told
            if row.verdict == "no_change_seen" and isinstance(row, PairedRate):
                assert abs(row.difference or 0) < 0.1 and (row.smallest_change or 0) <= 0.25
            if row.verdict == "cannot_tell":
                assert row.reason
    assert {("tasks", "changed"), ("tasks", "cannot_tell"), ("tasks", "no_change_seen")} <= seen


# How many prompts a model was asked, and how many it passed in A and in B.
FALLS = (120, 120, 60)
RISES = (120, 60, 120)
STAYS = (120, 120, 120)
TOO_FEW = (4, 4, 3)


@pytest.mark.parametrize(
    ("models", "headline"),
    [
        (
            [STAYS, TOO_FEW, RISES, FALLS],
            "fewer in B (m3), more in B (m2), no change seen (m0), cannot tell (m1)",
        ),
        (
            [FALLS, RISES, TOO_FEW, STAYS],
            "fewer in B (m0), more in B (m1), cannot tell (m2), no change seen (m3)",
        ),
        ([RISES, FALLS, RISES, FALLS], "fewer in B (m1 and m3), more in B (m0 and m2)"),
        ([RISES, STAYS], "more in B (m0), no change seen (m1)"),
        ([RISES] * 5, "more in B (m0, m1, m2 and 2 more)"),
        ([STAYS], "no change seen"),
        ([FALLS], "fewer in B"),
    ],
)
def test_the_headline_names_losses_first_then_gains_then_the_rest(
    tmp_path: Path, models: list[tuple[int, int, int]], headline: str
) -> None:
    """In whatever order the models come; a lone model needs no name."""
    plan = config([prompt(i) for i in IDS], [f"m{n}" for n in range(len(models))])
    lines_a: list[Any] = []
    lines_b: list[Any] = []
    for number, (n_asked, n_passed_a, n_passed_b) in enumerate(models):
        for n, i in enumerate(IDS[:n_asked]):
            lines_a.append(record(i, n < n_passed_a, model=f"m{number}"))
            lines_b.append(record(i, n < n_passed_b, model=f"m{number}"))
    a = write_run(tmp_path / "a", lines_a, config=plan)
    b = write_run(tmp_path / "b", lines_b, config=plan)
    comparison = compare_runs(a, b, ComparisonOptions())
    assert next(iter(say_overall(comparison.pairs))) == f"passed: {headline}"
