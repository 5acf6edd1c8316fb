"""A run without -s, on a model that throws a coin for each text: what is decided, and after how much."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from faults.processes import ended, started
from support.coin_model import CoinModel
from support.command import Outcome, chat_config, clawgauge, trust_configuration
from support.scripted_server import (
    Hang,
    InstalledModel,
    ReceivedRequest,
    Reply,
    ScriptedServer,
    Status,
    Text,
)
from support.waiting import PATIENCE_S

DATA = "structured data"
ASKED = ("main agent", "subagent with full tools", "heartbeat and triage", "structured data")
PLAIN = ("run", "-t", "fake:scripted-model", "--run-id", "r")


@pytest.fixture
def box(place: Path, server: ScriptedServer) -> Path:
    """A server of the user's own: one call at a time."""
    chat_config(place, fake=server.v1_url)
    return place


def fits(done: Outcome) -> dict[str, dict[str, Any]]:
    return {job["job"]: job["ranking"][0] for job in done.summary()["jobs"]}


def texts(done: Outcome) -> list[tuple[str, str, int, int]]:
    keys = ("suite", "prompt_id", "draw", "repeat")
    return [tuple(record[key] for key in keys) for record in done.records()]  # type: ignore[misc]


def test_a_good_model_is_fit_for_every_job_that_everybody_has(
    box: Path, server: ScriptedServer
) -> None:
    server.reply_with(CoinModel(1.0).reply)
    done = clawgauge(box, *PLAIN, "--concurrency", "1")
    assert done.code == 0, done.stderr
    jobs = fits(done)
    for name in ASKED:
        assert jobs[name]["state"] == "decided_fit", name
    assert jobs["long context"]["state"] == "not_asked"
    summary = done.summary()
    assert summary["asked"] == "decision" and summary["models"][0]["asking_ended"] == "decided"
    assert summary["models"][0]["tool_use"]["recommended_for_subagents"] is True
    assert len(server.calls) <= 130
    assert "not asked: long context (clawgauge run -s long_context)" in done.stderr
    assert "run r\nscripted-model: fit for 4 of 4 jobs\n" in done.stderr
    heading = next(line for line in done.stderr.splitlines() if line.startswith("model "))
    # A rate for each need, and none over whatever was asked.
    assert {"tools", "args", "restraint", "tasks"} <= set(heading.split())
    assert "pass" not in heading.split()


def test_the_headline_of_a_list_is_its_pass_rate(box: Path, server: ScriptedServer) -> None:
    server.reply_with(CoinModel(1.0).reply)
    done = clawgauge(box, *PLAIN, "-s", "tool_use")
    heading = next(line for line in done.stderr.splitlines() if line.startswith("model "))
    assert "pass" in heading.split() and "fit for" not in done.stderr


def test_a_bad_model_is_told_so_after_few_calls(box: Path, server: ScriptedServer) -> None:
    server.reply_with(CoinModel(0.0).reply)
    done = clawgauge(box, *PLAIN, "--concurrency", "1")
    assert done.code == 0, done.stderr
    jobs = fits(done)
    assert {jobs[name]["state"] for name in ASKED} == {"decided_not_fit"}
    assert jobs["offline fallback"]["fit"] != "yes"
    assert len(server.calls) <= 20


def test_a_run_that_ends_early_says_what_is_likely_and_how_to_go_on(
    box: Path, server: ScriptedServer
) -> None:
    """After forty calls nothing is against it; the run that goes on asks what it would have asked."""
    server.reply_with(CoinModel(0.95, seed=2).reply)
    whole = clawgauge(box, *PLAIN, "--concurrency", "1")
    early = clawgauge(
        box, *PLAIN[:3], "--run-id", "early", "--concurrency", "1", "--max-calls", "40"
    )
    assert early.code == 0, early.stderr
    assert fits(early)["main agent"]["state"] in ("open", "likely_fit")
    assert "go on with:" in early.stderr and "--resume early" in early.stderr
    assert texts(early) == texts(whole)[: len(texts(early))]
    went_on = clawgauge(box, "run", "--resume", "early", "--max-calls", "400")
    assert went_on.code == 0, went_on.stderr
    assert texts(went_on) == texts(whole)
    assert [fits(went_on)[job]["state"] for job in fits(whole)] == [
        fit["state"] for fit in fits(whole).values()
    ]


def test_one_job_asks_what_that_job_needs(box: Path, server: ScriptedServer) -> None:
    server.reply_with(CoinModel(1.0).reply)
    done = clawgauge(box, *PLAIN, "--job", "structured data")
    assert done.code == 0, done.stderr
    assert fits(done)["structured data"]["state"] == "decided_fit"
    assert {record["suite"] for record in done.records()} <= {"core", "native_tools"}


def test_a_drawing_that_was_asked_stands_in_the_folder(box: Path, server: ScriptedServer) -> None:
    """Where a pool is asked through, prompts are drawn anew: judged again, every verdict is the same."""
    coin = CoinModel(0.82, seed=7)
    server.reply_with(coin.reply)
    done = clawgauge(box, *PLAIN, "--job", "structured data", "--concurrency", "1")
    drawn = [record for record in done.records() if record["draw"]]
    assert drawn, "the coin decided it without a drawing: take another seed"
    lines = (done.folder / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    written = {(line["prompt"]["id"], line["draw"]) for line in map(json.loads, lines)}
    assert {(record["prompt_id"], record["draw"]) for record in drawn} == written
    again = clawgauge(box, "rescore", "r", "--dry-run")
    assert again.code == 0 and "0 verdicts" in again.stderr, again.stderr


def test_a_server_that_refuses_is_given_up_without_a_row_for_every_prompt(
    box: Path, server: ScriptedServer
) -> None:
    server.reply_with(Status(401))
    done = clawgauge(box, *PLAIN)
    assert done.code == 3, done.stderr
    assert len(done.records()) <= 1
    events = map(json.loads, (done.folder / "events.jsonl").read_text().splitlines())
    assert "target_given_up" in {event["event"] for event in events}


def test_a_required_job_is_a_gate(box: Path, server: ScriptedServer) -> None:
    """Exit 0 where some model is decided fit, 1 where none is, whatever else is decided."""
    server.reply_with(CoinModel(0.0).reply)
    words = ("run", "-t", "fake:scripted-model", "-t", "fake:other-model", "--job", DATA)
    failed = clawgauge(box, *words, "--require", DATA)
    assert failed.code == 1, failed.stderr
    assert (
        f"gate failed: no model is decided fit for '{DATA}': "
        "fake:other-model not fit, fake:scripted-model not fit"
    ) in failed.stderr
    right = CoinModel(1.0).reply
    wrong = CoinModel(0.0).reply
    server.reply_with(lambda request: (right if request.model == "other-model" else wrong)(request))
    passed = clawgauge(box, *words, "--require", DATA)
    assert passed.code == 0 and "gate failed" not in passed.stderr, passed.stderr


def test_what_is_not_decided_yet_does_not_pass_a_gate(box: Path, server: ScriptedServer) -> None:
    """An open job ends with 0, and with 1 where it is required; a run that goes on may pass."""
    server.reply_with(CoinModel(1.0).reply)
    words = (*PLAIN, "--job", DATA, "--max-calls", "5")
    short = clawgauge(box, *words, "--require", DATA)
    assert short.code == 1 and "fake:scripted-model likely fit" in short.stderr, short.stderr
    without = clawgauge(box, "run", "--resume", "r")
    assert without.code == 0
    on = clawgauge(box, "run", "--resume", "r", "--max-calls", "100", "--require", DATA)
    assert on.code == 0, on.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--require", "poet"),
            "--require 'poet': there is no such job; the jobs are 'main agent'",
        ),
        (("--require", "long context"), "this run does not ask for that job; add --job 'long co"),
        (
            ("-s", "core", "--require", "main agent"),
            "no model can be shown fit by the prompts chosen; "
            "add -s native_tools -s restraint -s agentic",
        ),
        (
            ("-s", "core", "--job", "main agent"),
            "the prompts chosen of core tell of none of its needs; add -s native_tools",
        ),
        (("-s", "core", "--job", "your own work"), "it is judged by all answers to a list"),
        (
            ("-s", "core", "--until-decided", "--fail-under", "0.8"),
            "leave out --until-decided and --job, or gate by --require JOB",
        ),
    ],
)
def test_a_gate_that_could_never_be_passed_is_refused(
    box: Path, server: ScriptedServer, words: tuple[str, ...], sentence: str
) -> None:
    """Before anything is asked, with what would do."""
    done = clawgauge(box, "run", "-t", "fake:scripted-model", *words)
    assert done.code == 2 and sentence in done.stderr, done.stderr
    assert server.calls == []


def test_a_pass_rate_is_no_gate_of_a_run_that_goes_on_deciding(
    box: Path, server: ScriptedServer
) -> None:
    server.reply_with(CoinModel(1.0).reply)
    clawgauge(box, *PLAIN, "--max-calls", "3")
    done = clawgauge(box, "run", "--resume", "r", "--fail-under", "0.5")
    assert done.code == 2 and "--fail-under needs -s or --full" in done.stderr, done.stderr
    assert len(server.calls) == 3


def test_needs_that_no_prompt_tells_of_are_named_before_the_run(
    box: Path, server: ScriptedServer
) -> None:
    """A dry run says what would tell, and how often few prompts decide a good model."""
    words = ("run", "-t", "fake:scripted-model", "--dry-run")
    lacking = clawgauge(box, *words, "-s", "native_tools", "--job", "main agent")
    assert lacking.code == 0
    assert (
        "main agent: nobody can be shown fit, no prompt tells of tasks: add -s agentic"
        in lacking.stderr
    )
    few = clawgauge(box, *words, "-s", "restraint", "--until-decided")
    assert (
        "restraint: 42 families of prompts: a model at 90% is decided in 8 of 10" not in few.stderr
    )
    ids = ",".join(f"restraint/P{n}" for n in range(1, 13))
    few = clawgauge(box, *words, "--prompt-ids", ids, "--until-decided")
    assert (
        "restraint: 12 families of prompts: a model at 90% is decided in 3 of 10 runs" in few.stderr
    )
    assert "(50 families: in 9)" in few.stderr
    plain = clawgauge(box, *words)
    assert "families" not in plain.stderr and "nobody" not in plain.stderr
    assert server.calls == []


NO_TOOLS = Status(400, {"error": {"message": "scripted-model does not support tools"}})


def of_suite(done: Outcome, name: str) -> list[dict[str, Any]]:
    return [record for record in done.records() if record["suite"] == name]


def test_who_refuses_tools_is_asked_for_calls_in_writing_and_for_what_needs_no_tools(
    box: Path, server: ScriptedServer
) -> None:
    """One refused call is enough: no job that needs tools is decided, the others are."""
    coin = CoinModel(1.0)
    server.reply_with(
        lambda request: NO_TOOLS if request.json.get("tools") else coin.reply(request)
    )
    done = clawgauge(box, *PLAIN, "--concurrency", "1")
    assert done.code == 0, done.stderr
    refused = [record for record in done.records() if record["failure_type"] == "tools_refused"]
    assert len(refused) == 1
    jobs = fits(done)
    assert jobs["structured data"]["state"] == "decided_fit"
    assert jobs["main agent"]["fit"] == "cannot_tell" and jobs["main agent"]["never_shown"]
    assert "its server says that it takes no tools" in jobs["main agent"]["why"]
    (model,) = done.summary()["models"]
    # One of the twenty-two prompts that it takes is of another suite.
    assert len(of_suite(done, "tool_use")) == 21
    assert model["tool_use"]["source"] == "text" and model["asking_ended"] == "all_asked"
    assert not model["tool_use"]["recommended_for_subagents"]
    assert "it refuses tools: nothing more with tools was asked" in done.stderr
    # No further run is advised that would meet the same refusal.
    assert "-s native_tools" not in done.stderr and "--resume" not in done.stderr
    again = clawgauge(box, "run", "--resume", "r")
    assert "nothing is left to ask" in again.stderr


def test_who_never_gets_to_see_the_tools_is_asked_no_more_of_them(
    box: Path, server: ScriptedServer
) -> None:
    """Three of the first four native prompts were too short to hold the tools."""
    coin = CoinModel(1.0)

    def reply(request: ReceivedRequest) -> Text:
        if request.json.get("tools"):
            return Text("I have no tools.", usage=(12, 5))
        return coin.reply(request)

    server.reply_with(reply)
    done = clawgauge(box, *PLAIN, "--concurrency", "1")
    assert done.code == 0, done.stderr
    n_offered = sum(record["tools_offered"] for record in done.records())
    assert n_offered == 3
    assert of_suite(done, "tool_use") and not of_suite(done, "agentic")
    assert "the tools on offer do not reach it" in done.stderr
    assert fits(done)["structured data"]["state"] == "decided_fit"


def test_who_takes_tools_is_not_asked_for_calls_in_writing(
    box: Path, server: ScriptedServer
) -> None:
    server.reply_with(CoinModel(1.0).reply)
    done = clawgauge(box, *PLAIN, "--concurrency", "1")
    assert not of_suite(done, "tool_use")
    shown = clawgauge(box, "run", "-t", "fake:scripted-model", "--dry-run")
    assert "tool_use (30 prompts, where a model takes no tools)" in shown.stderr


def test_a_model_whose_server_says_that_it_takes_no_tools_is_never_offered_any(
    box: Path,
) -> None:
    coin = CoinModel(1.0)
    model = InstalledModel("plain:1b", capabilities=("completion",))
    with ScriptedServer(models=[model], dialect="ollama") as ollama:
        ollama.reply_with(coin.reply)
        done = clawgauge(
            box,
            *("run", "-t", "ollama_openai:plain:1b", "--run-id", "r"),
            env={"OLLAMA_HOST": ollama.base_url},
        )
    assert done.code == 0, done.stderr
    assert (
        "it cannot be shown fit for main agent, subagent with full tools and heartbeat and triage\n"
    ) in done.stderr
    assert not any(record["tools_offered"] for record in done.records())
    assert of_suite(done, "tool_use")
    assert fits(done)["main agent"]["fit"] == "cannot_tell"
    assert fits(done)["structured data"]["state"] == "decided_fit"


def test_ctrl_c_prints_the_answer_so_far(box: Path, server: ScriptedServer) -> None:
    """Exit 130, what is known of each job, and the command that asks what is left."""
    coin = CoinModel(1.0)
    is_enough = threading.Event()

    def reply(request: ReceivedRequest) -> Reply:
        if len(server.calls) > 40:
            is_enough.set()
            return Hang()
        return coin.reply(request)

    server.reply_with(reply)
    with started(box, *PLAIN, "--concurrency", "1") as process:
        assert is_enough.wait(PATIENCE_S)
        process.send_signal(signal.SIGINT)
        code, _, stderr = ended(process)
    assert code == 130, stderr
    assert "interrupted: what was recorded stands" in stderr
    assert "not all is decided; go on with:" in stderr
    assert "which model for which job" in stderr and "main agent" in stderr
    assert "--resume r" in stderr
    server.reply_with(coin.reply)
    went_on = clawgauge(box, "run", "--resume", "r")
    assert went_on.code == 0 and fits(went_on)["main agent"]["state"] == "decided_fit"


def test_until_decided_is_what_a_plain_run_does_anyway(box: Path, server: ScriptedServer) -> None:
    server.reply_with(CoinModel(1.0).reply)
    plain = clawgauge(box, *PLAIN, "--job", DATA)
    same = clawgauge(
        box, "run", "-t", "fake:scripted-model", "--until-decided", "--job", DATA, "--run-id", "s"
    )
    assert same.code == 0 and texts(same) == texts(plain)


@pytest.mark.parametrize(
    ("rates", "state"), [("at_least = 0.5", "decided_fit"), ("at_least = 0.9", "decided_not_fit")]
)
def test_a_job_of_ones_own_is_held_to_its_own_rates(
    box: Path, server: ScriptedServer, rates: str, state: str
) -> None:
    """The same answers, three of four right, are enough for one job and too few for another."""
    server.reply_with(CoinModel(0.75, seed=3).reply)
    config = box / "clawgauge.toml"
    job = f'[jobs.writer]\nprompts = ["core"]\nweighs = {{ passes = 1 }}\n{rates}\n'
    config.write_text(config.read_text() + "\n" + job)
    trust_configuration(box)
    done = clawgauge(box, *PLAIN, "--job", "writer", "--require", "writer")
    assert fits(done)["writer"]["state"] == state, done.stderr
    assert done.code == (0 if state == "decided_fit" else 1)


def test_a_window_that_is_too_small_is_told_before_the_run(
    box: Path, server: ScriptedServer
) -> None:
    """Whom no answer could show fit is named, with the reason, and nothing is asked."""
    config = box / "clawgauge.toml"
    config.write_text(config.read_text() + "context = 4096\n")
    trust_configuration(box)
    words = ("run", "-t", "fake:scripted-model", "--job", "long context")
    shown = clawgauge(box, *words, "--dry-run")
    assert (
        "fake:scripted-model: cannot be shown fit for long context: 27 prompts are longer than the "
        "model's window of 4096 tokens; the line context = 32768 under [providers.fake] in "
        "clawgauge.toml may raise it"
    ) in shown.stderr, shown.stderr
    assert server.calls == []
