"""Two runs, or two targets of one run, set side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from clawgauge.compare import findings, paired
from clawgauge.compare.comparability import (
    changed_prompts,
    find_pair_differences,
    find_run_differences,
)
from clawgauge.compare.findings import (
    METRICS,
    Comparison,
    Difference,
    PairComparison,
    Paired,
    PairedRate,
    PairedShift,
)
from clawgauge.compare.gate import Rule, apply_rules, refuse_missing, require_judgeable
from clawgauge.compare.sides import (
    Pair,
    RunSide,
    find_target,
    find_telling,
    label_prompt,
    pair_prompts,
    pair_targets,
    split_context,
)
from clawgauge.errors import ConfigError, RunFolderError
from clawgauge.figures import Percentile, Value
from clawgauge.records import SCHEMA_VERSION, GroupSummary
from clawgauge.stats.paired import ALPHA


class Wishes(NamedTuple):
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


def compare_runs(
    a_folders: Path | Sequence[Path], b_folders: Path | Sequence[Path], wishes: Wishes
) -> Comparison:
    """Two run folders or groups of them, or with `wishes.models` two targets of one. Raises `IncomparableRuns`."""
    paths_a, paths_b = (
        [one] if isinstance(one, Path) else list(one) for one in (a_folders, b_folders)
    )
    a = RunSide.read(*paths_a)
    b = (
        a
        if [path.resolve() for path in paths_a] == [path.resolve() for path in paths_b]
        else RunSide.read(*paths_b)
    )
    pairs = _choose_pairs(a, b, wishes)
    differences = _find_differences(a, b, pairs)
    _require_comparable(differences, wishes)
    require_judgeable(wishes.rules, a, b, pairs)
    with_latency = wishes.force or not any(
        difference.scope == "latency" for difference in differences
    )
    compared = _compare_all(a, b, pairs, with_latency=with_latency)
    if wishes.answers:
        compared = paired.add_answers(a, b, [pair.shared for pair in pairs], compared)
    # Of two targets of one run nobody misses the others.
    alone_a = [
        t.label for t in a.targets if wishes.models is None and t not in [pair.a for pair in pairs]
    ]
    alone_b = [
        t.label for t in b.targets if wishes.models is None and t not in [pair.b for pair in pairs]
    ]
    # A target that A has and B lost has met no rule, unless the user said which targets are meant.
    lost = [] if wishes.maps else alone_a
    return Comparison(
        schema_version=SCHEMA_VERSION, a=_describe_side(a), b=_describe_side(b), differences=differences,
        forced=wishes.force and any(difference.scope != "note" for difference in differences),
        latency_compared=with_latency, only_in_a=alone_a, only_in_b=alone_b, pairs=compared,
        rules=[*apply_rules(wishes.rules, a, b, pairs, compared), *refuse_missing(wishes.rules, lost)],
    )  # fmt: skip


def _choose_pairs(a: RunSide, b: RunSide, wishes: Wishes) -> list[Pair]:
    if wishes.models is None:
        targets = pair_targets(a, b, wishes.maps)
    else:
        first, second = (find_target(a, name) for name in wishes.models)
        if first == second:
            raise ConfigError(f"--models names {first.label} twice: name two targets of the run")
        targets = [(first, second)]
    pairs = [pair_prompts(a, x, b, y) for x, y in targets]
    for place, pair in enumerate(pairs):
        if wishes.skip_changed:
            # Prompts whose content changed are treated as what they are: two different prompts.
            changed = [shared for part in changed_prompts(a, b, pair.shared) for shared in part]
            pair = pairs[place] = pair._replace(
                shared=[shared for shared in pair.shared if shared not in changed],
                only_a=[*pair.only_a, *(shared.key_a for shared in changed)],
                only_b=[*pair.only_b, *(shared.key_b for shared in changed)],
            )
        if not pair.shared:
            names = f"{pair.a.label} of {a.run_id} and {pair.b.label} of {b.run_id} have no prompt in common"
            alone = f"(only in A: {len(pair.only_a)}, only in B: {len(pair.only_b)})"
            raise RunFolderError(f"{names} {alone}: compare runs of the same suite")
    return pairs


def _find_differences(a: RunSide, b: RunSide, pairs: Sequence[Pair]) -> list[Difference]:
    found = [] if a is b else [*find_run_differences(a, b)]
    for pair in pairs:
        found += find_pair_differences(a, b, pair)
    # What holds of two sides holds of the runs of one: nothing is pooled that could not be compared.
    for letter, side, targets in (
        ("A", a, [pair.a for pair in pairs]),
        ("B", b, [pair.b for pair in pairs]),
    ):
        for other in side.runs[1:] if letter == "A" or b is not a else ():
            within = [*find_run_differences(side, other)]
            for target in targets:
                within += find_pair_differences(
                    side, other, pair_prompts(side, target, other, target)
                )
            names = f"{side.run_id} and {other.run_id}, both in {letter}"
            for d in within:
                if d.scope != "note":
                    values = f": {d.a} in the first, {d.b} in the second" if d.a or d.b else ""
                    what = f"{names}: {d.what}{values}"
                    found.append(msgspec.structs.replace(d, what=what, a="", b="", advice=None))
    return found


def _require_comparable(differences: Sequence[Difference], wishes: Wishes) -> None:
    if wishes.force:
        return
    if any(difference.scope == "verdicts" for difference in differences):
        raise IncomparableRuns(
            "A and B cannot be compared", [d for d in differences if d.scope != "note"]
        )
    timing = ", ".join(rule.text for rule in wishes.rules if rule.metric.is_timing)
    spoiling = [difference for difference in differences if difference.scope == "latency"]
    if timing and spoiling:
        raise IncomparableRuns(
            f"the gate asks for times ({timing}), which cannot be compared", spoiling
        )


def _compare_all(
    a: RunSide, b: RunSide, pairs: Sequence[Pair], *, with_latency: bool
) -> list[PairComparison]:
    groups_a = a.summarize_shared(
        [(pair.a, {shared.key_a for shared in pair.shared}) for pair in pairs]
    )
    groups_b = b.summarize_shared(
        [(pair.b, {shared.key_b for shared in pair.shared}) for pair in pairs]
    )
    groups = list(zip(groups_a, groups_b, strict=True))
    measured = [
        _measure_rates(a, b, pair, x, y) for pair, (x, y) in zip(pairs, groups, strict=True)
    ]
    rates: list[dict[str, PairedRate]] = [{} for _ in pairs]
    for name in dict.fromkeys(name for found in measured for name in found):
        # Every kind of rate is corrected over the pairs that have it.
        places = [place for place, found in enumerate(measured) if name in found]
        for place, rate in zip(
            places, paired.settle([measured[place][name] for place in places]), strict=True
        ):
            rates[place][name] = rate
    bare = [pair._replace(shared=split_context(a, b, pair)[0]) for pair in pairs]
    shifts = {"output_tokens": paired.settle([paired.measure_tokens(pair.shared) for pair in bare])}
    for name, time, place in (
        (("latency_ms", "e2e_ms", 0), ("ttft_ms", "ttft_ms", 1)) if with_latency else ()
    ):
        shifts[name] = paired.settle(
            [paired.measure_times(a, b, pair, attrgetter(time), place) for pair in bare]
        )
    return [
        _describe_pair(
            pair,
            *groups[place],
            rates[place],
            {name: found[place] for name, found in shifts.items()},
        )
        for place, pair in enumerate(pairs)
    ]


def _describe_pair(
    pair: Pair,
    a: GroupSummary,
    b: GroupSummary,
    rates: dict[str, PairedRate],
    shifts: Mapping[str, PairedShift],
) -> PairComparison:
    n_cold = sum(shared.a.n_cold + shared.b.n_cold for shared in pair.shared)
    timed = {name: shifts[name] for name in ("latency_ms", "ttft_ms") if name in shifts}
    times = {
        name: msgspec.structs.replace(found, n_cold_left_out=n_cold)
        for name, found in timed.items()
    }
    sides: list[tuple[Literal["a", "b"], GroupSummary]] = [("a", a), ("b", b)]
    loads = [
        findings.Load(load_1m=g.clock.load_1m, cores=g.clock.cores) if g.clock else None
        for g in (a, b)
    ]
    return PairComparison(
        target_a=pair.a.label, target_b=pair.b.label, n_shared=len(pair.shared),
        only_in_a=[label_prompt(key) for key in pair.only_a], only_in_b=[label_prompt(key) for key in pair.only_b],
        figures=_compare_figures(a, b, {**rates, **shifts}, with_latency=bool(timed)), rates=rates,
        latency_ms=times.get("latency_ms"), ttft_ms=times.get("ttft_ms"), output_tokens=shifts["output_tokens"],
        flips=paired.find_flips(pair.shared), unanswered=paired.find_unanswered(pair.shared),
        stopped=[
            findings.StoppedSide(side=side, n_asked=group.attempted, n_not_needed=group.n_not_needed)
            for side, group in sides
            if group.stopped_early
        ],
        load_a=loads[0], load_b=loads[1],
    )  # fmt: skip


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
            reason=_other_tps_rule(a, b) if metric.unit == "tps" else None,
        )
        compared.append(figure)
    return compared


def _is_beyond(value: Value) -> bool:
    return isinstance(value, Percentile) and value.is_beyond


def _is_indicative(value: Value) -> bool:
    return isinstance(value, Percentile) and value.is_indicative


def _other_tps_rule(a: GroupSummary, b: GroupSummary) -> str | None:
    """Why the tokens a second of two sides are not the same figure; None where they are, or one side has none."""
    if a.tps_rule is None or b.tps_rule is None or a.tps_rule == b.tps_rule:
        return None
    older = "A" if a.tps_rule < b.tps_rule else "B"
    rules = f"A's go by rule {a.tps_rule} and B's by rule {b.tps_rule}"
    return f"tokens a second cannot be compared: {rules}; run {older} again with this version"


def _measure_rates(
    a: RunSide, b: RunSide, pair: Pair, group_a: GroupSummary, group_b: GroupSummary
) -> dict[str, Callable[[float], PairedRate]]:
    telling, family = find_telling(a, b, pair)
    if not group_a.tool_use.source == group_b.tool_use.source is not None:
        del telling["tool_use_rate"]
    # Only tool prompts are left out once a tier is decided: restraint and tasks are asked to the end.
    stopped = group_a.stopped_early or group_b.stopped_early
    to_the_end = ("restraint", "tasks", "agreement")
    found = {
        name: paired.measure_rate(
            prompts, paired.OUTCOMES[name], family, fixed_size=not stopped or name in to_the_end
        )
        for name, prompts in telling.items()
    }
    return {name: measure for name, measure in found.items() if measure(ALPHA).n_prompts}


def _describe_side(side: RunSide) -> findings.SideInfo:
    return findings.SideInfo(
        run_id=",".join(run.run_id for run in side.runs), path=",".join(str(run.path) for run in side.runs),
        started_at_ms=side.started_at_ms, n_unreadable_lines=sum(run.n_unreadable_lines for run in side.runs),
        n_runs=len(side.runs),
    )  # fmt: skip
