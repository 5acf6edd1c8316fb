"""Run folders made by the first harness, read as if they were ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from clawgauge.characters import repair_value
from clawgauge.records import STATUSES, Event, Result, TimingsUs

_NO_LEVEL = frozenset({"", "null", "none"})
_EVENT_NAME_KEYS = ("event", "event_type", "type", "name")
_EVENT_TIME_KEYS = ("at_ms", "timestamp_ms", "ts_ms", "started_at_ms")
_NUMBERS = (
    "started_at_ms",
    "ended_at_ms",
    "e2e_ms",
    "latency_ms",
    "ttft_ms",
    "input_tokens",
    "output_tokens",
)
_TEXTS = (
    "run_id",
    "provider",
    "model",
    "prompt_id",
    "prompt_name",
    "raw_output",
    "failure_type",
    "violation",
    "error",
)


def tells_first_harness(record: Mapping[str, Any]) -> bool | None:
    """What one line of results.jsonl tells of its maker; None where it is neither a result nor an event."""
    if record.get("record_type") == "event":
        return True
    return ("suite" not in record or "repeat" not in record) if "prompt_id" in record else None


class Upgrade:
    """Turns one folder's old records into results, counting repeats of a cell in the order they come."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._seen: Counter[tuple[str, str, str | None, str]] = Counter()

    def result(self, raw: Mapping[str, Any]) -> Result | None:
        """The record as ours; None where it names no provider, model or prompt, and so is no result."""
        record: dict[str, Any] = repair_value(dict(raw))[0]
        texts = {key: _text(record.get(key)) for key in _TEXTS}
        provider, model, prompt_id = texts["provider"], texts["model"], texts["prompt_id"]
        if not (provider and model and prompt_id):
            return None
        level = record.get("thinking_level")
        level = level if isinstance(level, str) and level.strip().lower() not in _NO_LEVEL else None
        repeat = self._seen[provider, model, level, prompt_id]
        self._seen[provider, model, level, prompt_id] += 1
        return Result(
            run_id=texts["run_id"] or self._run_id, provider=provider, model=model, thinking_level=level,
            suite="", prompt_id=prompt_id, prompt_name=texts["prompt_name"] or prompt_id, repeat=repeat,
            attempts=[], asked=True, error=texts["error"],
            expected_tools=_tool_names(record.get("expected_tools") or record.get("expected_tool_calls")),
            **_figures({key: _integer(record.get(key)) for key in _NUMBERS}), **_outcome(record, texts),
        )  # fmt: skip


def upgrade_event(raw: Mapping[str, Any]) -> Event:
    """An event line of the first harness, its name and time taken from the likely keys, the rest kept as detail."""
    record: dict[str, Any] = repair_value(dict(raw))[0]
    name = next(
        (record[key] for key in _EVENT_NAME_KEYS if isinstance(record.get(key), str)), "event"
    )
    at_ms = next(
        (at for key in _EVENT_TIME_KEYS if (at := _integer(record.get(key))) is not None), 0
    )
    provider, model = record.get("provider"), record.get("model")
    target = f"{provider}:{model}" if isinstance(provider, str) and isinstance(model, str) else None
    return Event(event=name, at_ms=at_ms, target=target, detail=record)


def _figures(told: dict[str, int | None]) -> dict[str, Any]:
    started, ended, ttft = told["started_at_ms"], told["ended_at_ms"], told["ttft_ms"]
    e2e = told["latency_ms"] if told["e2e_ms"] is None else told["e2e_ms"]
    if e2e is None:
        e2e = max(0, ended - started) if started is not None and ended is not None else 0
    if started is None:
        started = ended - e2e if ended is not None else 0
    us = TimingsUs(e2e=e2e * 1000, ttft=None if ttft is None else ttft * 1000)
    times: dict[str, Any] = {
        "started_at_ms": started,
        "ended_at_ms": started + e2e if ended is None else ended,
    }
    times |= {"e2e_ms": e2e, "total_ms": e2e, "ttft_ms": ttft}
    tokens = {name: told[name] for name in ("input_tokens", "output_tokens")}
    return {**times, **tokens, "timings_us": us, "streamed": ttft is not None}


def _outcome(record: Mapping[str, Any], texts: Mapping[str, str | None]) -> dict[str, Any]:
    raw_output, said = texts["raw_output"] or "", record.get("availability_status")
    answered = record.get("success") is not False or record.get("failure_type") == "empty_response"
    status = said if said in STATUSES else "ok" if said is None and answered else "error"
    success = status == "ok" and record.get("success", bool(raw_output.strip())) is True
    passed, parsed = record.get("objective_pass"), record.get("parsed_output")
    objective_pass = passed if success and isinstance(passed, bool) else None
    tools = _tool_names(record.get("tool_calls")) if success else []
    return {
        "availability_status": status, "success": success, "failure_type": None if success else texts["failure_type"],
        "objective_pass": objective_pass, "violation": texts["violation"] if objective_pass is False else None,
        "raw_output": raw_output, "raw_output_bytes": len(raw_output.encode()),
        "parsed_output": parsed if success and isinstance(parsed, dict) else None,
        "tool_calls": tools, "tool_call_count": len(tools),
        "tool_use_success": success and record.get("tool_use_success") is True,
    }  # fmt: skip


def _tool_names(value: Any) -> list[str]:
    """Lower case, first-seen order, no repeats; a call written as an object counts by its name."""
    names = (
        one.get("name") if isinstance(one, dict) else one
        for one in (value if isinstance(value, list) else ())
    )
    return list(dict.fromkeys(name.lower() for name in names if isinstance(name, str) and name))


def _text(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number or isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    try:
        value = float(value) if isinstance(value, str) else value
        return (
            round(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        )
    except (ValueError, OverflowError):  # no number, or none that is finite
        return None
