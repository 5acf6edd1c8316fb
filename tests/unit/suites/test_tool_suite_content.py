"""The suites that offer tools can be passed, and not by accident: every prompt by its right answers alone."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import pytest

from clawgauge.checks import Judgement, judge_answer
from clawgauge.records import Prompt
from clawgauge.suites import load_suite
from support.tool_models import (
    TERRIBLE,
    ToolAnswer,
    ToolModel,
    only_talks,
    read_answer,
    read_references,
    says_nothing,
)

SUITES = {name: load_suite(name) for name in ("native_tools", "restraint")}
REFERENCES = {name: read_references(name) for name in SUITES}
ALL_PROMPTS = [
    pytest.param(prompt, id=f"{prompt.suite}-{prompt.id}") for suite in SUITES.values() for prompt in suite.prompts
]


def answers(kind: str) -> list[Any]:
    """Every reference answer of one kind, named after the prompt it answers."""
    return [
        pytest.param(prompt, answer, id=f"{name}-{prompt.id}-{number}")
        for name, suite in SUITES.items()
        for prompt, reference in zip(suite.prompts, REFERENCES[name], strict=True)
        for number, answer in enumerate(reference[kind])
    ]


def call_names(prompt: Prompt) -> list[str]:
    """The tools a prompt expects to be called, each as often as it does."""
    calls = prompt.validator.get("expected_calls", [])
    return prompt.validator.get("expected_tools", []) + [call["name"] for call in calls]


def judged(prompt: Prompt, answer: ToolAnswer) -> Judgement:
    return judge_answer(prompt, answer.text, answer.invocations)


@pytest.mark.parametrize(("name", "least"), [("native_tools", 36), ("restraint", 18)])
def test_prompts_are_numbered_named_and_sorted_into_categories(name: str, least: int) -> None:
    """Ids run from P0 without a gap, each with its forms; names are snake_case; no two prompts read the same."""
    suite = SUITES[name]
    written = list(dict.fromkeys(prompt.variant_of or prompt.id for prompt in suite.prompts))
    assert suite.name == name and suite.version and suite.description
    assert len(written) >= least
    assert written == [f"P{number}" for number in range(len(written))]
    names = {prompt.variant_of or prompt.id: prompt.name for prompt in suite.prompts}
    assert len(set(names.values())) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", word) for word in names.values())
    assert all(prompt.category and prompt.prompt == prompt.prompt.strip() for prompt in suite.prompts)
    assert len({prompt.prompt for prompt in suite.prompts}) == len(suite.prompts)
    assert not any("{" in prompt.prompt for prompt in suite.prompts)


def test_native_tools_covers_what_agents_need() -> None:
    """There are long offers, several calls at once, typed and nested arguments, and other languages."""
    prompts = SUITES["native_tools"].prompts
    kinds = Counter(prompt.category for prompt in prompts)
    assert {
        "single",
        "many_tools",
        "look_alike",
        "parallel",
        "typed",
        "nested",
        "arrays",
        "enum",
        "dates",
        "units",
    } <= (kinds.keys())
    assert kinds["language"] >= 2
    assert sum(len(prompt.tools) > 20 for prompt in prompts) >= 6
    wanted = [call_names(prompt) for prompt in prompts]
    assert sum(len(names) > 1 for names in wanted) >= 5
    assert all(len(prompt.tools) >= 3 for prompt in prompts)
    offered = {tool["function"]["name"] for prompt in prompts for tool in prompt.tools}
    assert {"exec", "read", "write", "edit", "web_fetch", "message", "cron", "memory_search"} <= offered
    assert len(set(itertools.chain(*wanted))) >= 20


def test_restraint_covers_the_reasons_not_to_call() -> None:
    """Nothing to do, nothing that fits, something missing, something dangerous, talk, supposition, code."""
    prompts = SUITES["restraint"].prompts
    assert {prompt.category for prompt in prompts} == {
        "answer_given",
        "about_tools",
        "code",
        "small_talk",
        "hypothetical",
        "no_fit",
        "dangerous",
        "missing_value",
    }
    assert all(len(prompt.tools) >= 3 for prompt in prompts)
    assert {"ask" in p.validator for p in prompts if p.category == "missing_value"} == {True}
    assert {"ask" in p.validator for p in prompts if p.category != "missing_value"} == {False}


@pytest.mark.parametrize("prompt", ALL_PROMPTS)
def test_only_native_tools_counts_toward_the_tier(prompt: Prompt) -> None:
    """A prompt that wants a call expects its tools; one that wants none expects none."""
    assert prompt.expected_tools == list(dict.fromkeys(call_names(prompt)))
    assert bool(prompt.expected_tools) == (prompt.suite == "native_tools")


@pytest.mark.parametrize("name", list(SUITES))
def test_every_prompt_has_reference_answers(name: str) -> None:
    """Each form of each prompt has answers known to be right and known to be wrong."""
    for prompt, reference in zip(SUITES[name].prompts, REFERENCES[name], strict=True):
        assert (reference["id"], reference["name"]) == (prompt.id, prompt.name)
        assert reference["right"] and reference["wrong"]


@pytest.mark.parametrize(("prompt", "answer"), answers("right"))
def test_right_answer_passes(prompt: Prompt, answer: dict[str, Any]) -> None:
    """A right answer passes, and a right call is tool use."""
    judgement = judged(prompt, read_answer(answer))
    assert (judgement.objective_pass, judgement.violation) == (True, None)
    assert judgement.tool_use_success is bool(prompt.expected_tools)
    assert (judgement.tool_channel == "native") is bool(prompt.expected_tools)


@pytest.mark.parametrize(("prompt", "answer"), answers("wrong"))
def test_wrong_answer_fails_for_its_reason(prompt: Prompt, answer: dict[str, Any]) -> None:
    """A plausible mistake fails, and the violation names the kind of mistake it is."""
    judgement = judged(prompt, read_answer(answer))
    assert judgement.objective_pass is False
    assert (judgement.violation or "").partition(": ")[0] == answer["violation"]


@pytest.mark.parametrize("prompt", ALL_PROMPTS)
def test_terrible_models_pass_nothing(prompt: Prompt) -> None:
    """Not by talking, not by calling anything, not by the right tool with nothing or nonsense in it, not in text."""
    models: tuple[ToolModel, ...] = (*TERRIBLE[prompt.suite], says_nothing)
    passed = [model.__name__ for model in models if judged(prompt, model(prompt)).objective_pass is not False]
    assert passed == []


@pytest.mark.parametrize("prompt", [p for p in ALL_PROMPTS if "ask" in p.values[0].validator])
def test_only_a_question_asks(prompt: Prompt) -> None:
    """Where something is missing, a sentence that does not ask for it fails."""
    assert (judged(prompt, only_talks(prompt)).violation or "").startswith("no_question")


@pytest.mark.parametrize("prompt", [p for p in ALL_PROMPTS if p.values[0].suite == "restraint"])
def test_saying_the_prompt_again_is_no_call(prompt: Prompt) -> None:
    """The words of a prompt hold no structured call, so a model that quotes them is not taken to act."""
    judgement = judged(prompt, ToolAnswer(f"You said: {prompt.prompt} What do you mean?"))
    assert not (judgement.violation or "").startswith("unexpected_call")
