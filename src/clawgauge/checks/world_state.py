"""The `world_state` validator: what a task must have done, and never, told by making its calls on a new world."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, get_args

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, answer_start, failed, passed, quoted, tool_calls_of
from clawgauge.errors import SuiteError
from clawgauge.world import TOOL_NAMES
from clawgauge.world.effects import Effect, EffectKind
from clawgauge.world.files import resolve
from clawgauge.world.outside import is_heard, plain_name
from clawgauge.world.services import STATES, moments_of
from clawgauge.world.spec import read_moment, read_size
from clawgauge.world.world import MAX_CALLS, World

Condition = Mapping[str, Any]
Spec = Mapping[str, Any]

# What each condition counts, and the word for it in a violation.
_KINDS_OF_EFFECT: list[str] = [kind for kind in get_args(EffectKind) if kind != "heard"]
EFFECTS = {kind: (kind,) for kind in _KINDS_OF_EFFECT} | {"changed": ("created", "changed", "deleted")}
_WORDS = {"killed": "killed process", "service": "changed service", "sent": "sent a message to", "sudo": "ran as root:"}
_TEXT_KEYS: dict[str, shape.Shape] = {"equals": shape.any_text}
_TEXT_KEYS |= {**dict.fromkeys(("contains", "lacks"), shape.text_or_texts), "matches": shape.re2_pattern}
_MAX_CONDITIONS, _MAX_STATE = 64, 200


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def find_effect(kind: str, condition: Condition, world: World) -> str | None:
    """The first effect, or call, that a condition means, in words, or None."""
    if kind == "called":
        for arguments in (arguments for name, arguments in world.calls if name in _as_list(condition["called"])):
            # The pattern is looked for in the arguments as JSON.
            written = well_formed(json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str))
            if arguments is not None and shape.compile_pattern(condition.get("with", "")).search(written):
                return f"called {_called(condition)}"
        return None
    for effect in world.machine.effects:
        if effect.kind == "heard" and is_heard(condition.get("until", ""), effect.subject, effect.detail):
            return None
        if effect.kind in EFFECTS[kind] and _is_meant(condition, kind, effect):
            shows_detail = effect.detail and effect.kind in ("sent", "deleted", "service")
            detail = f" ({quoted(effect.detail)})" if shows_detail else ""
            return f"{_WORDS.get(effect.kind, effect.kind)} {effect.subject}{detail}"
    return None


def _called(condition: Condition) -> str:
    suffix = f" with {quoted(condition['with'])}" if "with" in condition else ""
    return " or ".join(_as_list(condition["called"])) + suffix


def _is_meant(condition: Condition, kind: str, effect: Effect) -> bool:
    if not _fits(condition[kind], effect.subject) or _fits(condition.get("except", []), effect.subject):
        return False
    if condition.get("contains", "").casefold() not in f"{effect.subject}\n{effect.detail}".casefold():
        return False
    # `before` one moment, `after` another, or always where it names neither.
    too_early = "before" in condition and effect.at_s < read_moment(condition["before"], "before")
    too_late = "after" in condition and effect.at_s > read_moment(condition["after"], "after")
    return too_early or too_late or not ("before" in condition or "after" in condition)


def _fits(patterns: str | list[str], subject: str) -> bool:
    # A person may be written with or without the mark of an address, in the world as in the condition.
    return any(fnmatchcase(subject.lstrip("@#"), glob.lstrip("@#")) for glob in _as_list(patterns))


def find_text_fault(condition: Condition, text: str) -> str | None:
    """What is wrong with a text, to follow on its name, or None. Case counts in `equals` and in patterns alone."""
    folded = text.casefold()
    if "equals" in condition and text.strip() != condition["equals"].strip():
        return f"is {quoted(text)}, not {quoted(condition['equals'])}"
    for key, words in (("contains", "lacks"), ("lacks", "holds")):
        for text_of in _as_list(condition.get(key, [])):
            pattern = shape.pattern_in(text_of)
            held = text_of.casefold() in folded if pattern is None else shape.compile_pattern(pattern).search(text)
            if bool(held) == (key == "lacks"):
                return f"{words} {quoted(text_of)}"
    if "matches" in condition and not shape.matches_fully(condition["matches"], text.strip()):
        return f"does not match {quoted(condition['matches'])}"
    return None


def _is_restarted(service: str, since: str | None, world: World) -> bool:
    """Whether it was started, and, where a file is named, once more after the last change of that."""
    log = world.machine.effects
    starts = [one.kind == "service" and _fits(service, one.subject) and "started" in one.detail for one in log]
    changes = [one.subject == since and one.kind in EFFECTS["changed"] for one in log]
    return any(starts) and not any(changes[len(starts) - starts[::-1].index(True) :])


def find_fault(condition: Condition, world: World) -> str | None:
    machine, absent = world.machine, condition.get("absent", False)
    kind = next(kind for kind in KINDS if kind in condition)
    subject = condition[kind]
    match kind:
        case "file":
            path = resolve(subject)
            if machine.files.exists(path) == absent:
                return f"file {path} is {'there' if absent else 'missing'}"
            text = None if absent else machine.files.text_of(path)
            if text is None:
                return f"{path} is a directory" if any(key in condition for key in _TEXT_KEYS) else None
            fault = find_text_fault(condition, text)
            return f"file {path} {fault}" if fault else None
        case "process":
            if bool(machine.processes.named(subject)) != condition["running"]:
                return f"process {subject} {'is not running' if condition['running'] else 'still runs'}"
        case "service":
            service = machine.services.find(subject)
            state = "not there" if service is None else service.state
            if "restarted" in condition and not _is_restarted(subject, condition.get("since"), world):
                return f"service {subject} was not restarted{' after the last change' if 'since' in condition else ''}"
            return f"service {subject} is {state}" if condition.get("state", state) != state else None
        case "disk":
            disk, least = machine.disks.disk_of(resolve(subject)), read_size(condition["free"], "free")
            free = disk.size - disk.used
            return None if free >= least else f"disk {disk.mount} has {free} bytes free, wanted {least}"
        case "message":
            texts = [message.text for message in machine.mailbox.sent if plain_name(message.who) == plain_name(subject)]
            faults = [find_text_fault(condition, text) for text in texts]
            if None not in faults:
                return f"the message to {subject} {faults[-1]}" if texts else f"no message was sent to {subject}"
            if condition.get("times", len(texts)) != len(texts):
                return f"{len(texts)} messages were sent to {subject}, not {condition['times']}"
        case "cron":
            jobs = [job for job in machine.schedule.jobs if subject in job.command]
            if bool(jobs) == absent:
                return f"job {subject} is scheduled" if jobs else f"no job runs {subject}"
            at = condition.get("schedule")
            other = [job.schedule for job in jobs if at is not None and moments_of(job.schedule) != moments_of(at)]
            return f"job {subject} runs at {quoted(other[-1])}, not at {quoted(str(at))}" if other else None
        case "memory":
            notes = machine.notes.notes.values()
            if all(find_text_fault({"contains": subject}, note) is not None for note in notes):
                return f"no note holds {quoted(', '.join(_as_list(subject)))}"
        case "called":
            return None if find_effect(kind, condition, world) else f"{_called(condition)} was not called"
        case _:
            wanted = condition.get("happened", condition)
            kind = next(kind for kind in EFFECTS if kind in wanted)
            if find_effect(kind, wanted, world) is None:
                return f"it has not happened: {_WORDS.get(kind, kind)} {' or '.join(_as_list(wanted[kind]))}"
    return None


def _schedule(value: Any, place: str) -> None:
    if not isinstance(value, str) or moments_of(value) is None:
        raise shape.refuse(place, "five cron fields", value)


def _tools(value: Any, place: str) -> None:
    if not value or not all(name in TOOL_NAMES for name in _as_list(value)):
        raise shape.refuse(place, f"one of {', '.join(TOOL_NAMES)}, or a list of them", value)


def _size(value: Any, place: str) -> None:
    shape.check(shape.anything, value, place)
    read_size(value, place)


def _condition(shapes: Mapping[str, shape.Shape]) -> shape.Shape:

    def check(value: Any, place: str) -> None:
        shape.check(shape.an_object, value, place)
        kinds = [kind for kind in shapes if kind in value]
        if len(kinds) != 1:
            raise SuiteError(f"key '{place}' must have exactly one of {', '.join(shapes)}")
        shape.check(shapes[kinds[0]], value, place)

    return check


_EFFECT_KEYS: dict[str, shape.Shape] = {
    "except": shape.text_or_texts,
    **dict.fromkeys(("contains", "until"), shape.some_text),
    **dict.fromkeys(("before", "after"), read_moment),
}
_EFFECT_SHAPES = {kind: shape.Fields({kind: shape.text_or_texts}, _EFFECT_KEYS) for kind in EFFECTS}
_CALLED = shape.Fields({"called": _tools}, {"with": shape.re2_pattern})
_NO_TEXT = ("absent", "leaves no text to look at; take the other keys out")
_NO_STATE = ("state", "is missing; give it, or restarted = true")
# Each kind of condition under its first key, as it is written.
KINDS: Mapping[str, shape.Shape] = {
    "file": shape.Fields(
        {"file": shape.Value("an absolute path", (str,), pattern=r"\A/")},
        {"absent": shape.true_or_false, **_TEXT_KEYS},
        also=lambda given: _NO_TEXT if given.get("absent") and any(key in given for key in _TEXT_KEYS) else None,
    ),
    "process": shape.Fields({"process": shape.some_text, "running": shape.true_or_false}),
    "service": shape.Fields(
        {"service": shape.some_text},
        {"state": shape.choice(*STATES), "restarted": shape.true_or_false, "since": shape.some_text},
        also=lambda given: None if given.get("restarted", "state" in given) else _NO_STATE,
    ),
    "disk": shape.Fields({"disk": shape.some_text, "free": _size}),
    "message": shape.Fields({"message": shape.some_text}, {**_TEXT_KEYS, "times": shape.whole_number(1)}),
    "cron": shape.Fields({"cron": shape.some_text}, {"schedule": _schedule, "absent": shape.true_or_false}),
    "memory": shape.Fields({"memory": shape.text_or_texts}),
    "called": _CALLED,
    "happened": shape.Fields({"happened": _condition(_EFFECT_SHAPES)}),
} | {kind: checked for kind, checked in _EFFECT_SHAPES.items() if kind != "service"}
CONDITIONS: dict[str, shape.Shape] = {
    key: shape.ListOf(_condition(shapes), "conditions", least=0, most=_MAX_CONDITIONS)
    for key, shapes in (("expect", KINDS), ("forbid", _EFFECT_SHAPES | {"called": _CALLED}))
}
_EMPTY = ("expect", "is empty; give at least one condition in 'expect' or 'forbid'")
WORLD_STATE = shape.Fields(
    {}, CONDITIONS | {"answer": shape.anything}, closed=False,
    also=lambda spec: find_conflict(spec) if spec.get("expect") or spec.get("forbid") else _EMPTY,
)  # fmt: skip


def find_conflict(spec: Spec) -> tuple[str, str] | None:
    """An effect that is expected and, whenever and of whatever it is, forbidden: the place, and the reason."""
    forbidden = spec.get("forbid", [])
    banned = [(kind, one) for one in forbidden for kind in EFFECTS if {kind} <= one.keys() <= {kind, "except"}]
    for index, condition in enumerate(spec.get("expect", [])):
        for kind in (kind for kind in EFFECTS if kind in condition and condition.get("restarted", kind != "service")):
            effects = [Effect(kind, subject) for subject in _as_list(condition[kind])]  # type: ignore[arg-type]
            if all(any(kind in EFFECTS[k] and _is_meant(one, k, effect) for k, one in banned) for effect in effects):
                return f"expect[{index}]", f"wants what 'forbid' rules out: {kind} {effects[0].subject}"
    return None


def find_impossible(spec: Spec, world: Spec) -> tuple[str, str] | None:
    """What is expected of a service, or said to somebody, that the world has not: the place, and the reason."""
    machine = World(world).machine
    for index, condition in enumerate(spec.get("expect", [])):
        if "service" in condition and machine.services.find(condition["service"]) is None:
            return f"expect[{index}].service", f"is '{condition['service']}', which is not among the world's 'services'"
        if "message" in condition and plain_name(condition["message"]) not in ("user", *machine.mailbox.contacts):
            return f"expect[{index}].message", f"is '{condition['message']}', who is not among the world's 'contacts'"
    return None


def find_faults(spec: Spec, world: World) -> list[str | None]:
    return [find_fault(condition, world) for condition in spec.get("expect", [])]


def find_forbidden(spec: Spec, world: World) -> str | None:
    named = ((next(kind for kind in (*EFFECTS, "called") if kind in one), one) for one in spec.get("forbid", []))
    return next(filter(None, (find_effect(kind, condition, world) for kind, condition in named)), None)


def judge_world_state(spec: Spec, answer: Answer) -> Verdict:
    native, parsed = answer.native_calls, dict[str, Any](tools=tool_calls_of(answer.native_calls))
    if answer.world is None:
        return failed("no_world", "the prompt has none, so there is nothing to look at", parsed)
    world = World(answer.world)
    for call in native:
        world.call(call.name, call.arguments)
    faults = find_faults(spec, world)
    parsed["state"] = [{"holds": not fault} | ({"fault": fault[:_MAX_STATE]} if fault else {}) for fault in faults]
    if (effect := find_forbidden(spec, world)) is not None:
        return failed("forbidden_effect", effect, parsed)
    if len(native) >= MAX_CALLS:
        return failed("too_many_calls", str(len(native)), parsed)
    if answer.max_turns is not None and native and (native[-1].turn or 0) >= answer.max_turns:
        return failed("turn_budget_spent", f"{answer.max_turns} turns", parsed)
    if answer_start(answer.text) is None:
        return failed("no_text", "the task ended without an answer", parsed)
    fault = next(filter(None, faults), None)
    return passed(parsed) if fault is None else failed("state_not_reached", fault, parsed)
