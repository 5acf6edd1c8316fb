"""Every figure that is shown of a model, a suite or a step under load, defined once.

`models` and `load` hold the tables; `values` says what a figure may be, `cells` how it looks.
Reports, comparisons, the gate, routing and the history name the figures they show and take them
from here."""

from clawgauge.figures.cells import INDICATIVE, Style, format_cell, format_percentile
from clawgauge.figures.load import LOAD_FIGURES
from clawgauge.figures.models import (
    MODEL_FIGURES,
    ModelOrSuite,
    add_up,
    answered,
    passed,
    passed_of_asked,
    passed_of_needed,
    read_figure,
    read_percentile,
    read_rate,
    timed,
)
from clawgauge.figures.values import Amount, Figure, Percentile, PercentileName, Rate, Unit, Value

__all__ = [
    "INDICATIVE",
    "LOAD_FIGURES",
    "MODEL_FIGURES",
    "Amount",
    "Figure",
    "ModelOrSuite",
    "Percentile",
    "PercentileName",
    "Rate",
    "Style",
    "Unit",
    "Value",
    "add_up",
    "answered",
    "format_cell",
    "format_percentile",
    "passed",
    "passed_of_asked",
    "passed_of_needed",
    "read_figure",
    "read_percentile",
    "read_rate",
    "timed",
]
