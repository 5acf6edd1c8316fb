"""The whole contract between the runner and a provider: one attempt at one call; and how a provider is found by name.

A plug-in, found through the `clawgauge.providers` entry points, is an equal. Those of this package are in `registry`,
which spares the common case a search through every installed package: that takes longer than all else a dry run does.
"""

from __future__ import annotations

import difflib
import functools
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from clawgauge.errors import ConfigError
from clawgauge.records import Message, ModelInfo, Prompt, ProviderProbe, RunOptions, Target, ToolInvocation
from clawgauge.registry import PROVIDER_TYPES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "clawgauge.providers"
_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64


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
    """What to ask. `max_tokens`, `temperature` and `seed` are sent only where not None. `messages` came before the
    prompt, which is empty where they end with the results of tools. `history` is what has passed since the prompt; the
    model is to go on from there. `world` and `max_turns` are for a provider that runs a whole task by itself
    (`Provider.runs_tasks`) and are None for any other."""

    model: str
    prompt: str
    system: str | None = None
    thinking_level: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stream: bool = True
    timeout_s: float = 300.0
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: Any = None
    response_format: Mapping[str, Any] | None = None
    history: tuple[Turn, ...] = ()
    world: Mapping[str, Any] | None = None
    max_turns: int | None = None
    messages: Sequence[Message] = ()


class Sampling(NamedTuple):
    """The sampling values of one request, as they go on the wire; None is a value that is not sent.

    The names are those of config.json's `sampling`, whatever a protocol calls them."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


class PastCall(NamedTuple):
    id: str
    name: str
    arguments: dict[str, Any]
    answer: str


class PastTurn(NamedTuple):
    """An earlier turn of the model, as it is sent back to it."""

    text: str
    calls: list[PastCall]
    reasoning: str = ""
    replay: object = None


def conversation(call: Call) -> Iterator[str | PastTurn]:
    """Everything in order: the messages before the prompt, the prompt, the turns since. The ids are ours: servers
    differ in what they send, some send none, and one family takes nothing but nine letters and digits. They are counted
    from the start, so a call keeps its id in every later request."""
    ids = (f"call{number:05d}" for number in count(1))
    offered = {name.lower(): name for name in (tool["function"]["name"] for tool in call.tools)}

    def past(calls: Iterable[tuple[str, Any]], answers: Iterable[str]) -> list[PastCall]:
        made = []
        for (name, arguments), answer in zip(calls, answers, strict=False):
            # As it was offered; a name the model made up is sent as servers accept names, or they refuse the request.
            name = offered.get(name.lower()) or _UNSENDABLE.sub("_", name)[:_NAME_CHARS] or "unnamed"
            # Malformed ones go back as none: servers that parse them again would refuse the request, and the answer
            # beside them tells the model what was wrong.
            made.append(PastCall(next(ids), name, arguments if isinstance(arguments, dict) else {}, answer))
        return made

    for index, message in enumerate(call.messages):
        if message.role == "user":
            yield message.content
        elif message.role == "assistant":
            results = takewhile(lambda after: after.role == "tool", call.messages[index + 1 :])
            calls = past(((one.name, one.arguments) for one in message.calls), (one.content for one in results))
            yield PastTurn(message.content, calls)
    if call.prompt or not call.messages:
        yield call.prompt
    for turn in call.history:
        made = [(invocation.name, invocation.arguments) for invocation in turn.calls]
        yield PastTurn(
            text=turn.text,
            calls=past(made, turn.answers),
            reasoning=turn.reasoning,
            replay=turn.replay,
        )


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """How to reach a provider. `api_key` never leaves memory; `api_key_env` is the name a user may be shown. `tell`
    says a line to the person waiting (a download, a slow start); it is not a log. `unusable` says why this provider
    cannot be had: whoever asks for it is told so, and everybody else is left in peace. `make` stands in for the type's
    own `create`, where what is asked is not here."""

    name: str
    type: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    concurrency: int = 1
    tell: Callable[[str], None] = field(default=lambda _line: None, repr=False)
    unusable: str | None = None
    make: Callable[[ProviderSettings], Provider] | None = field(default=None, repr=False)


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

    def tool_delta(self, at_ns: int, index: int | str, name: str | None, arguments: str | None) -> None:
        """A piece of a native tool call.

        Pieces of one call share an index. `name` is its whole name, once; None is what is not said.
        """

    def tool_whole(self, at_ns: int, index: int | str, name: str | None, arguments: str | None) -> None:
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

    def end(self, at_ns: int) -> None:
        """The last byte of the answer arrived, and the clock stops."""


class Provider(AbstractAsyncContextManager["Provider"]):
    """One way to reach models: write `attempt`, and the rest has defaults for a plain remote server.

    An async context manager: entering may start things, leaving must stop them all. `local` tells whether the model
    runs on the user's own machine: temperature 0 is then the default and cold starts are marked. `streams` tells
    whether first-token times can be had, `takes` which sampling options can be sent at all, and `takes_thinking`
    whether a thinking level does anything. `runs_tasks` tells that a task with its `world` is run inside one attempt;
    otherwise the runner asks turn by turn. `descriptors_per_call` is what a call in flight keeps open, so that no more
    of them are made than this machine can hold. A reply may have `default_max_tokens` where neither the user nor the
    prompt says how many; of the models in `fixed_max_tokens` it has those, whatever a prompt says. `default_context` is
    how many tokens fit a model's window, where the provider decides that. `cannot_send` names what of a prompt would
    be lost (`tool_choice`, `response_format`): prompts that need it are not asked. `counts_cached_input` tells whether
    `input_tokens` has in it what the server had in its cache: if not, a low count says nothing of what was sent."""

    local = runs_tasks = False
    streams = takes_thinking = True
    counts_cached_input = True
    takes: frozenset[str] = frozenset({"temperature", "seed"})
    default_max_tokens = 1024
    fixed_max_tokens: Mapping[str, int] = {}
    default_context: int | None = None
    cannot_send: frozenset[str] = frozenset()
    descriptors_per_call = 1

    def __init__(self, settings: ProviderSettings) -> None:
        self.name, self.settings = settings.name, settings
        self.context_tokens: int | None = settings.extra.get("context") or self.default_context

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    @abstractmethod
    async def attempt(self, call: Call, sink: Sink) -> None:
        """Make one call and report it to `sink`; raise `CallFailure` if it did not end well. Never retries."""

    def sampling(self, call: Call) -> Sampling:
        """The sampling values that `attempt` sends for this call.

        It is the only place that decides them: `attempt` builds its request from this answer, and config.json takes
        what it records from here. A provider that sends other values than a call asks for says so by overriding it."""
        return Sampling(
            temperature=call.temperature if "temperature" in self.takes else None,
            max_tokens=call.max_tokens,
            seed=call.seed if "seed" in self.takes else None,
        )

    def most_output(self, call: Call) -> int | None:
        """How many tokens the server may make of a call, and bill; None where nothing limits it."""
        return self.sampling(call).max_tokens

    def check_here(self, model: str) -> None:
        """Raise the `CallFailure` of a call that cannot be made from this machine: no key, no program, no file."""

    async def look_up(self, model: ModelInfo) -> ModelInfo:
        """A listed model with what a further question, free of charge, tells of it."""
        return model

    async def probe(self) -> ProviderProbe:
        """Say whether this provider could be used now. Never raises, never costs money."""
        return ProviderProbe(provider=self.name, reachable=True, detail="not checked: it cannot be asked about itself")

    async def models(self) -> list[ModelInfo]:
        """What `PROVIDER:*` means. Empty where it cannot be known; `CallFailure` where the server cannot be asked."""
        return []

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Get ready for one model's suite. Returns whether the model is loaded already; None where unknowable."""
        return None

    async def find_window(self, model: str) -> int | None:
        """How many tokens fit this model's window, as far as that can be known before it is asked anything."""
        return self.context_tokens

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """Why these models cannot be served side by side with so much memory to spare; None where nothing says no."""
        return None

    async def loaded_models(self) -> list[str]:
        """The models in the server's memory now, for the resource snapshots. Empty where it cannot be known."""
        return []

    def pids(self) -> list[int]:
        """Processes whose memory is the model's cost on this machine."""
        return []

    def describe(self) -> dict[str, Any]:
        """Address and settings for config.json. No secret."""
        return {"type": self.settings.type}


def make_call(
    provider: Provider, target: Target, options: RunOptions, prompt: Prompt, max_tokens: int | None = None
) -> Call:
    """The call that asks a prompt of a target. `max_tokens` wins over every other limit.

    A wish of the run wins over one of the prompt, and the provider's default comes last. What a provider cannot take
    is no part of the call."""
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


@functools.cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in import_module("importlib.metadata").entry_points(group=GROUP)}


def provider_types() -> list[str]:
    """The names of all provider types, those of plug-ins included."""
    return sorted({*PROVIDER_TYPES, *_entries()})


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
    built_in = PROVIDER_TYPES.get(settings.type)
    if built_in is not None:
        module, _, class_name = built_in.factory.partition(":")
        factory: Callable[[ProviderSettings], Provider] = getattr(import_module(module), class_name)
        return factory
    plug_in = _entries().get(settings.type)
    if plug_in is None:
        raise ConfigError(unknown_provider(settings.type, provider_types()))
    loaded: Callable[[ProviderSettings], Provider] = plug_in.load()
    return loaded


def unknown_provider(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    guess = f" did you mean {near[0]!r}?" if near else ""
    return f"unknown provider {name!r}:{guess} known providers are {', '.join(known)}"
