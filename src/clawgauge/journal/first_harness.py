"""Run folders made by the first harness, read as if they were ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from clawgauge.characters import repair_value
from clawgauge.errors import Status
from clawgauge.records import STATUSES, Event, Result, TimingsUs

_NO_LEVEL = frozenset({"", "null", "none"})
_EVENT_NAME_KEYS = ("event", "event_type", "type", "name")
_EVENT_TIME_KEYS = ("at_ms", "timestamp_ms", "ts_ms", "started_at_ms")


def tells_first_harness(record: Mapping[str, Any]) -> bool | None:
    """Whether the first harness wrote a line of results.jsonl.

    None where the line is neither a result nor an event, and so does not tell.
    """
    if record.get("record_type") == "event":
        return True
    if "prompt_id" not in record:
        return None
    return "suite" not in record or "repeat" not in record


class Upgrade:
    """Turns one folder's old records into results.

    Counts the repeats of a cell in the order they come, for the records do not.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._n_repeats: Counter[tuple[str, str, str | None, str]] = Counter()

    def result(self, raw: Mapping[str, Any]) -> Result | None:
        """The record as ours.

        None where it names no provider, model or prompt, and so is no result.
        """
        record: dict[str, Any] = repair_value(dict(raw))[0]
        provider = _text(record.get("provider"))
        model = _text(record.get("model"))
        prompt_id = _text(record.get("prompt_id"))
        if not (provider and model and prompt_id):
            return None
        level = _thinking_level(record)
        cell = (provider, model, level, prompt_id)
        repeat = self._n_repeats[cell]
        self._n_repeats[cell] += 1
        raw_output = _text(record.get("raw_output")) or ""
        status = _status(record)
        success = _is_success(record, status, raw_output)
        verdict = _read_verdict(record) if success else _NO_VERDICT
        times = _read_times(record)
        ttft_us = None if times.ttft_ms is None else times.ttft_ms * 1000
        expected_tools = record.get("expected_tools") or record.get("expected_tool_calls")
        return Result(
            run_id=_text(record.get("run_id")) or self._run_id,
            provider=provider,
            model=model,
            thinking_level=level,
            suite="",
            prompt_id=prompt_id,
            prompt_name=_text(record.get("prompt_name")) or prompt_id,
            repeat=repeat,
            asked=True,
            availability_status=status,
            success=success,
            failure_type=None if success else _text(record.get("failure_type")),
            error=_text(record.get("error")),
            attempts=[],
            # The answer and its verdict
            raw_output=raw_output,
            raw_output_bytes=len(raw_output.encode()),
            parsed_output=verdict.parsed_output,
            objective_pass=verdict.objective_pass,
            violation=verdict.violation,
            tool_calls=verdict.tool_calls,
            tool_call_count=len(verdict.tool_calls),
            tool_use_success=verdict.tool_use_success,
            expected_tools=_tool_names(expected_tools),
            # The times and tokens
            started_at_ms=times.started_at_ms,
            ended_at_ms=times.ended_at_ms,
            e2e_ms=times.e2e_ms,
            total_ms=times.e2e_ms,
            ttft_ms=times.ttft_ms,
            timings_us=TimingsUs(e2e=times.e2e_ms * 1000, ttft=ttft_us),
            streamed=times.ttft_ms is not None,
            input_tokens=_integer(record.get("input_tokens")),
            output_tokens=_integer(record.get("output_tokens")),
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a record says of an answer."""

    objective_pass: bool | None
    violation: str | None
    parsed_output: dict[str, Any] | None
    tool_calls: list[str]
    tool_use_success: bool


_NO_VERDICT = _Verdict(
    objective_pass=None,
    violation=None,
    parsed_output=None,
    tool_calls=[],
    tool_use_success=False,
)


def _read_verdict(record: Mapping[str, Any]) -> _Verdict:
    objective_pass = record.get("objective_pass")
    if not isinstance(objective_pass, bool):
        objective_pass = None
    parsed_output = record.get("parsed_output")
    if not isinstance(parsed_output, dict):
        parsed_output = None
    violation = None
    if objective_pass is False:
        violation = _text(record.get("violation"))
    return _Verdict(
        objective_pass=objective_pass,
        violation=violation,
        parsed_output=parsed_output,
        tool_calls=_tool_names(record.get("tool_calls")),
        tool_use_success=record.get("tool_use_success") is True,
    )


def upgrade_event(raw: Mapping[str, Any]) -> Event:
    """An event line of the first harness.

    Its name and time are taken from the likely keys, the rest is kept as detail.
    """
    record: dict[str, Any] = repair_value(dict(raw))[0]
    provider = record.get("provider")
    model = record.get("model")
    target = None
    if isinstance(provider, str) and isinstance(model, str):
        target = f"{provider}:{model}"
    return Event(
        event=_event_name(record), at_ms=_event_time_ms(record), target=target, detail=record
    )


def _event_name(record: Mapping[str, Any]) -> str:
    for key in _EVENT_NAME_KEYS:
        name = record.get(key)
        if isinstance(name, str):
            return name
    return "event"


def _event_time_ms(record: Mapping[str, Any]) -> int:
    for key in _EVENT_TIME_KEYS:
        at_ms = _integer(record.get(key))
        if at_ms is not None:
            return at_ms
    return 0


def _thinking_level(record: Mapping[str, Any]) -> str | None:
    level = record.get("thinking_level")
    if not isinstance(level, str) or level.strip().lower() in _NO_LEVEL:
        return None
    return level


class _Times(msgspec.Struct, frozen=True, kw_only=True):
    started_at_ms: int
    ended_at_ms: int
    e2e_ms: int
    ttft_ms: int | None


def _read_times(record: Mapping[str, Any]) -> _Times:
    """The times of a record, worked out of one another where one is missing."""
    started_at_ms = _integer(record.get("started_at_ms"))
    ended_at_ms = _integer(record.get("ended_at_ms"))
    e2e_ms = _integer(record.get("e2e_ms"))
    if e2e_ms is None:
        e2e_ms = _integer(record.get("latency_ms"))
    if e2e_ms is None:
        e2e_ms = 0
        if started_at_ms is not None and ended_at_ms is not None:
            e2e_ms = max(0, ended_at_ms - started_at_ms)
    if started_at_ms is None:
        started_at_ms = 0 if ended_at_ms is None else ended_at_ms - e2e_ms
    if ended_at_ms is None:
        ended_at_ms = started_at_ms + e2e_ms
    return _Times(
        started_at_ms=started_at_ms,
        ended_at_ms=ended_at_ms,
        e2e_ms=e2e_ms,
        ttft_ms=_integer(record.get("ttft_ms")),
    )


def _status(record: Mapping[str, Any]) -> Status:
    status = record.get("availability_status")
    if status in STATUSES:
        known_status: Status = status
        return known_status
    is_answered = record.get("success") is not False
    if status is None and (is_answered or record.get("failure_type") == "empty_response"):
        return "ok"
    return "error"


def _is_success(record: Mapping[str, Any], status: Status, raw_output: str) -> bool:
    """Whether there is an answer; where the record does not say it, a text is one."""
    return status == "ok" and record.get("success", bool(raw_output.strip())) is True


def _tool_names(value: Any) -> list[str]:
    """Tool names in lower case, first-seen order, without repeats.

    A call that is written as an object counts by its name.
    """
    if not isinstance(value, list):
        return []
    names: list[str] = []
    for entry in value:
        name = entry.get("name") if isinstance(entry, dict) else entry
        if isinstance(name, str) and name:
            names.append(name.lower())
    return list(dict.fromkeys(names))


def _text(value: Any) -> str | None:
    """A text or a number as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)


def _integer(value: Any) -> int | None:
    """A number, or a text that is one, rounded; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return round(float(value) if isinstance(value, str) else value)
    except (ValueError, OverflowError):  # no number, or none that is finite
        return None
