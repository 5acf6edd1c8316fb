"""Rows 48 and 56: suites and configurations that are wrong, hostile or huge. Refused at once, and nothing is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command import clean_environment, trust_configuration
from support.scripted_server import ScriptedServer
from support.slow_rest import slow_rest
from support.waiting import PATIENCE_S

MEMORY_KB = 3_000_000


def run_suite(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`clawgauge run` in a process that may not grow without bounds."""
    command = [sys.executable, "-m", "clawgauge", "run", "-t", "fake:scripted-model", *words]
    trust_configuration(place)
    limited = f'ulimit -v {MEMORY_KB} 2>/dev/null; exec "$@"'
    return subprocess.run(
        ["sh", "-c", limited, "sh", *command],
        cwd=place,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def assert_refused(
    place: Path, server: ScriptedServer, done: subprocess.CompletedProcess[str], *names: str
) -> None:
    """Exit 2, one sentence that names the file and the fault, no request, no folder, no traceback."""
    assert done.returncode == 2, done.stderr
    sentence = done.stderr.splitlines()[-1]
    for name in names:
        assert name in sentence
    assert len(sentence) < 600 and "Traceback" not in done.stderr
    assert server.requests == [] and not (place / "runs").exists()


@pytest.mark.parametrize(
    ("validator", "named"),
    [
        ({"type": "regex_fullmatch", "pattern": "(a"}, "pattern"),
        ({"type": "regex_fullmatch", "pattern": "(?=a)b"}, "pattern"),
        ({"type": "regex_fullmatch", "pattern": r"(a)\1"}, "pattern"),
        ({"type": "regex_fullmatch", "pattern": "a{100000}"}, "pattern"),
        (
            {
                "type": "json_keys",
                "required_keys": ["a"],
                "key_rules": {"a": {"type": "string", "pattern": "("}},
            },
            "(",
        ),
        ({"type": "exakt", "value": "x"}, "exakt"),
        ({"type": "sentiment"}, "sentiment"),
        ({"type": None}, "type"),
        ({}, "type"),
    ],
)
def test_row_48_a_bad_pattern_or_validator(
    place: Path, server: ScriptedServer, validator: dict[str, Any], named: str
) -> None:
    """A validator that cannot judge is refused when the suite is loaded, by file and prompt, before any call."""
    good = {"id": "A", "name": "good", "prompt": "p", "validator": {"type": "noop"}}
    (place / "bad.json").write_text(json.dumps([good, {**good, "id": "B", "validator": validator}]))
    done = run_suite(place, "-s", "bad.json")
    assert_refused(place, server, done, "bad.json", "'B'", named)
    assert (
        len(done.stderr.splitlines()) == 1
    )  # the pattern engine would have a word of its own to say


BOMB = "\n".join(
    ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    + ["prompts: *a9"]
)
PROMPT = {"id": "A", "name": "n", "prompt": "p", "validator": {"type": "noop"}}
FILES: dict[str, tuple[str, str | bytes | int, str]] = {
    "a tag that runs a program": (
        "s.yaml",
        "- !!python/object/apply:os.system [touch pwned]\n",
        "tags",
    ),
    "a tag that makes an object": ("s.yaml", "- id: !!python/name:os.system\n", "tags"),
    "an anchor bomb": ("s.yaml", BOMB, "anchors and aliases"),
    "an anchor that holds itself": ("s.yaml", "&a [*a]\n", "anchors and aliases"),
    "a second document": ("s.yaml", "- id: A\n---\n- id: B\n", "second YAML document"),
    "YAML without end": ("s.yaml", "[" * 200_000, "nested"),
    "JSON without end": ("s.json", "[" * 1_000_000, "nested"),
    "a TOML key without end": ("s.toml", "a" + ".a" * 200_000 + " = 1", "dotted"),
    "a number without end": ("s.json", '[{"max_tokens": ' + "9" * 100_000 + "}]", "64 bits"),
    "65 MB": ("s.json", 65 << 20, "larger than 64 MiB"),
    "20,000 prompts": (
        "s.json",
        json.dumps([{**PROMPT, "id": f"P{n}"} for n in range(20_000)]),
        "at most 10000",
    ),
    "a key twice": ("s.json", '[{"id": "A", "prompt": "p", "prompt": "q"}]', "given twice"),
    "not text": ("s.toml", b"\x00\xff\xfe\x89PNG", "not UTF-8"),
}


@pytest.mark.parametrize("kind", slow_rest(FILES, every=3))
def test_row_56_a_hostile_suite(place: Path, server: ScriptedServer, kind: str) -> None:
    """Tags, bombs, endless nesting and sheer size are refused in one sentence, in bounded time and memory."""
    name, content, named = FILES[kind]
    if isinstance(content, int):
        with (place / name).open("wb") as file:
            file.truncate(content)
    else:
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_refused(place, server, run_suite(place, "-s", name), name, named)
    assert not (place / "pwned").exists()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no endless file here")
def test_row_56_a_suite_file_that_never_ends(place: Path, server: ScriptedServer) -> None:
    """A file that could be read for ever is not read at all."""
    (place / "s.json").symlink_to("/dev/zero")
    assert_refused(place, server, run_suite(place, "-s", "s.json"), "s.json", "not a regular file")


CONFIGS: dict[str, tuple[str | bytes, str]] = {
    "a key without end": ("a" + ".a" * 200_000 + " = 1", "dotted"),
    "a number without end": ("[run]\nrepeats = " + "9" * 100_000, "not TOML"),
    "nesting without end": ("a = " + "[" * 200_000, "not TOML"),
    "2 MB": ("# " + "x" * (2 << 20), "1 MiB"),
    "not text": (b"\xff\xfe", "not TOML"),
    "a number that is none": ("[run]\ntimeout = nan", "--timeout"),
    "a field nobody knows": ("[run]\nrepeat = 3", "repeat"),
    "a wrong type": ('[run]\nrepeats = "many"', "repeats"),
}


@pytest.mark.parametrize("kind", slow_rest(CONFIGS, every=3))
def test_row_56_a_hostile_configuration(place: Path, server: ScriptedServer, kind: str) -> None:
    """clawgauge.toml is held to the same: one sentence, exit 2, nothing asked."""
    content, named = CONFIGS[kind]
    (place / "clawgauge.toml").write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    assert_refused(place, server, run_suite(place, "-s", "small.json"), named)
