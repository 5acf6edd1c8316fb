"""What flows between commands: text in, text out.

Owns: the streams of one command and the bound on them. Refuses: bytes; everything here is text.
"""

from __future__ import annotations

from clawgauge.world.fuel import Fuel

# What one write costs beside its text: a loop that prints nothing much must not go on for long either.
_WRITE_COST = 32


class Input:
    """Standard input: text that commands take from the front."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._at = 0

    def take_all(self) -> str:
        rest = self._text[self._at :]
        self._at = len(self._text)
        return rest

    def take_line(self) -> str | None:
        """The next line without its end, or None at the end."""
        if self._at >= len(self._text):
            return None
        end = self._text.find("\n", self._at)
        end = len(self._text) if end < 0 else end
        line = self._text[self._at : end]
        self._at = end + 1
        return line


class Output:
    """Standard output or error: text that commands add to. Writing costs fuel, so no loop can fill the memory."""

    def __init__(self, fuel: Fuel) -> None:
        self._fuel = fuel
        self._chunks: list[str] = []

    def write(self, text: str) -> None:
        self._fuel.spend(len(text) + _WRITE_COST)
        self._chunks.append(text)

    @property
    def text(self) -> str:
        return "".join(self._chunks)
