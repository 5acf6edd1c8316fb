"""What a driver and a node send each other: one JSON object a line.

Nothing is pickled, and no key is among it. Names of providers are the node's own; the driver puts
its name for the node before them. The names on the wire never change: where a field has a better
name here, `name=` has that of the wire.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from clawgauge.capacity.generator import ALONE, Lateness, LoadCommand, Place
from clawgauge.errors import RequestError
from clawgauge.journal import CellKey
from clawgauge.records import Event, PromptKey, ProviderProbe, Result, RunConfig, Target


class NodeLost(RequestError):
    """A node cannot be reached, left without its farewell, or sent what none may.

    Before a run: nothing was sent.
    """


class EarlierCalls(msgspec.Struct, frozen=True):
    """What earlier stretches have asked of a target, and spent."""

    target: Target
    n_calls: int = 0
    cost_usd: float = 0.0


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A plan's part for one node, in the node's own names.

    It has config.json, with nothing of the other nodes, and what `Plan` and `OpenWork` add to it.
    """

    config: RunConfig
    asked: list[PromptKey]
    free: list[Target]
    done: list[CellKey]
    earlier: list[EarlierCalls] = msgspec.field(name="evidence")
    beside_usd: float
    stretch: int
    present_files: list[str] = msgspec.field(name="has")
    """Files that need not be sent."""
    place: Place = ALONE
    """Of a load: which node this is."""
    origin_ns: int = 0
    """Of a load: when it began, by the node's wall clock."""


class ProbeRequest(NamedTuple):
    """A call with nothing beside it: what it is recorded as, the length of its prompt, its key."""

    name: str
    n_chars: int
    key: str


class DriverMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a driver sends. A message of nothing at all ends a load."""

    ping: int | None = None
    describe: bool = msgspec.field(default=False, name="look")
    """The node is to say which providers it has."""
    assignment: Assignment | None = msgspec.field(default=None, name="work")
    stop: bool = False
    """The work is to be ended now."""
    is_recorded: bool = msgspec.field(default=False, name="kept")
    """All that the node sent of its work is on disk here: it need keep nothing."""
    command: LoadCommand | None = msgspec.field(default=None, name="go")
    probe: ProbeRequest | None = msgspec.field(default=None, name="brief")
    read_lateness: bool = msgspec.field(default=False, name="mark")


END_OF_LOAD = DriverMessage()


class ProviderFacts(msgspec.Struct, frozen=True):
    """What a plan must know of a provider that is on a node, by the names of `Provider`."""

    probe: ProviderProbe
    unusable: str | None = None
    described: dict[str, Any] = {}
    local: bool = False
    takes: frozenset[str] = frozenset()
    takes_thinking: bool = False
    default_max_tokens: int = 0
    context_tokens: int | None = None
    cannot_send: frozenset[str] = frozenset()


PLANNING_FACTS = (
    "local",
    "takes",
    "takes_thinking",
    "default_max_tokens",
    "context_tokens",
    "cannot_send",
)
"""The fields of `ProviderFacts` that are attributes of the provider itself."""


class Hello(NamedTuple):
    """Who a node is."""

    version: str
    python: str
    host: str
    niceness: int


class Pong(NamedTuple):
    """The answer to a ping: its number, and the node's wall clock."""

    number: int
    wall_ns: int


class SentFile(NamedTuple):
    """A file of the run folder."""

    name: str
    text: str


class NodeMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a node sends."""

    hello: Hello | None = None
    pong: Pong | None = None
    providers: list[ProviderFacts] | None = msgspec.field(default=None, name="seen")
    refused: str | None = None
    """Why it will not do what it was told."""
    notice: str | None = msgspec.field(default=None, name="said")
    """A line for the person at the driver."""
    result: Result | None = None
    event: Event | None = None
    file: SentFile | None = None
    is_end: bool = msgspec.field(default=False, name="end")
    """Nothing more comes of the work."""
    client_left: int | None = msgspec.field(default=None, name="left")
    """A client or an arrival of a load that nothing more comes of."""
    lateness: Lateness | None = msgspec.field(default=None, name="late")


_NODE_MESSAGE_FIELDS = msgspec.structs.fields(NodeMessage)


def kinds_of(message: NodeMessage) -> list[str]:
    """What a message says something of, by the names on the wire."""
    kinds = []
    for field in _NODE_MESSAGE_FIELDS:
        if getattr(message, field.name) != field.default:
            kinds.append(field.encode_name)
    return kinds
