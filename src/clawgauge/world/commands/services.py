"""Commands on services and their logs: systemctl, service, journalctl."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from clawgauge.world.commands.call import TABLE, Call, NotSimulated, command
from clawgauge.world.commands.dates import format_moment, read_moment
from clawgauge.world.commands.layout import table
from clawgauge.world.effects import Refusal
from clawgauge.world.services import Service


class _StateWords(NamedTuple):
    """How systemd shows a state: in a list, in a status, and in what `show` prints."""

    sub_state: str
    mark: str
    status_text: str
    exit_status: int
    result: str


_STATES = {state: _StateWords(*words) for state, words in TABLE["systemctl"]["states"].items()}
_LISTS = ("list-units", "list-unit-files", "list-timers")
_CHANGES = (
    "start",
    "stop",
    "restart",
    "reload",
    "try-restart",
    "reload-or-restart",
    "kill",
    "enable",
    "disable",
)
_QUESTIONS = ("status", "is-active", "is-failed", "is-enabled", "show", "cat")
_SERVICE_ACTIONS = ("start", "stop", "restart", "reload", "status")
_STATUS_LINES = 10
_NO_PID = 611  # which a line of a log has whose service does not run
_SINCE_FORM = "%a %F %T UTC"
_DAY_S = 86_400


@command("systemctl")
def systemctl(call: Call) -> int:
    action, *names = call.options.operands or ["list-units"]
    if action in _LISTS:
        return _list_units(call, action, names)
    if action == "daemon-reload":
        return 0
    if action not in (*_CHANGES, *_QUESTIONS):
        raise NotSimulated(f"'{action[:40]}' is not supported here")
    if not names:
        raise Refusal("Too few arguments.")
    return max([_control(call, action, name) for name in names])


def _list_units(call: Call, action: str, patterns: list[str]) -> int:
    options = call.options
    lists_files = action == "list-unit-files"
    if options.has("p", "o"):
        raise NotSimulated("options '-p' and '-o' go with 'show' and 'status' only here")
    titles = ["  UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"]
    if lists_files:
        titles = ["UNIT FILE", "STATE", "PRESET"]
    rows = [titles]
    states = {"failed"} if options.has("failed") else set(options.members("state"))
    shows_inactive = options.has("a") or bool(states)
    lists_services = "service" in options.value("t", "service").split(",")
    if lists_services and action != "list-timers":
        for service in _listed_services(call, states, patterns):
            if lists_files:
                rows.append([service.unit, service.enabling, "enabled"])
            elif shows_inactive or service.state != "inactive":
                rows.append(_unit_row(service))
    if options.has("q", "no-legend"):
        return call.print(table(rows[1:], range(5)))
    noun = "unit files" if lists_files else "loaded units"
    return call.print(f"{table(rows, range(5))}\n{len(rows) - 1} {noun} listed.\n")


def _listed_services(call: Call, states: set[str], patterns: list[str]) -> Iterator[Service]:
    """The services in one of these states, if any are given, and of one of these names."""
    for service in call.machine.services:
        sub_state = _STATES[service.state].sub_state
        if states and states.isdisjoint((service.state, sub_state, service.enabling)):
            continue
        if any(fnmatchcase(service.unit, pattern) for pattern in patterns or ["*"]):
            yield service


def _unit_row(service: Service) -> list[str]:
    mark = "●" if service.state == "failed" else " "
    sub_state = _STATES[service.state].sub_state
    return [f"{mark} {service.unit}", "loaded", service.state, sub_state, service.description]


@command("service", raw=True)
def service(call: Call) -> int:
    if len(call.args) != 2 or call.args[1] not in _SERVICE_ACTIONS:
        actions = "|".join(_SERVICE_ACTIONS)
        raise NotSimulated(f"only 'service NAME {actions}' is supported here")
    name, action = call.args
    return _control(call, action, name)


def _control(call: Call, action: str, name: str) -> int:
    """Ask about one service, or change it."""
    service = call.machine.services.find(name)
    if action in ("is-active", "is-failed"):
        return _print_is_in_state(call, action, service)
    if service is None:
        unit = (name if "." in name else f"{name}.service")[:100]
        if action == "status":
            return call.say(f"Unit {unit} could not be found.\n", 4)
        return call.say(f"Failed to {action} {unit}: Unit {unit} not found.\n", 5)
    try:
        return _ask_or_change(call, action, service)
    except Refusal as refusal:
        return call.say(f"{refusal}\n")


def _ask_or_change(call: Call, action: str, service: Service) -> int:
    match action:
        case "is-enabled":
            text = "" if call.options.has("q") else f"{service.enabling}\n"
            return call.print(text, 0 if service.enabled else 1)
        case "cat":
            return call.print(f"# /etc/systemd/system/{service.unit}\n{service.unit_text}")
        case "show":
            return _print_properties(call, service)
        case "status":
            return _print_status(call, service)
    _change(call, action, service)
    return 0


def _print_is_in_state(call: Call, action: str, service: Service | None) -> int:
    """`is-active` and `is-failed`."""
    state = service.state if service else "inactive"
    code = 3 if action == "is-active" else 1
    if state == action.removeprefix("is-"):
        code = 0
    return call.print("" if call.options.has("q") else f"{state}\n", code)


def _change(call: Call, action: str, service: Service) -> None:
    services = call.machine.services
    with_start = call.options.has("now")
    if action == "enable":
        services.enable(service, True)
        if with_start:
            services.start(service)
    elif action == "disable":
        services.enable(service, False)
        if with_start:
            services.stop(service)
    elif action in ("stop", "kill"):
        services.stop(service)
    elif action != "try-restart" or service.state == "active":
        services.start(service, again=action != "start")


def _since(call: Call, service: Service) -> str:
    return format_moment(call.machine.clock.moment(service.since_s), _SINCE_FORM)


def _print_properties(call: Call, service: Service) -> int:
    words = _STATES[service.state]
    values = {}
    for name, text in TABLE["systemctl"]["show"].items():
        values[name] = text.format(
            service,
            sub=words.sub_state,
            status=words.exit_status,
            result=words.result,
            pid=service.pid or 0,
            bytes=int(service.memory_mb * 1024**2),
            since=_since(call, service),
        )
    wanted = []
    for names in call.options.all("p"):
        wanted += names.split(",")
    lines = []
    for name in wanted or values:
        if name in values:
            prefix = "" if call.options.has("value") else f"{name}="
            lines.append(f"{prefix}{values[name]}\n")
    return call.print("".join(lines))


def _print_status(call: Call, service: Service) -> int:
    words = _STATES[service.state]
    head = TABLE["systemctl"]["status"].format(
        service,
        mark=words.mark,
        sub=words.status_text,
        since=_since(call, service),
        days=(call.machine.clock.now_s - service.since_s) // _DAY_S,
    )
    call.print(head)
    if service.pid is not None:
        call.print(
            f"   Main PID: {service.pid} ({service.name[:15]})\n"
            f"     Memory: {service.memory_mb:.1f}M\n"
        )
    n_lines = call.options.whole("n", _STATUS_LINES)
    lines = []
    if n_lines:
        for at_s, text in service.lines[-n_lines:]:
            lines.append(_log_line(call, service, at_s, text))
    log = "\n" + "".join(lines) if lines else ""
    return call.print(log, 0 if service.state == "active" else 3)


_LOG_FORMS = {"short": "%b %d %T", "short-iso": "%FT%T+0000"}
_LOG_FIELDS: list[str] = TABLE["journalctl"]["fields"]
_PRIORITIES: dict[str, str] = TABLE["journalctl"]["priorities"]
_FIRST_MOMENT = "@0"
_LAST_MOMENT = "@99999999999"


def _log_line(call: Call, service: Service, at_s: int, text: str, form: str = "short") -> str:
    moment = format_moment(call.machine.clock.moment(at_s), _LOG_FORMS[form])
    return f"{moment} {call.machine.host} {service.name}[{service.pid or _NO_PID}]: {text}\n"


@command("journalctl")
def journalctl(call: Call) -> int:
    options = call.options
    form = options.value("o", "short")
    if form != "cat" and form not in _LOG_FORMS:
        raise NotSimulated(f"'-o {form[:20]}' is not supported here")
    lines = _matching_lines(call, form)
    count = options.value("n").lstrip("+")
    if count.isdecimal():
        lines = lines[max(0, len(lines) - int(count)) :]
    if options.has("r"):
        lines.reverse()
    if not lines:
        return call.print("" if options.has("q") else "-- No entries --\n")
    return call.print("".join(lines))


def _matching_lines(call: Call, form: str) -> list[str]:
    """The lines of all logs that are asked for, by their time."""
    options = call.options
    names = _log_names(call)
    now = call.machine.clock.moment()
    first_s = read_moment(now, options.value("S", _FIRST_MOMENT)).timestamp()
    last_s = read_moment(now, options.value("U", _LAST_MOMENT)).timestamp()
    priority = _priority_pattern(options.value("p"))
    wanted_text = options.value("g").lower()
    lines: list[tuple[int, str]] = []
    for service in call.machine.services:
        if names and not any(fnmatchcase(service.name, name) for name in names):
            continue
        for at_s, text in service.lines:
            if not first_s <= at_s <= last_s:
                continue
            if wanted_text not in text.lower() or re.search(priority, text) is None:
                continue
            line = f"{text}\n" if form == "cat" else _log_line(call, service, at_s, text, form)
            lines.append((at_s, line))
    lines.sort(key=lambda timed_line: timed_line[0])
    return [line for _, line in lines]


def _log_names(call: Call) -> list[str]:
    """The services whose logs are asked for; none for all."""
    options = call.options
    names = [*options.all("u"), *options.all("t")]
    values_by_field = dict(word.partition("=")[::2] for word in options.operands)
    for field, value in values_by_field.items():
        if field not in _LOG_FIELDS:
            raise NotSimulated(f"the match '{field[:40]}' is not supported here")
        names.append(value)
    return [name.removesuffix(".service") for name in names]


def _priority_pattern(priority: str) -> str:
    """What the lines of a priority, and of the more urgent ones, have in them."""
    for names, pattern in _PRIORITIES.items():
        if priority in names.split():
            return pattern
    return ""
