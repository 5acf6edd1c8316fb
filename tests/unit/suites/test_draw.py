"""Another drawing asks the same with other values, and expects what belongs to them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import SuiteError
from clawgauge.records import Prompt
from clawgauge.suites import load_suite
from support.rows import every_row

HOSTS = {
    "id": "P0",
    "name": "busiest",
    "prompt": "ash has load 2, cedar has load 11. Cedar or ash? washing does not count. Say {name}, or 11.",
    "draw": {
        "ash": ["elm", "oak"],
        "cedar|Cedar": ["maple|Maple", "aspen|Aspen"],
        "11": ["14", "19"],
    },
    "validator": {"type": "tool_invocation", "expected_tools": ["cedar"]},
    "system": "cedar.example",
}
LOG = {
    "id": "P1",
    "name": "needle",
    "prompt": "Log:\n{long}\nWho failed?",
    "long": {
        "tokens": 2000,
        "of": ["{time} INFO job {n} done ({id})"],
        "insert": ["{time} ERROR heron failed", "last"],
    },
    "draw": {"heron": ["stork", "crane"]},
    "validator": {"type": "exact", "value": "heron"},
}
PORTS = {"draw": {"5432": ["6432", "7432"]}, "prompt": "5432", "system": None, "world": None}


def load(tmp_path: Path, drawing: int, *prompts: dict[str, Any], **header: Any) -> list[Prompt]:
    path = tmp_path / "birds.json"
    path.write_text(json.dumps({**header, "prompts": list(prompts)}))
    return load_suite(str(path), drawing=drawing).prompts


def test_drawing_0_is_the_suite_as_written(tmp_path: Path) -> None:
    (prompt,) = load(tmp_path, 0, HOSTS)
    assert prompt.prompt == HOSTS["prompt"] and prompt.validator == HOSTS["validator"]


@every_row("drawing", [1, 2, 3, 77])
def test_a_drawing_changes_prompt_and_expectation_alike(tmp_path: Path, drawing: int) -> None:
    (prompt,) = load(tmp_path, drawing, HOSTS)
    (tree,) = prompt.validator["expected_tools"]
    assert (
        tree in ("maple", "aspen")
        and prompt.system == f"{tree}.example"
        and tree.title() in prompt.prompt
    )
    assert (
        "cedar" not in prompt.prompt.lower()
        and "washing" in prompt.prompt
        and "{name}" in prompt.prompt
    )
    assert prompt == load(tmp_path, drawing, HOSTS)[0]


def test_the_prompts_of_a_pair_are_drawn_alike(tmp_path: Path) -> None:
    """Rules that begin with the same text choose the same, although one of the two has more to replace."""
    first = {
        "id": "P0",
        "name": "given",
        "prompt": "Call ash at noon.",
        "draw": {
            "ash|tree": ["elm|shrub", "oak|bush", "fir|hedge"],
            "noon": ["nine", "ten", "two"],
        },
        "validator": {"type": "exact", "value": "tree"},
    }
    second = first | {
        "id": "P1",
        "name": "missing",
        "pair": "P0",
        "prompt": "Call ash.",
        "draw": {"ash": ["elm", "oak", "fir"]},
        "validator": {"type": "noop"},
    }
    drawn = set()
    for drawing in range(1, 10):
        given, missing = load(tmp_path, drawing, first, second)
        assert given.prompt.startswith(missing.prompt.removesuffix("."))
        assert missing.pair == "P0" and given.pair is None
        drawn.add(missing.prompt)
    assert len(drawn) == 3


def test_drawings_differ(tmp_path: Path) -> None:
    assert len({load(tmp_path, drawing, HOSTS)[0].prompt for drawing in range(1, 40)}) == 8


def test_as_many_drawings_as_there_are_choices_take_each_of_them_once(tmp_path: Path) -> None:
    """So three choices make drawings 1 to 3 differ; the order of the next round is another one in most cases."""
    orders = set()
    for n_choices in (2, 3, 5):
        trees = [f"tree{number}" for number in range(n_choices)]
        entry = HOSTS | {"prompt": "ash", "system": "", "draw": {"ash": trees}}
        entry |= {"validator": {"type": "exact", "value": "ash"}}
        for start in range(1, 10 * n_choices, n_choices):
            drawings = range(start, start + n_choices)
            drawn = [load(tmp_path, drawing, entry)[0].prompt for drawing in drawings]
            assert sorted(drawn) == trees
            orders.add(tuple(drawn))
    assert len(orders) > 10


def test_a_number_of_the_expectation_is_drawn_too(tmp_path: Path) -> None:
    port = {"type": "integer", "min": 5432, "max": 5432}
    entry = (
        HOSTS
        | PORTS
        | {"validator": {"type": "json_keys", "required_keys": ["p"], "key_rules": {"p": port}}}
    )
    (prompt,) = load(tmp_path, 5, entry | {"max_tokens": 5432})
    assert (
        prompt.validator["key_rules"]["p"]["min"]
        == prompt.validator["key_rules"]["p"]["max"]
        == int(prompt.prompt)
    )
    assert int(prompt.prompt) in (6432, 7432) and prompt.max_tokens == 5432


def test_a_number_is_not_drawn_inside_a_longer_one(tmp_path: Path) -> None:
    entry = HOSTS | {"prompt": "11 11.4 2.11 0.11.0 v11 110 11. 11,2 -11", "draw": {"11": ["7"]}}
    assert load(tmp_path, 1, entry)[0].prompt == "7 11.4 2.11 0.11.0 v11 110 7. 7,2 -7"


def test_patterns_of_the_expectation_are_drawn_too(tmp_path: Path) -> None:
    validator = {"type": "regex_fullmatch", "pattern": r"(?i)\bash\b.*10\.0\.0\.7.*\b11\b"}
    draw = {"ash": ["elm"], "10.0.0.7": ["10.9.8.1"], "11": ["14"]}
    (prompt,) = load(
        tmp_path, 1, HOSTS | {"prompt": "ash 10.0.0.7 11", "validator": validator, "draw": draw}
    )
    assert prompt.validator["pattern"] == r"(?i)\belm\b.*10\.9\.8\.1.*\b14\b"


def test_the_longest_text_that_fits_is_the_one_replaced(tmp_path: Path) -> None:
    entry = HOSTS | {"prompt": "C: wait. Reply with C.", "draw": {"C|C: wait": ["B|C: go"]}}
    assert load(tmp_path, 1, entry)[0].prompt == "C: go. Reply with B."


def test_a_long_text_has_its_length_and_its_lines_and_is_the_same_again(tmp_path: Path) -> None:
    (prompt,), (again,), (other,) = (load(tmp_path, drawing, LOG) for drawing in (0, 0, 1))
    assert (
        prompt.prompt == again.prompt
        and 1900 < len(re.findall(r"[a-z]+|\d|\S|\n", prompt.prompt)) < 2300
    )
    assert prompt.prompt.count("ERROR heron failed") == 1 and "{" not in prompt.prompt
    assert prompt.prompt.index("heron failed") < prompt.prompt.index("\nlast\n")
    assert "heron" not in other.prompt and other.validator["value"] in ("stork", "crane")


def test_lines_to_find_are_spread_over_the_text_in_their_order(tmp_path: Path) -> None:
    inserts = [f"needle {number}" for number in range(10)]
    entry = LOG | {
        "draw": None,
        "long": {"tokens": 9000, "of": ["hay {a|b|c}", "straw"], "insert": inserts},
    }
    lines = load(tmp_path, 3, entry)[0].prompt.split("\n")
    places = [lines.index(needle) / len(lines) for needle in inserts]
    assert all(
        number / 10 - 0.02 <= place <= number / 10 + 0.12 for number, place in enumerate(places)
    )
    assert {"hay a", "hay b", "hay c", "straw"} < set(lines)


def test_times_grow_to_the_end_of_the_longest_text(tmp_path: Path) -> None:
    entry = LOG | {"draw": None, "long": {"tokens": 200_000, "of": ["{time} x"]}}
    times = re.findall(r"\d\d:\d\d:\d\d", load(tmp_path, 0, entry)[0].prompt)
    assert times == sorted(times) and len(times) > 15_000 and times[-1] < "24"


def test_what_a_long_text_leaves_out_comes_from_the_suite(tmp_path: Path) -> None:
    entry = LOG | {"draw": None, "long": {"tokens": 50}}
    (prompt,) = load(tmp_path, 0, entry, long={"of": ["straw"], "tokens": 9000})
    assert set(prompt.prompt.split("\n")[1:-1]) == {"straw"} and len(prompt.prompt) < 500
    with pytest.raises(SuiteError, match=r"key 'long\.off' is not known here; did you mean 'of'"):
        load(tmp_path, 0, entry, long={"off": ["straw"]})


def test_a_suite_whose_prompts_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawgauge.suites.load.MAX_TEXT_CHARS", 20_000)
    with pytest.raises(
        SuiteError, match=r"over 20,000 characters of prompts by now; split the suite"
    ):
        load(tmp_path, 0, *[LOG | {"id": f"P{number}"} for number in range(9)])


@every_row(
    ("change", "told"),
    [
        ({"draw": {"birch": ["elm"]}}, "'birch' stands nowhere"),
        ({"draw": {"ash": []}}, "list of texts"),
        ({"draw": {"cedar|Cedar": ["elm"]}}, "must have 2 parts"),
        (
            {"validator": {"type": "max_words", "value": 11}, "draw": {"11": ["14", "lots"]}},
            "write a number",
        ),
        ({"draw": {"ash|cedar": ["a|b"], "cedar": ["c"]}}, "'cedar' is drawn twice"),
        ({"draw": ["ash"]}, "must be an object"),
        ({"long": {"tokens": 5, "of": ["x"]}}, "fills nothing"),
        (
            {"prompt": "ash cedar Cedar 11 {long}", "long": {"tokens": 0, "of": ["x"]}},
            "whole number",
        ),
        ({"prompt": "ash cedar Cedar 11 {long}", "long": {"tokens": 9, "of": []}}, "empty"),
        (
            {"prompt": "ash cedar Cedar 11 {long}", "long": {"tokens": 9, "off": ["x"]}},
            "is not known here; did you mean 'of'",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_place(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(SuiteError, match=r"prompt 1 \('P0'\), key '(draw|long)") as caught:
        load(tmp_path, 0, HOSTS | change)
    assert told in str(caught.value)


def test_a_file_of_a_world_has_a_long_text_of_its_own(tmp_path: Path) -> None:
    """Drawn with the prompt, of about the length asked for, and refused where the file has a text already."""
    file: dict[str, Any] = {"long": LOG["long"], "owner": "root"}
    task: dict[str, Any] = {
        "id": "P0",
        "name": "log",
        "prompt": "Who failed?",
        "tools": ["exec"],
        "world": {"files": {"/var/log/a.log": file, "/var/log/b.log": file}},
        "draw": {"heron": ["stork"]},
        "validator": {"type": "world_state", "expect": [{"file": "/var/log/heron"}]},
    }
    (prompt,) = load(tmp_path, 1, task)
    assert prompt.world is not None
    one, other = (prompt.world["files"][f"/var/log/{name}.log"] for name in "ab")
    assert one["owner"] == "root" and one["text"] != other["text"]
    assert one["text"].count(" ERROR stork failed\n") == 1 and one["text"].endswith("\n")
    assert 2_500 < len(one["text"]) < 3_500
    task["world"]["files"]["/var/log/a.log"] = {**file, "text": "x"}
    with pytest.raises(
        SuiteError, match=r"world.files./var/log/a.log.long': makes the text of a file that has one"
    ):
        load(tmp_path, 0, task)
