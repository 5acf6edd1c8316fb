"""Server-sent events come out the same however the bytes were cut and whatever ended the lines."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.errors import CallFailure
from clawgauge.providers.http.reply import STREAM_END, SseDecoder, SseEvent
from support.growth import grows_linearly
from support.rows import every_row


def decode(chunks: list[bytes]) -> list[SseEvent]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


# The examples of the WHATWG standard's section on server-sent events, and the cases of its conformance tests.
WHATWG = {
    "stock ticker": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [(b"", b"YHOO\n+2\n10")]),
    "comment, id, one leading space": (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        [(b"", b"first event"), (b"", b"second event"), (b"", b" third event")],
    ),
    "empty data": (b"data\n\ndata\ndata\n\ndata:", [(b"", b""), (b"", b"\n")]),
    "space or none": (b"data:test\n\ndata: test\n\n", [(b"", b"test"), (b"", b"test")]),
    "named": (
        b"event: add\ndata: 73\n\nevent: remove\ndata: 215\n\n",
        [(b"add", b"73"), (b"remove", b"215")],
    ),
    "name without data": (b"event: add\n\ndata: x\n\n", [(b"", b"x")]),
    "name taken back": (b"event: add\nevent\ndata: x\n\n", [(b"", b"x")]),
    "last name wins": (b"event: a\nevent: b\ndata: x\n\n", [(b"b", b"x")]),
    "unknown fields": (
        b"data: test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\n\n",
        [(b"", b"test\n")],
    ),
    "case matters": (b"Data: x\nDATA: y\ndata: z\n\n", [(b"", b"z")]),
    "colon in data": (b"data:a:b\n\n", [(b"", b"a:b")]),
    "nul in data": (b"data:\x00\n\n", [(b"", b"\x00")]),
    "mixed line ends": (
        b"data:1\r\ndata:2\rdata:3\n\r\ndata:4\r\r",
        [(b"", b"1\n2\n3"), (b"", b"4")],
    ),
    "one mark at the start": (b"\xef\xbb\xbfdata:1\n\n", [(b"", b"1")]),
    "two marks at the start": (b"\xef\xbb\xbf\xef\xbb\xbfdata:1\n\ndata:2\n\n", [(b"", b"2")]),
    "retry": (b"retry: 3000\ndata:x\n\nretry:abc\n\n", [(b"", b"x")]),
}


@every_row(("stream", "events"), WHATWG.values(), ids=WHATWG.keys())
def test_whatwg_vectors(stream: bytes, events: list[tuple[bytes, bytes]]) -> None:
    """Each vector gives the events of the standard, whole, byte by byte, and cut in two at any place."""
    expected = [(name, data) for name, data in events]
    assert decode([stream]) == expected
    assert decode([stream[at : at + 1] for at in range(len(stream))]) == expected
    assert all(decode([stream[:cut], stream[cut:]]) == expected for cut in range(len(stream)))


@given(st.binary(max_size=200), st.data())
def test_any_bytes_under_any_chunking(stream: bytes, data: st.DataObject) -> None:
    """Bytes that are no stream at all decode to the same events however they were cut, and never raise."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[a:b] for a, b in itertools.pairwise([0, *cuts, len(stream)])]
    assert decode(chunks) == decode([stream])


@given(
    st.lists(
        st.sampled_from(
            [b"data", b":", b" ", b"\r", b"\n", b"event", b"\xef\xbb\xbf", b"x", b"\r\n", b"id"]
        )
    )
)
def test_any_tokens_under_any_chunking(tokens: list[bytes]) -> None:
    """The words of the grammar in any order decode the same token by token, byte by byte and whole."""
    stream = b"".join(tokens)
    whole = decode([stream])
    assert decode(tokens) == whole
    assert decode([stream[at : at + 1] for at in range(len(stream))]) == whole


@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_characters="\r\n\0", codec="utf-8")),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.data(),
)
def test_any_text_under_any_chunking(texts: list[str], end: bytes, data: st.DataObject) -> None:
    """Whatever the data lines hold, and wherever the chunks are cut, each event carries its text unchanged."""
    stream = b"".join(b"data: " + text.encode() + end + end for text in texts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(bounds)]
    assert [data.decode() for _, data in decode(chunks)] == texts


def test_an_event_without_its_last_blank_line_is_flushed() -> None:
    """A stream that stops right after its last data line still delivers it, but only when the stream has ended."""
    decoder = SseDecoder()
    assert decoder.feed(b"data: [DONE]") == []
    assert decoder.feed(STREAM_END) == [(b"", b"[DONE]")]


def test_a_byte_order_mark_later_on_is_data() -> None:
    """Only the very first bytes of the stream may be a byte-order mark."""
    assert decode([b"data: a\n\n\xef\xbb\xbfdata: b\n\n"]) == [(b"", b"a")]


@every_row("every", [1, 7, 5000])
@every_row("flood", [b"x" * 1001, b"data: " + b"x" * 995, b"data: y\n" * 1001, b"data:\n" * 1001])
def test_an_endless_line_or_event_stops_at_the_cap(flood: bytes, every: int) -> None:
    """A line, or an event of many lines, empty ones included, that grows past the cap is refused, not held."""
    decoder = SseDecoder(line_cap=1000)
    with pytest.raises(CallFailure) as caught:
        for at in range(0, len(flood), every):
            decoder.feed(flood[at : at + every])
    assert caught.value.failure_type == "response_too_large"


def test_a_long_line_in_many_chunks_costs_its_length() -> None:
    """A line eight times as long takes about eight times the work, not sixty-four times."""
    chunk = b"x" * 500

    def feed(n_chunks: int) -> None:
        decoder = SseDecoder()
        for _ in range(n_chunks):
            decoder.feed(chunk)

    assert grows_linearly(feed, 500, factor=8, floor_s=0.0)


def test_many_events_are_not_one_large_one() -> None:
    """The cap is for a single event: any number of small ones may follow each other, of one line or of several."""
    decoder = SseDecoder(line_cap=1000)
    n_events = sum(
        len(decoder.feed(b"data: 12345\ndata: 67890\n\ndata: 1\ndata: 2")) for _ in range(300)
    )
    assert n_events == 300
