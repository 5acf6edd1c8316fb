"""May these two be compared? And if not, what exactly differs?

Where a folder does not say (the first harness recorded neither prompts nor settings), that is a note and no difference:
nobody can be asked any more.

A difference in what was asked, judged or sampled spoils everything. Another machine or another way of timing spoils the
times alone: the same model gives the same verdicts there. Two targets of different names are different on purpose,
so model files are only looked at for targets of one name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from clawgauge.compare.findings import Difference, Scope
from clawgauge.compare.pairing import (
    Pair,
    SharedPrompt,
    prompt_fingerprint,
    question_fingerprint,
    verdict_fingerprint,
)
from clawgauge.compare.tallies import RunSide
from clawgauge.records import Inventory, ModelInfo, Prompt, RunConfig, Target
from clawgauge.words import list_names

_NOT_KNOWN = "not recorded"
_MAX_NAMED = 5
# Options of a run, apart from sampling: what else reaches an answer, and what reaches only its timing.
_VERDICT_OPTIONS = ("timeout_s", "unique_prefix")
_LATENCY_OPTIONS = ("concurrency", "stream", "warm_up", "unload_others", "interleave")
# Keys of a provider's settings that change neither an answer nor a time, or that are looked at elsewhere.
_FREE_SETTINGS = frozenset({"base_url", "api_key_env", "version"})


def find_run_differences(a: RunSide, b: RunSide) -> list[Difference]:
    """What differs between two runs as a whole."""
    return [*_option_differences(a.config, b.config), *_host_differences(a.inventory, b.inventory), *_run_notes(a, b)]


def find_pair_differences(a: RunSide, b: RunSide, pair: Pair) -> list[Difference]:
    """What differs between two targets and the prompts they share."""
    target_a, target_b = pair.a, pair.b
    one_run = a.path.resolve() == b.path.resolve()
    label = target_a.label if target_a == target_b else f"{target_a.label} = {target_b.label}"
    found = [
        *([] if one_run else _prompt_differences(a, b, pair.shared)),
        *_sampling_differences(a, target_a, b, target_b, "note" if one_run else "verdicts"),
        *_judge_differences(a, target_a, b, target_b),
    ]
    if target_a == target_b:
        found += _model_differences(a, b, target_a)
        found += _reported_note(a.reported.get(target_a, set()), b.reported.get(target_a, set()))
    return [Difference(scope=d.scope, what=d.what, a=d.a, b=d.b, advice=d.advice, target=label) for d in found]


def changed_prompts(a: RunSide, b: RunSide, shared: Iterable[SharedPrompt]) -> tuple[list[SharedPrompt], ...]:
    """Shared prompts that ask something else, and those that ask the same and are judged by something else.

    Another drawing of the same suite is the same prompt with other values: neither.
    """
    prompts_a, prompts_b = _known_prompts(a), _known_prompts(b)
    redrawn = _redrawn_suites(a.config, b.config)
    known = [
        (s, prompts_a[s.key_a], prompts_b[s.key_b])
        for s in shared
        if s.key_a in prompts_a and s.key_b in prompts_b and s.key_a[0] not in redrawn
    ]
    other_question = [s for s, x, y in known if question_fingerprint(x) != question_fingerprint(y)]
    other_verdict = [s for s, x, y in known if verdict_fingerprint(x) != verdict_fingerprint(y)]
    return other_question, [s for s in other_verdict if s not in other_question]


def _redrawn_suites(a: RunConfig | None, b: RunConfig | None) -> set[str]:
    """The suites that both runs asked in the same version, in two drawings."""
    if a is None or b is None or a.options.draw == b.options.draw:
        return set()
    versions = [{(suite.name, suite.version) for suite in config.suites} for config in (a, b)]
    return {name for name, _ in set.intersection(*versions)}


def _known_prompts(side: RunSide) -> dict[tuple[str, str], Prompt]:
    return {prompt.key: prompt for prompt in side.config.prompts} if side.config else {}


def _prompt_differences(a: RunSide, b: RunSide, shared: Sequence[SharedPrompt]) -> Iterator[Difference]:
    asked, judged = changed_prompts(a, b, shared)
    prompts_a, prompts_b = _known_prompts(a), _known_prompts(b)
    for changed, fingerprint, words, advice in (
        (asked, question_fingerprint, "asks something else", "leave it out with --skip-changed"),
        (judged, verdict_fingerprint, "is judged by another validator", "judge it alike with rescore --suite"),
    ):
        if changed:
            yield Difference(
                scope="verdicts",
                what=f"{list_names([s.label for s in changed], _MAX_NAMED)} {_agree(words, len(changed))}",
                a=_joint([fingerprint(prompts_a[s.key_a]) for s in changed]),
                b=_joint([fingerprint(prompts_b[s.key_b]) for s in changed]),
                advice=advice if len(changed) == 1 else advice.replace(" it ", " them "),
            )


def _agree(words: str, n: int) -> str:
    return words if n == 1 else words.replace("asks ", "ask ").replace("is ", "are ")


def _joint(fingerprints: Sequence[str]) -> str:
    """One short hash for one or many prompts."""
    return (
        fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256("".join(fingerprints).encode()).hexdigest()[:12]
    )


def _option_differences(a: RunConfig | None, b: RunConfig | None) -> Iterator[Difference]:
    if a is None or b is None:
        return
    for name in _VERDICT_OPTIONS:
        yield from _differ("verdicts", name, getattr(a.options, name), getattr(b.options, name))
    for name in _LATENCY_OPTIONS:
        yield from _differ("latency", name, getattr(a.options, name), getattr(b.options, name))


def _sampling_differences(
    a: RunSide, target_a: Target, b: RunSide, target_b: Target, scope: Scope
) -> Iterator[Difference]:
    if a.config is None or b.config is None:
        return
    sampled_a = a.config.sampling.get(target_a.label)
    sampled_b = b.config.sampling.get(target_b.label)
    if sampled_a is None or sampled_b is None:
        return
    for name in dict.fromkeys([*sampled_a, *sampled_b]):
        yield from _differ(scope, name, sampled_a.get(name), sampled_b.get(name))


def _judge_differences(a: RunSide, target_a: Target, b: RunSide, target_b: Target) -> Iterator[Difference]:
    judges_a, judges_b = a.judged_by.get(target_a), b.judged_by.get(target_b)
    if not judges_a or not judges_b or judges_a == judges_b:
        return
    unknown = None in judges_a | judges_b
    yield Difference(
        scope="note" if unknown else "verdicts",
        what="the verdicts come from other validators",
        a=_name_judges(judges_a),
        b=_name_judges(judges_b),
        advice=f"judge both alike: clawgauge rescore {a.path} and clawgauge rescore {b.path}",
    )


def _name_judges(judges: set[str | None]) -> str:
    return " and ".join(sorted(judge or _NOT_KNOWN for judge in judges))


def _reported_note(a: set[str], b: set[str]) -> Iterator[Difference]:
    # A cloud service may put another snapshot behind a name at any time; to see that is what one compares for.
    if a and b and a != b:
        said_a, said_b = list_names(sorted(a), _MAX_NAMED), list_names(sorted(b), _MAX_NAMED)
        yield Difference(scope="note", what="the server says another model answered", a=said_a, b=said_b)


def _model_differences(a: RunSide, b: RunSide, target: Target) -> Iterator[Difference]:
    model_a, model_b = _find_model(a.inventory, target), _find_model(b.inventory, target)
    same_file = False
    if model_a is not None and model_b is not None:
        for name in ("digest", "quantization", "parameters"):
            yield from _differ("verdicts", f"model {name}", getattr(model_a, name), getattr(model_b, name), known=True)
        same_file = model_a.digest is not None and model_a.digest == model_b.digest
    yield from _provider_differences(a.config, b.config, target, same_file=same_file)


def _find_model(inventory: Inventory | None, target: Target) -> ModelInfo | None:
    """What the inventory says of a model; Ollama lists `llama3` as `llama3:latest`."""
    if inventory is None:
        return None
    listed = [model for probe in inventory.providers if probe.provider == target.provider for model in probe.models]
    listed += (inventory.ollama_list or []) if target.provider.startswith("ollama") else []
    names = (target.model, f"{target.model}:latest")
    return next((model for model in listed if model.name in names), None)


def _provider_differences(
    a: RunConfig | None, b: RunConfig | None, target: Target, *, same_file: bool
) -> Iterator[Difference]:
    if a is None or b is None:
        return
    settings_a, settings_b = a.providers.get(target.provider), b.providers.get(target.provider)
    if settings_a is None or settings_b is None:
        return
    # The same file on another server answers alike; whatever else bears the name there may be another model.
    scope: Scope = "latency" if same_file else "verdicts"
    yield from _differ(scope, "server address", settings_a.get("base_url"), settings_b.get("base_url"))
    for name in dict.fromkeys([*settings_a, *settings_b]):
        if name not in _FREE_SETTINGS:
            yield from _differ("verdicts", f"provider {name}", settings_a.get(name), settings_b.get(name))
    yield from _differ("note", "provider version", settings_a.get("version"), settings_b.get("version"))


def _host_differences(a: Inventory | None, b: Inventory | None) -> Iterator[Difference]:
    if a is None or b is None:
        return
    machine_a, machine_b = _describe_machine(a), _describe_machine(b)
    for name in machine_a:
        yield from _differ("latency", name, machine_a[name], machine_b[name], known=True)


def _describe_machine(inventory: Inventory) -> dict[str, Any]:
    """What makes a machine as fast as it is. A container's host name is made up anew each time and says nothing."""
    host, cpu = inventory.host, inventory.cpu
    return {
        "host name": None if host.get("container") else host.get("hostname"),
        "architecture": host.get("machine"),
        "CPU": cpu.get("model"),
        "usable cores": cpu.get("usable_cores"),
        "CPU quota": cpu.get("quota_cores"),
        "GPUs": ", ".join(str(gpu.get("name")) for gpu in inventory.gpus),
    }


def _run_notes(a: RunSide, b: RunSide) -> Iterator[Difference]:
    for side, letter in ((a, "A"), (b, "B")):
        if side.config is None:
            yield Difference(
                scope="note",
                what=f"{letter} does not hold its prompts and settings (an older harness made it): "
                "that it asked the same, in the same way, is taken on trust",
                a="",
                b="",
            )
    if a.config is not None and b.config is not None:
        yield from _drawing_note(a.config, b.config)
        yield from _version_note(a.config.versions, b.config.versions)


def _drawing_note(a: RunConfig, b: RunConfig) -> Iterator[Difference]:
    redrawn = _redrawn_suites(a, b)
    drawn_a, drawn_b = ({p.key: prompt_fingerprint(p) for p in c.prompts if p.suite in redrawn} for c in (a, b))
    if any(drawn_b.get(key, drawn) != drawn for key, drawn in drawn_a.items()):
        drawings = f"drawing {a.options.draw} and drawing {b.options.draw}"
        words = "the same prompts with other values, paired by prompt"
        yield Difference(scope="note", what=f"{drawings}: {words}", a="", b="")


def _version_note(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    other = [name for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
    if other:
        said_a, said_b = (", ".join(f"{name} {side.get(name, 'none')}" for name in other) for side in (a, b))
        yield Difference(scope="note", what="versions", a=said_a, b=said_b)


def _differ(scope: Scope, what: str, a: Any, b: Any, *, known: bool = False) -> Iterator[Difference]:
    """A difference, where there is one; with `known`, only where both sides say something."""
    if a == b or (known and (a is None or b is None)):
        return
    yield Difference(scope=scope, what=what, a=_say(a), b=_say(b))


def _say(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list):
        return str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
