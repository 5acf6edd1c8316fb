"""What a run without -s asks: a fixed choice in which every kind of evidence is there, and enough of it."""

from __future__ import annotations

from pathlib import Path

from clawgauge.run_data.schedule import asks_for_restraint, is_task
from clawgauge.suites import SELECTION, load_suite
from clawgauge.verdict import BUILT_IN
from support.command import clawgauge


def chosen() -> dict[str, list[str]]:
    return {
        suite: [prompt_id.removesuffix("#1") for prompt_id in ids]
        for suite, ids in SELECTION.items()
    }


def test_no_two_chosen_prompts_are_variants_of_one() -> None:
    """Variants count as one prompt: a second would cost a call and tell nothing more. Each chosen prompt is there."""
    for suite, ids in chosen().items():
        prompts = {prompt.id: prompt for prompt in load_suite(suite).prompts}
        families = [prompts[prompt_id].variant_of or prompt_id for prompt_id in ids]
        assert len(set(families)) == len(families)


def test_the_choice_can_show_all_that_a_recommendation_needs() -> None:
    """At least twenty native calls, fifteen prompts to leave alone and nine tasks."""
    prompts = {(p.suite, p.id): p for suite in SELECTION for p in load_suite(suite).prompts}
    asked = [prompts[suite, prompt_id] for suite, ids in chosen().items() for prompt_id in ids]
    assert sum(bool(p.tools and p.expected_tools) for p in asked if not is_task(p)) >= 20
    assert sum(map(asks_for_restraint, asked)) >= 15
    assert sum(map(is_task, asked)) >= 9


def test_the_choice_can_show_who_is_fit_for_the_jobs_of_format_and_data() -> None:
    """Nine prompts all passed have 70% at the lower end of their interval; fewer have not."""
    categories = {
        (p.suite, p.id): f"{p.suite}/{p.category}"
        for suite in SELECTION
        for p in load_suite(suite).prompts
    }
    asked = [categories[suite, prompt_id] for suite, ids in chosen().items() for prompt_id in ids]
    for job in ("heartbeat and triage", "structured data"):
        assert sum(category in BUILT_IN[job].prompts for category in asked) >= 9


def test_a_run_without_suites_asks_the_choice_and_full_asks_all(tmp_path: Path) -> None:
    """-s asks a suite in full, --full every built-in one."""
    plan = ["run", "-t", "ollama_openai:m", "--dry-run"]
    counts = {
        words: clawgauge(tmp_path, *plan, *words.split()).stderr
        for words in ("", "--full", "-s restraint", "--prompt-ids restraint/P1")
    }
    assert "native_tools (22 prompts), restraint (15 prompts), agentic (9 prompts)" in counts[""]
    assert "1 target, 69 calls" in counts[""] and "long_context" not in counts[""]
    n_restraint = len(load_suite("restraint").prompts)
    n_long_context = len(load_suite("long_context").prompts)
    assert f"restraint ({n_restraint} prompts)" in counts["--full"]
    assert f"long_context ({n_long_context} prompts)" in counts["--full"]
    assert f"1 target, {n_restraint} calls" in counts["-s restraint"]
    assert "1 target, 1 call" in counts["--prompt-ids restraint/P1"]
