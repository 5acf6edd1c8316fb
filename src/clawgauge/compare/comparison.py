"""Two runs, or two targets of one run, set side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from clawgauge.compare import findings
from clawgauge.compare.comparability import (
    find_changed_prompts,
    find_pair_differences,
    find_run_differences,
)
from clawgauge.compare.correction import Measured, Measurement, settle
from clawgauge.compare.findings import (
    METRICS,
    Comparison,
    Difference,
    PairComparison,
    Paired,
    PairedRate,
    PairedShift,
)
from clawgauge.compare.flips import add_answers, find_flips, find_unanswered
from clawgauge.compare.gate import Rule, apply_rules, refuse_missing, require_judgeable
from clawgauge.compare.pairing import (
    Pair,
    find_plan,
    find_rate_prompts,
    find_target,
    label_prompt,
    pair_prompts,
    pair_targets,
    split_context,
)
from clawgauge.compare.rates import OUTCOMES, measure_rate
from clawgauge.compare.sides import Side, read_side
from clawgauge.compare.times import (
    FIRST_TOKEN,
    WHOLE_CALL,
    measure_times,
    measure_tokens,
)
from clawgauge.errors import ConfigError, RunFolderError
from clawgauge.figures import Percentile, Value
from clawgauge.records import SCHEMA_VERSION, GroupSummary, Target

# Only tool prompts are left out once a tier is decided: these are asked to the end.
_ASKED_TO_THE_END = ("restraint", "tasks", "agreement")


class ComparisonOptions(NamedTuple):
    """What the user wants of a comparison.

    `models` names two targets of the one run that is then given; `maps` (`X=Y`) puts target X of A
    beside target Y of B. `force` compares what differs; `skip_changed` leaves out the prompts that
    do. `answers` adds both answers of the prompts that changed sides."""

    models: tuple[str, str] | None = None
    maps: Sequence[str] = ()
    rules: Sequence[Rule] = ()
    force: bool = False
    skip_changed: bool = False
    answers: bool = False


class IncomparableRuns(RunFolderError):
    """The two sides differ in something that spoils the comparison. `differences` says in what."""

    def __init__(self, message: str, differences: Sequence[Difference]) -> None:
        super().__init__(message)
        self.differences = list(differences)


@dataclass(frozen=True, slots=True)
class PairedSides:
    """Two sides that have been read: the pairs of their targets, and what differs between them."""

    a: Side
    b: Side
    pairs: Sequence[Pair]
    differences: Sequence[Difference]


def compare_runs(
    a_folders: Path | Sequence[Path], b_folders: Path | Sequence[Path], options: ComparisonOptions
) -> Comparison:
    """Two run folders or groups of them, or with `options.models` two targets of one.

    Raises `TargetError` or `RunFolderError` where they have no target or no prompt in common,
    `IncomparableRuns` where they differ in what spoils the comparison, and `ConfigError` for a rule
    that no outcome could break."""
    sides = read_sides(a_folders, b_folders, options)
    require_comparable(sides, options)
    return compare_sides(sides, options)


def read_sides(
    a_folders: Path | Sequence[Path], b_folders: Path | Sequence[Path], options: ComparisonOptions
) -> PairedSides:
    """Both sides, each run read once. Raises as `compare_runs` where nothing can be paired."""
    paths_a = [a_folders] if isinstance(a_folders, Path) else list(a_folders)
    paths_b = [b_folders] if isinstance(b_folders, Path) else list(b_folders)
    a = read_side(paths_a)
    is_one_side = [path.resolve() for path in paths_a] == [path.resolve() for path in paths_b]
    b = a if is_one_side else read_side(paths_b)
    pairs = _choose_pairs(a, b, options)
    return PairedSides(a=a, b=b, pairs=pairs, differences=_find_differences(a, b, pairs))


def require_comparable(sides: PairedSides, options: ComparisonOptions) -> None:
    """Raise `IncomparableRuns` where a difference spoils what is asked for, unless it is forced."""
    if options.force:
        return
    spoiling = [difference for difference in sides.differences if difference.scope != "note"]
    if any(difference.scope == "verdicts" for difference in spoiling):
        raise IncomparableRuns("A and B cannot be compared", spoiling)
    timing_rules = [rule.text for rule in options.rules if rule.metric.is_timing]
    if timing_rules and spoiling:
        names = ", ".join(timing_rules)
        raise IncomparableRuns(
            f"the gate asks for times ({names}), which cannot be compared", spoiling
        )


def compare_sides(sides: PairedSides, options: ComparisonOptions) -> Comparison:
    """Everything that is to be said of two sides that may be compared. Raises `ConfigError` for a
    rule that no outcome could break."""
    a = sides.a
    b = sides.b
    require_judgeable(options.rules, a, b, sides.pairs)
    scopes = {difference.scope for difference in sides.differences}
    with_latency = options.force or "latency" not in scopes
    compared = _compare_pairs(sides, with_latency=with_latency)
    if options.answers:
        compared = add_answers(a, b, [pair.shared for pair in sides.pairs], compared)
    only_in_a, only_in_b = _list_unpaired(sides, options)
    rules = apply_rules(options.rules, a, b, sides.pairs, compared)
    if not options.maps:
        # A target that A has and B lost has met no rule, unless the user said which targets are
        # meant.
        rules += refuse_missing(options.rules, only_in_a)
    return Comparison(
        schema_version=SCHEMA_VERSION,
        a=_describe_side(a),
        b=_describe_side(b),
        forced=options.force and bool(scopes - {"note"}),
        latency_compared=with_latency,
        differences=list(sides.differences),
        only_in_a=only_in_a,
        only_in_b=only_in_b,
        pairs=compared,
        rules=rules,
    )


def _list_unpaired(sides: PairedSides, options: ComparisonOptions) -> tuple[list[str], list[str]]:
    """The targets of A and of B that stand beside none. Of two targets of one run nobody misses the
    others."""
    if options.models is not None:
        return [], []
    paired_in_a = {pair.a for pair in sides.pairs}
    paired_in_b = {pair.b for pair in sides.pairs}
    only_in_a = [target.label for target in sides.a.targets if target not in paired_in_a]
    only_in_b = [target.label for target in sides.b.targets if target not in paired_in_b]
    return only_in_a, only_in_b


def _choose_pairs(a: Side, b: Side, options: ComparisonOptions) -> list[Pair]:
    """The pairs of targets that are compared. Raises `RunFolderError` for one without a prompt in
    common."""
    pairs = []
    for target_a, target_b in _choose_targets(a, b, options):
        pair = pair_prompts(a, target_a, b, target_b)
        if options.skip_changed:
            pair = _skip_changed(a, b, pair)
        if not pair.shared:
            sides = f"{pair.a.label} of {a.run_id} and {pair.b.label} of {b.run_id}"
            alone = f"only in A: {len(pair.only_a)}, only in B: {len(pair.only_b)}"
            raise RunFolderError(
                f"{sides} have no prompt in common ({alone}): compare runs of the same suite"
            )
        pairs.append(pair)
    return pairs


def _choose_targets(a: Side, b: Side, options: ComparisonOptions) -> list[tuple[Target, Target]]:
    if options.models is None:
        return pair_targets(a, b, options.maps)
    first = find_target(a, options.models[0])
    second = find_target(a, options.models[1])
    if first == second:
        raise ConfigError(f"--models names {first.label} twice: name two targets of the run")
    return [(first, second)]


def _skip_changed(a: Side, b: Side, pair: Pair) -> Pair:
    """Prompts whose content changed are treated as what they are: two different prompts."""
    changed_prompts = find_changed_prompts(a, b, pair.shared)
    changed = [*changed_prompts.asked, *changed_prompts.judged]
    keys = {shared.key for shared in changed}
    return pair._replace(
        shared=[shared for shared in pair.shared if shared.key not in keys],
        only_a=[*pair.only_a, *(shared.key_a for shared in changed)],
        only_b=[*pair.only_b, *(shared.key_b for shared in changed)],
    )


def _find_differences(a: Side, b: Side, pairs: Sequence[Pair]) -> list[Difference]:
    differences = [] if a is b else find_run_differences(a, b)
    for pair in pairs:
        differences += find_pair_differences(a, b, pair)
    differences += _find_differences_within(a, "A", [pair.a for pair in pairs])
    if a is not b:
        differences += _find_differences_within(b, "B", [pair.b for pair in pairs])
    return differences


def _find_differences_within(
    side: Side, letter: str, targets: Sequence[Target]
) -> list[Difference]:
    """What holds of two sides holds of the runs of one: nothing is pooled that could not be
    compared."""
    differences = []
    for other in side.others_alone():
        within = find_run_differences(side, other)
        for target in targets:
            pair = pair_prompts(side, target, other, target)
            within += find_pair_differences(side, other, pair)
        names = f"{side.run_id} and {other.run_id}, both in {letter}"
        for difference in within:
            if difference.scope != "note":
                differences.append(_name_both_runs(difference, names))
    return differences


def _name_both_runs(difference: Difference, names: str) -> Difference:
    """A difference between two runs of one side: its values are not of A and B."""
    what = f"{names}: {difference.what}"
    if difference.a or difference.b:
        what = f"{what}: {difference.a} in the first, {difference.b} in the second"
    return msgspec.structs.replace(difference, what=what, a="", b="", advice=None)


def _compare_pairs(sides: PairedSides, *, with_latency: bool) -> list[PairComparison]:
    """Every pair, each of its figures corrected for all pairs that have it."""
    groups_a = sides.a.summarize_shared(
        [(pair.a, {shared.key_a for shared in pair.shared}) for pair in sides.pairs]
    )
    groups_b = sides.b.summarize_shared(
        [(pair.b, {shared.key_b for shared in pair.shared}) for pair in sides.pairs]
    )
    rates_by_pair = _settle_rates(sides, groups_a, groups_b)
    shifts_by_pair = _settle_shifts(sides, with_latency=with_latency)
    compared = []
    for number, pair in enumerate(sides.pairs):
        compared.append(
            _describe_pair(
                pair,
                groups_a[number],
                groups_b[number],
                rates_by_pair[number],
                shifts_by_pair[number],
                is_decision=sides.a.is_decision or sides.b.is_decision,
            )
        )
    return compared


def _settle_rates(
    sides: PairedSides, groups_a: Sequence[GroupSummary], groups_b: Sequence[GroupSummary]
) -> list[dict[str, PairedRate]]:
    """The rates of every pair, by name."""
    measured_by_pair = []
    for pair, group_a, group_b in zip(sides.pairs, groups_a, groups_b, strict=True):
        measured_by_pair.append(_measure_rates(sides.a, sides.b, pair, group_a, group_b))
    return _settle_by_name(measured_by_pair)


def _settle_by_name(
    measured_by_pair: Sequence[Mapping[str, Measurement[Measured]]],
) -> list[dict[str, Measured]]:
    """Every figure of every pair. A figure is corrected over the pairs that have it."""
    names = dict.fromkeys(name for measured in measured_by_pair for name in measured)
    settled_by_pair: list[dict[str, Measured]] = [{} for _ in measured_by_pair]
    for name in names:
        numbers = [number for number, measured in enumerate(measured_by_pair) if name in measured]
        settled = settle([measured_by_pair[number][name] for number in numbers])
        for number, figure in zip(numbers, settled, strict=True):
            settled_by_pair[number][name] = figure
    return settled_by_pair


class _Shifts(NamedTuple):
    """How far the times and counts of a pair moved; times are None where they are not compared."""

    output_tokens: PairedShift
    latency_ms: PairedShift | None = None
    ttft_ms: PairedShift | None = None

    def by_name(self) -> dict[str, PairedShift]:
        shifts = {"output_tokens": self.output_tokens}
        if self.latency_ms is not None:
            shifts["latency_ms"] = self.latency_ms
        if self.ttft_ms is not None:
            shifts["ttft_ms"] = self.ttft_ms
        return shifts


def _settle_shifts(sides: PairedSides, *, with_latency: bool) -> list[_Shifts]:
    """The times and counts of every pair, of the prompts that were asked bare."""
    plan = find_plan(sides.a, sides.b)
    measured_by_pair = []
    for pair in sides.pairs:
        bare, _ = split_context(plan, pair.shared)
        bare_pair = pair._replace(shared=bare)
        measured: dict[str, Measurement[PairedShift]] = {"output_tokens": measure_tokens(bare)}
        if with_latency:
            measured["latency_ms"] = measure_times(sides.a, sides.b, bare_pair, WHOLE_CALL)
            measured["ttft_ms"] = measure_times(sides.a, sides.b, bare_pair, FIRST_TOKEN)
        measured_by_pair.append(measured)
    shifts = []
    for settled, pair in zip(_settle_by_name(measured_by_pair), sides.pairs, strict=True):
        shifts.append(
            _Shifts(
                output_tokens=settled["output_tokens"],
                latency_ms=_count_cold(settled.get("latency_ms"), pair),
                ttft_ms=_count_cold(settled.get("ttft_ms"), pair),
            )
        )
    return shifts


def _count_cold(shift: PairedShift | None, pair: Pair) -> PairedShift | None:
    """A shift of times, with how many cold calls it leaves out."""
    if shift is None:
        return None
    n_cold = sum(shared.a.n_cold + shared.b.n_cold for shared in pair.shared)
    return msgspec.structs.replace(shift, n_cold_left_out=n_cold)


def _describe_pair(
    pair: Pair,
    group_a: GroupSummary,
    group_b: GroupSummary,
    rates: dict[str, PairedRate],
    shifts: _Shifts,
    *,
    is_decision: bool,
) -> PairComparison:
    evidence: dict[str, Paired] = {**rates, **shifts.by_name()}
    with_latency = shifts.latency_ms is not None
    return PairComparison(
        target_a=pair.a.label,
        target_b=pair.b.label,
        n_shared=len(pair.shared),
        only_in_a=[label_prompt(key) for key in pair.only_a],
        only_in_b=[label_prompt(key) for key in pair.only_b],
        figures=_compare_figures(group_a, group_b, evidence, with_latency=with_latency),
        rates=rates,
        latency_ms=shifts.latency_ms,
        ttft_ms=shifts.ttft_ms,
        output_tokens=shifts.output_tokens,
        flips=find_flips(pair.shared),
        unanswered=find_unanswered(pair.shared),
        stopped=[*_describe_stop("a", group_a), *_describe_stop("b", group_b)],
        load_a=_describe_load(group_a),
        load_b=_describe_load(group_b),
        asked="decision" if is_decision else "list",
    )


def _describe_stop(side: Literal["a", "b"], group: GroupSummary) -> list[findings.StoppedSide]:
    """That a side stopped early; nothing where it did not."""
    if not group.stopped_early:
        return []
    stopped = findings.StoppedSide(
        side=side, n_asked=group.attempted, n_not_needed=group.n_not_needed
    )
    return [stopped]


def _describe_load(group: GroupSummary) -> findings.Load | None:
    if group.clock is None:
        return None
    return findings.Load(load_1m=group.clock.load_1m, cores=group.clock.cores)


def _compare_figures(
    a: GroupSummary, b: GroupSummary, evidence: Mapping[str, Paired], *, with_latency: bool
) -> list[findings.ComparedFigure]:
    """Every figure that a gate may name, of both sides; those of time only `with_latency`."""
    compared = []
    for metric in METRICS.values():
        if metric.is_timing and not with_latency:
            continue
        value_a = metric.figure.read(a)
        value_b = metric.figure.read(b)
        sides: list[tuple[Literal["a", "b"], Value]] = [("a", value_a), ("b", value_b)]
        paired_test = evidence.get(metric.evidence or "")
        figure = findings.ComparedFigure(
            name=metric.name,
            a=value_a.value,
            b=value_b.value,
            verdict="cannot_tell" if paired_test is None else paired_test.verdict,
            smallest_change=None if paired_test is None else paired_test.smallest_change,
            beyond=[side for side, value in sides if _is_beyond(value)],
            indicative=[side for side, value in sides if _is_indicative(value)],
            reason=_describe_tps_rules(a, b) if metric.unit == "tps" else None,
        )
        compared.append(figure)
    return compared


def _is_beyond(value: Value) -> bool:
    return isinstance(value, Percentile) and value.is_beyond


def _is_indicative(value: Value) -> bool:
    return isinstance(value, Percentile) and value.is_indicative


def _describe_tps_rules(a: GroupSummary, b: GroupSummary) -> str | None:
    """Why the tokens a second of two sides are not the same figure; None where they are, or one
    side has none."""
    if a.tps_rule is None or b.tps_rule is None or a.tps_rule == b.tps_rule:
        return None
    older = "A" if a.tps_rule < b.tps_rule else "B"
    rules = f"A's go by rule {a.tps_rule} and B's by rule {b.tps_rule}"
    return f"tokens a second cannot be compared: {rules}; run {older} again with this version"


def _measure_rates(
    a: Side, b: Side, pair: Pair, group_a: GroupSummary, group_b: GroupSummary
) -> dict[str, Measurement[PairedRate]]:
    """The rates that have a prompt with a trial on both sides."""
    rate_prompts = find_rate_prompts(a, b, pair)
    is_decision = a.is_decision or b.is_decision
    is_stopped = group_a.stopped_early or group_b.stopped_early
    measured: dict[str, Measurement[PairedRate]] = {}
    for name, prompts in rate_prompts.by_rate.items():
        if name == "tool_use_rate" and not _have_same_tool_source(group_a, group_b):
            continue
        fixed_size = not is_decision
        if is_stopped and name not in _ASKED_TO_THE_END:
            fixed_size = False
        rate = measure_rate(
            prompts,
            OUTCOMES[name],
            rate_prompts.family_of(name),
            fixed_size=fixed_size,
            unit=rate_prompts.unit_of(name),
        )
        if rate.n_prompts:
            measured[name] = rate
    return measured


def _have_same_tool_source(a: GroupSummary, b: GroupSummary) -> bool:
    """Whether tool use of both sides was read in the same place: native calls, or the text."""
    return a.tool_use.source is not None and a.tool_use.source == b.tool_use.source


def _describe_side(side: Side) -> findings.SideInfo:
    runs = [tallied.run for tallied in side.runs]
    return findings.SideInfo(
        run_id=",".join(run.run_id for run in runs),
        path=",".join(str(run.path) for run in runs),
        started_at_ms=side.first_run.started_at_ms,
        n_unreadable_lines=side.n_unreadable_lines,
        n_runs=len(runs),
    )
