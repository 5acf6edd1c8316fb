"""Hostile answers: twice the text may take at most three times as long, whatever it is made of."""

from __future__ import annotations

import pytest

from clawgauge.checks import Answer, answer_start, detect_tools, judge
from clawgauge.checks.speech import find_claim, refuses
from clawgauge.checks.validators import count_sentences
from support.slow_rest import slow_rest
from unit.checks.growth import grows_linearly

DETECTOR_UNITS = [
    "`",
    "` ",
    "`` ` ",
    "`a` ",
    "```\n",
    "```bash\n",
    "a ```bash\n",
    "~~~\n",
    "$ ",
    "$ ls -x ",
    "\n$ ls",
    "# ls\n",
    "'",
    "'a ",
    '"a ',
    '\\"',
    "“a ",
    "“a ‘b \"c 'd ",
    "'ls -la' `x` $ ls -l\n",
    "<tool>",
    "<tool>\n",
    "[tool:",
    "[tool: a",
    "user@host",
    "\nuser@host:~ ",
    "(venv) ",
    "> - ",
    "<think>x</think>",
    "a | b ",
    "sudo -u ",
    "A=1 ",
    "./",
    "a.",
    "\n",
]
DETECTOR_PREFIXES = ["", "```bash\n", "```\n", "'ls "]


@pytest.mark.parametrize("unit", slow_rest(DETECTOR_UNITS, every=6))
def test_the_detector_is_linear(unit: str) -> None:
    """No repetition of its own marks makes the detector slow, in prose, in a block or in quotes."""
    for prefix in DETECTOR_PREFIXES:
        assert grows_linearly(detect_tools, unit, prefix), f"after {prefix!r}"


@pytest.mark.parametrize("unit", ["sudo ", "sudo -u ", "ls; ", "`sudo ls` "])
def test_expected_wrappers_are_read_in_linear_time(unit: str) -> None:
    """A wrapper that is reported itself does not repeat all that follows it, time and again."""
    assert grows_linearly(lambda text: detect_tools(text, ["sudo", "ls"]), unit, "$ ")


@pytest.mark.parametrize("unit", ["x <<A\n", "cat <<'A'\n", "A\n", "if ", "\\\n", "a; ", '"\\'])
def test_shell_blocks_are_read_in_linear_time(unit: str) -> None:
    """Here-documents and quotes that never end are looked for once."""
    assert grows_linearly(detect_tools, unit, "```bash\n", "\n```")


@pytest.mark.parametrize("unit", ["a", "\\", '\\"', "[", "{", '{"a":', '"', '",', "1", "-", "\\ud800"])
@pytest.mark.parametrize("prefix", ["", '{"a": "', "[", "```json\n"])
def test_json_is_refused_in_linear_time(unit: str, prefix: str) -> None:
    """An unterminated string or a pile of brackets is a parse error soon found."""
    spec = {"type": "json_keys", "required_keys": ["a"]}
    assert grows_linearly(lambda text: judge(spec, Answer(text)), unit, prefix)


@pytest.mark.parametrize("unit", [".", "!", "!a", "a. ", "e.g. ", "... ", "\n", "- ", "a.a.", "。", "*", '."'])
def test_sentences_are_counted_in_linear_time(unit: str) -> None:
    """No pile of stops or marks makes counting slow."""
    assert grows_linearly(count_sentences, unit)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*c", "(.*a){20}"])
def test_patterns_match_in_linear_time(pattern: str) -> None:
    """Patterns that blow up other engines do not blow up this one."""
    spec = {"type": "regex_fullmatch", "pattern": pattern}
    assert grows_linearly(lambda text: judge(spec, Answer(text)), "a", suffix="!")


@pytest.mark.parametrize("unit", ["<think>", "</think>", "<think>a</think>", "<", "</think", " "])
def test_thinking_is_found_in_linear_time(unit: str) -> None:
    """Tags are read once, however many there are."""
    assert grows_linearly(answer_start, unit)


@pytest.mark.parametrize("unit", ["://", "www.", "a", "/?", "?a", "?="])
def test_a_question_is_looked_for_in_linear_time(unit: str) -> None:
    """Addresses that never end are read once."""
    assert grows_linearly(lambda text: judge({"type": "tool_call", "ask": True}, Answer(text)), unit, "://")


@pytest.mark.parametrize(
    "unit", ["\n", " ", "I ", "so ", '"', "`", "```", "> ", "your a ", "the a is now ", "I have sent ", "-"]
)
def test_claims_and_refusals_are_heard_in_linear_time(unit: str) -> None:
    """Nothing that is said over and over keeps the loop from running."""
    assert grows_linearly(lambda text: (find_claim(text), refuses(text)), unit)
