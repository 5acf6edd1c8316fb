"""Rows 32-35, 45, 46 and 55: damaged folders, changed plans, hostile names and a clock that steps back."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from clawgauge.cli import main
from clawgauge.journal.folder import RunFolder
from clawgauge.providers.base import ProviderSettings, create_provider
from clawgauge.records import Prompt, Target
from clawgauge.runner.clock import Clock
from clawgauge.runner.context import Observer
from clawgauge.runner.run import run
from clawgauge.summary import summarize_folder
from support.command import Outcome, clawgauge, read_records, state_home, write_suite
from support.plans import plan_of
from support.scripted_server import Hang, Reset, ScriptedServer, Status, Text
from support.slow_rest import slow_rest
from support.waiting import growing_deadlines

RUN = ("run", "-t", "fake:scripted-model", "-s", "small.json")
MISSING = {"error": {"code": "model_not_found", "message": "there is no such model"}}


@pytest.fixture
def finished(place: Path, server: ScriptedServer) -> Outcome:
    """A run of four answered cells, named `r`."""
    server.reply_with(Text("yes"))
    return clawgauge(place, *RUN, "--run-id", "r")


@pytest.mark.parametrize(
    "share", slow_rest([0.5, 0.0, 0.2, 0.9, 1.0], every=5), ids=lambda share: f"{share:.0%}"
)
@pytest.mark.parametrize("verb", ["run --resume", "summarize", "rescore"])
def test_row_32_a_torn_last_line(
    finished: Outcome, server: ScriptedServer, verb: str, share: float
) -> None:
    """The next writer puts its bytes into results.torn and says so; resuming asks the cell again, once."""
    results = finished.folder / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    torn = lines[3][: 1 + round(share * (len(lines[3]) - 3))]
    results.write_bytes(b"".join(lines[:3]) + torn)
    done = clawgauge(finished.cwd, *verb.split(), "r")
    assert done.code == 0, done.stderr
    assert (finished.folder / "results.torn").read_bytes() == torn
    assert f"{len(torn)} bytes are now in results.torn" in done.stderr
    cells = [record["prompt_id"] for record in read_records(finished.folder)]
    assert cells == ["P0", "P1", "P2", "P3"][: 4 if "resume" in verb else 3]
    assert len(server.calls) == (5 if "resume" in verb else 4)


BAD_LINES = {
    "not JSON": b"{broken",
    "an array": b"[1, 2]",
    "another object": b'{"a": 1}',
    "a record without its cell": b'{"record_type": "result", "run_id": "r"}',
    "not UTF-8": b'{"raw_output": "\xff\xfe"}',
    "NUL bytes": b"\x00" * 4096,
    "two records on a line": None,
    "a status nobody knows": None,
    "17 MB": b"x" * (17 << 20),
}


@pytest.mark.parametrize("kind", slow_rest(BAD_LINES, every=3))
def test_row_33_a_bad_middle_line(finished: Outcome, kind: str) -> None:
    """Every reader leaves it out, counts the rest right, says so and exits 5; the bytes stay where they are."""
    results = finished.folder / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    bad = BAD_LINES[kind]
    if kind == "two records on a line":
        bad = lines[1].strip() + lines[2].strip()
    elif kind == "a status nobody knows":
        bad = (
            lines[1].strip().replace(b'"availability_status":"ok"', b'"availability_status":"fine"')
        )
    assert bad is not None
    results.write_bytes(lines[0] + bad + b"\n" + b"".join(lines[1:]))
    for words in (
        ("show", "r"),
        ("show", "r", "P3"),
        ("summarize", "r"),
        ("rescore", "r", "--dry-run"),
    ):
        done = clawgauge(finished.cwd, *words)
        assert done.code == 5 and "1 line" in done.stdout + done.stderr, words
    assert (
        finished.summary()["n_unreadable_lines"] == 1
        and finished.summary()["models"][0]["n_total"] == 4
    )
    assert bad in results.read_bytes()
    results.write_bytes(b"".join(lines))  # what is planted here would not meet the schema


def test_row_33_whoever_exits_5_says_why_on_stderr(finished: Outcome) -> None:
    """Also where stdout is JSON for a program, or a file was named for it."""
    results = finished.folder / "results.jsonl"
    lines = results.read_bytes()
    results.write_bytes(b"{broken\n" + lines)
    shutil.copytree(finished.folder, finished.cwd / "other" / "r2")
    (finished.cwd / "runs" / "closed").mkdir()
    (finished.cwd / "runs" / "closed" / "config.json").write_text("{")
    for words in (
        *(
            ("show", "r"),
            ("show", "r", "--json"),
            ("show", "r", "P3", "--json"),
            ("summarize", "r"),
        ),
        *(
            ("rescore", "r", "--dry-run"),
            ("report", "r", "-o", "r.html"),
            ("export", "r"),
            ("history",),
        ),
        *(("history", "--json"), ("history", "-o", "h.txt"), ("route", "r", "-o", "p.json")),
        *(("compare", "r", "other/r2"), ("compare", "r", "other/r2", "--json", "-o", "c.json")),
        ("run", "--resume", "r", "--quiet", "--json"),
    ):
        done = clawgauge(finished.cwd, *words)
        assert done.code == 5 and "1 line of r" in done.stderr, (words, done.code, done.stderr)
        assert done.stderr.count("1 line of results.jsonl") <= 1, (words, done.stderr)
    shutil.rmtree(finished.cwd / "other")
    shutil.rmtree(finished.cwd / "runs" / "closed")
    results.write_bytes(lines)


def test_row_33_resuming_over_a_bad_line(finished: Outcome, server: ScriptedServer) -> None:
    """A cell whose line cannot be read is asked again; the run says that a line was left out, and exits 5."""
    results = finished.folder / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(lines[0] + b'{"spoilt": \n' + b"".join(lines[2:]))
    done = clawgauge(finished.cwd, "run", "--resume", "r")
    assert done.code == 5 and "1 line of results.jsonl could not be read" in done.stderr
    assert len(server.calls) == 5
    assert finished.summary()["models"][0]["n_total"] == 4
    readable = [
        json.loads(line) for line in results.read_bytes().splitlines() if b"spoilt" not in line
    ]
    assert sorted(record["prompt_id"] for record in readable) == ["P0", "P1", "P2", "P3"]


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "the text": ({"prompt": "another question"}, "changed prompts small/P1"),
    "the validator": ({"validator": {"type": "max_words", "value": 4}}, "changed prompts small/P1"),
    "the system prompt": ({"system": "be brief"}, "changed prompts small/P1"),
    "the sampling": ({"temperature": 0.5}, "changed prompts small/P1"),
    "the expected tools": ({"expected_tool_calls": ["df"]}, "changed prompts small/P1"),
    "the id": ({"id": "Q1"}, "prompts gone small/P1; new prompts small/Q1"),
}


def test_row_34_resume_after_an_edited_suite(finished: Outcome, server: ScriptedServer) -> None:
    """Whatever was edited is named, nothing is asked or written; --force goes on and says what it gives up."""
    written = (finished.cwd / "small.json").read_text()
    before = {path.name: path.read_bytes() for path in finished.folder.iterdir()}
    for change, (edit, named) in CHANGES.items():
        suite = json.loads(written)
        suite["prompts"][1] |= edit
        (finished.cwd / "small.json").write_text(json.dumps(suite))
        refused = clawgauge(finished.cwd, "run", "--resume", "r")
        assert refused.code == 2 and named in refused.stderr and "--force" in refused.stderr, change
        assert {path.name: path.read_bytes() for path in finished.folder.iterdir()} == before
    assert len(server.calls) == 4
    forced = clawgauge(finished.cwd, "run", "--resume", "r", "--force")
    assert forced.code == 0 and f"not comparable where {named}" in forced.stderr
    events = [
        json.loads(line) for line in (finished.folder / "events.jsonl").read_text().splitlines()
    ]
    (given_up,) = [
        event["detail"]["differences"] for event in events if event["event"] == "forced_resume"
    ]
    assert "; ".join(given_up) == named


def test_row_34_resume_with_another_target_or_option(
    finished: Outcome, server: ScriptedServer
) -> None:
    """Another plan is refused by what differs, and --force says the same while it goes on."""
    others: list[tuple[tuple[str, ...], str]] = [
        (("-t", "fake:other-model"), "new fake:other-model"),
        (("-t", "fake:scripted-model@high"), "new fake:scripted-model@high"),
        (("--max-tokens", "7"), "--max-tokens was None and is now 7"),
        (("--no-stream",), "--stream was True and is now False"),
        (("-t", "fake:scripted-model", "-t", "fake:other-model"), "(new fake:other-model)"),
        (("--temperature", "1"), "--temperature was None and is now 1.0"),
    ]
    for words, named in others:
        refused = clawgauge(finished.cwd, "run", "--resume", "r", *words)
        assert refused.code == 2 and named in refused.stderr and len(server.calls) == 4, words
    for words, named in others[-2:]:
        forced = clawgauge(finished.cwd, "run", "--resume", "r", *words, "--force")
        assert forced.code == 0 and "not comparable" in forced.stderr and named in forced.stderr


def test_row_34_a_suite_named_by_the_configuration_file(
    place: Path, server: ScriptedServer
) -> None:
    """An edited suite is noticed wherever it was named: here in a configuration file of another folder."""
    other = place / "etc"
    other.mkdir()
    (place / "small.json").rename(other / "small.json")
    (place / "clawgauge.toml").rename(other / "mine.toml")
    with (other / "mine.toml").open("a") as file:
        file.write('[run]\nsuites = ["small.json"]\n')
    words = ("--config", "etc/mine.toml")
    done = clawgauge(place, "run", "-t", "fake:scripted-model", *words, "--run-id", "r")
    assert done.code == 0, done.stderr
    assert clawgauge(place, "run", "--resume", "r", *words).code == 0
    write_suite(other / "small.json", {"prompt": "something else"})
    refused = clawgauge(place, "run", "--resume", "r", *words)
    assert refused.code == 2 and "changed prompts small/P0" in refused.stderr


def test_row_34_resume_where_the_provider_is_not_known(
    finished: Outcome, server: ScriptedServer
) -> None:
    """Without the configuration that names the server, resuming says so instead of breaking down."""
    (finished.cwd / "clawgauge.toml").rename(finished.cwd / "moved.toml")
    done = clawgauge(finished.cwd, "run", "--resume", "r")
    assert (
        done.code == 2
        and "'fake'" in done.stderr
        and "--config" in done.stderr
        and "Traceback" not in done.stderr
    )
    assert clawgauge(finished.cwd, "run", "--resume", "r", "--config", "moved.toml").code == 0


def test_row_34_resume_without_the_suite_file(place: Path, server: ScriptedServer) -> None:
    """A suite file that is gone is no change: the run folder holds the prompts."""
    server.script(Text("yes"), Status(400), Text("yes"), Text("yes"))
    first = clawgauge(place, *RUN)
    (place / "small.json").unlink()
    done = clawgauge(place, "run", "--resume", first.folder.name, "--retry-errors")
    assert (
        done.code == 0
        and len(server.calls) == 5
        and server.calls[-1].prompt == "at most three words"
    )


def test_row_35_failed_cells_of_every_kind_are_asked_again(
    place: Path, server: ScriptedServer
) -> None:
    """Errors, rate limits and skipped cells are refilled with --retry-errors alone; each old line is put aside once."""
    server.script(Text("yes"), Status(400), Status(429), Text(""))
    server.reply_with(
        lambda request: Status(404, json=MISSING) if request.model == "gone" else Text("yes")
    )
    models = ("scripted-model", "gone", "other-model")
    targets = [word for model in models for word in ("-t", f"fake:{model}")]
    first = clawgauge(
        place, "run", *targets, "-s", "small.json", "--max-retries", "0", "--run-id", "r"
    )
    ends = [(record["model"], record["availability_status"]) for record in first.records()]
    assert [status for _, status in ends[:4]] == ["ok", "error", "rate_limited", "ok"]
    assert set(ends[4:8]) == {("gone", "skipped_unavailable")}
    lines = (first.folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    failed = [line for line, (_, status) in zip(lines, ends, strict=True) if status != "ok"]
    n_calls = len(server.calls)
    assert clawgauge(place, "run", "--resume", "r").code == 0 and len(server.calls) == n_calls
    assert (first.folder / "results.jsonl").read_bytes() == b"".join(lines)
    server.reply_with(Text("yes"))
    again = clawgauge(place, "run", "--resume", "r", "--retry-errors")
    assert again.code == 0 and "asking 6 prompts that had no answer again" in again.stderr
    assert len(server.calls) == n_calls + 6
    assert (first.folder / "superseded.jsonl").read_bytes() == b"".join(failed)
    records = again.records()
    assert len(records) == len({(r["model"], r["prompt_id"]) for r in records}) == 12
    assert {r["availability_status"] for r in records} == {"ok"}
    assert {group["n_total"] for group in again.summary()["models"]} == {4}
    kept = [line for line in lines if line not in failed]
    assert (first.folder / "results.jsonl").read_bytes().startswith(b"".join(kept))


@pytest.mark.parametrize(
    "run_id",
    slow_rest(
        [
            "../x",
            "..",
            "/tmp/clawgauge-x",
            "a\x1b[2Jb",
            "",
            "a/b",
            "x" * 300,
            "a\\b",
            "a\nb",
            ".",
            "-x",
            "nul",
        ],
        every=3,
    ),
)
def test_row_45_a_run_id_that_is_no_folder_name(
    place: Path, server: ScriptedServer, run_id: str
) -> None:
    """Refused before any file is made, anywhere, and before any request; the refusal cannot steer a terminal."""
    before = sorted(place.parent.rglob("*"))
    done = clawgauge(place, *RUN, f"--run-id={run_id}")
    assert done.code == 2 and "run id" in done.stderr and "\x1b" not in done.stderr
    assert sorted(place.parent.rglob("*")) == before and server.requests == []
    assert not Path("/tmp/clawgauge-x").exists()


def test_row_45_a_run_id_with_a_nul(
    place: Path,
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No shell can pass a NUL, but a program that calls ours can: refused like the rest."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", state_home())
    assert main([*RUN, "--run-id", "a\0b"]) == 2
    assert "run id" in capsys.readouterr().err
    assert not (place / "runs").exists() and server.requests == []


def test_row_46_models_that_could_share_a_file(place: Path, server: ScriptedServer) -> None:
    """Every target has its own pair of resource files, whatever its model is called, and each fits a file system."""
    models = [
        "a/b:c",
        "a_b_c",
        "a-b-c",
        "A_B_C",
        "a b c",
        "ä",
        "../../etc/passwd",
        "m" * 300,
        "m" * 300 + "n",
        "con",
    ]
    targets = [word for model in models for word in ("-t", f"fake:{model}")]
    done = clawgauge(
        place, "run", *targets, "-t", "fake:a_b_c@high", "-s", "small.json", "--prompt-ids", "P0"
    )
    assert done.code == 0, done.stderr
    for moment in ("before", "after"):
        names = [path.name for path in done.folder.glob(f"resources_*_{moment}.txt")]
        assert len(names) == len({name.lower() for name in names}) == len(models) + 1
        assert all(len(name.encode()) <= 255 and name.isascii() for name in names)
    assert len(done.summary()["models"]) == len(models) + 1
    assert sorted(place.parent.glob("passwd*")) == []


class SteppingClock(Clock):
    """A true monotonic clock, and a wall clock that is set back an hour each time anyone looks."""

    def __init__(self) -> None:
        self._looks = itertools.count()

    def wall_ns(self) -> int:
        return (1_800_000_000_000 - 3_600_000 * next(self._looks)) * 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def test_row_55_a_wall_clock_that_steps_back(tmp_path: Path, server: ScriptedServer) -> None:
    """Durations come from another clock: none is negative, in no record, attempt, event or summary."""
    settings = ProviderSettings("fake", "openai_chat", base_url=server.v1_url)
    prompts = [
        Prompt(
            id=f"P{n}", name="n", prompt="p", validator={"type": "exact", "value": "yes"}, suite="s"
        )
        for n in range(4)
    ]
    target = Target("fake", "scripted-model")
    for timeout_s in growing_deadlines(0.4):
        server.script_anew(
            Text("yes", chunks=3, gap_s=0.01), Status(503), Text("yes"), Reset(), Status(400), Hang()
        )  # fmt: skip
        with RunFolder.create(tmp_path) as folder:
            given = {target.provider: create_provider(settings)}
            environ = {"PATH": os.defpath}
            plan = plan_of(
                prompts, given=given, targets=[target], environ=environ, timeout_s=timeout_s
            )
            asyncio.run(run(plan, folder, Observer(), SteppingClock()))
        records = read_records(folder.path)
        n_timeouts = sum(
            attempt["failure_type"] == "timeout" for r in records for attempt in r["attempts"]
        )
        if n_timeouts == 1 and records[3]["e2e_ms"] >= 900 * timeout_s:
            break  # all but the last were answered before the deadline
    assert [record["failure_type"] for record in records] == [None, None, "http_400", "timeout"]
    assert records[0]["e2e_ms"] >= 20 and records[3]["e2e_ms"] >= 900 * timeout_s
    for record in records:
        durations = [
            record["e2e_ms"],
            record["total_ms"],
            record["timings_us"]["e2e"],
            record["ttft_ms"] or 0,
        ]
        durations += [
            attempt[key] for attempt in record["attempts"] for key in ("e2e_ms", "waited_ms")
        ]
        assert min(durations) >= 0 and max(durations) < 60_000_000
        assert record["ended_at_ms"] - record["started_at_ms"] == record["e2e_ms"]
    (group,) = summarize_folder(folder.path).models
    assert group.wall_clock_ms is not None and group.wall_clock_ms >= 0
    assert group.latency_ms.p50 is not None and 0 <= group.latency_ms.p50 < 1_000 * timeout_s
