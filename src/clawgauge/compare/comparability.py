"""May these two be compared? And if not, what exactly differs?

A difference in what was asked, judged or sampled spoils everything. Another machine or another way of timing spoils the
times alone: the same model gives the same verdicts there. Two targets of different names are different on purpose: only
of one name are model files looked at. What a folder does not say (one of the first harness) is a note, no difference.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clawgauge.compare.findings import Difference, Scope
from clawgauge.compare.sides import Pair, RunSide, SharedPrompt
from clawgauge.records import Inventory, ModelInfo, Prompt, RunConfig, Target
from clawgauge.words import list_names

_MAX_NAMED = 5
# Options of a run, apart from sampling: what else reaches an answer, and what reaches only its timing.
_OPTIONS: dict[Scope, tuple[str, ...]] = {
    "verdicts": ("timeout_s", "unique_prefix"),
    "latency": ("concurrency", "stream", "warm_up", "unload_others", "interleave"),
}
# Keys of a provider's settings that change neither an answer nor a time, or that are looked at elsewhere.
_FREE_SETTINGS = frozenset({"base_url", "api_key_env", "version"})


def question_fingerprint(prompt: Prompt) -> str:
    """Everything that is sent to the model. The order of keys in `tools` counts: it is sent as written."""
    asked = (
        prompt.prompt,
        prompt.system,
        prompt.temperature,
        prompt.max_tokens,
        prompt.tools,
        prompt.tool_choice,
    )
    before = (prompt.messages,) if prompt.messages else ()
    return _digest(
        msgspec.json.encode(
            (*asked, prompt.response_format, prompt.world, prompt.max_turns, *before)
        )
    )


def verdict_fingerprint(prompt: Prompt) -> str:
    """Everything that decides the verdict on an answer. The order of a validator's keys does not count."""
    return _digest(
        msgspec.json.encode((prompt.validator, sorted(prompt.expected_tools)), order="sorted")
    )


def prompt_fingerprint(prompt: Prompt) -> str:
    return _digest(f"{question_fingerprint(prompt)} {verdict_fingerprint(prompt)}".encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def find_run_differences(a: RunSide, b: RunSide) -> Iterator[Difference]:
    if a.config is not None and b.config is not None:
        for scope, name in ((scope, name) for scope, names in _OPTIONS.items() for name in names):
            yield from _differ(
                scope, name, getattr(a.config.options, name), getattr(b.config.options, name)
            )
    # Of a fleet each target has its own machine.
    if not any(_node_of(side, target) for side in (a, b) for target in side.targets):
        yield from _machine_differences(a.inventory, b.inventory)
    for side, letter in ((a, "A"), (b, "B")):
        if side.config is None:
            words = f"{letter} does not hold its prompts and settings (an older harness made it)"
            yield _note(f"{words}: that it asked the same, in the same way, is taken on trust")
    if a.config is not None and b.config is not None:
        yield from _config_notes(a.config, b.config)


def find_pair_differences(a: RunSide, b: RunSide, pair: Pair) -> list[Difference]:
    target_a, target_b = pair.a, pair.b
    one_run = a.path.resolve() == b.path.resolve()
    label = target_a.label if target_a == target_b else f"{target_a.label} = {target_b.label}"
    found = [] if one_run else list(_prompt_differences(a, b, pair.shared))
    if not one_run and any(_node_of(side, target) for side in (a, b) for target in side.targets):
        machines = (
            side.inventory_of(_node_of(side, target))
            for side, target in ((a, target_a), (b, target_b))
        )
        found += _machine_differences(*machines)
    if a.config is not None and b.config is not None:
        sampled = a.config.sampling.get(target_a.label), b.config.sampling.get(target_b.label)
        found += _differ_by_key("note" if one_run else "verdicts", "", *sampled)
    found += _judge_differences(a, target_a, b, target_b)
    if target_a == target_b:
        found += _model_differences(a, b, target_a)
        said_a, said_b = a.reported.get(target_a, set()), b.reported.get(target_a, set())
        # A cloud service may put another snapshot behind a name at any time; to see that is what one compares for.
        if said_a and said_b and said_a != said_b:
            names_a, names_b = (list_names(sorted(said), _MAX_NAMED) for said in (said_a, said_b))
            found.append(_note("the server says another model answered", names_a, names_b))
    return [msgspec.structs.replace(difference, target=label) for difference in found]


def changed_prompts(
    a: RunSide, b: RunSide, shared: Iterable[SharedPrompt]
) -> tuple[list[SharedPrompt], ...]:
    """Shared prompts that ask something else, and those that ask the same and are judged by something else; neither is
    another drawing of the same suite, the same prompt with other values."""
    prompts_a, prompts_b = _known_prompts(a), _known_prompts(b)
    redrawn = _redrawn_suites(a.config, b.config)
    both = [
        s
        for s in shared
        if s.key_a in prompts_a and s.key_b in prompts_b and s.key_a[0] not in redrawn
    ]
    known = [(s, prompts_a[s.key_a], prompts_b[s.key_b]) for s in both]
    other_question = [s for s, x, y in known if question_fingerprint(x) != question_fingerprint(y)]
    other_verdict = [s for s, x, y in known if verdict_fingerprint(x) != verdict_fingerprint(y)]
    return other_question, [s for s in other_verdict if s not in other_question]


def _redrawn_suites(a: RunConfig | None, b: RunConfig | None) -> set[str]:
    if a is None or b is None or a.options.draw == b.options.draw:
        return set()
    versions = [{(suite.name, suite.version) for suite in config.suites} for config in (a, b)]
    return {name for name, _ in set.intersection(*versions)}


def _known_prompts(side: RunSide) -> dict[tuple[str, str], Prompt]:
    return {prompt.key: prompt for prompt in side.config.prompts} if side.config else {}


def _prompt_differences(
    a: RunSide, b: RunSide, shared: Sequence[SharedPrompt]
) -> Iterator[Difference]:
    asked, judged = changed_prompts(a, b, shared)
    prompts_a, prompts_b = _known_prompts(a), _known_prompts(b)
    for changed, fingerprint, one, many, advice in (
        (asked, question_fingerprint, "asks something else", "ask something else", "leave {} out with --skip-changed"),
        (judged, verdict_fingerprint, "is judged by another validator", "are judged by another validator",
         "judge {} alike with rescore --suite"),
    ):  # fmt: skip
        if changed:
            alone, names = len(changed) == 1, list_names([s.label for s in changed], _MAX_NAMED)
            hashes_a = [fingerprint(prompts_a[s.key_a]) for s in changed]
            hashes_b = [fingerprint(prompts_b[s.key_b]) for s in changed]
            # One short hash for one or many prompts.
            values = [
                own[0] if alone else _digest("".join(own).encode()) for own in (hashes_a, hashes_b)
            ]
            what, way_out = (
                f"{names} {one if alone else many}",
                advice.format("it" if alone else "them"),
            )
            yield Difference(scope="verdicts", what=what, a=values[0], b=values[1], advice=way_out)


def _judge_differences(
    a: RunSide, target_a: Target, b: RunSide, target_b: Target
) -> Iterator[Difference]:
    both = a.judged_by.get(target_a), b.judged_by.get(target_b)
    if both[0] and both[1] and both[0] != both[1]:
        x, y = (
            " and ".join(sorted(judge or "not recorded" for judge in judges))
            for judges in both
            if judges
        )
        scope: Scope = "note" if None in both[0] | both[1] else "verdicts"
        advice = f"judge both alike: clawgauge rescore {a.path} and clawgauge rescore {b.path}"
        yield Difference(
            scope=scope, what="the verdicts come from other validators", a=x, b=y, advice=advice
        )


def _model_differences(a: RunSide, b: RunSide, target: Target) -> Iterator[Difference]:
    model_a, model_b = _find_model(a.inventory, target), _find_model(b.inventory, target)
    same_file = False
    if model_a is not None and model_b is not None:
        for name in ("digest", "quantization", "parameters"):
            yield from _differ(
                "verdicts",
                f"model {name}",
                getattr(model_a, name),
                getattr(model_b, name),
                known=True,
            )
        same_file = model_a.digest is not None and model_a.digest == model_b.digest
    settings_a, settings_b = (
        s.config.providers.get(target.provider) if s.config else None for s in (a, b)
    )
    if settings_a is None or settings_b is None:
        return
    # The same file on another server answers alike; whatever else bears the name there may be another model.
    scope: Scope = "latency" if same_file else "verdicts"
    yield from _differ(
        scope, "server address", settings_a.get("base_url"), settings_b.get("base_url")
    )
    yield from _differ_by_key(
        "verdicts", "provider ", settings_a, settings_b, leave_out=_FREE_SETTINGS
    )
    yield from _differ(
        "note", "provider version", settings_a.get("version"), settings_b.get("version")
    )


def _find_model(inventory: Inventory | None, target: Target) -> ModelInfo | None:
    """What the inventory says of a model; Ollama lists `llama3` as `llama3:latest`."""
    if inventory is None:
        return None
    listed = [
        model
        for probe in inventory.providers
        if probe.provider == target.provider
        for model in probe.models
    ]
    listed += (inventory.ollama_list or []) if target.provider.startswith("ollama") else []
    names = (target.model, f"{target.model}:latest")
    return next((model for model in listed if model.name in names), None)


def _node_of(side: RunSide, target: Target) -> str:
    """The machine of a fleet that served a target, as the run says it: a name, and no way to another folder."""
    node = side.config.providers.get(target.provider, {}).get("node") if side.config else None
    return node if isinstance(node, str) and re.fullmatch(r"[\w-]+", node) else ""


def _machine_differences(a: Inventory | None, b: Inventory | None) -> Iterator[Difference]:
    """Nothing where a machine is not known: the one that drove a fleet has not answered."""
    if a is not None and b is not None:
        machine_a, machine_b = _describe_machine(a), _describe_machine(b)
        for name in machine_a:
            yield from _differ("latency", name, machine_a[name], machine_b[name], known=True)


def _describe_machine(inventory: Inventory) -> dict[str, Any]:
    """What makes a machine as fast as it is. A container's host name is made up anew each time and says nothing."""
    host, cpu = inventory.host, inventory.cpu
    name = None if host.get("container") else host.get("hostname")
    cores = {"usable cores": cpu.get("usable_cores"), "CPU quota": cpu.get("quota_cores")}
    gpus = ", ".join(str(gpu.get("name")) for gpu in inventory.gpus)
    return {
        "host name": name,
        "architecture": host.get("machine"),
        "CPU": cpu.get("model"),
        **cores,
        "GPUs": gpus,
    }


def _config_notes(a: RunConfig, b: RunConfig) -> Iterator[Difference]:
    redrawn = _redrawn_suites(a, b)
    drawn_a, drawn_b = (
        {p.key: prompt_fingerprint(p) for p in c.prompts if p.suite in redrawn} for c in (a, b)
    )
    if any(drawn_b.get(key, drawn) != drawn for key, drawn in drawn_a.items()):
        drawings = f"drawing {a.options.draw} and drawing {b.options.draw}"
        yield _note(f"{drawings}: the same prompts with other values, paired by prompt")
    versions = a.versions, b.versions
    other = [
        name
        for name in dict.fromkeys([*a.versions, *b.versions])
        if len({v.get(name) for v in versions}) > 1
    ]
    if other:
        yield _note(
            "versions",
            *(", ".join(f"{name} {v.get(name, 'none')}" for name in other) for v in versions),
        )


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
    if a is not None and b is not None:
        for name in dict.fromkeys(name for name in (*a, *b) if name not in leave_out):
            yield from _differ(scope, f"{kind}{name}", a.get(name), b.get(name))


def _differ(
    scope: Scope, what: str, a: Any, b: Any, *, known: bool = False
) -> Iterator[Difference]:
    """A difference, where there is one; with `known`, only where both sides say something."""
    if a != b and not (known and (a is None or b is None)):
        yield Difference(scope=scope, what=what, a=_say(a), b=_say(b))


def _say(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
