"""What config.json says of sampling is what the server was sent, whichever provider sends it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clawgauge.cli.session import make_config
from clawgauge.journal.folder import RunFolder
from clawgauge.providers.base import Call as ProviderCall
from clawgauge.providers.base import Provider, ProviderSettings, Sink, create_provider
from clawgauge.providers.embedded.provider import Embedded
from clawgauge.providers.openai.chat import ChatServer
from clawgauge.records import THINKING_LEVELS, Message, Prompt, Target
from clawgauge.registry import PROVIDER_TYPES
from clawgauge.runner.agenda import Agenda, OpenCells
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.target import TargetRun
from support.fake_claude import install_fake_claude
from support.http_exchange import ReceivedRequest
from support.plans import plan_of
from support.scripted_server import ScriptedServer
from support.slow_rest import slow_rest

MODEL = "scripted-model"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED = Message(role="user", content="Look.")
NOTHING = {"type": "noop"}
PROMPTS = [
    Prompt(id="plain", name="plain", prompt="plain", suite="s", validator=NOTHING),
    Prompt(
        id="own",
        name="own",
        prompt="own",
        suite="s",
        validator=NOTHING,
        temperature=0.3,
        max_tokens=77,
    ),
    Prompt(id="tools", name="tools", prompt="tools", suite="s", validator=NOTHING, tools=[TOOL]),
    Prompt(
        id="later", name="later", prompt="later", suite="s", validator=NOTHING, messages=[ASKED]
    ),
]
FORCED = Prompt(
    id="forced",
    name="forced",
    prompt="forced",
    suite="s",
    validator=NOTHING,
    tools=[TOOL],
    tool_choice="required",
)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5, "max_tokens": 1024, "seed": 7},
    {"temperature": 0.0},
    {"max_tokens": 200_000},
]


def flat(body: Mapping[str, Any], max_tokens: str) -> dict[str, Any]:
    return {
        "temperature": body.get("temperature"),
        "max_tokens": body.get(max_tokens),
        "seed": body.get("seed"),
    }


READ: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "openai_chat": lambda body: flat(body, "max_tokens"),
    "openai_responses": lambda body: flat(body, "max_output_tokens"),
    "anthropic_messages": lambda body: flat(body, "max_tokens"),
    "gemini": lambda body: flat(body["generationConfig"], "maxOutputTokens"),
    "ollama": lambda body: flat(body["options"], "num_predict"),
    "ollama_openai": lambda body: flat(body, "max_tokens"),
    "embedded": lambda body: flat(body, "max_tokens"),
}
EXTRA: dict[str, dict[str, Any]] = {
    "openai_chat": {"temperature": 0.9, "max_tokens": 5},
    "openai_responses": {"max_output_tokens": 6, "seed": 4},
    "anthropic_messages": {"temperature": 1.0, "max_tokens": 40_000},
    "gemini": {"generationConfig": {"temperature": 0.9, "maxOutputTokens": 8}},
    "ollama": {"options": {"temperature": 0.9, "num_predict": 8}},
    "ollama_openai": {"seed": 11},
    "embedded": {"temperature": 0.1},
}


class BuiltInModel(Embedded):
    """The embedded provider, with a scripted server in the place of its child."""

    def __init__(self, settings: ProviderSettings, address: str) -> None:
        super().__init__(settings)
        self._address = address

    def check_here(self, model: str) -> None: ...

    async def _start(self, path: Path, alias: str) -> str:
        return self._address


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(dialect="ollama", loaded=[MODEL]) as server:
        yield server


def make_provider(kind: str, server: ScriptedServer, extra: dict[str, Any]) -> Provider:
    settings = ProviderSettings(
        kind, kind, server.v1_url, extra={"extra_body": extra} if extra else {}
    )
    return (
        BuiltInModel(settings, server.base_url) if kind == "embedded" else create_provider(settings)
    )


def ask(
    folder: Path, provider: Provider, prompts: list[Prompt], level: str | None, **options: Any
) -> dict[str, Any]:
    """Ask every prompt once; config.json as it is on disk."""
    target = Target(provider.name, MODEL, level)
    plan = plan_of(prompts, given={provider.name: provider}, targets=[target], **options)

    async def asked(run_folder: RunFolder) -> None:
        context = RunContext(plan, run_folder, Observer())
        with ClientClock() as clock:
            async with provider:
                agenda = Agenda(OpenCells(prompts, 1), [])
                await TargetRun(context, target, provider, agenda, clock).ask()

    with RunFolder.create(folder) as run_folder:
        run_folder.write("config.json", make_config(plan, run_folder.run_id))
        asyncio.run(asked(run_folder))
    config: dict[str, Any] = json.loads((run_folder.path / "config.json").read_bytes())
    return config


def recorded(config: dict[str, Any], prompt_id: str) -> dict[str, Any]:
    ((label, usual),) = config["sampling"].items()
    said: dict[str, Any] = config["prompt_sampling"].get(label, {}).get(f"s/{prompt_id}", usual)
    return said


# What is said to the model, in any of the protocols; all else of a request are settings.
SAID = {"messages", "input", "instructions", "system", "contents", "systemInstruction"}


def check_recorded_settings(config: dict[str, Any], call: ReceivedRequest) -> None:
    """config.json has all of the request of a plain prompt but what is said to the model."""
    (target,) = config["targets"]
    sent = {key: value for key, value in call.json.items() if key not in SAID}
    assert target["sent"] == {"path": call.path.partition("?")[0], "body": sent}


@pytest.mark.parametrize("extra", slow_rest([True, False], every=2), ids=["extra_body", ""])
@pytest.mark.parametrize("kind", list(READ))
def test_the_recorded_sampling_is_the_sent_one(
    tmp_path: Path, server: ScriptedServer, kind: str, extra: bool
) -> None:
    """For each level and set of options: temperature, token limit and seed, and nothing where nothing was sent."""
    for level in (None, *THINKING_LEVELS):
        for options in OPTIONS:
            provider = make_provider(kind, server, EXTRA[kind] if extra else {})
            if level is not None and provider.why_not_level(MODEL, level) is not None:
                # Refused before a run.
                continue
            # Ollama's own API cannot force a call: such a prompt is not asked.
            prompts = PROMPTS if kind == "ollama" else [*PROMPTS, FORCED]
            n_before = len(server.calls)
            config = ask(tmp_path, provider, prompts, level, **options)
            for prompt, call in zip(prompts, server.calls[n_before:], strict=True):
                sent = READ[kind](call.json)
                assert recorded(config, prompt.id) == sent, f"{level} {options} {prompt.id}"
            check_recorded_settings(config, server.calls[n_before])


def test_no_type_of_provider_is_left_out() -> None:
    """The program that is no server has tests of its own below; agent programs are told next to nothing."""
    agents = {name for name, entry in PROVIDER_TYPES.items() if entry.is_agent}
    assert {*READ, "claude_code_cli"} | agents == set(PROVIDER_TYPES)


def test_a_limit_by_its_newer_name_is_sent_alone_and_recorded(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """OpenAI refuses a request with both names of the limit."""
    provider = make_provider("openai_chat", server, {"max_completion_tokens": 50})
    config = ask(tmp_path, provider, PROMPTS[:1], None, max_tokens=1024)
    (call,) = server.calls
    assert call.json["max_completion_tokens"] == 50
    assert "max_tokens" not in call.json
    assert recorded(config, "plain")["max_tokens"] == 50


def test_thinking_of_anthropic_is_recorded_with_its_own_limit_and_no_temperature(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """The API takes no temperature with thinking, and the limit is that of the answer plus that of the thinking."""
    provider = make_provider("anthropic_messages", server, {})
    config = ask(tmp_path, provider, PROMPTS, "high", temperature=0.5, max_tokens=1024)
    usual = {"temperature": None, "max_tokens": 17_408, "seed": None}
    assert config["sampling"] == {f"anthropic_messages:{MODEL}@high": usual}
    assert config["prompt_sampling"] == {}, "the run's own limit wins over that of a prompt"


@pytest.mark.parametrize("level", [None, "high"])
@pytest.mark.parametrize("options", OPTIONS)
def test_the_claude_program_is_given_the_recorded_limit(
    tmp_path: Path, level: str | None, options: dict[str, Any]
) -> None:
    """It takes no temperature and no seed; the limit of tokens is in its environment."""
    variable = "CLAUDE_CODE_MAX_OUTPUT_TOKENS"
    fake = install_fake_claude(tmp_path / "bin", answer="yes", env_values=[variable])
    environ = {"PATH": str(tmp_path / "bin"), "ANTHROPIC_API_KEY": "sk-not-a-key"}
    provider = create_provider(
        ProviderSettings("claude_code_cli", "claude_code_cli", environ=environ)
    )
    config = ask(tmp_path, provider, PROMPTS[:2], level, **options)
    calls = [call for call in fake.calls if call.kind == "call"]
    assert [call.stdin for call in calls] == ["plain", "own"]
    for call in calls:
        limit = int(call.env[variable])
        assert recorded(config, call.stdin) == {
            "temperature": None,
            "max_tokens": limit,
            "seed": None,
        }


class Yielding(ChatServer):
    """A provider that goes on without the level after the first refusal of it."""

    has_yielded = False

    def settings_body(self, call: ProviderCall) -> dict[str, Any]:
        body = super().settings_body(call)
        return {**body, "reasoning_effort": None} if self.has_yielded else body

    async def attempt(self, call: ProviderCall, sink: Sink) -> None:
        await super().attempt(call, sink)
        self.has_yielded = True


def test_settings_that_change_during_a_run_are_an_event(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """config.json keeps those of the beginning; the event, written once, has those that were sent from then on."""
    provider = Yielding(ProviderSettings("openai_chat", "openai_chat", server.v1_url))
    config = ask(tmp_path, provider, PROMPTS[:3], "high")
    assert [call.json.get("reasoning_effort") for call in server.calls] == ["high", None, None]
    assert config["targets"][0]["sent"]["body"]["reasoning_effort"] == "high"
    (folder,) = tmp_path.iterdir()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    (event,) = [event for event in events if event["event"] == "request_settings"]
    assert event["target"] == f"openai_chat:{MODEL}@high"
    assert event["detail"]["path"] == "/v1/chat/completions"
    assert event["detail"]["body"]["model"] == MODEL
    assert "reasoning_effort" not in event["detail"]["body"]
