"""Calls by name: TARGET/SUITE/PROMPT_ID#REPEAT, or the end of it."""

from __future__ import annotations

from clawgauge.records import Result
from clawgauge.run_data.row import Row


def name_call(call: Row | Result) -> str:
    return f"{call.target.label}/{call.suite}/{call.prompt_id}#{call.repeat}"


class CallFinder:
    """Where the calls are that a name fits: a suffix of TARGET/SUITE/PROMPT_ID, with an optional
    #REPEAT."""

    def __init__(self, call: str) -> None:
        self.offsets: list[int] = []
        self._call = call
        # A number behind a hash sign may also be part of the id: `P3#2` is the second form of `P3`.
        self._name, _, self._repeat = call.rpartition("#")

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        for row, offset in zip(rows, offsets, strict=True):
            target = row.target.label
            prompt = f"{row.suite}/{row.prompt_id}"
            named = {row.prompt_id, prompt, f"{target}/{prompt}", row.prompt_name, target}
            if self._call in named or (self._name in named and self._repeat == str(row.repeat)):
                self.offsets.append(offset)


def reason_of(call: Row | Result) -> str | None:
    """What stands beside an outcome: why there was no answer, no pass, or no verdict."""
    if not call.success:
        return call.failure_type
    return call.violation or call.not_judged
