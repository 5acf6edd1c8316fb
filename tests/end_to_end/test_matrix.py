"""Every provider on one real model, and every file of the run folder, field by field."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from support.command import Outcome, clawgauge
from support.fake_claude import install_fake_claude

pytestmark = pytest.mark.slow  # a real model answers for four providers

PROMPTS = ("core/P0", "core/P30", "tool_use/P0")
CHAT = "local_llama:smollm2-135m"
TARGETS = [
    "embedded:smollm2-135m",
    "ollama_openai:smollm2-135m",
    "openai_responses:smollm2-135m@low",
    CHAT,
    "claude_code_cli:claude-sonnet-4-5",
]


@pytest.fixture(scope="module")
def matrix(llama_address: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One run of every provider: four speak to llama.cpp, the CLI is a recording of the real one."""
    place = tmp_path_factory.mktemp("matrix")
    fake = install_fake_claude(place / "bin", recording="ok_stream_min")
    (place / "clawgauge.toml").write_text(
        f'[providers.local_llama]\ntype = "openai_chat"\nlocal = true\nbase_url = "{llama_address}/v1"\n'
    )
    words = [word for target in TARGETS for word in ("-t", target)]
    return clawgauge(
        place, "run", *words, "--prompt-ids", ",".join(PROMPTS), "--max-tokens", "16",
        env={
            "OLLAMA_OPENAI_BASE": f"{llama_address}/v1",
            "OPENAI_BASE_URL": f"{llama_address}/v1",
            "OPENAI_API_KEY": "sk-matrix-canary",
            "ANTHROPIC_API_KEY": "sk-ant-matrix-canary",
            "PATH": f"{fake.bin_dir}:{os.environ['PATH']}",
        },
    )  # fmt: skip


def by_provider(outcome: Outcome) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for record in outcome.records():
        found.setdefault(record["provider"], []).append(record)
    return found


def test_every_cell_is_answered_and_timed(matrix: Outcome) -> None:
    """Every provider answers every prompt with a first token, tokens and a finish reason."""
    assert matrix.code == 0, matrix.stderr
    groups = by_provider(matrix)
    assert {name: len(records) for name, records in groups.items()} == dict.fromkeys(
        ["embedded", "ollama_openai", "openai_responses", "local_llama", "claude_code_cli"], 3
    )
    for record in matrix.records():
        assert record["availability_status"] == "ok" and record["success"], record
        assert 0 < record["ttft_ms"] <= record["e2e_ms"] and record["ttfa_ms"] is not None
        assert record["timings_us"]["e2e"] // 1000 - record["e2e_ms"] in (-1, 0)
        assert record["input_tokens"] > 0 and record["output_tokens"] > 0 and record["raw_output"]
        assert record["streamed"] is True and record["finish_reason"] in ("stop", "length")
        assert record["started_at_ms"] <= record["ended_at_ms"]
        assert len(record["attempts"]) == 1 and record["attempts"][0]["status"] == "ok"


def test_the_token_limit_shows(matrix: Outcome) -> None:
    """A reply of 16 tokens that was cut says so, on the chat protocol and on Responses alike."""
    for name in ("embedded", "ollama_openai", "openai_responses", "local_llama"):
        cut = [r for r in by_provider(matrix)[name] if r["output_tokens"] == 16]
        assert cut and all(r["finish_reason"] == "length" for r in cut)


def test_thinking_levels_and_cold_starts(matrix: Outcome) -> None:
    """A level is recorded where it was asked and null elsewhere; cold starts are a local model's matter."""
    groups = by_provider(matrix)
    assert {r["thinking_level"] for r in groups["openai_responses"]} == {"low"}
    assert {r["thinking_level"] for r in groups["embedded"]} == {None}
    assert [r["cold_start"] for r in groups["embedded"]] == [False, False, False], (
        "loaded before its first call"
    )
    assert {r["cold_start"] for r in groups["claude_code_cli"] + groups["openai_responses"]} == {
        None
    }


def test_config_says_what_was_run(matrix: Outcome) -> None:
    """config.json has the targets, the full prompts, their hash, the addresses and versions, and no key."""
    config = json.loads((matrix.folder / "config.json").read_bytes())
    assert [f"{t['provider']}:{t['model']}" for t in config["targets"]] == [
        t.partition("@")[0] for t in TARGETS
    ]
    assert [f"{p['suite']}/{p['id']}" for p in config["prompts"]] == list(PROMPTS)
    assert all(p["prompt"] and p["validator"]["type"] for p in config["prompts"])
    assert re.fullmatch(r"[0-9a-f]{64}", config["prompts_sha256"])
    assert config["options"]["max_tokens"] == 16 and config["options"]["timeout_s"] == 300
    assert config["providers"]["openai_responses"]["api_key_env"] == "OPENAI_API_KEY"
    assert config["providers"]["local_llama"]["type"] == "openai_chat"
    assert config["sampling"]["embedded:smollm2-135m"]["temperature"] == 0
    assert config["sampling"]["openai_responses:smollm2-135m@low"]["temperature"] is None
    assert {"clawgauge", "python", "httptools", "msgspec"} <= set(config["versions"])


def test_inventory_says_where(matrix: Outcome) -> None:
    """inventory.json has the machine, the packages, and which providers could be reached."""
    inventory = json.loads((matrix.folder / "inventory.json").read_bytes())
    assert (
        inventory["python_version"]
        and inventory["cpu"]
        and inventory["memory"]
        and inventory["host"]
    )
    assert "clawgauge" in inventory["packages"]
    reachable = {probe["provider"]: probe["reachable"] for probe in inventory["providers"]}
    assert reachable["embedded"] and reachable["local_llama"] and reachable["claude_code_cli"]
    assert inventory["cli_versions"]["claude"] is not None


def test_resources_around_each_target(matrix: Outcome) -> None:
    """Each target has its pair of files; the summary has them parsed, with the peak in between."""
    before = sorted(path.name for path in matrix.folder.glob("resources_*_before.txt"))
    after = sorted(path.name for path in matrix.folder.glob("resources_*_after.txt"))
    assert len(before) == len(after) == len(TARGETS)
    assert [name.replace("_before", "_after") for name in before] == after
    for group in matrix.summary()["models"]:
        for snapshot in (group["resources_before"], group["resources_after"]):
            assert snapshot["memory_total_bytes"] > snapshot["memory_available_bytes"] > 0
        assert group["peak_memory_bytes"] > 0


def test_summary_adds_up(matrix: Outcome) -> None:
    """Groups are in the order of the targets; statuses partition the total; latencies match the records."""
    groups = matrix.summary()["models"]
    assert [g["provider"] for g in groups] == [target.partition(":")[0] for target in TARGETS]
    for group in groups:
        statuses = ("n_ok", "n_skipped_unavailable", "n_auth_error", "n_rate_limited", "n_error")
        assert sum(group[name] for name in statuses) == group["n_total"] == 3
        times = sorted(r["e2e_ms"] for r in by_provider(matrix)[group["provider"]])
        assert group["latency_ms"]["p50"] == times[1]
        assert group["latency_ms"]["mean"] == pytest.approx(sum(times) / 3)
        assert group["tool_use"]["n"] == 1 and group["tool_use"]["source"] == "text"
        assert group["ttft_ms"]["n"] == 3
    page = (matrix.folder / "summary.md").read_text()
    for group in groups:
        assert group["model"] in page


def test_a_consumer_that_knows_only_the_schema_document(matrix: Outcome) -> None:
    """Twenty lines that know nothing but the published field names compute the same rates from results.jsonl."""
    groups: dict[tuple[str, str, str | None], dict[str, int]] = {}
    with (matrix.folder / "results.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            assert row["record_type"] == "result"
            key = (row["provider"], row["model"], row["thinking_level"])
            group = groups.setdefault(
                key, {"total": 0, "ok": 0, "success": 0, "judged": 0, "passed": 0}
            )
            group["total"] += 1
            group["ok"] += row["availability_status"] == "ok"
            if row["availability_status"] == "ok" and row["success"]:
                group["success"] += 1
                group["judged"] += row["objective_pass"] is not None
                group["passed"] += row["objective_pass"] is True
    summary = json.loads((matrix.folder / "summary.json").read_text())
    assert len(summary["models"]) == len(groups)
    for said in summary["models"]:
        counted = groups[said["provider"], said["model"], said["thinking_level"]]
        assert (said["n_total"], said["n_ok"], said["n_success"]) == (
            counted["total"],
            counted["ok"],
            counted["success"],
        )
        assert said["success_rate_ok"] == counted["success"] / counted["ok"]
        assert said["objective_pass_rate"] == counted["passed"] / counted["judged"]
