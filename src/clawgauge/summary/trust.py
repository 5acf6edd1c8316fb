"""How far a group's figures can be trusted, what state the machine was in, and what to do about
a failure."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.records import ClockTrust, Event, Resources, Target, ToolUse
from clawgauge.registry import find_type
from clawgauge.run_data.schedule import Stop, convert_detail
from clawgauge.summary.groups import Ending, Group
from clawgauge.words import plural, word_unasked

_CUT_BY_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens"})
_MAX_RECORD_WARNINGS = 5
# By the kind of provider and for every one; and violations in words.
_HINTS = tomllib.loads(Path(__file__).with_name("hints.toml").read_text("utf-8"))


class _Watched(msgspec.Struct, frozen=True):
    """`clock` in the detail of a `target_finished` event."""

    resolution_ns: float | None = None
    loop_lag_ms: dict[str, float | None] | None = None
    client_cpu_s: float | None = None
    cores: int | None = None
    load_1m: float | None = None


def judge_clock(group: Group, events: Iterable[Event]) -> ClockTrust | None:
    """What is known of the clock while this group was asked; None where nobody looked."""
    stretches = []
    for detail in _finished_details(events, group.target.label):
        watched = convert_detail(detail.get("clock"), _Watched)
        if watched is not None:
            stretches.append(watched)
    lag_us = group.describe("lag_us")
    retries = group.total("retry_waits_ms")
    if not (stretches or lag_us.n or retries.n):
        return None
    load = _worst(stretch.load_1m for stretch in stretches)
    cores = _worst(stretch.cores for stretch in stretches)
    resolution = _worst(stretch.resolution_ns for stretch in stretches)
    cpu = [stretch.client_cpu_s for stretch in stretches if stretch.client_cpu_s is not None]
    return ClockTrust(
        n_watched=lag_us.n,
        n_flagged=group.n_flagged(),
        lag_p50_ms=_lag_ms(lag_us.p50, stretches, "p50"),
        lag_p99_ms=_lag_ms(lag_us.p99, stretches, "p99"),
        lag_max_ms=_lag_ms(lag_us.max, stretches, "max"),
        resolution_ns=None if resolution is None else round(resolution),
        client_cpu_s=sum(cpu) if cpu else None,
        load_1m=load,
        cores=None if cores is None else int(cores),
        busy=None if load is None or cores is None else load > cores,
        n_retried=retries.n,
        retry_wait_ms=retries.value,
    )


def _lag_ms(of_calls_us: float | None, stretches: Sequence[_Watched], name: str) -> float | None:
    """How late our own loop was: by the calls where they know it, else by the worst of the
    stretches."""
    if of_calls_us is not None:
        return of_calls_us / 1000
    return _worst(
        stretch.loop_lag_ms.get(name) for stretch in stretches if stretch.loop_lag_ms is not None
    )


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine before, during and after one target's suite; None where unknown."""

    resources_before: Resources | None = None
    resources_after: Resources | None = None
    peak_memory_bytes: int | None = None
    peak_vram_bytes: int | None = None
    energy_j: float | None = None
    window_tokens: int | None = None


def read_machine(events: Iterable[Event], target_label: str) -> Machine:
    details = _finished_details(events, target_label)
    if not details:
        return Machine()
    # Processors and GPUs of all stretches together; none where the machine has no counters that
    # could be read.
    joules = []
    for detail in details:
        by_part = detail.get("energy_j")
        if isinstance(by_part, dict):
            joules += [float(part) for part in by_part.values() if isinstance(part, int | float)]
    return Machine(
        resources_before=convert_detail(details[0].get("resources_before"), Resources),
        resources_after=convert_detail(details[-1].get("resources_after"), Resources),
        peak_memory_bytes=_highest(details, "peak_memory_bytes"),
        peak_vram_bytes=_highest(details, "peak_vram_bytes"),
        energy_j=sum(joules) if joules else None,
        window_tokens=_highest(details, "window_tokens"),
    )


def _finished_details(events: Iterable[Event], target_label: str) -> list[dict[str, Any]]:
    """What was recorded at the end of each stretch of one target."""
    details = []
    for event in events:
        if event.event == "target_finished" and event.target == target_label:
            details.append(event.detail)
    return details


def _highest(details: Sequence[Mapping[str, Any]], name: str) -> int | None:
    values = [detail[name] for detail in details if isinstance(detail.get(name), int)]
    return max(values, default=None)


def count_truncated(endings: Sequence[Ending]) -> int:
    return sum(e.n for e in endings if e.answered and e.finish_reason in _CUT_BY_LIMIT)


def count_unjudged(endings: Iterable[Ending]) -> int:
    """Answers without a verdict, because their check broke."""
    n_unjudged = 0
    for ending in endings:
        if ending.succeeded and ending.not_judged is not None:
            n_unjudged += ending.n
    return n_unjudged


def group_warnings(group: Group, n_scheduled: int, stop: Stop, tool_use: ToolUse) -> list[str]:
    """One sentence per thing that bends a figure, each with its count."""
    n_total = sum(ending.n for ending in group.endings)
    n_attempted = sum(ending.n for ending in group.endings if ending.was_asked)
    n_answered = sum(ending.n for ending in group.endings if ending.answered)
    n_success = sum(ending.n for ending in group.endings if ending.succeeded)
    warnings = []
    if n_total < n_scheduled:
        warnings.append(_word_unfinished(n_total, n_attempted, n_scheduled, stop))
    if stop.early:
        after = f"stopped early after {plural(tool_use.n, 'answered tool prompt')}"
        prompts = plural(stop.n_not_needed, "prompt was", "prompts were")
        intervals = "the intervals are those that hold whenever one stops"
        warnings.append(f"{after}: {tool_use.label}; {prompts} not needed, and {intervals}")
    elif stop.n_not_needed:
        repeats = plural(
            stop.n_not_needed,
            "repeat or variant of a tool prompt was",
            "repeats or variants of tool prompts were",
        )
        why = "of a family of prompts one answer is evidence for a tier"
        warnings.append(f"{repeats} not needed: {why}")
    n_truncated = count_truncated(group.endings)
    if n_truncated:
        replies = plural(n_answered, "reply was", "replies were")
        warnings.append(f"{n_truncated} of {replies} cut by the token limit (--max-tokens)")
    n_unjudged = count_unjudged(group.endings)
    if n_unjudged:
        answers = plural(n_unjudged, "answer has", "answers have")
        no_verdict = f"{answers} no verdict and count neither for nor against the model"
        why = "the check failed; `clawgauge rescore` judges them again"
        warnings.append(f"{no_verdict}: {why}")
    n_untimed = n_success - group.describe("ttft_ms").n
    if n_untimed > 0:
        calls = plural(n_success, "successful call")
        warnings.append(f"first-token times were not captured for {n_untimed} of {calls}")
    return warnings + _recorded_warnings(group, n_attempted)


def _word_unfinished(n_total: int, n_attempted: int, n_scheduled: int, stop: Stop) -> str:
    """Why not all that was planned was asked, and what goes on with it."""
    go_on = "clawgauge run --resume goes on"
    why = "the run did not finish"
    if stop.budget is not None:
        go_on += ", with a larger one"
        why = f"the budget was spent ({stop.budget})"
    if n_attempted < n_total:
        # Those have a record, and stand among the failures.
        n_given_up = n_total - n_attempted
        why = f"{n_given_up} after it was given up, the others because {why}"
    return f"{word_unasked(n_attempted, n_scheduled)}: {why} ({go_on})"


def _recorded_warnings(group: Group, n_attempted: int) -> list[str]:
    """What the records warn of, one sentence a kind: its commonest wording, and how many calls
    are of that kind."""
    n_by_text = group.warnings()
    commonest: dict[str, str] = {}
    for text, _ in n_by_text.most_common():
        kind = text.partition(":")[0]
        commonest.setdefault(kind, text)
    # Of kinds that are equally common, the one that came first stands first.
    n_by_kind: Counter[str] = Counter()
    for text, n in n_by_text.items():
        n_by_kind[text.partition(":")[0]] += n
    calls = plural(n_attempted, "call")
    warnings = []
    for kind, n in n_by_kind.most_common(_MAX_RECORD_WARNINGS):
        warnings.append(f"{commonest[kind]} ({n} of {calls})")
    return warnings


def word_violation(code: str) -> str:
    return str(_HINTS["violations"].get(code, code.replace("_", " ")))


def find_hint(failure_type: str, target: Target, settings: Mapping[str, Any]) -> str | None:
    """What to do about `failure_type`; `settings` is the provider's entry in config.json."""
    provider = target.provider
    kind = str(settings.get("type") or provider)
    provider_type = find_type(kind)
    hints = _HINTS["every"] | _HINTS.get("ollama" if provider_type.is_ollama else kind, {})
    template = hints.get(failure_type)
    if template is None and failure_type.startswith("http_"):
        # Of all errors of that hundred, as `http_4` is of 404.
        template = hints.get(failure_type[: len("http_4")])
    if template is None:
        return None
    address = settings.get("base_url") or provider_type.default_address
    key = settings.get("api_key_env")
    vendor = provider_type.vendor
    # The key of a vendor is sent to the vendor alone.
    if not key and vendor is not None and not provider_type.is_any_server:
        base_url = settings.get("base_url")
        if not base_url or vendor.is_address(str(base_url)):
            key = vendor.key_variable
    return str(template).format(
        provider=provider,
        model=target.model,
        at_address=f" at {address}" if address else "",
        key_variable=key or f"the API key of {provider}",
    )
