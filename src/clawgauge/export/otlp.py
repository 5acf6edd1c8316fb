"""Runs for tools that speak OpenTelemetry: a span a call, and histograms, as OTLP's JSON.

Each line is whole in itself (`TracesData` or `MetricsData`), as the protocol's file exporter does;
a collector takes it as the body of a request. Names follow the conventions for generative AI
where they have one, else they begin with `clawgauge.`. Of the protocol's JSON: whole numbers of 64
bits are texts, ids are hexadecimal, enums are numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from clawgauge.errors import ClawgaugeError
from clawgauge.journal import encode_line, iter_results
from clawgauge.journal.reader import RunReader
from clawgauge.prices import settings_of, vendor_of
from clawgauge.records import Prompt, Result, Target
from clawgauge.registry import ANTHROPIC, GOOGLE, OPENAI
from clawgauge.version import __version__

Attributes: TypeAlias = list[dict[str, Any]]

_SPANS_A_LINE = 200
_SPAN_KIND_CLIENT = 3
_STATUS_ERROR = 2
_CUMULATIVE = 2
_NS_PER_MS = 1_000_000
_NS_PER_US = 1_000
_END_OF_INT64 = 2**63
_OPERATION = "chat"
# As the conventions call those who sell models; others go by the provider's own name.
_PROVIDER_NAMES = {
    OPENAI.name: "openai",
    ANTHROPIC.name: "anthropic",
    GOOGLE.name: "gcp.gemini",
}
# The bounds that the conventions ask for.
_DURATION_BOUNDS_S = tuple(0.01 * 2**power for power in range(14))
_TOKEN_BOUNDS = tuple(float(4**power) for power in range(14))


class OtlpExport:
    """The calls of `folders` that were asked, run after run; after a pass `n_calls` and
    `n_unreadable` say what was met."""

    def __init__(self, folders: Sequence[Path], *, with_texts: bool = False) -> None:
        self.n_calls = 0
        self._with_texts = with_texts
        # Opened here once, so that a folder without results is refused before anything is written.
        self._readers = [iter_results(folder) for folder in folders]

    @property
    def n_unreadable(self) -> int:
        return sum(reader.n_unreadable_lines for reader in self._readers)

    def iter_traces(self) -> Iterator[bytes]:
        """Lines of spans: one span a call, which has its attempts and its verdict as events."""
        for reader in self._readers:
            run = _RunContext(reader, with_texts=self._with_texts)
            spans = []
            for result in self._asked(reader):
                spans.append(run.make_span(result))
                if len(spans) == _SPANS_A_LINE:
                    yield run.wrap_spans(spans)
                    spans = []
            if spans:
                yield run.wrap_spans(spans)

    def iter_metrics(self) -> Iterator[bytes]:
        """A line of histograms and counts for each run."""
        for reader in self._readers:
            run = _RunContext(reader, with_texts=False)
            metrics = _Metrics()
            for result in self._asked(reader):
                metrics.add(result, run.identity_of(result.target))
            if metrics.n_calls:
                yield run.wrap_metrics(metrics.describe())

    def _asked(self, results: Iterable[Result]) -> Iterator[Result]:
        for result in results:
            if result.was_asked:
                self.n_calls += 1
                yield result


class _RunContext:
    """What is said of every call of a run, and what its prompts are where texts are wanted."""

    def __init__(self, reader: RunReader[Result], *, with_texts: bool) -> None:
        self._run_id = reader.run_id
        self._config = reader.config
        self._identities: dict[Target, dict[str, Any]] = {}
        self._prompts: dict[tuple[str, str, int], Prompt] = {}
        self._with_texts = with_texts
        if with_texts and self._config is not None:
            for prompt in self._config.prompts:
                self._prompts[prompt.suite, prompt.id, 0] = prompt
            # What cannot be read of further drawings is left out: the calls are there.
            with suppress(ClawgaugeError):
                self._prompts.update(reader.drawn_prompts)

    def wrap_spans(self, spans: list[dict[str, Any]]) -> bytes:
        scope_spans = [{"scope": self._scope(), "spans": spans}]
        wrapped = {"resource": self._resource(), "scopeSpans": scope_spans}
        return encode_line({"resourceSpans": [wrapped]})

    def wrap_metrics(self, metrics: list[dict[str, Any]]) -> bytes:
        scope_metrics = [{"scope": self._scope(), "metrics": metrics}]
        wrapped = {"resource": self._resource(), "scopeMetrics": scope_metrics}
        return encode_line({"resourceMetrics": [wrapped]})

    def _resource(self) -> dict[str, Any]:
        described: dict[str, Any] = {"service.name": "clawgauge", "clawgauge.run.id": self._run_id}
        if self._config is not None:
            described["service.version"] = self._config.clawgauge_version
        return {"attributes": _attributes(described)}

    def _scope(self) -> dict[str, Any]:
        return {"name": "clawgauge", "version": __version__}

    def identity_of(self, target: Target) -> dict[str, Any]:
        """Whom a call went to, as every span and metric of it says."""
        identity = self._identities.get(target)
        if identity is None:
            settings = settings_of(self._config, target)
            vendor = vendor_of(settings) or ""
            identity = {
                "gen_ai.operation.name": _OPERATION,
                "gen_ai.provider.name": _PROVIDER_NAMES.get(vendor, target.provider),
                "gen_ai.request.model": target.model,
                **_server_of(settings),
            }
            self._identities[target] = identity
        return identity

    def make_span(self, result: Result) -> dict[str, Any]:
        start_ns, end_ns = _times_of(result)
        trace_id, span_id = _ids_of(self._run_id, result)
        attributes = self.identity_of(result.target) | self._sampling_of(result)
        attributes |= _describe_result(result)
        if self._with_texts:
            attributes |= _quote_texts(result, self._prompts.get(result.text))
        span: dict[str, Any] = {
            "traceId": trace_id,
            "spanId": span_id,
            "name": f"{_OPERATION} {result.model}",
            "kind": _SPAN_KIND_CLIENT,
            "startTimeUnixNano": str(start_ns),
            "endTimeUnixNano": str(end_ns),
            "attributes": _attributes(attributes),
            "events": _describe_attempts(result, start_ns) + _describe_verdict(result, end_ns),
        }
        if not result.success:
            span["status"] = {"code": _STATUS_ERROR}
        return span

    def _sampling_of(self, result: Result) -> dict[str, Any]:
        """What the call was sent with, as far as the run says."""
        if self._config is None:
            return {}
        label = result.target.label
        name = f"{result.suite}/{result.prompt_id}"
        by_prompt = self._config.prompt_sampling.get(label, {})
        sampling = by_prompt.get(name) or self._config.sampling.get(label, {})
        described = {}
        for key in ("temperature", "max_tokens", "seed", "top_p"):
            value = sampling.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                described[f"gen_ai.request.{key}"] = value
        return described


def _describe_result(result: Result) -> dict[str, Any]:
    timings = result.timings_us
    first_token_us = timings.ttft if result.streamed else None
    return {
        "gen_ai.request.stream": result.streamed,
        "gen_ai.response.model": result.model_reported,
        "gen_ai.response.finish_reasons": [result.finish_reason] if result.finish_reason else None,
        "gen_ai.response.time_to_first_chunk": _in_seconds(first_token_us),
        "gen_ai.usage.input_tokens": result.input_tokens,
        "gen_ai.usage.output_tokens": result.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": result.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": result.reasoning_tokens,
        "error.type": result.failure_type,
        "clawgauge.target": result.target.label,
        "clawgauge.thinking_level": result.thinking_level,
        "clawgauge.suite": result.suite,
        "clawgauge.prompt.id": result.prompt_id,
        "clawgauge.prompt.name": result.prompt_name,
        "clawgauge.repeat": result.repeat,
        "clawgauge.drawing": result.draw,
        "clawgauge.verdict": _verdict_of(result),
        "clawgauge.violation": _code_of(result.violation),
        "clawgauge.tool_calls": result.tool_calls or None,
        "clawgauge.turns": result.turns,
        "clawgauge.attempts": len(result.attempts),
        "clawgauge.duration": _in_seconds(timings.e2e),
        "clawgauge.cold_start": result.cold_start,
        "clawgauge.cost_usd": result.cost_usd,
        "clawgauge.node": result.node,
    }


def _verdict_of(result: Result) -> str:
    if result.objective_pass is None:
        return "none"
    return "pass" if result.objective_pass else "fail"


def _code_of(violation: str | None) -> str | None:
    """The code in front of a violation: behind it may stand words of the answer."""
    return violation.partition(":")[0] if violation else None


def _describe_attempts(result: Result, start_ns: int) -> list[dict[str, Any]]:
    """Every try of the call, at the time when it began."""
    events = []
    began_ns = start_ns
    for number, attempt in enumerate(result.attempts, start=1):
        described = {
            "clawgauge.attempt.number": number,
            "clawgauge.attempt.status": attempt.status,
            "clawgauge.attempt.duration": attempt.e2e_ms / 1000,
            "clawgauge.attempt.waited": attempt.waited_ms / 1000,
            "error.type": attempt.failure_type,
            "http.response.status_code": attempt.http_status,
        }
        events.append(
            {
                "timeUnixNano": str(_within_int64(began_ns)),
                "name": "clawgauge.attempt",
                "attributes": _attributes(described),
            }
        )
        began_ns += (attempt.e2e_ms + attempt.waited_ms) * _NS_PER_MS
    return events


def _describe_verdict(result: Result, end_ns: int) -> list[dict[str, Any]]:
    """The evaluation of an answer that was judged."""
    if not result.success or result.objective_pass is None:
        return []
    described = {
        "gen_ai.evaluation.name": "objective_pass",
        "gen_ai.evaluation.score.value": float(result.objective_pass),
        "gen_ai.evaluation.score.label": _verdict_of(result),
    }
    return [
        {
            "timeUnixNano": str(end_ns),
            "name": "gen_ai.evaluation.result",
            "attributes": _attributes(described),
        }
    ]


def _quote_texts(result: Result, prompt: Prompt | None) -> dict[str, Any]:
    """Prompt and answer, in the form of the conventions, as JSON texts."""
    quoted = {}
    if prompt is not None:
        messages = []
        for message in prompt.messages:
            messages.append(_message(message.role, str(message)))
        if prompt.prompt:
            messages.append(_message("user", prompt.prompt))
        quoted["gen_ai.input.messages"] = _as_json(messages)
        if prompt.system:
            system = [{"type": "text", "content": prompt.system}]
            quoted["gen_ai.system_instructions"] = _as_json(system)
    answer = _message("assistant", result.raw_output)
    answer["finish_reason"] = result.finish_reason or "error"
    quoted["gen_ai.output.messages"] = _as_json([answer])
    return quoted


def _message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _times_of(result: Result) -> tuple[int, int]:
    """When the first attempt began and the last one ended. The record's labels are those of the
    last attempt."""
    last_start_ns = result.started_at_ms * _NS_PER_MS
    before_ms = 0
    for attempt in result.attempts[:-1]:
        before_ms += attempt.e2e_ms + attempt.waited_ms
    start_ns = _within_int64(last_start_ns - before_ms * _NS_PER_MS)
    end_ns = last_start_ns + result.timings_us.e2e * _NS_PER_US
    if result.turns is not None and result.turns > 1:
        # The times of a task's turns leave out what lies between them.
        end_ns = result.ended_at_ms * _NS_PER_MS
    return start_ns, max(start_ns, _within_int64(end_ns))


def _within_int64(time_ns: int) -> int:
    """A damaged line may claim any time: 0 stands for one that cannot be."""
    return time_ns if 0 <= time_ns < _END_OF_INT64 else 0


def _ids_of(run_id: str, result: Result) -> tuple[str, str]:
    """The same call has the same ids in every export. Each call is a trace of its own."""
    cell = [run_id, result.target.label, result.suite, result.prompt_id, result.repeat, result.draw]
    digest = sha256(json.dumps([*cell, result.stretch, result.started_at_ms]).encode()).hexdigest()
    return digest[:32], digest[32:48]


def _server_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parts = urlsplit(str(settings.get("base_url") or ""))
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return {}
    if not parts.hostname or port is None:
        return {}
    return {"server.address": parts.hostname, "server.port": port}


def _in_seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1_000_000


def _attributes(values: Mapping[str, Any]) -> Attributes:
    """Key and typed value of all that is known."""
    attributes = []
    for key, value in values.items():
        encoded = _encode_value(value)
        if encoded is not None:
            attributes.append({"key": key, "value": encoded})
    return attributes


def _encode_value(value: Any) -> dict[str, Any] | None:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)} if abs(value) < _END_OF_INT64 else None
        case float():
            return {"doubleValue": value} if math.isfinite(value) else None
        case str():
            return {"stringValue": value}
        case list():
            return {"arrayValue": {"values": [{"stringValue": str(item)} for item in value]}}
        case _:
            return None


class _Histogram:
    """Counts of values between bounds, for one set of attributes."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._min = math.inf
        self._max = -math.inf

    def add(self, value: float) -> None:
        place = 0
        while place < len(self._bounds) and value > self._bounds[place]:
            place += 1
        self._counts[place] += 1
        self._sum += value
        self._min = min(self._min, value)
        self._max = max(self._max, value)

    def describe(self) -> dict[str, Any]:
        return {
            "count": str(sum(self._counts)),
            "sum": self._sum,
            "min": self._min,
            "max": self._max,
            "bucketCounts": [str(count) for count in self._counts],
            "explicitBounds": list(self._bounds),
        }


_HISTOGRAMS = {
    "gen_ai.client.operation.duration": ("s", "GenAI operation duration.", _DURATION_BOUNDS_S),
    "gen_ai.client.operation.time_to_first_chunk": (
        "s",
        "Time to the first chunk of a streamed answer.",
        _DURATION_BOUNDS_S,
    ),
    "gen_ai.client.token.usage": ("{token}", "Input and output tokens used.", _TOKEN_BOUNDS),
}
_CALLS = "clawgauge.calls"


class _Metrics:
    """The histograms and counts of a run, by name and attributes."""

    def __init__(self) -> None:
        self.n_calls = 0
        self._start_ns: int | None = None
        self._end_ns = 0
        self._histograms: dict[tuple[str, str], _Histogram] = {}
        self._counts: dict[str, int] = {}
        self._attributes: dict[str, Attributes] = {}

    def add(self, result: Result, identity: Mapping[str, Any]) -> None:
        self.n_calls += 1
        start_ns, end_ns = _times_of(result)
        if self._start_ns is None or start_ns < self._start_ns:
            self._start_ns = start_ns
        self._end_ns = max(self._end_ns, end_ns)
        labels = {**identity, "clawgauge.target": result.target.label}
        failed = {**labels, "error.type": result.failure_type}
        self._observe(
            "gen_ai.client.operation.duration", failed, _in_seconds(result.timings_us.e2e)
        )
        if result.streamed:
            first_token_s = _in_seconds(result.timings_us.ttft)
            self._observe("gen_ai.client.operation.time_to_first_chunk", labels, first_token_s)
        for kind, n_tokens in (("input", result.input_tokens), ("output", result.output_tokens)):
            by_kind = {**labels, "gen_ai.token.type": kind}
            self._observe("gen_ai.client.token.usage", by_kind, n_tokens)
        judged = {
            **failed,
            "clawgauge.suite": result.suite,
            "clawgauge.verdict": _verdict_of(result),
        }
        key = self._key_of(judged)
        self._counts[key] = self._counts.get(key, 0) + 1

    def _observe(self, name: str, labels: Mapping[str, Any], value: float | None) -> None:
        if value is None or not 0 <= value < _END_OF_INT64:
            return
        key = name, self._key_of(labels)
        histogram = self._histograms.get(key)
        if histogram is None:
            _, _, bounds = _HISTOGRAMS[name]
            histogram = _Histogram(bounds)
            self._histograms[key] = histogram
        histogram.add(float(value))

    def _key_of(self, labels: Mapping[str, Any]) -> str:
        attributes = _attributes(labels)
        key = json.dumps(attributes)
        self._attributes[key] = attributes
        return key

    def describe(self) -> list[dict[str, Any]]:
        metrics = []
        for name, (unit, description, _) in _HISTOGRAMS.items():
            points = []
            for (of_name, key), histogram in self._histograms.items():
                if of_name == name:
                    points.append(self._point(key) | histogram.describe())
            if points:
                body = {"aggregationTemporality": _CUMULATIVE, "dataPoints": points}
                metrics.append(
                    {"name": name, "unit": unit, "description": description, "histogram": body}
                )
        counts = [self._point(key) | {"asInt": str(count)} for key, count in self._counts.items()]
        calls = {
            "aggregationTemporality": _CUMULATIVE,
            "isMonotonic": True,
            "dataPoints": counts,
        }
        description = "Calls that were asked, by suite and verdict."
        metrics.append({"name": _CALLS, "unit": "{call}", "description": description, "sum": calls})
        return metrics

    def _point(self, key: str) -> dict[str, Any]:
        return {
            "attributes": self._attributes[key],
            "startTimeUnixNano": str(self._start_ns or 0),
            "timeUnixNano": str(self._end_ns),
        }
