"""Server-sent events: bytes in, events out. Pure: no sockets, no clock, no JSON.

Follows the WHATWG grammar: LF, CR and CRLF line ends in any mix, a leading byte-order mark, comments, multi-line data,
an optional space after the colon. Does not decode the payload: `data` stays bytes, so that the caller decodes once.
"""

from __future__ import annotations

from typing import TypeAlias

from clawgauge.errors import CallFailure

LINE_CAP_BYTES = 4 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
# One dispatched event: its name, empty where the stream named none, and its data. Plain: there is one per token.
SseEvent: TypeAlias = tuple[bytes, bytes]


class SseDecoder:
    """Feed it chunks cut anywhere; it returns the events that are complete."""

    __slots__ = ("_at_start", "_data", "_line_cap", "_n_counted", "_name", "_rest", "_size", "_skip_lf")

    def __init__(self, line_cap: int = LINE_CAP_BYTES) -> None:
        # The beginning of a line. It grows in place: a long line is not copied with every chunk.
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._n_counted = 0
        self._name = b""
        self._skip_lf = False
        self._at_start = True
        self._line_cap = line_cap

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if not chunk:
            return []
        if self._skip_lf and chunk[0] == 0x0A:
            chunk = chunk[1:]
            self._skip_lf = False
            if not chunk:
                return []
        if b"\r" in chunk:
            # A CR ends its line at once, or a CR-only server would lag one event behind; the LF that may
            # follow in the next chunk is then swallowed.
            self._skip_lf = chunk[-1] == 0x0D
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            self._skip_lf = False
        if self._at_start:
            chunk = self._completed(chunk)
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._rest += chunk
                return []
            self._at_start = False
            chunk = chunk.removeprefix(_BOM)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._rest:
            lines[0] = self._completed(lines[0])
        if rest:
            self._rest += rest
            if len(self._rest) > self._line_cap:
                raise CallFailure("error", "response_too_large", f"a line of the stream exceeds {self._line_cap} bytes")
        return self._dispatch(lines) if lines else []

    def flush(self) -> list[SseEvent]:
        """What stood at the end without its blank line: many servers leave out the last one."""
        rest = self._completed(b"")
        lines = [rest, b""] if rest else [b""]
        return self._dispatch(lines)

    def _completed(self, end: bytes) -> bytes:
        """The line that had begun, with what `end` adds to it."""
        line = b"".join((self._rest, end))
        self._rest.clear()
        return line

    def _dispatch(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append((self._name, data[0] if len(data) == 1 else b"\n".join(data)))
                    data.clear()
                self._name = b""
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
            elif line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ")
            elif line == b"data":
                data.append(b"")
            elif line == b"event":
                self._name = b""
        if events:
            self._size = self._n_counted = 0
        if len(data) > 1:
            self._check_size(data)
        return events

    def _check_size(self, data: list[bytes]) -> None:
        """Count the lines of the event under way, each once and with its newline, however many chunks bring them."""
        self._size += sum(len(line) + 1 for line in data[self._n_counted :])
        self._n_counted = len(data)
        if self._size > self._line_cap:
            raise CallFailure("error", "response_too_large", f"an event of the stream exceeds {self._line_cap} bytes")
