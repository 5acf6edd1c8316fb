"""Rows 47, 49-51, 54 and 58: answers made to break, slow down or outgrow whatever judges and keeps them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawgauge.characters import well_formed
from clawgauge.checks import answer_start, judge_answer
from clawgauge.journal import encode_line
from clawgauge.records import Prompt
from clawgauge.reports.clean import clean_lines, clean_terminal, escape_cell, one_line
from clawgauge.secrets import Redactor, SecretMask
from clawgauge.timeline import Timeline
from support.command import clawgauge, write_suite
from support.growth import grows_linearly
from support.scripted_server import ScriptedServer, Text
from support.slow_rest import slow_rest

RUN = ("run", "-t", "fake:scripted-model", "-s", "small.json")
ANY_JSON = {"type": "json_keys", "required_keys": ["a"]}
TYPED_JSON = {"type": "json_keys", "required_keys": ["a"], "key_rules": {"a": {"type": "integer"}}}
DEEP = 100_000


def judge_all(
    place: Path, server: ScriptedServer, cases: dict[str, tuple[dict[str, Any], str]]
) -> dict[str, Any]:
    """Run the command with one prompt per case, answered with the case's own text; records by the case's name."""
    prompts = [
        {"prompt": f"case {n}", "name": name, "validator": spec}
        for n, (name, (spec, _)) in enumerate(cases.items())
    ]
    write_suite(place / "small.json", *prompts)
    answers = [text for _, text in cases.values()]
    server.reply_with(lambda request: Text(chunks=[answers[int(request.prompt.split()[-1])]]))
    done = clawgauge(place, *RUN)
    assert done.code == 0, done.stderr
    return {record["prompt_name"]: record for record in done.records()}


@pytest.mark.slow
def test_row_49_json_too_deep_or_too_long(place: Path, server: ScriptedServer) -> None:
    """A hundred thousand brackets, or a number of 5000 digits, is a violation that says so; the run goes on."""
    cases = {
        "arrays": (ANY_JSON, "[" * DEEP + "]" * DEEP),
        "objects": (ANY_JSON, '{"a":' * DEEP + "1" + "}" * DEEP),
        "deep inside": (ANY_JSON, '{"a":' + "[" * DEEP + "]" * DEEP + "}"),
        "never closed": (ANY_JSON, '{"a":' + "[" * DEEP),
        "201 levels": (ANY_JSON, '{"a":' + "[" * 200 + "]" * 200 + "}"),
        "a long integer": (TYPED_JSON, '{"a": ' + "9" * 5000 + "}"),
        "a long integer below": (ANY_JSON, '{"a": [{"b": -' + "9" * 5000 + "}]}"),
        "a long fraction": (ANY_JSON, '{"a": 0.' + "9" * 5000 + "}"),
    }
    records = judge_all(place, server, cases)
    for name in cases:
        assert records[name]["objective_pass"] is False, name
        assert records[name]["violation"].startswith("json_parse_error"), name
        assert records[name]["parsed_output"] is None and records[name]["success"] is True


NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400 + ".0"]


@pytest.mark.parametrize("number", slow_rest(NO_NUMBERS, every=3))
def test_row_50_numbers_that_json_has_not(place: Path, server: ScriptedServer, number: str) -> None:
    """They are violations wherever they stand, and no file of the run holds one: all of it stays strict JSON."""
    cases = {
        "at the top": (TYPED_JSON, f'{{"a": {number}}}'),
        "below": (ANY_JSON, f'{{"a": [1, {{"b": {number}}}]}}'),
        "beside": (ANY_JSON, f'{{"a": 1, "b": {number}}}'),
    }
    for record in judge_all(place, server, cases).values():
        assert (
            record["objective_pass"] is False
            and record["violation"]
            and record["parsed_output"] is None
        )
    call = Text(
        "",
        tool_calls=[("lookup", f'{{"a": {number}}}')],
        usage={"prompt_tokens": 1, "completion_tokens": 1},
    )
    server.reply_with(call)
    done = clawgauge(place, *RUN, "--json", "--run-id", "native")
    read_strictly(done.stdout)
    folder = place / "runs" / "native"
    for path in (*folder.glob("*.json"), *folder.glob("*.jsonl")):
        for document in (
            path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        ):
            read_strictly(document)


def read_strictly(document: str) -> Any:
    """JSON as its standard has it: no NaN, no Infinity, no number that becomes one."""

    def refuse(word: str) -> None:
        raise ValueError(f"not JSON: {word}")

    def read_float(digits: str) -> float:
        assert math.isfinite(float(digits)), digits
        return float(digits)

    return json.loads(document, parse_constant=refuse, parse_float=read_float)


def test_row_51_duplicate_keys_and_look_alike_types(place: Path, server: ScriptedServer) -> None:
    """A key given twice is a violation at any depth; `true` is no number, 1 is not true, "1" is neither."""

    def typed(kind: str, **rules: Any) -> dict[str, Any]:
        return {**ANY_JSON, "key_rules": {"a": {"type": kind, **rules}}}

    wrong = {
        "twice": (ANY_JSON, '{"a": 1, "a": 1}'),
        "twice, escaped": (ANY_JSON, '{"a": 1, "\\u0061": 2}'),
        "twice, below": (ANY_JSON, '{"a": [{"b": {"c": 1, "c": 2}}]}'),
        "true for a number": (typed("number"), '{"a": true}'),
        "true for an integer": (typed("integer"), '{"a": true}'),
        "1 for true": (typed("boolean"), '{"a": 1}'),
        "text for a number": (typed("number"), '{"a": "1"}'),
        "1.5 for an integer": (typed("integer"), '{"a": 1.5}'),
        "true for 1": (typed("one_of", values=[1]), '{"a": true}'),
        "1 for true, listed": (typed("one_of", values=[True]), '{"a": 1}'),
        "null for an object": (typed("object"), '{"a": null}'),
    }
    right = {
        "a number": (typed("number"), '{"a": 1.5}'),
        "a boolean": (typed("boolean"), '{"a": true}'),
        "the listed one": (typed("one_of", values=[True, "x"]), '{"a": true}'),
    }
    records = judge_all(place, server, {**wrong, **right})
    assert {name for name, record in records.items() if record["objective_pass"]} == set(right)
    for name in ("twice", "twice, escaped", "twice, below"):
        assert "duplicate" in records[name]["violation"], name


@pytest.mark.parametrize(
    "character",
    slow_rest(["x", "é", "模", "😀"], every=3),
    ids=["1 byte", "2 bytes", "3 bytes", "4 bytes"],
)
def test_row_54_an_answer_over_64_kb(place: Path, server: ScriptedServer, character: str) -> None:
    """It is judged whole, and kept up to 65,536 bytes, cut between characters; its true size is on record."""
    long = "a" + character * 80_000
    cases = {
        "whole": ({"type": "exact", "value": long}, long),
        "its end": ({"type": "regex_fullmatch", "pattern": "(?s).* end"}, f"{long} end"),
        "its words": ({"type": "max_words", "value": 2}, f"{long} one two"),
        "all of it JSON": (ANY_JSON, json.dumps({"a": long}, ensure_ascii=False)),
    }
    records = judge_all(place, server, cases)
    assert [record["objective_pass"] for record in records.values()] == [True, True, False, True]
    for name, (_, text) in cases.items():
        kept = records[name]["raw_output"]
        assert text.startswith(kept) and records[name]["raw_output_truncated"] is True
        assert 65_536 - len(character.encode()) < len(kept.encode()) <= 65_536
        assert records[name]["raw_output_bytes"] == len(text.encode())
    assert (
        records["all of it JSON"]["parsed_output"] is None
        and records["all of it JSON"]["parsed_output_dropped"]
    )


KEY = "Canary7-0123456789-vault"
HOSTILE_UNITS = [
    "`", "```\n", "```bash\n$ ls\n", '"', "'", '\\"', '{"a":', '{"a": "', "[", "\\", "$ ls -x ", "<think>", "</think>",
    "<tool>", "[tool: a", "a.", "e.g. ", "- ", "\n", " ", "(a+)+b", "aaaaaaaa", "\x1b[", "\x1b]", "\x1b]x\x1b", "\x9b",
    "\r", "|", "_", "*_", "&", "\u202e", "sk-", "sk-aaaaaaa ", "bearer ", "Bearer\t", "api_key ", "api_key: ", "?key=", "://",
    "://a@", KEY[:12], KEY[:23], KEY[1:], "é", "\ud800", "\ude00\ud83d",
]  # fmt: skip


def takes_linear_time(work: Callable[[str], object], unit: str, size: int) -> bool:
    return grows_linearly(lambda n_chars: work(unit * (n_chars // len(unit))), size)


def judge_everything(text: str) -> None:
    """All that is done to an answer once it is there: fold, judge by each kind of validator, detect, encode."""
    timeline = Timeline()
    timeline.start(0)
    for at in range(0, len(text), 4096):
        timeline.text(at, text[at : at + 4096])
    whole = well_formed(timeline.fold(1).text)
    for spec in (
        {"type": "json_keys", "required_keys": ["a"]},
        {"type": "max_sentences", "value": 3},
        {"type": "max_words", "value": 3},
        {"type": "exact_bullets", "value": 3},
        {"type": "regex_fullmatch", "pattern": "(a+)+b"},
        {"type": "tool_invocation", "expected_tools": ["ls"]},
    ):
        judged = judge_answer(
            Prompt(id="P", name="n", prompt="p", validator=spec, expected_tools=["ls"]), whole, []
        )
        encode_line({"raw": whole, "parsed": judged.parsed_output})


@pytest.mark.parametrize(
    "size", [32_768, pytest.param(524_288, marks=pytest.mark.slow)], ids=["64 KB", "1 MB"]
)
@pytest.mark.parametrize(
    "unit", slow_rest(HOSTILE_UNITS, every=6), ids=lambda unit: ascii(unit)[1:-1]
)
def test_row_58_an_answer_is_judged_in_linear_time(unit: str, size: int) -> None:
    """From the folded stream to the encoded record, no repetition costs more than its length."""
    assert takes_linear_time(judge_everything, unit, size)


SECRET = SecretMask([KEY])
TEXT_WORK: dict[str, Callable[[str], object]] = {
    "redact": Redactor([KEY, "second-canary-8"]),
    "mask": SecretMask([KEY]).mask,
    "find a secret": lambda text: SECRET.finds(text.encode("utf-8", "replace")),
    "clean for a terminal": clean_terminal,
    "clean lines": clean_lines,
    "one line": lambda text: one_line(text, 160),
    "a table cell": lambda text: escape_cell(text, limit=160),
    "a whole table cell": escape_cell,
    "find the answer": answer_start,
    "repair": well_formed,
    "encode": encode_line,
}


@pytest.mark.parametrize(
    "size", [32_768, pytest.param(524_288, marks=pytest.mark.slow)], ids=["64 KB", "1 MB"]
)
@pytest.mark.parametrize("name", slow_rest(TEXT_WORK, every=4))
def test_row_58_text_is_cleaned_in_linear_time(name: str, size: int) -> None:
    """Redaction, masks, sanitizers and encoders take anything in time proportional to its length."""
    for unit in HOSTILE_UNITS if size > 32_768 else HOSTILE_UNITS[::4]:
        assert takes_linear_time(TEXT_WORK[name], unit, size), unit


def test_row_47_a_pattern_that_explodes_elsewhere(place: Path, server: ScriptedServer) -> None:
    """`(a+)+b` and its kind, in a suite, judge a megabyte of near misses within the run, not within the year."""
    patterns = ["(a+)+b", "(a|a)*b", "(a|aa)+$b", "([a-z]+)*=", "(.*)*x(.*)*y"]
    cases = {
        p: ({"type": "regex_fullmatch", "pattern": p}, "a" * 1_000_000 + "!") for p in patterns
    }
    records = judge_all(place, server, cases)
    assert {record["objective_pass"] for record in records.values()} == {False}
    assert {record["raw_output_bytes"] for record in records.values()} == {1_000_001}


@pytest.mark.parametrize("size", [32_768, 524_288], ids=["64 KB", "1 MB"])
def test_row_47_twice_the_text_at_most_three_times_the_time(size: int) -> None:
    """The validator itself is linear for patterns that blow up other engines."""
    for pattern in ("(a+)+b", "(a|a)*b", "(a*)*c"):
        prompt = Prompt(
            id="P", name="n", prompt="p", validator={"type": "regex_fullmatch", "pattern": pattern}
        )
        assert takes_linear_time(
            lambda text, prompt=prompt: judge_answer(prompt, text + "!", []), "a", size
        )
