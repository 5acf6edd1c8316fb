"""Why asking a target ended before its plan did, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def outcome_words(event: str, detail: Mapping[str, Any]) -> str:
    """One line for the event `decided`, `undecided` or `budget_spent`."""
    if event == "budget_spent":
        option = str(detail["budget"]).replace("_", "-")
        if detail.get("unknown_cost"):
            unasked = _count(detail["not_asked"], "call")
            return f"--{option} cannot be kept: a call came back without a cost; {unasked} not made"
        return f"--{option} {detail['limit']:g} is spent; {_count(detail['not_asked'], 'call')} not made"
    seen = f"{detail['k']} of {_count(detail['n'], 'tool prompt')} passed"
    if event == "decided":
        return f"Tier {detail['tier']} decided ({detail['p']:.0%} sure): {seen}, {detail['not_needed']} not needed"
    if detail["tier"] is None:
        return "tier undecided: no tool prompt was answered"
    return f"tier undecided: {seen}, Tier {detail['tier']} is {detail['p']:.0%} likely"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
