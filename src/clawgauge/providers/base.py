"""The whole contract between the runner and a provider: one attempt at one call; and how a provider is found by name.

Those of this package are in a table, all others are found through the `clawgauge.providers` entry points. A plug-in is
an equal: the same contract, found by the same call. The table only spares the common case a search through every
installed package, which takes longer than all else a dry run does.
"""

from __future__ import annotations

import difflib
import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self

from clawgauge.errors import ConfigError
from clawgauge.records import ModelInfo, ProviderProbe, ToolInvocation

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "clawgauge.providers"
BUILT_IN = {
    "claude_code_cli": "claude.provider",
    "embedded": "embedded.provider",
    "ollama_openai": "ollama",
    "openai_chat": "openai.chat",
    "openai_responses": "openai.responses",
}
"""The types of this package, and the module of this room that has the `create` of each."""
# The model that comes along, as `embedded` calls it.
EMBEDDED_MODEL = "smollm2-135m"
# Matched against the whole text of an address, so that no two readers can see two hosts in it.
_VENDOR_ADDRESSES = {
    vendor: re.compile(rf"https://{re.escape(host)}(?::443)?(?:/[\w./-]*)?", re.IGNORECASE | re.ASCII)
    for vendor, host in (("openai", "api.openai.com"), ("anthropic", "api.anthropic.com"))
}


def is_vendor(vendor: str, address: str) -> bool:
    """Whether an address is plainly a vendor's own, and so may be given the key that is meant for it."""
    return _VENDOR_ADDRESSES[vendor].fullmatch(address) is not None


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier turn of a task: what the model said, what it called, and what each call was answered.

    `reasoning` is what came on a channel of its own before the text.
    """

    text: str
    calls: tuple[ToolInvocation, ...]
    answers: tuple[str, ...]
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """What to ask. `max_tokens`, `temperature` and `seed` are sent only where not None.

    `history` is what has passed since the prompt; the model is to go on from there. `world` and `max_turns` are for a
    provider that runs a whole task by itself (`Provider.runs_tasks`) and are None for any other.
    """

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


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """How to reach a provider. `api_key` never leaves memory; `api_key_env` is the name a user may be shown.

    `tell` says a line to the person waiting (a download, a slow start); it is not a log. `unusable` says why this
    provider cannot be had: whoever asks for it is told so, and everybody else is left in peace.
    """

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


class Sink(Protocol):
    """Where an attempt reports what it sees, as it sees it. All stamps are `time.perf_counter_ns()`."""

    def start(self, at_ns: int) -> None:
        """The request goes out (HTTP: to a connected socket; CLI: the process is spawned). Starts the clock."""

    def connected(self, took_ns: int | None) -> None:
        """How long connecting took, or None for a reused connection. Outside the clock."""

    def text(self, at_ns: int, piece: str) -> None:
        """A piece of the answer."""

    def reasoning(self, at_ns: int, piece: str) -> None:
        """A piece of a separate reasoning channel."""

    def tool_delta(self, at_ns: int, index: int | str, name: str | None, arguments: str | None) -> None:
        """A fragment of a native tool call; fragments of one call share an index. `name` is its whole name, once."""

    def tool_whole(self, at_ns: int, index: int | str, name: str | None, arguments: str | None) -> None:
        """A native tool call as the server sums it up: stands for its fragments so far. None is what is not said."""

    def turn(self) -> None:
        """The model's next turn begins. Only for a provider that runs a whole task in one attempt, before each turn."""

    def tool_answer(self, index: int | str, answer: str) -> None:
        """What the call with this index was answered, where the provider runs a task by itself."""

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        """Token counts as the server reports them; later values replace earlier ones."""

    def finish(self, reason: str | None) -> None:
        """Why the model stopped: stop, length, tool_calls, content_filter, refusal, or the server's own word."""

    def note(self, **facts: Any) -> None:
        """Facts for the record.

        `model_reported`, `cost_usd`, `cli_overhead_ms`; `refusal` (the words of a refusal that came instead of an
        answer; repeated notes add up); `warning`; `first_token_captured=False` when the text came whole, so that its
        arrival is no first-token time.
        """

    def end(self, at_ns: int) -> None:
        """The last byte of the answer arrived. Stops the clock."""


class Provider(ABC):
    """One way to reach models: write `attempt`, and the rest has defaults for a plain remote server.

    An async context manager: entering may start things, leaving must stop them all. `local` tells whether the model
    runs on the user's own machine: temperature 0 is then the default and cold starts are marked. `streams` tells
    whether first-token times can be had, `takes` which sampling options can be sent at all, and
    `takes_thinking` whether a thinking level does anything. `runs_tasks` tells that a
    task with its `world` is run inside one attempt; otherwise the runner asks turn by turn. `descriptors_per_call` is
    what a call in flight keeps open, so that no more of them are made than this machine can hold. `default_context` is
    how many tokens fit a model's window, where the provider decides that. `cannot_send` names what of a prompt would
    be lost (`tool_choice`, `response_format`): prompts that need it are not asked.
    """

    local = False
    streams = True
    runs_tasks = False
    takes: frozenset[str] = frozenset({"temperature", "seed"})
    takes_thinking = True
    default_max_tokens = 1024
    default_context: int | None = None
    cannot_send: frozenset[str] = frozenset()
    descriptors_per_call = 1

    def __init__(self, settings: ProviderSettings) -> None:
        self.name = settings.name
        self.settings = settings
        self.context_tokens: int | None = settings.extra.get("context") or self.default_context

    def fit_reply(self, model: str, wanted: int | None) -> int:
        """How many tokens a reply may have, where the prompt wants so many and the user says nothing."""
        return wanted or self.default_max_tokens

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    @abstractmethod
    async def attempt(self, call: Call, sink: Sink) -> None:
        """Make one call and report it to `sink`; raise `CallFailure` if it did not end well. Never retries."""

    async def probe(self) -> ProviderProbe:
        """Say whether this provider could be used now. Never raises, never costs money."""
        return ProviderProbe(provider=self.name, reachable=True, detail="not probed")

    async def models(self) -> list[ModelInfo]:
        """What `PROVIDER:*` means. Empty where it cannot be known; `CallFailure` where the server cannot be asked."""
        return []

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        """Get ready for one model's suite. Returns whether the model is loaded already; None where unknowable."""
        return None

    async def why_not_together(self, models: list[str], free_bytes: int) -> str | None:
        """Why these models cannot be served side by side, with what to do; None where they can, or nothing says no.

        `free_bytes` is the memory this machine has to spare.
        """
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


@functools.cache
def _entries() -> dict[str, EntryPoint]:
    metadata = import_module("importlib.metadata")
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def provider_types() -> list[str]:
    """Every provider type installed, built-in or not, by name."""
    return sorted({*BUILT_IN, *_entries()})


def create_provider(settings: ProviderSettings) -> Provider:
    """Load the provider's module and make it. Loading happens here, so that listing names costs nothing.

    Raises `ConfigError` for one that cannot be had.
    """
    if settings.unusable is not None:
        raise ConfigError(settings.unusable)
    create: Callable[[ProviderSettings], Provider]
    if settings.type in BUILT_IN:
        create = import_module(f"clawgauge.providers.{BUILT_IN[settings.type]}").create
    elif settings.type in _entries():
        create = _entries()[settings.type].load()
    else:
        raise ConfigError(unknown_provider(settings.type, provider_types()))
    return create(settings)


def unknown_provider(name: str, known: list[str]) -> str:
    """The sentence for a provider that is not there."""
    near = difflib.get_close_matches(name, known, n=1)
    guess = f" did you mean {near[0]!r}?" if near else ""
    return f"unknown provider {name!r}:{guess} known providers are {', '.join(known)}"
