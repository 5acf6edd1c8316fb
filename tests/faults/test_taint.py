"""Canary secrets at every offset around every limit of every field a server can fill: no piece of one is left anywhere.

The canaries are drawn anew each time, and printed where one is found. They have no shape by which a key could be
guessed, are 20 to 120 characters long, and hold what URLs and JSON have to escape.
"""

from __future__ import annotations

import json
import os
import random
import string
from base64 import b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from support.command import Outcome, clawgauge, read_records, write_suite
from support.fake_claude import install_fake_claude
from support.scripted_server import (
    Html200,
    ReceivedRequest,
    Reply,
    ScriptedServer,
    Status,
    StreamError,
    Text,
)
from support.slow_rest import slow_rest

ALPHABET = string.ascii_letters + string.digits + "/+=?&#\"\\<>'{}~!"
PIECE = 8


DELIMITERS = frozenset("\"'<>&,;:)}]")


def canary(n_chars: int) -> str:
    """Letters, digits and awkward characters, drawn by lot, with no word in it."""
    drawn = random.SystemRandom().choices(ALPHABET, k=n_chars - 2)
    return "".join(["Q", *drawn, "7"])


def plain(text: str) -> str:
    """A text without what escaping adds, so that one comparison finds a canary in any spelling."""
    return unquote(text).replace("\\", "").lower()


def pieces(secrets: Iterable[str]) -> set[str]:
    """Without those that end in what may as well end the text around them: seven characters may be left of a key."""
    wholes = [plain(secret) for secret in secrets]
    found = {whole[at : at + PIECE] for whole in wholes for at in range(len(whole) - PIECE + 1)}
    return {piece for piece in found if piece[0] not in DELIMITERS and piece[-1] not in DELIMITERS}


def assert_untainted(place: Path, secrets: Iterable[str], *outcomes: Outcome) -> None:
    """No piece of a canary in what was printed, in any file but the configuration's own, nor in the name of one."""
    secrets = list(secrets)
    tainted = pieces(secrets)
    texts = {f"what was printed, {n}": done.stdout + done.stderr for n, done in enumerate(outcomes)}
    for path in place.rglob("*"):
        if path.is_file() and path.name not in ("clawgauge.toml", "behaviour.json"):
            texts[str(path)] = path.read_bytes().decode("utf-8", "replace")
    for name, text in texts.items():
        shown = plain(name + text)
        found = [piece for piece in tainted if piece in shown]
        assert found == [], f"{name} holds {found[:3]} of {secrets}"
    for done in outcomes:
        assert "Traceback" not in done.stderr


def cut_at(limit: int, key: str, visible: int) -> str:
    """A text in which a limit leaves so many characters of the key to be seen."""
    return "." * (limit - visible) + key + " and more"


Field = Callable[[str], Reply]
FIELDS: dict[str, tuple[tuple[int, ...], Field]] = {
    "an error's words": ((2000, 2048, 500, 65_536), lambda text: Status(400, message=text)),
    "an error that is no JSON": ((2000, 65_536), lambda text: Status(500, body=text.encode())),
    "an error event": ((1973, 2000, 2048), lambda text: StreamError(500, message=text)),
    "an error after text": ((2000,), lambda text: StreamError(500, after_text="so far", message=text)),
    "a web page": ((200, 2000), lambda text: Html200(text.encode())),
    "a header": ((256,), lambda text: Status(500, headers={"X-Echo": text})),
    "the answer": ((60, 200, 65_536), Text),
    "the answer as JSON": ((65_536 - 9,), lambda text: Text(json.dumps({"it": text}))),
    "the answer as JSON in JSON": ((65_536 - 20,), lambda text: Text(json.dumps({"it": json.dumps([text])}))),
    "the answer in an address": ((65_536,), lambda text: Text(quote(text, safe=".").replace("%20", " "))),
    "the answer in pieces": ((65_536,), lambda text: Text(chunks=[text[:-60], *text[-60:]])),
    "the reasoning": ((65_536,), lambda text: Text("yes", reasoning=text)),
    "a refusal": ((2048,), lambda text: Text(None, refusal=text, finish="stop")),
    "the model's name": ((256,), lambda text: Text("yes", model=text)),
    "the reason to stop": ((256,), lambda text: Text("yes", finish=text)),
    "a tool's name": ((256,), lambda text: Text("", tool_calls=[(text, "{}")])),
    "a tool's arguments": ((16_384,), lambda text: Text("", tool_calls=[("look", json.dumps({"a": text, text: 1}))])),
    "broken arguments": ((16_384,), lambda text: Text("", tool_calls=[("look", f'{{"a": "{text}')])),
}  # fmt: skip


def replies(key: str, n_visible: Iterable[int]) -> list[Reply]:
    """Every field, cut at each of its limits with so many characters of the key to be seen."""
    made = [
        make(cut_at(n, key, seen))
        for seen in n_visible
        for limits, make in FIELDS.values()
        for n in limits
    ]
    for at in n_visible:
        halves = key[:at], key[at:]
        made.append(Text(halves[0], reasoning=halves[1], model=f"m {halves[0]}", finish=halves[1]))
        made.append(Text(f"{key.upper()} {key.lower()} {b64encode(key.encode()).decode()}"))
    return made


def run_tainted(place: Path, server: ScriptedServer, key: str, n_visible: Iterable[int]) -> None:
    made = replies(key, list(n_visible))
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\napi_key_env = "MY_SERVER_KEY"\n'
    )
    expected = {"type": "exact", "value": "no"}
    write_suite(
        place / "small.json",
        *({"prompt": f"question {n}", "validator": expected} for n in range(len(made))),
    )
    rest = iter(made)
    server.reply_with(lambda request: next(rest))
    env = {"MY_SERVER_KEY": key}
    words = (
        "-t",
        "fake:scripted-model",
        "-s",
        "small.json",
        "--max-retries",
        "0",
        "--concurrency",
        "8",
    )
    done = clawgauge(
        place, "run", "--config", "clawgauge.toml", *words, "--run-id", "r", "--json", env=env
    )
    assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {key}"}, (
        done.stderr
    )
    records = read_records(place / "runs" / "r")
    assert len(records) == len(made) and json.loads(done.stdout)["run_id"] == "r"
    assert sum(bool(record["warnings"]) for record in records) > len(made) // 4
    looks = [
        clawgauge(place, "show", "latest"),
        clawgauge(place, "report", "latest", "-o", "report.html"),
        clawgauge(place, "export", "latest", "-o", "all.csv", "--excel-safe"),
        clawgauge(place, "route", "latest", "-o", "patch.json"),
    ]
    assert [look.code for look in looks] == [0, 0, 0, 0], [look.stderr for look in looks]
    assert_untainted(place, [key], done, *looks)


@pytest.mark.parametrize(
    "drawn_once", slow_rest(["", "Qzgjz'J/Z/'kdaqY17IgSxqS1wV>iQ=Q}sbDu=I1L86vgOo0\\77"], every=2)
)
def test_a_key_cut_by_any_limit(place: Path, server: ScriptedServer, drawn_once: str) -> None:
    """With one character of it cut off, or all but eight, or half, wherever a server puts it; also one like words."""
    key = drawn_once or canary(51)
    run_tainted(place, server, key, (8, 9, len(key) // 2, len(key) - 1))


@pytest.mark.slow
@pytest.mark.parametrize("n_chars", [20, 33, 120])
def test_a_key_cut_at_every_offset(place: Path, server: ScriptedServer, n_chars: int) -> None:
    """The same with every number of characters before and behind the limit."""
    key = canary(n_chars)
    run_tainted(place, server, key, range(1, n_chars + 2, 1 if n_chars < 50 else 3))


def echo_all(secrets: list[str]) -> Callable[[ReceivedRequest], Reply]:
    """A server that repeats the secrets it was handed, and what it was asked for with."""

    def reply(request: ReceivedRequest) -> Reply:
        words = f"{request.target} {dict(request.headers)} {request.body!r} {' '.join(secrets)}"
        return Text(words, model=words) if len(request.target) % 2 else Status(400, message=words)

    return reply


def test_keys_in_an_address_in_settings_and_in_a_proxy(place: Path, server: ScriptedServer) -> None:
    """User-info, a word of the path, a query, extra_body and the user-info of a proxy are in no file and no line."""
    word = (
        "".join(random.SystemRandom().choices(string.ascii_letters + string.digits, k=40)) + "a1B2"
    )
    user, query, body, proxy = (canary(n) for n in (24, 40, 30, 28))
    address = server.v1_url.replace("://", f"://me:{quote(user, safe='')}@").replace(
        "/v1", f"/{word}/v1"
    )
    listed = f"sk-{word[::-1]}"
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{address}?sig={quote(query, safe="")}"\n'
        f"[providers.fake.extra_body]\nroute = {{ x_token = {json.dumps(body)} }}\nlist = ['{listed}']\n"
    )
    secrets = [
        word,
        user,
        query,
        body,
        proxy,
        word[::-1],
        b64encode(f"me:{user}".encode()).decode(),
    ]
    server.reply_with(echo_all(secrets))
    write_suite(place / "small.json", *({"prompt": f"question {n}"} for n in range(4)))
    env = {"HTTPS_PROXY": f"u:{quote(proxy, safe='')}@127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    words = (
        "run",
        "--config",
        "clawgauge.toml",
        "-t",
        "fake:scripted-model",
        "-s",
        "small.json",
        "--max-retries",
        "0",
    )
    done = clawgauge(place, *words, env=env)
    assert server.calls, done.stderr
    assert json.loads(server.calls[0].body)["list"] == [listed]
    config = json.loads((done.folder / "config.json").read_bytes())
    assert config["providers"]["fake"]["base_url"] == server.v1_url.replace("/v1", "/***/v1")
    assert config["providers"]["fake"]["extra_body"] == {
        "route": {"x_token": "***"},
        "list": ["***"],
    }
    again = clawgauge(
        place,
        "run",
        "--config",
        "clawgauge.toml",
        "--resume",
        done.folder.name,
        "--retry-errors",
        env=env,
    )
    assert again.code in (0, 3), again.stderr
    doctor = [
        clawgauge(place, "doctor", "--config", "clawgauge.toml", *more, env=env)
        for more in ((), ("--json",))
    ]
    assert_untainted(place, secrets, done, again, *doctor)


PROGRAMS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "stderr": lambda key, seen: {
        "stdout": b"",
        "stderr": f"{key} " + "." * (1999 - seen),
        "exit_code": 3,
    },
    "a long stderr": lambda key, seen: {
        "stdout": b"",
        "stderr": f"{key} " + "." * (65_535 - seen),
        "exit_code": 3,
    },
    "a result": lambda key, seen: {
        "result": {"is_error": True, "result": cut_at(2000, key, seen)},
        "exit_code": 1,
    },
    "no result": lambda key, seen: {
        "stdout": f"no JSON {cut_at(1992, key, seen)}\n".encode(),
        "exit_code": 1,
    },
}


def claude_run(place: Path, bin_dir: Path, key: str, behaviour: dict[str, Any]) -> Outcome:
    fake = install_fake_claude(bin_dir, **behaviour)
    env = {"ANTHROPIC_API_KEY": key, "PATH": f"{fake.bin_dir}{os.pathsep}{os.environ['PATH']}"}
    words = (
        "run",
        "-t",
        "claude_code_cli:opus",
        "-s",
        "small.json",
        "--prompt-ids",
        "P0",
        "--max-retries",
        "0",
    )
    done = clawgauge(place, *words, env=env)
    assert len(fake.calls) == 1
    return done


@pytest.mark.parametrize("program", slow_rest(PROGRAMS, every=3))
def test_a_key_cut_by_the_limits_of_a_program(place: Path, tmp_path: Path, program: str) -> None:
    """What the claude CLI prints on its stderr, whose end alone is kept, and in its result is no way out either."""
    key = canary(60)
    assert_untainted(
        place, [key], claude_run(place, tmp_path / "bin", key, PROGRAMS[program](key, 30))
    )


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_key_cut_at_every_offset_by_a_program(place: Path, tmp_path: Path, program: str) -> None:
    """The same with more and fewer characters left."""
    key = canary(40)
    made = [(tmp_path / f"bin{seen}", PROGRAMS[program](key, seen)) for seen in range(7, 41, 3)]
    assert_untainted(
        place, [key], *(claude_run(place, bin_dir, key, behaviour) for bin_dir, behaviour in made)
    )


def test_an_answer_is_masked_by_value_alone(place: Path, server: ScriptedServer) -> None:
    """What only looks like a key in an answer is the answer; the same words in an error are not shown."""
    shaped = "the header is Authorization: Bearer sk-abcdefgh12345678"
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    )
    write_suite(place / "small.json", {"prompt": shaped}, {"prompt": "b"})
    server.script(Text(shaped), Status(400, message=shaped))
    done = clawgauge(
        place, "run", "--config", "clawgauge.toml", "-t", "fake:scripted-model", "-s", "small.json"
    )
    first, second = done.records()
    assert (first["raw_output"], first["warnings"]) == (shaped, [])
    assert second["error"].endswith("Authorization: Bearer ***")
    assert json.loads((done.folder / "config.json").read_bytes())["prompts"][0]["prompt"] == shaped
