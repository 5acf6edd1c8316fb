"""The messages of a driver and a node: their names on the wire outlive the names in the code."""

from __future__ import annotations

import msgspec

from clawgauge.capacity.generator import Due, Lateness, LoadCommand
from clawgauge.capacity.prompts import TokenScale
from clawgauge.fleet import limits
from clawgauge.fleet.wire import (
    END_OF_LOAD,
    Assignment,
    DriverMessage,
    Hello,
    NodeMessage,
    Pong,
    ProbeRequest,
    SentFile,
    kinds_of,
)
from clawgauge.journal import encode_line
from support.rows import every_row


@every_row(
    "message, line",
    [
        (END_OF_LOAD, "{}"),
        (DriverMessage(ping=3), '{"ping":3}'),
        (DriverMessage(describe=True), '{"look":true}'),
        (DriverMessage(stop=True), '{"stop":true}'),
        (DriverMessage(is_recorded=True), '{"kept":true}'),
        (DriverMessage(command=LoadCommand()), '{"go":{}}'),
        (DriverMessage(probe=ProbeRequest("n", 5, "k")), '{"brief":["n",5,"k"]}'),
        (DriverMessage(read_lateness=True), '{"mark":true}'),
        (
            DriverMessage(
                command=LoadCommand(
                    step="1000/c2",
                    prompt_tokens=1000,
                    scale=TokenScale(3.5, 2.0, is_counted=True),
                    n_clients=2,
                    starts=[Due(0, 5), Due(1, 7)],
                )
            ),
            '{"go":{"step":"1000/c2","tokens":1000,"ruler":[3.5,2.0,true],"level":2,'
            '"starts":[[0,5],[1,7]]}}',
        ),
        (
            DriverMessage(command=LoadCommand(arrivals=[Due(0, 5)], max_in_flight=7)),
            '{"go":{"arrivals":[[0,5]],"at_most":7}}',
        ),
        (NodeMessage(hello=Hello("1", "3.11", "ana", 0)), '{"hello":["1","3.11","ana",0]}'),
        (NodeMessage(pong=Pong(3, 99)), '{"pong":[3,99]}'),
        (NodeMessage(providers=[]), '{"seen":[]}'),
        (NodeMessage(refused="no"), '{"refused":"no"}'),
        (NodeMessage(notice="hi"), '{"said":"hi"}'),
        (NodeMessage(file=SentFile("a", "b")), '{"file":["a","b"]}'),
        (NodeMessage(is_end=True), '{"end":true}'),
        (NodeMessage(client_left=4), '{"left":4}'),
        (NodeMessage(lateness=Lateness(1, 0.5, 2.0)), '{"late":[1,0.5,2.0]}'),
    ],
)
def test_a_message_keeps_its_names_on_the_wire(
    message: DriverMessage | NodeMessage, line: str
) -> None:
    encoded = encode_line(message)
    assert encoded.decode().rstrip("\n") == line
    assert msgspec.json.decode(encoded, type=type(message)) == message


def test_an_assignment_keeps_its_names_on_the_wire() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(Assignment)]
    assert names == [
        "config", "asked", "free", "done", "evidence", "beside_usd", "stretch", "has", "place", "origin_ns",
    ]  # fmt: skip


def test_every_message_of_a_node_has_its_limit() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(NodeMessage)]
    assert sorted(names) == sorted(limits.MESSAGES)
    assert kinds_of(NodeMessage(is_end=True, notice="x")) == ["said", "end"]
