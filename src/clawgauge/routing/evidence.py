"""What the runs say about each model: its figures, its address, its cost, cell by cell where needed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.prices import Price, PriceTable, Tokens, cost_usd, is_free, is_local
from clawgauge.proxies import host_of, is_loopback
from clawgauge.records import GroupSummary, Inventory, ModelInfo, PromptKey, RunConfig, Target
from clawgauge.run_data import Row, Run, Schedule, read_schedule
from clawgauge.run_data.schedule import tier_prompts
from clawgauge.stats.proportions import Cluster
from clawgauge.summary import Strata, summarize

_JOULES_PER_KWH = 3_600_000


class CellName(NamedTuple):
    """What pairs the calls of two models: the same prompt, asked for the same time."""

    suite: str
    prompt_id: str
    repeat: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One call, as far as a chain of models would feel it. `cost_usd` is None where it is not known.

    `judged` tells whether the prompt carries a verdict at all, answered or not; `used_tool` is None where no tier rests
    on the call. `family` is what the prompt shares with its variants.
    """

    answered: bool
    judged: bool
    passed: bool | None
    waited_ms: int
    cost_usd: float | None
    ttft_ms: int | None
    used_tool: bool | None
    family: PromptKey


@dataclass(frozen=True, slots=True)
class Evidence:
    """One target in one run. `settings` is what config.json says of its provider.

    `verdicts` are passes and trials by family, over all that was scheduled: what was not recorded is no pass.
    """

    target: Target
    run_id: str
    group: GroupSummary
    settings: Mapping[str, Any]
    model_info: ModelInfo | None
    model_reported: str | None
    local: bool
    cost_per_call_usd: float | None
    cells: Mapping[CellName, Cell]
    verdicts: Mapping[PromptKey, Cluster]

    @property
    def label(self) -> str:
        return self.target.label

    @property
    def provider_type(self) -> str:
        return str(self.settings.get("type") or self.target.provider)

    @property
    def free_of_charge(self) -> bool:
        """Runs on the user's own machine, wants no key, and what the electricity costs is not known.

        Who asks for a key may pass calls on to someone who charges for them.
        """
        return is_free(self.settings) and not self.cost_per_call_usd

    @property
    def fails_with(self) -> str:
        """The machine or vendor whose outage would take this model with it, as far as an address tells."""
        if self.provider_type == "claude_code_cli":
            return "anthropic.com"
        host = host_of(self.settings.get("base_url"))
        if is_loopback(host) or (not host and self.local):
            return "this machine"
        # Two names of one domain are one vendor's; to take strangers for one makes a bound no less of a bound.
        is_name = host.rpartition(".")[2].isalpha()
        return ".".join(host.split(".")[-2:]) if is_name else host or self.target.provider


class _Calls:
    """Every call of a run as a cell, by target. Whether a prompt carries a verdict is known once all are there."""

    def __init__(self, run: Run, prices: PriceTable) -> None:
        self.reported: dict[Target, set[str]] = {}
        self._run = run
        self._cells: dict[Target, dict[CellName, Cell]] = {}
        self._seen_judged: set[PromptKey] = set()
        self._price_of = cache(partial(_find_price, run.config, prices))

    def add(self, rows: list[Row], offsets: Sequence[int]) -> None:
        for row in rows:
            target, cost = row.target, row.cost_usd
            if cost is None and (price := self._price_of(target)) is not None:
                cost = cost_usd(price, Tokens(row.input_tokens, row.output_tokens, row.cached_tokens))
            counts = row.availability_status == "ok" and bool(row.expected_tools)
            self._cells.setdefault(target, {})[CellName(row.suite, row.prompt_id, row.repeat)] = Cell(
                answered=row.succeeded,
                judged=False,
                passed=row.objective_pass if row.succeeded else None,
                # What a user waited for a call, retries and all; the call alone where the record does not say.
                waited_ms=(row.e2e_ms or 0) if row.total_ms is None else row.total_ms,
                cost_usd=cost,
                ttft_ms=row.ttft_ms if row.succeeded else None,
                used_tool=row.tool_use_success if counts else None,
                family=row.prompt,
            )
            if row.model_reported:
                self.reported.setdefault(target, set()).add(row.model_reported)
            if row.objective_pass is not None:
                self._seen_judged.add(row.prompt)

    @cached_property
    def _schedule(self) -> Schedule:
        return read_schedule(self._run.config, self._seen_judged)

    @cached_property
    def _tier_pool(self) -> Collection[PromptKey] | None:
        return {p.key for p in tier_prompts(self._run.config.prompts)} if self._run.config else None

    def of(self, target: Target) -> dict[CellName, Cell]:
        schedule, pool = self._schedule, self._tier_pool
        return {
            name: replace(
                cell,
                judged=cell.family in schedule.judged,
                used_tool=cell.used_tool if pool is None or cell.family in pool else None,
                family=schedule.family(cell.family),
            )
            for name, cell in self._cells.get(target, {}).items()
        }

    def verdicts(self, target: Target, cells: Iterable[Cell], n_scheduled: int) -> dict[PromptKey, Cluster]:
        """Passes and trials of the scheduled cells that carry a verdict, by family."""
        outcomes = [(cell.family, cell.passed is True) for cell in cells if cell.judged]
        schedule = self._schedule.without_skipped(self._run.events, target)
        recorded = Counter((name.suite, name.prompt_id) for name in self._cells.get(target, {}))
        # Of the planned cells without a record those come last that a decided tier may have left out.
        planned = sorted(schedule.prompts & schedule.judged, key=lambda key: (key in (self._tier_pool or ()), key))
        missing = [schedule.family(key) for key in planned for _ in range(schedule.repeats - recorded[key])]
        outcomes += [(family, False) for family in missing[: max(0, n_scheduled - len(outcomes))]]
        found: dict[PromptKey, Cluster] = {}
        for family, passed in outcomes:
            passes, trials = found.get(family, (0, 0))
            found[family] = Cluster(passes + passed, trials + 1)
        return found


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
            kind = str(_settings_of(run.config, group.target).get("type"))
            same = msgspec.structs.replace(group.target, model=plain_model(kind, group.target.model))
            found.pop(same, None)
            found[same] = _evidence(run, group, calls, prices)
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
        model_info=_find_model(run.inventory, target, str(settings.get("type"))),
        model_reported=next(iter(reported)) if len(reported) == 1 else None,
        local=is_local(settings),
        cost_per_call_usd=mean_or_none([cell.cost_usd for cell in cells.values() if cell.answered]),
        cells=cells,
        verdicts=calls.verdicts(target, cells.values(), group.n_scheduled_judged),
    )


def plain_model(kind: str, model: str) -> str:
    """A model's name as its provider knows it: to Ollama `llama3.2` and `llama3.2:latest` are one."""
    return model.removesuffix(":latest") if kind == "ollama_openai" else model


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


def _find_model(inventory: Inventory | None, target: Target, kind: str) -> ModelInfo | None:
    probes = [probe for probe in inventory.providers if probe.provider == target.provider] if inventory else []
    wanted = plain_model(kind, target.model)
    return next((model for probe in probes for model in probe.models if plain_model(kind, model.name) == wanted), None)
