"""`clawgauge mcp`, asked by the official client over real pipes, about real run folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command import clawgauge, clean_environment
from support.mcp_client import McpSession, with_mcp
from support.replies import Reply
from support.scripted_server import ReceivedRequest, ScriptedServer, Text
from support.waiting import FOREVER_S, PATIENCE_S, happening

pytest.importorskip("mcp")

SECRET = "sk-proj-Zq8vT3nXw5Lr2Bd7Yk4Hs9Pm6Jf1Gc"
READ_ONLY = {
    "list_runs",
    "answer_by_job",
    "model_figures",
    "list_calls",
    "show_call",
    "plan_run",
    "run_progress",
}


@pytest.fixture
def recorded(place: Path, server: ScriptedServer) -> Path:
    """A folder with one finished run, `first`."""
    server.script(Text("yes"), Text("far too many words for this"), Text("`free`"), Text("hello"))
    done = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "first"
    )
    assert done.code == 0, done.stderr
    return place


def test_an_agent_asks_what_a_run_says(recorded: Path) -> None:
    """The list, the figures, the failed calls and one of them in full; nothing that could start a run."""

    async def talk(session: McpSession) -> None:
        assert set(await session.tool_names()) == READ_ONLY
        listed = await session.ask("list_runs")
        (run,) = listed["runs"]
        assert run["run"] == "first" and run["state"] == "ended"
        assert run["models"][0]["name"] == "scripted-model"
        figures = await session.ask("model_figures", figures=["passed_of_asked", "n_ok"])
        (model,) = figures["models"]
        assert model["target"] == "fake:scripted-model"
        assert model["figures"]["n_ok"]["value"] == 4
        rate = model["figures"]["passed_of_asked"]
        failed = await session.ask("list_calls", outcome="fail")
        assert rate["n"] - rate["k"] == failed["n_calls"] == len(failed["calls"])
        name = failed["calls"][0]["call"]
        shown = await session.ask("show_call", run="first", call=name)
        (call,) = shown["calls"]
        assert call["record"]["raw_output"] == "far too many words for this"
        assert call["prompt"]["prompt"] == "at most three words"
        assert call["outcome"] == "fail" and call["record"]["violation"]

    with_mcp(recorded, talk=talk)


def test_the_answer_by_job_is_that_of_show(place: Path, server: ScriptedServer) -> None:
    """Each job of a decision run with the state, chance and reason that summary.json has."""
    server.reply_with(Text("I will not do that."))
    done = clawgauge(
        place, "run", "-t", "fake:scripted-model", "--max-calls", "30", "--run-id", "d"
    )
    assert done.code == 0, done.stderr
    summary = json.loads((place / "runs" / "d" / "summary.json").read_bytes())

    async def talk(session: McpSession) -> None:
        answer = await session.ask("answer_by_job")
        told = {job["job"]: job for job in answer["jobs"]}
        assert told
        for verdict in summary["jobs"]:
            if verdict["job"] not in told:
                assert verdict["job"] in answer["jobs_not_asked"]
                continue
            (fit,) = verdict["ranking"]
            (model,) = told[verdict["job"]]["models"]
            assert (model["fit"], model["state"], model["why"]) == (
                fit["fit"],
                fit["state"],
                fit["why"],
            )
            assert model.get("chance_of_being_fit") == fit["chance"]
        job = next(iter(told))
        only = await session.ask("answer_by_job", run="d", job=job)
        assert [one["job"] for one in only["jobs"]] == [job]
        assert "tells nothing of the job" in await session.refusal("answer_by_job", job="cook")

    with_mcp(place, talk=talk)


def test_the_users_own_work_is_left_out(recorded: Path) -> None:
    """Turns of their history and prompts in their context are shown with --include-own-work alone."""
    runs = recorded / "runs"
    for name in ("history", "context"):
        folder = runs / name
        folder.mkdir()
        config = json.loads((runs / "first" / "config.json").read_bytes())
        config["run_id"] = name
        if name == "history":
            config["prompts"][0]["validator"] = {"type": "agreement"}
        else:
            config["prompts"][0]["in_context"] = True
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "results.jsonl").write_bytes((runs / "first" / "results.jsonl").read_bytes())

    async def talk(session: McpSession) -> None:
        listed = await session.ask("list_runs")
        assert [run["run"] for run in listed["runs"]] == ["first"]
        assert listed["n_left_out_of_own_work"] == 2
        for tool in ("answer_by_job", "model_figures", "list_calls", "run_progress"):
            assert "own work are left out" in await session.refusal(tool, run="history")

    async def talk_of_all(session: McpSession) -> None:
        listed = await session.ask("list_runs")
        assert {run["run"] for run in listed["runs"]} == {"first", "history", "context"}

    with_mcp(recorded, talk=talk)
    with_mcp(recorded, "--include-own-work", talk=talk_of_all)
    for name in ("history", "context"):
        for file in (runs / name).iterdir():
            file.unlink()
        (runs / name).rmdir()


def test_nothing_outside_the_folder_of_runs_is_reached(recorded: Path, tmp_path: Path) -> None:
    """Neither a path nor a link that lies among the runs leads out."""
    runs = recorded / "runs"
    outside = recorded / "outside"
    (runs / "first").rename(outside)
    (runs / "link").symlink_to(outside)

    async def talk(session: McpSession) -> None:
        assert (await session.ask("list_runs"))["runs"] == []
        for name in ("link", "../outside", str(outside), "./link", "..", ".", "", "\0"):
            text, is_error = await session.call("list_calls", run=name)
            assert is_error and "say yes" not in text

    with_mcp(recorded, talk=talk)


def test_keys_are_masked_and_texts_are_bounded(place: Path, server: ScriptedServer) -> None:
    """A key of this shell in a stranger's run is never told; a long answer is cut."""
    server.script(Text("x" * 60_000), Text("b"), Text("c"), Text("d"))
    clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "first")
    results = place / "runs" / "first" / "results.jsonl"
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    lines[1]["raw_output"] = f"the key is {SECRET}, take it"
    lines[2]["error"] = f"refused: api_key={SECRET}"
    results.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    async def talk(session: McpSession) -> None:
        for prompt in ("P0", "P1", "P2"):
            text, is_error = await session.call("show_call", call=prompt)
            assert not is_error and len(text) < 40_000
            assert SECRET not in text and SECRET[:16] not in text
        shown = await session.ask("show_call", call="P0", max_chars=500)
        assert len(shown["calls"][0]["record"]["raw_output"]) < 600

    with_mcp(place, talk=talk, env={"OPENAI_API_KEY": SECRET})


def test_what_cannot_be_answered_is_one_sentence(recorded: Path) -> None:
    """A wrong name, a wrong type, an unknown tool, a damaged folder: errors of the protocol, no traceback."""
    (recorded / "runs" / "damaged").mkdir()
    (recorded / "runs" / "damaged" / "config.json").write_text("{")

    async def talk(session: McpSession) -> None:
        assert "no run 'nope'" in await session.refusal("answer_by_job", run="nope")
        assert "cannot take" in await session.refusal("list_runs", limit="many")
        assert "cannot take" in await session.refusal("list_runs", limit=10_000)
        assert "cannot take" in await session.refusal("list_runs", path="/etc/passwd")
        assert "no figure" in await session.refusal("model_figures", figures=["beauty"])
        assert "did not ask" in await session.refusal("model_figures", target="fake:other")
        assert "fits" in await session.refusal("show_call", call="P99")
        assert (await session.ask("list_runs"))["n_unreadable"] == 1
        with pytest.raises(Exception, match="no such tool"):
            await session.call("start_run", targets=["fake:scripted-model"])

    with_mcp(recorded, talk=talk)
    (recorded / "runs" / "damaged" / "config.json").unlink()


def test_a_plan_asks_no_model(recorded: Path, server: ScriptedServer) -> None:
    """plan_run says what a run would ask; names of suites are no paths, and no value is an option."""
    n_before = len(server.calls)

    async def talk(session: McpSession) -> None:
        planned = await session.ask(
            "plan_run", targets=["fake:scripted-model"], suites=["restraint"]
        )
        assert planned["plan"]["calls"] > 10 and planned["plan"]["suites"] == ["restraint"]
        refused = await session.refusal(
            "plan_run", targets=["fake:scripted-model"], suites=["small.json"]
        )
        assert "no built-in suite small.json" in refused
        assert "--config" in await session.refusal("plan_run", targets=["--config=/etc/passwd"])
        assert "nobody" in await session.refusal("plan_run", targets=["nobody:model"])

    with_mcp(recorded, talk=talk)
    assert len(server.calls) == n_before
    assert [path.name for path in (recorded / "runs").iterdir()] == ["first"]


def test_a_run_within_limits(place: Path, server: ScriptedServer) -> None:
    """Started in a child, watched to its end; what it took is counted, and the rest is left."""
    server.reply_with(Text("yes"))

    async def talk(session: McpSession) -> dict[str, Any]:
        assert set(await session.tool_names()) == READ_ONLY | {"start_run", "stop_run", "own_run"}
        started = await session.ask(
            "start_run", targets=["fake:scripted-model"], suites=["restraint"], max_calls=5
        )
        assert started["limits"]["calls"] == 5
        progress: dict[str, Any] = {}
        while progress.get("exit_code") is None:
            progress = await session.ask("own_run")
        assert progress["exit_code"] == 0 and progress["run"] == started["run"]
        assert progress["left_for_further_runs"]["calls"] == 3
        figures = await session.ask("model_figures", run=started["run"], figures=["n_ok"])
        assert figures["models"][0]["figures"]["n_ok"]["value"] == 5
        again = await session.ask(
            "start_run", targets=["fake:scripted-model"], suites=["restraint"]
        )
        assert again["limits"]["calls"] == 3
        while (await session.ask("own_run")).get("exit_code") is None:
            pass
        refused = await session.refusal("start_run", targets=["fake:scripted-model"])
        assert "used up" in refused
        return started

    started = with_mcp(place, "--allow-run", "--max-calls", "8", "--max-time", "10m", talk=talk)
    assert len(server.calls) == 8
    summary = json.loads((place / "runs" / started["run"] / "summary.json").read_bytes())
    assert summary["models"][0]["n_ok"] == 5


def test_a_run_is_stopped_in_order(place: Path, server: ScriptedServer) -> None:
    """stop_run ends it as Ctrl-C does, one run at a time; a client that leaves ends it, too."""

    def answer(request: ReceivedRequest) -> Reply:
        return Text("yes") if len(server.calls) < 3 else Text("yes", head_delay_s=FOREVER_S)

    server.reply_with(answer)
    asking = {"targets": ["fake:scripted-model"], "suites": ["restraint"]}

    async def talk(session: McpSession) -> list[str]:
        runs = []
        started = await session.ask("start_run", **asking)
        await happening(lambda: len(server.calls) >= 3)
        assert "under way" in await session.refusal("start_run", **asking)
        assert "not started here" in await session.refusal("stop_run", run="another")
        stopped = await session.ask("stop_run", run=started["run"])
        assert stopped["exit_code"] == 130
        runs.append(started["run"])
        left = stopped["left_for_further_runs"]["calls"]
        assert 90 < left < 100
        started = await session.ask("start_run", **asking)
        n_before = len(server.calls)
        await happening(lambda: len(server.calls) > n_before)
        runs.append(started["run"])
        return runs

    first, second = with_mcp(
        place, "--allow-run", "--max-calls", "100", "--max-time", "10m", talk=talk
    )
    for run in (first, second):
        events = (place / "runs" / run / "events.jsonl").read_text()
        assert '"outcome":"interrupted"' in events.replace(" ", "")


def test_limits_are_asked_for(place: Path) -> None:
    """--allow-run without limits is refused, and so are limits without it."""
    assert clawgauge(place, "mcp", "--allow-run").code == 2
    assert "an agent does not tire" in clawgauge(place, "mcp", "--allow-run").stderr
    assert clawgauge(place, "mcp", "--max-calls", "3").code == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"not json\n" * 5,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n{"jsonrpc"',
        b"\xff\xfe\x00" * 100 + b"\n",
        b"[" * 50_000 + b"\n",
        b"x" * (5 << 20),
    ],
    ids=["nothing", "no JSON", "half a line", "no UTF-8", "deep", "endless"],
)
def test_a_broken_client_ends_the_server_quietly(place: Path, sent: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clawgauge", "mcp"],
        cwd=place,
        env=clean_environment(),
        input=sent,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_a_client_that_does_not_read_ends_the_server_quietly(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "clawgauge", "mcp"],
        cwd=place,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdout.close()
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    process.stdin.write(json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    assert process.wait(timeout=PATIENCE_S) == 0
    assert b"Traceback" not in process.stderr.read()
    process.stdin.close()
    process.stderr.close()


def test_the_skill_is_printed_without_the_extra(tmp_path: Path) -> None:
    """Its front matter is what OpenClaw reads; every command in it is one that this program takes."""
    done = clawgauge(tmp_path, "mcp", "--skill")
    assert done.code == 0
    head, _, body = done.stdout.removeprefix("---\n").partition("\n---\n")
    keys = dict(line.split(": ", 1) for line in head.splitlines())
    assert keys["name"] == "clawgauge"
    description = json.loads(keys["description"])
    assert len(description) <= 160
    assert json.loads(keys["metadata"])["openclaw"]["requires"] == {"bins": ["clawgauge"]}
    shown = "".join(body.split("```")[1::2])
    verbs = {line.split()[1] for line in shown.splitlines() if line.startswith("clawgauge ")}
    assert {"show", "run", "init"} <= verbs
    for verb in verbs:
        assert clawgauge(tmp_path, verb, "--help").code == 0
