"""A view's columns: which figures it shows, what it calls them, and how much of each it shows."""

from __future__ import annotations

from dataclasses import dataclass

from clawgauge.figures import (
    LOAD_FIGURES,
    MODEL_FIGURES,
    Figure,
    ModelOrSuite,
    Style,
    format_cell,
    read_figure,
)
from clawgauge.records import StepSummary
from clawgauge.words import ABSENT


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """A figure of a model or a suite under a heading. Raises KeyError where there is no such
    figure."""

    figure: str
    heading: str
    style: Style = Style.SHORT
    digits: int = 0

    def __post_init__(self) -> None:
        MODEL_FIGURES[self.figure]

    def cell(self, part: ModelOrSuite) -> str:
        unit = MODEL_FIGURES[self.figure].unit
        return format_cell(read_figure(self.figure, part), unit, self.style, self.digits)


@dataclass(frozen=True, slots=True)
class StepColumn:
    """A figure of a step under load. Raises KeyError where there is no such figure."""

    figure: str
    heading: str
    style: Style = Style.SHORT
    digits: int = 0
    is_zero_shown: bool = True

    def __post_init__(self) -> None:
        LOAD_FIGURES[self.figure]

    def cell(self, step: StepSummary) -> str:
        figure: Figure[StepSummary] = LOAD_FIGURES[self.figure]
        value = figure.read(step)
        if not self.is_zero_shown and not value.value:
            return ABSENT
        return format_cell(value, figure.unit, self.style, self.digits)
