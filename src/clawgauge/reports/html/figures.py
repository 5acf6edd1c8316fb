"""The figures of the page: its columns, and every cell of them as it is shown. Its scripts draw
and filter alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clawgauge.figures import (
    LOAD_FIGURES,
    MODEL_FIGURES,
    Amount,
    ModelOrSuite,
    Percentile,
    Rate,
    Style,
    Unit,
    Value,
    format_cell,
    read_figure,
)
from clawgauge.figures.models import SUITE_FIGURES
from clawgauge.figures.values import Titles
from clawgauge.records import SERVER_PARTS, CapacitySummary, GroupSummary, RunSummary, StepSummary
from clawgauge.records.summary import SuiteBreakdown, ToolUse
from clawgauge.stats.tiers import TIER_1_RATE, TIER_2_RATE
from clawgauge.verdict.wording import word_tokens
from clawgauge.words import ABSENT, format_money, format_percent, rounded


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A figure under a label, the figure's own where none is given. `hint` is shown to who points
    at it."""

    figure: str
    label: str = ""
    hint: str = ""

    def as_json(self, titles: Titles, *, best_first: bool) -> dict[str, Any]:
        """A first click sorts the rows by it, `best_first` from above."""
        return {
            "figure": self.figure,
            "label": self.label or titles.long,
            "title": self.hint,
            "bestFirst": best_first,
        }


@dataclass(frozen=True, slots=True)
class PageRate:
    """A rate that may be drawn for all models; `bounds` are drawn into it, each with its name."""

    figure: str
    label: str
    lead: str
    bounds: Sequence[tuple[float, str]] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "label": self.label,
            "lead": self.lead,
            "bounds": self.bounds,
        }


_TIER_1 = format_percent(TIER_1_RATE)
_TIER_2 = format_percent(TIER_2_RATE)
_TIER_NOTE = f"Tool-use tier: 1 from {_TIER_1} of the tool prompts, 2 from {_TIER_2}, 3 below"
_WITH_INTERVAL = "of the judged answers, with its 95% interval"
_OF_ASKED = "of all prompts asked that have a verdict, answered or not"
_MEDIAN = "median time to the whole answer; a timeout is longer than any"
_MODELS = (
    PageColumn("objective_pass_rate", hint=_WITH_INTERVAL),
    PageColumn("passed_of_asked", "Of asked", _OF_ASKED),
    PageColumn("answered"),
    PageColumn("p50_ms", hint=_MEDIAN),
    PageColumn("p95_ms"),
    PageColumn("p99_ms"),
    PageColumn("ttft_p50_ms", "First token", "median time to the first token"),
    PageColumn("output_tps_p50", "Tokens/s"),
)
_LATENCY = (
    PageColumn("n_timed"),
    PageColumn("p50_ms"),
    PageColumn("p95_ms"),
    PageColumn("p99_ms"),
    PageColumn("mean_ms"),
    PageColumn("cold_p50_ms"),
    PageColumn("n_timeouts"),
)
_SERVER = tuple(PageColumn(f"server_{part}_ms") for part in SERVER_PARTS)
_TRADEOFF = (
    PageColumn("passed_of_asked", "Passed of asked"),
    PageColumn("p50_ms"),
    PageColumn("p95_ms"),
)
_LOAD = (
    PageColumn("n"),
    PageColumn("visits"),
    PageColumn("requests_per_s"),
    PageColumn("output_tokens_per_s"),
    PageColumn("ttft_p50_ms"),
    PageColumn("ttft_p95_ms"),
    PageColumn("tpot_p50_ms"),
    PageColumn("itl_p95_ms"),
    PageColumn("e2e_p95_ms"),
    PageColumn("attained"),
    PageColumn("n_failed"),
)
_RATES = (
    PageRate(
        "objective_pass_rate",
        "Pass rate",
        "Of the answers that have a verdict, how many met it. The whisker is the Wilson 95% "
        "interval; the thin bar counts unanswered calls as not passed.",
    ),
    PageRate(
        "tool_use_rate",
        "Tool use",
        f"How often an expected tool was called. From {_TIER_1} a model is Tier 1, "
        f"from {_TIER_2} Tier 2.",
        bounds=((TIER_1_RATE, "Tier 1"), (TIER_2_RATE, "Tier 2")),
    ),
    PageRate(
        "argument_accuracy",
        "Right arguments",
        "Calls with the right arguments, of the prompts that offer tools and expect a call.",
    ),
    PageRate("restraint", "Restraint", "How often a model held back where no call was wanted."),
    PageRate(
        "agreement",
        "Agreement",
        "How often a model did what the reference model did, in turns of your own history. "
        "Agreement is not truth.",
    ),
    PageRate("tasks", "Tasks", "Tasks of several turns brought to the wanted end."),
)


def page_columns() -> dict[str, Any]:
    """Which figures each table of the page has, in their order, and the rates that can be drawn."""
    return {
        "models": _model_columns(_MODELS),
        "latency": _model_columns(_LATENCY),
        "server": _model_columns(_SERVER),
        "tradeoff": _model_columns(_TRADEOFF),
        "load": _load_columns(_LOAD),
        "rates": [rate.as_json() for rate in _RATES],
        "tierNote": _TIER_NOTE,
    }


def _model_columns(columns: Iterable[PageColumn]) -> list[dict[str, Any]]:
    entries = []
    for column in columns:
        figure = MODEL_FIGURES[column.figure]
        # Of counts the largest are looked for, whether they are good or bad.
        best_first = figure.better == "higher" or figure.unit == "count"
        entries.append(column.as_json(figure.titles, best_first=best_first))
    return entries


def _load_columns(columns: Iterable[PageColumn]) -> list[dict[str, Any]]:
    entries = []
    for column in columns:
        # Steps are read upwards, from the lightest load.
        entries.append(column.as_json(LOAD_FIGURES[column.figure].titles, best_first=False))
    return entries


def _shown_figures() -> list[str]:
    names = [column.figure for column in (*_MODELS, *_LATENCY, *_SERVER, *_TRADEOFF)]
    names += [rate.figure for rate in _RATES]
    return list(dict.fromkeys(names))


_SHOWN = _shown_figures()


def model_figures(model: GroupSummary) -> dict[str, Any]:
    """All that the page shows of a model: as a whole, and suite by suite."""
    return {
        "cells": _cells(model, _SHOWN),
        "tier": _tier(model.tool_use),
        "cost": _cost(model),
        "tellsServer": "load" in model.server_ms,
        "suites": [_suite_figures(suite) for suite in model.suites],
    }


def _suite_figures(suite: SuiteBreakdown) -> dict[str, Any]:
    categories = []
    for category, recorded in suite.by_category.items():
        categories.append({"category": category, "cell": make_cell(Rate.of(recorded), "rate")})
    names = [name for name in _SHOWN if name in SUITE_FIGURES]
    return {"suite": suite.suite, "cells": _cells(suite, names), "categories": categories}


def _cells(part: ModelOrSuite, names: Iterable[str]) -> dict[str, Any]:
    cells = {}
    for name in names:
        cell = make_cell(read_figure(name, part), MODEL_FIGURES[name].unit)
        if name == "cold_p50_ms" and cell["value"] is not None:
            cell["text"] = f"{cell['text']} (n={cell['n']})"
        cells[name] = cell
    return cells


def make_cell(value: Value, unit: Unit) -> dict[str, Any]:
    """A figure as the page has it: `value` to sort and draw by, `text` to show; of a rate, its
    parts too."""
    cell: dict[str, Any] = {"value": value.value}
    if isinstance(value, Rate):
        cell |= _rate_texts(value)
    elif isinstance(value, Percentile):
        digits = 1 if unit == "tps" else 0
        cell["text"] = format_cell(value, unit, Style.IN_WORDS, digits)
        cell["n"] = value.n
        cell["beyond"] = value.is_beyond
    elif unit == "count":
        cell["text"] = _count(value)
    elif unit == "per_s":
        cell["text"] = ABSENT if value.value is None else rounded(value.value, 2)
    else:
        cell["text"] = format_cell(value, unit, Style.IN_WORDS)
    return cell


def _rate_texts(rate: Rate) -> dict[str, Any]:
    if not rate.n:
        return {"text": ABSENT, "percent": ABSENT, "counts": ABSENT, "n": 0, "interval": None}
    percent = format_percent(rate.value)
    counts = f"{rate.k:,}/{rate.n:,}"
    texts: dict[str, Any] = {
        "text": f"{percent} · {counts}",
        "percent": percent,
        "counts": counts,
        "n": rate.n,
        "ofCounts": f"{rate.k} of {rate.n}",
        "interval": None,
    }
    if rate.ci95 is not None:
        low, high = rate.ci95
        texts["interval"] = f"{rounded(low * 100)}–{rounded(high * 100)}%"
        texts["low"] = low
        texts["high"] = high
    return texts


def _count(amount: Amount) -> str:
    return ABSENT if amount.value is None else f"{int(rounded(amount.value)):,}"


def _tier(use: ToolUse) -> dict[str, Any] | None:
    """The tier and how sure it is; None where there is none. Better tiers come first, and of one
    tier the surer."""
    if use.tier is None:
        return None
    chances = []
    order = float(use.tier)
    counts = f"{use.k:,}/{use.n:,}"
    if use.p_tier is not None:
        for tier, chance in enumerate(use.p_tier, start=1):
            chances.append({"value": chance, "text": f"Tier {tier} {format_percent(chance)}"})
        probability = use.p_tier[use.tier - 1]
        order -= probability / 2
        counts += f", {format_percent(probability)} sure"
    return {
        "tier": use.tier,
        "order": order,
        "isDecided": use.decided,
        "source": use.source,
        "chances": chances,
        "counts": counts,
    }


def _cost(model: GroupSummary) -> dict[str, Any]:
    usd = model.cost_usd
    return {
        "value": read_figure("cost_per_call_usd", model).value,
        "total": None if usd is None else f"{format_money(usd)} in all",
    }


def category_totals(runs: Sequence[RunSummary]) -> list[dict[str, Any]]:
    """The pass rate of each category over all models that may be shown together: of one run or
    of all (None), of one model or of all (None)."""
    rates: dict[tuple[int | None, str | None, str, str], list[Rate]] = {}
    for number, run in enumerate(runs):
        for model in run.models:
            for suite in model.suites:
                for category, recorded in suite.by_category.items():
                    rate = Rate(recorded.k, recorded.n)
                    for of_run in (number, None):
                        for of_model in (model.target.label, None):
                            key = (of_run, of_model, suite.suite, category)
                            rates.setdefault(key, []).append(rate)
    totals = []
    for (of_run, of_model, suite_name, category), parts in rates.items():
        # Without an interval: models are not prompts.
        total = Rate(sum(rate.k for rate in parts), sum(rate.n for rate in parts))
        cell = make_cell(total, "rate")
        totals.append(
            {
                "run": of_run,
                "model": of_model,
                "suite": suite_name,
                "category": category,
                "cell": cell,
            }
        )
    return totals


def capacity_entry(entry: CapacitySummary) -> dict[str, Any]:
    """What a target carries of prompts of one length, step by step."""
    return {
        "target": entry.target,
        "length": word_tokens(entry.context_tokens),
        "contextTokens": entry.context_tokens,
        "steps": [_step(step) for step in entry.steps],
    }


def _step(step: StepSummary) -> dict[str, Any]:
    cells = {}
    for column in _LOAD:
        figure = LOAD_FIGURES[column.figure]
        cells[column.figure] = make_cell(figure.read(step), figure.unit)
    return {
        "level": step.level,
        "levelText": f"{step.level:g}",
        "isLone": step.concurrency == 1,
        "isTrusted": step.trusted,
        "inputTokens": step.input_tokens,
        "cells": cells,
    }
