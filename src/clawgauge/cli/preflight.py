"""Before a run: what can be told of its targets free of charge. A wrong name is a slip; what is down is evidence, which
the run records; a server's list of models is only a hint."""

from __future__ import annotations

import asyncio
import difflib
import fnmatch
import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clawgauge.config.providers import EXAMPLE, Tell
from clawgauge.errors import CallFailure, ConfigError, TargetError
from clawgauge.plan import Plan
from clawgauge.prices import host_of
from clawgauge.providers.base import ProviderSettings, create_provider, unknown_provider
from clawgauge.proxies import is_loopback
from clawgauge.records import THINKING_LEVELS, ProviderProbe, Target
from clawgauge.registry import OPENAI_CHAT, find_type
from clawgauge.reports.clean import clean_cell
from clawgauge.suites.long_text import estimate_tokens
from clawgauge.words import format_bytes, list_names, plural

_BY_NAME = frozenset({"api_key_missing", "cli_missing", "cli_not_executable", "model_not_found", "runtime_missing"})
Probes: TypeAlias = Mapping[str, ProviderProbe]
_NONE: Mapping[Any, Any] = {}
_PROBE_S, _LOOK_UP_S = 5.0, 2.0
# A server may list ten thousand names; to see which are alike takes time for each.
_MAX_COMPARED = 1000
_SLIP, _NAMED = 0.85, 4
# What the record of a long answer takes, and the rest of a run folder.
_BYTES_PER_CALL, _BYTES_BESIDE = 16 << 10, 16 << 20


async def probe_all(settings: Iterable[ProviderSettings], models: Collection[str] = frozenset()) -> list[ProviderProbe]:
    """What each provider says of itself, and more of these models; nobody is waited for who is silent."""

    async def probe(setting: ProviderSettings) -> ProviderProbe:
        try:
            async with create_provider(setting) as provider:
                async with asyncio.timeout(_PROBE_S):
                    found = await provider.probe()
                known = {model.name: model for model in found.models}
                with suppress(TimeoutError, CallFailure):
                    async with asyncio.timeout(_LOOK_UP_S):
                        asked = (provider.look_up(model) for model in found.models if model.name in models)
                        known |= {model.name: model for model in await asyncio.gather(*asked)}
                return msgspec.structs.replace(found, models=list(known.values()))
        except (TimeoutError, ConfigError) as fault:
            why = str(fault) if isinstance(fault, ConfigError) else f"no answer within {_PROBE_S:g} s"
            return ProviderProbe(provider=setting.name, reachable=False, detail=why)

    return list(await asyncio.gather(*map(probe, settings)))


async def find_providers(texts: Sequence[str], settings: Mapping[str, ProviderSettings], tell: Tell) -> list[str]:
    """The targets, each with its provider: `llama3.2:3b` or `talker` is looked for in the lists of servers."""
    wholes = {text: text.removeprefix("!") for text in texts}
    firsts = {text: whole.partition(":")[0] for text, whole in wholes.items() if whole and whole == whole.strip(":")}
    unknown = {text: first for text, first in firsts.items() if first not in settings}
    near = {text: difflib.get_close_matches(first, settings, cutoff=_SLIP) for text, first in unknown.items()}
    slips = {text for text in unknown if ":" in text and near[text]}
    listing = []
    for setting in settings.values():
        if setting.unusable is None and find_type(setting.name).finds_models:
            listing.append(setting)
    probes = await probe_all(listing) if unknown.keys() - slips else []
    lists = {probe.provider: [model.name for model in probe.models] for probe in probes}
    every = {name: f"{provider}:{name}" for provider, names in lists.items() for name in names}
    named, wrong, table = dict(zip(texts, texts, strict=True)), [], []
    for text, first in unknown.items():
        whole = wholes[text]
        model = whole.rpartition("@")[0] if whole.rpartition("@")[2] in THINKING_LEVELS else whole
        known = {model, f"{model}:latest"}
        owners = [f"{at}:{whole}" for at, names in lists.items() if known & set(names) or fnmatch.filter(names, model)]
        if len(owners) == 1:
            named[text] = f"{'!' * text.startswith('!')}{owners[0]}"
            tell(clean_cell(f"{text} is taken for {named[text]}"))
        elif owners:
            wrong.append(f"target {text!r} can be had from several providers: name {' or '.join(owners)}")
        elif text in slips:
            wrong.append(f"target {text!r}: {unknown_provider(first, sorted(settings))}")
        else:
            nobody = "names no provider, and no server that answers has that model"
            wrong.append(f"target {text!r} {nobody}{word_nearest(model, every) or f'; {EXAMPLE}'}")
            if ":" in text:
                header = f"[providers.{json.dumps(first, ensure_ascii=False)}]"
                table = ["for a server of your own put into clawgauge.toml:", header, f'type = "{OPENAI_CHAT.name}"']
                table.append('base_url = "http://localhost:8000/v1"')
    if wrong:
        raise TargetError(wrong[0], [*wrong[1:], *table])
    return list(named.values())


def word_nearest(model: str, shown: Mapping[str, str]) -> str:
    """`; did you mean a or b?`, or what there is instead; what is near may stand anywhere in a name."""
    wanted, parts = model.casefold(), dict[str, list[str]]()
    # What holds it stands under it, and so comes first.
    for name in list(shown)[:_MAX_COMPARED]:
        for part in (name.casefold(), *re.findall(r"[^\W_]{4,}", name.casefold())):
            parts.setdefault(wanted if wanted in part else part, []).append(shown[name])
    alike = difflib.get_close_matches(wanted, parts, n=_NAMED)
    if near := list(dict.fromkeys(name for part in alike for name in parts[part])):
        return f"; did you mean {' or '.join(near[: _NAMED - 1])}?"
    return f"; there is {list_names(list(shown.values()), _NAMED)}" if shown else ""


def refuse_wrong_names(
    plan: Plan, targets: Sequence[Target], ended: Mapping[Target, CallFailure] = _NONE, probes: Probes = _NONE
) -> dict[Target, str]:
    """The targets that fail by their name, and why, by this machine and calls that `ended` them, refused if all do."""
    wrong = {}
    for target in targets:
        try:
            plan.provider(target.provider).check_here(target.model)
            failure, kind = ended.get(target), plan.providers[target.provider].type
            wrong_names = _BY_NAME
            if find_type(kind).is_own_server:
                # A file that our own server cannot load has the right name.
                wrong_names = _BY_NAME - {"model_not_found"}
            if failure and failure.failure_type in wrong_names:
                raise failure
        except CallFailure as failure:
            models = probes[target.provider].models if target.provider in probes else []
            others = {model.name: model.name for model in models if model.name != target.model}
            wrong[target] = f"{plan.redact(failure.message)}{word_nearest(target.model, others)}"
    if wrong and len(wrong) == len(targets):
        lines = [f"{target.label}: {why}" for target, why in wrong.items()]
        raise TargetError("no target can be asked as it is named; nothing was recorded", lines)
    return wrong


async def look_ahead(plan: Plan, targets: Sequence[Target], tell: Tell) -> dict[str, ProviderProbe]:
    """Refuse what is sure to fail and say what is likely to; returns what each provider says of itself."""
    wrong = refuse_wrong_names(plan, targets)
    models = {name for target in targets for name in (target.model, f"{target.model}:latest")}
    asked = dict.fromkeys(target.provider for target in targets)
    probes = dict(zip(asked, await probe_all((plan.providers[name] for name in asked), models), strict=True))
    n_offering = sum(bool(prompt.tools) for prompt in plan.asked)
    for target in targets:
        doubts, probe, setting = [], probes[target.provider], plan.providers[target.provider]
        names = {model.name: model.name for model in probe.models}
        model = next((one for one in probe.models if one.name in (target.model, f"{target.model}:latest")), None)
        if target in wrong or not probe.reachable:
            # Of the first its own call, which comes at once, will say it.
            down = "; ".join(filter(None, (probe.detail, probe.hint)))
            doubts = [wrong.get(target, down)] if target != targets[0] else []
        elif model is None and names and not find_type(setting.type).is_own_server:  # that can be asked any file
            doubts = [f"not on the server's list, asked anyway{word_nearest(target.model, names)}"]
        elif model is not None:
            if model.takes_tools is False and n_offering:
                offer = plural(n_offering, "prompt offers", "prompts offer")
                doubts = [f"the server says that it takes no tools, and {offer} some"]
            window = None if setting.extra.get("context") else model.context_tokens
            texts = (f"{prompt.system or ''}{prompt.prompt}" for prompt in plan.asked)
            if window and (n_long := sum(len(one) > window and 0.8 * estimate_tokens(one) > window for one in texts)):
                longer = plural(n_long, "prompt is", "prompts are")
                doubts.append(f"{longer} longer than its window of {window} tokens")
        for doubt in doubts:
            tell(clean_cell(f"{target.label}: {plan.redact(doubt)}"))
    runs_dir = Path.cwd() / plan.settings.runs_dir
    wanted = len(plan.asked) * plan.settings.repeats * len(targets) * _BYTES_PER_CALL + _BYTES_BESIDE
    with suppress(OSError):
        disk = shutil.disk_usage(next(path for path in (runs_dir, *runs_dir.parents) if path.is_dir()))
        if disk.total and disk.free < wanted:
            tell(f"{runs_dir}: {format_bytes(disk.free)} free on the disk; this run may take {format_bytes(wanted)}")
    return probes


def guard_own_words(plan: Plan, what: str, *, yes: bool) -> None:
    """From now on all that this command writes is for its user alone. Where a target is not a keyless server on this
    machine, a person at a terminal is asked whether `what` ("your own prompt") may go there; elsewhere it takes --yes.
    """
    os.umask(0o077)
    others = [target.label for target in plan.targets if not _stays_here(plan, target)]
    told = f"{what} would leave this machine, or go where a key is needed: to {list_names(others, _NAMED)}"
    if others and not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(f"{told}; say --yes if it may, or ask models on this machine alone")
    if others and not yes:
        sys.stderr.write(f"{told}.\nSend it? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ConfigError("nothing was sent")


def _stays_here(plan: Plan, target: Target) -> bool:
    """Whether what a target is sent stays here, as far as can be told: Ollama passes on what is called `…-cloud`."""
    settings = plan.providers[target.provider]
    if settings.make is not None:
        return False  # on a node, whatever that says of itself
    address = settings.base_url or str(plan.provider(target.provider).describe().get("base_url") or "")
    keyless = settings.api_key_env is None and settings.api_key is None and "@" not in address
    here = is_loopback(host_of(address)) and not target.model.endswith(("-cloud", ":cloud"))
    return find_type(settings.type).is_own_server or (keyless and here)
