"""What holds for structured calls however they are cut, bent or put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clawgauge.checks import judge_answer, tool_calls_of
from clawgauge.checks.detection import detect_tools
from clawgauge.records import Prompt
from support.rows import every_row
from unit.checks.format_samples import SAMPLES, VARIANTS

WHOLE = [*SAMPLES.values(), *VARIANTS]
# Escapes and entities are the only ways to write what then reads differently.
ESCAPES = ("\\", "&")
PIECES = sorted(
    {
        piece
        for text in WHOLE
        for piece in text.replace(">", ">\0").replace("{", "\0{\0").split("\0")
    }
)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def assert_nothing_invented(text: str) -> None:
    """Every name and every argument of a valid structured call is written in `text`."""
    for call in detect_tools(text):
        if not call.valid or call.channel == "mention":
            continue
        assert call.name
        assert call.name in text.lower()
        for leaf in leaves(call.arguments):
            assert leaf is None or isinstance(leaf, bool | int | float) or leaf in text


@every_row("format_id", list(SAMPLES))
def test_the_samples_are_calls(format_id: str) -> None:
    """Each format is found, under its own channel, with the argument that is written."""
    first = detect_tools(SAMPLES[format_id])[0]
    assert (first.name, first.channel, first.valid) == ("get_sky", f"text:{format_id}", True)
    assert first.arguments["city"] == "Oslo"


@every_row("text", WHOLE)
def test_a_call_cut_at_any_place_invents_nothing(text: str) -> None:
    """An answer that breaks off, or starts late, has no valid call with a name or an argument that is not there."""
    for place in range(len(text) + 1):
        assert_nothing_invented(text[:place])
        assert_nothing_invented(text[place:])


@every_row("text", WHOLE)
def test_a_character_less_invents_nothing(text: str) -> None:
    """Whichever character is lost, the rest is read for what it is."""
    for place in range(len(text)):
        assert_nothing_invented(text[:place] + text[place + 1 :])


@settings(max_examples=300)
@given(data=st.data())
def test_a_bent_call_invents_nothing(data: st.DataObject) -> None:
    """Characters put in, replaced or doubled anywhere neither raise nor make up a call."""
    text = data.draw(st.sampled_from(WHOLE))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        filling = data.draw(
            st.text(st.characters(codec="utf-8"), max_size=3) | st.sampled_from(PIECES)
        )
        text = text[:start] + filling + text[end:]
    if not any(escape in text for escape in ESCAPES):
        assert_nothing_invented(text.replace("\r", "\n"))
    detect_tools(text)


@settings(max_examples=400)
@given(
    pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=25),
    expected=st.lists(st.just("get_sky")),
)
def test_marks_in_any_order_are_judged(pieces: list[str], expected: list[str]) -> None:
    """Marks put together at random never raise, and what they yield can be written to disk."""
    spec = {"type": "tool_invocation", "expected_tools": ["get_sky"]}
    prompt = Prompt(id="P0", name="p", prompt="…", validator=spec, expected_tools=expected)
    judgement = judge_answer(prompt, "".join(pieces), [])
    assert judgement.tool_calls == tool_calls_of(judgement.tool_invocations)
    assert all(call.name for call in judgement.tool_invocations if call.valid)


@given(
    texts=st.lists(
        st.sampled_from([text for text in WHOLE if not text.startswith("[get")]),
        min_size=1,
        max_size=6,
    )
)
def test_calls_in_a_row_are_all_found(texts: list[str]) -> None:
    """Answers that mix formats hold the calls of each, in order."""
    alone = [call for text in texts for call in detect_tools(text)]
    assert detect_tools("\n\n".join(texts)) == alone


@given(text=st.sampled_from(WHOLE), quoted=st.sampled_from(WHOLE))
def test_a_call_quoted_in_an_argument_is_no_call(text: str, quoted: str) -> None:
    """What a JSON string in a call's arguments quotes stays a string."""
    escaped = quoted.replace('"', '\\"').replace("\n", "\\n")
    bent = text.replace('"Oslo"', f'"{escaped}"')
    found = detect_tools(bent)
    assert [call.name for call in found] == [call.name for call in detect_tools(text)]
    assert '"Oslo"' not in text or found[0].arguments["city"] == quoted
