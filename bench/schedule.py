"""When each token of a calibrated reply is due, as its model name spells it.

Owns: the names and the arithmetic. Refuses: clocks, sockets and wire formats. Imports nothing, because the command-line
program that keeps such a schedule has to start in milliseconds.

A name is a list of parts joined by `-`; times are milliseconds and may be decimal; unknown parts are ignored, so that
any prefix may stand before them:

    tT  first token T after the request was received      iI  then one token every I
    rR  R reasoning tokens, first                         nN  N tokens of text (16 where nothing is said)
    cC  one tool call in C fragments, last                jJ  each token later by up to J, the same every time

`t100-i10-n32-r4`: four reasoning tokens from 100 ms on, 32 of text from 140 ms on.
"""

from __future__ import annotations

NS_PER_MS = 1_000_000
DEFAULT_TEXT_TOKENS = 16
_LCG_FACTOR, _LCG_STEP, _LCG_MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1


class Schedule:
    """One reply's tokens in their order: reasoning, text, fragments of a tool call."""

    __slots__ = ("first_ns", "gap_ns", "jitter_ns", "n_reasoning", "n_text", "n_tool")

    def __init__(self, model: str) -> None:
        times = {"t": 0.0, "i": 0.0, "j": 0.0}
        counts = {"n": DEFAULT_TEXT_TOKENS, "r": 0, "c": 0}
        for part in model.replace("/", "-").replace(":", "-").split("-"):
            letter, number = part[:1], part[1:]
            if letter in times and _is_number(number):
                times[letter] = float(number)
            elif letter in counts and number.isdecimal():
                counts[letter] = int(number)
        self.first_ns = round(times["t"] * NS_PER_MS)
        self.gap_ns = round(times["i"] * NS_PER_MS)
        self.jitter_ns = round(times["j"] * NS_PER_MS)
        self.n_text = counts["n"]
        self.n_reasoning = counts["r"]
        self.n_tool = counts["c"]

    @property
    def n_tokens(self) -> int:
        return self.n_reasoning + self.n_text + self.n_tool

    @property
    def is_instant(self) -> bool:
        """Whether everything is due at once."""
        return not self.gap_ns and not self.jitter_ns

    def offsets_ns(self) -> list[int]:
        """When each token is due, counted from the request; never earlier than the one before it."""
        offsets = [self.first_ns + k * self.gap_ns for k in range(self.n_tokens)]
        if self.jitter_ns:
            state, latest = _LCG_STEP, 0
            for k, offset in enumerate(offsets):
                state = (state * _LCG_FACTOR + _LCG_STEP) & _LCG_MASK
                latest = max(latest, offset + (state >> 33) % self.jitter_ns)
                offsets[k] = latest
        return offsets


def word(k: int) -> str:
    """The text of the k-th token of a channel. All are of one length: tokens a second are told by characters."""
    return f"w{k % 10_000:04d} "


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
