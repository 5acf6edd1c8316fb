"""The whole contract between the runner and a provider, and how a provider is found by its type.

A provider makes one attempt at one call and reports what it sees to a `Sink`. A plug-in, found
through the `clawgauge.providers` entry points, is an equal of those of this package. Those are in
`registry`, which spares the common case a search through every installed package: that takes longer
than all else a dry run does.
"""

from __future__ import annotations

import difflib
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from clawgauge.errors import ConfigError
from clawgauge.outcomes import AgentLedger
from clawgauge.records import (
    THINKING_OFF,
    Message,
    ModelInfo,
    Prompt,
    ProviderProbe,
    RunOptions,
    SentSettings,
    Target,
    ToolInvocation,
)
from clawgauge.registry import PROVIDER_TYPES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from clawgauge.providers.http.client import HttpClient

GROUP = "clawgauge.providers"


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier turn of a task: what the model said and called, and what the calls answered."""

    text: str
    calls: tuple[ToolInvocation, ...]
    answers: tuple[str, ...]
    reasoning: str = ""
    """What came on a channel of its own before the text."""
    replay: object = None
    """What the provider reported with `Sink.replay` in this turn. It goes back unchanged."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model."""

    model: str
    prompt: str
    """Empty where `messages` end with the results of tools."""
    system: str | None = None
    thinking_level: str | None = None
    max_tokens: int | None = None
    """This, `temperature` and `seed` are sent only where not None."""
    temperature: float | None = None
    seed: int | None = None
    stream: bool = True
    timeout_s: float = 300.0
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: Any = None
    response_format: Mapping[str, Any] | None = None
    history: tuple[Turn, ...] = ()
    """What has passed since the prompt; the model is to go on from there."""
    world: Mapping[str, Any] | None = None
    """The simulated machine of a task, for a provider that runs tasks itself; None for others."""
    max_turns: int | None = None
    """How often the model may be asked in a task, for a provider that runs tasks itself."""
    messages: Sequence[Message] = ()
    """The conversation before the prompt."""


class Sampling(NamedTuple):
    """The sampling values of one request, as they go on the wire; None is a value that is not sent.

    The names are those of config.json's `sampling`, whatever a protocol calls them.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """How to reach a provider."""

    name: str
    """What it is called in targets and records: its table's name, or its type."""
    type: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    """It never leaves memory."""
    api_key_env: str | None = None
    """The name of the key's variable, which a user may be shown."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What its table says beyond that: `extra_body`, `context` and others."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    concurrency: int = 1
    notify: Callable[[str], None] = field(default=lambda _line: None, repr=False)
    """Shows a line to the person waiting (a download, a slow start); it is not a log."""
    unusable: str | None = None
    """Why this provider cannot be had. Only who asks for it is told."""
    upstreams: Mapping[str, ProviderSettings] = field(default_factory=dict, repr=False)
    """Whom an agent program may ask, by name; empty for a provider that asks by itself."""
    make: Callable[[ProviderSettings], Provider] | None = field(default=None, repr=False)
    """Makes the provider instead of its type's class, where what is asked is on another machine."""


class Sink(Protocol):
    """Where an attempt reports what it sees, as it sees it.

    All times are `time.perf_counter_ns()`.
    """

    def start(self, at_ns: int) -> None:
        """The request goes out, and the clock starts.

        Over HTTP that is when it is given to a connected socket, for a program when its process is
        spawned.
        """

    def connected(self, took_ns: int | None) -> None:
        """How long connecting took; None for a reused connection. It is outside the clock."""

    def text(self, at_ns: int, piece: str) -> None:
        """A piece of the answer."""

    def reasoning(self, at_ns: int, piece: str) -> None:
        """A piece of a separate reasoning channel."""

    def tool_delta(
        self, at_ns: int, index: int | str, name: str | None, arguments: str | None
    ) -> None:
        """A piece of a native tool call.

        Pieces of one call share an index. `name` is its whole name, once; None is what is not said.
        """

    def tool_whole(
        self, at_ns: int, index: int | str, name: str | None, arguments: str | None
    ) -> None:
        """A native tool call as the server sums it up, which replaces its pieces so far."""

    def turn(self) -> None:
        """The next turn of the model begins.

        Only a provider that runs a whole task in one attempt reports turns.
        """

    def tool_answer(self, index: int | str, answer: str) -> None:
        """What the call with this index was answered, in a task that the provider runs itself."""

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        """Token counts as the server reports them; later ones replace earlier ones.

        `cached_tokens` are of the input, `reasoning_tokens` of the output.
        """

    def finish(self, reason: str | None) -> None:
        """Why the model stopped.

        `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the server's own word.
        """

    def replay(self, state: object) -> None:
        """State of the provider that must go back with the next request of the same task.

        Signatures of thinking, encrypted reasoning: it comes back as `Turn.replay`, unchanged, and
        nobody else looks into it.
        """

    def note(
        self,
        *,
        model_reported: str | None = None,
        cost_usd: float | None = None,
        cli_overhead_ms: int | None = None,
        server_ns: dict[str, int] | None = None,
        tools_unseen: str | None = None,
        refusal: str | None = None,
        warning: str | None = None,
        first_token_captured: bool = True,
        reasoning_streamed: bool = True,
    ) -> None:
        """Facts for the record.

        `server_ns` is what the server says of its own time: `load`, `queue`, `prefill`, `decode`
        and `total`. `tools_unseen` is a code of `records`: the tools on offer cannot reach the
        model. `refusal` are the words of a refusal that came instead of an answer; repeated ones
        are joined. `first_token_captured` is false when the text came whole, so that its arrival is
        no first-token time. `reasoning_streamed` is false when the output tokens hold reasoning
        that was not streamed, or not all of it, so that they give no rate.
        """

    def agent(self, ledger: AgentLedger) -> None:
        """What was seen on both sides of an agent program that the model was asked inside.

        The time to the first token is then that of the ledger: the model's, not the program's.
        """

    def end(self, at_ns: int) -> None:
        """The last byte of the answer arrived, and the clock stops."""


class Provider(AbstractAsyncContextManager["Provider"]):
    """One way to reach models: write `attempt`. The rest has defaults for a plain remote server.

    An async context manager: entering may start things, leaving must stop them all.
    """

    local: bool = False
    """Whether the model runs on the user's own machine.

    Temperature 0 is then the default, and cold starts are marked.
    """
    streams: bool = True
    """Whether first-token times can be had."""
    runs_tasks: bool = False
    """Whether a task with its `world` is run inside one attempt; else the runner asks by turns."""
    takes: frozenset[str] = frozenset({"temperature", "seed"})
    """Which sampling options can be sent at all."""
    takes_thinking: bool = True
    """Whether a thinking level does anything."""
    cannot_send: frozenset[str] = frozenset()
    """What of a prompt would be lost: `tool_choice`, `response_format`.

    Prompts that need it are not asked.
    """
    default_max_tokens: int = 1024
    """How many tokens a reply may have where neither the user nor the prompt says how many."""
    fixed_max_tokens: Mapping[str, int] = {}
    """How many tokens a reply of these models has, whatever a prompt says."""
    counts_cached_input: bool = True
    """Whether `input_tokens` has in it what the server had in its cache.

    If not, a low count says nothing of what was sent.
    """
    descriptors_per_call: int = 1
    """How many file descriptors a call in flight keeps open.

    No more calls are made at once than this machine can hold.
    """

    def __init__(self, settings: ProviderSettings) -> None:
        self.name = settings.name
        self.settings = settings
        self.context_tokens: int | None = settings.extra.get("context")

    async def __aexit__(self, *exc_info: object) -> None:
        """Stop whatever was started."""
        return None

    @abstractmethod
    async def attempt(self, call: Call, sink: Sink) -> None:
        """Make one call and report it to `sink`. Never tries again.

        Raises `CallFailure` if the call did not end well.
        """

    def sampling(self, call: Call) -> Sampling:
        """The sampling values that `attempt` sends for this call.

        It is the only place that decides them: `attempt` builds its request from this answer, and
        config.json takes what it records from here. A provider that sends other values than a call
        asks for says so by overriding it.
        """
        return Sampling(
            temperature=call.temperature if "temperature" in self.takes else None,
            max_tokens=call.max_tokens,
            seed=call.seed if "seed" in self.takes else None,
        )

    def request_settings(self, call: Call) -> SentSettings | None:
        """The settings part of the request that `attempt` sends for this call, without any text.

        It is made by the same code as the request itself: `attempt` adds what is said to the model,
        and nothing else. Where a provider goes on with other settings after a refusal, it answers
        with those from then on. None where a provider cannot say.

        It is asked after every call. What is shaped like a key is masked where this is recorded.
        """
        return None

    def most_output(self, call: Call) -> int | None:
        """How many tokens the server may make of a call, and bill; None where nothing limits it."""
        return self.sampling(call).max_tokens

    def why_not_level(self, model: str, level: str) -> str | None:
        """Why this model cannot be asked with this thinking level; None where it can.

        What is known before anything is sent. Who can ask a model not to think overrides it.
        """
        if level == THINKING_OFF and self.takes_thinking:
            return f"{self.name} cannot ask a model not to think: leave out @{level}"
        return None

    def why_not_model(self, model: str) -> str | None:
        """Why this model cannot be asked here at all; None where nothing is known against it."""
        return None

    def check_here(self, model: str) -> None:
        """Raise the `CallFailure` of a call that cannot be made from this machine.

        No key, no program, no file: nothing is sent to find out.
        """

    async def look_up(self, model: ModelInfo) -> ModelInfo:
        """A listed model with what a further question, free of charge, tells of it."""
        return model

    def relay_client(self) -> HttpClient | None:
        """The client of its server, for an agent program that is put before it.

        None for a provider that has no server, or whose server does not run yet.
        """
        return None

    async def probe(self) -> ProviderProbe:
        """Say whether this provider could be used now. Never raises, never costs money."""
        detail = "not checked: it cannot be asked about itself"
        return ProviderProbe(provider=self.name, reachable=True, checked=False, detail=detail)

    async def models(self) -> list[ModelInfo]:
        """The models that `PROVIDER:*` stands for; none where they cannot be known.

        Raises `CallFailure` where the server cannot be asked.
        """
        return []

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Get ready for the calls to one model, with `unload_others` without others in memory.

        Returns whether the model is loaded already; None where that cannot be known. Raises
        `CallFailure` where none of the calls can be made.
        """
        return None

    async def find_window(self, model: str) -> int | None:
        """How many tokens fit this model's window, as far as it is known before the first call."""
        return self.context_tokens

    async def takes_tools(self, model: str) -> bool | None:
        """Whether this model takes tools; None where nobody says so before the first call."""
        return None

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """Why these models cannot be served side by side with so much memory to spare.

        None where nothing says that they cannot.
        """
        return None

    async def loaded_models(self) -> list[str]:
        """The models in the server's memory now, for the resource snapshots.

        Empty where that cannot be known.
        """
        return []

    def pids(self) -> list[int]:
        """Processes whose memory is the model's cost on this machine."""
        return []

    def describe(self) -> dict[str, Any]:
        """Address and settings for config.json. No secret."""
        return {"type": self.settings.type}


def make_call(
    provider: Provider,
    target: Target,
    options: RunOptions,
    prompt: Prompt,
    max_tokens: int | None = None,
) -> Call:
    """The call that asks a prompt of a target. `max_tokens` wins over every other limit.

    An option of the run wins over one of the prompt, and the provider's default comes last. What a
    provider cannot take is no part of the call.
    """
    temperature = options.temperature
    if temperature is None:
        temperature = prompt.temperature
    if temperature is None and provider.local:
        temperature = 0.0
    limit = (
        max_tokens
        or options.max_tokens
        or provider.fixed_max_tokens.get(target.model)
        or prompt.max_tokens
        or provider.default_max_tokens
    )
    return Call(
        model=target.model,
        prompt=prompt.prompt,
        system=prompt.system,
        thinking_level=target.thinking_level,
        max_tokens=limit,
        temperature=temperature if "temperature" in provider.takes else None,
        seed=options.seed if "seed" in provider.takes else None,
        stream=options.stream,
        timeout_s=options.timeout_s,
        tools=prompt.tools,
        tool_choice=prompt.tool_choice,
        response_format=prompt.response_format,
        messages=prompt.messages,
    )


def make_plain_call(
    provider: Provider, target: Target, options: RunOptions, max_tokens: int | None = None
) -> Call:
    """The call that asks a target a prompt without wishes of its own."""
    plain = Prompt(id="", name="", prompt="", validator={"type": "noop"})
    return make_call(provider, target, options, plain, max_tokens)


@functools.cache
def _plug_ins() -> dict[str, EntryPoint]:
    """The entry points of provider types by name, those of this package among them."""
    entry_points = import_module("importlib.metadata").entry_points(group=GROUP)
    return {entry_point.name: entry_point for entry_point in entry_points}


def provider_types() -> list[str]:
    """The names of all provider types, those of plug-ins included."""
    return sorted({*PROVIDER_TYPES, *_plug_ins()})


def create_provider(settings: ProviderSettings) -> Provider:
    """Load the provider's module, which listing names does not, and make it.

    Raises `ConfigError` where it cannot be had.
    """
    if settings.unusable is not None:
        raise ConfigError(settings.unusable)
    return _find_factory(settings)(settings)


def _find_factory(settings: ProviderSettings) -> Callable[[ProviderSettings], Provider]:
    if settings.make is not None:
        return settings.make
    factory: Callable[[ProviderSettings], Provider]
    built_in = PROVIDER_TYPES.get(settings.type)
    if built_in is not None:
        module, _, class_name = built_in.factory.partition(":")
        factory = getattr(import_module(module), class_name)
        return factory
    plug_in = _plug_ins().get(settings.type)
    if plug_in is None:
        raise ConfigError(unknown_provider(settings.type, provider_types()))
    factory = plug_in.load()
    return factory


def unknown_provider(name: str, known_names: list[str]) -> str:
    """The message for a provider that does not exist, with the name that was probably meant."""
    similar_names = difflib.get_close_matches(name, known_names, n=1)
    guess = f" did you mean {similar_names[0]!r}?" if similar_names else ""
    return f"unknown provider {name!r}:{guess} known providers are {', '.join(known_names)}"
