"""May these two be compared? And if not, what exactly differs?

A difference in what was asked, judged or sampled spoils everything. Another machine or another way
of timing spoils the times alone: the same model gives the same verdicts there. Two targets of
different names are different on purpose: only of one name are model files looked at. What a folder
does not say (one of the first harness) is a note, no difference.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from clawgauge.compare.findings import Difference, Scope
from clawgauge.compare.pairing import Pair, SharedPrompt
from clawgauge.compare.sides import Side
from clawgauge.records import Inventory, ModelInfo, Prompt, PromptKey, RunConfig, Target
from clawgauge.words import list_names

_MAX_NAMED = 5
_DIGEST_CHARS = 12
# Keys of a provider's settings that change neither an answer nor a time, or that are looked at
# elsewhere.
_FREE_SETTINGS = frozenset({"base_url", "api_key_env", "version"})


def question_fingerprint(prompt: Prompt) -> str:
    """Everything that is sent to the model. The order of keys in `tools` counts: it is sent as
    written."""
    parts: list[Any] = [
        prompt.prompt,
        prompt.system,
        prompt.temperature,
        prompt.max_tokens,
        prompt.tools,
        prompt.tool_choice,
        prompt.response_format,
        prompt.world,
        prompt.max_turns,
    ]
    if prompt.messages:
        parts.append(prompt.messages)
    return _digest(msgspec.json.encode(parts))


def verdict_fingerprint(prompt: Prompt) -> str:
    """Everything that decides the verdict on an answer. The order of a validator's keys does not
    count."""
    parts = [prompt.validator, sorted(prompt.expected_tools)]
    return _digest(msgspec.json.encode(parts, order="sorted"))


def prompt_fingerprint(prompt: Prompt) -> str:
    return _digest(f"{question_fingerprint(prompt)} {verdict_fingerprint(prompt)}".encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]


def find_run_differences(a: Side, b: Side) -> list[Difference]:
    """What differs between two runs, whichever of their targets are compared."""
    differences: list[Difference] = []
    if a.config is not None and b.config is not None:
        differences += _option_differences(a.config, b.config)
    # Of a fleet each target has its own machine.
    if not _has_nodes(a) and not _has_nodes(b):
        differences += _machine_differences(a.inventory, b.inventory)
    for side, letter in ((a, "A"), (b, "B")):
        if side.config is None:
            lacking = "does not hold its prompts and settings (an older harness made it)"
            trust = "that it asked the same, in the same way, is taken on trust"
            differences.append(_note(f"{letter} {lacking}: {trust}"))
    if a.config is not None and b.config is not None:
        differences += _config_notes(a.config, b.config)
    return differences


def _option_differences(a: RunConfig, b: RunConfig) -> Iterator[Difference]:
    """The options of a run, apart from sampling: first what else reaches an answer, then what
    reaches only its timing."""
    yield from _differ("verdicts", "timeout_s", a.options.timeout_s, b.options.timeout_s)
    yield from _differ(
        "verdicts", "unique_prefix", a.options.unique_prefix, b.options.unique_prefix
    )
    yield from _differ("latency", "stream", a.options.stream, b.options.stream)
    yield from _differ("latency", "warm_up", a.options.warm_up, b.options.warm_up)
    yield from _differ("latency", "unload_others", a.options.unload_others, b.options.unload_others)
    yield from _differ("latency", "interleave", a.options.interleave, b.options.interleave)


def find_pair_differences(a: Side, b: Side, pair: Pair) -> list[Difference]:
    """What differs between a target of A and one of B, each named with the pair."""
    is_one_run = a.path.resolve() == b.path.resolve()
    differences: list[Difference] = []
    if not is_one_run:
        differences += _prompt_differences(a, b, pair.shared)
        if _has_nodes(a) or _has_nodes(b):
            machine_a = a.first_run.inventory_of(_node_of(a, pair.a))
            machine_b = b.first_run.inventory_of(_node_of(b, pair.b))
            differences += _machine_differences(machine_a, machine_b)
    if a.config is not None and b.config is not None:
        scope: Scope = "note" if is_one_run else "verdicts"
        sampling_a = a.config.sampling.get(pair.a.label)
        sampling_b = b.config.sampling.get(pair.b.label)
        differences += _differ_by_key(scope, "", sampling_a, sampling_b)
    differences += _concurrency_differences(a, b, pair)
    differences += _judge_differences(a, b, pair)
    if pair.a == pair.b:
        differences += _model_differences(a, b, pair.a)
        differences += _reported_differences(a, b, pair.a)
    label = pair.a.label if pair.a == pair.b else f"{pair.a.label} = {pair.b.label}"
    return [msgspec.structs.replace(difference, target=label) for difference in differences]


def _concurrency_differences(a: Side, b: Side, pair: Pair) -> Iterator[Difference]:
    """That one side was sent more calls at once, which makes each of them slower."""
    if a.config is None or b.config is None:
        return
    n_a = _find_concurrency(a, pair.a)
    n_b = _find_concurrency(b, pair.b)
    if n_a is not None and n_b is not None:
        yield from _differ("latency", "concurrency", n_a, n_b)
    elif a.config.options.concurrency != b.config.options.concurrency:
        # A run that was killed does not say what it found out.
        yield Difference(
            scope="latency",
            what="concurrency",
            a="found out" if n_a is None else str(n_a),
            b="found out" if n_b is None else str(n_b),
        )


def _find_concurrency(side: Side, target: Target) -> int | None:
    """How many calls a target was sent at once: as many as were asked for, or were found out; None
    where that is not known."""
    if side.config is None:
        return None
    if side.config.options.concurrency:
        return side.config.options.concurrency
    most_by_run = []
    for event in side.first_run.events:
        if event.event == "target_finished" and event.target == target.label:
            most_at_once = event.detail.get("most_at_once")
            if isinstance(most_at_once, int):
                most_by_run.append(most_at_once)
    return max(most_by_run, default=None)


class ChangedPrompts(NamedTuple):
    """Shared prompts that ask something else, and those that ask the same and are judged by
    something else."""

    asked: list[SharedPrompt]
    judged: list[SharedPrompt]


def find_changed_prompts(a: Side, b: Side, shared: Iterable[SharedPrompt]) -> ChangedPrompts:
    """The shared prompts whose content differs. Another drawing of the same suite is no change: it
    is the same prompt with other values."""
    prompts_a = _prompts_by_key(a)
    prompts_b = _prompts_by_key(b)
    redrawn = _redrawn_suites(a.config, b.config)
    changed = ChangedPrompts(asked=[], judged=[])
    for pair in shared:
        prompt_a = prompts_a.get(pair.key_a)
        prompt_b = prompts_b.get(pair.key_b)
        if prompt_a is None or prompt_b is None or prompt_a.suite in redrawn:
            continue
        if question_fingerprint(prompt_a) != question_fingerprint(prompt_b):
            changed.asked.append(pair)
        elif verdict_fingerprint(prompt_a) != verdict_fingerprint(prompt_b):
            changed.judged.append(pair)
    return changed


def _redrawn_suites(a: RunConfig | None, b: RunConfig | None) -> set[str]:
    """The suites that both runs asked in one version, each with other values."""
    if a is None or b is None or a.options.draw == b.options.draw:
        return set()
    versions_a = {(suite.name, suite.version) for suite in a.suites}
    versions_b = {(suite.name, suite.version) for suite in b.suites}
    return {name for name, _ in versions_a & versions_b}


def _prompts_by_key(side: Side) -> dict[PromptKey, Prompt]:
    if side.config is None:
        return {}
    return {prompt.key: prompt for prompt in side.config.prompts}


def _prompt_differences(a: Side, b: Side, shared: Sequence[SharedPrompt]) -> Iterator[Difference]:
    changed = find_changed_prompts(a, b, shared)
    if changed.asked:
        is_one = len(changed.asked) == 1
        what = "asks something else" if is_one else "ask something else"
        advice = f"leave {'it' if is_one else 'them'} out with --skip-changed"
        yield _changed_difference(a, b, changed.asked, question_fingerprint, what, advice)
    if changed.judged:
        is_one = len(changed.judged) == 1
        what = f"{'is' if is_one else 'are'} judged by another validator"
        advice = f"judge {'it' if is_one else 'them'} alike with rescore --suite"
        yield _changed_difference(a, b, changed.judged, verdict_fingerprint, what, advice)


def _changed_difference(
    a: Side,
    b: Side,
    changed: Sequence[SharedPrompt],
    fingerprint: Callable[[Prompt], str],
    what: str,
    advice: str,
) -> Difference:
    prompts_a = _prompts_by_key(a)
    prompts_b = _prompts_by_key(b)
    names = list_names([shared.label for shared in changed], _MAX_NAMED)
    return Difference(
        scope="verdicts",
        what=f"{names} {what}",
        a=_join_hashes([fingerprint(prompts_a[shared.key_a]) for shared in changed]),
        b=_join_hashes([fingerprint(prompts_b[shared.key_b]) for shared in changed]),
        advice=advice,
    )


def _join_hashes(hashes: Sequence[str]) -> str:
    """One short hash for one or many prompts."""
    if len(hashes) == 1:
        return hashes[0]
    return _digest("".join(hashes).encode())


def _judge_differences(a: Side, b: Side, pair: Pair) -> Iterator[Difference]:
    judges_a = a.judged_by.get(pair.a)
    judges_b = b.judged_by.get(pair.b)
    if not judges_a or not judges_b or judges_a == judges_b:
        return
    is_known = None not in judges_a and None not in judges_b
    yield Difference(
        scope="verdicts" if is_known else "note",
        what="the verdicts come from other validators",
        a=_name_judges(judges_a),
        b=_name_judges(judges_b),
        advice=f"judge both alike: clawgauge rescore {a.path} and clawgauge rescore {b.path}",
    )


def _name_judges(judges: Iterable[str | None]) -> str:
    return " and ".join(sorted(judge or "not recorded" for judge in judges))


def _model_differences(a: Side, b: Side, target: Target) -> Iterator[Difference]:
    """What differs in the model file and in the provider behind one name."""
    model_a = _find_model(a.inventory, target)
    model_b = _find_model(b.inventory, target)
    is_same_file = False
    if model_a is not None and model_b is not None:
        yield from _differ_where_known("verdicts", "model digest", model_a.digest, model_b.digest)
        yield from _differ_where_known(
            "verdicts", "model quantization", model_a.quantization, model_b.quantization
        )
        yield from _differ_where_known(
            "verdicts", "model parameters", model_a.parameters, model_b.parameters
        )
        is_same_file = model_a.digest is not None and model_a.digest == model_b.digest
    settings_a = _provider_settings(a, target)
    settings_b = _provider_settings(b, target)
    if settings_a is None or settings_b is None:
        return
    # The same file on another server answers alike; whatever else bears the name there may be
    # another model.
    scope: Scope = "latency" if is_same_file else "verdicts"
    yield from _differ(
        scope, "server address", settings_a.get("base_url"), settings_b.get("base_url")
    )
    yield from _differ_by_key(
        "verdicts", "provider ", settings_a, settings_b, leave_out=_FREE_SETTINGS
    )
    yield from _differ(
        "note", "provider version", settings_a.get("version"), settings_b.get("version")
    )


def _reported_differences(a: Side, b: Side, target: Target) -> Iterator[Difference]:
    """A cloud service may put another snapshot behind a name at any time; to see that is what one
    compares for."""
    models_a = a.reported.get(target)
    models_b = b.reported.get(target)
    if models_a and models_b and models_a != models_b:
        names_a = list_names(sorted(models_a), _MAX_NAMED)
        names_b = list_names(sorted(models_b), _MAX_NAMED)
        yield _note("the server says another model answered", names_a, names_b)


def _provider_settings(side: Side, target: Target) -> Mapping[str, Any] | None:
    if side.config is None:
        return None
    return side.config.providers.get(target.provider)


def _find_model(inventory: Inventory | None, target: Target) -> ModelInfo | None:
    """What the inventory says of a model; Ollama lists `llama3` as `llama3:latest`."""
    if inventory is None:
        return None
    listed: list[ModelInfo] = []
    for probe in inventory.providers:
        if probe.provider == target.provider:
            listed += probe.models
    if target.provider.startswith("ollama"):
        listed += inventory.ollama_list or []
    for model in listed:
        if model.name in (target.model, f"{target.model}:latest"):
            return model
    return None


def _has_nodes(side: Side) -> bool:
    """Whether a machine of a fleet served any of the targets."""
    return any(_node_of(side, target) for target in side.targets)


def _node_of(side: Side, target: Target) -> str:
    """The machine of a fleet that served a target, as the run says it: a name, and no way to
    another folder."""
    settings = _provider_settings(side, target) or {}
    node = settings.get("node")
    if isinstance(node, str) and re.fullmatch(r"[\w-]+", node):
        return node
    return ""


def _machine_differences(a: Inventory | None, b: Inventory | None) -> Iterator[Difference]:
    """Nothing where a machine is not known: the one that drove a fleet has not answered."""
    if a is None or b is None:
        return
    machine_a = _describe_machine(a)
    machine_b = _describe_machine(b)
    for name, value in machine_a.items():
        yield from _differ_where_known("latency", name, value, machine_b[name])


def _describe_machine(inventory: Inventory) -> dict[str, Any]:
    """What makes a machine as fast as it is. A container's host name is made up anew each time and
    says nothing."""
    host = inventory.host
    return {
        "host name": None if host.get("container") else host.get("hostname"),
        "architecture": host.get("machine"),
        "CPU": inventory.cpu.get("model"),
        "usable cores": inventory.cpu.get("usable_cores"),
        "CPU quota": inventory.cpu.get("quota_cores"),
        "GPUs": ", ".join(str(gpu.get("name")) for gpu in inventory.gpus),
    }


def _config_notes(a: RunConfig, b: RunConfig) -> Iterator[Difference]:
    if _has_other_values(a, b):
        drawings = f"drawing {a.options.draw} and drawing {b.options.draw}"
        yield _note(f"{drawings}: the same prompts with other values, paired by prompt")
    differing = []
    for name in dict.fromkeys([*a.versions, *b.versions]):
        if a.versions.get(name) != b.versions.get(name):
            differing.append(name)
    if differing:
        yield _note("versions", _name_versions(a, differing), _name_versions(b, differing))


def _has_other_values(a: RunConfig, b: RunConfig) -> bool:
    """Whether a prompt of a redrawn suite reads otherwise in B."""
    redrawn = _redrawn_suites(a, b)
    prompts_b = {prompt.key: prompt for prompt in b.prompts if prompt.suite in redrawn}
    for prompt in a.prompts:
        other = prompts_b.get(prompt.key)
        if other is not None and prompt_fingerprint(prompt) != prompt_fingerprint(other):
            return True
    return False


def _name_versions(config: RunConfig, names: Iterable[str]) -> str:
    return ", ".join(f"{name} {config.versions.get(name, 'none')}" for name in names)


def _note(what: str, a: str = "", b: str = "") -> Difference:
    return Difference(scope="note", what=what, a=a, b=b)


def _differ_by_key(
    scope: Scope,
    kind: str,
    a: Mapping[str, Any] | None,
    b: Mapping[str, Any] | None,
    leave_out: Iterable[str] = (),
) -> Iterator[Difference]:
    """Every key that two sets of settings do not share; nothing where one is not known."""
    if a is None or b is None:
        return
    for name in dict.fromkeys([*a, *b]):
        if name not in leave_out:
            yield from _differ(scope, f"{kind}{name}", a.get(name), b.get(name))


def _differ_where_known(scope: Scope, what: str, a: Any, b: Any) -> Iterator[Difference]:
    """A difference, where there is one, and both sides say something."""
    if a is not None and b is not None:
        yield from _differ(scope, what, a, b)


def _differ(scope: Scope, what: str, a: Any, b: Any) -> Iterator[Difference]:
    """A difference, where there is one."""
    if a != b:
        yield Difference(scope=scope, what=what, a=_word_value(a), b=_word_value(b))


def _word_value(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
