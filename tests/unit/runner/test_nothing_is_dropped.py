"""What a provider reports reaches the record: no step on the way may forget a fact in silence."""

from __future__ import annotations

import inspect
from typing import Any, cast

import msgspec

from clawgauge.outcomes import AgentLedger, AgentSpans, CallOutcome, CellOutcome, Reply
from clawgauge.providers.base import Sink
from clawgauge.records import Prompt, Target
from clawgauge.records.agent import AgentProgramFacts
from clawgauge.runner.agenda import Cell
from clawgauge.runner.record import Source, join_turns, make_result
from clawgauge.timeline import Timeline

NOTES: dict[str, Any] = {
    "model_reported": "another",
    "cost_usd": 0.25,
    "cli_overhead_ms": 17,
    "server_ns": {"load": 1_000_000, "total": 5_000_000},
    "tools_unseen": "no_template",
    "refusal": "I will not.",
    "warning": "odd: it was",
    "first_token_captured": True,
    "reasoning_streamed": True,
}
COUNTS = {"input_tokens": 11, "output_tokens": 12, "cached_tokens": 13, "reasoning_tokens": 14}
# What no record has: it goes to the next turn, the clock or the load generator.
BESIDE_THE_RECORD = {"replay", "start_ns", "started", "piece_times_ns", "first_share"}
# A record's times are the first turn's. What a task was sums up its turns from the transcript.
OF_THE_FIRST_TURN = {"ttft_ns", "ttfa_ns", "connect_ns", "output_tps", "model_reported"}
OF_A_WHOLE_TASK = {"transcript", "native_calls", "cli_overhead_ms", "tools_unseen", "agent"}


class NotedReply:
    """A reply that knows which of its fields were read."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._reply, name)


def agent_ledger() -> AgentLedger:
    return AgentLedger(
        facts=AgentProgramFacts(program="p", version="1.0.0", is_tested_version=True, wire="chat"),
        spans=AgentSpans(model_ns=5, tools_ns=4, start_ns=3, between_ns=2, end_ns=1),
        turns=[],
        calls=[],
        first_sent_ns=1_500,
        first_token_ns=2_500,
        ttft_user_ns=2_000,
        added_messages=0,
        recorder_late=False,
    )


def full_reply() -> Reply:
    """Everything a sink takes has been reported once."""
    timeline = Timeline()
    timeline.start(1_000)
    timeline.connected(500)
    timeline.reasoning(2_000, "hm ")
    for n in range(5):
        timeline.text(3_000 + n, f"word {n} ")
    timeline.usage(**COUNTS)
    timeline.finish("stop")
    timeline.replay(object())
    timeline.note(**NOTES)
    timeline.agent(agent_ledger())
    timeline.end(9_000)
    return timeline.fold(9_000)


def call_with(reply: Reply) -> CallOutcome:
    return CallOutcome(
        reply=reply, failure=None, attempts=[], started_at_ms=1, ended_at_ms=2, e2e_ns=8_000
    )


def fields_of_a_reply() -> set[str]:
    return set(Reply.__struct_fields__)


def test_every_fact_that_a_sink_takes_is_in_the_reply() -> None:
    """A new keyword of a sink has to be tried here, and a field of a reply has to be filled."""
    assert set(inspect.signature(Sink.note).parameters) - {"self"} == set(NOTES)
    assert set(inspect.signature(Sink.usage).parameters) - {"self"} == set(COUNTS)
    reply = full_reply()
    default = Reply()
    unfilled = {
        name for name in Reply.__struct_fields__ if getattr(reply, name) == getattr(default, name)
    }
    assert unfilled == {"native_calls", "transcript"}


def test_every_field_of_a_reply_is_looked_at_for_the_record() -> None:
    noted = NotedReply(full_reply())
    call = msgspec.structs.replace(call_with(Reply()), reply=cast(Reply, noted))
    tool = {"type": "function", "function": {"name": "exec"}}
    validator = {"type": "noop"}
    prompt = Prompt(id="P", name="p", prompt="?", suite="s", validator=validator, tools=[tool])
    source = Source(run_id="r", stretch=0, target=Target("p", "m"), redact=str)
    make_result(source, Cell(prompt, 0), CellOutcome(call=call))
    # An answer in text is no refusal; transcript and duration are the call's.
    not_needed = {"refusal", "transcript", "e2e_ns"}
    assert fields_of_a_reply() - noted.names == BESIDE_THE_RECORD | not_needed


def test_every_field_of_a_later_turn_is_looked_at_for_the_task() -> None:
    """What is not would be the first turn's alone: that is right of its times."""
    noted = NotedReply(full_reply())
    first = call_with(full_reply())
    later = msgspec.structs.replace(first, reply=cast(Reply, noted))
    join_turns([first, later], None, [])
    of_one_turn = OF_THE_FIRST_TURN | OF_A_WHOLE_TASK | {"e2e_ns"}
    assert fields_of_a_reply() - noted.names == BESIDE_THE_RECORD | of_one_turn
