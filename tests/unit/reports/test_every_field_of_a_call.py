"""A field of a record is on the page, or left off on purpose; what the page is given of a call, it draws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import clawgauge.reports.html
from clawgauge.records import Prompt, Result, Target
from clawgauge.records.agent import AgentProgramFacts
from clawgauge.reports.html.calls import CallColumns
from clawgauge.reports.html.texts import TextStore
from clawgauge.run_data import Row
from support.sample_runs import make_result

STATIC = Path(clawgauge.reports.html.__file__).with_name("static")
# Other parts of the page say these: of the run, of the target, of the prompt, or of all calls together.
SAID_ELSEWHERE = {
    "record_type", "run_id", "provider", "model", "thinking_level", "prompt_id", "prompt_name", "suite",
    "asked", "judged_by", "node", "server_us", "tools_unseen", "tps_rule",
}  # fmt: skip
# Who wants one of these reads the record.
LEFT_OFF = {
    "draw", "ended_at_ms", "engine", "load", "parsed_output_dropped", "queued_ms", "stretch", "streamed",
    "tokens_source", "tool_call_count", "tools_offered", "world_seed", "agent_turns", "calls_made", "calls_run",
    "calls_lost", "calls_gained", "calls_altered", "added_messages", "recorder_late",
}  # fmt: skip
# A row is read for figures: texts are fetched with the whole record.
NOT_IN_A_ROW = {"parsed_output", "transcript", "raw_output", "reasoning_text", "tool_calls"}


class NotedResult:
    """A record that knows which of its fields were read."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._result, name)


def a_result(**changes: Any) -> Result:
    prompt = Prompt(id="P0", name="p", prompt="?", suite="s", validator={"type": "noop"})
    return make_result(Target("ollama_openai", "qwen3:8b"), prompt, **changes)


def test_every_field_of_a_record_is_on_the_page_or_left_off_on_purpose() -> None:
    read: set[str] = set()
    for changes in (
        {},
        {"success": False},
        {"raw_output_truncated": True, "expected_tools": ["x"]},
        {
            "agent": AgentProgramFacts(
                program="p", version=None, is_tested_version=False, wire="chat"
            )
        },
    ):
        noted = NotedResult(a_result(parsed_output={"value": 1}, **changes))
        CallColumns(TextStore()).add(cast(Result, noted), 0, 0, sampled=False)
        read |= noted.names
    fields = set(Result.__struct_fields__)
    assert fields - read - SAID_ELSEWHERE - LEFT_OFF == set()
    assert (SAID_ELSEWHERE | LEFT_OFF) - fields == set()


def test_what_the_page_is_given_of_a_call_is_drawn() -> None:
    """The keys stand in one Python file, and the scripts name them again."""
    source = Path(clawgauge.reports.html.__file__).with_name("calls.py").read_text(encoding="utf-8")
    described = source.partition("def _describe_result(")[2].partition("\ndef ")[0]
    keys = set(re.findall(r'^        "(\w+)":', described, re.MULTILINE))
    scripts = "".join(path.read_text(encoding="utf-8") for path in STATIC.glob("*.js"))
    drawn = set(re.findall(r"\bdetail\.(\w+)", scripts))
    assert len(keys) > 20
    assert keys - drawn == set()


def test_a_row_knows_every_field_of_a_record() -> None:
    """What a row does not name nobody who sums up a run can read."""
    assert set(Result.__struct_fields__) - set(Row.__struct_fields__) == NOT_IN_A_ROW
