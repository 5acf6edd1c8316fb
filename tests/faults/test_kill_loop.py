"""Rows 31 and 37: `clawgauge run` killed with kill -9 at random moments, resumed, and in the end as if untouched."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.command import chat_config, clawgauge, clean_environment, read_records, write_suite
from support.scripted_server import ReceivedRequest, Reply, ScriptedServer, Status, Text

TARGETS = ("scripted-model", "other-model")
N_PROMPTS, REPEATS, CONCURRENCY = 8, 4, 3
N_CELLS = len(TARGETS) * N_PROMPTS * REPEATS
FLAKY = "question 5"
# Everything in a record that does not depend on the clock, on the stretch it was made in, or on the run's name.
LASTING = (
    "provider", "model", "thinking_level", "prompt_id", "prompt_name", "availability_status", "success",
    "failure_type", "objective_pass", "violation", "input_tokens", "output_tokens", "raw_output", "parsed_output",
    "tool_calls", "tool_use_success", "suite", "repeat", "finish_reason", "warnings",
)  # fmt: skip
COUNTED = (
    "n_total",
    "n_ok",
    "n_success",
    "n_error",
    "n_judged",
    "n_passed",
    "objective_pass_rate",
    "tool_use",
)


@dataclass
class KilledRuns:
    """A server, a suite, and processes that are killed; `odds` decides every moment, so that a seed repeats them."""

    place: Path
    server: ScriptedServer
    odds: random.Random
    ill: bool = True
    kills: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        chat_config(self.place, fake=self.server.v1_url)
        prompts = [
            {"prompt": f"question {n}", "validator": {"type": "exact", "value": f"answer {n % 3}"}}
            for n in range(N_PROMPTS)
        ]
        write_suite(self.place / "loop.json", *prompts)
        self.server.reply_with(self.answer)

    def answer(self, request: ReceivedRequest) -> Reply:
        """Always the same answer to the same question; one question fails for as long as the server is ill."""
        question: str = request.json["messages"][-1]["content"]
        if self.ill and question == FLAKY:
            return Status(400)
        return Text(f"answer {int(question.split()[-1]) % 4}", chunks=3, gap_s=0.004)

    def words(self, run_id: str) -> list[str]:
        """The command that begins this run, or goes on with it once it has begun."""
        if (self.place / "runs" / run_id / "config.json").exists():
            return ["run", "--resume", run_id, "--retry-errors"]
        targets = [word for model in TARGETS for word in ("-t", f"fake:{model}")]
        plan = ["-s", "loop.json", "--repeats", str(REPEATS), "--concurrency", str(CONCURRENCY)]
        return ["run", *targets, *plan, "--run-id", run_id]

    def kill_one(self, run_id: str) -> bool:
        """Start the command and kill it at a random moment. False if it came to its end first."""
        log = self.place / "stderr.log"
        n_calls = len(self.server.calls)
        with log.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "clawgauge", *self.words(run_id)],
                cwd=self.place,
                env=clean_environment(),
                stdout=subprocess.DEVNULL,
                stderr=err,
            )
            moment = self._wait_for_a_moment(process, n_calls)
            was_running = process.poll() is None
            process.kill()
            process.wait()
        assert was_running or process.returncode == 0, log.read_text()
        if was_running:
            self.kills.append(f"{run_id}: {moment}")
        self.check(run_id, log.read_text())
        return was_running

    def _wait_for_a_moment(self, process: subprocess.Popen[bytes], n_calls: int) -> str:
        """Anywhere from the first instruction on, or soon after one of the next calls reached the server."""
        if self.odds.random() < 0.3:
            delay_s = self.odds.uniform(0.0, 0.6)
            time.sleep(delay_s)
            return f"{delay_s:.4f} s after the start"
        wanted, delay_s = self.odds.randint(1, 16), self.odds.uniform(0.0, 0.012)
        while len(self.server.calls) < n_calls + wanted and process.poll() is None:
            time.sleep(0.0005)
        time.sleep(delay_s)
        return f"{delay_s:.4f} s after call {wanted}"

    def check(self, run_id: str, stderr: str) -> None:
        """What holds after every kill: whole lines but perhaps the last, each cell once, all that was told is there."""
        folder = self.place / "runs" / run_id
        if not (folder / "results.jsonl").exists():
            return
        lines = (folder / "results.jsonl").read_bytes().split(b"\n")
        records = [strict(line) for line in lines[:-1]]
        assert max(Counter(map(cell, records)).values(), default=1) == 1, "a cell stands twice"
        if (folder / "events.jsonl").exists() and (told := stderr.count("  [")):
            events = [
                json.loads(line)
                for line in (folder / "events.jsonl").read_bytes().split(b"\n")[:-1]
            ]
            stretch = sum(event["event"] == "stretch_started" for event in events) - 1
            assert sum(record["stretch"] == stretch for record in records) >= told, (
                "a row that was told is lost"
            )
        for name in ("config.json", "inventory.json", "summary.json"):
            if (folder / name).exists():
                strict((folder / name).read_bytes())

    def finish(self, run_id: str) -> Path:
        """Let the server get well and the run come to its end; returns its folder."""
        self.ill = False
        done = clawgauge(self.place, *self.words(run_id))
        assert done.code == 0, done.stderr
        return done.folder

    def replay(self) -> str:
        return "; ".join(self.kills)


def strict(data: bytes) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise ValueError(f"not JSON: {word}")

    loaded: dict[str, Any] = json.loads(data, parse_constant=refuse)
    return loaded


def cell(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        record[k] for k in ("provider", "model", "thinking_level", "suite", "prompt_id", "repeat")
    )


def lasting(folder: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    records = read_records(folder)
    assert len(records) == len({cell(record) for record in records}) == N_CELLS
    return {cell(record): {key: record[key] for key in LASTING} for record in records}


def counted(folder: Path) -> list[dict[str, Any]]:
    models = strict((folder / "summary.json").read_bytes())["models"]
    return [{key: group[key] for key in ("model", *COUNTED)} for group in models]


def kill_and_compare(place: Path, n_kills: int) -> None:
    seed = int(os.environ.get("CLAWGAUGE_KILL_SEED", random.SystemRandom().randrange(1 << 32)))
    with ScriptedServer(models=TARGETS) as server:
        runs = KilledRuns(place, server, random.Random(seed))
        runs.prepare()
        runs.ill = False
        untouched = runs.finish("untouched")
        runs.ill, killed = True, []
        try:
            while len(runs.kills) < n_kills:
                run_id = f"killed_{len(killed)}"
                # A process that reaches its end leaves nothing more to kill but the cells that failed.
                while len(runs.kills) < n_kills and runs.kill_one(run_id):
                    pass
                killed.append(runs.finish(run_id))
                runs.ill = True
            for folder in killed:
                assert lasting(folder) == lasting(untouched)
                assert counted(folder) == counted(untouched)
                assert not list(folder.glob(".*")), "a lock or a temporary file was left"
                kinds = {path.name for path in folder.iterdir()} - {
                    "superseded.jsonl",
                    "results.torn",
                }
                assert kinds == {path.name for path in untouched.iterdir()}
        except AssertionError as wrong:
            raise AssertionError(f"{wrong}\nCLAWGAUGE_KILL_SEED={seed}: {runs.replay()}") from wrong


def test_row_31_killed_anywhere_a_run_ends_as_if_untouched(tmp_path: Path) -> None:
    """Four kills at random moments, each resumed: every cell once, none lost, none doubled, the summary the same."""
    kill_and_compare(tmp_path, 4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_row_31_a_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    """The same a hundred times over."""
    kill_and_compare(tmp_path, 100)


def test_row_37_killed_while_writing_the_summary(place: Path, server: ScriptedServer) -> None:
    """Killed just as summary.json is being written, the old one is there whole; the next command clears the rest."""
    folder = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "r"
    ).folder
    before = strict((folder / "summary.json").read_bytes())
    caught = 0
    for _ in range(200):  # a busy machine may look away while the file is there
        process = subprocess.Popen(
            [sys.executable, "-m", "clawgauge", "summarize", "r"],
            cwd=place,
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
        )
        while not (seen := any(folder.glob(".summary*"))) and process.poll() is None:
            pass
        process.kill()
        process.wait()
        caught += seen
        assert strict((folder / "summary.json").read_bytes())["models"] == before["models"]
        assert (folder / "summary.md").read_text().rstrip().splitlines()[-1].startswith("- ")
        if caught == 3:
            break
    assert caught, "no kill came while the file was being written"
    assert clawgauge(place, "summarize", "r").code == 0
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    "left", [(), ("results.jsonl",), ("results.jsonl", ".lock", ".config.json.1-0.tmp")]
)
def test_row_31_killed_before_the_run_began(place: Path, left: tuple[str, ...]) -> None:
    """A kill between making the folder and writing config.json does not use the run id up: the same command works."""
    husk = place / "runs" / "mine"
    husk.mkdir(parents=True)
    for name in left:
        (husk / name).touch()
    done = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "mine"
    )
    assert done.code == 0, done.stderr
    assert len(done.records()) == 4 and not list(husk.glob(".*"))
    again = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "mine"
    )
    assert again.code == 2 and "--resume mine" in again.stderr
