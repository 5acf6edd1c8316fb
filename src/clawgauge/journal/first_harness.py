"""Run folders made by the first harness, read as if they were ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from clawgauge.characters import repair_value
from clawgauge.records import STATUSES, Event, Result, Status, TimingsUs

_NO_LEVEL = frozenset({"", "null", "none"})
_EVENT_NAME_KEYS = ("event", "event_type", "type", "name")
_EVENT_TIME_KEYS = ("at_ms", "timestamp_ms", "ts_ms", "started_at_ms")


def tells_first_harness(record: Mapping[str, Any]) -> bool | None:
    """What one line of results.jsonl tells of its maker; None where it is neither a result nor an event."""
    if record.get("record_type") == "event":
        return True
    if "prompt_id" not in record:
        return None
    return "suite" not in record or "repeat" not in record


class Upgrade:
    """Turns one folder's old records into results, counting repeats of a cell in the order they come."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._seen: Counter[tuple[str, str, str | None, str]] = Counter()

    def result(self, raw: Mapping[str, Any]) -> Result | None:
        """The record as ours; None where it names no provider, model or prompt, and so is no result."""
        record: dict[str, Any] = repair_value(dict(raw))[0]
        provider, model, prompt_id = (_text(record.get(key)) for key in ("provider", "model", "prompt_id"))
        if not (provider and model and prompt_id):
            return None
        level = record.get("thinking_level")
        level = level if isinstance(level, str) and level.strip().lower() not in _NO_LEVEL else None
        repeat = self._seen[provider, model, level, prompt_id]
        self._seen[provider, model, level, prompt_id] += 1
        return Result(
            run_id=_text(record.get("run_id")) or self._run_id,
            provider=provider,
            model=model,
            thinking_level=level,
            prompt_id=prompt_id,
            prompt_name=_text(record.get("prompt_name")) or prompt_id,
            suite="",
            repeat=repeat,
            **_timing(record),
            **_outcome(record),
        )


def upgrade_event(raw: Mapping[str, Any]) -> Event:
    """An event line of the first harness, its name and time taken from the likely keys, the rest kept as detail."""
    record: dict[str, Any] = repair_value(dict(raw))[0]
    name = next((record[key] for key in _EVENT_NAME_KEYS if isinstance(record.get(key), str)), "event")
    at_ms = next((at for key in _EVENT_TIME_KEYS if (at := _integer(record.get(key))) is not None), 0)
    provider, model = record.get("provider"), record.get("model")
    target = f"{provider}:{model}" if isinstance(provider, str) and isinstance(model, str) else None
    return Event(event=name, at_ms=at_ms, target=target, detail=record)


def _timing(record: Mapping[str, Any]) -> dict[str, Any]:
    started, ended = _integer(record.get("started_at_ms")), _integer(record.get("ended_at_ms"))
    e2e = next((ms for key in ("e2e_ms", "latency_ms") if (ms := _integer(record.get(key))) is not None), None)
    if e2e is None:
        e2e = max(0, ended - started) if started is not None and ended is not None else 0
    if started is None:
        started = ended - e2e if ended is not None else 0
    ttft = _integer(record.get("ttft_ms"))
    return {
        "started_at_ms": started,
        "ended_at_ms": started + e2e if ended is None else ended,
        "e2e_ms": e2e,
        "ttft_ms": ttft,
        "timings_us": TimingsUs(e2e=e2e * 1000, ttft=None if ttft is None else ttft * 1000),
        "total_ms": e2e,
        "attempts": [],
        "streamed": ttft is not None,
    }


def _outcome(record: Mapping[str, Any]) -> dict[str, Any]:
    raw_output = _text(record.get("raw_output")) or ""
    said = record.get("availability_status")
    answered = record.get("success") is not False or record.get("failure_type") == "empty_response"
    unknown: Status = "ok" if said is None and answered else "error"
    status = next((status for status in STATUSES if status == said), unknown)
    success = status == "ok" and record.get("success", bool(raw_output.strip())) is True
    passed = record.get("objective_pass") if success else None
    objective_pass = passed if isinstance(passed, bool) else None
    tools = _tool_names(record.get("tool_calls")) if success else []
    parsed = record.get("parsed_output") if success else None
    return {
        "availability_status": status,
        "success": success,
        "failure_type": None if success else _text(record.get("failure_type")),
        "objective_pass": objective_pass,
        "violation": _text(record.get("violation")) if objective_pass is False else None,
        "input_tokens": _integer(record.get("input_tokens")),
        "output_tokens": _integer(record.get("output_tokens")),
        "raw_output": raw_output,
        "raw_output_bytes": len(raw_output.encode()),
        "parsed_output": parsed if isinstance(parsed, dict) else None,
        "tool_calls": tools,
        "tool_call_count": len(tools),
        "tool_use_success": success and record.get("tool_use_success") is True,
        "expected_tools": _tool_names(record.get("expected_tools") or record.get("expected_tool_calls")),
        "error": _text(record.get("error")),
    }


def _tool_names(value: Any) -> list[str]:
    """Lower case, first-seen order, no repeats; a call written as an object counts by its name."""
    calls = value if isinstance(value, list) else []
    names = (call.get("name") if isinstance(call, dict) else call for call in calls)
    return list(dict.fromkeys(name.lower() for name in names if isinstance(name, str) and name))


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, float):
        return round(value) if math.isfinite(value) else None
    return value if isinstance(value, int) else None
