"""Which calls are embedded in the page where there are too many for a browser.

Owns: the rule, and the numbers that let the page state it. Refuses: chance; the same folders give the same page. The
rule has two halves, because each alone misleads: a sample misses the rare failure, and failures alone say nothing about
the rest. Charts draw the sample; the list has both.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from clawgauge.reports.html.survey import Survey

MAX_CALLS = 20_000


@dataclass(frozen=True)
class Choice:
    """The digests of the calls to embed; with `everything` set, all of them."""

    everything: bool
    n_calls: int
    n_to_look_at: int
    sampled: frozenset[int] = field(default_factory=frozenset)
    looked_at: frozenset[int] = field(default_factory=frozenset)

    def has(self, digest: int) -> bool:
        return self.everything or digest in self.sampled or digest in self.looked_at

    def is_sampled(self, digest: int) -> bool:
        return self.everything or digest in self.sampled


def choose_calls(survey: Survey, max_calls: int = MAX_CALLS) -> Choice:
    """All calls where they fit. Else an even sample of each target's, and the first of each target's that went wrong.

    At most half of the room goes to the latter. Room is shared so that no target crowds out another.
    """
    n_calls = survey.n_calls
    n_to_look_at = sum(map(len, survey.digests_to_look_at.values()))
    if n_calls <= max_calls:
        return Choice(everything=True, n_calls=n_calls, n_to_look_at=n_to_look_at)
    room = min(n_to_look_at, max_calls // 2)
    firsts = share_room(_sizes(survey.digests_to_look_at), room)
    looked_at = {digest for target, n in firsts.items() for digest in islice(survey.digests_to_look_at[target], n)}
    samples = share_room(_sizes(survey.digests), max_calls - room)
    # The smallest of what looks random is a fair sample, whatever order the calls were made in.
    sampled = {digest for target, n in samples.items() for digest in heapq.nsmallest(n, survey.digests[target])}
    return Choice(False, n_calls, n_to_look_at, frozenset(sampled), frozenset(looked_at))


def share_room(sizes: Mapping[int, int], room: int) -> dict[int, int]:
    """How many of each may come in: what it has where that is little, an equal part of the rest where it is much."""
    shares: dict[int, int] = {}
    for n_left, (key, size) in zip(
        range(len(sizes), 0, -1), sorted(sizes.items(), key=lambda item: item[1]), strict=True
    ):
        shares[key] = min(size, room // n_left)
        room -= shares[key]
    return shares


def _sizes(digests: Mapping[int, array[int]]) -> dict[int, int]:
    return {target: len(found) for target, found in digests.items()}
