"""What stands around the figures: failures and advice, warnings, the machine, older folders."""

from __future__ import annotations

import json

import msgspec

from clawgauge.records import RunSummary
from clawgauge.summary import summarize_folder
from support.rows import every_row

from .run_folders import MODEL, T0, config, failed, prompt, record, tool_record, write_run


def only(folder):
    (group,) = summarize_folder(folder).models
    return group


def test_failures_are_counted_with_words_and_advice(tmp_path):
    """Each way of failing is counted, most frequent first, with an example of its words and what to do."""
    rows = [
        failed("P0", "error", "timeout", error=None),
        failed("P1", "error", "timeout", error="no answer within 300 s"),
        failed(
            "P2", "skipped_unavailable", "model_not_found", error="model 'llama3.2:3b' not found"
        ),
        failed("P3", "ok", "empty_response"),
        record("P4"),
    ]
    first, *others = only(write_run(tmp_path / "run", rows)).failures
    assert (first.failure_type, first.n, first.example) == ("timeout", 2, "no answer within 300 s")
    assert "--timeout" in first.hint
    by_type = {failure.failure_type: failure for failure in others}
    assert by_type["model_not_found"].hint.endswith(f"ollama pull {MODEL}")
    assert by_type["empty_response"].availability_status == "ok"


@every_row(
    ("provider", "settings", "failure_type", "words"),
    [
        (
            "ollama_openai",
            {"base_url": "http://box:11434/v1"},
            "connection_refused",
            "at http://box:11434/v1: is it",
        ),
        ("ollama_openai", {}, "connection_refused", "http://localhost:11434/v1"),
        ("openai_responses", {}, "api_key_missing", "Set OPENAI_API_KEY"),
        ("mine", {"type": "openai_chat", "api_key_env": "MY_KEY"}, "http_401", "check MY_KEY"),
        ("mine", {"type": "ollama_openai"}, "connection_refused", "ollama serve"),
        ("claude_code_cli", {}, "cli_missing", "npm install"),
        ("openai_chat", {}, "http_503", "see its log"),
        ("openai_chat", {}, "context_length_exceeded", "larger context"),
    ],
)
def test_advice_names_the_thing_to_change(tmp_path, provider, settings, failure_type, words):
    """The advice fits the kind of provider and names its address, its key variable or its command."""
    rows = [failed("P0", "error", failure_type, provider=provider)]
    plan = config([prompt("P0")], providers={provider: settings})
    plan["targets"] = [{"provider": provider, "model": MODEL, "thinking_level": None}]
    (failure,) = only(write_run(tmp_path / "run", rows, config=plan)).failures
    assert words in failure.hint


def test_a_failure_nobody_knows_gets_no_advice(tmp_path):
    """A reason without an entry, and no reason at all, are counted and left without invented advice."""
    rows = [failed("P0", "error", "gremlins"), failed("P1", "error", "x") | {"failure_type": None}]
    failures = only(write_run(tmp_path / "run", rows)).failures
    assert {(f.failure_type, f.hint) for f in failures} == {("gremlins", None), ("unknown", None)}


def test_another_model_answering_is_said(tmp_path):
    """Replies that the runner found to come from another model are counted, once, in its words; an alias is none."""
    words = "model_mismatch: asked llama3.2:3b, answered by llama3.2:1b"
    rows = [record(p, model_reported="llama3.2:1b", warnings=[words]) for p in ("P0", "P1")]
    rows.append(record("P2", model_reported="llama3.2:3b-instruct-q4"))
    assert only(write_run(tmp_path / "run", rows)).warnings == [f"{words} (2 of 3 calls)"]


def test_replies_cut_by_the_limit_are_said(tmp_path):
    """Answers that ran into the token limit are counted."""
    rows = [record("P0", finish_reason="length"), record("P1")]
    group = only(write_run(tmp_path / "run", rows))
    assert group.n_truncated_by_max_tokens == 1
    assert "1 of 2 replies were cut by the token limit (--max-tokens)" in group.warnings


def test_warnings_of_records_are_gathered(tmp_path):
    """What single records warn of appears once, with how many calls it concerns."""
    rows = [record(f"P{i}", warnings=["the context was cut"]) for i in range(3)]
    assert "the context was cut (3 of 3 calls)" in only(write_run(tmp_path / "run", rows)).warnings


def test_a_clean_run_warns_of_nothing(tmp_path):
    """No warning without a reason."""
    assert (
        only(write_run(tmp_path / "run", [record("P0")], config=config([prompt("P0")]))).warnings
        == []
    )


def test_resources_come_from_the_stretches_of_the_run(tmp_path):
    """Before is the first stretch's, after is the last one's, the peak is the highest; other targets' do not mix in."""

    def finished(at, used, peak, target=f"ollama_openai:{MODEL}"):
        before, after = (
            {"taken_at_ms": at, "memory_used_bytes": used},
            {"taken_at_ms": at, "memory_used_bytes": used + 1},
        )
        detail = {
            "resources_before": before,
            "resources_after": after,
            "peak_memory_bytes": peak,
            "peak_vram_bytes": None,
        }
        return {"event": "target_finished", "at_ms": at, "target": target, "detail": detail}

    events = [
        {"event": "warm_up", "at_ms": T0, "target": f"ollama_openai:{MODEL}"},
        finished(T0, 100, 700),
        finished(T0 + 1, 300, 500),
        finished(T0 + 2, 900, 9000, target="ollama_openai:other"),
    ]
    group = only(
        write_run(tmp_path / "run", [record()], config=config([prompt("P0")]), events=events)
    )
    assert (group.resources_before.memory_used_bytes, group.resources_after.memory_used_bytes) == (
        100,
        301,
    )
    assert (group.peak_memory_bytes, group.peak_vram_bytes) == (700, None)


def test_resources_of_another_shape_are_left_out(tmp_path):
    """An event whose snapshot cannot be read costs the snapshot, not the summary."""
    detail = {"resources_before": "lots", "resources_after": None, "peak_memory_bytes": "huge"}
    event = {
        "event": "target_finished",
        "at_ms": T0,
        "target": f"ollama_openai:{MODEL}",
        "detail": detail,
    }
    group = only(
        write_run(tmp_path / "run", [record()], config=config([prompt("P0")]), events=[event])
    )
    assert group.resources_before is group.resources_after is group.peak_memory_bytes is None


SEED_FIELDS = [
    "provider",
    "model",
    "thinking_level",
    "n_total",
    "n_ok",
    "n_success",
    "n_skipped_unavailable",
    "n_rate_limited",
    "n_error",
    "success_rate_ok",
    "objective_pass_rate",
    "wall_clock_ms",
    "latency_ms",
    "resources_before",
    "resources_after",
]


def test_the_schema_documents_fields_come_first_and_in_order(tmp_path):
    """summary.json opens each group with every field of the schema document, in its order, under `models`."""
    summary = summarize_folder(write_run(tmp_path / "run", [record(), tool_record("P1", True)]))
    document = json.loads(msgspec.json.encode(summary))
    assert list(document)[:5] == [
        "schema_version",
        "run_id",
        "generated_at",
        "run_wall_clock_ms",
        "models",
    ]
    (group,) = document["models"]
    assert list(group)[: len(SEED_FIELDS)] == SEED_FIELDS
    assert list(group["latency_ms"]) == ["p50", "p95", "p99", "mean"]
    assert isinstance(summary, RunSummary)


def test_folders_of_the_first_harness_are_summarised(tmp_path):
    """A folder with none of our additions, and event lines among the results, gives the schema document's figures."""
    additions = list(record())[list(record()).index("suite") :]
    old = [
        {k: v for k, v in r.items() if k not in additions}
        for r in (record("P0"), tool_record("P1", True))
    ]
    down = failed("P2", "error", "exception")
    old.append({k: v for k, v in down.items() if k not in additions})
    folder = write_run(
        tmp_path / "20260214_093023", [{"record_type": "event", "event": "start"}, *old]
    )
    (folder / "config.json").write_text(
        json.dumps({"models": [MODEL], "run_id": "20260214_093023"})
    )
    summary = summarize_folder(folder)
    (group,) = summary.models
    assert (summary.run_id, summary.n_unreadable_lines, summary.source) == (
        "20260214_093023",
        0,
        "first_harness",
    )
    assert (group.n_total, group.n_ok, group.n_success, group.n_error) == (3, 2, 2, 1)
    assert (group.objective_pass_rate, group.latency_ms.p50, group.ttft_ms.n) == (1.0, 100, 2)
    assert group.tool_use.label == "no tier: the records do not say which prompts expect a tool"
