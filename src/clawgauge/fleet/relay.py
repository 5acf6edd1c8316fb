"""What a node records: it is put on the node's own disk, and sent to the driver.

What could not be sent stays there until a later stretch of the run takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clawgauge.fleet.wire import Assignment, NodeMessage, SentFile
from clawgauge.journal import CellKey, cell_key, encode_document, encode_line, iter_results
from clawgauge.journal.folder import RunFolder
from clawgauge.journal.lines import KEY_WITHHELD, clean
from clawgauge.plan import EarlierAnswers, OpenWork, PlanDraft
from clawgauge.records import Event, Result, Target


class RelayFolder(RunFolder):
    """The folder that the runner writes: a spool on this disk, whose lines go on to the driver."""

    def begin(self, assignment: Assignment, send: Callable[[bytes], None]) -> None:
        self.run_id = assignment.config.run_id
        self._present_files = assignment.present_files
        self._send = send

    def has(self, name: str) -> bool:
        return name in self._present_files

    def write(self, name: str, document: Any) -> None:
        text = document
        if not isinstance(document, str):
            text = encode_document(document).decode()
        self._send(encode_line(NodeMessage(file=SentFile(name, text))))

    async def append(self, result: Result) -> None:
        await super().append(result)
        self._send(encode_result(result))

    def event(self, event: Event) -> None:
        super().event(event)
        self._send(encode_line(NodeMessage(event=event)))


def encode_result(result: Result) -> bytes:
    """A message with this result, withheld as its line on disk is."""
    return b'{"result":' + clean(encode_line(result), KEY_WITHHELD).rstrip(b"\n") + b"}\n"


class Handover:
    """Sends what an earlier stretch recorded and could not deliver."""

    def __init__(
        self, assignment: Assignment, draft: PlanDraft, send: Callable[[bytes], None]
    ) -> None:
        self._assignment = assignment
        self._draft = draft
        self._send = send
        self._asked_keys = {prompt.key for prompt in draft.asked}
        self.keeps_records = False
        """Whether there are records that this stretch does not ask for: they stay for another."""

    def deliver(self, spool: Path) -> OpenWork:
        """Send it. What is sent is done: it is not asked again."""
        assignment = self._assignment
        done: set[CellKey] = set(assignment.done)
        answers_by_target: dict[Target, EarlierAnswers] = {}
        for earlier in assignment.earlier:
            answers_by_target[earlier.target] = EarlierAnswers(
                n_calls=earlier.n_calls, cost_usd=earlier.cost_usd
            )
        results = iter_results(spool)
        for result in results:
            key = cell_key(result)
            if key in done or result.availability_status != "ok":
                continue
            if not self._is_asked(result):
                self.keeps_records = True
                continue
            done.add(key)
            answers = answers_by_target.setdefault(result.target, EarlierAnswers())
            answers.n_calls += max(1, result.turns or 1)
            answers.cost_usd += result.cost_usd or 0.0
            self._send(encode_result(result))
        labels = {None, *(target.label for target in self._draft.targets)}
        for event in results.events:
            if event.target in labels:
                self._send(encode_line(NodeMessage(event=event)))
        return OpenWork(
            done=done,
            refill=frozenset(),
            answers=answers_by_target,
            beside_usd=assignment.beside_usd,
            stretch=assignment.stretch,
        )

    def _is_asked(self, result: Result) -> bool:
        """Whether this stretch asks for the cell of a result, or loads its target."""
        if result.prompt in self._asked_keys:
            return True
        return self._draft.capacity is not None and result.target in self._draft.targets
