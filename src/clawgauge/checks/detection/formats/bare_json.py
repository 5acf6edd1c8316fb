"""Call objects without marks, in a JSON block or bare in the text: `{"name": "f", "arguments": {}}`.

Owns: telling calls from data. The object must be a call beyond doubt, and on its last line nothing but another one may
follow. In a block of any other language than JSON it is data. Refuses: objects inside objects, and recording what does
not decode; without marks it is not known to be a call.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from clawgauge.checks.detection.fences import Block, scan_blocks
from clawgauge.checks.detection.formats.invocations import read_tool_name
from clawgauge.checks.detection.formats.json_calls import read_certain_calls
from clawgauge.checks.detection.formats.json_values import scan_json
from clawgauge.checks.detection.formats.readings import Reading, WrittenCall
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.strict_json import JsonRefused, decode_strictly

OPENING = r"\{(?=\s*+\")|\[(?=\s*+\{\s*+\")"
_NEXT_OBJECT = lazy_pattern(r"[^\S\n]*+(?:[;,][^\S\n]*+)?(?=[\[{])")
# A fence squeezed into one line closes right behind the object.
_LINE_END = lazy_pattern(r"[^\S\n]*+(?:```++[^\S\n]*+)?(?:\n|\Z)")
_JSON_BLOCKS = frozenset(
    ("", "json", "jsonc", "json5", "jsonl", "tool_call", "tool_calls", "tool_use", "function_call")
)


class BareJson:
    """The reader of one text. What it has looked at once it does not look at again, so that it stays linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen_until = 0

    def read(self, _: str, mark: re.Match[str]) -> Reading | None:
        """The calls in a run of objects that starts at `mark`, if it is one."""
        if mark.start() < self._seen_until:
            return None
        calls: list[WrittenCall] = []
        at = mark.start()
        while found := self._read_object(at):
            calls += found
            end = self._seen_until
            following = _NEXT_OBJECT.match(self._text, end)
            if following is None:
                is_last = _LINE_END.match(self._text, end) is not None
                return Reading(end, "json", calls) if is_last and self._may_hold_calls(mark.start()) else None
            at = following.end()
        return None

    def _read_object(self, at: int) -> list[WrittenCall]:
        """The calls in the object or list at `at`; none where it is data, or broken."""
        span = scan_json(self._text, at)
        self._seen_until = span.end
        written = self._text[at : span.end]
        if not span.is_whole or 'name"' not in written:
            return []
        try:
            calls = read_certain_calls(decode_strictly(written))
        except JsonRefused:
            return []
        return calls if all(read_tool_name(call.name) for call in calls) else []

    def _may_hold_calls(self, at: int) -> bool:
        place = bisect_right(self._blocks, at, key=lambda block: block.start)
        block = self._blocks[place - 1] if place else None
        return block is None or at >= block.end or block.info in _JSON_BLOCKS

    @cached_property
    def _blocks(self) -> list[Block]:
        return list(scan_blocks(self._text))
