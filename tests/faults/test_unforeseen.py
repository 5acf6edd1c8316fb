"""What no row names: a provider that breaks its own contract costs its cell, not the run."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from clawgauge.journal.folder import RunFolder
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
from clawgauge.records import Prompt, Target
from clawgauge.runner.context import Observer
from clawgauge.runner.run import run
from faults.asking import ask_provider, verdict
from support.command import read_records
from support.plans import plan_of
from support.rows import every_row


class Careless(Provider):
    """A plug-in that says half of its answer and then does something it must not."""

    def __init__(self, facts: dict[str, Any], fault: Exception | None) -> None:
        super().__init__(ProviderSettings(name="careless", type="careless"))
        self._facts = facts
        self._fault = fault

    async def attempt(self, call: Call, sink: Sink) -> None:
        sink.start(time.perf_counter_ns())
        sink.text(time.perf_counter_ns(), "half an ans")
        sink.note(**self._facts)
        if self._fault is not None:
            raise self._fault
        sink.end(time.perf_counter_ns())


@pytest.mark.parametrize(
    ("facts", "fault", "words"),
    [({}, KeyError("choices"), "KeyError"), ({"model_reported": 5}, None, "TypeError")],
    ids=["raises", "reports the wrong type"],
)
def test_a_broken_provider_costs_its_cell(
    facts: dict[str, Any], fault: Exception | None, words: str, tmp_path: Path
) -> None:
    """Every cell is error / exception with the text so far and the fault's name, and the run goes on to the next."""
    records = ask_provider(tmp_path, Careless(facts, fault), n_prompts=3)
    assert [verdict(record) for record in records] == [("error", False, "exception")] * 3
    assert all(
        record["raw_output"] == "half an ans" and words in record["error"] for record in records
    )


@every_row(
    "method, arguments, message",
    [
        ("text", (0, b"bytes"), "text as bytes, it must be str: b'bytes'"),
        ("text", (0, {"content": "x"}), "text as dict, it must be str"),
        ("text", ("now", "x"), "TypeError"),
        ("reasoning", (0, b"bytes"), "reasoning as bytes, it must be str"),
        ("tool_delta", (0, 0, "read", {"path": "a"}), "the arguments of a call as dict"),
        ("tool_delta", (0, 0, b"read", "{}"), "the name of a call as bytes"),
        ("tool_delta", (0, [], "read", "{}"), "TypeError"),
        ("tool_delta", ("now", 0, "read", "{}"), "TypeError"),
        ("tool_whole", (0, 7, "read", {"path": "a"}), "the arguments of a call as dict"),
        ("tool_answer", (7, b"bytes"), "the answer of a tool as bytes"),
        ("connected", ("soon",), "the time of connecting as str, it must be int or float"),
        ("start", (None,), "the start as NoneType"),
        ("end", ("now",), "the end as str"),
    ],
)
def test_what_is_of_another_type_than_the_sink_takes_costs_its_cell(
    tmp_path: Path, method: str, arguments: tuple[Any, ...], message: str
) -> None:
    """The cell has a record with a sentence about it, and the run goes on to the next."""

    class Mistaken(Careless):
        async def attempt(self, call: Call, sink: Sink) -> None:
            sink.start(time.perf_counter_ns())
            sink.tool_delta(time.perf_counter_ns(), 7, "read", "{}")
            getattr(sink, method)(*arguments)
            sink.end(time.perf_counter_ns())

    records = ask_provider(tmp_path, Mistaken({}, None), n_prompts=2)
    assert [verdict(record) for record in records] == [("error", False, "exception")] * 2
    assert all(message in record["error"] for record in records), records[0]["error"]


def test_counts_no_server_can_mean_are_null(tmp_path: Path) -> None:
    """Token counts below zero or beyond what any reader's number holds are not recorded, whichever provider says so."""

    class Boastful(Careless):
        async def attempt(self, call: Call, sink: Sink) -> None:
            await super().attempt(call, sink)
            sink.usage(input_tokens=-1, output_tokens=10**30)

    (record,) = ask_provider(tmp_path, Boastful({}, None))
    assert verdict(record) == ("ok", True, None)
    assert (record["input_tokens"], record["output_tokens"]) == (None, None)


def test_a_provider_that_breaks_while_getting_ready_costs_its_target(tmp_path: Path) -> None:
    """What it throws before its first call is ours to record, as an exception, and the next target is asked."""

    class Unready(Careless):
        async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
            raise KeyError("port")

    providers = {"unready": Unready({}, None), "careless": Careless({}, None)}
    prompt = Prompt(id="P0", name="p", prompt="p", suite="s", validator={"type": "noop"})
    with RunFolder.create(tmp_path) as folder:
        plan = plan_of([prompt], given=providers, targets=[Target(name, "m") for name in providers])
        asyncio.run(run(plan, folder, Observer()))
    first, second = read_records(folder.path)
    assert verdict(first) == ("error", False, "exception") and "KeyError" in first["error"]
    assert verdict(second) == ("ok", True, None)
