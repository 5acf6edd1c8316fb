"""OTLP/JSON, read by the protocol's own package: what is exported is what was recorded."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from clawgauge.export import OtlpExport
from clawgauge.journal import iter_results
from clawgauge.records import Attempt, Target, TimingsUs
from support.sample_runs import make_result, sample_prompts, write_folder, write_sample_run

PROMPT = sample_prompts()[0]
TARGET = Target("ollama_openai", "qwen3:8b", "high")


def read_traces(export: OtlpExport) -> list[TracesData]:
    """Each line by the strict reader of the protocol, which has ids in base64 where OTLP has hexadecimal digits."""
    messages = []
    for line in export.iter_traces():
        document = json.loads(line)
        for span in spans_of(document):
            for name, n_bytes in (("traceId", 16), ("spanId", 8)):
                raw = bytes.fromhex(span[name])
                assert len(raw) == n_bytes and any(raw)
                span[name] = b64encode(raw).decode()
        messages.append(ParseDict(document, TracesData()))
    return messages


def spans_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    (resource,) = document["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    spans: list[dict[str, Any]] = scope["spans"]
    return spans


def all_spans(export: OtlpExport) -> list[Span]:
    spans: list[Span] = []
    for message in read_traces(export):
        spans += message.resource_spans[0].scope_spans[0].spans
    return spans


def values_of(attributes: Any) -> dict[str, Any]:
    """Attributes with their values, whatever their type is."""
    values = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        value = getattr(attribute.value, kind)
        if kind == "array_value":
            value = [item.string_value for item in value.values]
        values[attribute.key] = value
    return values


def write_run(tmp_path: Path, **changes: Any) -> Path:
    result = make_result(TARGET, PROMPT, **changes)
    return write_folder(tmp_path / "run", [result], [PROMPT], [TARGET], run_id="run")


def test_every_call_that_was_asked_is_a_span(tmp_path: Path) -> None:
    """A rich run with faults and hostile answers: as many spans as calls, each with its own ids, times in order."""
    folder = write_sample_run(tmp_path / "run")
    asked = [result for result in iter_results(folder) if result.was_asked]
    export = OtlpExport([folder])
    spans = all_spans(export)
    assert len(spans) == len(asked) == export.n_calls > 100
    assert len({span.trace_id for span in spans}) == len(spans)
    for span, result in zip(spans, asked, strict=True):
        values = values_of(span.attributes)
        assert values["clawgauge.target"] == result.target.label
        assert values["gen_ai.request.model"] == result.model
        assert values.get("gen_ai.usage.output_tokens") == result.output_tokens
        assert (span.status.code == Status.STATUS_CODE_ERROR) == (not result.success)
        assert span.kind == Span.SPAN_KIND_CLIENT
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano


def test_a_call_with_its_attempts_and_its_verdict(tmp_path: Path) -> None:
    """The span begins with the first attempt; attempts and the evaluation are events at their times."""
    folder = write_run(
        tmp_path,
        started_at_ms=10_000,
        ended_at_ms=10_250,
        e2e_ms=250,
        timings_us=TimingsUs(e2e=250_400, ttft=80_000),
        ttft_ms=80,
        streamed=True,
        attempts=[
            Attempt(status="rate_limited", failure_type="http_429", e2e_ms=100, waited_ms=400, http_status=429),
            Attempt(status="ok", failure_type=None, e2e_ms=250),
        ],
        objective_pass=False,
        violation="not_exact: the secret answer",
        input_tokens=12,
        output_tokens=0,
        cached_tokens=8,
        finish_reason="stop",
        model_reported="qwen3-8b-q4",
        cost_usd=0.25,
    )  # fmt: skip
    (span,) = all_spans(OtlpExport([folder]))
    assert span.name == "chat qwen3:8b"
    assert span.start_time_unix_nano == 9_500_000_000
    assert span.end_time_unix_nano == 10_250_400_000
    values = values_of(span.attributes)
    assert values["gen_ai.operation.name"] == "chat"
    assert values["gen_ai.usage.input_tokens"] == 12
    assert values["gen_ai.usage.output_tokens"] == 0
    assert values["gen_ai.usage.cache_read.input_tokens"] == 8
    assert values["gen_ai.response.finish_reasons"] == ["stop"]
    assert values["gen_ai.response.model"] == "qwen3-8b-q4"
    assert values["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.08)
    assert values["clawgauge.duration"] == pytest.approx(0.2504)
    assert values["clawgauge.violation"] == "not_exact"
    assert values["clawgauge.cost_usd"] == 0.25
    assert "error.type" not in values
    first, second, verdict = span.events
    assert first.time_unix_nano == 9_500_000_000 and second.time_unix_nano == 10_000_000_000
    assert values_of(first.attributes)["error.type"] == "http_429"
    assert values_of(first.attributes)["http.response.status_code"] == 429
    assert verdict.name == "gen_ai.evaluation.result"
    assert values_of(verdict.attributes)["gen_ai.evaluation.score.label"] == "fail"


def test_texts_are_there_only_when_they_are_asked_for(tmp_path: Path) -> None:
    """Neither prompt, answer, error nor the words of a violation, unless `with_texts`."""
    folder = write_run(
        tmp_path,
        raw_output="the canary sings",
        violation="not_exact: the canary sings",
        objective_pass=False,
        error="no canary here",
    )
    bare = b"".join(OtlpExport([folder]).iter_traces())
    assert b"canary" not in bare and PROMPT.prompt.encode()[:20] not in bare
    (span,) = all_spans(OtlpExport([folder], with_texts=True))
    values = values_of(span.attributes)
    assert json.loads(values["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "text", "content": "the canary sings"}
    ]
    (asked,) = json.loads(values["gen_ai.input.messages"])
    assert asked == {"role": "user", "parts": [{"type": "text", "content": PROMPT.prompt}]}


def test_vendors_go_by_the_names_of_the_conventions(tmp_path: Path) -> None:
    """By the address that was asked, and not by what a provider is called."""
    folder = write_run(tmp_path)
    config = json.loads((folder / "config.json").read_bytes())
    for address, name in {
        "https://api.openai.com/v1": "openai",
        "https://gateway.example.com/v1": "ollama_openai",
        "http://[::1": "ollama_openai",
    }.items():
        config["providers"] = {"ollama_openai": {"type": "openai_chat", "base_url": address}}
        (folder / "config.json").write_text(json.dumps(config))
        (span,) = all_spans(OtlpExport([folder]))
        assert values_of(span.attributes)["gen_ai.provider.name"] == name


def test_metrics_are_counted_over_all_calls(tmp_path: Path) -> None:
    """Histograms by the protocol's reader: counts, sums and buckets are those of the records."""
    folder = write_sample_run(tmp_path / "run")
    asked = [result for result in iter_results(folder) if result.was_asked]
    (line,) = OtlpExport([folder]).iter_metrics()
    data = ParseDict(json.loads(line), MetricsData())
    metrics = {metric.name: metric for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    durations = metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert sum(point.count for point in durations) == len(asked)
    total_s = sum(result.timings_us.e2e for result in asked) / 1e6
    assert sum(point.sum for point in durations) == pytest.approx(total_s)
    for point in durations:
        assert sum(point.bucket_counts) == point.count
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        assert list(point.explicit_bounds)[:3] == [0.01, 0.02, 0.04]
    tokens = metrics["gen_ai.client.token.usage"].histogram.data_points
    n_output = sum(
        point.sum
        for point in tokens
        if values_of(point.attributes)["gen_ai.token.type"] == "output"
    )
    assert n_output == sum(result.output_tokens or 0 for result in asked)
    calls = metrics["clawgauge.calls"].sum
    assert calls.is_monotonic
    passed = [
        point.as_int
        for point in calls.data_points
        if values_of(point.attributes)["clawgauge.verdict"] == "pass"
    ]
    assert sum(passed) == sum(result.objective_pass is True for result in asked)


@pytest.mark.parametrize("time_ms", [-5, 0, 2**62])
def test_a_time_that_cannot_be_spoils_no_line(tmp_path: Path, time_ms: int) -> None:
    folder = write_run(tmp_path, input_tokens=None)
    record = json.loads((folder / "results.jsonl").read_bytes())
    record |= {"started_at_ms": time_ms, "ended_at_ms": time_ms, "raw_output": "\ud800"}
    (folder / "results.jsonl").write_text(json.dumps(record) + "\n")
    all_spans(OtlpExport([folder], with_texts=True))
    for line in OtlpExport([folder]).iter_metrics():
        ParseDict(json.loads(line), MetricsData())
