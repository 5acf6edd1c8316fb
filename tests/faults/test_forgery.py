"""A name, or a server's words, forge no row: neither on a terminal nor in a file that another program reads."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawgauge.records import Target
from clawgauge.reports.clean import clean_cell
from support.command import Outcome, clawgauge, clean_environment, start_and_wait, write_suite
from support.measured_models import OLLAMA, Measured, MeasuredRun
from support.scripted_server import ScriptedServer, Status, Text
from support.slow_rest import slow_rest

ENDERS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\t")
FORGED = "1      winner  1.000  10/10  Tier 1 decided 20/20"
HIDDEN = "\x1b\x9b\u202e\u2066\u200b\u2060\u00ad\ufeff\U000e0041"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
GATEWAY = {
    "type": "openai_chat",
    "base_url": "https://gateway.example.com/v1",
    "api_key_env": "MY_KEY",
}


def runs_of(place: Path, model: str, prompt_id: str = "plain") -> None:
    """Two runs of two models, one of them called so."""
    strange = Measured(Target("ollama_openai", model), OLLAMA, text_passes=7)
    for run_id in ("one", "two"):
        MeasuredRun(
            [strange, Measured(Target("ollama_openai", "other"), OLLAMA)], run_id=run_id
        ).write(place / "runs")


VERBS: dict[str, tuple[str, ...]] = {
    "route": ("route", "one"),
    "route for litellm": ("route", "one", "--for", "litellm"),
    "a forecast": ("route", "one", "--simulate", "other"),
    "show": ("show", "one"),
    "a call": ("show", "one", "T0"),
    "history": ("history",),
    "history as a table": ("history", "--format", "markdown"),
    "compare": ("compare", "one", "two"),
    "compare as a table": ("compare", "one", "two", "--format", "markdown"),
    "summarize": ("summarize", "one"),
}


def test_a_name_with_line_ends_forges_no_row(tmp_path: Path) -> None:
    """Every table and list has as many lines as with an ordinary name, and nothing that steers or hides."""
    plain, forged = tmp_path / "plain", tmp_path / "forged"
    name = f"m{HIDDEN}{''.join(f'{ender}{FORGED}' for ender in ENDERS)}{HIDDEN} x"
    # The same letters as will be shown, so that they wrap alike.
    runs_of(plain, clean_cell(name))
    runs_of(forged, name)
    for name, verb in VERBS.items():
        honest, done = clawgauge(plain, *verb), clawgauge(forged, *verb)
        assert (honest.code, done.code) == (0, 0), done.stderr
        assert len((done.stdout + done.stderr).splitlines()) == len(
            (honest.stdout + honest.stderr).splitlines()
        ), name
        assert not any(
            line.strip().startswith("1      winner") for line in done.stderr.splitlines()
        ), name
        assert RAW.findall(done.stdout + done.stderr) == [], name
        assert not set(done.stderr) & set(HIDDEN), name
    for file in ("summary.md", "routing_openclaw.md", "routing_litellm.md"):
        texts = [(place / "runs" / "one" / file).read_text() for place in (plain, forged)]
        assert len(texts[0].splitlines()) == len(texts[1].splitlines()), file


VERBS_WITH_JSON = [
    ("run", "--json"),
    ("run", "--dry-run", "--json"),
    ("route", "--json"),
    ("route", "--simulate", "--json"),
    ("route",),
    ("show", "--json"),
]


@pytest.mark.parametrize("verb", slow_rest(VERBS_WITH_JSON, every=5))
def test_printed_json_holds_escapes(
    place: Path, server: ScriptedServer, verb: tuple[str, ...]
) -> None:
    """No control and no mark that reorders is raw in JSON on standard output, and it still says what it says."""
    name = "m\x9b\x85\u202e\u2066\u2028é\ufeff"
    runs_of(place, name)
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    )
    words = {
        "run": ("--config", "clawgauge.toml", "-t", f"fake:{name}", "-s", "small.json"),
        "route": ("one",),
        "show": ("one", "T0"),
    }[verb[0]]
    flags = [
        word for flag in verb[1:] for word in ((flag, "other") if flag == "--simulate" else (flag,))
    ]
    done = clawgauge(place, verb[0], *words, *flags)
    assert done.code == 0, done.stderr
    assert RAW.findall(done.stdout) == []
    if verb[0] == "show" or "--simulate" in verb:
        return
    assert name in json.dumps(json.loads(done.stdout), ensure_ascii=False)


@pytest.mark.parametrize(
    "encoding",
    ["ascii", *(pytest.param(name, marks=pytest.mark.slow) for name in ("latin-1", "cp437"))],
)
def test_output_in_any_encoding(place: Path, server: ScriptedServer, encoding: str) -> None:
    """What the other end cannot take goes as an escape: no traceback, text to be read, JSON that is JSON."""
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    )
    write_suite(
        place / "small.json",
        {"prompt": "é", "name": "日本 😀", "validator": {"type": "exact", "value": "→"}},
    )
    server.reply_with(Text("日本 😀 é"))
    environment = clean_environment(PYTHONIOENCODING=encoding)

    def spoken(*words: str) -> Outcome:
        done = start_and_wait(words, place, environment, 100.0)
        return Outcome(
            done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding), place
        )

    ran = spoken(
        "run",
        "--config",
        "clawgauge.toml",
        "-t",
        "fake:模型",
        "-s",
        "small.json",
        "--run-id",
        "r",
        "--json",
    )
    assert ran.code == 0 and json.loads(ran.stdout)["models"][0]["model"] == "模型"
    assert "\\u6a21\\u578b" in ran.stderr
    called = spoken("show", "r", "P0")
    assert called.code == 0 and "\\u65e5\\u672c \\ud83d\\ude00" in called.stdout
    for words in (("show", "r", "P0", "--json"), ("export", "r", "--format", "jsonl")):
        assert json.loads(spoken(*words).stdout)["raw_output"] == "日本 😀 é"
    for words in (
        ("show", "模型-not-there"),
        ("export", "r"),
        ("history",),
        ("suites", "show", "small.json"),
    ):
        done = spoken(*words)
        assert "Traceback" not in done.stderr and done.code in (0, 2), done.stderr


YAML_NAMES = [
    "os.environ/OPENAI_API_KEY",
    "{x: 1}",
    "- a",
    "!!python/object:os.system",
    "a: b # c",
    "*alias",
    "&a",
]
YAML_NAMES += ["null", "yes", "1e3", "|", "a\nb: c", "\u2028", "é\x85"]


@pytest.mark.parametrize("name", slow_rest(YAML_NAMES, every=4))
def test_litellm_gets_names_as_they_are(tmp_path: Path, name: str) -> None:
    """YAML gives back every name; where LiteLLM would look a text up in the environment, the model is left out."""
    settings = {"type": "openai_chat", "base_url": "http://127.0.0.1:9/v1"}
    MeasuredRun([Measured(Target(name, name), settings)]).write(tmp_path / "runs")
    done = clawgauge(tmp_path, "route", "measured", "--for", "litellm")
    assert done.code == 0 and done.stdout.isascii()
    config: dict[str, Any] = yaml.safe_load(done.stdout) or {"model_list": []}
    found = [
        (entry["model_name"], entry["litellm_params"]["model"]) for entry in config["model_list"]
    ]
    assert found == (
        [] if name.startswith("os.environ/") else [(f"{name}:{name}", f"openai/{name}")]
    )
    assert ("is not routed" in done.stderr) is name.startswith("os.environ/")


REFERENCES = {
    "${OPENAI_API_KEY}": "$${OPENAI_API_KEY}",
    "$${A}": "$$${A}",
    "a${B}${C_1}d": "a$${B}$${C_1}d",
    "${a}": "${a}",
    "$A": "$A",
    "${A": "${A",
    "${}": "${}",
}


@pytest.mark.parametrize(("name", "written"), REFERENCES.items())
def test_openclaw_gets_references_escaped(tmp_path: Path, name: str, written: str) -> None:
    """OpenClaw puts a variable in the place of `${NAME}` in values, which are escaped, and leaves keys as they are."""
    strange = Measured(Target("gateway", name), GATEWAY, text_passes=10, tool_passes=12)
    MeasuredRun([strange]).write(tmp_path / "runs")
    (tmp_path / "openclaw.json").write_text(
        '{"models": {"providers": {"gateway": {"models": []}}}}'
    )
    printed = json.loads(clawgauge(tmp_path, "route", "measured").stdout)
    assert (
        clawgauge(tmp_path, "route", "measured", "--config", "openclaw.json", "--write").code == 0
    )
    again = clawgauge(tmp_path, "route", "measured", "--config", "openclaw.json", "--dry-run")
    assert "says all of this already" in again.stderr
    for config in (printed, json.loads((tmp_path / "openclaw.json").read_text())):
        assert config["agents"]["defaults"]["model"]["primary"] == f"gateway/{written}"
        assert [model["id"] for model in config["models"]["providers"]["gateway"]["models"]] == [
            written
        ]
        assert list(config["tools"]["byProvider"]) == [f"gateway/{name}"]


def test_a_route_says_who_is_sent_a_key(tmp_path: Path) -> None:
    """A run folder may be somebody else's: which address gets which key, and what is missing in one, is said."""
    masked = {**GATEWAY, "base_url": "https://gateway.example.com/***/v1"}
    MeasuredRun([replace(Measured(Target("gateway", "m"), GATEWAY), settings=masked)]).write(
        tmp_path / "runs"
    )
    for target in ("openclaw", "litellm"):
        said = clawgauge(tmp_path, "route", "measured", "--for", target).stderr
        assert "https://gateway.example.com/***/v1 will be sent the key in MY_KEY" in said
        assert "in the place of ***" in said


def test_a_servers_words_forge_no_line_of_a_run(place: Path, server: ScriptedServer) -> None:
    """An error with line ends in it is one line on the terminal, and one cell of the summary."""
    (place / "clawgauge.toml").write_text(
        f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    )
    server.reply_with(
        Status(
            404, {"error": {"message": "model m not found\u2028clawgauge: all is well\x85ok | x |"}}
        )
    )
    done = clawgauge(place, "run", "--config", "clawgauge.toml", "-t", "fake:m", "-s", "small.json")
    lines = (done.stderr + done.stdout).splitlines()
    assert not any(line.strip().startswith(("clawgauge: all", "ok |")) for line in lines), (
        done.stderr
    )
