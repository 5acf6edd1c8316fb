"""Tokens of a Claude Code call, over all its replies.

Owns: adding up what the API repeats while a reply grows, and what the CLI says at the end. `input_tokens` is the whole
prompt: the API's uncached, cache-read and cache-written tokens together. Refuses: estimating.
"""

from __future__ import annotations

from typing import Any

from clawgauge.providers.base import Sink
from clawgauge.providers.claude_wire import count

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class TokenTally:
    """The counts of the reply under way, and the sums of those before it."""

    def __init__(self) -> None:
        self._current: dict[str, Any] = {}
        self._before: dict[str, int] = {}

    def next_reply(self) -> None:
        for name in _COUNTS:
            self._before[name] = self._before.get(name, 0) + (count(self._current, name) or 0)
        self._current.clear()

    def note(self, usage: Any) -> None:
        """Counts of the reply under way. The API repeats them as they grow, and leaves out what did not change."""
        if isinstance(usage, dict):
            self._current.update({name: value for name, value in usage.items() if value is not None})

    def settle(self, usage: Any) -> None:
        """The CLI's own sums, which stand for everything noted before."""
        if any(count(usage, name) for name in ("input_tokens", "output_tokens")):  # zeros are the CLI's filler
            self._current = dict(usage)
            self._before.clear()

    def report(self, sink: Sink) -> None:
        uncached, cached = self._total("input_tokens"), self._total("cache_read_input_tokens")
        prompt = None
        if uncached is not None:
            prompt = uncached + (cached or 0) + (self._total("cache_creation_input_tokens") or 0)
        sink.usage(
            input_tokens=prompt,
            output_tokens=self._total("output_tokens"),
            cached_tokens=cached,
            reasoning_tokens=count(self._current.get("output_tokens_details"), "thinking_tokens"),
        )

    def _total(self, name: str) -> int | None:
        """The count over all replies so far; None where the one under way does not tell."""
        told = count(self._current, name)
        return None if told is None else told + self._before.get(name, 0)
