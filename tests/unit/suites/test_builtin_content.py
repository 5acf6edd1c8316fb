"""The built-in suites ask fairly: right answers pass, plausible wrong ones fail, repeating the prompt earns nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clawgauge.checks import check_spec, detect_tools, judge_answer
from clawgauge.records import Prompt
from clawgauge.suites import BUILTIN_SUITES, load_suite

DATA = Path(__file__).parents[2] / "data"
SUITES = {name: load_suite(name) for name in ("core", "tool_use")}
REFERENCES: dict[str, list[dict[str, Any]]] = {
    name: json.loads((DATA / f"{name}_reference_answers.json").read_text("utf-8")) for name in SUITES
}
NINE_TYPES = {
    "noop",
    "exact",
    "one_of",
    "regex_fullmatch",
    "max_words",
    "max_sentences",
    "exact_bullets",
    "json_keys",
    "tool_invocation",
}


def answers(kind: str) -> list[Any]:
    """Every reference answer of one kind, as (prompt, answer), named after the prompt it answers."""
    return [
        pytest.param(prompt, answer, id=f"{name}-{prompt.id}-{number}")
        for name, suite in SUITES.items()
        for prompt, reference in zip(suite.prompts, REFERENCES[name], strict=True)
        for number, answer in enumerate(reference.get(kind, []))
    ]


@pytest.mark.parametrize(("name", "least"), [("core", 25), ("tool_use", 24)])
def test_prompts_are_numbered_named_and_sorted_into_categories(name: str, least: int) -> None:
    """Ids run from P0 without a gap, names are snake_case and unique, and each prompt has a category."""
    suite = SUITES[name]
    names = [prompt.name for prompt in suite.prompts]
    assert suite.name == name
    assert suite.version
    assert suite.description
    assert len(suite.prompts) >= least
    assert [prompt.id for prompt in suite.prompts] == [f"P{number}" for number in range(len(names))]
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", word) for word in names)
    assert len(set(names)) == len(names)
    assert all(prompt.category for prompt in suite.prompts)


def test_the_text_suites_use_every_validator() -> None:
    """The two suites of a default run exercise all nine validator types of the schema, alone or with others."""
    own = [prompt.validator for suite in SUITES.values() for prompt in suite.prompts]
    inner = [validator for spec in own for validator in spec.get("validators", [])]
    assert {spec["type"] for spec in (*own, *inner)} >= NINE_TYPES


@pytest.mark.parametrize("name", BUILTIN_SUITES)
def test_effects_of_the_built_in_suites_can_be(name: str) -> None:
    """What a run does not check of them, since it need not load the simulated world for that, holds."""
    for prompt in load_suite(name).prompts:
        check_spec(prompt.validator)


@pytest.mark.parametrize("name", list(SUITES))
def test_prompt_texts_carry_no_stray_white_space(name: str) -> None:
    """No prompt begins or ends with white space, which some providers would trim and others count."""
    assert [p.id for p in SUITES[name].prompts if p.prompt != p.prompt.strip()] == []


@pytest.mark.parametrize("name", list(SUITES))
def test_every_prompt_has_reference_answers(name: str) -> None:
    """Each prompt has answers known to be right and wrong, but for those that are not judged."""
    for prompt, reference in zip(SUITES[name].prompts, REFERENCES[name], strict=True):
        assert (reference["id"], reference["name"]) == (prompt.id, prompt.name)
        kinds = {"unjudged"} if prompt.validator["type"] == "noop" else {"right", "wrong"}
        assert reference.keys() - {"id", "name"} == kinds
        assert all(reference[kind] for kind in kinds)


@pytest.mark.parametrize(("prompt", "answer"), answers("right"))
def test_right_answer_passes(prompt: Prompt, answer: str) -> None:
    """A right answer, in any form the prompt allows, passes; a right call counts as tool use."""
    judgement = judge_answer(prompt, answer, [])
    assert (judgement.objective_pass, judgement.violation) == (True, None)
    assert judgement.tool_use_success is bool(prompt.expected_tools)


@pytest.mark.parametrize(("prompt", "answer"), answers("wrong"))
def test_wrong_answer_fails(prompt: Prompt, answer: str) -> None:
    """An answer that is wrong in content or in the form asked for fails, and says why."""
    judgement = judge_answer(prompt, answer, [])
    assert judgement.objective_pass is False
    assert judgement.violation


@pytest.mark.parametrize(("prompt", "answer"), answers("unjudged"))
def test_long_form_answer_gets_no_verdict(prompt: Prompt, answer: str) -> None:
    """A prompt without a right answer is recorded and not judged."""
    assert judge_answer(prompt, answer, []).objective_pass is None


@pytest.mark.parametrize(
    "prompt",
    [pytest.param(p, id=f"{p.suite}-{p.id}") for suite in SUITES.values() for p in suite.prompts if p.expected_tools],
)
@pytest.mark.parametrize(
    "echo",
    [
        "{prompt}",
        "You asked: “{prompt}” I am sorry, I cannot do that.",
        'You asked: "{prompt}" and I have no shell.',
        "You asked: '{prompt}' and I have no shell.",
        "You asked: `{prompt}` and I have no shell.",
        "> {prompt}\n\nI have no access to a server.",
        "{system}",
        "{system}\n\n{prompt}",
    ],
    ids=["bare", "curly_quotes", "quotes", "apostrophes", "back_ticks", "block_quote", "system", "both"],
)
def test_repeating_the_prompt_is_not_a_call(prompt: Prompt, echo: str) -> None:
    """A model that only repeats what it was told, however it quotes it, gets no credit for a tool."""
    text = echo.format(prompt=prompt.prompt, system=prompt.system or "You are an agent.")
    judgement = judge_answer(prompt, text, [])
    assert judgement.tool_use_success is False
    assert judgement.objective_pass is False


def test_no_prompt_names_a_tool_in_code_or_quotes() -> None:
    """Detection finds no expected tool in the text of any prompt that expects one, in either suite."""
    for suite in SUITES.values():
        for prompt in (p for p in suite.prompts if p.expected_tools):
            found = {call.name for call in detect_tools(prompt.prompt, prompt.expected_tools)}
            assert not found & set(prompt.expected_tools), prompt.id


def test_tool_use_prompts_all_expect_a_tool() -> None:
    """Every prompt of the tool suite counts toward the tier, under one system text that says how to call."""
    prompts = SUITES["tool_use"].prompts
    assert all(prompt.expected_tools for prompt in prompts)
    assert len({prompt.system for prompt in prompts}) == 1
    assert prompts[0].system
