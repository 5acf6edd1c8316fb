"""What an agent program adds to a model and takes from it, beside the bare model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TypeAlias

from clawgauge.records import PromptKey, Target
from clawgauge.records.summary import AgentComparison
from clawgauge.registry import find_type
from clawgauge.run_data import Row, Run
from clawgauge.run_data.row import TEXT
from clawgauge.run_data.schedule import Schedule
from clawgauge.stats.paired import sign_flip_p

_LOST = ("lost", "withheld")
Values: TypeAlias = dict[PromptKey, list[float]]


@dataclass(slots=True)
class _Calls:
    """How many calls had each fate, over the cells of a target."""

    made: int = 0
    run: int = 0
    lost: int = 0
    written: int = 0
    gained: int = 0
    altered: int = 0
    added_messages: int = 0
    late: int = 0


@dataclass(slots=True)
class TargetCells:
    """The cells of one target that were answered, as far as this comparison needs them."""

    program: str | None = None
    versions: dict[str, None] = field(default_factory=dict)
    n: int = 0
    passed: Values = field(default_factory=dict)
    made_passed: Values = field(default_factory=dict)
    first_token_ms: list[float] = field(default_factory=list)
    first_token_user_ms: list[float] = field(default_factory=list)
    e2e_ms: list[float] = field(default_factory=list)
    model_ms: list[float] = field(default_factory=list)
    tools_ms: list[float] = field(default_factory=list)
    harness_ms: list[float] = field(default_factory=list)
    input_tokens: Values = field(default_factory=dict)
    """Of prompts that take one request, tasks apart."""
    cost_usd: Values = field(default_factory=dict)
    calls: _Calls = field(default_factory=_Calls)

    def add(self, row: Row) -> None:
        if row.availability_status != "ok" or row.not_judged is not None:
            return
        self.n += 1
        if row.objective_pass is not None or not row.success:
            is_pass = row.success and row.objective_pass is True
            self.passed.setdefault(row.prompt, []).append(float(is_pass))
        if row.made is not None and row.made.objective_pass is not None:
            self.made_passed.setdefault(row.prompt, []).append(float(row.made.objective_pass))
        _append(self.first_token_ms, row.ttft_ms)
        _append(self.first_token_user_ms, row.ttft_user_ms)
        _append(self.e2e_ms, row.e2e_ms)
        if row.input_tokens is not None and row.turns is None:
            self.input_tokens.setdefault(row.prompt, []).append(row.input_tokens)
        if row.cost_usd is not None:
            self.cost_usd.setdefault(row.prompt, []).append(row.cost_usd)
        if row.agent is not None:
            self._add_agent(row)

    def _add_agent(self, row: Row) -> None:
        if row.agent is not None and row.agent.version is not None:
            self.versions[row.agent.version] = None
        _append(self.model_ms, row.model_ms)
        _append(self.tools_ms, row.tools_ms)
        _append(self.harness_ms, row.harness_ms)
        calls = self.calls
        calls.made += row.calls_made or 0
        calls.run += row.calls_run or 0
        calls.lost += row.calls_lost or 0
        calls.gained += row.calls_gained or 0
        calls.altered += row.calls_altered or 0
        calls.added_messages += row.added_messages or 0
        calls.late += int(row.recorder_late is True)
        for call in row.agent_calls:
            channel = call.made_channel or ""
            if call.fate in _LOST and channel.startswith(TEXT):
                calls.written += 1


def _append(values: list[float], value: float | None) -> None:
    if value is not None:
        values.append(value)


class AgentCells:
    """Collects the cells of every target of a run in which models were asked inside programs."""

    def __init__(self) -> None:
        self.targets: dict[Target, TargetCells] = {}

    def add(self, rows: list[Row], offsets: Sequence[int] = ()) -> None:
        for row in rows:
            cells = self.targets.setdefault(row.target, TargetCells())
            if row.agent is not None:
                cells.program = row.agent.program
            cells.add(row)


def read_agents(run: Run, schedule: Schedule) -> list[AgentComparison]:
    """The models of a run inside agent programs; none where it has none, and nothing is read."""
    if run.config is None:
        return []
    types = [str(settings.get("type")) for settings in run.config.providers.values()]
    if not any(find_type(name).is_agent for name in types):
        return []
    cells = AgentCells()
    run.feed(cells)
    return compare_agents(cells.targets, schedule)


def compare_agents(
    cells: Mapping[Target, TargetCells], schedule: Schedule
) -> list[AgentComparison]:
    """Each target inside a program beside its bare model, where that was asked too."""
    comparisons = []
    for target, inside in cells.items():
        if inside.program is None:
            continue
        provider, _, model = target.model.partition("/")
        bare_target = Target(provider, model, target.thinking_level)
        bare = cells.get(bare_target)
        comparisons.append(_compare(target, inside, bare_target, bare, schedule))
    return comparisons


def _compare(
    target: Target,
    inside: TargetCells,
    bare_target: Target,
    bare: TargetCells | None,
    schedule: Schedule,
) -> AgentComparison:
    prompts = list(inside.passed)
    if bare is not None:
        prompts = [prompt for prompt in inside.passed if prompt in bare.passed]
    p = None
    if bare is not None and prompts:
        p = _compare_passes(prompts, inside, bare, schedule)
    calls = inside.calls
    return AgentComparison(
        target=target.label,
        program=inside.program or "",
        versions=list(inside.versions),
        bare=None if bare is None else bare_target.label,
        n=inside.n,
        n_shared=0 if bare is None else len(prompts),
        passed=_mean_of(prompts, inside.passed),
        made_passed=_mean_of(prompts, inside.made_passed),
        bare_passed=None if bare is None else _mean_of(prompts, bare.passed),
        p=p,
        first_token_ms=_median(inside.first_token_ms),
        first_token_user_ms=_median(inside.first_token_user_ms),
        bare_first_token_ms=None if bare is None else _median(bare.first_token_ms),
        e2e_ms=_median(inside.e2e_ms),
        bare_e2e_ms=None if bare is None else _median(bare.e2e_ms),
        model_ms=_median(inside.model_ms),
        tools_ms=_median(inside.tools_ms),
        harness_ms=_median(inside.harness_ms),
        calls_made=calls.made,
        calls_run=calls.run,
        calls_lost=calls.lost,
        calls_written=calls.written,
        calls_gained=calls.gained,
        calls_altered=calls.altered,
        added_messages=calls.added_messages,
        added_tokens=None if bare is None else _added(inside.input_tokens, bare.input_tokens),
        added_cost_usd=None if bare is None else _added(inside.cost_usd, bare.cost_usd),
        late=calls.late,
    )


def _compare_passes(
    prompts: Sequence[PromptKey], inside: TargetCells, bare: TargetCells, schedule: Schedule
) -> float:
    """How likely luck alone makes a difference as large; variants of one prompt stand together."""
    changes: dict[PromptKey, float] = {}
    for prompt in prompts:
        change = fmean(inside.passed[prompt]) - fmean(bare.passed[prompt])
        family = schedule.family(prompt)
        changes[family] = changes.get(family, 0.0) + change
    return sign_flip_p(list(changes.values()))


def _mean_of(prompts: Sequence[PromptKey], values: Values) -> float | None:
    means = [fmean(values[prompt]) for prompt in prompts if prompt in values]
    return fmean(means) if means else None


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _added(inside: Values, bare: Values) -> float | None:
    """How much more the cells inside the program have, over the prompts that both have."""
    differences = []
    for prompt, values in inside.items():
        if prompt in bare:
            differences.append(fmean(values) - fmean(bare[prompt]))
    return fmean(differences) if differences else None
