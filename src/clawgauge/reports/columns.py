"""The columns of a view: which figures it shows, under which headings, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

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


def model_cell(figure: str, part: ModelOrSuite, style: Style = Style.SHORT, digits: int = 0) -> str:
    """A figure of a model or a suite as a cell. Raises KeyError where there is no such figure."""
    unit = MODEL_FIGURES[figure].unit
    return format_cell(read_figure(figure, part), unit, style, digits)


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """A figure of a model or a suite under a heading of the view's own; `short` and `long` take the
    figure's. Raises KeyError where there is no such figure."""

    figure: str
    heading: str
    style: Style = Style.SHORT
    digits: int = 0

    def __post_init__(self) -> None:
        MODEL_FIGURES[self.figure]

    @classmethod
    def short(cls, figure: str, style: Style = Style.SHORT, digits: int = 0) -> Self:
        return cls(figure, MODEL_FIGURES[figure].titles.short, style, digits)

    @classmethod
    def long(cls, figure: str, style: Style = Style.SHORT, digits: int = 0) -> Self:
        return cls(figure, MODEL_FIGURES[figure].titles.long, style, digits)

    def cell(self, part: ModelOrSuite) -> str:
        return model_cell(self.figure, part, self.style, self.digits)


@dataclass(frozen=True, slots=True)
class StepColumn:
    """A figure of a step under load. Raises KeyError where there is no such figure."""

    figure: str
    digits: int = 0
    is_zero_shown: bool = True

    def __post_init__(self) -> None:
        LOAD_FIGURES[self.figure]

    @property
    def heading(self) -> str:
        return LOAD_FIGURES[self.figure].titles.short

    def cell(self, step: StepSummary) -> str:
        figure: Figure[StepSummary] = LOAD_FIGURES[self.figure]
        value = figure.read(step)
        if not self.is_zero_shown and not value.value:
            return ABSENT
        return format_cell(value, figure.unit, digits=self.digits)
