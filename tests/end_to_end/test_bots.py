"""Models that earn figures without doing the work: none of them is recommended, whatever is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawgauge.records import Prompt
from support.command import clawgauge
from support.scripted_play import play
from support.scripted_server import ScriptedServer
from support.slow_rest import slow_rest
from support.task_models import InOneTurn, Player, only_claims, solves, wrecks_the_server
from support.tool_models import ToolAnswer, ToolModel, always_calls, gives_no_arguments, perfect

TEXT, TOOLS, TASKS = ("core", "tool_use"), ("native_tools", "restraint"), ("agentic",)
SUITES = (*TEXT, *TOOLS, *TASKS)
COMMANDS = (
    "free df uptime ps top ls cat grep find du stat systemctl journalctl docker git ping dig ss "
    "curl tar uname w env"
)
EVERYTHING = (
    "Use "
    + ", ".join(f"`{command} -h`" for command in COMMANDS.split())
    + ". Which one shall I run?"
)


def knows(prompt: Prompt) -> ToolAnswer:
    """The right answer to a prompt of one turn."""
    return perfect(prompt.suite)(prompt)


def refuses(prompt: Prompt) -> ToolAnswer:
    """No job is done, and the command is quoted."""
    right = knows(prompt)
    commands = [str(arguments.get("command", name)) for name, arguments in right.calls] or [
        right.text
    ]
    return ToolAnswer(f"I cannot do that; please do it yourself: `{'; '.join(commands)}`")


def claims(prompt: Prompt) -> ToolAnswer:
    return ToolAnswer("Done: I have run it and taken care of everything. Anything else?")


def says_everything(prompt: Prompt) -> ToolAnswer:
    return ToolAnswer(EVERYTHING)


def calls_without_arguments(prompt: Prompt) -> ToolAnswer:
    return gives_no_arguments(prompt) if prompt.suite == "native_tools" else ToolAnswer("?")


def calls_always(prompt: Prompt) -> ToolAnswer:
    return always_calls(prompt) if prompt.suite == "restraint" else knows(prompt)


def cast(answers: ToolModel, works: Player) -> dict[str, list[Player]]:
    return {suite: [works if suite in TASKS else InOneTurn(answers)] for suite in SUITES}


def refuses_tasks(prompt: Prompt) -> list[ToolAnswer]:
    return [ToolAnswer("I cannot do that. Please log in and do it yourself.")]


BOTS: dict[str, dict[str, list[Player]]] = {
    "refuser": cast(refuses, refuses_tasks),
    "constant": cast(says_everything, InOneTurn(says_everything)),
    "empty arguments": cast(calls_without_arguments, only_claims),
    "claimer": cast(claims, only_claims),
    "caller": cast(calls_always, solves),
    "talker": cast(knows, only_claims),
    "wrecker": cast(knows, wrecks_the_server),
}
Use = dict[str, Any]


@pytest.fixture
def tool_use(place: Path, server: ScriptedServer) -> Callable[..., Use]:
    """What a run says of the tool use of a model that is played."""

    def run(players: dict[str, list[Player]], *words: str) -> Use:
        play(server, players)
        done = clawgauge(place, "run", "-t", "fake:scripted-model", "--concurrency", "8", *words)
        assert done.code == 0, done.stderr
        found: Use = done.summary()["models"][0]["tool_use"]
        return found

    return run


def test_a_model_that_does_all_the_work_is_recommended(tool_use: Callable[..., Use]) -> None:
    """The prompts of a run without -s are enough to say so."""
    use = tool_use(cast(knows, solves))
    assert use["recommended_for_subagents"] and use["evidence_command"] is None
    assert [(need["name"], need["met"]) for need in use["needs"]] == [
        ("calls", "yes"), ("arguments", "yes"), ("restraint", "yes"), ("tasks", "yes")
    ]  # fmt: skip


@pytest.mark.parametrize("bot", slow_rest(BOTS, every=8))
def test_no_bot_is_recommended(tool_use: Callable[..., Use], bot: str) -> None:
    """What is wanting is said."""
    use = tool_use(BOTS[bot])
    assert not use["recommended_for_subagents"]
    assert [need["why"] for need in use["needs"] if need["met"] == "no"] and use[
        "evidence_command"
    ] is None


@pytest.mark.slow
@pytest.mark.parametrize("bot", BOTS)
@pytest.mark.parametrize("suites", [SUITES, TEXT, ("tool_use",), TOOLS, ("native_tools",), TASKS])
def test_no_bot_is_recommended_whatever_is_run(
    tool_use: Callable[..., Use], bot: str, suites: tuple[str, ...]
) -> None:
    words = [word for suite in suites for word in ("-s", suite)]
    assert not tool_use(BOTS[bot], *words)["recommended_for_subagents"]


def test_words_alone_recommend_nobody(tool_use: Callable[..., Use]) -> None:
    """However well a model names commands in text; what would tell more is said."""
    use = tool_use(cast(knows, solves), "-s", "tool_use")
    assert not use["recommended_for_subagents"]
    assert use["evidence_command"] == (
        "clawgauge run -t fake:scripted-model -s native_tools -s restraint -s agentic"
    )
