"""Prompts of a length: by the server's own count, each its own from the first character on."""

from __future__ import annotations

import math

import pytest

from clawgauge.capacity.prompts import CountedText, fit_token_scale, make_prompt
from support.rows import every_row


@every_row("chars_per_token, around", [(4.0, 0.0), (3.1, 37.0), (5.7, 12.0), (1.4, 200.0)])
def test_the_length_is_the_one_the_server_counts(chars_per_token: float, around: float) -> None:
    def count(text: str) -> int:
        return math.ceil(around + len(text) / chars_per_token)

    texts = [make_prompt(n, f"{n}").text for n in (800, 4_000)]
    short, long = (CountedText(len(text), count(text)) for text in texts)
    scale = fit_token_scale(short, long)
    assert scale.is_counted
    for tokens in (2_000, 16_000, 60_000):
        assert count(make_prompt(scale.to_chars(tokens), "x").text) == pytest.approx(
            tokens, rel=0.01
        )


def test_a_count_that_tells_nothing_is_none() -> None:
    def is_counted(short: int | None, long: int | None) -> bool:
        return fit_token_scale(CountedText(800, short), CountedText(4000, long)).is_counted

    assert not is_counted(None, 900)
    assert not is_counted(12, 12), "the same for every text"
    assert is_counted(200, 1000)


def test_prompts_share_what_they_are_to_share_and_nothing_else() -> None:
    one, other = make_prompt(2_000, "a"), make_prompt(2_000, "b")
    assert one.text[:12] != other.text[:12] and len(one.text) == len(other.text) == 2_000
    assert one.first_code in one.text[:60] and one.last_code in one.text[-200:]
    shared = [make_prompt(2_000, key, shared_chars=600).text for key in "ab"]
    assert shared[0][:600] == shared[1][:600] and shared[0][600:] != shared[1][600:]
    # A session's prompts grow at their end.
    short, long = make_prompt(1_500, "s").text, make_prompt(3_000, "s").text
    assert short[:1_200] == long[:1_200]
