"""What all targets of a run share, and who is notified of its progress."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clawgauge.errors import CallFailure
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.records import DrawnPrompt, Event, Prompt, Result, Target
from clawgauge.runner.agenda import Agenda, Cell, CostBudget, SpendingKey
from clawgauge.runner.clock import Clock
from clawgauge.runner.decision import DecisionAgenda
from clawgauge.runner.judging import Judge
from clawgauge.runner.pacing import Pace
from clawgauge.verdict.states import JobState


class Observer(AbstractContextManager["Observer"]):
    """Is notified of all that happens in a run, and does nothing.

    The base of the progress displays, and of what tests watch a run with.
    """

    def __exit__(self, *exc_info: object) -> None: ...

    def target_started(self, target: Target, n_cells: int) -> None:
        """The first of `n_cells` cells of a target is about to be asked."""

    def target_goes_on(self, target: Target, n_calls: int) -> None:
        """About so many more calls are made to a target, to find the best of several models."""

    def told_apart(self, job: str, ahead: str, behind: str, n_shared: int) -> None:
        """Of two fit models one is ahead for a job, by `n_shared` prompts that both were asked."""

    def best_sought(self, job: str, labels: Sequence[str]) -> None:
        """The search for the best is over: one model, or those that were not told apart."""

    def call_started(self, target: Target, prompt: Prompt) -> None:
        """A prompt is about to be sent."""

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        """An attempt failed in a way that may pass; the next one is made after `wait_s`."""

    def recorded(self, target: Target, result: Result) -> None:
        """A result is on disk."""

    def calls_left(self, target: Target, n_calls: int) -> None:
        """About so many calls are left of a target whose answers decide what is asked."""

    def answer_so_far(self, target: Target, n_answers: int, states: Mapping[str, JobState]) -> None:
        """What is known of a model by now, where its asking takes long."""

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        """The other `n_cells` cells of a target are not asked, because of `failure`."""

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        """A rule ended the asking of a target; `event` and `detail` are recorded of it."""

    def target_finished(self, target: Target) -> None:
        """Every cell of a target has its record."""

    def calls_given_up(self, n_calls: int) -> None:
        """The run ended with this many calls in flight, or answered and not on disk."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all targets of a run share beside its plan."""

    plan: Plan
    folder: RunFolder
    observer: Observer
    clock: Clock = field(default_factory=Clock)
    cost: CostBudget | None = None
    """What the whole run may spend; None where that is not limited."""
    rng: random.Random = field(default_factory=random.Random)
    salt: bytes = field(default_factory=partial(secrets.token_bytes, 16))
    """Makes the unique prefixes of this run differ from those of every other."""
    judge: Judge = field(default_factory=Judge)
    in_flight: set[tuple[Target, SpendingKey]] = field(default_factory=set)
    """The cells of which something was sent and whose result is not yet with the folder."""
    windows: dict[Target, int | None] = field(default_factory=dict)
    """How many tokens fit each target's window, as far as that is known."""
    paces: dict[Target, Pace] = field(default_factory=dict)
    """How many calls at once each target was found to take."""
    written_drawings: set[tuple[str, str, int]] = field(default_factory=set)
    """The further drawings that are in the folder."""

    def now_ms(self) -> int:
        return self.clock.wall_ns() // 1_000_000

    def event(self, name: str, target: Target | None, **detail: object) -> None:
        """Write an event, of one target or of the whole run, into events.jsonl."""
        label = None if target is None else target.label
        self.folder.event(Event(event=name, at_ms=self.now_ms(), target=label, detail=detail))

    def write_down(self, cell: Cell) -> None:
        """Write a further drawing of a prompt into the folder before it is asked, once a run."""
        key = (cell.prompt.suite, cell.prompt.id, cell.draw)
        if cell.draw and key not in self.written_drawings:
            self.folder.add_drawn_prompt(DrawnPrompt(draw=cell.draw, prompt=cell.prompt))
            self.written_drawings.add(key)

    def report_stops(self, target: Target, agenda: Agenda | DecisionAgenda) -> None:
        """Record by which rules the asking of a target was ended early, and notify the observer."""
        for outcome in agenda.outcomes():
            self.event(outcome.event, target, **outcome.detail)
            self.observer.stopped(target, outcome.event, outcome.detail)
