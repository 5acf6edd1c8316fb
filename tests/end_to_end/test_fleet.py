"""`run --nodes`: targets on other machines, one folder here. The machines are this one, in other homes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.loaded_server import serving_load

from clawgauge import __version__
from clawgauge.config.settings import NodeTable
from clawgauge.fleet import connection, limits, ray_bridge
from clawgauge.fleet.connection import NodeAddress
from clawgauge.fleet.nodes import probe_node
from clawgauge.fleet.remote_provider import RemoteProvider
from clawgauge.fleet.wire import DriverMessage, NodeLost, ProviderFacts
from clawgauge.providers.base import ProviderSettings
from clawgauge.records import ProviderProbe
from faults.processes import ended, started
from support.boxes import Boxes, liar
from support.command import Outcome, clawgauge, read_records, write_suite
from support.scripted_server import Held, ReceivedRequest, Reply, ScriptedServer, Text
from support.waiting import PATIENCE_S, wait_until

CANARY = "sk-canary-4f9d2c7b81e6a05533"
OWN_KEY = "sk-driver-77aa01bc93de5f4466"
ALL = ("run", "--nodes", "ana,bob", "-t", "*.ollama_openai:*", "-s", "small.json", "--run-id", "r")
RUN = ("run", "--nodes", "ana", "-t", "ana.ollama_openai:m", "-s", "small.json", "--run-id", "r")
RESUME = ("run", "--resume", "r", "--retry-errors")


@pytest.fixture
def boxes(tmp_path: Path) -> Boxes:
    prompts = [
        {"prompt": f"number {n}", "validator": {"type": "exact", "value": "yes"}} for n in range(6)
    ]
    write_suite(tmp_path / "small.json", *prompts)
    return Boxes(tmp_path)


def ollama(server: ScriptedServer) -> str:
    return f"127.0.0.1:{server.port}"


def run(boxes: Boxes, *words: str, **env: str) -> Outcome:
    return clawgauge(boxes.place, *words, env={**boxes.env, **env})


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]


def read_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_bytes())
    return config


def asked(server: ScriptedServer) -> Counter[str]:
    """How often each prompt was put to the models of a server."""
    return Counter(f"{call.model} {call.json['messages'][-1]['content']}" for call in server.calls)


def test_two_machines_make_one_run_and_no_key_travels(boxes: Boxes) -> None:
    with ScriptedServer(models=["m", "n"]) as first, ScriptedServer(models=["m"]) as second:
        first.reply_with(Text(f"your key is {CANARY}"))
        second.reply_with(Text("yes"))
        boxes.add("ana", OLLAMA_HOST=ollama(first), OPENAI_API_KEY=CANARY)
        boxes.add("bob", OLLAMA_HOST=ollama(second))
        with (boxes.place / "clawgauge.toml").open("a") as file:
            file.write('address = "192.168.7.7"\n')
        done = run(boxes, *ALL, OPENAI_API_KEY=OWN_KEY)
        assert done.code == 0, done.stderr
        assert max(asked(first).values()) == 1 and max(asked(second).values()) == 1
        lines = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("  [1/")]
        assert sorted(lines) == [
            "ana.ollama_openai:m",
            "ana.ollama_openai:n",
            "bob.ollama_openai:m",
        ], "whose is it?"
    records = done.records()
    targets = Counter((one["provider"], one["model"], one["node"]) for one in records)
    assert targets == {("ana.ollama_openai", m, "ana"): 6 for m in "mn"} | {
        ("bob.ollama_openai", "m", "bob"): 6
    }
    assert all(
        one["objective_pass"] is (one["node"] == "bob") and one["run_id"] == "r" for one in records
    )
    assert all("***" in one["raw_output"] for one in records if one["node"] == "ana")
    names = [event["event"] for event in events(done.folder)]
    assert (
        names.count("node_joined") == names.count("node_left") == 2
        and names.count("stretch_started") == 1
    )
    assert json.loads((done.folder / "inventory_ana.json").read_bytes())["host"]["hostname"]
    assert (done.folder / "resources_bob.ollama_openai_m_before.txt").is_file()
    # Who routes to bob's server goes to bob; ana's is nobody else's.
    addresses = {
        name: one["base_url"] for name, one in read_config(done.folder)["providers"].items()
    }
    assert addresses == {
        "ana.ollama_openai": None,
        "bob.ollama_openai": f"http://192.168.7.7:{second.port}/v1",
    }
    groups = done.summary()["models"]
    assert {group["provider"] for group in groups} == {"ana.ollama_openai", "bob.ollama_openai"}
    everything = (
        b"".join(path.read_bytes() for path in done.folder.iterdir())
        + (done.stdout + done.stderr).encode()
    )
    assert CANARY.encode() not in everything and OWN_KEY.encode() not in everything
    # Neither was told the other's key, and what a node was trusted to keep it keeps no longer.
    assert OWN_KEY not in (boxes.root / "bob" / "seen_environment").read_text()
    assert boxes.spools("ana") == boxes.spools("bob") == []


def test_ssh_is_given_what_it_needs_and_nothing_else_of_the_environment(boxes: Boxes) -> None:
    """Whatever SendEnv or a ProxyCommand does with it, no token, database or other variable is there to be sent."""
    private = {
        "GITHUB_PAT": "ghp_Zq8vT2mK5xW9bN4cRt6y",
        "DATABASE_URL": "postgres://app:hunter22x@db.example/prod",
        "MY_OWN_SETTING": "private-word-17",
        "LC_SECRET": "hidden-word-18",
    }
    needed = {
        "SSH_AUTH_SOCK": "/run/agent.sock",
        "LC_TIME": "C.UTF-8",
        "KRB5CCNAME": "FILE:/run/krb5cc",
    }
    with ScriptedServer(models=["m"]) as server:
        server.reply_with(Text("yes"))
        boxes.add("ana", OLLAMA_HOST=ollama(server))
        done = run(
            boxes,
            "run",
            "--nodes",
            "ana",
            "-t",
            "ana.ollama_openai:m",
            "-s",
            "small.json",
            **private,
            **needed,
        )
    assert done.code == 0, done.stderr
    seen = (boxes.root / "ana" / "seen_environment").read_text().splitlines()
    variables = dict(line.partition("=")[::2] for line in seen)
    assert not variables.keys() & private.keys()
    assert needed.items() <= variables.items() and "PATH" in variables and "HOME" in variables


def test_what_cannot_be_done_is_said_before_anything_is_asked(boxes: Boxes) -> None:
    with ScriptedServer(models=["llama3:8b"]) as server:
        boxes.add("ana", OLLAMA_HOST=ollama(server))
        boxes.add("old", program=liar("pass", "0.0.9"))
        boxes.add("liar", program=liar("pass", __version__))
        with (boxes.place / "clawgauge.toml").open("a") as file:
            file.write('[nodes.gone]\nssh = "nowhere"\n[nodes.odd]\n')
        table = {
            (
                "--nodes",
                "anna",
                "-t",
                "anna.ollama_openai:x",
            ): "there is no node 'anna' (known: ana,",
            ("--nodes", "odd", "-t", "odd.ollama_openai:x"): "there is no node 'odd'",
            (
                "--nodes",
                "gone",
                "-t",
                "gone.ollama_openai:x",
            ): "node gone: the connection ended (ssh: connect to host",
            (
                "--nodes",
                "old",
                "-t",
                "old.ollama_openai:x",
            ): "node old: it has clawgauge 0.0.9, and here is",
            ("--nodes", "ana", "-t", "ana.ollama_openai:llama3:9b"): "no model 'llama3:9b' on ana",
            (
                "--nodes",
                "ana",
                "-t",
                "ana.openai_responses:x",
            ): "node ana: openai_responses needs OPENAI_API_KEY",
            ("--nodes", "liar", "-t", "ollama_openai:m"): "is on none of the nodes",
            (
                "--nodes",
                "liar",
                "-t",
                "liar.ollama_openai:m",
                "--interleave",
            ): "--interleave takes turns",
            (
                "--nodes",
                "liar,ana",
                "-t",
                "*.ollama_openai:*",
                "--max-cost",
                "1",
            ): "--max-cost cannot be kept",
        }
        elsewhere = liar("pass", __version__, said={"base_url": "http://10.0.0.7:11434/v1"})
        boxes.add("other", program=elsewhere)
        loads = {
            (
                "--nodes",
                "old,liar",
                "-t",
                "ollama_openai:m",
            ): "node old: it has clawgauge 0.0.9, and here is",
            ("--nodes", "liar", "-t", "ollama_openai:x"): "no model 'x' on liar",
            ("--nodes", "liar", "-t", "box:m"): "target 'box:m' is on none of the nodes",
            (
                "--nodes",
                "liar,other",
                "-t",
                "ollama_openai:m",
            ): "ollama_openai is not one server for all nodes (liar has",
            (
                "-t",
                "liar.ollama_openai:a",
                "-t",
                "liar.ollama_openai:b",
                "--swap",
            ): "--swap changes between models on one",
            (
                "--nodes",
                "liar",
                "-t",
                "ollama_openai:m",
                "--max-cost",
                "1",
            ): "--max-cost cannot be kept",
        }
        commands = {
            ("run", *words, "-s", "small.json"): sentence for words, sentence in table.items()
        }
        commands |= {("capacity", *words): sentence for words, sentence in loads.items()}
        for words, sentence in commands.items():
            done = run(boxes, *words)
            assert done.code == 2 and sentence in done.stderr, (words, done.stderr)
            assert "Traceback" not in done.stderr and "\nclawgauge: " in f"\n{done.stderr}"
        assert not server.calls and not (boxes.place / "runs").exists()
    boxes.add("new")
    untrusted = clawgauge(
        boxes.place, "run", "--nodes", "ana", "-t", "ana.x:y", env=boxes.env, trusting=False
    )
    assert (
        untrusted.code == 2
        and "[nodes.ana] of clawgauge.toml here does not count (changed" in untrusted.stderr
    )


@pytest.mark.slow
def test_a_node_is_believed_no_more_than_a_server(boxes: Boxes) -> None:
    """What it may not send is not recorded, and costs it the rest of its part; its clock is not ours."""
    hour_ns = 3_600_000_000_000
    lies = {
        "ahead": 'result(work); result(work); say(event=dict(event="skip", at_ms=1, target="ollama_openai:m", '
        'detail=dict(not_asked="x"))); [finished(1) for _ in range(2_000)]; say(end=True)',
        "foreign": 'result(work, model="another")',
        "unasked": 'result(work, prompt_id="P77")',
        "file": 'say(file=["../config.json", "{}"])',
        "event": 'say(event=dict(event="rescored", at_ms=1, target=None, detail={}))',
        "chatty": "[finished(n) for n in range(2_000)]",
        "wordy": 'finished(1, why="x" * 2_000_000)',
        "timeless": "finished(10 ** 200)",
        "late": "result(work, ended_at_ms=10 ** 200)",
        "long": 'print("x" * 17_000_000, flush=True)',
        "garbage": 'print("[" * 100_000, flush=True)',
        "verbose": 'result(work, error="x" * 5_000_000)',
        "rambling": 'result(work, raw_output="x" * 5_000_000)',
        "unseen": 'result(work, tools_unseen="x" * 1_000_000)',
        "unjudged": 'result(work, not_judged="x" * 1_000_000)',
        "immense": "result(work, e2e_ms=10 ** 400)",
        "curt": 'say(refused="no " * 500_000)',
        "loud": 'say(said="x" * 5_000_000)',
        "gossip": '[say(said="x" * 2_000) for _ in range(2_000)]',
        "gone": "result(work); sys.exit('the power went')",
    }
    for name, statements in lies.items():
        boxes.add(name, program=liar(statements, __version__, hour_ns))
    began_ms = time.time_ns() // 1_000_000
    done = run(boxes, "run", "--nodes", ",".join(lies), "-s", "small.json")
    assert done.code == 0, done.stderr
    by_node: dict[str, list[dict[str, Any]]] = {}
    for one in done.records():
        by_node.setdefault(one["node"], []).append(one)
    answered = {
        name: [one for one in ones if one["failure_type"] is None] for name, ones in by_node.items()
    }
    # The one that told a record twice has it once, on our clock and with its own duration.
    [ahead] = answered.pop("ahead")
    assert began_ms - 60_000 < ahead["started_at_ms"] < began_ms + 600_000
    assert ahead["ended_at_ms"] - ahead["started_at_ms"] == ahead["e2e_ms"] == 1234
    assert ahead["prompt_name"] == "prompt_0"
    assert {name for name, ones in answered.items() if ones} == {"gone"}
    for name in answered:
        lost = [one for one in by_node[name] if one["failure_type"] == "node_lost"]
        assert (
            len(lost) == 6 - len(answered[name])
            and lost[0]["availability_status"] == "skipped_unavailable"
        )
    assert "node gone: the connection ended (the power went)" in done.stderr
    # What it told over and over is there once, and what has no end is cut short.
    finished = Counter(
        one["target"] for one in events(done.folder) if one["event"] == "target_finished"
    )
    assert finished.pop("ahead.ollama_openai:m") == 1 and set(finished) == {
        "chatty.ollama_openai:m"
    }
    assert (done.folder / "events.jsonl").stat().st_size < 200_000 and len(done.stderr) < 1_000_000
    assert {
        one["detail"]["node"] for one in events(done.folder) if one["event"] == "node_lost"
    } == set(answered)
    assert read_config(done.folder)["run_id"] == done.folder.name


def test_a_node_that_breaks_a_bound_is_ended_with_a_sentence_that_names_it(boxes: Boxes) -> None:
    """What it sent before stands; what it was still to ask is recorded as that of any lost node; the others go on."""
    deep = "json.loads('[' * {0} + ']' * {0})"
    files = (
        "[say(file=['resources_ollama_openai_m_before.txt', 'x' * 1_000_000]) for _ in range(300)]"
    )
    lies = {
        "nested": (
            f"result(work, parsed_output=dict(a={deep.format(500)}))",
            "nested more than 256 levels deep",
        ),
        # One of our own keys in it: then all of the record is walked, to mask it.
        "keyed": (
            f"result(work, raw_output='{OWN_KEY}', parsed_output=dict(a={deep.format(500)}))",
            "nested more than 256 levels deep",
        ),
        "branched": (f"finished(1, why={deep.format(200)})", "nested more than 32 levels deep"),
        "swollen": (
            "result(work, parsed_output=dict(a=[[]] * 600_000))",
            "of more than 500,000 values",
        ),
        "large": (
            "result(work, tool_calls=['x' * 6_000_000])",
            "more than 4,194,304 bytes in one message (result)",
        ),
        "endless": (
            "result(work, parsed_output=dict(a=['\\x9d' * 400_000]))",
            "a text of more than 131,072 characters in one message (result)",
        ),
        "again": (files, "sent a file of its work for the second time"),
        "early": ("result(work, e2e_ms=-5)", "a figure that cannot be (e2e_ms of -5)"),
        "paying": ("result(work, cost_usd=-0.25)", "a figure that cannot be (cost_usd of -0.25)"),
        "inside": (
            "result(work, timings_us=dict(e2e=1, ttft=-7))",
            "a figure that cannot be (ttft of -7)",
        ),
        "trying": (
            "result(work, attempts=[dict(status='ok', failure_type=None, e2e_ms=-1)])",
            "a figure that cannot be (e2e_ms of -1)",
        ),
        "ancient": (
            "result(work, total_ms=10 ** 12)",
            "a figure that cannot be (total_ms of 1e+12)",
        ),
        "parrot": (
            "[result(work) for _ in range(200)]",
            "more than the 112 records its work can have",
        ),
        "flood": (
            "[finished(1, why='x' * 500_000) if n else finished(2) for n in range(400)]",
            "more events than its work can have",
        ),
        "echo": ("[say(pong=[0, 1]) for _ in range(100)]", "it answered what was not asked (pong)"),
        "both": ("say(end=True, said='and that is all')", "several things at once"),
        "machine": (
            "say(file=['inventory.json', '[' * 400 + ']' * 400])",
            "an inventory with more in it",
        ),
    }
    for name, (statements, _) in lies.items():
        boxes.add(name, program=liar(statements, __version__))
    as_deep_as_may_be = f"result(work, raw_output='{OWN_KEY}', parsed_output=dict(a={deep.format(200)})); say(end=True)"
    boxes.add("honest", program=liar(as_deep_as_may_be, __version__))
    words = ("run", "--nodes", ",".join([*lies, "honest"]), "-s", "small.json")
    done = run(boxes, *words, OPENAI_API_KEY=OWN_KEY)
    assert done.code == 0 and "Traceback" not in done.stderr, done.stderr
    lost = {
        one["detail"]["node"]: one["detail"]["why"]
        for one in events(done.folder)
        if one["event"] == "node_lost"
    }
    assert set(lost) == set(lies)
    for name, (_, bound) in lies.items():
        assert bound in lost[name], (name, lost[name])
    by_node = Counter(one["node"] for one in done.records() if one["failure_type"] == "node_lost")
    assert by_node == {name: 5 if name == "parrot" else 6 for name in lies}
    kept = [one for one in done.records() if one["failure_type"] is None]
    assert sorted(one["node"] for one in kept) == ["honest", "parrot"]
    assert sum(path.stat().st_size for path in done.folder.iterdir()) < 4_000_000


def test_a_node_that_answers_every_ping_and_does_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is there, it says so, it says the same again: nothing of that is its work."""
    monkeypatch.setattr(connection, "PING_INTERVAL_S", 0.01)
    program = liar("pass", __version__).replace(
        "for line in sys.stdin:", "for line in sys.stdin:\n    say(said='working on it')"
    )

    async def hear_for_ever() -> None:
        async with connection.connect(running(program), lambda _: None) as node:
            node.begin_work(max_bytes=1 << 20, max_idle_s=0.5)
            while True:
                await node.receive()

    with pytest.raises(
        NodeLost, match=r"node x: it answers, but nothing came of its work for 0\.5 s"
    ):
        asyncio.run(asyncio.wait_for(hear_for_ever(), PATIENCE_S))


def test_how_long_a_node_may_take_follows_from_what_it_was_asked() -> None:
    assert limits.idle_s(timeout_s=300, n_turns=1, max_wait_s=60) == 300 + 60 + limits.SLACK_S
    assert limits.idle_s(timeout_s=300, n_turns=12, max_wait_s=60) == 12 * 300 + 60 + limits.SLACK_S


def test_your_own_history_goes_to_no_node_without_your_yes(boxes: Boxes) -> None:
    """Whatever the node says of itself: that its model is in its own process, or at an address like ours."""
    tool = {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
    }
    validator = {"type": "agreement", "no_call": True}
    write_suite(
        boxes.place / "mine.json", {"prompt": "dear diary", "tools": [tool], "validator": validator}
    )
    noting = 'open("work", "w").write(json.dumps(work)); result(work); say(end=True)'
    said = {"inside": {"type": "embedded"}, "shouting": {"base_url": "http://LOCALHOST:11434/v1"}}
    for name, described in said.items():
        boxes.add(name, program=liar(noting, __version__, said=described))
    with (boxes.place / "clawgauge.toml").open("a") as file:
        file.write('address = "127.0.0.1"\n')
    words = ("run", "--nodes", "inside,shouting", "-t", "*.ollama_openai:m", "-s", "mine.json")
    refused = run(boxes, *words)
    told = "your own history would leave this machine, or go where a key is needed: to "
    assert refused.code == 2 and f"{told}inside.ollama_openai:m and shouting." in refused.stderr, (
        refused.stderr
    )
    assert not list(boxes.root.glob("*/work")) and not (boxes.place / "runs").exists()
    done = run(boxes, *words, "--yes")
    assert done.code == 0, done.stderr
    works = {name: (boxes.root / name / "work").read_text() for name in said}
    assert all("dear diary" in work for work in works.values())
    # Each is told what is its own to do: nothing of the other, nor what was typed here.
    assert "shouting" not in works["inside"] and "inside" not in works["shouting"]
    assert not any("--yes" in work or "mine.json" in work for work in works.values())


class Gate:
    """Holds every reply from the third on, until it is opened."""

    def __init__(self, server: ScriptedServer, after: int = 2) -> None:
        self._server, self._after, self._is_open = server, after, False
        self.held = Held(Text("yes"), lambda: self._is_open)
        server.reply_with(self._reply)

    def _reply(self, request: ReceivedRequest) -> Reply:
        return Text("yes") if len(self._server.calls) <= self._after else self.held

    def wait(self) -> None:
        wait_until(lambda: len(self._server.calls) > self._after)

    def open(self) -> None:
        self._is_open = True


def running(program: str) -> NodeAddress:
    """A node `x` that is this program."""
    return NodeAddress("x", [sys.executable, "-I", "-S", "-c", program])


def node_process(boxes: Boxes, name: str) -> psutil.Process:
    return psutil.Process(int((boxes.root / name / "pid").read_text()))


def check_whole(folder: Path, server: ScriptedServer, at_most: int = 1) -> None:
    """Every cell has its answer, once, and nothing that was answered was asked again."""
    records = read_records(folder)
    cells = Counter((one["provider"], one["model"], one["prompt_id"]) for one in records)
    assert len(cells) == 6 and set(cells.values()) == {1}
    assert all(one["availability_status"] == "ok" for one in records)
    assert max(asked(server).values()) <= at_most


@pytest.mark.slow
def test_a_killed_node_loses_its_open_cells_and_nothing_else(boxes: Boxes) -> None:
    with ScriptedServer(models=["m"]) as server:
        gate = Gate(server)
        boxes.add("ana", OLLAMA_HOST=ollama(server))
        with started(boxes.place, *RUN, env=boxes.env) as process:
            gate.wait()
            node_process(boxes, "ana").kill()
            code, out, err = ended(process)
        gate.open()
        assert code == 0 and "node ana: the connection ended" in err, err
        folder = boxes.place / out.strip()
        failures = Counter(one["failure_type"] for one in read_records(folder))
        assert failures == {None: 2, "node_lost": 4}
        server.reply_with(Text("yes"))
        assert run(boxes, *RESUME).code == 0
        # The call that was out when it was killed is the only one that was made twice.
        assert sorted(asked(server).values()) == [1, 1, 1, 1, 1, 2]
        check_whole(folder, server, at_most=2)


@pytest.mark.slow
def test_what_a_cut_connection_kept_from_us_is_handed_over(boxes: Boxes) -> None:
    """The driver is killed: the node lets the call in flight come to its end, and keeps it for the resumption."""
    with ScriptedServer(models=["m"]) as server:
        gate = Gate(server)
        boxes.add("ana", OLLAMA_HOST=ollama(server))
        with started(boxes.place, *RUN, env=boxes.env, start_new_session=True) as process:
            gate.wait()
            node = node_process(boxes, "ana")
            process.send_signal(signal.SIGKILL)
            ended(process)
        busy = run(boxes, *RESUME)
        assert (
            busy.code == 2
            and "node ana: Run folder" in busy.stderr
            and "is being written by" in busy.stderr
        )
        gate.open()
        node.wait(timeout=PATIENCE_S)
        assert len(boxes.spools("ana")) == 1
        server.reply_with(Text("yes"))
        # One that asks for something else leaves it where it is.
        assert run(boxes, *RESUME, "--prompt-ids", "P5").code == 0 and len(boxes.spools("ana")) == 1
        done = run(boxes, *RESUME)
        assert done.code == 0, done.stderr
        check_whole(done.folder, server)
        names = Counter(event["event"] for event in events(done.folder))
        assert names["node_left"] == 3 and names["target_started"] == 3 and not names["node_lost"]
        assert boxes.spools("ana") == []


@pytest.mark.slow
def test_an_answer_is_kept_there_until_a_stretch_takes_it(boxes: Boxes) -> None:
    """The connection is cut, and the call in flight is answered: none of the stretches after it pays for that again."""
    with ScriptedServer(models=["m"]) as server:
        gate = Gate(server)
        boxes.add("ana", OLLAMA_HOST=ollama(server))
        boxes.make_cuttable()
        with started(boxes.place, *RUN, env=boxes.env) as process:
            gate.wait()
            node = node_process(boxes, "ana")
            psutil.Process(int((boxes.root / "ana" / "between").read_text())).kill()
            code, _, err = ended(process)
            gate.open()
            node.wait(timeout=PATIENCE_S)
        assert code == 0 and "node ana: the connection ended" in err, err
        server.reply_with(Text("yes"))
        stretches = {
            ("--repeats", "2"): 4,
            ("--prompt-ids", "P5", "--retry-errors"): 3,
            ("--retry-errors",): 0,
        }
        for more, n_lost in stretches.items():
            done = run(boxes, *RESUME[:-1], *more)
            assert done.code == 0, done.stderr
            assert sum(one["failure_type"] == "node_lost" for one in done.records()) == n_lost
        assert Counter(one["failure_type"] for one in done.records()) == {None: 12}
        assert set(asked(server).values()) == {2} and boxes.spools("ana") == []


@pytest.mark.slow
def test_ctrl_c_ends_the_nodes_work_and_keeps_all(boxes: Boxes) -> None:
    with ScriptedServer(models=["m"]) as server:
        gate = Gate(server)
        boxes.add("ana", OLLAMA_HOST=ollama(server))
        with started(boxes.place, *RUN, env=boxes.env) as process:
            gate.wait()
            process.send_signal(signal.SIGINT)
            code, out, err = ended(process)
        assert code == 130, err
        assert "1 call was given up" in err and "clawgauge run --resume r asks it again" in err
        folder = boxes.place / out.strip()
        assert [one["failure_type"] for one in read_records(folder)] == [None, None]
        assert not psutil.pid_exists(int((boxes.root / "ana" / "pid").read_text()))
        gate.open()
        server.reply_with(Text("yes"))
        assert run(boxes, *RESUME).code == 0
        check_whole(folder, server, at_most=2)


@pytest.mark.slow
def test_budgets_hold_over_a_resumption_and_targets_name_their_nodes(boxes: Boxes) -> None:
    """What a run ends with, `-t ana.ollama_openai:m`, can be pasted: the flag --nodes is not needed there."""
    with ScriptedServer(models=["m"]) as server:
        boxes.add("ana", OLLAMA_HOST=ollama(server))
        words = (
            "run",
            "-t",
            "ana.ollama_openai:m",
            "-s",
            "small.json",
            "--run-id",
            "r",
            "--max-calls",
        )
        assert run(boxes, *words, "2").code == 0 and len(server.calls) == 2
        done = run(boxes, "run", "--resume", "r", "--max-calls", "5")
        assert done.code == 0 and len(server.calls) == 5 == len(done.records()), done.stderr
        assert max(asked(server).values()) == 1
        assert [one["event"] for one in events(done.folder)].count("budget_spent") == 2


@pytest.mark.slow
def test_merged_figures_are_those_of_one_client(boxes: Boxes) -> None:
    """Two nodes on one server see what one client on it sees."""
    with ScriptedServer(models=["m"]) as server:
        server.reply_with(Text("yes", head_delay_s=0.05))
        for name in ("ana", "bob"):
            boxes.add(name, OLLAMA_HOST=ollama(server))
        fleet = run(boxes, *ALL, "--repeats", "12").summary()["models"]
        words = ("run", "-t", "ollama_openai:m", "-s", "small.json", "--repeats", "12")
        alone = run(boxes, *words, OLLAMA_HOST=ollama(server))
        [one] = alone.summary()["models"]
    for group in fleet:
        assert (
            group["n_ok"] == one["n_ok"] == 72
            and group["objective_pass_rate"] == one["objective_pass_rate"] == 1.0
        )
        # Never sooner than the server answered; how much later is this machine's load.
        assert group["latency_ms"]["p50"] >= 50 and one["latency_ms"]["p50"] >= 50


LOAD = (
    "capacity",
    "--nodes",
    "ana,bob",
    "--context",
    "500",
    "--output",
    "8",
    "--max-time",
    "60s",
    "--run-id",
    "load",
    "-t",
)


@pytest.mark.slow
def test_a_load_that_two_nodes_make_is_that_of_one_client(boxes: Boxes) -> None:
    """In turn and by arrivals; every call is a record of the node that made it, and the figures are the server's."""
    with serving_load() as address:
        for name in ("ana", "bob"):
            boxes.serve(name, address)
        done = run(boxes, *LOAD, "box:s4-f100-t20-i10-n8", "--max-concurrency", "8")
        assert done.code == 0, done.stderr
        words = ("--rate", "12", "--duration", "4s", "--run-id", "arrivals")
        arrivals = run(boxes, *LOAD, "box:s4-f100-t20-i10-n8", *words)
        assert arrivals.code == 0, arrivals.stderr
        few = run(
            boxes, *LOAD, "box:s4-f100-t20-i10-n8", *words, "--max-concurrency", "1", "--dry-run"
        )
        assert few.code == 2 and "with --rate give 2 or more" in few.stderr
    [entry], records = done.summary()["capacity"], done.records()
    nodes = {}
    for record in [record for record in records if "/c" in record["prompt_id"]]:
        nodes.setdefault(record["load"]["client"] % 2, set()).add(record["node"])
    assert nodes == {0: {"ana"}, 1: {"bob"}} and {record["provider"] for record in records} == {
        "box"
    }
    cells = Counter((record["prompt_id"], record["repeat"]) for record in records)
    assert max(cells.values()) == 1
    # Alone a call takes 70 ms to its first token and as long again; four are answered at once.
    for step in [step for step in entry["steps"] if step["trusted"]]:
        most = min(step["concurrency"], 4) / 0.14
        assert (
            step["requests_per_s"] == pytest.approx(most, rel=0.1) and step["ttft_ms"]["p50"] >= 70
        )
    [step] = arrivals.summary()["capacity"][0]["steps"]
    assert step["n_failed"] == 0 and step["n"] > 20 and step["ttft_ms"]["p50"] >= 70
    due = sorted(
        record["load"]["client"] for record in arrivals.records() if "/r" in record["prompt_id"]
    )
    assert due == list(range(len(due))), "an arrival was played twice, or by nobody"
    assert {record["node"] for record in arrivals.records()} == {"ana", "bob"}
    assert boxes.spools("ana") == boxes.spools("bob") == []


@pytest.mark.slow
def test_a_load_ends_with_a_node_and_goes_on_when_it_is_back(boxes: Boxes) -> None:
    with serving_load() as address:
        for name in ("ana", "bob"):
            boxes.serve(name, address)
        with started(boxes.place, *LOAD, "box:s2-t20-i10-n8", env=boxes.env) as process:
            file = boxes.place / "runs" / "load" / "events.jsonl"
            wait_until(lambda: file.exists() and file.read_text().count('"capacity_step"') >= 2)
            node_process(boxes, "bob").kill()
            code, _, err = ended(process)
        assert (
            code == 0
            and "node bob: the connection ended" in err
            and "what was measured stands" in err
        ), err
        before = Counter(event["event"] for event in events(file.parent))
        assert before["node_lost"] == 1 and before["node_left"] == 1
        n_before = len(read_records(file.parent))
        again = run(boxes, "capacity", "--resume", "load")
        assert again.code == 0, again.stderr
    [entry] = again.summary()["capacity"]
    names = [
        event["detail"]["step"]
        for event in events(file.parent)
        if event["event"] == "capacity_step"
    ]
    assert (
        sum("+1" not in name for name in names) == before["capacity_step"]
        and len(again.records()) > n_before
    )
    assert [step["concurrency"] for step in entry["steps"]][:2] == [1, 2]
    assert boxes.spools("ana") == boxes.spools("bob") == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_load_whose_driver_is_gone_leaves_nobody_asking_and_loses_no_record(
    boxes: Boxes, how: signal.Signals
) -> None:
    """The order that the nodes were named in is not that of the alphabet."""
    with serving_load() as address:
        for name in ("ana", "bob"):
            boxes.serve(name, address)
        words = (*LOAD, "box:s2-t20-i10-n8", "--nodes", "bob,ana")
        with started(boxes.place, *words, env=boxes.env, start_new_session=True) as process:
            file = boxes.place / "runs" / "load" / "events.jsonl"
            wait_until(lambda: file.exists() and '"capacity_step"' in file.read_text())
            nodes = [node_process(boxes, name) for name in ("ana", "bob")]
            process.send_signal(how)
            code, _, err = ended(process)
        assert code == (130 if how == signal.SIGINT else -9), err
        for node in nodes:
            node.wait(timeout=PATIENCE_S)
        assert all(len(boxes.spools(name)) == (how == signal.SIGKILL) for name in ("ana", "bob"))
        kept = [path / "results.jsonl" for name in ("ana", "bob") for path in boxes.spools(name)]
        n_kept = sum(len(path.read_bytes().splitlines()) for path in kept)
        again = run(boxes, "capacity", "--resume", "load")
        assert again.code == 0, again.stderr
    records = again.records()
    cells = Counter((record["prompt_id"], record["repeat"]) for record in records)
    assert max(cells.values()) == 1 and sum("+1" not in name for name, _ in cells) >= n_kept
    assert boxes.spools("ana") == boxes.spools("bob") == []


def test_what_a_node_says_of_itself_is_bounded(boxes: Boxes) -> None:
    """Its words go to a screen and into config.json: neither takes megabytes of them, nor numbers no machine holds."""
    plain = liar("pass", __version__)
    boxes.add("host", program=plain.replace('"liar"', '"x" * 500_000'))
    boxes.add(
        "facts",
        program=plain.replace('"local": True', '"local": True, "default_max_tokens": -(10**30)'),
    )
    boxes.add("models", program=plain.replace('"name": "m"', '"name": "m" * 2_000_000'))
    table = {
        "host": "is on none of the nodes",
        "facts": "it sent what cannot be read",
        "models": "it sent more than 1,048,576 bytes in one message (seen)",
    }
    for name, said in table.items():
        done = run(boxes, "run", "--nodes", name, "-t", "nowhere.at:all", "-s", "small.json")
        assert done.code == 2 and said in done.stderr and len(done.stderr) < 2_000, done.stderr[
            :2_000
        ]


@pytest.mark.slow
def test_a_load_believes_a_node_no_more_than_a_server(boxes: Boxes) -> None:
    lies = {
        "foreign": 'result(work, model="another", load=dict(client=0, due_us=0, queued_us=0))',
        "bare": "result(work)",
        "huge": "result(work, load=dict(client=0, due_us=0, queued_us=10 ** 400))",
        "rich": "result(work, input_tokens=10 ** 400, load=dict(client=0, due_us=0, queued_us=0))",
        "gone": "say(left=10 ** 40); say(late=[0, 0.0, 0.0]); sys.exit('the power went')",
    }
    for name, statements in lies.items():
        boxes.add(name, program=liar(statements, __version__))
    done = run(
        boxes, "capacity", *(word for name in lies for word in ("-t", f"{name}.ollama_openai:m"))
    )
    assert done.code == 3 and "Traceback" not in done.stderr, done.stderr
    assert done.records() == []
    assert {
        one["detail"]["node"] for one in events(done.folder) if one["event"] == "node_lost"
    } == set(lies)


def test_a_nodes_own_address_is_written_as_others_reach_it() -> None:
    """However it is spelled; where others cannot, it is none."""
    table = {
        ("http://LOCALHOST:11434/v1", "10.0.0.7"): "http://10.0.0.7:11434/v1",
        ("http://localhost@LocalHost/v1", "10.0.0.7"): "http://10.0.0.7/v1",
        ("http://[::1]:11434/v1", "10.0.0.7"): "http://10.0.0.7:11434/v1",
        ("http://0.0.0.0:1", "ana.example"): "http://ana.example:1",
        ("http://localhost:11434/v1", "127.0.0.1"): None,
        ("http://localhost:11434/v1", None): None,
        ("https://API.example/v1", "10.0.0.7"): "https://API.example/v1",
        (None, "10.0.0.7"): None,
    }
    for (url, address), shown in table.items():
        facts = ProviderFacts(
            ProviderProbe(provider="x", reachable=True),
            None,
            {"type": "ollama_openai", "base_url": url},
        )
        settings = ProviderSettings("ana.x", "ollama_openai")
        provider = RemoteProvider("ana", address, facts, settings)
        assert provider.describe()["base_url"] == shown, (url, address)


def test_a_level_that_a_node_could_not_send_is_refused_as_it_is_here() -> None:
    """A built-in type decides by the model; of a type that is not known here, `off` is refused."""
    probe = ProviderProbe(provider="x", reachable=True)

    def why_not(kind: str, model: str, level: str) -> str | None:
        facts = ProviderFacts(probe, None, {"type": kind}, takes_thinking=True)
        settings = ProviderSettings("ana.x", kind)
        return RemoteProvider("ana", None, facts, settings).why_not_level(model, level)

    assert why_not("gemini", "gemini-2.5-flash", "off") is None
    assert "cannot be asked not to think" in str(why_not("gemini", "gemini-2.5-pro", "off"))
    assert "cannot ask a model not to think" in str(why_not("shout", "loud", "off"))
    assert why_not("shout", "loud", "high") is None


def test_a_node_that_is_never_ready_or_of_another_age_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It talks, so it is not silent: before its greeting, for ever about nothing, or of a time that cannot be."""
    hello = "import json, time\ndef say(**item): print(json.dumps(item), flush=True)\n"
    hello += f"say(hello=['{__version__}', '', '', 0])\n"
    forever = "while True:\n time.sleep(0.01)\n "
    talkers = [
        f"import time\n{forever}print('Welcome.', flush=True)",
        f"{hello}{forever}say(said='wait')",
        f"{hello}say(seen=[])\n{forever}say(end=True)",
    ]
    of_another_age = [
        f"{hello}say(seen=[])\nfor n in range(1, 21): say(pong=[n, 10 ** {n}])"
        for n in (1, 19, 399)
    ]

    async def give_up(program: str) -> str:
        with pytest.raises(NodeLost) as lost:
            async with asyncio.timeout(PATIENCE_S):
                await probe_node(running(program), lambda _: None)
        return str(lost.value)

    async def give_up_all(programs: list[str]) -> set[str]:
        return set(await asyncio.gather(*map(give_up, programs)))

    no_number = "node x: it sent what cannot be read (can't serialize ints < -2**63 or > 2**64 - 1)"
    off = {"node x: its clock is off by more than a year: set it", no_number}
    assert asyncio.run(give_up_all(of_another_age)) == off
    monkeypatch.setattr(limits, "LEAVE_S", 0.2)

    async def never_end(program: str) -> None:
        async with connection.connect(running(program), lambda _: None) as node:
            node.ends_at_s = float("inf")
            node.send(DriverMessage())
            while True:
                await node.receive()

    with pytest.raises(NodeLost, match=r"node x: it did not end its load in 0\.2 s"):
        asyncio.run(asyncio.wait_for(never_end(f"{hello}{forever}say(left=0)"), PATIENCE_S))
    monkeypatch.setattr(limits, "READY_S", 0.5)
    monkeypatch.setattr(connection, "_FAREWELL_S", 0.1)
    assert asyncio.run(give_up_all(talkers)) == {"node x: it was not ready in 0.5 s"}


def test_nothing_of_ray_is_loaded_without_a_cluster() -> None:
    loaded = "{'ray', 'clawgauge.fleet.ray_bridge'} & sys.modules.keys()"
    code = f"import sys, clawgauge.fleet.nodes, clawgauge.cli.run; sys.exit(bool({loaded}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_machines_of_one_name_keep_theirs_when_one_of_them_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a resumed run would ask another machine under the name of the lost one."""
    there = [
        ["pi.lan", "10.0.0.9", "f00", {}],
        ["pi.lan", "10.0.0.4", "a11", {}],
        ["nuc", "10.0.0.7", "b22", {}],
    ]

    def names(*listed: list[Any]) -> dict[str, str]:
        said = subprocess.CompletedProcess([], 0, json.dumps(listed).encode(), b"")
        monkeypatch.setattr(ray_bridge.subprocess, "run", lambda *_, **__: said)
        return {
            node.name: node.command[-1]
            for node in ray_bridge.find_machines("rack", NodeTable(ray="head:6379"))
        }

    every = names(*there)
    assert every == {
        "rack-nuc": "b22",
        "rack-pi-lan-10-0-0-4": "a11",
        "rack-pi-lan-10-0-0-9": "f00",
    }
    for gone in there:
        left = names(*[one for one in there if one is not gone])
        assert all(every.get(name, node) == node for name, node in left.items()), left
