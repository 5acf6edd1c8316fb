"""Tokens a second: by what was streamed after the first piece, whose tokens took their time before it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

from clawgauge.outcomes import Reply
from clawgauge.records import Load, TimingsUs
from clawgauge.stats.load import sample_of
from clawgauge.timeline import Timeline
from support.scripted_server import ScriptedServer, Text
from unit.providers.observed import attempt

RATE = 100.0
NS_PER_TOKEN = round(1e9 / RATE)


def tell(timeline: Timeline, channel: str, at_ns: int, piece: str) -> None:
    if channel == "call":
        timeline.tool_delta(at_ns, 0, None, piece)
    else:
        getattr(timeline, channel)(at_ns, piece)


def stream(
    sizes: Sequence[int],
    channels: Sequence[str] = ("text",),
    words: Sequence[str] = ("word",),
    **counts: int,
) -> Reply:
    """An answer whose pieces hold so many tokens each, a token every 10 ms, and come once their last token is made."""
    timeline = Timeline()
    timeline.start(0)
    n_made = 0
    for number, size in enumerate(sizes):
        piece = "".join(words[(n_made + n) % len(words)] for n in range(size))
        n_made += size
        tell(timeline, channels[number % len(channels)], n_made * NS_PER_TOKEN, piece)
    timeline.usage(output_tokens=n_made, **counts)
    timeline.end(n_made * NS_PER_TOKEN + 1_000)
    return timeline.fold(0)


@pytest.mark.parametrize(
    "sizes",
    [[1] * 20, [4] * 5, [8] * 3, [1, 8, 8], [8, 1, 1, 1]],
    ids=["1", "4", "8", "small first", "large first"],
)
@pytest.mark.parametrize("channels", [("text",), ("reasoning",), ("reasoning", "text")])
def test_the_size_of_the_pieces_does_not_change_the_rate(
    sizes: list[int], channels: tuple[str, ...]
) -> None:
    """A server that makes 100 tokens a second shows 100, however many it sends at a time and on which channel."""
    assert stream(sizes, channels).output_tps == pytest.approx(RATE)


@pytest.mark.parametrize("channels", [("call",), ("text", "call"), ("reasoning", "text", "call")])
def test_an_answer_with_a_native_call_has_no_rate(channels: tuple[str, ...]) -> None:
    """A server streams a call's name and arguments, and none of the tokens around them, which it counts."""
    assert stream([4] * 6, channels).output_tps is None


def test_pieces_of_changing_size_are_right_at_the_median() -> None:
    """Of 40 tokens in pieces of 16 ± 6, with words of different lengths, a single answer is off by a tenth or so."""
    dice = random.Random(17)
    rates = []
    for _ in range(400):
        sizes: list[int] = []
        while sum(sizes) < 40:
            sizes.append(max(1, round(dice.gauss(16, 6))))
        rate = stream(
            sizes, words=[dice.choice(["a ", "bee ", "words ", "counting "]) for _ in range(40)]
        ).output_tps
        if rate is not None:
            rates.append(rate)
    assert len(rates) > 300
    assert median(rates) == pytest.approx(RATE, rel=0.03)


def test_pieces_read_at_one_moment_are_one_piece() -> None:
    """Several events in one packet have one stamp: all their tokens came before the clock of the rate starts."""
    timeline = Timeline()
    timeline.start(0)
    for at_ms in (40, 40, 40, 40, 80, 80, 80, 80):
        timeline.text(at_ms * 1_000_000, "word ")
    timeline.usage(output_tokens=8)
    assert timeline.fold(0).output_tps == pytest.approx(RATE)


@pytest.mark.parametrize("sizes", [[], [20]], ids=["none", "one"])
def test_under_two_pieces_there_is_no_rate(sizes: list[int]) -> None:
    assert stream(sizes).output_tps is None


def test_a_first_piece_with_all_but_a_line_end_leaves_no_rate() -> None:
    """Half a token by its characters: the rate of that would be nonsense."""
    timeline = Timeline()
    timeline.start(0)
    timeline.text(1_000_000_000, "word" * 49)
    timeline.text(1_030_000_000, "\n")
    timeline.usage(output_tokens=50)
    timeline.end(1_040_000_000)
    assert timeline.fold(0).output_tps is None


def test_reasoning_that_was_counted_and_not_streamed_leaves_no_rate() -> None:
    """Nobody saw when those tokens were made; where they were streamed, or are in the text, they count as any other."""
    assert stream([4] * 5, reasoning_tokens=8).output_tps is None
    assert stream([4] * 5, reasoning_tokens=0).output_tps == pytest.approx(RATE)
    assert stream([4] * 5, ("reasoning", "text"), reasoning_tokens=8).output_tps == pytest.approx(
        RATE
    )
    timeline = Timeline()
    timeline.start(0)
    for place, piece in enumerate(["<think>", "so 1234", "</think", ">answer"], 1):
        timeline.text(place * NS_PER_TOKEN, piece)
    timeline.usage(output_tokens=4, reasoning_tokens=3)
    assert timeline.fold(0).output_tps == pytest.approx(RATE)


def test_a_summary_of_the_reasoning_is_not_the_reasoning() -> None:
    timeline = Timeline()
    timeline.start(0)
    timeline.note(reasoning_streamed=False)
    timeline.reasoning(NS_PER_TOKEN, "It thought about it.")
    timeline.text(2 * NS_PER_TOKEN, "yes")
    timeline.usage(output_tokens=2_000, reasoning_tokens=1_990)
    assert timeline.fold(0).output_tps is None


@pytest.mark.parametrize(
    "kind", ["openai_chat", "openai_responses", "anthropic_messages", "ollama"]
)
def test_what_comes_over_a_socket_is_rated_by_its_own_stamps(kind: str) -> None:
    """Five pieces of four tokens: sixteen of them came between the first piece and the last."""
    with ScriptedServer(dialect="ollama") as server:
        server.script(Text(chunks=["four tokens, so many "] * 5, usage=(12, 20), apart=True))
        done, failure = attempt(kind, server.v1_url)
    assert failure is None and len(set(done.piece_times_ns)) == 5
    span_s = (done.piece_times_ns[-1] - done.piece_times_ns[0]) / 1e9
    assert done.output_tps == pytest.approx(16 / span_s, rel=1e-3)


def test_a_summary_over_a_socket_leaves_no_rate() -> None:
    """Responses of a reasoning model stream a summary, and count what was thought."""
    answer = Text(
        chunks=["yes ", "yes ", "yes"],
        usage=(12, 500),
        reasoning="A summary of it.",
        reasoning_tokens=480,
    )
    with ScriptedServer() as server:
        server.reply_with(answer)
        done, _ = attempt("openai_responses", server.v1_url)
    assert done.reasoning_text and done.output_tps is None


def test_the_time_per_token_under_load_goes_by_the_same_rule() -> None:
    """Of 24 tokens in pieces of 8 the first 8 came with the first token; 16 took the 160 ms after it."""

    def pace(**first: float) -> float | None:
        load = Load(client=0, due_us=0, queued_us=0, gaps_us=[80_000, 80_000], **first)
        counts: dict[str, Any] = {
            "input_tokens": 1,
            "cached_tokens": None,
            "reasoning_tokens": None,
        }
        told = {
            "success": True,
            "failure_type": None,
            "availability_status": "ok",
            "server_us": None,
        }
        times = TimingsUs(e2e=240_000, ttft=80_000, ttfa=80_000)
        return sample_of(
            SimpleNamespace(load=load, timings_us=times, output_tokens=24, **counts, **told)
        ).tpot_ms

    assert pace(first_share=1 / 3) == pytest.approx(10)
    assert pace(first_share=1.0) is None, "all of it came at once"
    assert pace(first_share=0.998) is None, "what came later is less than a token"
    assert pace() == pytest.approx(160 / 23), "a record of an earlier version is read as it was"
