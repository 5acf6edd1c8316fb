"""The measurements run: real commands against the calibrated server, small enough for every day."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bench import capacity, defaults, viewer
from bench.command import CommandFailed, run_command
from bench.fidelity import pair_up, record_errors
from bench.limited_server import serving_limited
from bench.server_process import CalibratedServer
from bench.setting import observe_bare
from bench.workplace import Workplace


@pytest.fixture
def workplace(tmp_path: Path, server: CalibratedServer) -> Workplace:
    return Workplace(tmp_path, server)


@pytest.mark.parametrize("path", ["chat", "responses", "cli"])
def test_every_record_of_a_run_meets_its_true_times(workplace: Workplace, path: str) -> None:
    """On each path the recorded times contain what the server really took: no clock runs fast."""
    asked = workplace.ask(path, "t30-i5-n4-r2", prompts=6, concurrency=3)
    records = {record.prompt_id: record for record in asked.records()}
    truth = workplace.truth(path)
    pairs = pair_up(records, truth, by_tag=True)
    assert len(pairs) == len(truth) == 6
    assert record_errors(pairs)["ttft_ms"]["n"] == 6
    for record, row in pairs:
        assert record.timings_us.ttft is not None
        assert record.timings_us.ttft * 1000 >= row.reason_ns - row.recv_ns - 1000
        assert record.timings_us.e2e * 1000 >= row.last_ns - row.recv_ns - 1000
        assert record.output_tokens == 6


def test_the_bare_client_sees_the_same_calls(workplace: Workplace) -> None:
    """What stands beside clawgauge in the tables made the same requests."""
    workplace.reset_truth()
    calls = observe_bare(workplace, "chat", "t5-n2", calls=6, concurrency=2)
    assert (
        {call.id for call in calls}
        == {row.id for row in workplace.truth("chat")}
        == {f"p{n}" for n in range(6)}
    )
    assert all(5_000_000 <= call.ttft_ns <= call.e2e_ns for call in calls)
    assert sum(call.warm for call in calls) == 4


@pytest.mark.slow
def test_a_viewer_sees_every_row_of_the_run_it_is_weighed_with(workplace: Workplace) -> None:
    """What stands beside a run without one has really followed it."""
    assert viewer.alone(workplace, 30).seen == 0
    followed = viewer.followed(workplace, 30)
    assert followed.seen == 30 and followed.viewer_cpu_s > 0


def test_other_tools_are_given_prompts_of_the_length_that_is_measured(tmp_path: Path) -> None:
    capacity.write_prompts(tmp_path, 1_000)
    texts = (tmp_path / "lines.txt").read_text().splitlines()
    assert {len(text) for text in texts} == {4_000} and len(
        {text[:8] for text in texts}
    ) == capacity.PEER_CALLS
    turns = [json.loads(line) for line in (tmp_path / "turns.jsonl").read_text().splitlines()]
    assert [turn["text"] for turn in turns] == [turn["prompt"] for turn in turns] == texts


def test_a_command_is_weighed_alone(tmp_path: Path) -> None:
    """Memory and CPU are the command's own: a small one stays small beside a large one."""
    small = run_command([sys.executable, "-I", "-S", "-c", "pass"], cwd=tmp_path, env={})
    hungry = "x = bytearray(64_000_000); sum(range(10_000_000))"
    large = run_command([sys.executable, "-I", "-S", "-c", hungry], cwd=tmp_path, env={})
    assert small.peak_rss_mb < 32
    assert large.peak_rss_mb > small.peak_rss_mb + 50
    assert large.cpu_s > small.cpu_s


def test_a_command_that_fails_measures_nothing(tmp_path: Path) -> None:
    """A failure is raised with the command's own words instead of becoming a figure."""
    with pytest.raises(CommandFailed, match="no such luck"):
        run_command(
            [sys.executable, "-c", "raise SystemExit('no such luck')"], cwd=tmp_path, env={}
        )


@pytest.mark.parametrize(("limit", "is_refused"), [("q1", True), ("q8", False)])
def test_a_host_with_a_limit_refuses_what_is_beyond_it_and_loses_nothing(
    workplace: Workplace, limit: str, is_refused: bool
) -> None:
    """The run that is timed is a whole one: every call is answered, those that were refused in the end."""
    with serving_limited() as (base_url, models):
        defaults.write_provider(workplace, base_url)
        defaults.ask(workplace, [f"t20-{limit}"])
    host = models[f"t20-{limit}"]
    assert host.n_answered == defaults.N_PROMPTS
    assert (host.n_refused > 0) == is_refused
