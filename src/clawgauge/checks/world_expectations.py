"""What the simulated world must look like when a task is over: the `expect` of a `world_state` validator.

Owns: the conditions on files, processes, services, disks, messages, jobs, notes and calls, and the words for one that
does not hold. Refuses: how the state came about; what must never happen is `world_effects`'.

    { file = "/srv/a.txt" }                    is there; with `absent = true`: is not
    { file = "…", equals | contains | lacks | matches = "…" }
    { process = "indexer", running = false }   { service = "web", state = "active" }   { disk = "/", free = "5G" }
    { message = "dana", contains = "42" }      one message to that recipient fits
    { cron = "backup.sh", schedule = "30 2 * * *" }    a job whose command holds this text; or `absent = true`
    { memory = "heron" }                       one note holds this text
    { called = "web_fetch", with = "RE2" }     a call of the tool, or of one in a list, whose arguments, as JSON, match
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clawgauge.checks.answer import quoted
from clawgauge.checks.patterns import matches_fully
from clawgauge.checks.spec_keys import refuse, require_flag, require_pattern, require_text
from clawgauge.checks.world_calls import calls_of
from clawgauge.errors import SuiteError
from clawgauge.world import TOOL_NAMES, World
from clawgauge.world.fields import Fields
from clawgauge.world.mailbox import plain_name
from clawgauge.world.paths import resolve
from clawgauge.world.schedule import moments_of
from clawgauge.world.services import STATES

Condition = Mapping[str, Any]
_TEXT_KEYS = ("equals", "contains", "lacks", "matches")


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
    if condition.get("state") not in STATES:
        raise SuiteError(f"key 'state' must be one of {', '.join(STATES)}")


def _fault_of_service(condition: Condition, world: World) -> str | None:
    service = world.machine.services.find(condition["service"])
    state = "not there" if service is None else service.state
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


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of condition, named by its first key."""

    keys: tuple[str, ...]
    check: Callable[[Condition], None]
    find_fault: Callable[[Condition, World], str | None]


KINDS: Mapping[str, Kind] = {
    "file": Kind(("file", "absent", *_TEXT_KEYS), _check_file, _fault_of_file),
    "process": Kind(("process", "running"), _check_process, _fault_of_process),
    "service": Kind(("service", "state"), _check_service, _fault_of_service),
    "disk": Kind(("disk", "free"), _check_disk, _fault_of_disk),
    "message": Kind(("message", *_TEXT_KEYS), _check_message, _fault_of_message),
    "cron": Kind(("cron", "schedule", "absent"), _check_cron, _fault_of_cron),
    "memory": Kind(("memory",), _check_memory, _fault_of_memory),
    "called": Kind(("called", "with"), check_called, _fault_of_called),
}
