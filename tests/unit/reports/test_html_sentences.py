"""The answer at the top of the page, in sentences with the n they rest on."""

from __future__ import annotations

from collections import Counter

from clawgauge.reports.words import find_answers
from clawgauge.summary import summarize_folder
from unit.summary.run_folders import failed, record, tool_record, write_run, write_subagent_run

SUBAGENT = "Who may be a subagent?"


def answers(folder, rows, **violations):
    found = find_answers(summarize_folder(write_run(folder, rows)), Counter(violations))
    return {finding.question: (finding.answer, " ".join(finding.notes)) for finding in found}


def as_model(model, rows):
    return [row | {"model": model} for row in rows]


def test_a_decided_tier_is_named_with_its_evidence(tmp_path):
    """Thirteen clean calls make a Tier 1 that is sure; six make one that is not, and it says how many more it takes."""
    rows = as_model("sure", [tool_record(f"T{i}", True) for i in range(14)])
    rows += as_model("open", [tool_record(f"T{i}", True) for i in range(6)])
    answer, notes = answers(tmp_path / "run", rows)[SUBAGENT]
    assert (
        answer
        == "Nobody for certain yet. sure and open could be: Tier 1 so far, but not all that it takes is shown."
    )
    assert (
        "sure, Tier 1 (decided): called a tool in 14 of 14 (100%, likely 78–100%); Tier 1, 96% sure; "
        in notes
    )
    provisional = "open, Tier 1 (provisional: 7 more clean passes would decide it)"
    assert f"{provisional}: called a tool in 6 of 6 (100%, likely 61–100%)" in notes


def test_nobody_may_be_a_subagent_without_evidence(tmp_path):
    """Too few calls and bad calls are different answers; without any nobody asks the question."""
    few = answers(tmp_path / "few", [tool_record("T0", True)])[SUBAGENT][0]
    assert SUBAGENT not in answers(tmp_path / "none", [record("P0")])
    bad = answers(tmp_path / "bad", [tool_record(f"T{i}", False) for i in range(9)])[SUBAGENT][0]
    assert few.startswith("Nobody for certain yet.") and bad == "No model here."


def test_who_may_be_a_subagent_is_named(tmp_path):
    """A model that has shown all that it takes."""
    (finding, *_) = find_answers(summarize_folder(write_subagent_run(tmp_path / "run")), Counter())
    assert (finding.question, finding.answer) == (
        SUBAGENT,
        "llama3.2:3b: recommended for subagents with full tool access.",
    )


def test_the_fastest_must_pass(tmp_path):
    """A quick model that fails does not win; it is named as what it is."""
    rows = as_model(
        "quick",
        [record(f"P{i}", e2e_ms=50, objective_pass=i == 0, violation="v: x") for i in range(4)],
    )
    rows += as_model("good", [record(f"P{i}", e2e_ms=1500) for i in range(4)])
    answer, notes = answers(tmp_path / "run", rows)["Which is the fastest that passes?"]
    assert answer == "good, median 1.50 s over 4 calls."
    assert "Faster, but not passing: quick (25% · 1/4" in notes


def test_who_passes_most_of_prompts_without_tools(tmp_path):
    """Prompts that expect no tool call tell who passes most of them, and nothing of subagents."""
    rows = as_model("good", [record(f"P{i}") for i in range(3)])
    rows += as_model(
        "bad", [record(f"P{i}", objective_pass=False, violation="v: x") for i in range(3)]
    )
    found = answers(tmp_path / "run", rows)
    answer, notes = found["Which passes most?"]
    assert answer == "good: 3 of 3 passed." and "Next: bad" in notes
    assert "Who may be a subagent?" not in found


def test_none_passes(tmp_path):
    """Where no model passes, the fastest of all is told, and that it does not."""
    rows = [record(f"P{i}", objective_pass=False, violation="v: x") for i in range(3)]
    answer, notes = answers(tmp_path / "run", rows)["Which is the fastest that passes?"]
    assert answer == "None: no model passes 80% of its prompts." and "0% · 0/3" in notes


def test_a_model_that_is_down_is_not_the_fastest(tmp_path):
    """One quick answer of thirty does not win, however right; both of its rates are told."""
    down = [failed(f"P{i}", "skipped_unavailable", "connection_refused") for i in range(1, 30)]
    rows = as_model("down", [record("P0", e2e_ms=5), *down])
    rows += as_model("solid", [record(f"P{i}", e2e_ms=50) for i in range(30)])
    answer, notes = answers(tmp_path / "run", rows)["Which is the fastest that passes?"]
    assert answer == "solid, median 50 ms over 30 calls."
    assert (
        "Faster, but not passing: down (100% · 1/1" in notes and "1/30 of what was asked" in notes
    )


def test_what_broke_is_said_in_words(tmp_path):
    """A code that does not explain itself has a sentence; the others are read as they are."""
    rows = [
        record(f"P{n}", objective_pass=False, violation="wrong_call_count: 0 calls, 1 expected")
        for n in range(2)
    ]
    _, notes = answers(tmp_path / "run", rows, wrong_call_count=2, not_an_object=1)[
        "What failed, and why?"
    ]
    assert "Most often: no tool called, or too many (2); not an object (1)." in notes


def test_a_model_that_went_down_does_not_win_by_its_first_answer(tmp_path):
    """One quick answer, one refused connection, and 28 prompts that were never asked."""
    down = [failed(f"P{i}", "skipped_unavailable", "connection_refused") for i in range(1, 30)]
    down = [down[0], *(row | {"attempts": [], "asked": False} for row in down[1:])]
    rows = as_model("down", [record("P0", e2e_ms=5), *down])
    rows += as_model("solid", [record(f"P{i}", e2e_ms=50) for i in range(30)])
    found = answers(tmp_path / "run", rows)
    assert found["Which is the fastest that passes?"][0] == "solid, median 50 ms over 30 calls."
    assert found["What failed, and why?"][0].endswith(
        "1 of 32 calls brought no answer, 28 prompts were not asked."
    )


def test_failures_say_who_how_often_why_and_what_to_do(tmp_path):
    """Unanswered calls and broken checks are counted apart, each with its reason."""
    rows = [
        record("P0"),
        record("P1", objective_pass=False, violation="too_many_words: got 12, limit 8"),
    ]
    rows += [
        failed(f"P{i}", "skipped_unavailable", "connection_refused", error="refused")
        for i in range(2, 5)
    ]
    answer, notes = answers(tmp_path / "run", rows, too_many_words=1)["What failed, and why?"]
    assert answer == "1 of 2 judged answers failed, 3 of 5 calls brought no answer."
    assert (
        "Most often: too many words (1)" in notes
        and "3 × connection_refused: refused → " in notes
        and "ollama serve" in notes
    )


def test_a_clean_run_says_so(tmp_path):
    """Nothing failed is an answer too."""
    answer, _ = answers(tmp_path / "run", [record("P0"), record("P1")])["What failed, and why?"]
    assert answer == "Nothing: 2 calls, all answered, none failed."


def test_models_of_one_name_keep_their_provider(tmp_path):
    """Two providers with a model of the same name are told apart."""
    rows = [
        record("P0", provider=provider, e2e_ms=n) for n, provider in enumerate(("one", "two"), 1)
    ]
    assert answers(tmp_path / "run", rows)["Which is the fastest that passes?"][0].startswith(
        "one:llama3.2:3b, "
    )
