"""What the search and those who make the calls have in common: commands, and two contracts.

The search decides how many clients there are, or which arrivals; a load generator makes the calls,
on this machine or on several, and reports each of them to a listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from clawgauge.capacity.prompts import TokenScale
from clawgauge.records import Result
from clawgauge.stats.load import Sample

PROBE_TOKENS = 48
"""How many tokens a probe may answer: enough to count by, and within any window."""


class LoadEnded(Exception):
    """No time or money is left, or there is no answer: the load ends there.

    The message is the reason, for a person.
    """


class Due(NamedTuple):
    """A client's first call, or an arrival: its number, and when it is due.

    The time is in nanoseconds since the load began.
    """

    number: int
    due_ns: int


class Place(NamedTuple):
    """Which of the machines that make a load one is: no two may make calls of the same cell."""

    number: int
    n_machines: int


ALONE = Place(0, 1)


class LoadCommand(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be done from now on, until the next command.

    Calls are made under the name of `step`, with prompts of so many tokens on that scale. They are
    of the `visit` of this number, or of none where it is 0. Clients
    ask one call after the other: those of `starts` begin, and those whose number is `n_clients` or
    higher leave after the answer under way. Each of `arrivals` is one call, which is dropped where
    `max_in_flight` are under way; the next command ends them. Nodes are sent commands as they are:
    a field's name on the wire never changes.
    """

    step: str = ""
    prompt_tokens: int = msgspec.field(default=0, name="tokens")
    scale: TokenScale = msgspec.field(default=TokenScale(), name="ruler")
    n_clients: int = msgspec.field(default=0, name="level")
    starts: list[Due] = []
    arrivals: list[Due] = []
    max_in_flight: int = msgspec.field(default=0, name="at_most")
    visit: int = 0


class Lateness(NamedTuple):
    """How late a machine that makes calls was over a span of time."""

    n_not_made: int
    """Calls that it could not make."""
    cpu_share: float
    """How much of one core it used."""
    loop_p95_ms: float
    """The 95th percentile of how late its event loop was."""


class LoadListener(Protocol):
    """Is notified of what becomes of a load."""

    def call_ended(self, step: str, sample: Sample) -> None:
        """A call was answered, or failed, under the name of this step."""

    def client_left(self, number: int) -> None:
        """A client has left, or an arrival was dropped: nothing more comes of it."""


class LoadGenerator(Protocol):
    """Makes the calls of one target: this program, or a fleet of nodes."""

    origin_ns: int
    """When the load began, by `perf_counter_ns`: all its times count from there."""
    ends_with_task_group: bool
    """Whether the clients end with the task group that they were attached to."""

    def attach(self, group: asyncio.TaskGroup, listener: LoadListener) -> None:
        """From now on make calls in this group, and notify this listener."""

    def apply(self, command: LoadCommand) -> None:
        """Do this from now on. Never waits."""

    async def get_ready(self) -> None:
        """Wait until calls can be made. Raises nothing for a target that cannot be had."""

    async def probe(self, name: str, n_chars: int, key: str) -> Result:
        """Make one call with nothing beside it, recorded under this name."""

    async def read_lateness(self) -> Mapping[str, Lateness]:
        """How late each machine was since this was last read, by the machine's name.

        Waits until everything is answered that arrives no more.
        """
