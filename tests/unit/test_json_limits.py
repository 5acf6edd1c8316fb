"""How many values a document holds, and how deep it goes, is known before it is decoded."""

from __future__ import annotations

import json
import random
import tomllib
from typing import Any

import pyjson5
import pytest

from clawgauge import json_limits
from clawgauge.json_limits import Format, Limits, find_excess, nests_deeper
from clawgauge.records import ToolInvocation
from support.slow_rest import slow_rest

TEXTS = (
    "",
    "a",
    "[[{,",
    'a "quoted" one',
    "it's",
    "\\",
    '\\\\"',
    "line\nend # // /* {",
    "'''",
    '"""',
    "é" * 9,
    "=" * 40,
)


def draw(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8)
    if depth < 5 and kind < 2:
        return [draw(chance, depth + 1) for _ in range(chance.randrange(6))]
    if depth < 5 and kind < 5:
        return {
            chance.choice(TEXTS) + str(n): draw(chance, depth + 1)
            for n in range(chance.randrange(6))
        }
    return chance.choice([*TEXTS, 1, -2.5, True])


def measure(value: Any) -> tuple[int, int]:
    """How many values there are in a decoded one, itself among them, and how many levels."""
    if not isinstance(value, dict | list):
        return 1, 0
    inner = [measure(one) for one in (value.values() if isinstance(value, dict) else value)]
    return 1 + sum(n for n, _ in inner), 1 + max((depth for _, depth in inner), default=0)


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {as_toml(one)}" for key, one in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, str) and not {"'", "\n"} & set(value):
        return f"'{value}'"
    if (
        isinstance(value, str)
        and '"""' not in value
        and "\\" not in value
        and not value.endswith('"')
    ):
        return f'"""{value}"""'
    return json.dumps(value)


@pytest.mark.parametrize("piece_bytes", [1 << 20, 7])
def test_what_stands_in_texts_and_comments_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """A document of just so many values and levels passes, in every format, and is refused with one fewer."""
    monkeypatch.setattr(json_limits, "_PIECE_BYTES", piece_bytes)
    for seed in range(300):
        value = {"a": [draw(random.Random(seed))]}
        n_values, depth = measure(value)
        texts: dict[Format, str] = {"json": json.dumps(value, indent=seed % 3 or None)}
        texts["json5"] = f"// it's [[[\n/* {{{{ \" */{texts['json']}"
        texts["toml"] = f"# it's [[[\na = {as_toml(value['a'])} # {{\n"
        assert pyjson5.decode(texts["json5"]) == tomllib.loads(texts["toml"]) == value
        for format, text in texts.items():
            data = text.encode()
            # Before each value but the outermost stands a sign, and no value has more than three of its own.
            assert find_excess(data, Limits(3 * n_values, depth + 1), format) is None, (
                seed,
                format,
            )
            assert find_excess(data, Limits(n_values - 2, None), format) is not None, (seed, format)
            if format != "toml":
                assert find_excess(data, Limits(3 * n_values, depth), format) is None, (
                    seed,
                    format,
                )
                assert find_excess(data, Limits(3 * n_values, depth - 1), format) is not None, (
                    seed,
                    format,
                )


def test_how_deep_a_decoded_document_is_counts_its_records_too() -> None:
    for seed in range(100):
        value = [draw(random.Random(seed))]
        _, depth = measure(value)
        assert not nests_deeper(value, depth) and nests_deeper(value, depth - 1), seed
    assert nests_deeper([ToolInvocation(name="x", arguments={"a": []})], 3)
    assert not nests_deeper([ToolInvocation(name="x", arguments={"a": []})], 4)


@pytest.mark.parametrize("format", slow_rest(["json", "json5", "toml"], every=3))
def test_bombs_are_seen_and_what_never_ends_is_left_to_the_decoder(format: Format) -> None:
    limits = Limits(1_000_000, 100)
    for unit in (b"[],", b"{},", b'{"a":1},', b"1,", b'"",'):
        excess = find_excess(b"[" + unit * 1_100_000 + b"1]", limits, format)
        assert excess == "more than 1,000,000 values", unit
    assert (
        find_excess(b"[" * 101 + b"]" * 101, limits, format)
        == "values nested more than 100 levels deep"
    )
    assert (
        find_excess(b'{"a":[' * 51 + b"]}" * 51, limits, format)
        == "values nested more than 100 levels deep"
    )
    assert find_excess(b"[" * 100 + b"]" * 100, limits, format) is None
    for unended in (
        b'"' + b"[" * 500,
        b"[" * 500,
        b"'" * 999 + b"[" * 500,
        b"/*" * 2_000_000,
        b"\"'" * 2_000_000,
    ):
        assert find_excess(unended, limits, format) is None, unended[:9]


def test_a_suite_of_text_is_far_from_any_limit() -> None:
    """64 MiB of history, whose texts are themselves JSON and tables of commas."""
    text = json.dumps([{"path": "a,b,c", "rows": [[1, 2], [3, 4]]}] * 200)
    document = {
        "prompts": [
            {"id": str(n), "messages": [{"role": "user", "content": text}]} for n in range(6_300)
        ]
    }
    data = json.dumps(document).encode()
    assert len(data) > 60 << 20
    assert find_excess(data) is None
