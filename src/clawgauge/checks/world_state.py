"""The `world_state` validator: what a task must have done, and what never.

It is judged by making the recorded calls on a new world and looking at that. Its conditions are
those of the `effect` validator, too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, TypeAlias, get_args

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import (
    Answer,
    Verdict,
    answer_start,
    failed,
    parsed_tools,
    passed,
    quoted,
)
from clawgauge.checks.text import PartValidator, judge_text_beside
from clawgauge.checks.text_rules import (
    compile_pattern,
    matches_fully,
    pattern_in,
    re2_pattern,
    text_or_texts,
)
from clawgauge.checks.validators import Validator, part_validator
from clawgauge.errors import SuiteError
from clawgauge.world import TOOL_NAMES
from clawgauge.world.effects import Effect, EffectKind
from clawgauge.world.paths import resolve
from clawgauge.world.people import USER, is_heard, plain_name
from clawgauge.world.schedule import moments_of
from clawgauge.world.services import STATES
from clawgauge.world.spec import read_moment, read_size
from clawgauge.world.world import MAX_CALLS, World

# A condition as it is written.
WrittenCondition: TypeAlias = Mapping[str, Any]

_MAX_CONDITIONS = 64
_MAX_FAULT_CHARS = 200


def _effects_by_key() -> dict[str, tuple[str, ...]]:
    effects = {kind: (kind,) for kind in get_args(EffectKind) if kind != "heard"}
    return {**effects, "changed": ("created", "changed", "deleted")}


# Each key of a condition on what has happened, and the effects it means.
EFFECTS = _effects_by_key()
# How a violation says these; others read well as they are.
_EFFECT_PHRASES = {
    "killed": "killed process",
    "service": "changed service",
    "sent": "sent a message to",
    "sudo": "ran as root:",
}


def _as_list(value: Any) -> list[Any]:
    """The values of a key that takes one or a list of them; none where it is left out."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _fits(patterns: Iterable[str], subject: str) -> bool:
    # A person may be written with or without the mark of an address, in the world as in the
    # condition.
    bare = subject.lstrip("@#")
    return any(fnmatchcase(bare, pattern.lstrip("@#")) for pattern in patterns)


# Shapes of single values.


def _schedule(value: Any, place: str) -> None:
    if not isinstance(value, str) or moments_of(value) is None:
        raise shape.refuse(place, "five cron fields", value)


def _tool_names(value: Any, place: str) -> None:
    if not value or not all(name in TOOL_NAMES for name in _as_list(value)):
        raise shape.refuse(place, f"one of {', '.join(TOOL_NAMES)}, or a list of them", value)


def _size(value: Any, place: str) -> None:
    shape.check(shape.anything, value, place)
    read_size(value, place)


_absolute_path = shape.Value("an absolute path", (str,), pattern=r"\A/")


class Condition(shape.Spec, frozen=True):
    """Something that must be so when the task is done."""

    def find_fault(self, world: World) -> str | None:
        """What is not as the condition has it, in words, or None."""
        raise NotImplementedError


class _TextCondition(Condition, frozen=True):
    """Conditions on a text. Case counts in `equals` and in patterns alone."""

    equals: Annotated[str | None, shape.any_text] = None
    contains: Annotated[str | list[str] | None, text_or_texts] = None
    lacks: Annotated[str | list[str] | None, text_or_texts] = None
    matches: Annotated[str | None, re2_pattern] = None

    @property
    def looks_at_text(self) -> bool:
        """Whether any of them is given."""
        keys = (self.equals, self.contains, self.lacks, self.matches)
        return any(key is not None for key in keys)

    def find_text_fault(self, text: str) -> str | None:
        """What is wrong with a text, to follow on its name, or None."""
        if self.equals is not None and text.strip() != self.equals.strip():
            return f"is {quoted(text)}, not {quoted(self.equals)}"
        for wanted in _as_list(self.contains):
            if not holds_text(text, wanted):
                return f"lacks {quoted(wanted)}"
        for unwanted in _as_list(self.lacks):
            if holds_text(text, unwanted):
                return f"holds {quoted(unwanted)}"
        if self.matches is not None and not matches_fully(self.matches, text.strip()):
            return f"does not match {quoted(self.matches)}"
        return None


def holds_text(text: str, wanted: str) -> bool:
    """Whether a text holds another, in any case, or a match of a pattern."""
    pattern = pattern_in(wanted)
    if pattern is None:
        return wanted.casefold() in text.casefold()
    return compile_pattern(pattern).search(text) is not None


class FileCondition(_TextCondition, kw_only=True, frozen=True):
    """A file is there, with a certain text, or it is not there."""

    file: Annotated[str, _absolute_path]
    absent: Annotated[bool, shape.true_or_false] = False

    def find_contradiction(self) -> shape.KeyFault | None:
        if self.absent and self.looks_at_text:
            return ("absent", "leaves no text to look at; take the other keys out")
        return None

    def find_fault(self, world: World) -> str | None:
        files = world.machine.files
        path = resolve(self.file)
        if files.exists(path) == self.absent:
            return f"file {path} is {'there' if self.absent else 'missing'}"
        if self.absent:
            return None
        text = files.text_of(path)
        if text is None:
            return f"{path} is a directory" if self.looks_at_text else None
        fault = self.find_text_fault(text)
        return f"file {path} {fault}" if fault else None


class ProcessCondition(Condition, frozen=True):
    """A process runs, or it does not."""

    process: Annotated[str, shape.some_text]
    running: Annotated[bool, shape.true_or_false]

    def find_fault(self, world: World) -> str | None:
        is_running = bool(world.machine.processes.named(self.process))
        if is_running == self.running:
            return None
        return f"process {self.process} {'is not running' if self.running else 'still runs'}"


class ServiceCondition(Condition, frozen=True):
    """A service is in a state, or was restarted, perhaps after the last change of a file."""

    service: Annotated[str, shape.some_text]
    state: Annotated[str | None, shape.choice(*STATES)] = None
    restarted: Annotated[bool | None, shape.true_or_false] = None
    since: Annotated[str | None, shape.some_text] = None

    def find_contradiction(self) -> shape.KeyFault | None:
        if self.restarted or (self.restarted is None and self.state is not None):
            return None
        return ("state", "is missing; give it, or restarted = true")

    def find_fault(self, world: World) -> str | None:
        service = world.machine.services.find(self.service)
        state = "not there" if service is None else service.state
        if self.restarted is not None and not self._is_restarted(world):
            suffix = "" if self.since is None else " after the last change"
            return f"service {self.service} was not restarted{suffix}"
        if self.state is not None and self.state != state:
            return f"service {self.service} is {state}"
        return None

    def _is_restarted(self, world: World) -> bool:
        """Whether it was started, and no later change was made to the file that `since` names."""
        is_started = False
        is_changed_since = False
        for effect in world.machine.effects:
            is_of_service = effect.kind == "service" and _fits([self.service], effect.subject)
            if is_of_service and "started" in effect.detail:
                is_started = True
                is_changed_since = False
            elif effect.subject == self.since and effect.kind in EFFECTS["changed"]:
                is_changed_since = True
        return is_started and not is_changed_since


class DiskCondition(Condition, frozen=True):
    """A disk has so much room."""

    disk: Annotated[str, shape.some_text]
    free: Annotated[Any, _size]

    def find_fault(self, world: World) -> str | None:
        disk = world.machine.disks.disk_of(resolve(self.disk))
        wanted = read_size(self.free, "free")
        free = disk.size - disk.used
        if free >= wanted:
            return None
        return f"disk {disk.mount} has {free} bytes free, wanted {wanted}"


class MessageCondition(_TextCondition, kw_only=True, frozen=True):
    """A message with a certain text was sent to somebody, perhaps so many times."""

    message: Annotated[str, shape.some_text]
    times: Annotated[int | None, shape.whole_number(1)] = None

    def find_fault(self, world: World) -> str | None:
        texts = []
        for message in world.machine.mailbox.sent:
            if plain_name(message.person) == plain_name(self.message):
                texts.append(message.text)
        if not texts:
            return f"no message was sent to {self.message}"
        faults = [self.find_text_fault(text) for text in texts]
        if None not in faults:
            return f"the message to {self.message} {faults[-1]}"
        if self.times is not None and self.times != len(texts):
            return f"{len(texts)} messages were sent to {self.message}, not {self.times}"
        return None


class CronCondition(Condition, frozen=True):
    """A command is scheduled, perhaps at certain times, or it is not."""

    cron: Annotated[str, shape.some_text]
    schedule: Annotated[str | None, _schedule] = None
    absent: Annotated[bool, shape.true_or_false] = False

    def find_fault(self, world: World) -> str | None:
        jobs = [job for job in world.machine.schedule.jobs if self.cron in job.command]
        if self.absent and jobs:
            return f"job {self.cron} is scheduled"
        if not self.absent and not jobs:
            return f"no job runs {self.cron}"
        if self.schedule is None:
            return None
        wanted = moments_of(self.schedule)
        others = [job.schedule for job in jobs if moments_of(job.schedule) != wanted]
        if not others:
            return None
        return f"job {self.cron} runs at {quoted(others[-1])}, not at {quoted(self.schedule)}"


class MemoryCondition(Condition, frozen=True):
    """A note holds all of these texts."""

    memory: Annotated[str | list[str], text_or_texts]

    def find_fault(self, world: World) -> str | None:
        texts = _as_list(self.memory)
        for note in world.machine.notes.notes.values():
            if all(holds_text(note, text) for text in texts):
                return None
        return f"no note holds {quoted(', '.join(texts))}"


class CalledCondition(Condition, frozen=True):
    """A tool was called, perhaps with arguments that hold a match of a pattern, as JSON."""

    called: Annotated[str | list[str], _tool_names]
    pattern: Annotated[str | None, re2_pattern] = msgspec.field(default=None, name="with")

    @property
    def words(self) -> str:
        suffix = "" if self.pattern is None else f" with {quoted(self.pattern)}"
        return " or ".join(_as_list(self.called)) + suffix

    def find_event(self, world: World) -> str | None:
        for name, arguments in world.calls:
            if name not in _as_list(self.called) or arguments is None:
                continue
            written = json.dumps(arguments, ensure_ascii=False, sort_keys=True, default=str)
            if compile_pattern(self.pattern or "").search(well_formed(written)):
                return f"called {self.words}"
        return None

    def find_fault(self, world: World) -> str | None:
        if self.find_event(world) is None:
            return f"{self.words} was not called"
        return None


class EffectCondition(Condition, frozen=True):
    """Something has happened in the world: an effect of one kind, on certain subjects.

    It is written under its kind, as `{"deleted": "/var/log/*"}`; see `read_effect_condition`.
    """

    kind: str
    subjects: list[str]
    exceptions: list[str] = []
    contains: str = ""
    until: str = ""
    before: Any = None
    after: Any = None

    @property
    def is_of_all_times(self) -> bool:
        """Whether it means its subjects whenever and however they are affected."""
        has_moment = bool(self.until) or self.before is not None or self.after is not None
        return not has_moment and not self.contains

    def find_event(self, world: World) -> str | None:
        """The first effect that is meant, in words, or None."""
        for effect in world.machine.effects:
            if effect.kind == "heard" and is_heard(self.until, effect.subject, effect.detail):
                return None
            if self.means(effect):
                phrase = _EFFECT_PHRASES.get(effect.kind, effect.kind)
                has_detail = effect.detail and effect.kind in ("sent", "deleted", "service")
                detail = f" ({quoted(effect.detail)})" if has_detail else ""
                return f"{phrase} {effect.subject}{detail}"
        return None

    def means(self, effect: Effect) -> bool:
        if effect.kind not in EFFECTS[self.kind]:
            return False
        if not _fits(self.subjects, effect.subject) or _fits(self.exceptions, effect.subject):
            return False
        text = f"{effect.subject}\n{effect.detail}"
        if self.contains.casefold() not in text.casefold():
            return False
        if self.before is None and self.after is None:
            return True
        # Before one moment, after another: each is meant.
        if self.before is not None and effect.at_s < read_moment(self.before, "before"):
            return True
        return self.after is not None and effect.at_s > read_moment(self.after, "after")

    def find_fault(self, world: World) -> str | None:
        if self.find_event(world) is not None:
            return None
        phrase = _EFFECT_PHRASES.get(self.kind, self.kind)
        return f"it has not happened: {phrase} {' or '.join(self.subjects)}"


class HappenedCondition(Condition, frozen=True):
    """An effect, also one whose kind is the key of another condition: a change of a service."""

    happened: dict[str, Any]

    def find_fault(self, world: World) -> str | None:
        return read_effect_condition(self.happened).find_fault(world)


def read_effect_condition(written: WrittenCondition) -> EffectCondition:
    kind = _kind_of(written, EFFECTS)
    return EffectCondition(
        kind=kind,
        subjects=_as_list(written[kind]),
        exceptions=_as_list(written.get("except")),
        contains=written.get("contains", ""),
        until=written.get("until", ""),
        before=written.get("before"),
        after=written.get("after"),
    )


def _kind_of(written: WrittenCondition, kinds: Iterable[str]) -> str:
    """The key that says what kind of condition it is; `check_spec` knows that there is one."""
    return next(kind for kind in kinds if kind in written)


# What an author may write.


def _one_of_kinds(shapes: Mapping[str, shape.Shape]) -> shape.Shape:
    """A shape: an object with exactly one of these keys, and then of the shape for that."""

    def check(value: Any, place: str) -> None:
        shape.check(shape.an_object, value, place)
        kinds = [kind for kind in shapes if kind in value]
        if len(kinds) != 1:
            raise SuiteError(f"key '{place}' must have exactly one of {', '.join(shapes)}")
        shape.check(shapes[kinds[0]], value, place)

    return check


_EFFECT_KEYS: dict[str, shape.Shape] = {
    "except": text_or_texts,
    "contains": shape.some_text,
    "until": shape.some_text,
    "before": read_moment,
    "after": read_moment,
}
_EFFECT_SHAPES = {kind: shape.Fields({kind: text_or_texts}, _EFFECT_KEYS) for kind in EFFECTS}
_CONDITION_TYPES: Mapping[str, type[Condition]] = {
    "file": FileCondition,
    "process": ProcessCondition,
    "service": ServiceCondition,
    "disk": DiskCondition,
    "message": MessageCondition,
    "cron": CronCondition,
    "memory": MemoryCondition,
    "called": CalledCondition,
    "happened": HappenedCondition,
}


def _condition_shapes() -> dict[str, shape.Shape]:
    """A shape for each kind of condition, which is the key it is written under."""
    shapes: dict[str, shape.Shape] = {}
    for kind, condition_type in _CONDITION_TYPES.items():
        if condition_type is HappenedCondition:
            shapes[kind] = shape.Fields({kind: _one_of_kinds(_EFFECT_SHAPES)})
        else:
            shapes[kind] = shape.fields_of(condition_type)
    for kind, effect_shape in _EFFECT_SHAPES.items():
        if kind not in shapes:
            shapes[kind] = effect_shape
    return shapes


KINDS: Mapping[str, shape.Shape] = _condition_shapes()
_FORBIDDEN_KINDS: dict[str, shape.Shape] = {**_EFFECT_SHAPES, "called": KINDS["called"]}
expect_shape = shape.ListOf(_one_of_kinds(KINDS), "conditions", least=0, most=_MAX_CONDITIONS)
forbid_shape = shape.ListOf(
    _one_of_kinds(_FORBIDDEN_KINDS), "conditions", least=0, most=_MAX_CONDITIONS
)


def read_condition(written: WrittenCondition) -> Condition:
    """A condition of `expect`, which has been checked."""
    kind = _kind_of(written, KINDS)
    if kind not in _CONDITION_TYPES:
        return read_effect_condition(written)
    return msgspec.convert(written, _CONDITION_TYPES[kind])


def read_forbidden(written: WrittenCondition) -> EffectCondition | CalledCondition:
    """A condition of `forbid`, which has been checked."""
    if "called" in written:
        return msgspec.convert(written, CalledCondition)
    return read_effect_condition(written)


def find_faults(expect: Sequence[WrittenCondition], world: World) -> list[str | None]:
    """For each condition what is not as it should be, or None."""
    return [read_condition(written).find_fault(world) for written in expect]


def find_forbidden(forbid: Sequence[WrittenCondition], world: World) -> str | None:
    """The first event that is forbidden, in words, or None."""
    for written in forbid:
        event = read_forbidden(written).find_event(world)
        if event is not None:
            return event
    return None


def find_conflict(
    expect: Sequence[WrittenCondition], forbid: Sequence[WrittenCondition]
) -> shape.KeyFault | None:
    """An effect that is expected and, whenever and of whatever it is, forbidden."""
    banned = []
    for written in forbid:
        condition = read_forbidden(written)
        if isinstance(condition, EffectCondition) and condition.is_of_all_times:
            banned.append(condition)
    for index, written in enumerate(expect):
        effects = _effects_expected(written)
        if effects and all(_is_banned(effect, banned) for effect in effects):
            wanted = f"{effects[0].kind} {effects[0].subject}"
            return (f"expect[{index}]", f"wants what 'forbid' rules out: {wanted}")
    return None


def _is_banned(effect: Effect, banned: Collection[EffectCondition]) -> bool:
    return any(condition.means(effect) for condition in banned)


def _effects_expected(written: WrittenCondition) -> list[Effect]:
    """The effects any of which a condition waits for; none where it is of a state."""
    for kind in EFFECTS:
        if kind not in written:
            continue
        # A service may be in its state without any effect, unless it is to be restarted.
        if kind == "service" and not written.get("restarted", False):
            continue
        subjects = _as_list(written[kind])
        return [Effect(kind, subject) for subject in subjects]  # type: ignore[arg-type]
    return []


def find_impossible(
    expect: Sequence[WrittenCondition], world: Mapping[str, Any]
) -> shape.KeyFault | None:
    """What is expected of a service, or said to somebody, that the world has not."""
    machine = World(world).machine
    for index, written in enumerate(expect):
        service = written.get("service")
        if service is not None and machine.services.find(service) is None:
            reason = f"is '{service}', which is not among the world's 'services'"
            return (f"expect[{index}].service", reason)
        contact = written.get("message")
        if contact is not None and plain_name(contact) not in (USER, *machine.mailbox.contacts):
            reason = f"is '{contact}', who is not among the world's 'contacts'"
            return (f"expect[{index}].message", reason)
    return None


class WorldState(Validator, tag="world_state", frozen=True):
    """What must be so when a task is done, and what must never have happened."""

    takes_notes: ClassVar[bool] = True
    is_part: ClassVar[bool] = False
    expect: Annotated[list[dict[str, Any]], expect_shape] = []
    forbid: Annotated[list[dict[str, Any]], forbid_shape] = []
    answer: Annotated[PartValidator | None, part_validator] = None

    def find_contradiction(self) -> shape.KeyFault | None:
        if not self.expect and not self.forbid:
            reason = "is empty; give at least one condition in 'expect' or 'forbid'"
            return ("expect", reason)
        return find_conflict(self.expect, self.forbid)

    def judge(self, answer: Answer) -> Verdict:
        return judge_text_beside(self._judge_calls(answer), self.answer, answer)

    def _judge_calls(self, answer: Answer) -> Verdict:
        calls = answer.native_calls
        parsed = parsed_tools(calls)
        if answer.world is None:
            detail = "the prompt has none, so there is nothing to look at"
            return failed("no_world", detail, parsed)
        world = World(answer.world)
        for call in calls:
            world.call(call.name, call.arguments)
        faults = find_faults(self.expect, world)
        parsed["state"] = [_state_of(fault) for fault in faults]
        event = find_forbidden(self.forbid, world)
        if event is not None:
            return failed("forbidden_effect", event, parsed)
        if len(calls) >= MAX_CALLS:
            return failed("too_many_calls", str(len(calls)), parsed)
        last_turn = (calls[-1].turn or 0) if calls else 0
        if answer.max_turns is not None and calls and last_turn >= answer.max_turns:
            return failed("turn_budget_spent", f"{answer.max_turns} turns", parsed)
        if answer_start(answer.text) is None:
            return failed("no_text", "the task ended without an answer", parsed)
        for fault in faults:
            if fault is not None:
                return failed("state_not_reached", fault, parsed)
        return passed(parsed)


def _state_of(fault: str | None) -> dict[str, Any]:
    """How one condition stands, as a record keeps it."""
    if fault is None:
        return {"holds": True}
    return {"holds": False, "fault": fault[:_MAX_FAULT_CHARS]}
