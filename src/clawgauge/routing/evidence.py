"""What the runs say about each model: its figures, its address, its cost, cell by cell where needed."""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from clawgauge.journal import iter_results, read_config, read_inventory
from clawgauge.prices import Price, PriceTable, Tokens, cost_usd
from clawgauge.proxies import is_loopback
from clawgauge.records import CellRow, GroupSummary, Inventory, ModelInfo, RunConfig, RunSummary, Target
from clawgauge.summary import summarize_folder
from clawgauge.summary.rows import Amount, Whole

_JOULES_PER_KWH = 3_600_000
_LOCAL_TYPES = frozenset({"ollama_openai", "embedded"})


class CellName(NamedTuple):
    """What pairs the calls of two models: the same prompt, asked for the same time."""

    suite: str
    prompt_id: str
    repeat: int


class RouteRow(CellRow, frozen=True, kw_only=True, gc=False):
    """One cell of one model. Every addition to the schema document has a default, so older folders decode too."""

    e2e_ms: Whole = 0
    input_tokens: Whole | None = None
    output_tokens: Whole | None = None
    total_ms: Whole | None = None
    model_reported: str | None = None
    cached_tokens: Whole | None = None
    cost_usd: Amount | None = None

    @property
    def target(self) -> Target:
        return Target(self.provider, self.model, self.thinking_level)

    @property
    def cell(self) -> CellName:
        return CellName(self.suite, self.prompt_id, self.repeat)

    @property
    def answered(self) -> bool:
        return self.availability_status == "ok" and self.success

    @property
    def waited_ms(self) -> int:
        """What a user waited for this call, retries and all; the call alone where the record does not say."""
        return self.e2e_ms if self.total_ms is None else self.total_ms


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


def gather_evidence(folders: Sequence[Path], prices: PriceTable) -> tuple[list[Evidence], int]:
    """The evidence on every target of the runs, in the order they were planned; the last run named wins.

    And how many recorded lines could not be read, which count in nothing.
    """
    found: dict[Target, Evidence] = {}
    n_unreadable = 0
    for folder in folders:
        summary = summarize_folder(folder)
        n_unreadable += summary.n_unreadable_lines
        for evidence in _read_run(folder, summary, prices):
            found.pop(evidence.target, None)
            found[evidence.target] = evidence
    return list(found.values()), n_unreadable


def _read_run(folder: Path, summary: RunSummary, prices: PriceTable) -> list[Evidence]:
    config, inventory = read_config(folder), read_inventory(folder)
    rows: dict[Target, list[RouteRow]] = {}
    for row in iter_results(folder, type=RouteRow):
        rows.setdefault(row.target, []).append(row)
    return [_evidence(summary.run_id, group, rows, config, inventory, prices) for group in summary.models]


def _evidence(
    run_id: str,
    group: GroupSummary,
    rows: Mapping[Target, Sequence[RouteRow]],
    config: RunConfig | None,
    inventory: Inventory | None,
    prices: PriceTable,
) -> Evidence:
    target = Target(group.provider, group.model, group.thinking_level)
    settings = (config.providers if config else {}).get(target.provider, {"type": target.provider})
    recorded = config.prices.get(target.label) if config else None
    price = prices.find(target.provider, target.model, settings) or recorded
    judged = _judged_prompts(config, rows)
    cells = {row.cell: _cell(row, price, judged) for row in rows.get(target, ())}
    if (electricity_usd := _electricity_per_call(group, prices)) is not None:
        cells = {name: replace(cell, cost_usd=electricity_usd) for name, cell in cells.items()}
    costs = [cell.cost_usd for cell in cells.values() if cell.answered]
    reported = Counter(row.model_reported for row in rows.get(target, ()) if row.model_reported)
    return Evidence(
        target=target,
        run_id=run_id,
        group=group,
        settings=settings,
        model_info=_find_model(inventory, target),
        model_reported=next(iter(reported)) if len(reported) == 1 else None,
        local=_is_local(settings),
        cost_per_call_usd=mean_or_none(costs),
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


def _judged_prompts(config: RunConfig | None, rows: Mapping[Target, Sequence[RouteRow]]) -> set[tuple[str, str]]:
    if config is not None:
        return {(prompt.suite, prompt.id) for prompt in config.prompts if prompt.validator.get("type") != "noop"}
    return {(row.suite, row.prompt_id) for own in rows.values() for row in own if row.objective_pass is not None}


def _cell(row: RouteRow, price: Price | None, judged: set[tuple[str, str]]) -> Cell:
    cost = row.cost_usd
    if cost is None and price is not None:
        cost = cost_usd(price, Tokens(row.input_tokens, row.output_tokens, row.cached_tokens))
    passed = row.objective_pass if row.answered else None
    return Cell(row.answered, (row.suite, row.prompt_id) in judged, passed, row.waited_ms, cost)


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
