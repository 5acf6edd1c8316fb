"""Loading suites: what is accepted, in which shapes, and that the same suite is the same in every format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from clawgauge.errors import SuiteError
from clawgauge.records import Prompt
from clawgauge.suites import describe_suite, list_builtin, load_suite, prompts_sha256, suite_path
from support.rows import every_row

OLD_SHAPE = [
    {
        "id": "P0",
        "name": "ready",
        "prompt": "Say ready",
        "validator": {"type": "exact", "value": "ready"},
    },
    {
        "id": "P1",
        "name": "space",
        "prompt": "How full is the disk?",
        "validator": {"type": "tool_invocation", "expected_tools": ["DF", "du"]},
        "expected_tool_calls": ["df", "Lsblk"],
    },
]

TOML = """
name = "night"
version = "3"
description = "Night shift"
system = "Be brief."
temperature = 0
max_tokens = 64

[[prompts]]
id = "A"
name = "answer"
category = "choice"
prompt = "Is it yes?"
validator = { type = "one_of", values = ["yes", "no"] }

[[prompts]]
id = "B"
name = "when"
prompt = \"\"\"
First line
second line\"\"\"
system = "Be exact."
temperature = 0.5
max_tokens = 8
validator = { type = "exact", value = "2026-02-13" }
"""

YAML = """
name: night
version: "3"
description: Night shift
system: Be brief.
temperature: 0
max_tokens: 64
prompts:
  - id: A
    name: answer
    category: choice
    prompt: Is it yes?
    validator: {values: [yes, no], type: one_of}
  - id: B
    name: when
    prompt: |-
      First line
      second line
    system: Be exact.
    temperature: 0.5
    max_tokens: 8
    validator:
      type: exact
      value: 2026-02-13
"""

JSON = {
    "name": "night",
    "version": "3",
    "description": "Night shift",
    "system": "Be brief.",
    "temperature": 0.0,
    "max_tokens": 64,
    "prompts": [
        {
            "id": "A",
            "name": "answer",
            "category": "choice",
            "prompt": "Is it yes?",
            "validator": {"type": "one_of", "values": ["yes", "no"]},
        },
        {
            "id": "B",
            "name": "when",
            "prompt": "First line\nsecond line",
            "system": "Be exact.",
            "temperature": 0.5,
            "max_tokens": 8,
            "validator": {"type": "exact", "value": "2026-02-13"},
        },
    ],
}


def write(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def make_prompt(**changes: object) -> Prompt:
    fields = {"id": "A", "name": "n", "prompt": "p", "validator": {"type": "exact", "value": "x"}}
    return msgspec.convert(fields | changes, Prompt)


def test_old_bare_list_loads_under_its_file_name(tmp_path: Path) -> None:
    """A bare JSON list of prompts loads as it is, and the suite is called after the file."""
    suite = load_suite(write(tmp_path / "prompts_mine.json", OLD_SHAPE))
    assert (suite.name, suite.version, suite.description) == ("prompts_mine", "", "")
    assert [prompt.id for prompt in suite.prompts] == ["P0", "P1"]
    assert [prompt.validator for prompt in suite.prompts] == [
        entry["validator"] for entry in OLD_SHAPE
    ]
    assert {prompt.suite for prompt in suite.prompts} == {"prompts_mine"}


def test_expected_tools_are_merged_in_lower_case(tmp_path: Path) -> None:
    """What the validator expects and `expected_tool_calls` become one list: lower case, in order, no repeats."""
    suite = load_suite(write(tmp_path / "s.json", OLD_SHAPE))
    assert [prompt.expected_tools for prompt in suite.prompts] == [[], ["df", "du", "lsblk"]]


def test_one_suite_in_three_formats_is_one_suite(tmp_path: Path) -> None:
    """JSON, TOML and YAML that say the same give the same prompts and the same hash."""
    loaded = [
        load_suite(write(tmp_path / f"night{suffix}", content))
        for suffix, content in ((".toml", TOML), (".yaml", YAML), (".yml", YAML), (".json", JSON))
    ]
    assert all(suite.prompts == loaded[0].prompts for suite in loaded)
    assert len({suite.sha256 for suite in loaded}) == 1


def test_suite_settings_fold_into_prompts_that_have_none(tmp_path: Path) -> None:
    """A prompt's own system text and sampling win; the suite's are used where it has none."""
    first, second = load_suite(write(tmp_path / "night.toml", TOML)).prompts
    assert (first.system, first.temperature, first.max_tokens) == ("Be brief.", 0.0, 64)
    assert (second.system, second.temperature, second.max_tokens) == ("Be exact.", 0.5, 8)


def test_empty_system_text_turns_the_suites_off(tmp_path: Path) -> None:
    """`system = ""` on a prompt sends no system text, whatever the suite says."""
    text = TOML.replace('system = "Be exact."', 'system = ""')
    assert load_suite(write(tmp_path / "night.toml", text)).prompts[1].system is None


def test_null_means_not_given(tmp_path: Path) -> None:
    """An optional key set to null in JSON or YAML is a key that is not there."""
    entry = OLD_SHAPE[0] | {
        "system": None,
        "tools": None,
        "expected_tool_calls": None,
        "temperature": None,
    }
    with_null = load_suite(
        write(tmp_path / "s.json", {"name": None, "version": None, "prompts": [entry]})
    )
    without = load_suite(write(tmp_path / "t.json", [OLD_SHAPE[0]]))
    assert with_null.sha256 == without.sha256
    assert with_null.name == "s"


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    """A file saved with a UTF-8 byte order mark loads like one without."""
    for suffix, text in ((".json", json.dumps(JSON)), (".toml", TOML), (".yaml", YAML)):
        path = tmp_path / f"night{suffix}"
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert load_suite(str(path)).name == "night"


def test_nul_in_a_prompt_is_kept(tmp_path: Path) -> None:
    """A NUL in a prompt is no fault of the suite: whether it can be sent is found out in the run."""
    entry = OLD_SHAPE[0] | {"prompt": "a\x00b"}
    assert load_suite(write(tmp_path / "s.json", [entry])).prompts[0].prompt == "a\x00b"


def test_tools_are_kept_as_written(tmp_path: Path) -> None:
    """Offered tools reach the prompt with the order of their keys unchanged."""
    parameters = {
        "type": "object",
        "properties": {"zone": {"type": "string"}, "area": {"type": "string"}},
    }
    tools = [
        {
            "type": "function",
            "function": {"name": "lookup", "description": "d", "parameters": parameters},
        }
    ]
    for choice in ("auto", "required", {"type": "function", "function": {"name": "lookup"}}):
        entry = OLD_SHAPE[0] | {"tools": tools, "tool_choice": choice}
        prompt = load_suite(write(tmp_path / "s.json", [entry])).prompts[0]
        assert json.dumps(prompt.tools) == json.dumps(tools)
        assert prompt.tool_choice == choice


def test_yaml_words_are_read_as_json_reads_them(tmp_path: Path) -> None:
    """Unquoted yes, on, times, dates and octals in YAML stay the text they look like; numbers and true do not."""
    values = "yes, on, 12:30, 2026-02-13, 0777, 1_000, 0x1F, .5, Null, -1e, '7', \"true\""
    text = f"- {{id: A, name: n, prompt: p, validator: {{type: one_of, values: [{values}]}}}}\n"
    prompt = load_suite(write(tmp_path / "s.yaml", text)).prompts[0]
    assert prompt.validator["values"] == [word.strip(" '\"") for word in values.split(",")]
    rules = "{a: {type: one_of, values: [1, -2.5, 1e3, true, false, null]}}"
    text = f"- {{id: A, name: n, prompt: p, validator: {{type: json_keys, required_keys: [a], key_rules: {rules}}}}}\n"
    read = (
        load_suite(write(tmp_path / "s.yaml", text))
        .prompts[0]
        .validator["key_rules"]["a"]["values"]
    )
    assert read == [1, -2.5, 1000.0, True, False, None]
    assert [type(value) for value in read] == [int, float, float, bool, bool, type(None)]


def test_path_is_relative_to_the_base_directory(tmp_path: Path) -> None:
    """A relative path is looked up in `base_dir`, and the suite remembers the words it was asked by."""
    (tmp_path / "suites").mkdir()
    write(tmp_path / "suites" / "mine.json", OLD_SHAPE)
    suite = load_suite("suites/mine.json", base_dir=tmp_path)
    assert (suite.name, suite.source) == ("mine", "suites/mine.json")
    assert describe_suite(suite).n_prompts == 2
    assert suite_path("suites/mine.json", base_dir=tmp_path) == tmp_path / "suites" / "mine.json"
    assert suite_path("core", base_dir=tmp_path) == suite_path("core")


def test_home_directory_is_expanded(tmp_path: Path) -> None:
    """A path that begins with ~ is looked up in the home directory."""
    write(tmp_path / "mine.json", OLD_SHAPE)
    code = "from clawgauge.suites import load_suite; print(load_suite('~/mine.json').name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "mine\n"


def test_builtin_suites_are_listed_with_a_file_to_copy(tmp_path: Path) -> None:
    """A copy of a built-in suite's file is the same suite."""
    listed = list_builtin()
    assert [info.name for info in listed] == [
        "core",
        "tool_use",
        "native_tools",
        "restraint",
        "agentic",
        "long_context",
    ]
    for info in listed:
        assert info.source == info.name
        copy = load_suite(
            write(tmp_path / f"{info.name}_copy.toml", suite_path(info.name).read_text("utf-8"))
        )
        assert (copy.name, copy.sha256) == (info.name, info.sha256)


def test_unknown_name_points_to_near_ones() -> None:
    """A misspelt suite name is answered with the nearest built-in and the list of all."""
    with pytest.raises(
        SuiteError,
        match=r"'Tool-use'; did you mean 'tool_use'.*\?.*core, tool_use, native_tools, .* and long_context.*path",
    ):
        load_suite("Tool-use")
    with pytest.raises(
        SuiteError,
        match=r"No built-in suite is called 'zzz'\. The built-in suites are core, tool_use, native",
    ):
        suite_path("zzz")


@every_row(
    "change",
    [
        {"id": "B"},
        {"prompt": "q"},
        {"validator": {"type": "exact", "value": "y"}},
        {"validator": {"type": "one_of", "values": ["x"]}},
        {"expected_tools": ["df"]},
        {"system": "s"},
        {"temperature": 0.0},
        {"max_tokens": 5},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tool_choice": "auto"},
        {"response_format": {"type": "json_object"}},
        {"world": {"files": {}}},
        {"max_turns": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_hash_follows_what_can_change_an_answer_or_a_verdict(change: dict[str, object]) -> None:
    """Any change that could change an answer or its verdict changes the hash."""
    assert prompts_sha256([make_prompt(**change)]) != prompts_sha256([make_prompt()])


def test_hash_ignores_what_changes_nothing() -> None:
    """Names, categories, suite titles and the order of a validator's keys leave the hash alone."""
    spec = {"value": "x", "type": "exact"}
    renamed = make_prompt(name="other", category="c", suite="s", variant_of="A", validator=spec)
    assert prompts_sha256([renamed]) == prompts_sha256([make_prompt()])


def test_hashes_of_suites_in_use_stay_what_they_were(tmp_path: Path) -> None:
    """Runs of a suite of version 0.1.0 can still be compared: new fields of prompts leave its hash alone."""
    (tmp_path / "night.toml").write_text(TOML, encoding="utf-8")
    suite = load_suite(str(tmp_path / "night.toml"))
    assert suite.sha256 == "b83b826eb1ca1ef8ed28fa2366a3891b98ee19612dece5f45dbb92b2e852dd79"


def test_hash_follows_order() -> None:
    """The order of prompts, and of the keys in an offered tool, is part of the hash."""
    first, second = make_prompt(), make_prompt(id="B")
    assert prompts_sha256([first, second]) != prompts_sha256([second, first])
    tool = {"type": "function", "function": {"name": "f"}}
    swapped = {"function": {"name": "f"}, "type": "function"}
    assert prompts_sha256([make_prompt(tools=[tool])]) != prompts_sha256(
        [make_prompt(tools=[swapped])]
    )


def test_hash_cannot_be_confused_by_text_that_looks_like_structure() -> None:
    """Text moved from one prompt to its neighbour gives another hash."""
    ones = [make_prompt(prompt='p"}\n{"id":"B'), make_prompt(id="C")]
    others = [make_prompt(), make_prompt(id="B", prompt='p"}\n{"id":"C')]
    assert prompts_sha256(ones) != prompts_sha256(others)


def test_yaml_costs_nothing_to_those_who_do_not_use_it() -> None:
    """Loading a built-in suite does not import the YAML library."""
    code = "import sys; from clawgauge.suites import load_suite; load_suite('core'); sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
