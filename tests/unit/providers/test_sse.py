"""Server-sent events come out the same however the bytes were cut and whatever ended the lines."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.errors import CallFailure
from clawgauge.providers.sse import SseDecoder, SseEvent

STREAM = b'event: one\ndata: {"a": 1}\n\n: keep-alive\n\ndata: first\ndata:second\nid: 7\n\ndata\n\ndata: \xc3\xa9\n\n'
EVENTS = [
    SseEvent(b"one", b'{"a": 1}'),
    SseEvent(b"", b"first\nsecond"),
    SseEvent(b"", b""),
    SseEvent(b"", "é".encode()),
]


def decode(chunks: list[bytes]) -> list[SseEvent]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_every_single_cut_gives_the_same_events(end: bytes, bom: bytes) -> None:
    """A stream cut at any one byte decodes as the whole one does, for each line ending, with and without a BOM."""
    stream = bom + STREAM.replace(b"\n", end)
    for cut in range(len(stream) + 1):
        assert decode([stream[:cut], stream[cut:]]) == EVENTS, cut


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_one_byte_at_a_time(end: bytes) -> None:
    """A server that drips single bytes is read as one that does not."""
    stream = STREAM.replace(b"\n", end)
    assert decode([stream[i : i + 1] for i in range(len(stream))]) == EVENTS


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters="\r\n\0", codec="utf-8")), min_size=1, max_size=5),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.data(),
)
def test_any_text_under_any_chunking(texts: list[str], end: bytes, data: st.DataObject) -> None:
    """Whatever the data lines hold, and wherever the chunks are cut, each event carries its text unchanged."""
    stream = b"".join(b"data: " + text.encode() + end + end for text in texts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(bounds)]
    assert [event.data.decode() for event in decode(chunks)] == texts


def test_a_cr_only_server_is_not_one_event_behind() -> None:
    """With CR line ends an event is out when its own last byte is in, not when the next event begins."""
    assert decode([b"data: now\r\r"]) == [SseEvent(b"", b"now")]


def test_an_event_without_its_last_blank_line_is_flushed() -> None:
    """A stream that stops right after its last data line still delivers it, but only when the stream has ended."""
    decoder = SseDecoder()
    assert decoder.feed(b"data: [DONE]") == []
    assert decoder.flush() == [SseEvent(b"", b"[DONE]")]


def test_only_one_leading_space_is_dropped() -> None:
    """`data:  x` keeps its second space: indentation in streamed code survives."""
    assert decode([b"data:  x\n\n"]) == [SseEvent(b"", b" x")]


def test_a_byte_order_mark_later_on_is_data() -> None:
    """Only the very first bytes of the stream may be a byte-order mark."""
    assert decode([b"data: a\n\n\xef\xbb\xbfdata: b\n\n"]) == [SseEvent(b"", b"a")]


@pytest.mark.parametrize("flood", [b"x" * 1001, b"data: " + b"x" * 995, b"data: y\n" * 1001])
def test_an_endless_line_or_event_stops_at_the_cap(flood: bytes) -> None:
    """A line, or an event of many lines, that grows past the cap is refused instead of filling memory."""
    decoder = SseDecoder(line_cap=1000)
    with pytest.raises(CallFailure) as caught:
        decoder.feed(flood)
    assert caught.value.failure_type == "response_too_large"
