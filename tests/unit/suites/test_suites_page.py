"""The examples on the suites page are suites that load."""

from __future__ import annotations

import re
from pathlib import Path

from clawgauge.checks.validators import VALIDATORS as KNOWN_VALIDATORS
from clawgauge.suites import list_builtin, load_suite
from clawgauge.suites.load import HEADER_KEYS
from clawgauge.suites.prompt import PROMPT_KEYS
from support.rows import every_row

PAGE = (Path(__file__).parents[3] / "docs" / "suites.md").read_text("utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
VALIDATORS = re.findall(r"### `(\w+)`\n.*?```toml\n(.*?)```", PAGE, re.DOTALL)
BARE_PROMPT = '[[prompts]]\nid = "P0"\nname = "n"\nprompt = "p"\n'


def test_whole_suite_example_loads(tmp_path: Path) -> None:
    """The example of a whole suite can be pasted into a file and run."""
    (tmp_path / "example.toml").write_text(
        next(text for text in EXAMPLES if "[[prompts]]" in text), encoding="utf-8"
    )
    suite = load_suite(str(tmp_path / "example.toml"))
    assert (suite.name, len(suite.prompts)) == ("night_shift", 2)
    assert suite.prompts[0].system == "You assist the night operator. Be brief."


def test_toolbox_example_loads(tmp_path: Path) -> None:
    """The example with a toolbox and variants can be pasted, too, and makes the two prompts it describes."""
    (tmp_path / "example.toml").write_text(
        next(text for text in EXAMPLES if "[toolbox" in text), encoding="utf-8"
    )
    first, second = load_suite(str(tmp_path / "example.toml")).prompts
    assert (first.id, second.id, second.variant_of) == ("P0", "P0#2", "P0")
    assert second.validator["expected_calls"][0]["arguments"]["days"] == [5]
    assert [tool["function"]["name"] for tool in first.tools] == ["get_weather", "exec"]


def test_conversation_example_loads(tmp_path: Path) -> None:
    """The example of a conversation can be pasted: two results in their order, and the context's system text."""
    (tmp_path / "example.toml").write_text(
        next(text for text in EXAMPLES if "[contexts." in text), encoding="utf-8"
    )
    (prompt,) = load_suite(str(tmp_path / "example.toml")).prompts
    assert [message.role for message in prompt.messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert prompt.system == "You keep four servers alive."


def test_every_key_is_on_the_page() -> None:
    """The tables name each key of a suite and of a prompt that the loader takes."""
    told = {
        key
        for row in re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
        for key in re.findall(r"`(\w+)`", row)
    }
    assert {*HEADER_KEYS, *PROMPT_KEYS} <= told


def test_every_validator_has_an_example() -> None:
    """The page shows each validator there is once."""
    assert sorted(name for name, _ in VALIDATORS) == sorted(KNOWN_VALIDATORS)


@every_row(("name", "example"), VALIDATORS, ids=[name for name, _ in VALIDATORS])
def test_validator_example_loads(tmp_path: Path, name: str, example: str) -> None:
    """Each validator's example is accepted, and is of the type it stands under."""
    (tmp_path / "example.toml").write_text(BARE_PROMPT + example, encoding="utf-8")
    assert load_suite(str(tmp_path / "example.toml")).prompts[0].validator["type"] == name


def test_page_counts_the_prompts_right() -> None:
    """The number of prompts the page gives for each built-in suite is the number it has."""
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", PAGE, re.MULTILINE))
    assert told == {info.name: str(info.n_prompts) for info in list_builtin()}
