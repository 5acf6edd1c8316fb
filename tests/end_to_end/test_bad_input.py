"""What bad input gets: one sentence naming the thing, the place and the way out; exit 2; not one request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import clawgauge
from support.fake_openclaw import install_fake_openclaw
from support.rows import every_row
from support.scripted_server import ScriptedServer

SMALL = ("run", "-t", "fake:scripted-model", "-s", "small.json")


WRONG_REQUESTS: list[tuple[tuple[str, ...], list[str]]] = [
    (("run", "-t", "ollma_openai:x"), ["ollma_openai", "did you mean 'ollama_openai'"]),
    (("run", "-t", "fake"), ["fake", "PROVIDER:MODEL"]),
    (("run", "-t", "fake:m@extreme"), ["extreme", "xhigh"]),
    (("run", "-t", "fake:m", "-s", "coer"), ["coer", "core"]),
    (("run", "-t", "fake:m", "-s", "missing.toml"), ["missing.toml"]),
    ((*SMALL, "--prompt-ids", "P99"), ["P99", "small"]),
    ((*SMALL, "--run-id", "../x"), ["../x"]),
    ((*SMALL, "--run-id", "/abs"), ["/abs"]),
    ((*SMALL, "--run-id", ""), ["run id"]),
    ((*SMALL, "--repeats", "0"), ["--repeats"]),
    ((*SMALL, "--concurrency", "5000"), ["--concurrency"]),
    ((*SMALL, "--timeout", "-1"), ["--timeout"]),
    ((*SMALL, "--resume", "nowhere"), ["nowhere"]),
    ((*SMALL, "--retry-errors"), ["--resume"]),
    ((*SMALL, "--config", "no.toml"), ["no.toml"]),
    (("run", "-t", "fake:m", "-t", "!fake:*", "-s", "small.json"), ["target"]),
    (("run", "-s", "small.json", "-s", "small.json", "-t", "fake:m"), ["small"]),
    (("show", "nothing-here"), ["nothing-here"]),
    (("summarize", "nothing-here"), ["nothing-here"]),
    (("rescore", "nothing-here"), ["nothing-here"]),
    (("suites", "show", "nope"), ["nope", "core"]),
    (("suites", "check", "missing.json"), ["missing.json"]),
]


@pytest.mark.parametrize(
    ("words", "names"),
    WRONG_REQUESTS,
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_request(
    place: Path, server: ScriptedServer, words: tuple[str, ...], names: list[str]
) -> None:
    """Exit 2, a sentence on stderr, nothing on stdout, no request, no run folder, no traceback; alike in a dry run."""
    done = clawgauge(place, *words)
    assert done.code == 2, done.stderr
    assert done.stdout == ""
    for name in names:
        assert name.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr
    if words[0] == "run":
        rehearsed = clawgauge(place, *words, "--dry-run")
        assert (rehearsed.code, rehearsed.stdout) == (2, "")
        assert _sentence(rehearsed.stderr) == _sentence(done.stderr)
    assert server.requests == []
    assert not (place / "runs").exists() or not list((place / "runs").iterdir())


# What only the place, the price list or an earlier run makes wrong.
WRONG_HERE: list[tuple[str, ...]] = [
    (*SMALL, "--max-cost", "1"),
    (*SMALL, "--max-cost", "nan"),
    (*SMALL, "--fail-under", "1.5"),
    (*SMALL, "--prices", "missing.toml"),
    (*SMALL, "--run-id", "old"),
    (*SMALL, "--run-id", "latest"),
    (*SMALL, "--runs-dir", "small.json"),
    (*SMALL, "--runs-dir", "small.json/runs"),
    (*SMALL, "--runs-dir", "/proc/clawgauge"),
    (*SMALL, "--runs-dir", f"{'a' * 300}/runs"),
    (*SMALL, "--until-decided", "--prompt-ids", "P0"),
    ("run", "--resume", "old", "--repeats", "0"),
    ("run", "--resume", "old", "--temperature", "1"),
    ("run", "--resume", "old", "-t", "fake:other-model"),
    ("run", "--resume", "old", "--max-cost", "1"),
    ("run", "--resume", "old", "--run-id", "new"),
    ("run", "-t", "fake:none*", "-s", "small.json"),
]


def test_a_dry_run_refuses_what_the_run_refuses(place: Path, server: ScriptedServer) -> None:
    """Exit code and sentence are the same, whatever is wrong; and neither leaves anything behind."""
    toml = place / "clawgauge.toml"
    clawgauge(place, *SMALL, "--run-id", "old")
    toml.write_text(toml.read_text().replace("local = true", "local = false"))
    before = sorted(path.name for path in (place, *place.iterdir()) if path.is_dir())
    n_calls = len(server.calls)
    for words in WRONG_HERE:
        if words[-1].startswith("/proc") and not sys.platform.startswith("linux"):
            continue
        real, rehearsed = clawgauge(place, *words), clawgauge(place, *words, "--dry-run")
        assert (real.code, real.stdout) == (2, ""), words
        assert (rehearsed.code, rehearsed.stdout) == (2, ""), words
        assert _sentence(real.stderr) == _sentence(rehearsed.stderr)
    assert sorted(path.name for path in (place, *place.iterdir()) if path.is_dir()) == before
    assert [path.name for path in (place / "runs").iterdir()] == ["old"] and len(
        server.calls
    ) == n_calls


def _sentence(stderr: str) -> str:
    return stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ({"validator": {"type": "regexp", "pattern": "x"}}, ["regexp"]),
        ({"validator": {"type": "exact"}}, ["value"]),
        ({"validator": {"type": "regex_fullmatch", "pattern": "(?=x)y"}}, ["pattern"]),
        ({"validator": {"type": "max_words", "value": "many"}}, ["value"]),
        (
            {
                "validator": {
                    "type": "json_keys",
                    "required_keys": ["a"],
                    "key_rules": {"a": {"type": "colour"}},
                }
            },
            ["colour"],
        ),
        ({"id": "P0"}, ["P0"]),
        ({"prompt": ""}, ["prompt"]),
    ],
)
def test_a_bad_suite(
    place: Path, server: ScriptedServer, prompt: dict[str, object], names: list[str]
) -> None:
    """A suite is refused whole, naming file, prompt and key, before anything is asked."""
    good = {"id": "P0", "name": "good", "prompt": "hi", "validator": {"type": "noop"}}
    bad = {"id": "P7", "name": "bad", "prompt": "hi", "validator": {"type": "noop"}, **prompt}
    (place / "bad.json").write_text(json.dumps([good, bad]))
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "bad.json")
    assert done.code == 2 and "bad.json" in done.stderr
    for name in names:
        assert name in done.stderr
    assert server.requests == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_folder_that_cannot_be_written(place: Path, server: ScriptedServer) -> None:
    """A runs folder where nobody may write, not even root, is said before anything is asked."""
    done = clawgauge(place, *SMALL, "--runs-dir", "/proc/clawgauge")
    assert done.code == 2 and "/proc/clawgauge" in done.stderr
    assert server.calls == []


def test_a_runs_folder_that_is_a_file(place: Path, server: ScriptedServer) -> None:
    """A file where the runs folder should be is named."""
    (place / "taken").write_text("")
    done = clawgauge(place, *SMALL, "--runs-dir", "taken")
    assert done.code == 2 and "taken" in done.stderr and server.calls == []


def test_an_unknown_option_is_named(place: Path) -> None:
    """argparse's own refusal is exit 2 as well."""
    done = clawgauge(place, "run", "--tagret", "x")
    assert done.code == 2 and "--tagret" in done.stderr


def test_nothing_to_list_for_a_pattern(place: Path) -> None:
    """A pattern on a server that is down cannot be expanded: said, with the way out."""
    done = clawgauge(place, "run", "-t", "ollama_openai:*", "-s", "small.json")
    assert done.code == 2 and "ollama_openai" in done.stderr and "one by one" in done.stderr


@every_row(
    ("file", "said"),
    [
        (
            '[providers.x]\napi_key_evn = "K"\n',
            "no key 'api_key_evn' in [providers.NAME]; did you mean api_key_env?",
        ),
        ("[runn]\nrepeats = 3\n", "no key 'runn'; did you mean run?"),
        ('[run]\nrepeats = "x"\n', "run.repeats must be a whole number, not a text"),
        ("[run]\nsuites = 3\n", "run.suites must be a list, not a whole number"),
        ('[run]\nruns_dir = "a\\u0000b"\n', "the configuration c.toml has a NUL character in it"),
    ],
)
def test_a_slip_in_the_file_is_told_in_words_of_the_file(
    tmp_path: Path, file: str, said: str
) -> None:
    (tmp_path / "c.toml").write_text(file)
    done = clawgauge(tmp_path, "run", "-t", "ollama_openai:m", "--config", "c.toml")
    assert done.code == 2 and said in done.stderr and done.stderr.count("\n") == 1


@every_row(
    ("words", "meant"),
    [
        ("shw", "show"),
        ("run --repeat 3", "--repeats"),
        ("compare a b --anwsers", "--answers"),
        ("xyzzy", None),
    ],
)
def test_a_word_that_is_nearly_right_is_put_right(
    tmp_path: Path, words: str, meant: str | None
) -> None:
    done = clawgauge(tmp_path, *words.split())
    assert done.code == 2
    assert f"did you mean {meant}?" in done.stderr if meant else "did you mean" not in done.stderr


@every_row(
    "words",
    [
        ("suites", "from-openclaw", "--state-dir", "~no-such-user/x", "-o", "mine.toml"),
        ("capture", "openclaw", "--config", "round.json"),
        ("capture", "openclaw", "--config", "elsewhere.json"),
    ],
)
def test_a_path_that_leads_nowhere_is_one_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A home of nobody's, a link to itself: pathlib has a traceback for them."""
    (tmp_path / "round.json").symlink_to("round.json")
    (tmp_path / "elsewhere.json").write_text(
        '{"agents": {"defaults": {"workspace": "~no-such-user/x"}}}'
    )
    fake = install_fake_openclaw(tmp_path / "bin")
    done = clawgauge(tmp_path, *words, env={"PATH": f"{fake.bin_dir}:{os.environ['PATH']}"})
    assert (done.code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "cannot be followed to its end" in done.stderr or "cannot read round.json" in done.stderr


def test_an_output_that_is_a_link_to_itself_is_replaced(
    place: Path, server: ScriptedServer
) -> None:
    run = clawgauge(place, *SMALL)
    (place / "round.csv").symlink_to("round.csv")
    done = clawgauge(place, "export", run.folder.name, "-o", "round.csv")
    assert done.code == 0 and (place / "round.csv").is_file(), done.stderr


def test_a_node_that_nobody_drives_is_one_sentence(tmp_path: Path) -> None:
    """Started by hand, from a file or into one: the event loop ended the process by SIGABRT."""
    program = Path(sys.executable).with_name("clawgauge")
    for heard in (subprocess.DEVNULL, subprocess.PIPE):
        for said in (tmp_path / "out", Path(os.devnull)):
            with said.open("wb") as sink:
                done = subprocess.run(
                    [program, "node"], stdin=heard, stdout=sink, stderr=subprocess.PIPE, text=True
                )
            assert done.returncode == 2 and "nothing to type here" in done.stderr, done


@every_row(
    "words",
    [
        *(
            ("show", "{key}"),
            ("show", "latest", "{key}"),
            ("{key}",),
            ("run", "--{key}"),
            ("trust", "{key}"),
        ),
        *(
            ("suites", "check", "{key}.toml"),
            ("compare", "{key}", "x"),
            ("report", "r", "-o", "/nowhere/{key}/x"),
        ),
        *(("capture", "{key}"), ("run", "--config", "{key}"), ("history", "--format", "{key}")),
    ],
)
def test_a_key_pasted_in_the_wrong_place_is_not_shown(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Not by the verbs that read runs either, nor by the parser of the command line."""
    key = "sk-PRZwwrPwV81Aw71l33SCx9vHjHkm1x72EsSfUQUA"
    done = clawgauge(
        tmp_path, *(word.format(key=key) for word in words), env={"OPENAI_API_KEY": key}
    )
    said = done.stdout + done.stderr
    assert done.code == 2 and said, said
    assert not [key[at : at + 8] for at in range(len(key) - 7) if key[at : at + 8] in said], said
