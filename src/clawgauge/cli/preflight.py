"""Before a run: what can be told of its targets free of charge.

A wrong name is a slip, and is refused. A server that is down is evidence, which the run records. A
server's list of models is only a hint.
"""

from __future__ import annotations

import asyncio
import difflib
import fnmatch
import json
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clawgauge.config.providers import EXAMPLE, Tell, leave_out_second_names
from clawgauge.errors import CallFailure, ConfigError, TargetError
from clawgauge.plan import Plan, PlanDraft
from clawgauge.providers.base import ProviderSettings, unknown_provider
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.records import THINKING_LEVELS, ModelInfo, ProviderProbe, Target
from clawgauge.registry import OPENAI_CHAT, find_type
from clawgauge.reports.clean import clean_cell
from clawgauge.suites.long_text import estimate_tokens
from clawgauge.verdict import BUILT_IN
from clawgauge.verdict.decision import TOOL_NEEDS, find_conditions
from clawgauge.words import format_bytes, list_names, plural

_PROBE_S = 5.0
_LOOK_UP_S = 2.0
# What ends every call to a target, and can be told from its name and this machine.
_FAILURES_BY_NAME = frozenset(
    {
        "api_key_missing",
        "cli_missing",
        "cli_not_executable",
        "model_not_found",
        "runtime_missing",
    }
)
# A server may list ten thousand names; to see which are alike takes time for each.
_MAX_NAMES_COMPARED = 1000
_SLIP_SIMILARITY = 0.85
_MAX_NAMES_SHOWN = 4
# What the record of a long answer takes, and the rest of a run folder.
_BYTES_PER_CALL = 16 << 10
_BYTES_BESIDE_CALLS = 16 << 20


async def probe_all(
    settings: Iterable[ProviderSettings], models: Collection[str] = frozenset()
) -> list[ProviderProbe]:
    """What each of these providers reports of itself, and more of these models."""
    by_name = {provider_settings.name: provider_settings for provider_settings in settings}
    async with ProviderSet(by_name) as providers:
        return await _probe_all(providers, list(by_name), models)


async def _probe_all(
    providers: ProviderSet, names: Iterable[str], models: Collection[str] = frozenset()
) -> list[ProviderProbe]:
    probes = [_probe(providers, name, models) for name in names]
    return list(await asyncio.gather(*probes))


async def _probe(providers: ProviderSet, name: str, models: Collection[str]) -> ProviderProbe:
    """What one provider reports of itself; who is silent is not waited for."""
    try:
        provider = await providers.open(name)
        async with asyncio.timeout(_PROBE_S):
            probe = await provider.probe()
        listed = {model.name: model for model in probe.models}
        with suppress(TimeoutError, CallFailure):
            async with asyncio.timeout(_LOOK_UP_S):
                questions = []
                for model in probe.models:
                    if model.name in models:
                        questions.append(provider.look_up(model))
                for model in await asyncio.gather(*questions):
                    listed[model.name] = model
        return msgspec.structs.replace(probe, models=list(listed.values()))
    except TimeoutError:
        why = f"no answer within {_PROBE_S:g} s"
    except ConfigError as fault:
        why = str(fault)
    return ProviderProbe(provider=name, reachable=False, detail=why)


async def find_providers(texts: Sequence[str], providers: ProviderSet, tell: Tell) -> list[str]:
    """The targets, each with its provider, which servers are asked for where none is named.

    `llama3.2:3b` and `talker` name none. Raises `TargetError` where not exactly one server lists
    the model.
    """
    without_provider: dict[str, str] = {}
    misspelled: set[str] = set()
    for text in texts:
        target = text.removeprefix("!")
        name = target.partition(":")[0]
        if not target or target != target.strip(":") or name in providers.settings:
            continue
        without_provider[text] = name
        similar = difflib.get_close_matches(name, providers.settings, cutoff=_SLIP_SIMILARITY)
        if ":" in text and similar:
            misspelled.add(text)
    models_by_provider: dict[str, list[str]] = {}
    if without_provider.keys() - misspelled:
        models_by_provider = await _list_models(providers)
    completed: dict[str, str] = {}
    faults: list[str] = []
    table: list[str] = []
    for text, name in without_provider.items():
        owners = _find_owners(text.removeprefix("!"), models_by_provider)
        if len(owners) == 1:
            completed[text] = f"!{owners[0]}" if text.startswith("!") else owners[0]
            tell(clean_cell(f"{text} is taken for {completed[text]}"))
        elif owners:
            faults.append(
                f"target {text!r} can be had from several providers: name {' or '.join(owners)}"
            )
        elif text in misspelled:
            faults.append(f"target {text!r}: {unknown_provider(name, sorted(providers.settings))}")
        else:
            faults.append(_describe_missing_model(text, models_by_provider))
            if ":" in text:
                table = _example_table(name)
    if faults:
        raise TargetError(faults[0], [*faults[1:], *table])
    return [completed.get(text, text) for text in dict.fromkeys(texts)]


def _describe_missing_model(text: str, models_by_provider: Mapping[str, Sequence[str]]) -> str:
    full_names: dict[str, str] = {}
    for provider, models in models_by_provider.items():
        for model in models:
            full_names[model] = f"{provider}:{model}"
    hint = suggest_model(_model_of(text.removeprefix("!")), full_names) or f"; {EXAMPLE}"
    return f"target {text!r} names no provider, and no server that answers has that model{hint}"


def _example_table(provider_name: str) -> list[str]:
    """How clawgauge.toml names a server, in lines."""
    return [
        "for a server of your own put into clawgauge.toml:",
        f"[providers.{json.dumps(provider_name, ensure_ascii=False)}]",
        f'type = "{OPENAI_CHAT.name}"',
        'base_url = "http://localhost:8000/v1"',
    ]


async def _list_models(providers: ProviderSet) -> dict[str, list[str]]:
    """What every server that answers has, by the name of its provider."""
    names = []
    for settings in leave_out_second_names(providers.settings).values():
        if settings.unusable is None and find_type(settings.name).finds_models:
            names.append(settings.name)
    models_by_provider = {}
    for probe in await _probe_all(providers, names):
        models_by_provider[probe.provider] = [model.name for model in probe.models]
    return models_by_provider


def _model_of(target: str) -> str:
    """The model of a target without a provider: what stands before its thinking level."""
    model, _, level = target.rpartition("@")
    return model if level in THINKING_LEVELS else target


def _find_owners(target: str, models_by_provider: Mapping[str, Sequence[str]]) -> list[str]:
    """The target with each provider before it that lists its model, which may be a pattern."""
    model = _model_of(target)
    names = {model, f"{model}:latest"}
    owners = []
    for provider, models in models_by_provider.items():
        if names.intersection(models) or fnmatch.filter(models, model):
            owners.append(f"{provider}:{target}")
    return owners


def suggest_model(model: str, shown_names: Mapping[str, str]) -> str:
    """`; did you mean a or b?`, or what there is instead.

    What is near may stand anywhere in a name. `shown_names` are the models there are, and how the
    user names each.
    """
    wanted = model.casefold()
    names_by_part: dict[str, list[str]] = {}
    for name in list(shown_names)[:_MAX_NAMES_COMPARED]:
        lower_name = name.casefold()
        for part in (lower_name, *re.findall(r"[^\W_]{4,}", lower_name)):
            # A part that holds what is wanted counts as that itself, and so comes first.
            key = wanted if wanted in part else part
            names_by_part.setdefault(key, []).append(shown_names[name])
    near: dict[str, None] = {}
    for part in difflib.get_close_matches(wanted, names_by_part, n=_MAX_NAMES_SHOWN):
        near.update(dict.fromkeys(names_by_part[part]))
    if near:
        return f"; did you mean {' or '.join(list(near)[: _MAX_NAMES_SHOWN - 1])}?"
    if shown_names:
        return f"; there is {list_names(list(shown_names.values()), _MAX_NAMES_SHOWN)}"
    return ""


def refuse_wrong_names(
    plan: PlanDraft,
    targets: Sequence[Target],
    failures: Mapping[Target, CallFailure] | None = None,
    probes: Mapping[str, ProviderProbe] | None = None,
) -> dict[Target, str]:
    """The targets that cannot be asked as they are named, and why; refused if none of them can.

    This machine tells of some; `failures` are those of calls that ended the asking of a target.
    """
    reasons: dict[Target, str] = {}
    for target in targets:
        failure = _name_failure(plan, target, (failures or {}).get(target))
        if failure is not None:
            models = []
            if probes is not None and target.provider in probes:
                models = probes[target.provider].models
            others = {model.name: model.name for model in models if model.name != target.model}
            reasons[target] = f"{plan.redact(failure.message)}{suggest_model(target.model, others)}"
    if reasons and len(reasons) == len(targets):
        lines = [f"{target.label}: {reason}" for target, reason in reasons.items()]
        raise TargetError("no target can be asked as it is named; nothing was recorded", lines)
    return reasons


def _name_failure(
    plan: PlanDraft, target: Target, failure: CallFailure | None
) -> CallFailure | None:
    """The failure that a target's name is the reason for, if any."""
    try:
        plan.provider(target.provider).check_here(target.model)
    except CallFailure as found_here:
        return found_here
    if failure is None or failure.failure_type not in _FAILURES_BY_NAME:
        return None
    provider_type = find_type(plan.providers.settings[target.provider].type)
    if provider_type.is_own_server and failure.failure_type == "model_not_found":
        # A file that our own server cannot load has the right name.
        return None
    return failure


async def look_ahead(
    plan: Plan, targets: Sequence[Target], tell: Tell, *, a_call_follows: bool = True
) -> dict[str, ProviderProbe]:
    """Refuse what is sure to fail and tell what is likely to; returns what providers report.

    Where `a_call_follows` at once, nothing is told of a first target that is down: the call will.
    """
    wrong_names = refuse_wrong_names(plan, targets)
    models = set()
    for target in targets:
        models |= {target.model, f"{target.model}:latest"}
    names = list(dict.fromkeys(target.provider for target in targets))
    settings = [plan.providers.settings[name] for name in names]
    probes = dict(zip(names, await probe_all(settings, models), strict=True))
    for target in targets:
        probe = probes[target.provider]
        if target in wrong_names or not probe.reachable:
            doubts = []
            if target != targets[0] or not a_call_follows:
                why_down = "; ".join(filter(None, (probe.detail, probe.hint)))
                doubts.append(wrong_names.get(target, why_down))
        else:
            doubts = _find_doubts(plan, target, probe)
        for doubt in doubts:
            tell(clean_cell(f"{target.label}: {plan.redact(doubt)}"))
    _report_full_disk(plan, len(targets), tell)
    return probes


def _find_doubts(plan: Plan, target: Target, probe: ProviderProbe) -> list[str]:
    """What of a target's calls is likely to fail, by what its server reports."""
    settings = plan.providers.settings[target.provider]
    listed = {model.name: model.name for model in probe.models}
    model = _find_model(probe, target.model)
    if model is None:
        # Our own server can be asked any file.
        if not listed or find_type(settings.type).is_own_server:
            return []
        return [f"not on the server's list, asked anyway{suggest_model(target.model, listed)}"]
    doubts = []
    n_offering = sum(bool(prompt.tools) for prompt in plan.asked)
    if model.takes_tools is False and n_offering:
        doubts.append(f"the server says that it takes no tools{_word_without_tools(plan)}")
    window = None if settings.extra.get("context") else model.context_tokens
    if window:
        n_too_long = 0
        for prompt in plan.asked:
            text = f"{prompt.system or ''}{prompt.prompt}"
            # A token is a character or more; the estimate is a fifth too high at most.
            if len(text) > window and 0.8 * estimate_tokens(text) > window:
                n_too_long += 1
        if n_too_long:
            longer = plural(n_too_long, "prompt is", "prompts are")
            doubts.append(f"{longer} longer than its window of {window} tokens")
    return doubts


def _word_without_tools(plan: Plan) -> str:
    """What follows of that: what cannot be told, or which prompts will fail."""
    if plan.decision is None:
        n_offering = sum(bool(prompt.tools) for prompt in plan.asked)
        offer = plural(n_offering, "prompt offers", "prompts offer")
        return f", and {offer} some"
    known_jobs = BUILT_IN | dict(plan.jobs)
    jobs = []
    for name in plan.decision.jobs:
        if name not in known_jobs:
            continue
        conditions = find_conditions(name, known_jobs[name])
        if any(condition.name in TOOL_NEEDS for condition in conditions):
            jobs.append(name)
    if not jobs:
        return ""
    return f": it cannot be shown fit for {list_names(jobs, len(jobs))}"


def _find_model(probe: ProviderProbe, name: str) -> ModelInfo | None:
    for model in probe.models:
        if model.name in (name, f"{name}:latest"):
            return model
    return None


def _report_full_disk(plan: Plan, n_targets: int, tell: Tell) -> None:
    runs_dir = Path.cwd() / plan.settings.runs_dir
    n_calls = len(plan.asked) * plan.settings.repeats * n_targets
    needed = n_calls * _BYTES_PER_CALL + _BYTES_BESIDE_CALLS
    with suppress(OSError):
        existing = next(path for path in (runs_dir, *runs_dir.parents) if path.is_dir())
        disk = shutil.disk_usage(existing)
        if disk.total and disk.free < needed:
            free = format_bytes(disk.free)
            tell(f"{runs_dir}: {free} free on the disk; this run may take {format_bytes(needed)}")
