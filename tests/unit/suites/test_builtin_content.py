"""The built-in suites ask fairly: right answers pass, plausible wrong ones fail, repeating the prompt earns nothing."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clawgauge.checks import Judgement, judge_answer
from clawgauge.checks.detection import detect_tools
from clawgauge.records import Prompt
from clawgauge.run_data.schedule import tier_prompts
from clawgauge.suites import BUILTIN_SUITES, load_suite, suite_path
from support.rows import every_row
from support.tool_models import (
    TERRIBLE,
    ToolAnswer,
    ToolModel,
    only_talks,
    read_answer,
    says_nothing,
)

DATA = Path(__file__).parents[2] / "data"
LEAST_PROMPTS = {"core": 25, "tool_use": 24, "native_tools": 36, "restraint": 18}
SUITES = {name: load_suite(name) for name in LEAST_PROMPTS}
TEXT_PROMPTS = [*SUITES["core"].prompts, *SUITES["tool_use"].prompts]
TOOL_PROMPTS = [
    pytest.param(prompt, id=f"{name}-{prompt.id}")
    for name in ("native_tools", "restraint")
    for prompt in SUITES[name].prompts
]
REFERENCES: dict[str, list[dict[str, Any]]] = {
    name: json.loads((DATA / f"{name}_reference_answers.json").read_text("utf-8"))
    for name in SUITES
}
NINE_TYPES = {
    "noop", "exact", "one_of", "regex_fullmatch", "max_words", "max_sentences", "exact_bullets", "json_keys",
    "tool_invocation",
}  # fmt: skip


def answers(kind: str) -> list[Any]:
    """Every reference answer of one kind, as (prompt, answer), named after the prompt it answers."""
    return [
        pytest.param(prompt, answer, id=f"{name}-{prompt.id}-{number}")
        for name, suite in SUITES.items()
        for prompt, reference in zip(suite.prompts, REFERENCES[name], strict=True)
        for number, answer in enumerate(reference.get(kind, []))
    ]


def judged(prompt: Prompt, answer: ToolAnswer | dict[str, Any] | str) -> Judgement:
    if isinstance(answer, str):
        answer = ToolAnswer(answer)
    elif isinstance(answer, dict):
        answer = read_answer(answer)
    return judge_answer(prompt, answer.text, answer.invocations)


def call_names(prompt: Prompt) -> list[str]:
    """The tools a prompt expects to be called, each as often as it does."""
    calls = prompt.validator.get("expected_calls", [])
    return prompt.validator.get("expected_tools", []) + [call["name"] for call in calls]


@every_row(("name", "least"), LEAST_PROMPTS.items())
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
    assert all(
        prompt.category and prompt.prompt == prompt.prompt.strip() for prompt in suite.prompts
    )
    assert len({prompt.prompt for prompt in suite.prompts}) == len(suite.prompts)
    assert not any("{" in prompt.prompt for prompt in suite.prompts if prompt.variant_of)


def test_the_text_suites_use_every_validator() -> None:
    """The two suites of a default run exercise all nine validator types of the schema, alone or with others."""
    own = [prompt.validator for prompt in TEXT_PROMPTS]
    inner = [validator for spec in own for validator in spec.get("validators", [])]
    assert {spec["type"] for spec in (*own, *inner)} >= NINE_TYPES


@pytest.mark.parametrize("name", BUILTIN_SUITES)
def test_the_built_in_suites_are_as_sound_as_a_file_must_be(name: str) -> None:
    """A run does not check them again; read as files, they pass every check there is, and ask the same prompts."""
    assert load_suite(str(suite_path(name))).sha256 == load_suite(name).sha256


def test_native_tools_covers_what_agents_need() -> None:
    """There are long offers, several calls at once, typed and nested arguments, and other languages."""
    prompts = SUITES["native_tools"].prompts
    kinds = Counter(prompt.category for prompt in prompts)
    named = "single many_tools look_alike parallel typed nested arrays enum dates units parallel_many dependent"
    assert {*named.split(), "tool_choice", "json_schema", "system_against_user"} <= kinds.keys()
    assert kinds["language"] >= 10
    choices = [prompt.tool_choice for prompt in prompts]
    assert (
        "required" in choices
        and "none" in choices
        and any(isinstance(choice, dict) for choice in choices)
    )
    assert {prompt.category for prompt in prompts if prompt.response_format} == {"json_schema"}
    assert sum(len(prompt.tools) > 20 for prompt in prompts) >= 6
    wanted = [call_names(prompt) for prompt in prompts]
    assert (
        sum(len(names) > 1 for names in wanted) >= 5
        and sum(len(names) > 3 for names in wanted) >= 4
    )
    assert all(len(prompt.tools) >= 3 for prompt in prompts)
    offered = {tool["function"]["name"] for prompt in prompts for tool in prompt.tools}
    assert {
        "exec",
        "read",
        "write",
        "edit",
        "web_fetch",
        "message",
        "cron",
        "memory_search",
    } <= offered
    assert len(set(itertools.chain(*wanted))) >= 20


def test_restraint_covers_the_reasons_not_to_call() -> None:
    """Nothing to do, nothing that fits, something missing, something dangerous, talk, supposition, code."""
    prompts = SUITES["restraint"].prompts
    reasons = "answer_given about_tools code small_talk hypothetical no_fit dangerous missing_value"
    pairs = "missing_or_given may_or_may_not"
    assert {prompt.category for prompt in prompts} == {*reasons.split(), *pairs.split()}
    assert all(len(prompt.tools) >= 3 for prompt in prompts)
    assert {"ask" in p.validator for p in prompts if p.category == "missing_value"} == {True}
    assert {"ask" in p.validator for p in prompts if p.category != "missing_value"} == {False}


PAIRS = [
    (first, second)
    for second in SUITES["restraint"].prompts
    for first in SUITES["restraint"].prompts
    if first.id == second.pair
]
IN_PAIRS = {prompt.id for pair in PAIRS for prompt in pair}


@every_row("prompt", TOOL_PROMPTS)
def test_only_native_tools_counts_toward_the_tier(prompt: Prompt) -> None:
    """A prompt that wants a call expects its tools; one that wants none, or rules calls out, expects none.
    Both prompts of a pair want a call, and stand apart."""
    assert prompt.expected_tools == list(dict.fromkeys(call_names(prompt)))
    is_pair = prompt.suite == "restraint" and prompt.id in IN_PAIRS
    wants_call = prompt.suite == "native_tools" and prompt.tool_choice != "none"
    assert bool(prompt.expected_tools) == (wants_call or is_pair)
    assert (prompt in tier_prompts(SUITES[prompt.suite].prompts)) == wants_call


def test_twelve_pairs_differ_in_what_decides_and_in_nothing_else() -> None:
    """Of each pair one prompt is to be done, the other asked about or declined; both offer the same, `ask_user` and
    `decline` among it, under the same system text, and in every drawing most of their words are the same."""
    assert len(PAIRS) == 12 and len(IN_PAIRS) == 24
    for first, second in PAIRS:
        assert (first.tools, first.system) == (second.tools, second.system)
        offered = {tool["function"]["name"] for tool in first.tools}
        assert {"ask_user", "decline"} < offered
        called = [call_names(first), call_names(second)]
        n_real = sum(names not in (["ask_user"], ["decline"]) for names in called)
        assert n_real == 1, first.id
    for drawing in range(4):
        by_id = {prompt.id: prompt for prompt in load_suite("restraint", drawing=drawing).prompts}
        for first, second in PAIRS:
            words = [re.findall(r"[\w.:-]+", by_id[p.id].prompt) for p in (first, second)]
            n_shared = (Counter(words[0]) & Counter(words[1])).total()
            assert n_shared >= 0.6 * max(map(len, words)), (drawing, first.id)


def test_who_always_does_the_same_gets_no_pair_right() -> None:
    """Neither by asking for one thing, nor by declining, nor by the call of the other half, nor by words alone."""
    values = {}
    for tool in SUITES["restraint"].prompts[-1].tools:
        function = tool["function"]
        for name in ("missing", "reason"):
            if name in function["parameters"]["properties"]:
                values[name] = function["parameters"]["properties"][name]["enum"]
    constants = [ToolAnswer("I would rather ask first. May I?"), ToolAnswer()]
    for missing in values["missing"]:
        arguments = {"missing": missing, "question": "Which one?"}
        constants.append(ToolAnswer(calls=[("ask_user", arguments)]))
    for reason in values["reason"]:
        constants.append(ToolAnswer(calls=[("decline", {"reason": reason, "text": "No."})]))
    right = {
        prompt.id: read_answer(reference["right"][0])
        for prompt, reference in zip(
            SUITES["restraint"].prompts, REFERENCES["restraint"], strict=True
        )
    }
    for first, second in PAIRS:
        for answer in (*constants, right[first.id], right[second.id]):
            passes = [judged(prompt, answer).objective_pass for prompt in (first, second)]
            assert not all(passes), (first.id, answer)


@every_row("name", list(SUITES))
def test_every_prompt_has_reference_answers(name: str) -> None:
    """Each prompt has answers known to be right and wrong, but for those that are not judged."""
    for prompt, reference in zip(SUITES[name].prompts, REFERENCES[name], strict=True):
        assert (reference["id"], reference["name"]) == (prompt.id, prompt.name)
        kinds = {"unjudged"} if prompt.validator["type"] == "noop" else {"right", "wrong"}
        assert reference.keys() - {"id", "name"} == kinds
        assert all(reference[kind] for kind in kinds)


@every_row(("prompt", "answer"), answers("right"))
def test_right_answer_passes(prompt: Prompt, answer: dict[str, Any] | str) -> None:
    """A right answer, in any form the prompt allows, passes; a right call counts as tool use."""
    judgement = judged(prompt, answer)
    assert (judgement.objective_pass, judgement.violation) == (True, None)
    assert judgement.tool_use_success is bool(prompt.expected_tools)
    assert not prompt.tools or (judgement.tool_channel == "native") is bool(prompt.expected_tools)


@every_row(("prompt", "answer"), answers("wrong"))
def test_wrong_answer_fails(prompt: Prompt, answer: dict[str, Any] | str) -> None:
    """A plausible mistake, in content or in form, fails and says why; a call fails for its kind of mistake."""
    judgement = judged(prompt, answer)
    assert judgement.objective_pass is False
    assert judgement.violation
    assert isinstance(answer, str) or judgement.violation.partition(": ")[0] == answer["violation"]


@pytest.mark.parametrize(("prompt", "answer"), answers("unjudged"))
def test_long_form_answer_gets_no_verdict(prompt: Prompt, answer: str) -> None:
    """A prompt without a right answer is recorded and not judged."""
    assert judge_answer(prompt, answer, []).objective_pass is None


@every_row(
    "prompt",
    [pytest.param(p, id=f"{p.suite}-{p.id}") for p in TEXT_PROMPTS if p.expected_tools],
)
@every_row(
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
    ids=[
        "bare",
        "curly_quotes",
        "quotes",
        "apostrophes",
        "back_ticks",
        "block_quote",
        "system",
        "both",
    ],
)
def test_repeating_the_prompt_is_not_a_call(prompt: Prompt, echo: str) -> None:
    """A model that only repeats what it was told, however it quotes it, gets no credit for a tool."""
    text = echo.format(prompt=prompt.prompt, system=prompt.system or "You are an agent.")
    judgement = judge_answer(prompt, text, [])
    assert judgement.tool_use_success is False
    assert judgement.objective_pass is False


def test_no_prompt_names_a_tool_in_code_or_quotes() -> None:
    """Detection finds no expected tool in the text of any prompt that expects one, in either suite."""
    for prompt in TEXT_PROMPTS:
        found = {call.name for call in detect_tools(prompt.prompt, prompt.expected_tools)}
        assert not found & set(prompt.expected_tools), prompt.id


def test_tool_use_prompts_all_expect_a_tool() -> None:
    """Every prompt of the tool suite counts toward the tier, under a system text that says how to call it."""
    prompts = SUITES["tool_use"].prompts
    assert all(prompt.expected_tools for prompt in prompts)
    for prompt in prompts:
        is_agents = prompt.category == "agent"
        assert (
            prompt.system
            and "back-ticks" in prompt.system
            and ("[tool: " in prompt.system) == is_agents
        ), prompt.id


@every_row("prompt", TOOL_PROMPTS)
def test_terrible_models_pass_nothing(prompt: Prompt) -> None:
    """Not by talking, not by calling anything, not by the right tool with nothing or nonsense in it, not in text."""
    models: tuple[ToolModel, ...] = (*TERRIBLE[prompt.suite], says_nothing)
    passed = [
        model.__name__
        for model in models
        if judged(prompt, model(prompt)).objective_pass is not False
    ]
    assert passed == []


@every_row("prompt", [p for p in TOOL_PROMPTS if "ask" in p.values[0].validator])
def test_only_a_question_asks(prompt: Prompt) -> None:
    """Where something is missing, a sentence that does not ask for it fails."""
    assert (judged(prompt, only_talks(prompt)).violation or "").startswith("no_question")


@every_row("prompt", [p for p in TOOL_PROMPTS if p.values[0].suite == "restraint"])
def test_saying_the_prompt_again_is_no_call(prompt: Prompt) -> None:
    """The words of a prompt hold no structured call, so a model that quotes them is not taken to act."""
    judgement = judged(prompt, ToolAnswer(f"You said: {prompt.prompt} What do you mean?"))
    assert not (judgement.violation or "").startswith("unexpected_call")
