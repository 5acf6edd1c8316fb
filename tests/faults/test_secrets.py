"""Row 41: a canary key, wherever it is put and whoever repeats it, is in no file of a run and in no line on a terminal.

The canary has no shape by which a key could be guessed: it is found because it is known, or not at all.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.terminal import on_a_terminal
from support.command import Outcome, clawgauge, write_suite
from support.disguises import is_readable
from support.fake_claude import install_fake_claude
from support.scripted_server import (
    BadJson200,
    Html200,
    ReceivedRequest,
    Redirect,
    Reply,
    ScriptedServer,
    SseBytes,
    Status,
    StreamError,
    Text,
)
from support.slow_rest import slow_rest
from support.waiting import NO_SUCH_HOST

KEY = "Canary7/very+long\"and\\awkward'key=0123456789"
URL_PASSWORD = "canary8-in-the-url"
QUERY_KEY = "canary9-in-the-query"
KEY_ENV = {"MY_SERVER_KEY": KEY}
RUN = ("run", "-t", "fake:scripted-model", "-s", "small.json")


@pytest.fixture
def keyed(place: Path, server: ScriptedServer) -> Path:
    """The server wants a key, and the configuration names the variable that holds it."""
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\napi_key_env = "MY_SERVER_KEY"\n'
    )
    return place


def leaks(text: str) -> list[str]:
    """The canaries, or twelve characters in a row of one, in a text, as they stand or escaped as JSON escapes them."""
    basic = b64encode(f"me:{URL_PASSWORD}".encode()).decode()
    found = []
    for secret in (KEY, URL_PASSWORD, QUERY_KEY, basic):
        for form in (secret, json.dumps(secret)[1:-1]):
            found += [
                form[at : at + 12] for at in range(len(form) - 11) if form[at : at + 12] in text
            ]
    return found


def assert_silent(place: Path, *outcomes: Outcome) -> None:
    """No canary in what was printed, nor in any file below the runs folder, nor in the name of one."""
    for done in outcomes:
        assert leaks(done.stdout + done.stderr) == []
        assert "Traceback" not in done.stderr
    for path in (place / "runs").rglob("*"):
        assert leaks(str(path)) == []
        assert not path.is_file() or leaks(path.read_bytes().decode("utf-8", "replace")) == [], (
            path.name
        )


def echo(make: Callable[[str], Reply]) -> Callable[[ReceivedRequest], Reply]:
    """A server that repeats the key it was sent."""

    def reply(request: ReceivedRequest) -> Reply:
        sent = request.headers["authorization"].removeprefix("Bearer ")
        assert sent == KEY
        return make(sent)

    return reply


LONG = "x" * 1980
ECHOES: dict[str, Callable[[str], Reply]] = {
    "an error body": lambda key: Status(400, message=f"the key {key} is not welcome"),
    "an error body that is not JSON": lambda key: Status(500, body=f"Authorization: Bearer {key}\n".encode()),
    "a refused key": lambda key: Status(401, message=f"Incorrect API key provided: {key}"),
    "a rate limit": lambda key: Status(429, message=f"{key} is over its limit", headers={"Retry-After": "900"}),
    "an error cut in the key": lambda key: Status(400, message=f"{LONG} {key}"),
    "an error event": lambda key: StreamError(500, message=f"lost {key}"),
    "an error event after text": lambda key: StreamError(500, after_text="so far so good", message=f"lost {key}"),
    "a rate limit inside a stream": lambda key: StreamError(429, message=f"{key} is over its limit"),
    "a web page": lambda key: Html200(f"<p>{key}</p>".encode()),
    "broken JSON": lambda key: BadJson200(json.dumps({"oh": key}).encode()[:-1]),
    "an event that is no object": lambda key: SseBytes(f"data: {json.dumps([key])}\n\n".encode()),
    "a redirect": lambda key: Redirect(f"http://127.0.0.1:9/v1?key={key}"),
    "the model's name": lambda key: Text("yes", model=f"model {key}"),
    "the answer": lambda key: Text(f"your key is {key}."),
    "the answer in pieces": lambda key: Text(chunks=list(f"your key is {key}.")),
    "the reasoning": lambda key: Text("yes", reasoning=f"the key is {key}"),
    "a refusal": lambda key: Text(None, refusal=f"not for {key}", finish="stop"),
    "the reason to stop": lambda key: Text("yes", finish=f"stop {key}"),
    "a tool's name": lambda key: Text("", tool_calls=[(key, "{}")]),
    "a tool's arguments": lambda key: Text("", tool_calls=[("lookup", json.dumps({"key": key, key: 1}))]),
    "broken arguments": lambda key: Text("", tool_calls=[("lookup", f'{{"key": "{key}')]),
    "usage": lambda key: Text("yes", usage={"prompt_tokens": key, key: key}),
    "a header": lambda key: Status(500, headers={"X-Echo": key, "Server": key}),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_rest(ECHOES, every=3))
def test_row_41_a_server_that_repeats_the_key(
    keyed: Path, server: ScriptedServer, name: str
) -> None:
    """Whatever part of its reply holds the key, no file of the run and no line on the terminal shows it."""
    server.reply_with(echo(ECHOES[name]))
    done = clawgauge(keyed, *RUN, "--max-retries", "0", env=KEY_ENV)
    assert done.code in (0, 3), done.stderr
    assert server.calls and len(done.records()) == 4
    assert_silent(keyed, done)


DISGUISES: dict[str, Callable[[str], str]] = {
    "zero-width marks": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "NUL": "\x00".join,
    "carriage returns": "\r".join,
    "colours": "\x1b[31m".join,
    "window titles": "\x1b]0;x\x07".join,
    "a hidden window title": lambda key: f"\x1b]0;{key[:9]}\u200b{key[9:]}\x07",
    "accents": "\u0301".join,
    "direction marks": "\u202d".join,
    "halves of characters": "\ud800".join,
    "private characters": "\ue000".join,
    "percent signs": lambda key: "".join(f"%{ord(one):02x}" for one in key),
    "JSON escapes": lambda key: "".join(f"\\u{ord(one):04x}" for one in key),
    "HTML entities": lambda key: "".join(f"&#{ord(one)};" for one in key),
    "fullwidth letters": lambda key: "".join(
        chr(ord(one) + 0xFEE0) if one.isalnum() else one for one in key
    ),
    "base64": lambda key: b64encode(f"{key}".encode()).decode(),
    "base64 one further": lambda key: b64encode(f"x{key}".encode()).decode(),
    "base64 two further": lambda key: b64encode(f"xy{key}".encode()).decode(),
    "base64 in base64": lambda key: b64encode(b64encode(f"xy{key}".encode())).decode(),
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal with colons": lambda key: key.encode().hex(":").upper(),
}


@pytest.mark.parametrize("name", slow_rest(DISGUISES, every=4))
def test_row_41_a_key_in_disguise_is_on_no_disk_and_on_no_screen(
    keyed: Path, server: ScriptedServer, name: str
) -> None:
    """A server repeats the key so that it does not stand there as it is; no reader of ours puts it together again."""
    hide = DISGUISES[name]
    replies = [
        lambda key: Text(f"your key is {hide(key)}."),
        lambda key: Text(chunks=list(f"your key is {hide(key)}."), model=f"m {hide(key)}"),
        lambda key: Text(
            "", tool_calls=[("lookup", json.dumps({"key": hide(key)}))], reasoning=hide(key)
        ),
        lambda key: Status(400, message=f"the key {hide(key)} is not welcome"),
    ]
    rest = map(echo, replies)

    def reply(request: ReceivedRequest) -> Reply:
        return next(rest)(request)

    server.reply_with(reply)
    done = clawgauge(keyed, *RUN, "--max-retries", "0", env=KEY_ENV)
    assert len(done.records()) == 4, done.stderr
    looks = [
        ("show", "latest"),
        *(("show", "latest", f"P{n}") for n in range(4)),
        ("show", "latest", "P0", "--json"),
    ]
    looks += [("report", "latest", "-o", "report.html"), ("export", "latest", "-o", "all.csv")]
    screens = [done, *(clawgauge(keyed, *words) for words in looks)]
    texts = [screen.stdout + screen.stderr for screen in screens]
    for path in (*(keyed / "runs").rglob("*"), keyed / "report.html", keyed / "all.csv"):
        if path.is_file():
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    words = KEY.replace("\\", "")
    for text in texts:
        for line in text.split("\n"):
            # Code of the page itself is no answer, and takes long to decode.
            if len(line) < 100_000:
                assert not is_readable(line, words), line
                # What stands for a character that cannot be shown splits a key for no reader.
                assert not is_readable(line.replace("\ufffd", ""), words), line
    assert any("***" in text for text in texts)


def test_row_41_a_masked_answer_is_judged_as_it_came(keyed: Path, server: ScriptedServer) -> None:
    """The verdict is of the true answer, the record says that a key was withheld, and rescoring leaves it alone."""
    long_word = {"type": "regex_fullmatch", "pattern": "key: .{40,60} !"}
    write_suite(
        keyed / "small.json",
        {"prompt": "words", "validator": long_word},
        {"prompt": "json", "validator": {"type": "json_keys", "required_keys": ["it"]}},
        {"prompt": "other", "validator": {"type": "exact", "value": "fine"}},
    )
    server.script(Text(f"key: {KEY} !"), Text(json.dumps({"it": KEY})), Text("fine"))
    done = clawgauge(keyed, *RUN, env=KEY_ENV)
    first, second, third = done.records()
    assert first["raw_output"] == "key: *** !" and first["objective_pass"] is True
    assert second["parsed_output"] == {"it": "***"} and second["objective_pass"] is True
    assert first["raw_output_bytes"] == len(f"key: {KEY} !")
    for record in (first, second):
        assert record["warnings"][-1].startswith("key_withheld: ")
    assert third["warnings"] == []
    assert "key_withheld" in done.stderr
    stricter = {"type": "exact", "value": "key: *** !"}
    questions = [
        {"prompt": question, "validator": stricter} for question in ("words", "json", "other")
    ]
    write_suite(keyed / "other.json", *questions, name="small")
    again = clawgauge(keyed, "rescore", "latest", "--suite", "other.json")
    assert again.code == 0 and "2 answers held a key" in again.stderr
    assert done.records()[0] == first
    looks = [
        ("show", "latest"),
        ("show", "latest", "P0"),
        ("show", "latest", "P0", "--json"),
        ("summarize", "latest"),
    ]
    assert_silent(keyed, done, again, *(clawgauge(keyed, *words) for words in looks))


@pytest.mark.parametrize("visible", [9, 12, 30, len(KEY) - 1])
def test_row_41_an_answer_cut_in_the_middle_of_a_key(
    keyed: Path, server: ScriptedServer, visible: int
) -> None:
    """Where the cap of 64 KB falls into the key, what is left of it goes too."""
    server.reply_with(Text(chunks=["x" * (65_536 - visible), KEY, " and more"]))
    done = clawgauge(keyed, *RUN, "--prompt-ids", "P0", env=KEY_ENV)
    (record,) = done.records()
    assert record["raw_output_truncated"] is True and record["raw_output"].endswith("xxx***")
    assert KEY[:8] not in record["raw_output"]


def test_row_41_a_key_inside_the_address(place: Path, server: ScriptedServer) -> None:
    """User-info and `?key=` reach the server and nothing else, even when it sends both back."""
    address = server.v1_url.replace("://", f"://me:{URL_PASSWORD}@") + f"?key={QUERY_KEY}"
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{address}"\n'
    )
    server.script(Text("yes"))
    server.reply_with(
        lambda request: Status(400, message=f"{address} {request.headers} {request.target}")
    )
    done = clawgauge(place, *RUN)
    first = server.calls[0]
    assert first.query == f"key={QUERY_KEY}"
    assert (
        first.headers["authorization"]
        == f"Basic {b64encode(f'me:{URL_PASSWORD}'.encode()).decode()}"
    )
    assert [r["failure_type"] for r in done.records()] == [None, "http_400", "http_400", "http_400"]
    config = json.loads((done.folder / "config.json").read_bytes())
    assert config["providers"]["fake"]["base_url"] == server.v1_url
    refused = clawgauge(place, "run", "-t", "fake:*", "-s", "small.json", env={"FAKE": "1"})
    assert_silent(
        place, done, refused, clawgauge(place, "doctor"), clawgauge(place, "doctor", "--json")
    )


def test_row_41_a_key_inside_the_path(place: Path, server: ScriptedServer) -> None:
    """Where a gateway wants the key in the path, it is masked in config.json, and the run can still be resumed."""
    address = server.v1_url.replace("/v1", f"/{URL_PASSWORD}/v1")
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{address}"\n'
    )
    server.script(Text("yes"), Status(400))
    env = {"GATEWAY_TOKEN": URL_PASSWORD}
    done = clawgauge(place, *RUN, env=env)
    again = clawgauge(place, "run", "--resume", done.folder.name, "--retry-errors", env=env)
    assert again.code == 0, again.stderr
    assert len(server.calls) == 5 and {call.path for call in server.calls} == {
        f"/{URL_PASSWORD}/v1/chat/completions"
    }
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{address}/else"\n'
    )
    refused = clawgauge(place, "run", "--resume", done.folder.name, env=env)
    assert refused.code == 2 and "/***/v1/else" in refused.stderr
    assert_silent(place, done, again, refused)


def test_row_41_a_dead_address_with_a_key_in_it(place: Path) -> None:
    """A server that cannot be reached, a name that cannot be found and a port that is none tell no key either."""
    for host in ("127.0.0.1:9", NO_SUCH_HOST, "127.0.0.1:99999"):
        (place / "clawgauge.toml").write_text(
            f'[providers.fake]\ntype = "openai_chat"\nbase_url = "http://me:{URL_PASSWORD}@{host}/v1?key={QUERY_KEY}"\n'
        )
        listed = clawgauge(place, "run", "-t", "fake:*", "-s", "small.json")
        assert_silent(place, clawgauge(place, *RUN), listed, clawgauge(place, "doctor"))


def test_row_41_config_names_the_variable(keyed: Path, server: ScriptedServer) -> None:
    """config.json says which variable holds the key; the key itself went to the server alone."""
    done = clawgauge(keyed, *RUN, env=KEY_ENV)
    assert {call.headers["authorization"] for call in server.calls} == {f"Bearer {KEY}"}
    config = json.loads((done.folder / "config.json").read_bytes())
    assert config["providers"]["fake"]["api_key_env"] == "MY_SERVER_KEY"
    assert_silent(keyed, done)


def test_row_41_servers_that_name_things_after_the_key(place: Path) -> None:
    """A key among the installed models, the loaded ones or the version is masked in inventory and snapshots too."""
    hostile = f"model-{KEY}"
    with ScriptedServer(dialect="ollama", models=["good:1b", hostile], loaded=[hostile]) as ollama:
        ollama.route("/api/version", Status(200, {"version": KEY}))
        env = {**KEY_ENV, "OLLAMA_HOST": ollama.base_url}
        done = clawgauge(place, "run", "-t", "ollama_openai:good:1b", "-s", "small.json", env=env)
        refused = clawgauge(place, "run", "-t", "ollama_openai:*", "-s", "small.json", env=env)
        doctor = clawgauge(place, "doctor", env=env)
        as_json = clawgauge(place, "doctor", "--json", env=env)
    assert done.code == 0
    assert "model-***" in (done.folder / "inventory.json").read_text()
    assert "model-***" in next(done.folder.glob("resources_*_before.txt")).read_text()
    assert refused.code == 2 and "MY_SERVER_KEY" in refused.stderr
    assert_silent(place, done, refused, doctor, as_json)


@pytest.mark.parametrize(
    "words",
    [
        ("-t", f"fake:{KEY}"),
        ("-t", f"{KEY}:scripted-model"),
        ("-t", "fake:scripted-model", "--run-id", KEY.replace("/", "").replace('"', "")),
        ("-t", "fake:scripted-model", "--runs-dir", f"runs/{KEY}"),
        ("-t", "fake:scripted-model", "--config", f"{KEY}.toml"),
        ("-t", "fake:scripted-model", "-s", f"{KEY}.json"),
        ("-t", "fake:scripted-model", "--prompt-ids", KEY),
        ("-t", "fake:scripted-model", "--resume", KEY),
    ],
    ids=lambda words: words[-2] if words[-2] != "-t" else words[-1].replace(KEY, "KEY"),
)
def test_row_41_a_key_on_the_command_line(
    keyed: Path, server: ScriptedServer, words: tuple[str, ...]
) -> None:
    """A key pasted into an option is refused before anything is sent or written, by its variable's name alone."""
    env = {**KEY_ENV, "OTHER_KEY": KEY.replace("/", "").replace('"', "")}
    done = clawgauge(keyed, "run", "-s", "small.json", *words, env=env)
    assert done.code == 2 and ("MY_SERVER_KEY" in done.stderr or "OTHER_KEY" in done.stderr)
    assert KEY[8:20] not in done.stderr + done.stdout
    assert server.requests == [] and not (keyed / "runs").exists()


def test_row_41_a_key_in_a_prompt(keyed: Path, server: ScriptedServer) -> None:
    """A prompt that holds a key is refused by its place: it would be sent, and written down, as it is."""
    write_suite(keyed / "small.json", {"prompt": "fine"}, {"prompt": f"log in with {KEY}"})
    done = clawgauge(keyed, *RUN, env=KEY_ENV)
    assert done.code == 2 and "small/P1" in done.stderr and "MY_SERVER_KEY" in done.stderr
    assert server.requests == []
    assert_silent(keyed, done)


@pytest.mark.parametrize("table", [f'api_key = "{URL_PASSWORD}"', f'extra_body = {{ api_key = "{URL_PASSWORD}" }}',
                                   f'extra_body = {{ a = [{{ token = "{URL_PASSWORD}" }}] }}'])  # fmt: skip
def test_row_41_a_key_written_into_the_configuration(
    place: Path, server: ScriptedServer, table: str
) -> None:
    """A key in clawgauge.toml is refused and not repeated; the sentence says how to name it instead."""
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n{table}\n'
    )
    done = clawgauge(place, *RUN)
    assert done.code == 2 and "api_key_env" in done.stderr and server.requests == []
    assert_silent(place, done)


def test_row_41_the_claude_cli_blurts_out_its_key(place: Path, tmp_path: Path) -> None:
    """A key in the CLI's answer, on its stderr and in its error result is masked like a server's."""
    for number, behaviour in enumerate(
        (
            {"canary": KEY},
            {
                "canary": KEY,
                "result": {"is_error": True, "result": f"API Error: {KEY}"},
                "exit_code": 1,
            },
            {"stdout": f"not JSON: {KEY}\n".encode(), "stderr": f"{KEY}\n", "exit_code": 1},
            {"stdout": b"", "stderr": "e" * 65_000 + f" {KEY} " + "f" * 520, "exit_code": 3},
        )
    ):
        fake = install_fake_claude(tmp_path / f"bin{number}", **behaviour)
        env = {"ANTHROPIC_API_KEY": KEY, "PATH": f"{fake.bin_dir}{os.pathsep}{os.environ['PATH']}"}
        done = clawgauge(
            place,
            "run",
            "-t",
            "claude_code_cli:opus",
            "-s",
            "small.json",
            "--prompt-ids",
            "P0",
            env=env,
        )
        assert len(fake.calls) == 1 and KEY not in " ".join(fake.calls[0].argv)
        assert_silent(
            place,
            done,
            clawgauge(place, "show", "latest", "P0"),
            clawgauge(place, "doctor", env=env),
        )


PLUGIN = """
from clawgauge.providers.base import Provider

class Careless(Provider):
    def fail(self):
        raise RuntimeError(f"cannot log in with {self.settings.environ['MY_SERVER_KEY']!r}: {self.settings.environ}")

    async def attempt(self, call, sink):
        self.fail()

class Hopeless(Careless):
    async def probe(self):
        self.fail()

def careless(settings):
    return Careless(settings)

def hopeless(settings):
    return Hopeless(settings)
"""


@pytest.fixture
def plugin_env(tmp_path: Path) -> dict[str, str]:
    """An environment with a plug-in of two providers whose errors hold the key."""
    info = tmp_path / "plugins" / "careless-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "plugins" / "careless.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: careless\nVersion: 1.0\n")
    points = "[clawgauge.providers]\ncareless = careless:careless\nhopeless = careless:hopeless\n"
    (info / "entry_points.txt").write_text(points)
    return {**KEY_ENV, "PYTHONPATH": str(tmp_path / "plugins")}


def test_row_41_an_exception_that_carries_the_key(place: Path, plugin_env: dict[str, str]) -> None:
    """A defect in a provider whose message holds the key becomes a record without it, not a traceback with it."""
    done = clawgauge(place, "run", "-t", "careless:m", "-s", "small.json", env=plugin_env)
    assert {r["failure_type"] for r in done.records()} == {"exception"}
    assert "RuntimeError: cannot log in with" in done.records()[0]["error"]
    assert_silent(place, done)


@pytest.mark.parametrize(
    "words", [("run", "-t", "hopeless:m", "-s", "small.json"), ("doctor",)], ids=["run", "doctor"]
)
def test_row_41_a_traceback_that_carries_the_key(
    place: Path, plugin_env: dict[str, str], words: tuple[str, ...]
) -> None:
    """Even a defect that ends the program, which shows where it is, does not show the key."""
    done = clawgauge(place, *words, env=plugin_env)
    assert done.code == 70
    assert (
        "RuntimeError: cannot log in with" in done.stderr and leaks(done.stderr + done.stdout) == []
    )


@pytest.mark.parametrize("placeholder", ["ollama", "not-needed", "lm-studio", "EMPTY", "12345678"])
def test_row_41_a_placeholder_is_no_key(
    keyed: Path, server: ScriptedServer, placeholder: str
) -> None:
    """A word that stands where no key is needed is an ordinary word: answers and targets keep it."""
    server.reply_with(Text(f"run {placeholder} list"))
    done = clawgauge(keyed, *RUN, env={"MY_SERVER_KEY": placeholder, "OPENAI_API_KEY": placeholder})
    assert done.code == 0
    assert {(r["raw_output"], tuple(r["warnings"])) for r in done.records()} == {
        (f"run {placeholder} list", ())
    }


def test_row_41_resuming_keeps_the_secret(keyed: Path, server: ScriptedServer) -> None:
    """What a resumed or refilled run writes is masked as well, superseded lines included."""
    server.reply_with(echo(lambda key: Status(400, message=key)))
    first = clawgauge(keyed, *RUN, env=KEY_ENV)
    server.reply_with(echo(Text))
    again = clawgauge(keyed, "run", "--resume", first.folder.name, "--retry-errors", env=KEY_ENV)
    assert {r["raw_output"] for r in again.records()} == {"***"}
    assert (first.folder / "superseded.jsonl").read_bytes().count(b"***") >= 4
    assert_silent(keyed, first, again)


def test_row_41_a_live_table_shows_no_key(keyed: Path, server: ScriptedServer) -> None:
    """On a real terminal, where the table is drawn, the key is not drawn either."""
    server.reply_with(echo(lambda key: Status(503, message=key)))
    drawn = on_a_terminal(keyed, *RUN, "--max-retries", "1", env=KEY_ENV)
    assert b"http_503" in drawn and leaks(drawn.decode("utf-8", "replace")) == []
