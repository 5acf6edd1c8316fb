"""From OpenClaw's history to a decision: the suite, the run, the figure of its own name, and nothing for other eyes."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from faults.processes import ended, started
from support.command import Outcome, chat_config, clawgauge
from support.openclaw_store import (
    answer,
    as_records,
    copy_store,
    database_of,
    hashes,
    link_endlessly,
    result,
    user,
    write_database,
    write_lines,
)
from support.reference_model import ReferenceModel
from support.rows import every_row
from support.scripted_server import ScriptedServer
from support.waiting import wait_until

CANARY = "sk-ant-api03-CanaryCanaryCanary0123456789"
WORD = "horse-battery-staple-Canary7"
PASSWORD = "tr0ub4dorcanary3"


def make_suite(place: Path, state: Path, *words: str) -> Outcome:
    made = clawgauge(
        place, "suites", "from-openclaw", "-o", "mine.toml", "--state-dir", str(state), *words
    )
    assert made.code == 0, made.stderr
    return made


def run(place: Path, server: ScriptedServer, *words: str, errs_in: tuple[str, ...] = ()) -> Outcome:
    chat_config(place, fake=server.v1_url)
    server.reply_with(ReferenceModel(place / "mine.toml", errs_in))
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "mine.toml", *words)
    assert done.code == 0, done.stderr
    return done


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def test_from_history_to_a_decision(place: Path, server: ScriptedServer, tmp_path: Path) -> None:
    """The reference model agrees with itself everywhere; one that errs in known places is found in exactly those."""
    state = copy_store("2026.9.6", tmp_path)
    before = hashes(state)
    made = make_suite(place, state)
    assert hashes(state) == before
    assert "34 turns of 6 sessions" in made.stderr
    assert "8 answers that the user corrected; 5 rewound answers" in made.stderr
    assert (
        (place / "mine.toml")
        .read_text()
        .startswith("# PRIVATE. 34 turns of your own OpenClaw history")
    )
    assert stat.S_IMODE((place / "mine.toml").stat().st_mode) == 0o600
    shown = clawgauge(place, "suites", "show", "mine.toml").stdout
    assert shown.startswith("mine: Agreement with the reference model")

    same = run(place, server)
    (group,) = same.summary()["models"]
    assert (group["agreement"]["k"], group["agreement"]["n"]) == (34, 34)
    assert group["agreement"]["n_sessions"] == 6
    assert group["agreement"]["ci95"] is None
    assert "agrees in 34 of 34 turns of 6 sessions" in " ".join(same.stderr.split())
    assert (group["tool_use"]["n"], group["restraint"]["n"], group["argument_accuracy"]) == (
        0,
        0,
        None,
    )
    assert modes(same.folder) == {0o600}
    assert stat.S_IMODE(same.folder.stat().st_mode) == 0o700
    assert "your own work" in same.stderr
    assert "100% 34/34" in same.stderr
    assert "out of your own history" in (same.folder / "summary.md").read_text()
    assert "| Agreement with the reference model |" in (same.folder / "summary.md").read_text()

    wrong = ("m1", "m2", "m3", "m8", "m13", "m20")
    other = run(place, server, errs_in=wrong)
    failed = {
        record["prompt_id"]: record["violation"]
        for record in other.records()
        if not record["objective_pass"]
    }
    assert set(failed) == set(wrong)


@pytest.mark.slow
def test_agreement_is_told_wherever_a_run_is_read(
    place: Path, server: ScriptedServer, tmp_path: Path
) -> None:
    """And whatever is made of the folder is for its owner alone, as the folder is."""
    make_suite(place, copy_store("2026.9.6", tmp_path))
    same, other = (
        run(place, server),
        run(place, server, errs_in=("m1", "m2", "m3", "m8", "m13", "m20")),
    )
    compared = clawgauge(place, "compare", same.folder.name, other.folder.name)
    assert "agreement" in compared.stdout
    gate = clawgauge(
        place, "compare", same.folder.name, other.folder.name, "--fail-on", "agreement<-0.05"
    )
    assert gate.code == 1, gate.stderr
    routed = clawgauge(place, "route", same.folder.name)
    assert (
        "too few sessions to say more; about 20 would tell"
        in (same.folder / "routing_openclaw.md").read_text()
    )
    assert "fake:scripted-model agrees in 34 of 34 turns of 6 sessions" in routed.stderr
    clawgauge(place, "summarize", same.folder.name)
    (place / "report.html").write_text("for everyone")
    (place / "report.html").chmod(0o644)
    clawgauge(place, "report", same.folder.name, "-o", "report.html")
    assert modes(same.folder) == {0o600}
    assert stat.S_IMODE((place / "report.html").stat().st_mode) == 0o600
    assert "Agreement" in (place / "report.html").read_text()


def test_what_is_your_own_goes_elsewhere_only_with_your_yes(
    place: Path, server: ScriptedServer, tmp_path: Path
) -> None:
    make_suite(place, copy_store("2026.7.1", tmp_path), "--max", "3")
    table = f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\napi_key_env = "FAKE_KEY"\n'
    (place / "clawgauge.toml").write_text(table)
    server.reply_with(ReferenceModel(place / "mine.toml"))
    words = ["run", "-t", "fake:scripted-model", "-s", "mine.toml", "--config", "clawgauge.toml"]
    refused = clawgauge(place, *words, env={"FAKE_KEY": "k-123"})
    assert refused.code == 2
    assert "--yes" in refused.stderr and not server.calls
    assert not (place / "runs").exists()
    assert clawgauge(place, *words, "--yes", env={"FAKE_KEY": "k-123"}).code == 0
    assert len(server.calls) == 3


@pytest.mark.slow
def test_secrets_and_names_of_a_history_appear_nowhere(
    place: Path, server: ScriptedServer, tmp_path: Path
) -> None:
    talk = [
        user(
            f"My key is {CANARY} and password: {PASSWORD}. Mail bob.smith@corp.example.org or +49 170 1234567."
        ),
        answer("Noted."),
        user("Look at 93.184.216.34 and https://git.acme-internal.io/x for Bob Smith."),
        answer("", ("web_fetch", {"url": "https://git.acme-internal.io/x"})),
        result(f"It says {CANARY}"),
        answer("Bob Smith owns it, ana."),
        user("Send it."),
        answer(
            "", ("exec", {"command": f"curl -H 'x-api-key: {CANARY}' https://git.acme-internal.io"})
        ),
        result("ok"),
    ]
    talk += [user(f"The gateway's word is {WORD}."), answer("Noted.")]
    state = write_lines(tmp_path / "state", as_records(talk))
    (state / "openclaw.json").write_text(json.dumps({"gateway": {"auth": {"token": WORD}}}))
    made = make_suite(place, state, "--redact-names", "Bob Smith")
    assert "3 masked secrets" in made.stderr
    done = run(place, server)
    clawgauge(place, "report", done.folder.name, "-o", "report.html")
    held = "".join(
        path.read_text("utf-8", "replace")
        for path in place.rglob("*")
        if path.is_file() and state not in path.parents
    )
    private = [
        CANARY,
        PASSWORD,
        WORD,
        "bob.smith",
        "1234567",
        "93.184.216.34",
        "acme-internal",
        "Bob",
        "Smith",
        "/home/ana",
    ]
    assert [word for word in private if word in held.replace(str(tmp_path), "")] == []
    assert "https://host1.example/x" in (place / "mine.toml").read_text()


def test_the_keys_that_openclaw_keeps_beside_its_settings_are_masked_too(
    place: Path, tmp_path: Path
) -> None:
    """In a file that the settings include, in .env, in an agent's logins; and what cannot be read is said."""
    next_one = [
        user("Thanks, what is next?"),
        answer("", ("read", {"path": "a"})),
        result("x"),
        answer("Lunch."),
    ]
    keys = [f"plum-orchard-gate-{n}-lantern7" for n in range(7)]
    talk = [
        part
        for key in keys
        for part in (user(f"Is {key} still the word?"), answer(f"It is {key}, yes."))
    ]
    state = write_lines(tmp_path / "state", as_records([*talk, *next_one], "s2"))
    (state / "openclaw.json").write_text("{ broken")
    (tmp_path / "mine.json").write_text('{"$include": "more.json"}')
    (tmp_path / "more.json").write_text(json.dumps({"gateway": {"auth": {"token": keys[0]}}}))
    (state / ".env").write_text(
        f"export GATEWAY_TOKEN='{keys[1]}'\nOTHER_PASSWORD={keys[2]} # mine\n"
    )
    write_database(state, [])
    with closing(sqlite3.connect(database_of(state))) as connection, connection:
        connection.execute("CREATE TABLE auth_profile_store (store_key, store_json, updated_at)")
        login = json.dumps({"profiles": {"x": {"type": "token", "token": keys[4]}}})
        connection.execute("INSERT INTO auth_profile_store VALUES ('primary', ?, 1)", (login,))
    (state / "credentials").mkdir()
    (state / "credentials/chat.json").write_text(json.dumps({"token": keys[5]}))
    (state / "agents/main/agent/models.json").write_text(
        json.dumps({"providers": {"x": {"apiKey": keys[6]}}})
    )
    (state / "agents/main/agent/auth-profiles.json").write_text(
        json.dumps({"profiles": {"x": {"key": keys[3]}}})
    )
    words = ["suites", "from-openclaw", "-o", "mine.toml", "--state-dir", str(state)]
    made = clawgauge(place, *words, env={"OPENCLAW_CONFIG_PATH": str(tmp_path / "mine.json")})
    assert made.code == 0, made.stderr
    held = (place / "mine.toml").read_text()
    assert "Lunch" not in held and "what is next" in held
    assert [key for key in keys if key in held] == []
    assert "openclaw.json cannot be read" in made.stderr


def test_turns_with_secrets_take_no_other_turns_place(place: Path, tmp_path: Path) -> None:
    def read(what: str, where: str) -> list[dict[str, Any]]:
        return [
            user(f"Read the note about {what}"),
            answer("", ("read", {"path": where})),
            result("x"),
            answer("So."),
        ]

    words = ["tea", "milk", "rice", "salt"]
    talk = [
        part
        for word in words
        for part in (*read(f"{word}, password: {word}7", "b"), *read(word, f"{word}.md"))
    ]
    made = make_suite(place, write_lines(tmp_path / "state", as_records(talk)), "--max", "8")
    assert "8 turns" in made.stderr and "8 masked secrets" in made.stderr


def test_whatever_a_history_holds_the_suite_is_one_that_can_be_run(
    place: Path, tmp_path: Path
) -> None:
    """What a suite cannot hold is left out and told; tools whose names differ in case alone are one."""
    talk = [user("Read a"), answer("", ("Read", {"path": "a"})), result("x"), answer("It says x.")]
    talk += [user("And b"), answer("", ("read", {"path": "b"})), result("y"), answer("It says y.")]
    many = [answer("", *[("ls", {"path": f"p{n}"}) for n in range(101)])]
    talk += [user("All of it"), *many, *(result("ok", n) for n in range(101))]
    for n in ([None, 1], [10**30], json.loads("[" * 450 + "]" * 450)):
        talk += [user("Go on"), answer("", ("x", {"n": n})), result("ok"), answer("Done.")]
    made = make_suite(place, write_lines(tmp_path / "state", as_records(talk)))
    assert "7 calls that a suite cannot hold" in made.stderr
    checked = clawgauge(place, "suites", "check", "mine.toml")
    assert checked.code == 0, checked.stderr
    assert "agreement 4" in checked.stdout


@pytest.mark.slow
@every_row(
    "words, said",
    [
        (["-o", "mine.json"], "TOML"),
        (["-o", "mine.toml", "--max", "0"], "--max 200"),
        (["-o", "mine.toml", "--since", "soon"], "30d"),
        (["-o", "mine.toml", "--since", "2099-01-01"], "no turn"),
        (["-o", "mine.toml", "--agent", "nobody"], "nobody"),
        (["-o", "mine.toml", "--state-dir", "nowhere"], "--state-dir"),
        (["-o", "mine.toml", "--capture", "nothing.json"], "no such file"),
        (["-o", "no/such/folder/mine.toml"], "cannot write"),
    ],
)
def test_what_cannot_be_made_is_said_in_a_sentence(
    tmp_path: Path, words: list[str], said: str
) -> None:
    state = copy_store("2026.7.1", tmp_path)
    done = clawgauge(
        tmp_path, "suites", "from-openclaw", *words, env={"OPENCLAW_STATE_DIR": str(state)}
    )
    assert done.code == 2
    assert said.lower() in done.stderr.lower()
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.slow
def test_a_captured_request_gives_the_system_prompt_and_the_tools(
    place: Path, tmp_path: Path
) -> None:
    read: dict[str, Any] = {
        "name": "read",
        "description": "Read a file.",
        "parameters": {"type": "object"},
    }
    captured = {
        "version": 1,
        "system": "You are Ana's assistant.",
        "tools": [{"type": "function", "function": read}],
    }
    (place / "context.json").write_text(json.dumps(captured))
    make_suite(place, copy_store("2026.7.1", tmp_path), "--capture", "context.json")
    shown = json.loads(clawgauge(place, "suites", "show", "mine.toml", "--json").stdout)["prompts"]
    assert {one["system"] for one in shown} == {"You are Ana's assistant."}
    assert {one["validator"]["tools_source"] for one in shown} == {"captured"}
    offered = {tool["function"]["name"]: tool["function"] for tool in shown[0]["tools"]}
    assert offered["read"]["description"] == "Read a file."
    assert {"exec", "edit", "memory_get"} <= set(offered)


@pytest.mark.slow
def test_ctrl_c_ends_the_reading_of_a_store_without_an_end(tmp_path: Path) -> None:
    state = write_database(tmp_path / "state", [])
    link_endlessly(database_of(state))
    with started(
        tmp_path, "suites", "from-openclaw", "-o", "mine.toml", "--state-dir", str(state)
    ) as process:
        # Loading takes a part of a second, and nothing but SQLite takes more.
        wait_until(lambda: psutil.Process(process.pid).cpu_times().user > 3)
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
    assert code == 130 and "Traceback" not in err, err
    assert not (tmp_path / "mine.toml").exists()


def test_a_store_that_hides_an_endless_view_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """A full-text index, by the name of a table that OpenClaw has, whose rows are those of the view."""
    state = write_database(tmp_path / "state", [])
    with closing(sqlite3.connect(database_of(state))) as connection, connection:
        connection.executescript(
            """DROP TABLE transcript_events;
            CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                SELECT i AS id, 's1' AS session_id, i AS seq, '{}' AS event_json FROM n;
            CREATE VIRTUAL TABLE transcript_events
                USING fts5(session_id, seq, event_json, content='endless', content_rowid='id');"""
        )
    done = clawgauge(
        tmp_path, "suites", "from-openclaw", "-o", "mine.toml", "--state-dir", str(state)
    )
    assert done.code == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "transcript_events in it is not the plain table that OpenClaw has" in done.stderr
