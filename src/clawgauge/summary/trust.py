"""How far a group's figures can be trusted, what state the machine was in, and what to do about a failure."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    label = group.target.label
    details = [e.detail.get("clock") for e in events if e.event == "target_finished" and e.target == label]
    stretches = [watched for detail in details if (watched := convert_detail(detail, _Watched)) is not None]
    lag_us, retries = group.describe("lag_us"), group.total("retry_waits_ms")
    if not (stretches or lag_us.n or retries.n):
        return None
    load, cores = _worst(s.load_1m for s in stretches), _worst(s.cores for s in stretches)
    resolution = _worst(s.resolution_ns for s in stretches)
    cpu = [s.client_cpu_s for s in stretches if s.client_cpu_s is not None]
    lags_ms = {}
    for name in ("p50", "p99", "max"):
        told = _worst(s.loop_lag_ms.get(name) for s in stretches if s.loop_lag_ms is not None)
        lags_ms[f"lag_{name}_ms"] = getattr(lag_us, name) / 1000 if lag_us.n else told
    return ClockTrust(
        n_watched=lag_us.n, n_flagged=group.n_flagged(), **lags_ms, client_cpu_s=sum(cpu) if cpu else None,
        resolution_ns=None if resolution is None else round(resolution), load_1m=load,
        cores=None if cores is None else int(cores),
        busy=None if load is None or cores is None else load > cores, n_retried=retries.n, retry_wait_ms=retries.value,
    )  # fmt: skip


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def read_machine(events: Iterable[Event], target_label: str) -> dict[str, Any]:
    """The machine before, during and after one target's suite, named as in a summary; None where unknown."""
    details = [e.detail for e in events if e.event == "target_finished" and e.target == target_label]
    peaks = ("peak_memory_bytes", "peak_vram_bytes")
    by_part = [stretch for detail in details if isinstance(stretch := detail.get("energy_j"), dict)]
    joules = [float(part) for stretch in by_part for part in stretch.values() if isinstance(part, int | float)]
    return {
        "resources_before": convert_detail(details[0].get("resources_before"), Resources) if details else None,
        "resources_after": convert_detail(details[-1].get("resources_after"), Resources) if details else None,
        **{name: _worst(d[name] for d in details if isinstance(d.get(name), int)) for name in peaks},
        # Processors and GPUs of all stretches together; none where the machine has no counters that could be read.
        "energy_j": sum(joules) if joules else None,
    }


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
    endings, notes = group.endings, []
    n_total, n_answered = sum(e.n for e in endings), sum(e.n for e in endings if e.answered)
    n_success = sum(e.n for e in endings if e.succeeded)
    n_attempted = sum(e.n for e in endings if e.was_asked)
    if n_total < n_scheduled:
        why = "the run did not finish" if stop.budget is None else f"the budget was spent ({stop.budget})"
        larger = "" if stop.budget is None else ", with a larger one"
        if n_attempted < n_total:
            # Those have a record, and stand among the failures.
            why = f"{n_total - n_attempted} after it was given up, the others because {why}"
        never_asked = word_unasked(n_attempted, n_scheduled)
        notes.append(f"{never_asked}: {why} (clawgauge run --resume goes on{larger})")
    if stop.early:
        after = f"stopped early after {plural(tool_use.n, 'answered tool prompt')}: {tool_use.label}"
        prompts = plural(stop.n_not_needed, "prompt was", "prompts were")
        notes.append(f"{after}; {prompts} not needed, and the intervals are those that hold whenever one stops")
    elif stop.n_not_needed:
        one, many = "repeat or variant of a tool prompt was", "repeats or variants of tool prompts were"
        repeats = plural(stop.n_not_needed, one, many)
        notes.append(f"{repeats} not needed: of a family of prompts one answer is evidence for a tier")
    if truncated := count_truncated(endings):
        replies = plural(n_answered, "reply was", "replies were")
        notes.append(f"{truncated} of {replies} cut by the token limit (--max-tokens)")
    if n_unjudged := count_unjudged(endings):
        answers = plural(n_unjudged, "answer has", "answers have")
        why = "the check failed; `clawgauge rescore` judges them again"
        notes.append(f"{answers} no verdict and count neither for nor against the model: {why}")
    if (untimed := n_success - group.describe("ttft_ms").n) > 0:
        notes.append(f"first-token times were not captured for {untimed} of {plural(n_success, 'successful call')}")
    # What the records warn of, one sentence a kind: the commonest wording, and how many calls are of that kind.
    warnings, kinds = group.warnings(), Counter[str]()
    for text, n in warnings.items():
        kinds[text.partition(":")[0]] += n
    wordings = {text.partition(":")[0]: text for text, _ in reversed(warnings.most_common())}
    common = kinds.most_common(_MAX_RECORD_WARNINGS)
    return [*notes, *(f"{wordings[kind]} ({n} of {plural(n_attempted, 'call')})" for kind, n in common)]


def word_violation(code: str) -> str:
    return str(_HINTS["violations"].get(code, code.replace("_", " ")))


def find_hint(failure_type: str, target: Target, settings: Mapping[str, Any]) -> str | None:
    """What to do about `failure_type`; `settings` is the provider's entry in config.json."""
    provider = target.provider
    kind = str(settings.get("type") or provider)
    provider_type = find_type(kind)
    hints = _HINTS["every"] | _HINTS.get("ollama" if provider_type.is_ollama else kind, {})
    coded = failure_type[: len("http_4")] if failure_type.startswith("http_") else failure_type
    if (template := hints.get(failure_type, hints.get(coded))) is None:
        return None
    address = settings.get("base_url") or provider_type.default_address
    key = settings.get("api_key_env")
    vendor = provider_type.vendor
    # The key of a vendor is sent to the vendor alone.
    if not key and vendor is not None and not provider_type.is_any_server:
        base_url = settings.get("base_url")
        if not base_url or vendor.is_address(str(base_url)):
            key = vendor.key_variable
    key = key or f"the API key of {provider}"
    at = f" at {address}" if address else ""
    return str(template).format(provider=provider, model=target.model, at_address=at, key_variable=key)
