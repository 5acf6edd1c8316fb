"""Stopping and going on: signals, resume, refills."""

from __future__ import annotations

import json
from pathlib import Path

from support.command import chat_config, clawgauge
from support.scripted_server import Held, ScriptedServer, Status, Text

SMALL = ("run", "-t", "fake:scripted-model", "-s", "small.json")


def test_a_finished_run_resumes_to_itself(place: Path, server: ScriptedServer) -> None:
    """Resuming a complete run asks nothing and changes no record."""
    first = clawgauge(place, *SMALL)
    before = (first.folder / "results.jsonl").read_bytes()
    again = clawgauge(place, "run", "--resume", first.folder.name)
    assert again.code == 0 and (first.folder / "results.jsonl").read_bytes() == before
    assert len(server.calls) == 4


def test_more_repeats_only_add(place: Path, server: ScriptedServer) -> None:
    """Resuming with a higher --repeats asks the new cells alone, and config.json says so."""
    done = clawgauge(place, *SMALL)
    more = clawgauge(place, "run", "--resume", done.folder.name, "--repeats", "2")
    assert more.code == 0, more.stderr
    assert sorted((r["prompt_id"], r["repeat"]) for r in more.records()) == [
        (f"P{p}", n) for p in range(4) for n in (0, 1)
    ]
    assert json.loads((done.folder / "config.json").read_bytes())["options"]["repeats"] == 2
    assert clawgauge(place, "run", "--resume", done.folder.name, "--repeats", "1").code == 2


def test_a_resumed_run_keeps_its_drawing(place: Path, server: ScriptedServer) -> None:
    """What is asked later has the values of what was asked before; another drawing is another run."""
    prompt = {
        "id": "P0",
        "name": "n",
        "prompt": "Say ash.",
        "validator": {"type": "noop"},
        "draw": {"ash": ["elm"]},
    }
    (place / "drawn.json").write_text(json.dumps([prompt]))
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "drawn.json", "--draw", "3")
    more = clawgauge(place, "run", "--resume", done.folder.name, "--repeats", "2")
    assert [json.loads(call.body)["messages"][-1]["content"] for call in server.calls] == [
        "Say elm."
    ] * 2
    assert json.loads((more.folder / "config.json").read_bytes())["options"]["draw"] == 3
    other = clawgauge(place, "run", "--resume", done.folder.name, "--draw", "4")
    assert other.code == 2 and "--draw was 3 and is now 4" in other.stderr


def test_a_forced_resume_keeps_the_folder_whole(place: Path, server: ScriptedServer) -> None:
    """After --force config.json names the suites and targets that were really run, and a plain --resume works."""
    done = clawgauge(place, *SMALL)
    forced = clawgauge(
        place, "run", "--resume", done.folder.name, "--force", "-t", "fake:other-model"
    )
    assert forced.code == 0, forced.stderr
    config = json.loads((done.folder / "config.json").read_bytes())
    assert [suite["name"] for suite in config["suites"]] == ["small"]
    assert [target["model"] for target in config["targets"]] == ["scripted-model", "other-model"]
    assert len(forced.records()) == 8
    again = clawgauge(place, "run", "--resume", done.folder.name)
    assert again.code == 0 and "nothing is left to ask" in again.stderr and len(server.calls) == 8
    fewer = clawgauge(place, "run", "--resume", done.folder.name, "-t", "fake:other-model")
    assert fewer.code == 2 and "the targets differ (without fake:scripted-model)" in fewer.stderr


def test_resume_with_some_prompts(place: Path, server: ScriptedServer) -> None:
    """--prompt-ids on resuming asks these of the run's own open cells; the others stay open for later."""
    server.script(*(Status(400) for _ in range(4)))
    done = clawgauge(place, *SMALL)
    some = clawgauge(
        place, "run", "--resume", done.folder.name, "--retry-errors", "--prompt-ids", "small/P2"
    )
    assert {r["prompt_id"] for r in some.records() if r["availability_status"] == "ok"} == {"P2"}
    assert len(some.records()) == 4 and len(server.calls) == 5
    assert json.loads((done.folder / "config.json").read_bytes())["options"]["prompt_ids"] is None
    wrong = clawgauge(place, "run", "--resume", done.folder.name, "--prompt-ids", "P9")
    assert wrong.code == 2 and "P9" in wrong.stderr


def test_another_server_behind_the_same_name_is_refused(
    place: Path, server: ScriptedServer
) -> None:
    """A provider that has moved since is a different subject: refused, naming both addresses."""
    done = clawgauge(place, *SMALL)
    with ScriptedServer() as elsewhere:
        chat_config(place, fake=elsewhere.v1_url)
        refused = clawgauge(place, "run", "--resume", done.folder.name, "--repeats", "2")
        assert (
            refused.code == 2
            and server.v1_url in refused.stderr
            and elsewhere.v1_url in refused.stderr
        )
        assert elsewhere.requests == []
        recorded = json.loads((done.folder / "config.json").read_bytes())
        recorded["providers"]["fake"]["base_url"] = {"no": ["address"]}
        (done.folder / "config.json").write_text(json.dumps(recorded))
        refused = clawgauge(place, "run", "--resume", done.folder.name, "--repeats", "2")
        assert refused.code == 2 and "fake was at {'no': ['address']}" in refused.stderr


def test_resume_keeps_the_recorded_concurrency(place: Path, server: ScriptedServer) -> None:
    """The calls of a resumed run are as many at once as before, each on its own connection."""
    server.script(*(Status(400) for _ in range(4)))
    done = clawgauge(place, *SMALL, "--concurrency", "4")
    n_before = len(server.calls)
    # The first goes alone; the others are answered once all are there.
    server.reply_with(Held(Text("yes"), lambda: len(server.calls) in (n_before + 1, n_before + 4)))
    again = clawgauge(place, "run", "--resume", done.folder.name, "--retry-errors")
    assert [record["success"] for record in again.records()] == [True] * 4
    assert len({call.connection for call in server.calls[n_before:]}) == 3


def test_a_dry_run_of_a_resume_counts_what_is_open(place: Path, server: ScriptedServer) -> None:
    """--resume --dry-run shows the calls that are left, not those of the whole plan."""
    server.script(Status(400))
    done = clawgauge(place, *SMALL)
    shown = clawgauge(
        place, "run", "--resume", done.folder.name, "--retry-errors", "--dry-run", "--json"
    )
    assert json.loads(shown.stdout)["calls"] == 1 and "1 call" in shown.stderr
    assert len(server.calls) == 4


def test_a_target_is_given_up_after_as_many_failures_in_a_row_as_allowed(
    place: Path, server: ScriptedServer
) -> None:
    """An answer in between starts the count anew; what was not asked says why, and is asked once it is wanted."""
    server.script(Status(400), Text("yes"), Status(400), Status(400))
    stopped = clawgauge(
        place, *SMALL, "--repeats", "2", "--run-id", "r", "--stop-after-errors", "2"
    )
    records = stopped.records()
    assert len(server.calls) == 4 and len(records) == 8
    assert [record["failure_type"] for record in records[:4]] == [
        "http_400",
        None,
        "http_400",
        "http_400",
    ]
    for record in records[4:]:
        assert (record["availability_status"], record["failure_type"]) == (
            "skipped_unavailable",
            "stopped_after_errors",
        )
        assert record["attempts"] == [] and "--stop-after-errors 2" in record["error"]
    assert (
        json.loads((stopped.folder / "config.json").read_text())["options"]["stop_after_errors"]
        == 2
    )
    server.reply_with(Text("yes"))
    refilled = clawgauge(place, "run", "--resume", "r", "--retry-errors")
    assert refilled.code == 0 and {
        record["availability_status"] for record in refilled.records()
    } == {"ok"}


def test_a_target_is_asked_to_the_end_unless_it_is_to_be_given_up(
    place: Path, server: ScriptedServer
) -> None:
    """Off by default; a number that makes no sense is refused before anything is sent."""
    server.reply_with(Status(400))
    assert clawgauge(place, *SMALL, "--stop-after-errors", "0").code == 2 and server.calls == []
    clawgauge(place, *SMALL)
    assert len(server.calls) == 4
