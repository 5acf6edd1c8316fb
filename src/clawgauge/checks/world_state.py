"""The `world_state` validator: what a task must have done, must never have done, and must say in the end.

A task is judged by making its calls again on a new world."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.checks.answer import (
    NATIVE,
    Answer,
    Verdict,
    answer_start,
    failed,
    passed,
    quoted,
    tool_calls_of,
)
from clawgauge.checks.spec import (
    compile_pattern,
    kind_of,
    matches_fully,
    refuse,
    refuse_unknown,
    require_flag,
    require_pattern,
    require_text,
)
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation
from clawgauge.world import TOOL_NAMES, World
from clawgauge.world.effects import Effect, read_moment
from clawgauge.world.fields import Fields
from clawgauge.world.mailbox import is_heard, plain_name
from clawgauge.world.paths import matches_glob, resolve
from clawgauge.world.schedule import moments_of
from clawgauge.world.services import STATES
from clawgauge.world.world import MAX_CALLS

# What each condition counts, and the word for it in a violation.
EFFECTS: Mapping[str, tuple[str, ...]] = {
    "created": ("created",),
    "deleted": ("deleted",),
    "changed": ("created", "changed", "deleted"),
    "killed": ("killed",),
    "service": ("service",),
    "sent": ("sent",),
    "scheduled": ("scheduled",),
    "unscheduled": ("unscheduled",),
    "remembered": ("remembered",),
    "forgotten": ("forgotten",),
    "fetched": ("fetched",),
}
_WORDS = {"killed": "killed process", "service": "changed service", "sent": "sent a message to"}
_TEXT_KEYS = ("equals", "contains", "lacks", "matches")
_MAX_CONDITIONS = 64
_MAX_STATE_CHARS = 200
_FORBID_KEYS = ("except", "contains", "with")
_WHEN_KEYS = ("until", "before", "after")


def calls_of(world: World, tools: str | list[str], pattern: str | None = None) -> list[Mapping[str, Any]]:
    """The arguments of every call of one of `tools` in which `pattern` is found; they are looked at as JSON."""
    names = tools if isinstance(tools, list) else [tools]
    made = [call.arguments for call in world.calls if call.name in names and call.arguments is not None]
    if pattern is None:
        return made
    expression = compile_pattern(pattern)
    return [arguments for arguments in made if expression.search(_shown(arguments)) is not None]


def _shown(arguments: Mapping[str, Any]) -> str:
    return well_formed(json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str))


Condition = Mapping[str, Any]


def check_effect(kind: str, condition: Condition) -> None:
    """Refuse a condition on effects that cannot be looked for; `kind` is its first key."""
    if kind == "called":
        check_called(condition)
        return
    for key in (kind, "except"):
        patterns = condition.get(key, [])
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            if not isinstance(pattern, str) or not pattern.strip():
                raise refuse(key, "a pattern such as '/srv/*', or a list of them", pattern)
    for key in ("contains", "until"):
        if key in condition:
            require_text(condition, key)
    for key in ("before", "after"):
        if key in condition:
            read_moment(Fields(condition, "", tuple(condition)), key)


def find_effect(kind: str, condition: Condition, world: World) -> str | None:
    """The first forbidden effect, in words, or None."""
    if kind == "called":
        return _describe_call(condition) if calls_of(world, condition["called"], condition.get("with")) else None
    for effect in world.machine.effects.effects:
        if effect.kind == "heard" and is_heard(condition.get("until", ""), effect.subject, effect.detail):
            return None
        if effect.kind in EFFECTS[kind] and _is_meant(condition, kind, effect) and _is_then(condition, effect.at_s):
            return _describe(effect)
    return None


def _is_then(condition: Condition, at_s: int) -> bool:
    """Whether a condition forbids at this moment: `before` one, `after` another, or always where it names neither."""
    fields = Fields(condition, "", tuple(condition))
    too_early = "before" in condition and at_s < read_moment(fields, "before")
    too_late = "after" in condition and at_s > read_moment(fields, "after")
    return too_early or too_late or not ("before" in condition or "after" in condition)


def _is_meant(condition: Condition, kind: str, effect: Effect) -> bool:
    if not _fits(condition[kind], effect.subject) or _fits(condition.get("except", []), effect.subject):
        return False
    return condition.get("contains", "").casefold() in f"{effect.subject}\n{effect.detail}".casefold()


def _fits(patterns: str | list[str], subject: str) -> bool:
    listed = patterns if isinstance(patterns, list) else [patterns]
    # A person may be written with or without the mark of an address, in the world as in the condition.
    return any(matches_glob(pattern.lstrip("@#"), subject.lstrip("@#"), across=True) for pattern in listed)


def _describe(effect: Effect) -> str:
    word = _WORDS.get(effect.kind, effect.kind)
    detail = f" ({quoted(effect.detail)})" if effect.detail and effect.kind in ("sent", "deleted", "service") else ""
    return f"{word} {effect.subject}{detail}"


def _describe_call(condition: Condition) -> str:
    names = condition["called"] if isinstance(condition["called"], list) else [condition["called"]]
    return f"called {' or '.join(names)}" + (f" with {quoted(condition['with'])}" if "with" in condition else "")


def find_text_fault(condition: Condition, text: str) -> str | None:
    """What is wrong with a text, to follow on its name, or None. Case counts in `equals` and `matches` alone."""
    folded = text.casefold()
    if "equals" in condition and text.strip() != condition["equals"].strip():
        return f"is {quoted(text)}, not {quoted(condition['equals'])}"
    for wanted in _as_list(condition.get("contains", [])):
        if wanted.casefold() not in folded:
            return f"lacks {quoted(wanted)}"
    for unwanted in _as_list(condition.get("lacks", [])):
        if unwanted.casefold() in folded:
            return f"holds {quoted(unwanted)}"
    if "matches" in condition and not matches_fully(condition["matches"], text.strip()):
        return f"does not match {quoted(condition['matches'])}"
    return None


def check_text_keys(condition: Condition) -> None:
    for key in ("contains", "lacks"):
        for index, value in enumerate(_as_list(condition.get(key, []))):
            if not isinstance(value, str) or not value:
                raise refuse(f"{key}[{index}]" if isinstance(condition[key], list) else key, "text", value)
    if "equals" in condition and not isinstance(condition["equals"], str):
        raise refuse("equals", "text", condition["equals"])
    if "matches" in condition:
        require_pattern(condition, "matches")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# --- files -----------------------------------------------------------------------------------------------------------


def _check_file(condition: Condition) -> None:
    if not require_text(condition, "file").startswith("/"):
        raise SuiteError(f"key 'file' is {condition['file']!r}; it must be an absolute path")
    if "absent" in condition and require_flag(condition, "absent") and any(key in condition for key in _TEXT_KEYS):
        raise SuiteError("key 'absent' leaves no text to look at; take the other keys out")
    check_text_keys(condition)


def _fault_of_file(condition: Condition, world: World) -> str | None:
    path = resolve(condition["file"])
    files = world.machine.files
    if condition.get("absent", False):
        return f"file {path} is there" if files.exists(path) else None
    if not files.exists(path):
        return f"file {path} is missing"
    text = files.text_of(path)
    if text is None:
        return f"{path} is a directory" if any(key in condition for key in _TEXT_KEYS) else None
    fault = find_text_fault(condition, text)
    return f"file {path} {fault}" if fault else None


# --- the machine -----------------------------------------------------------------------------------------------------


def _check_process(condition: Condition) -> None:
    require_text(condition, "process")
    require_flag(condition, "running")


def _fault_of_process(condition: Condition, world: World) -> str | None:
    name, wanted = condition["process"], condition["running"]
    if bool(world.machine.processes.named(name)) == wanted:
        return None
    return f"process {name} is not running" if wanted else f"process {name} still runs"


def _check_service(condition: Condition) -> None:
    require_text(condition, "service")
    if "restarted" in condition and not require_flag(condition, "restarted"):
        raise SuiteError("key 'restarted' must be true; to forbid it, use 'forbid'")
    if condition.get("state") not in STATES and not ("restarted" in condition and "state" not in condition):
        raise SuiteError(f"key 'state' must be one of {', '.join(STATES)}")


def _fault_of_service(condition: Condition, world: World) -> str | None:
    service = world.machine.services.find(condition["service"])
    state = "not there" if service is None else service.state
    if "restarted" in condition and find_effect("service", {**condition, "contains": "started"}, world) is None:
        return f"service {condition['service']} was not restarted"
    if "state" not in condition:
        return None
    return None if state == condition["state"] else f"service {condition['service']} is {state}"


def _check_disk(condition: Condition) -> None:
    require_text(condition, "disk")
    if "free" not in condition:
        raise SuiteError("key 'free' is missing; it must be a number of bytes or text such as \"5G\"")
    Fields(condition, "", ("disk", "free")).size("free")


def _fault_of_disk(condition: Condition, world: World) -> str | None:
    disk = world.machine.disks.disk_of(resolve(condition["disk"]))
    wanted = Fields(condition, "", ("disk", "free")).size("free")
    free = disk.size - disk.used
    return None if free >= wanted else f"disk {disk.mount} has {free} bytes free, wanted {wanted}"


# --- messages, jobs, notes -------------------------------------------------------------------------------------------


def _check_message(condition: Condition) -> None:
    require_text(condition, "message")
    check_text_keys(condition)


def _fault_of_message(condition: Condition, world: World) -> str | None:
    recipient = plain_name(condition["message"])
    texts = [message.text for message in world.machine.mailbox.sent if plain_name(message.who) == recipient]
    if not texts:
        return f"no message was sent to {condition['message']}"
    faults = [find_text_fault(condition, text) for text in texts]
    return None if None in faults else f"the message to {condition['message']} {faults[-1]}"


def _check_cron(condition: Condition) -> None:
    require_text(condition, "cron")
    if "absent" in condition:
        require_flag(condition, "absent")
    if "schedule" in condition and moments_of(require_text(condition, "schedule")) is None:
        raise SuiteError(f"key 'schedule' is {condition['schedule']!r}; it must be five cron fields")


def _fault_of_cron(condition: Condition, world: World) -> str | None:
    jobs = [job for job in world.machine.schedule.jobs if condition["cron"] in job.command]
    if condition.get("absent", False):
        return f"job {condition['cron']} is scheduled" if jobs else None
    if not jobs:
        return f"no job runs {condition['cron']}"
    wanted = condition.get("schedule")
    if wanted is None or any(moments_of(job.schedule) == moments_of(wanted) for job in jobs):
        return None
    return f"job {condition['cron']} runs at {quoted(jobs[-1].schedule)}, not at {quoted(wanted)}"


def _check_memory(condition: Condition) -> None:
    check_text_keys({"contains": condition["memory"]})


def _fault_of_memory(condition: Condition, world: World) -> str | None:
    wanted = {"contains": condition["memory"]}
    if any(find_text_fault(wanted, note.text) is None for note in world.machine.notes.notes):
        return None
    return f"no note holds {quoted(', '.join(_as_list(condition['memory'])))}"


# --- calls -----------------------------------------------------------------------------------------------------------


def check_called(condition: Condition) -> None:
    names = _as_list(condition["called"])
    if not names or any(name not in TOOL_NAMES for name in names):
        raise SuiteError(f"key 'called' must be one of {', '.join(TOOL_NAMES)}, or a list of them")
    if "with" in condition:
        require_pattern(condition, "with")


def _fault_of_called(condition: Condition, world: World) -> str | None:
    if calls_of(world, condition["called"], condition.get("with")):
        return None
    suffix = f" with {quoted(condition['with'])}" if "with" in condition else ""
    return f"{' or '.join(_as_list(condition['called']))} was not called{suffix}"


def _fault_of_effect(kind: str, condition: Condition, world: World) -> str | None:
    if find_effect(kind, condition, world) is not None:
        return None
    return f"nothing was {kind} that fits {quoted(', '.join(_as_list(condition[kind])))}"


def _check_happened(condition: Condition) -> None:
    inner = condition["happened"]
    if not isinstance(inner, Mapping):
        raise refuse("happened", "an object such as {'service': 'web'}", inner)
    for _, kind, effect in _conditions({"happened": [inner]}, "happened", tuple(EFFECTS)):
        _check_forbidden(kind, effect)


def _fault_of_happened(condition: Condition, world: World) -> str | None:
    inner = condition["happened"]
    kind = next(kind for kind in EFFECTS if kind in inner)
    wanted = " or ".join(_as_list(inner[kind]))
    return None if find_effect(kind, inner, world) else f"it has not happened: {_WORDS.get(kind, kind)} {wanted}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of condition, named by its first key."""

    keys: tuple[str, ...]
    check: Callable[[Condition], None]
    find_fault: Callable[[Condition, World], str | None]


KINDS: Mapping[str, Kind] = {
    "file": Kind(("file", "absent", *_TEXT_KEYS), _check_file, _fault_of_file),
    "process": Kind(("process", "running"), _check_process, _fault_of_process),
    "service": Kind(("service", "state", "restarted"), _check_service, _fault_of_service),
    "disk": Kind(("disk", "free"), _check_disk, _fault_of_disk),
    "message": Kind(("message", *_TEXT_KEYS), _check_message, _fault_of_message),
    "cron": Kind(("cron", "schedule", "absent"), _check_cron, _fault_of_cron),
    "memory": Kind(("memory",), _check_memory, _fault_of_memory),
    "called": Kind(("called", "with"), check_called, _fault_of_called),
    "happened": Kind(("happened",), _check_happened, _fault_of_happened),
} | {
    kind: Kind((kind, "except", "contains"), partial(check_effect, kind), partial(_fault_of_effect, kind))
    for kind in EFFECTS
    if kind != "service"
}


Spec = Mapping[str, Any]


def check_world_state(spec: Spec, check_answer: Callable[[Spec], None]) -> None:
    """Refuse a specification no task can be judged by. `check_answer` checks the validator of the answer."""
    check_conditions(spec)
    if not spec.get("expect") and not spec.get("forbid"):
        raise SuiteError("key 'expect' is empty; give at least one condition in 'expect' or 'forbid'")
    if "answer" not in spec:
        return
    answer = spec["answer"]
    if not isinstance(answer, Mapping):
        raise refuse("answer", "a validator such as {'type': 'max_words', 'value': 50}", answer)
    if answer.get("type") == "world_state":
        raise SuiteError("key 'answer.type' is 'world_state'; the answer is text, so use a validator of text")
    _check_at("answer", partial(check_answer, answer))


def check_conditions(spec: Spec) -> None:
    """Refuse a condition under `expect` or `forbid` that nothing can be held against."""
    for place, kind, condition in _conditions(spec, "expect", tuple(KINDS)):
        _check_at(place, partial(_check_expectation, kind, condition))
    for place, kind, condition in _conditions(spec, "forbid", (*EFFECTS, "called")):
        _check_at(place, partial(_check_forbidden, kind, condition))


def find_faults(spec: Spec, world: World) -> list[str | None]:
    """For each condition under `expect` what keeps it from holding, in words, or None."""
    return [
        KINDS[kind].find_fault(condition, world) for _, kind, condition in _conditions(spec, "expect", tuple(KINDS))
    ]


def find_forbidden(spec: Spec, world: World) -> str | None:
    """The first effect that is under `forbid`, in words, or None."""
    conditions = _conditions(spec, "forbid", (*EFFECTS, "called"))
    return next(filter(None, (find_effect(kind, condition, world) for _, kind, condition in conditions)), None)


def judge_world_state(spec: Spec, answer: Answer, judge_text: Callable[[Spec, Answer], Verdict]) -> Verdict:
    """The verdict on a task. `judge_text` judges the final text by the validator of the answer."""
    native = [call for call in answer.tool_invocations if call.channel == NATIVE]
    parsed: dict[str, Any] = {"tools": tool_calls_of(native)}
    if answer.world is None:
        return failed("no_world", "the prompt has none, so there is nothing to look at", parsed)
    world = _replayed(answer.world, native)
    faults = find_faults(spec, world)
    parsed["state"] = [{"holds": fault is None} | _detail(fault) for fault in faults]
    effect = find_forbidden(spec, world)
    if effect is not None:
        return failed("forbidden_effect", effect, parsed)
    missing = _no_answer_in_time(answer, native)
    if missing is not None:
        return failed(*missing, parsed)
    for fault in faults:
        if fault is not None:
            return failed("state_not_reached", fault, parsed)
    verdict = judge_text(spec["answer"], answer) if "answer" in spec else Verdict(None)
    if verdict.objective_pass is False:
        return failed("answer", verdict.violation or "", parsed)
    return passed(parsed)


def _no_answer_in_time(answer: Answer, native: list[ToolInvocation]) -> tuple[str, str] | None:
    """Why a task did not come to an answer within its calls and turns, as a violation and its detail."""
    if len(native) >= MAX_CALLS:
        return "too_many_calls", str(len(native))
    if answer.max_turns is not None and native and (native[-1].turn or 0) >= answer.max_turns:
        return "turn_budget_spent", f"{answer.max_turns} turns"
    if answer_start(answer.text) is None:
        return "no_text", "the task ended without an answer"
    return None


def _replayed(spec: Mapping[str, Any], calls: list[ToolInvocation]) -> World:
    world = World(spec)
    for call in calls:
        world.call(call.name, call.arguments)
    return world


def _detail(fault: str | None) -> dict[str, str]:
    return {} if fault is None else {"fault": fault[:_MAX_STATE_CHARS]}


def _conditions(spec: Spec, key: str, kinds: tuple[str, ...]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each condition under `key` with its place and its kind: the key among `kinds` that it has."""
    conditions = spec.get(key, [])
    if not isinstance(conditions, list):
        raise refuse(key, "a list of conditions", conditions)
    if len(conditions) > _MAX_CONDITIONS:
        raise SuiteError(f"key '{key}' has {len(conditions)} conditions; at most {_MAX_CONDITIONS}")
    for index, condition in enumerate(conditions):
        place = f"{key}[{index}]"
        if not isinstance(condition, Mapping):
            raise SuiteError(f"key '{place}' must be an object, not {kind_of(condition)}")
        named = [kind for kind in kinds if kind in condition]
        if len(named) != 1:
            raise SuiteError(f"key '{place}' must have exactly one of {', '.join(kinds)}")
        yield place, named[0], condition


def _check_expectation(kind: str, condition: Mapping[str, Any]) -> None:
    refuse_unknown(condition, KINDS[kind].keys)
    KINDS[kind].check(condition)


def _check_forbidden(kind: str, condition: Mapping[str, Any]) -> None:
    # A call is no effect: when it was made is not looked at.
    refuse_unknown(condition, (kind, *_FORBID_KEYS, *(() if kind == "called" else _WHEN_KEYS)))
    check_effect(kind, condition)


def _check_at(place: str, check: Callable[[], None]) -> None:
    """Run a check, with the place of what it checks in front of what it refuses."""
    try:
        check()
    except SuiteError as error:
        raise SuiteError(f"key '{place}': {error}") from None
