"""What the runs say about each model: its figures, its address, its cost, cell by cell where
needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clawgauge.prices import (
    Price,
    PriceTable,
    Tokens,
    cost_usd,
    host_of,
    is_free,
    is_local,
    settings_of,
)
from clawgauge.proxies import is_loopback
from clawgauge.records import (
    GroupSummary,
    Job,
    ModelInfo,
    PromptKey,
    RunConfig,
    SentSettings,
    Target,
)
from clawgauge.registry import Location, find_type
from clawgauge.run_data import Row, Run, read_schedule
from clawgauge.run_data.schedule import tier_prompts
from clawgauge.stats.proportions import Cluster
from clawgauge.summary import Strata, summarize
from clawgauge.summary.rates import cluster

_JOULES_PER_KWH = 3_600_000
# What pairs the calls of two models: the same prompt, by suite and id, asked for the same time.
CellName: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """One call, as far as a chain of models would feel it; None is what is not known, or of no
    concern to a tier. `latency_ms` is the time of an answer alone, without retries; `cut_off_ms` is
    when a call timed out."""

    answered: bool
    judged: bool
    passed: bool | None
    waited_ms: int
    cost_usd: float | None
    ttft_ms: int | None
    used_tool: bool | None
    family: PromptKey
    latency_ms: int | None = None
    cut_off_ms: int | None = None
    is_unjudged: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """One target in one run, and what config.json says of its provider. `cells` and `verdicts` are
    of all that was asked, but for prompts inside the user's own context: the bare ones judge a
    model."""

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
    jobs: Mapping[str, Job] = field(default_factory=dict)
    sent: SentSettings | None = None
    """The settings part of its last request, as far as the run says."""
    price: Price | None = None
    load_ms: float | None = None
    """How long a load of the model took, where one was seen."""
    has_reasoned: bool = False
    """Whether any answer came with reasoning."""

    @property
    def window_tokens(self) -> int | None:
        """How many tokens fitted its window in the run, as far as that was known."""
        return self.group.window_tokens

    @property
    def label(self) -> str:
        return self.target.label

    @property
    def provider_type(self) -> str:
        return str(self.settings.get("type") or self.target.provider)

    @property
    def free_of_charge(self) -> bool:
        """On the user's own machine, without a key: who wants one may pass calls on to someone who
        charges for them."""
        return is_free(self.settings) and not self.cost_per_call_usd

    @property
    def fails_with(self) -> str:
        """The machine or vendor whose outage would take this model with it, as far as an address
        tells."""
        provider_type = find_type(self.provider_type)
        if provider_type.location is Location.REMOTE and provider_type.vendor is not None:
            return provider_type.vendor.domain
        host = host_of(self.settings.get("base_url"))
        if is_loopback(host) or (not host and self.local):
            return "this machine"
        is_name = host.rpartition(".")[2].isalpha()
        if is_name:
            # Two names of one domain are one vendor's; to take strangers for one makes a bound no
            # less of a bound.
            return ".".join(host.split(".")[-2:])
        return host or self.target.provider


class _Calls:
    """Every call of a run, by target. Whether a prompt carries a verdict is known once all are
    there."""

    def __init__(self, run: Run, prices: PriceTable) -> None:
        self.reported: dict[Target, set[str]] = {}
        self.reasoning: set[Target] = set()
        """The models of which an answer came with reasoning."""
        self._run = run
        self._cells: dict[Target, dict[CellName, Cell]] = {}
        self._judged_prompts: set[PromptKey] = set()
        self._price_of = cache(partial(_find_price, run.config, prices))

    def add(self, rows: list[Row], offsets: Sequence[int]) -> None:
        for row in rows:
            if not row.was_asked:
                continue
            target = row.target
            cells = self._cells.setdefault(target, {})
            cells[row.suite, row.prompt_id, row.repeat] = self._read_cell(row, target)
            if row.model_reported:
                self.reported.setdefault(target, set()).add(row.model_reported)
            if row.reasoning_tokens:
                self.reasoning.add(target)
            if row.objective_pass is not None:
                self._judged_prompts.add(row.prompt)

    def price_of(self, target: Target) -> Price | None:
        """What its tokens cost, as far as anybody knows."""
        return self._price_of(target)

    def _read_cell(self, row: Row, target: Target) -> Cell:
        """The call of a row; whether its prompt is judged, and of which family it is, is not known
        yet."""
        cost = row.cost_usd
        if cost is None:
            price = self._price_of(target)
            if price is not None:
                tokens = Tokens(row.input_tokens, row.output_tokens, row.cached_tokens)
                cost = cost_usd(price, tokens)
        is_tool_evidence = (
            row.availability_status == "ok" and bool(row.expected_tools) and row.not_judged is None
        )
        # What a user waited for a call, retries and all; the call alone where the record does not
        # say.
        waited_ms = (row.e2e_ms or 0) if row.total_ms is None else row.total_ms
        succeeded = row.succeeded
        return Cell(
            answered=succeeded,
            judged=False,
            passed=row.objective_pass if succeeded else None,
            waited_ms=waited_ms,
            cost_usd=cost,
            ttft_ms=row.ttft_ms if succeeded else None,
            used_tool=row.tool_use_success if is_tool_evidence else None,
            family=row.prompt,
            latency_ms=row.e2e_ms if succeeded else None,
            cut_off_ms=row.e2e_ms if row.failure_type == "timeout" else None,
            is_unjudged=row.not_judged is not None,
        )

    def of(self, target: Target) -> dict[CellName, Cell]:
        """The calls of a target, each with what the plan of the run tells of its prompt."""
        config = self._run.config
        schedule = read_schedule(config, self._judged_prompts)
        tier_keys = {prompt.key for prompt in tier_prompts(config.prompts)} if config else None
        cells = {}
        for name, cell in self._cells.get(target, {}).items():
            # Until here the family of a cell is its prompt alone.
            prompt = cell.family
            is_tool_evidence = tier_keys is None or prompt in tier_keys
            cells[name] = replace(
                cell,
                judged=prompt in schedule.judged and not cell.is_unjudged,
                used_tool=cell.used_tool if is_tool_evidence else None,
                family=schedule.family(prompt),
            )
        return cells


def _find_price(config: RunConfig | None, prices: PriceTable, target: Target) -> Price | None:
    recorded = config.prices.get(target.label) if config else None
    settings = settings_of(config, target)
    return prices.find(target.provider, target.model, settings) or recorded


def gather_evidence(folders: Sequence[Path], prices: PriceTable) -> tuple[list[Evidence], int]:
    """The evidence on every target, the last run named wins; and how many recorded lines could not
    be read."""
    evidence: dict[Target, Evidence] = {}
    n_unreadable = 0
    for folder in folders:
        run = Run.open(folder)
        strata = Strata()
        calls = _Calls(run, prices)
        rows_read = run.feed(strata, calls)
        summary = summarize(run, strata, rows_read)
        n_unreadable += rows_read.n_unreadable_lines
        for group in summary.models:
            provider_type = str(settings_of(run.config, group.target).get("type"))
            plain_name = plain_model(provider_type, group.target.model)
            target = msgspec.structs.replace(group.target, model=plain_name)
            # What was measured again moves to the end: the last one says which jobs there are.
            evidence.pop(target, None)
            evidence[target] = _read_evidence(run, group, calls, prices)
    return list(evidence.values()), n_unreadable


def _read_evidence(run: Run, group: GroupSummary, calls: _Calls, prices: PriceTable) -> Evidence:
    target = group.target
    config = run.config
    settings = settings_of(config, target)
    cells = _add_electricity(calls.of(target), group, prices)
    answered = [cell for cell in cells.values() if cell.answered]
    cost_per_call_usd = mean_or_none([cell.cost_usd for cell in answered])
    if config is not None:
        in_context = {prompt.key for prompt in config.prompts if prompt.in_context}
        cells = {name: cell for name, cell in cells.items() if name[:2] not in in_context}
    judged = [cell for cell in cells.values() if cell.judged]
    reported = calls.reported.get(target, set())
    return Evidence(
        target=target,
        run_id=run.run_id,
        group=group,
        settings=settings,
        model_info=_find_model_info(run, target, settings),
        model_reported=next(iter(reported)) if len(reported) == 1 else None,
        local=is_local(settings),
        cost_per_call_usd=cost_per_call_usd,
        cells=cells,
        verdicts=cluster((cell.family, cell.passed is True, 1) for cell in judged),
        jobs=config.jobs if config else {},
        sent=_read_sent(run, target),
        price=None if is_free(settings) else calls.price_of(target),
        load_ms=_find_load_ms(group),
        has_reasoned=target in calls.reasoning,
    )


def _read_sent(run: Run, target: Target) -> SentSettings | None:
    """The settings part of a target's last request: an event has what changed during the run."""
    sent = None
    if run.config is not None:
        for planned in run.config.planned_targets:
            if planned.target == target:
                sent = planned.sent
    for event in run.events:
        if event.event != "request_settings" or event.target != target.label:
            continue
        with suppress(msgspec.ValidationError):
            sent = msgspec.convert(event.detail, SentSettings)
    return sent


def _find_load_ms(group: GroupSummary) -> float | None:
    """What the server says of its longest load; else by how much the cold calls were slower."""
    loads = group.server_ms.get("load")
    if loads is not None and loads.p99 is not None:
        return loads.p99
    cold_ms = group.latency_cold_ms.p50
    warm_ms = group.latency_warm_ms.p50
    if cold_ms is None or warm_ms is None:
        return None
    return max(0.0, cold_ms - warm_ms)


def _add_electricity(
    cells: dict[CellName, Cell], group: GroupSummary, prices: PriceTable
) -> dict[CellName, Cell]:
    """The calls with what the electricity for them came to, where nothing else was paid and it is
    known."""
    usd_per_kwh = prices.usd_per_kwh
    energy_j = group.energy_j
    if group.cost is not None or usd_per_kwh is None or energy_j is None or not group.attempted:
        return cells
    # Spread evenly: a machine's counters know the machine, not the call.
    usd = energy_j / _JOULES_PER_KWH * usd_per_kwh / group.attempted
    return {name: replace(cell, cost_usd=usd) for name, cell in cells.items()}


def _find_model_info(run: Run, target: Target, settings: Mapping[str, Any]) -> ModelInfo | None:
    """What the inventory of a run knows of a model."""
    if run.inventory is None:
        return None
    provider_type = str(settings.get("type"))
    plain_name = plain_model(provider_type, target.model)
    for probe in run.inventory.providers:
        if probe.provider != target.provider:
            continue
        for model in probe.models:
            if plain_model(provider_type, model.name) == plain_name:
                return model
    return None


def plain_model(provider_type: str, model: str) -> str:
    """A model's name as its provider knows it: to Ollama `llama3.2` and `llama3.2:latest` are
    one."""
    return model.removesuffix(":latest") if find_type(provider_type).is_ollama else model


def mean_or_none(costs: Sequence[float | None]) -> float | None:
    """The mean of what every answer cost; None without one, and where one is of unknown cost."""
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs):
        return None
    # Summed exactly: thirty calls at two cents are two cents a call, and keep a limit of two cents.
    return math.fsum(known) / len(known)
