"""What a node may add to the run's folder beside records: events and files, by known names.

A node that sends anything else is lost: `NodeLost` is raised, and nothing more is taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from clawgauge.fleet import limits
from clawgauge.fleet.connection import ProbedNode
from clawgauge.fleet.wire import NodeLost, SentFile
from clawgauge.journal import encode_line, resource_tag
from clawgauge.journal.disk import INVENTORY
from clawgauge.journal.folder import RunFolder
from clawgauge.json_limits import find_excess
from clawgauge.plan import Plan
from clawgauge.records import Event, Inventory, Target
from clawgauge.records.result import as_count
from clawgauge.run_data import Run
from clawgauge.runner.context import Observer

_EVENTS_OF_TARGETS = (
    "target_started",
    "target_finished",
    "warm_up",
    "retry",
    "skip",
    "decided",
    "undecided",
    "budget_spent",
    "request_settings",
)
_MAX_EVENT_BYTES = 1024  # of each cell and retry
_N_CELLS_BESIDE = 16  # whose events a node may send beside those of its cells


def refuse(node_name: str, what: str) -> NoReturn:
    raise NodeLost(f"node {node_name} sent {what}: nothing more is taken from it")


class EventIntake:
    """Takes a node's events: those of its targets, each once, on our clock."""

    def __init__(
        self,
        node: ProbedNode,
        targets: Mapping[Target, Target],
        plan: Plan,
        folder: RunFolder,
        observer: Observer,
    ) -> None:
        """`targets` has ours by the node's own."""
        self._node = node
        self._target_by_label = {theirs.label: ours for theirs, ours in targets.items()}
        self._stretch = plan.work.stretch
        self._folder = folder
        self._observer = observer
        self._n_cells = len(targets) * len(plan.prompts) * plan.settings.repeats
        n_tries = plan.settings.max_retries + 2
        self.bytes_left = _MAX_EVENT_BYTES * (self._n_cells + _N_CELLS_BESIDE) * n_tries
        # An event of a node is the same when it is sent again, whatever its clock was taken to be
        # meanwhile.
        self._seen_lines: set[bytes] = set()
        if self._stretch:
            for event in Run.open(folder.path).events:
                self._seen_lines.add(encode_line(replace(event, at_ms=0)))

    def take(self, event: Event) -> bool:
        """Record an event. Returns whether it is one that was not sent before."""
        target = self._target_by_label.get(event.target or "")
        if event.event == "stretch_ended":
            name = "node_left" if target is None else event.event
        elif event.event in _EVENTS_OF_TARGETS and target is not None:
            name = event.event
        else:
            refuse(self._node.name, "an event that is not of its targets")
        timeless = Event(
            event=name,
            at_ms=0,
            target=None if target is None else target.label,
            detail={**event.detail, "node": self._node.name, "node_at_ms": event.at_ms},
        )
        line = encode_line(timeless)
        if line in self._seen_lines:
            return False
        self._seen_lines.add(line)
        self.bytes_left -= len(line)
        if self.bytes_left < 0 or abs(event.at_ms) > limits.MAX_COUNT:
            refuse(
                self._node.name,
                "more events than its work can have, or one of a time that cannot be",
            )
        ahead_ms = round(self._node.clock.offset_ms)
        self._folder.event(replace(timeless, at_ms=event.at_ms - ahead_ms))
        self._notify(name, target, event.detail)
        return True

    def _notify(self, name: str, target: Target | None, detail: Mapping[str, Any]) -> None:
        if name == "node_left":
            self._report_given_up(detail)
        elif target is not None and name == "target_finished":
            self._observer.target_finished(target)
        elif target is not None and "not_asked" in detail:
            # What a node says of itself may be anything.
            with suppress(KeyError, TypeError, ValueError):
                self._observer.stopped(target, name, detail)

    def _report_given_up(self, detail: Mapping[str, Any]) -> None:
        """The calls that a node gave up when it ended; of an earlier stretch they were reported
        then."""
        n_calls = as_count(detail.get("given_up"), below=self._n_cells + 1)
        if n_calls and detail.get("stretch") == self._stretch:
            self._observer.calls_given_up(n_calls)


class FileIntake:
    """Takes the files of a node's work, each once, under the names that they have in our folder."""

    def __init__(
        self, node: ProbedNode, targets: Mapping[Target, Target], folder: RunFolder
    ) -> None:
        """`targets` has ours by the node's own."""
        self._node = node
        self._folder = folder
        self._taken: set[str] = set()
        self._own_names = {INVENTORY: f"inventory_{node.name}.json"}
        for moment in ("before", "after"):
            for theirs in targets:
                ours = replace(theirs, provider=f"{node.name}.{theirs.provider}")
                sent_name = f"resources_{resource_tag(theirs)}_{moment}.txt"
                self._own_names[sent_name] = f"resources_{resource_tag(ours)}_{moment}.txt"

    def find_present(self) -> list[str]:
        """The files that need not be sent, by the node's names."""
        present = []
        for sent_name, own_name in self._own_names.items():
            if self._folder.has(own_name):
                present.append(sent_name)
        return present

    def take(self, file: SentFile) -> None:
        if file.name not in self._own_names:
            refuse(self._node.name, "a file that is not of its work")
        if file.name in self._taken:
            refuse(self._node.name, "a file of its work for the second time")
        self._taken.add(file.name)
        document: Inventory | str = file.text
        if file.name == INVENTORY:
            document = self._read_inventory(file.text)
        self._folder.write(self._own_names[file.name], document)

    def _read_inventory(self, text: str) -> Inventory:
        if find_excess(text.encode("utf-8", "replace"), limits.DOCUMENT) is not None:
            refuse(self._node.name, "an inventory with more in it than any machine has")
        try:
            return msgspec.json.decode(text, type=Inventory)
        except (msgspec.DecodeError, RecursionError):
            refuse(self._node.name, "an inventory that cannot be read")
