"""One observation counts once: a prompt that was never sent is recorded, and tells nothing of a server."""

from __future__ import annotations

import csv
import io
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import Outcome, chat_config, clawgauge, write_suite
from support.scripted_server import ScriptedServer, Status, Text

N_PROMPTS = 12
PLAN = ("run", "-s", "twelve.json", "--run-id", "r")
BUDGETS = [(), ("--max-calls", "2")]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nothing listens on and nobody else can take: it is bound and never listened on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def twelve(place: Path, server: ScriptedServer, closed_port: int) -> Path:
    chat_config(place, fake=server.v1_url, dead=f"http://127.0.0.1:{closed_port}/v1")
    prompt = {"prompt": "say yes", "validator": {"type": "exact", "value": "yes"}}
    write_suite(place / "twelve.json", *([prompt] * N_PROMPTS))
    return place


def group_of(outcome: Outcome) -> dict[str, Any]:
    (group,) = outcome.summary()["models"]
    return group


def counts_one_attempt(done: Outcome, n_status: str) -> None:
    """Twelve records, one of which was asked; and no sentence that counts the others."""
    records = done.records()
    assert [record["asked"] for record in records] == [True] + [False] * (N_PROMPTS - 1)
    assert [len(record["attempts"]) for record in records] == [1] + [0] * (N_PROMPTS - 1)
    group = group_of(done)
    assert (group["n_total"], group[n_status], group["n_ok"]) == (N_PROMPTS, N_PROMPTS, 0)
    assert (group["n_attempted"], group["n_not_asked"]) == (1, N_PROMPTS - 1)
    assert (group["n_asked_judged"], group["n_scheduled_judged"]) == (1, N_PROMPTS)
    (suite,) = group["suites"]
    assert (suite["n_total"], suite["n_attempted"], suite["n_not_asked"]) == (
        N_PROMPTS,
        1,
        N_PROMPTS - 1,
    )
    (failure,) = group["failures"]
    assert (failure["n"], failure["n_not_asked"]) == (N_PROMPTS, N_PROMPTS - 1)
    said = done.stderr + (done.folder / "summary.md").read_text(encoding="utf-8")
    for counted in (f" 0 of {N_PROMPTS}", f"0/{N_PROMPTS}", f"{N_PROMPTS} ×"):
        assert counted not in said, said
    assert (
        f"1 × {failure['failure_type']} ({N_PROMPTS - 1} prompts not asked after it)" in done.stderr
    )


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_dead_port_is_one_attempt_however_many_prompts_there_were(
    twelve: Path, budget: tuple[str, ...]
) -> None:
    done = clawgauge(twelve, *PLAN, "-t", "dead:m", *budget)
    assert done.code == 3
    counts_one_attempt(done, "n_skipped_unavailable")
    (offline,) = [job for job in done.summary()["jobs"] if job["job"] == "offline fallback"]
    (fit,) = offline["ranking"]
    assert (fit["fit"], fit["state"], fit["n"]) == ("cannot_tell", "not_asked", 0)


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_refused_key_is_one_attempt(
    twelve: Path, server: ScriptedServer, budget: tuple[str, ...]
) -> None:
    server.reply_with(Status(401))
    done = clawgauge(twelve, *PLAN, "-t", "fake:scripted-model", *budget)
    assert done.code == 3 and len(server.calls) == 1
    counts_one_attempt(done, "n_auth_error")


def test_where_no_key_is_set_nothing_was_asked(twelve: Path, server: ScriptedServer) -> None:
    """The try that ended before anything was sent is on record, and is no observation of the server."""
    text = (twelve / "clawgauge.toml").read_text()
    server_table = f'\n[providers.keyed]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\napi_key_env = "NO_KEY"\n'
    (twelve / "clawgauge.toml").write_text(text + server_table)
    words = ("-t", "keyed:scripted-model", "-t", "fake:scripted-model")
    done = clawgauge(twelve, *PLAN, *words)
    keyed, fake = done.summary()["models"]
    assert (keyed["n_total"], keyed["n_attempted"], keyed["n_not_asked"]) == (
        N_PROMPTS,
        0,
        N_PROMPTS,
    )
    assert (fake["n_total"], fake["n_attempted"], fake["n_not_asked"]) == (N_PROMPTS, N_PROMPTS, 0)
    assert f"{N_PROMPTS} prompts not asked, api_key_missing" in done.stderr
    assert {record["asked"] for record in done.records()[:N_PROMPTS]} == {False}


def answer_some(listener: socket.socket, n_answers: int) -> None:
    """Answer so many calls, each on a connection of its own, and be gone."""
    body = b'{"choices": [{"message": {"content": "yes"}}]}'
    for n in range(n_answers):
        connection, _ = listener.accept()
        if n == n_answers - 1:
            listener.close()
        with connection:
            connection.recv(65536)
            head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)


@pytest.fixture
def died(twelve: Path) -> Outcome:
    """A run whose server answered four of twelve prompts and was gone then."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        chat_config(twelve, mortal=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        # The list of models is asked for first.
        answering = threading.Thread(target=answer_some, args=(listener, 5))
        answering.start()
        done = clawgauge(twelve, *PLAN, "-t", "mortal:m", "--no-stream", "--max-retries", "1")
        answering.join()
    return done


def test_when_a_server_dies_what_came_before_counts_and_what_came_after_does_not(
    died: Outcome,
) -> None:
    n_answered = sum(record["success"] for record in died.records())
    assert 0 < n_answered < N_PROMPTS - 1
    asked = [record["asked"] for record in died.records()]
    assert asked == [True] * (n_answered + 1) + [False] * (N_PROMPTS - n_answered - 1)
    group = group_of(died)
    assert (group["n_ok"], group["n_attempted"], group["n_total"]) == (
        n_answered,
        n_answered + 1,
        N_PROMPTS,
    )
    assert (group["n_passed"], group["n_asked_judged"]) == (n_answered, n_answered + 1)
    assert f" {n_answered}/{n_answered + 1} " in died.stderr
    listed = clawgauge(died.cwd, "history")
    assert f"{n_answered}/{n_answered + 1} of {N_PROMPTS}" in listed.stdout
    told = clawgauge(died.cwd, "history", "--json")
    (run,) = json.loads(told.stdout)["runs"]
    assert (run["n_attempted"], run["passes"]) == (
        n_answered + 1,
        {"mortal:m": [n_answered, n_answered + 1]},
    )


def test_a_gate_is_not_passed_by_what_was_answered_before_a_server_died(died: Outcome) -> None:
    again = clawgauge(died.cwd, "run", "--resume", "r", "--fail-under", "0.1")
    assert again.code == 0
    again = clawgauge(died.cwd, "run", "--resume", "r", "--fail-under", "0.7")
    assert again.code == 1 and "gate failed: mortal:m passed" in again.stderr
    assert "of 12 planned prompts were never asked" in again.stderr
    n_not_asked = sum(not record["asked"] for record in died.records())
    assert f"of {N_PROMPTS} prompts, {n_not_asked} of them not asked, wanted 70.0%" in again.stderr
    assert "passed 100.0%" not in again.stderr


def test_the_reports_show_a_prompt_that_was_not_asked_as_that(died: Outcome) -> None:
    unasked = next(record for record in died.records() if not record["asked"])
    shown = clawgauge(died.cwd, "show", "r", unasked["prompt_id"])
    assert "not asked (connection_refused)" in shown.stdout
    exported = clawgauge(
        died.cwd, "export", "r", "--format", "csv", "--columns", "prompt_id,asked,n_attempts"
    )
    rows = list(csv.DictReader(io.StringIO(exported.stdout)))
    expected = [str(record["asked"]).lower() for record in died.records()]
    assert [row["asked"] for row in rows] == expected
    page = died.cwd / "page.html"
    assert clawgauge(died.cwd, "report", "r", "-o", str(page)).code == 0
    n_unasked = sum(not record["asked"] for record in died.records())
    assert f"{n_unasked} prompts not asked" in page.read_text(encoding="utf-8")


def test_a_prompt_that_was_not_asked_is_asked_with_what_failed(
    twelve: Path, server: ScriptedServer
) -> None:
    """--max-calls counts what was asked: the eleven that were not have cost nothing of it."""
    server.script(Status(401))
    assert clawgauge(twelve, *PLAN, "-t", "fake:scripted-model", "--max-calls", "3").code == 3
    server.reply_with(Text("yes"))
    again = clawgauge(twelve, "run", "--resume", "r", "--retry-errors")
    assert len(server.calls) == 1 + 3 and group_of(again)["n_attempted"] == 3


def strip_asked(folder: Path) -> None:
    """The folder as an earlier version left it."""
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for row in rows:
        del row["asked"]
    (folder / "results.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    summary = json.loads((folder / "summary.json").read_text())
    for group in summary["models"]:
        for part in (group, *group["suites"], *group["failures"]):
            part.pop("n_attempted", None)
            part.pop("n_not_asked", None)
        group["n_asked_judged"] = group["n_total"]
    # Written after the records: it looks fresh.
    (folder / "summary.json").write_text(json.dumps(summary))


def test_a_folder_of_an_earlier_version_is_counted_alike(died: Outcome) -> None:
    before = group_of(died)
    strip_asked(died.folder)
    told = clawgauge(died.cwd, "history", "--json")
    (run,) = json.loads(told.stdout)["runs"]
    assert run["n_attempted"] == before["n_attempted"]
    exported = clawgauge(died.cwd, "export", "r", "--format", "jsonl", "--columns", "asked")
    n_asked = sum(json.loads(line)["asked"] for line in exported.stdout.splitlines())
    assert n_asked == before["n_attempted"]
    assert clawgauge(died.cwd, "rescore", "r").code == 0
    assert group_of(died) == before | {"clock": group_of(died)["clock"]}


def test_compare_takes_a_prompt_that_was_not_asked_for_no_failure(
    died: Outcome, server: ScriptedServer
) -> None:
    chat_config(died.cwd, mortal=server.v1_url)
    server.reply_with(Text("yes"))
    whole = ("run", "-s", "twelve.json", "--run-id", "whole", "-t", "mortal:m")
    assert clawgauge(died.cwd, *whole).code == 0
    compared = clawgauge(died.cwd, "compare", "whole", "r", "--force", "--json")
    (pair,) = json.loads(compared.stdout)["pairs"]
    reasons = [one["failure_type"] for one in pair["unanswered"]]
    n_unasked = sum(not record["asked"] for record in died.records())
    assert sorted(reasons) == ["connection_refused"] + ["not asked"] * n_unasked
