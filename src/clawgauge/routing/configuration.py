"""What is to be configured in a router, line by line, with the reason for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ConfiguredLine:
    """One configured thing, by its path, and why. `model` is None where the reason is about all of
    them."""

    path: str
    setting: str
    why: str
    model: str | None = None


@dataclass(slots=True)
class Routing:
    """The settings of a router, the reason for each of their lines, and notes on what could not be
    decided."""

    settings: dict[str, Any] = field(default_factory=dict)
    reasons: list[ConfiguredLine] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
