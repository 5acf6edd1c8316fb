"""What a run says about its own measuring: the loop's lag, the client's cost, whose token counts, cached starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command import clawgauge, write_suite
from support.scripted_server import ScriptedServer, Status, Text

SMALL = ("run", "-t", "fake:scripted-model", "-s", "small.json")


def events_of(folder: Path, name: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == name]


def test_every_call_says_how_late_the_loop_was(place: Path, server: ScriptedServer) -> None:
    """Each call that was sent has a measured lag; the end of the target has the whole distribution and the cost."""
    server.reply_with(Text("yes", first_delay_s=0.03))
    done = clawgauge(place, *SMALL, "--repeats", "3")
    assert all(record["timings_us"]["lag"] >= 0 for record in done.records())
    (finished,) = events_of(done.folder, "target_finished")
    clock = finished["detail"]["clock"]
    assert set(clock) == {
        "resolution_ns",
        "loop_lag_ms",
        "client_cpu_s",
        "wall_s",
        "cores",
        "load_1m",
    }
    assert (
        clock["loop_lag_ms"]["n"] >= 12
        and clock["loop_lag_ms"]["p50"] <= clock["loop_lag_ms"]["max"]
    )
    assert clock["client_cpu_s"] > 0 and clock["wall_s"] >= 0.36 and clock["cores"] >= 1


def test_a_cell_that_was_not_sent_has_no_lag_and_no_prefix(
    place: Path, server: ScriptedServer
) -> None:
    """After a 401 the other cells are recorded unasked: nothing was measured, and nothing was put before a prompt."""
    server.reply_with(Status(401))
    done = clawgauge(place, *SMALL, "--unique-prefix")
    asked, *unasked = done.records()
    assert asked["timings_us"]["lag"] is not None and asked["prompt_prefix"] is not None
    assert all(r["timings_us"]["lag"] is None and r["prompt_prefix"] is None for r in unasked)


def test_token_counts_are_the_servers_or_nobodys(place: Path, server: ScriptedServer) -> None:
    """`tokens_source` is `server` where the server counted; without its count nothing is estimated."""
    server.script(
        Text("yes", cached_tokens=7),
        Text("yes", usage=None),
        Text("yes", chunks=1),
        Text("so be it", apart=True),
    )
    done = clawgauge(place, *SMALL)
    counted, uncounted, whole, streamed = done.records()
    assert (counted["tokens_source"], counted["cached_tokens"]) == ("server", 7)
    assert (
        uncounted["tokens_source"] is uncounted["output_tokens"] is uncounted["output_tps"] is None
    )
    assert whole["tokens_source"] == "server" and whole["output_tps"] is None
    assert streamed["output_tps"] > 0


def test_what_a_cache_served_is_known_of_the_responses_api_too(
    tmp_path: Path, server: ScriptedServer
) -> None:
    """Cached tokens are recorded; a stream of one piece has no rate."""
    write_suite(tmp_path / "one.json", {"prompt": "say yes"})
    server.reply_with(Text("yes", chunks=1, cached_tokens=9))
    environment = {"OPENAI_API_KEY": "sk-not-a-real-key", "OPENAI_BASE_URL": server.v1_url}
    done = clawgauge(
        tmp_path, "run", "-t", "openai_responses:gpt-5", "-s", "one.json", env=environment
    )
    (record,) = done.records()
    assert (record["tokens_source"], record["cached_tokens"], record["output_tps"]) == (
        "server",
        9,
        None,
    )


@pytest.mark.parametrize("kind", ["openai_chat", "openai_responses"])
def test_no_two_calls_begin_alike_with_a_unique_prefix(
    tmp_path: Path, server: ScriptedServer, kind: str
) -> None:
    """Every prompt, repeat and run begins with a line of its own, before the system prompt where there is one."""
    (tmp_path / "clawgauge.toml").write_text(
        f'[run]\nunique_prefix = true\nsuites = ["two.json"]\ntargets = ["fake:scripted-model"]\nrepeats = 2\n'
        f'[providers.fake]\ntype = "{kind}"\nbase_url = "{server.v1_url}"\n'
    )
    write_suite(
        tmp_path / "two.json", {"prompt": "say yes"}, {"prompt": "say no", "system": "Be brief."}
    )
    server.script(Status(503))
    environment = {"OPENAI_API_KEY": "sk-not-a-real-key"}
    first = clawgauge(tmp_path, "run", env=environment)
    second = clawgauge(tmp_path, "run", env=environment)
    assert first.code == second.code == 0, first.stderr
    records = [*first.records(), *second.records()]
    assert len({record["prompt_prefix"] for record in records}) == len(records) == 8
    config = json.loads((first.folder / "config.json").read_bytes())
    assert (
        config["options"]["unique_prefix"] is True and config["prompts"][0]["prompt"] == "say yes"
    )
    bodies = [json.dumps(call.json, ensure_ascii=False) for call in server.calls]
    retried, again = bodies[:2]
    assert retried == again  # an attempt at the same cell keeps its line
    for record, body in zip(records, bodies[1:], strict=True):
        sent = f"{record['prompt_prefix']}\\n" + (
            "Be brief." if record["prompt_id"] == "P1" else "say yes"
        )
        assert sent in body
    resumed = clawgauge(
        tmp_path, "run", "--resume", first.folder.name, "--repeats", "3", env=environment
    )
    lines = [record["prompt_prefix"] for record in resumed.records()]
    assert resumed.code == 0 and len(set(lines)) == 6 and None not in lines
