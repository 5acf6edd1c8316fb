"""Who wants to know how a run goes. The runner tells; it never asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawgauge.errors import CallFailure
from clawgauge.records import Prompt, Result, Target


class Observer:
    """Hears of everything and does nothing: a base for the console's live table and for tests."""

    def target_started(self, target: Target, n_cells: int) -> None:
        """A target's suite begins."""

    def call_started(self, target: Target, prompt: Prompt) -> None:
        """A call goes out."""

    def retrying(self, target: Target, prompt: Prompt, failure: CallFailure, wait_s: float) -> None:
        """An attempt failed in a way that may pass."""

    def recorded(self, target: Target, result: Result) -> None:
        """A result is on disk."""

    def target_skipped(self, target: Target, failure: CallFailure, n_cells: int) -> None:
        """The rest of a target's cells are not asked."""

    def stopped(self, target: Target, event: str, detail: Mapping[str, Any]) -> None:
        """Asking a target ended by a rule: `decided`, `undecided` or `budget_spent`, with the event's detail."""

    def target_finished(self, target: Target) -> None:
        """A target's suite is over."""
