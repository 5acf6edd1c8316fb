"""Conversations in a suite: what a prompt goes on from, what several share, and what is refused, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.errors import RunFolderError, SuiteError
from clawgauge.journal.folder import RunFolder
from clawgauge.journal.reader import RunReader
from clawgauge.records import (
    Context,
    Prompt,
    Result,
    RunConfig,
    RunOptions,
    fill_contexts,
    share_contexts,
)
from clawgauge.suites import load_suite
from support.rows import every_row

EXEC: dict[str, Any] = {
    "type": "function",
    "function": {"name": "exec", "parameters": {"type": "object"}},
}
READ: dict[str, Any] = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object"}},
}
ASKS = {"role": "user", "content": "Is the disk full?"}
CALLS = {
    "role": "assistant",
    "calls": [{"name": "exec", "id": "a", "arguments": {"command": "df"}}],
}
RESULT = {"role": "tool", "call": "a", "content": "100% /"}
SAYS = {"role": "assistant", "content": "It is."}
BASE: dict[str, Any] = {"id": "A", "name": "n", "validator": {"type": "noop"}}


def load(place: Path, *prompts: dict[str, Any], **header: Any) -> list[Prompt]:
    path = place / "s.json"
    entries = [{**BASE, "id": f"P{number}", **prompt} for number, prompt in enumerate(prompts)]
    path.write_text(json.dumps({**header, "prompts": entries}), encoding="utf-8")
    return load_suite(str(path)).prompts


def test_a_conversation_goes_before_the_prompt(tmp_path: Path) -> None:
    """Results stand in the order of their calls, whatever the order they were written in; ids are no longer needed."""
    two = {"role": "assistant", "calls": [{"name": "exec", "id": "x"}, {"name": "read", "id": "y"}]}
    results = [
        {"role": "tool", "call": "y", "content": "second"},
        {"role": "tool", "call": "x", "content": "first"},
    ]
    (prompt,) = load(
        tmp_path, {"messages": [ASKS, two, *results], "prompt": "And now?", "tools": [EXEC, READ]}
    )
    assert [message.role for message in prompt.messages] == ["user", "assistant", "tool", "tool"]
    assert [message.content for message in prompt.messages[2:]] == [
        "first",
        "second",
    ] and prompt.prompt == "And now?"
    (unnamed,) = load(
        tmp_path,
        {
            "messages": [
                ASKS,
                {**CALLS, "calls": [{"name": "exec"}]},
                {"role": "tool", "content": "r"},
            ],
            "tools": [EXEC],
        },
    )
    assert (unnamed.prompt, unnamed.messages[-1].content) == ("", "r"), "it goes on from the result"


def test_the_last_user_message_is_the_prompt(tmp_path: Path) -> None:
    """Written either way it is the same prompt, with the same hash; a system message is the system text."""
    as_prompt = {"messages": [ASKS, SAYS], "prompt": "Why?", "system": "Be brief."}
    as_message = {"messages": [{"role": "system", "content": "Be brief."}, ASKS, SAYS]}
    as_message["messages"].append({"role": "user", "content": "Why?"})
    assert load(tmp_path, as_prompt) == load(tmp_path, as_message, system="another")


NO_TOOLS = "key 'tools': missing; the messages call tools"
BAD: list[tuple[str, dict[str, Any], str]] = [
    (
        "unknown role",
        {"messages": [{"role": "human", "content": "x"}]},
        "'messages[0].role' must be one of system, user",
    ),
    ("no role", {"messages": [{"content": "x"}]}, "key 'messages[0].role' is missing"),
    ("no object", {"messages": ["hi"]}, "key 'messages[0]' must be an object"),
    (
        "unknown key",
        {"messages": [{**ASKS, "contents": "x"}]},
        "key 'messages[0].contents' is not known here; did you",
    ),
    (
        "blank user",
        {"messages": [{"role": "user", "content": " "}]},
        "'messages[0].content' must be text that is not",
    ),
    (
        "silent assistant",
        {"messages": [ASKS, {"role": "assistant"}]},
        "key 'messages[1]' says nothing; give it",
    ),
    ("orphan result", {"messages": [ASKS, RESULT]}, "key 'messages[1]': is the result of no call"),
    (
        "result twice",
        {"messages": [ASKS, CALLS, RESULT, RESULT]},
        "key 'messages[3]': is the result of no call: 'a', it must",
    ),
    (
        "one too many",
        {"messages": [ASKS, CALLS, RESULT, {"role": "tool", "content": ""}]},
        "key 'messages[3]': is the result of no call: it must follow",
    ),
    (
        "result of none",
        {"messages": [ASKS, CALLS, {**RESULT, "call": "b"}]},
        "key 'messages[2]': is the result of no call: 'b', it",
    ),
    (
        "no result",
        {"messages": [ASKS, CALLS, ASKS]},
        "key 'messages[1].calls[0]': has no result; add a message with",
    ),
    (
        "no result at the end",
        {"messages": [ASKS, CALLS], "prompt": "p"},
        "'messages[1].calls[0]': has no result",
    ),
    (
        "one id twice",
        {"messages": [ASKS, {**CALLS, "calls": CALLS["calls"] * 2}]},
        "'a' is the id of two calls",
    ),
    (
        "arguments as text",
        {"messages": [ASKS, {**CALLS, "calls": [{"name": "e", "arguments": "{}"}]}]},
        "must be an obj",
    ),
    (
        "late system",
        {"messages": [ASKS, {"role": "system", "content": "x"}]},
        "'messages[1]': a system message can only",
    ),
    (
        "system twice",
        {"system": "a", "messages": [{"role": "system", "content": "x"}, ASKS]},
        "key 'system': given besi",
    ),
    (
        "begins with the assistant",
        {"messages": [SAYS, ASKS]},
        "key 'messages': the first to speak must be a user",
    ),
    (
        "ends with the assistant",
        {"messages": [ASKS, SAYS]},
        "the last to speak is the assistant; end with a user",
    ),
    ("calls without tools", {"messages": [ASKS, CALLS, RESULT]}, NO_TOOLS),
    (
        "empty",
        {"messages": []},
        "key 'messages' is empty; it must be a list of one or more messages",
    ),
    (
        "nothing is said",
        {"context": "shop"},
        "key 'prompt' is missing; it must be text that is not blank",
    ),
    (
        "unknown context",
        {"context": "shp", "prompt": "p"},
        "key 'context': 'shp' is not known; did you mean 'shop'?",
    ),
]


@every_row(("name", "prompt", "told"), BAD)
def test_a_bad_conversation_is_refused(
    tmp_path: Path, name: str, prompt: dict[str, Any], told: str
) -> None:
    """Before anything is sent, with the prompt, the message and what to do."""
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, prompt, contexts={"shop": {"system": "You sell."}})
    assert "prompt 1 ('P0'), " in str(caught.value) and told in str(caught.value)


def test_a_bad_context_is_refused_by_its_name(tmp_path: Path) -> None:
    for context, told in (
        ({"messages": [ASKS, CALLS]}, "key 'contexts.shop.messages[1].calls[0]': has no result"),
        (
            {"tools": ["exec"]},
            "key 'contexts.shop.tools[0]': must be an object, or the name of a tool",
        ),
        ({"prompt": "p"}, "key 'contexts.shop.prompt' is not known here"),
    ):
        with pytest.raises(SuiteError) as caught:
            load(tmp_path, {"prompt": "p"}, contexts={"shop": context})
        assert told in str(caught.value)


def test_what_is_shared_comes_first_and_a_prompt_has_the_last_word(tmp_path: Path) -> None:
    """The context's messages, then the prompt's; tools of the same name are the prompt's own, new ones come last."""
    own_exec = {"type": "function", "function": {"name": "Exec", "description": "mine"}}
    plain, own = load(
        tmp_path,
        {"context": "box", "prompt": "p"},
        {
            "context": "box",
            "messages": [ASKS],
            "prompt": "p",
            "tools": [READ, own_exec],
            "system": "",
        },
        contexts={"box": {"system": "S", "tools": [EXEC], "messages": [ASKS, SAYS]}},
        system="the suite's",
    )
    assert (plain.system, plain.tools, len(plain.messages)) == ("S", [EXEC], 2)
    assert (own.system, own.tools) == (None, [own_exec, READ])
    assert [message.content for message in own.messages] == [
        ASKS["content"],
        "It is.",
        ASKS["content"],
    ]


def test_variants_and_drawings_reach_the_messages(tmp_path: Path) -> None:
    """A field stands for a text in what is said, and for the value itself in arguments."""
    call = {
        "role": "assistant",
        "calls": [{"name": "exec", "arguments": {"n": "{n}", "command": "df -h ash"}}],
    }
    said = [
        {"role": "user", "content": "is it {n}?"},
        call,
        {"role": "tool", "content": "ash is {n}% full"},
    ]
    entry = {
        "messages": said,
        "prompt": "p",
        "tools": [EXEC],
        "variants": [{"n": 7}, {"n": 8}],
        "draw": {"ash": ["elm"]},
    }
    first, second = load(tmp_path, entry)
    assert [first.messages[0].content, second.messages[2].content] == ["is it 7?", "ash is 8% full"]
    assert second.messages[1].calls[0].arguments == {"n": 8, "command": "df -h ash"}
    drawn = load_suite(str(tmp_path / "s.json"), drawing=1).prompts[0]
    assert drawn.messages[1].calls[0].arguments["command"] == "df -h elm"
    assert drawn.messages[2].content == "elm is 7% full"


def test_names_with_strokes_share_no_context_that_is_not_theirs() -> None:
    """Context `b/c` of suite `a` and `c` of `a/b` are written under one key, and each prompt comes back as it was."""
    prompts = [
        Prompt(
            id="P0",
            suite=suite,
            name="p",
            prompt="?",
            context=context,
            system=system,
            validator={"type": "noop"},
        )
        for suite, context, system in (("a", "b/c", "one"), ("a/b", "c", "other"))
    ]
    assert list(fill_contexts(*share_contexts(prompts))) == prompts


def test_a_run_folder_keeps_a_context_once(tmp_path: Path) -> None:
    """config.json has it once, whoever opens the folder has every prompt whole, and the hash is that of the suite."""
    long = "x" * 10_000
    prompts = load(
        tmp_path,
        *({"context": "box", "prompt": f"p{number}"} for number in range(20)),
        {"context": "box", "prompt": "own", "tools": [READ], "messages": [ASKS, SAYS]},
        {"prompt": "without"},
        contexts={"box": {"system": long, "tools": [EXEC], "messages": [ASKS, SAYS]}},
    )
    config = RunConfig(
        schema_version=1, run_id="r", created_at_ms=1, clawgauge_version="0", models=[], planned_targets=[],
        options=RunOptions(), suites=[], prompts=prompts, prompts_sha256="",
    )  # fmt: skip
    with RunFolder.create(tmp_path / "runs", "r") as folder:
        folder.write("config.json", config)
        path = folder.path
    assert (path / "config.json").read_text().count(long) == 1
    found = RunReader(path, Result).config
    assert found is not None and found.prompts == prompts
    contexts, lean = share_contexts(prompts)
    assert list(fill_contexts(contexts, lean)) == prompts and lean[-1] is prompts[-1]


def test_a_folder_whose_contexts_are_a_bomb_is_refused(tmp_path: Path) -> None:
    """A few kilobytes that would become gigabytes of prompts are told in a sentence."""
    context = Context(tools=[{}] * 100_000)
    prompt = Prompt(
        id="A", name="n", prompt="p", validator={"type": "noop"}, suite="s", context="c", tools=[{}]
    )
    config = {
        "schema_version": 1, "run_id": "r", "created_at_ms": 1, "clawgauge_version": "0", "models": [], "targets": [],
        "options": {}, "suites": [], "prompts": [msgspec.to_builtins(prompt)] * 1_000, "prompts_sha256": "",
        "contexts": {"s/c": msgspec.to_builtins(context)},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunFolderError, match="more than 8,000,000 tools and messages"):
        _ = RunReader(tmp_path, Result).config
