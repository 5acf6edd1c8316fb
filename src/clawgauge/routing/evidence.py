"""What the runs say about each model: its figures, its address, its cost, cell by cell where needed."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from clawgauge.prices import Price, PriceTable, Tokens, cost_usd
from clawgauge.proxies import is_loopback
from clawgauge.records import GroupSummary, Inventory, ModelInfo, PromptKey, RunConfig, Target
from clawgauge.run_data import Row, Run
from clawgauge.run_data.schedule import carries_verdict
from clawgauge.summary import Strata, summarize

_JOULES_PER_KWH = 3_600_000
_LOCAL_TYPES = frozenset({"ollama_openai", "embedded"})


class CellName(NamedTuple):
    """What pairs the calls of two models: the same prompt, asked for the same time."""

    suite: str
    prompt_id: str
    repeat: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One call, as far as a chain of models would feel it. `cost_usd` is None where it is not known.

    `judged` tells whether the prompt carries a verdict at all, answered or not.
    """

    answered: bool
    judged: bool
    passed: bool | None
    waited_ms: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One target in one run. `settings` is what config.json says of its provider."""

    target: Target
    run_id: str
    group: GroupSummary
    settings: Mapping[str, Any]
    model_info: ModelInfo | None
    model_reported: str | None
    local: bool
    cost_per_call_usd: float | None
    cells: Mapping[CellName, Cell]

    @property
    def label(self) -> str:
        return self.target.label

    @property
    def provider_type(self) -> str:
        return str(self.settings.get("type") or self.target.provider)

    @property
    def free_of_charge(self) -> bool:
        """Runs on the user's own machine, and what the electricity costs is not known."""
        return self.local and not self.cost_per_call_usd


class _Calls:
    """Every call of a run as a cell, by target. Whether a prompt carries a verdict is known once all are there."""

    def __init__(self, run: Run, prices: PriceTable) -> None:
        self.reported: dict[Target, set[str]] = {}
        self._cells: dict[Target, dict[CellName, Cell]] = {}
        self._judged = {p.key for p in run.config.prompts if carries_verdict(p)} if run.config else None
        self._seen_judged: set[PromptKey] = set()
        self._price_of = cache(partial(_find_price, run.config, prices))

    def add(self, rows: list[Row], offsets: Sequence[int]) -> None:
        for row in rows:
            target = row.target
            name = CellName(row.suite, row.prompt_id, row.repeat)
            self._cells.setdefault(target, {})[name] = _cell(row, self._price_of(target))
            if row.model_reported:
                self.reported.setdefault(target, set()).add(row.model_reported)
            if row.objective_pass is not None:
                self._seen_judged.add(row.prompt)

    def of(self, target: Target) -> dict[CellName, Cell]:
        # A folder that does not hold its prompts shows by its records which of them carry a verdict.
        judged = self._seen_judged if self._judged is None else self._judged
        cells = self._cells.get(target, {})
        return {name: replace(cell, judged=(name.suite, name.prompt_id) in judged) for name, cell in cells.items()}


def _cell(row: Row, price: Price | None) -> Cell:
    cost = row.cost_usd
    if cost is None and price is not None:
        cost = cost_usd(price, Tokens(row.input_tokens, row.output_tokens, row.cached_tokens))
    # What a user waited for a call, retries and all; the call alone where the record does not say.
    waited_ms = (row.e2e_ms or 0) if row.total_ms is None else row.total_ms
    passed = row.objective_pass if row.succeeded else None
    return Cell(answered=row.succeeded, judged=False, passed=passed, waited_ms=waited_ms, cost_usd=cost)


def _find_price(config: RunConfig | None, prices: PriceTable, target: Target) -> Price | None:
    recorded = config.prices.get(target.label) if config else None
    return prices.find(target.provider, target.model, _settings_of(config, target)) or recorded


def _settings_of(config: RunConfig | None, target: Target) -> Mapping[str, Any]:
    return (config.providers if config else {}).get(target.provider, {"type": target.provider})


def gather_evidence(folders: Sequence[Path], prices: PriceTable) -> tuple[list[Evidence], int]:
    """The evidence on every target of the runs, in the order they were planned; the last run named wins.

    And how many recorded lines could not be read, which count in nothing.
    """
    found: dict[Target, Evidence] = {}
    n_unreadable = 0
    for folder in folders:
        run = Run.open(folder)
        strata, calls = Strata(), _Calls(run, prices)
        summary = summarize(run.feed(strata, calls), strata)
        n_unreadable += summary.n_unreadable_lines
        for group in summary.models:
            found.pop(group.target, None)
            found[group.target] = _evidence(run, group, calls, prices)
    return list(found.values()), n_unreadable


def _evidence(run: Run, group: GroupSummary, calls: _Calls, prices: PriceTable) -> Evidence:
    target, settings = group.target, _settings_of(run.config, group.target)
    cells = calls.of(target)
    if (electricity_usd := _electricity_per_call(group, prices)) is not None:
        cells = {name: replace(cell, cost_usd=electricity_usd) for name, cell in cells.items()}
    reported = calls.reported.get(target, set())
    return Evidence(
        target=target,
        run_id=run.run_id,
        group=group,
        settings=settings,
        model_info=_find_model(run.inventory, target),
        model_reported=next(iter(reported)) if len(reported) == 1 else None,
        local=_is_local(settings),
        cost_per_call_usd=mean_or_none([cell.cost_usd for cell in cells.values() if cell.answered]),
        cells=cells,
    )


def mean_or_none(costs: Sequence[float | None]) -> float | None:
    """The mean of what every answer cost; one answer of unknown cost makes it unknown."""
    known = [cost for cost in costs if cost is not None]
    # Summed exactly: thirty calls at two cents are two cents a call, and keep a limit of two cents.
    return math.fsum(known) / len(known) if known and len(known) == len(costs) else None


def _electricity_per_call(group: GroupSummary, prices: PriceTable) -> float | None:
    """What the machine's energy came to, spread evenly: its counters know the machine, not the call."""
    if group.cost is not None or prices.usd_per_kwh is None or group.energy_j is None or not group.n_total:
        return None
    return group.energy_j / _JOULES_PER_KWH * prices.usd_per_kwh / group.n_total


def _find_model(inventory: Inventory | None, target: Target) -> ModelInfo | None:
    probes = [probe for probe in inventory.providers if probe.provider == target.provider] if inventory else []
    return next((model for probe in probes for model in probe.models if model.name == target.model), None)


def _is_local(settings: Mapping[str, Any]) -> bool:
    """Whether a provider runs on the user's own machine or network, by its type or its address."""
    if settings.get("type") == "claude_code_cli":
        return False
    host = urlsplit(str(settings.get("base_url") or "")).hostname
    if not host:
        return settings.get("type") in _LOCAL_TYPES
    if is_loopback(host) or host.endswith(".local"):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False
