"""The `json_schema` validator: right and wrong answers, hostile schemas and hostile answers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.checks import Answer, check_spec, judge, judge_answer, takes_long
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt
from clawgauge.runner.judging import Judge
from support import growth
from support.rows import every_row

Schema = dict[str, Any]

HOST: Schema = {
    "type": "object",
    "required": ["name", "port"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "since": {"type": "string", "format": "date"},
    },
}
HOSTS: Schema = {
    "type": "array",
    "minItems": 1,
    "uniqueItems": True,
    "items": {"$ref": "#/$defs/host"},
    "$defs": {"host": HOST},
}
WEB = '{"name": "web", "port": 80}'


def spec_of(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "schema": schema, **more}


def violation_of(schema: Schema, text: str, **more: Any) -> str | None:
    spec = spec_of(schema, **more)
    check_spec(spec)
    return judge(spec, Answer(text)).violation


@every_row(
    ("schema", "text", "violation"),
    [
        (HOST, WEB, None),
        (HOST, f"```json\n{WEB}\n```", None),
        (HOST, f"<think>a host</think>\n{WEB}\n", None),
        (HOSTS, f"[{WEB}]", None),
        (HOST, '{"name": "web", "port": 80.0}', None),
        (HOST, '{"name": "web", "port": 80, "since": "2026-02-28"}', None),
        ({"type": "string"}, '"yes"', None),
        ({"enum": [1, None]}, "null", None),
        ({"const": {"a": [1]}}, '{"a": [1.0]}', None),
        ({"pattern": "b"}, '"abc"', None),
        ({}, "[]", None),
        (HOST, "", "empty_answer: "),
        (HOST, f"The host is {WEB}", "json_parse_error: "),
        (HOST, '{"name": "web", "name": "db", "port": 80}', "json_duplicate_key: "),
        (HOST, '{"name": "web", "port": NaN}', "json_non_finite_number: "),
        (HOST, f"[{WEB}]", 'schema_mismatch: $: the value is not of type "object"; got a list'),
        (HOST, '{"name": "web"}', 'schema_mismatch: $: "port" is a required property'),
        (HOST, '{"name": "web", "port": "80"}', "schema_mismatch: $.port: "),
        (HOST, '{"name": "web", "port": 0}', "schema_mismatch: $.port: "),
        (HOST, '{"name": "web", "port": true}', "schema_mismatch: $.port: "),
        (HOST, '{"name": "Web", "port": 80}', "schema_mismatch: $.name: "),
        (HOST, '{"name": "web", "port": 80, "tls": true}', "schema_mismatch: $: Additional"),
        (HOST, '{"name": "web", "port": 80, "since": "2026-02-30"}', "schema_mismatch: $.since: "),
        (HOSTS, "[]", "schema_mismatch: $: "),
        (HOSTS, f"[{WEB}, {WEB}]", "schema_mismatch: $: "),
        (HOSTS, f'[{WEB}, {{"name": "db"}}]', "schema_mismatch: $[1]: "),
        ({"pattern": r"^\d+$"}, '"١"', "schema_mismatch: $: "),
    ],
)
def test_answers(schema: Schema, text: str, violation: str | None) -> None:
    """The whole answer, or one fenced block, is held to the schema; a failure says where and why."""
    actual = violation_of(schema, text)
    if violation is None:
        assert actual is None
    else:
        assert actual is not None
        assert actual.startswith(violation)


def test_strict_takes_no_fence() -> None:
    """With `strict` a fence is prose like any other."""
    fenced = f"```json\n{WEB}\n```"
    assert str(violation_of(HOST, fenced, strict=True)).startswith("json_parse_error")
    assert violation_of(HOST, WEB, strict=True) is None


def test_what_was_read_is_kept() -> None:
    """An object as it is, anything else as a value; nothing where it could not be read."""
    kept = [judge(spec_of({}), Answer(text)).parsed_output for text in (WEB, "[1]", "no")]
    assert kept == [{"name": "web", "port": 80}, {"value": [1]}, None]


def test_it_may_be_one_of_several_validators() -> None:
    """In `all_of`, and for the words beside no call."""
    spec = {"type": "all_of", "validators": [spec_of(HOST), {"type": "max_words", "value": 5}]}
    check_spec(spec)
    assert judge(spec, Answer(WEB)).objective_pass is True
    assert str(judge(spec, Answer("{}")).violation).startswith("schema_mismatch")
    spec = {"type": "tool_call", "no_call": True, "answer": spec_of(HOST)}
    check_spec(spec)
    assert judge(spec, Answer(WEB)).objective_pass is True
    assert str(judge(spec, Answer("Nothing.")).violation).startswith("answer: json_parse_error")


@every_row(
    ("draft", "schema", "right", "wrong"),
    [
        ("http://json-schema.org/draft-04/schema#", {"maximum": 5, "exclusiveMaximum": True}, 4, 5),
        ("http://json-schema.org/draft-06/schema#", {"contains": {"const": 1}}, [1], [2]),
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "string"}]}, ["a"], [1]),
        (
            "https://json-schema.org/draft/2019-09/schema",
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1, "b": 1},
            {"a": 1},
        ),
        (
            "https://json-schema.org/draft/2020-12/schema",
            {"prefixItems": [{"type": "string"}], "items": False},
            ["a"],
            ["a", 1],
        ),
    ],
)
def test_drafts(draft: str, schema: Schema, right: Any, wrong: Any) -> None:
    """A schema is read as the draft that it names."""
    schema = {"$schema": draft, **schema}
    assert violation_of(schema, json.dumps(right)) is None
    assert violation_of(schema, json.dumps(wrong)) is not None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "ab", "b", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "integer", "number", "null"]),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "minimum": st.integers(-2, 2),
        "multipleOf": st.integers(1, 3),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["a", "^b", "b$", "^a?$"]),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
        "maxProperties": st.integers(0, 2),
    },
)
SCHEMAS = st.recursive(
    RULES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "contains": inner,
            "unevaluatedProperties": st.booleans(),
        },
    ),
    max_leaves=4,
)


@given(schema=SCHEMAS, value=VALUES)
def test_verdicts_are_those_of_another_implementation(schema: Schema, value: Any) -> None:
    """Whatever the schema and the answer, an independent library says the same."""
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (violation_of(schema, json.dumps(value)) is None) == expected


DOUBLED: Schema = {"$defs": {"d20": {}}, "$ref": "#/$defs/d0"}
for level in range(20):
    DOUBLED["$defs"][f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2}
DEEP: Schema = {}
for _ in range(100):
    DEEP = {"items": DEEP}


@every_row(
    ("schema", "refusal"),
    [
        ([], "key 'schema' must be an object, not a list"),
        ({"type": "strin"}, "key 'schema.type' makes it no JSON Schema"),
        ({"properties": {"a": 5}}, "key 'schema.properties.a' makes it no JSON Schema"),
        ({"requird": ["a"]}, "key 'schema.requird' is no keyword of JSON Schema; did you mean"),
        ({"items": {"nullable": True}}, "key 'schema.items.nullable' is no keyword"),
        ({"format": "dat"}, "key 'schema.format' is \"dat\", which nothing checks"),
        ({"pattern": "(?=a)"}, "key 'schema.pattern' cannot be matched in linear time"),
        (
            {"not": {"pattern": r"(a)\1"}},
            "key 'schema.not.pattern' cannot be matched in linear time",
        ),
        ({"patternProperties": {"(?!a)": {}}}, "key 'schema.patternProperties' cannot be matched"),
        ({"pattern": "(a{1000}){1000}"}, "key 'schema.pattern' cannot be matched in linear time"),
        ({"allOf": [{"pattern": "a"}] * 101}, "is one of more than 100 patterns"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "nothing is fetched"),
        ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
        ({"$ref": "other.json"}, "nothing is fetched"),
        ({"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}, "nothing is fetched"),
        ({"$schema": "http://127.0.0.1:9/x.json"}, "Unknown meta-schema"),
        ({"$ref": "#/$defs/a"}, "key 'schema.$ref' is \"#/$defs/a\", and nothing is there"),
        ({"$ref": "#"}, "refers to a schema that it is part of"),
        ({"items": {"items": {"$ref": "#/items"}}}, "refers to a schema that it is part of"),
        ({"$dynamicRef": "#a"}, "key 'schema.$dynamicRef' is not supported"),
        ({"items": {"$id": "http://x/", "$ref": "#/a"}}, "key 'schema.items.$id' changes what"),
        (DOUBLED, "comes to more than 2,000 schemas"),
        (DEEP, "is nested deeper than 64 levels"),
        ({"enum": ["x" * 300_000]}, "key 'schema' is larger than 262,144 bytes"),
    ],
)
def test_schemas_that_are_refused(schema: Any, refusal: str) -> None:
    """No schema, one that would check nothing, or one that could not be bounded: with place and reason."""
    with pytest.raises(SuiteError) as refused:
        check_spec(spec_of(schema))
    assert refusal in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_that_read_like_keywords_are_names() -> None:
    """A property may have any name, and a value that is compared with may hold anything."""
    schema = {"properties": {"$ref": {"type": "string"}, "pattern": {}}, "x-owner": "me"}
    assert violation_of(schema, '{"$ref": "http://x"}') is None
    assert violation_of({"const": {"$ref": "http://x"}}, '{"$ref": "http://x"}') is None


@every_row(
    "text",
    [
        "[" * 100_000,
        "[" * 200 + "]" * 200,
        '{"a": ' + "9" * 5_000 + "}",
        '"\\ud800"',
        "\ud800",
        "-" + "9" * 4_000,
        '{"": {"": {"\\u0000": []}}}',
    ],
)
@every_row("schema", [{}, HOST, {"items": {"items": {"maximum": 3}}}, {"multipleOf": 0.01}])
def test_hostile_answers_have_a_verdict(schema: Schema, text: str) -> None:
    """However deep, long or odd an answer is, it is judged and its violation is one short line."""
    verdict = judge(spec_of(schema), Answer(text))
    assert verdict.violation is None or (
        len(verdict.violation) <= 240 and verdict.violation.isprintable()
    )


def test_patterns_take_linear_time() -> None:
    """A pattern that others take exponential time for grows with the text alone."""
    spec = spec_of({"pattern": "^(a+)+$"})
    check_spec(spec)
    judge(spec, Answer('"a"'))
    assert growth.grows_linearly(lambda size: judge(spec, Answer(f'"{"a" * size}b"')), 32_768)


def test_it_is_judged_in_a_process_of_its_own() -> None:
    """Where time and memory are bounded, also as a part of others; with the same verdict as here."""
    beside = {"type": "tool_call", "no_call": True, "answer": spec_of(HOST)}
    for validator in (
        spec_of(HOST),
        {"type": "all_of", "validators": [spec_of(HOST)]},
        beside,
    ):
        prompt = Prompt(id="P0", name="p", prompt="…", validator=validator)
        assert takes_long(prompt, WEB, [])
        assert not takes_long(prompt, "", [])
        judge_process = Judge()
        try:
            assert judge_process.judge(prompt, WEB, []) == judge_answer(prompt, WEB, [])
        finally:
            judge_process.close()


def test_an_authors_notes_are_no_part_of_a_validator() -> None:
    """A validator that takes notes may have them under any name."""
    notes = {"validators": [{"a": 1}], "answer": {"type": "json_schema"}}
    prompt = Prompt(id="P0", name="p", prompt="…", validator={"type": "noop", **notes})
    assert not takes_long(prompt, WEB, [])


def test_the_library_is_loaded_by_who_uses_it_alone() -> None:
    """A suite without a schema does without it."""
    code = (
        "import sys; from clawgauge.checks import load_judges, check_spec; load_judges();"
        "check_spec({'type': 'json_keys', 'required_keys': []});"
        "sys.exit('jsonschema_rs' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
