"""Commands on services and jobs: systemctl, service, journalctl, crontab."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, table
from clawgauge.world.commands.status import format_moment, read_moment
from clawgauge.world.effects import FileFault, Refusal
from clawgauge.world.services import Service

_SUBSTATES = {"active": "running", "inactive": "dead", "failed": "failed"}
_MARKS = {"active": ("●", "(running)"), "inactive": ("○", "(dead)"), "failed": ("×", "(Result: exit-code)")}
_CHANGES = ("start", "stop", "restart", "reload", "try-restart", "reload-or-restart", "kill", "enable", "disable")
_QUESTIONS = ("status", "is-active", "is-failed", "is-enabled", "show", "cat")


@command("systemctl")
def systemctl(call: Call) -> int:
    action, *names = call.options.operands or ["list-units"]
    if action in ("list-units", "list-unit-files", "list-timers"):
        return _list_units(call, action, names)
    if action == "daemon-reload":
        return 0
    if action not in (*_CHANGES, *_QUESTIONS):
        raise NotSimulated(f"'{action[:40]}' is not supported here")
    if not names:
        raise UsageFault("Too few arguments.")
    return max(_control(call, action, name) for name in names)


def _list_units(call: Call, action: str, patterns: list[str]) -> int:
    options, files = call.options, action == "list-unit-files"
    if options.has("p", "o"):
        raise NotSimulated("options '-p' and '-o' go with 'show' and 'status' only here")
    wanted = {"failed"} if options.has("failed") else set(options.members("state"))
    show_all, quiet = options.has("a") or bool(wanted), options.has("q", "no-legend")
    is_listed = "service" in options.value("t", "service").split(",") and action != "list-timers"
    rows = [["UNIT FILE", "STATE", "PRESET"] if files else ["  UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"]]
    for service in call.machine.services if is_listed else ():
        sub, enabled = _SUBSTATES[service.state], "enabled" if service.enabled else "disabled"
        is_wanted = not wanted or wanted & {service.state, sub, enabled}
        if not is_wanted or not any(fnmatchcase(service.unit, pattern) for pattern in patterns or ["*"]):
            continue
        if files:
            rows.append([service.unit, enabled, "enabled"])
        elif show_all or service.state != "inactive":
            mark = "●" if service.state == "failed" else " "
            rows.append([f"{mark} {service.unit}", "loaded", service.state, sub, service.description])
    count = f"\n{len(rows) - 1} {'unit files' if files else 'loaded units'} listed.\n"
    return call.print(table(rows[1:], range(5)) if quiet else table(rows, range(5)) + count)


@command("service", raw=True)
def service(call: Call) -> int:
    if len(call.args) != 2 or call.args[1] not in ("start", "stop", "restart", "reload", "status"):
        raise NotSimulated("only 'service NAME start|stop|restart|reload|status' is supported here")
    return _control(call, call.args[1], call.args[0])


def _control(call: Call, action: str, name: str) -> int:
    services, quiet = call.machine.services, call.options.has("q")
    found = services.find(name)
    if action in ("is-active", "is-failed"):
        state = found.state if found else "inactive"
        code = 0 if state == action[3:] else 3 if action == "is-active" else 1
        return call.print("" if quiet else f"{state}\n", code)
    if found is None:
        unit = (name if "." in name else f"{name}.service")[:100]
        if action == "status":
            return call.say(f"Unit {unit} could not be found.\n", 4)
        return call.say(f"Failed to {action} {unit}: Unit {unit} not found.\n", 5)
    try:
        match action:
            case "is-enabled":
                shown = "enabled\n" if found.enabled else "disabled\n"
                return call.print("" if quiet else shown, int(not found.enabled))
            case "cat":
                return call.print(f"# /etc/systemd/system/{found.unit}\n{found.unit_text}")
            case "show":
                return _show(call, found)
            case "status":
                return _print_status(call, found)
            case "enable" | "disable":
                services.enable(found, action == "enable")
                if call.options.has("now"):
                    services.start(found) if action == "enable" else services.stop(found)
            case "stop" | "kill":
                services.stop(found)
            case _ if action != "try-restart" or found.state == "active":
                services.start(found, again=action != "start")
    except Refusal as refusal:
        return call.say(f"{refusal}\n")
    return 0


def _show(call: Call, found: Service) -> int:
    failed = found.state == "failed"
    values = {
        "Id": found.unit, "Description": found.description, "LoadState": "loaded", "ActiveState": found.state,
        "SubState": _SUBSTATES[found.state], "MainPID": str(found.pid or 0),
        "UnitFileState": "enabled" if found.enabled else "disabled",
        "FragmentPath": f"/etc/systemd/system/{found.unit}", "NRestarts": "0",
        "ExecMainStatus": "1" if failed else "0", "Result": "exit-code" if failed else "success",
        "ActiveEnterTimestamp": format_moment(call.machine.clock.moment(found.since_s), "%a %F %T UTC"),
        "MemoryCurrent": str(int(found.memory_mb * 1024**2)),
    }  # fmt: skip
    wanted = [name for text in call.options.all("p") for name in text.split(",")] or list(values)
    bare = call.options.has("value")
    lines = [f"{values[name]}\n" if bare else f"{name}={values[name]}\n" for name in wanted if name in values]
    return call.print("".join(lines))


def _print_status(call: Call, found: Service) -> int:
    since = format_moment(call.machine.clock.moment(found.since_s), "%a %F %T UTC")
    days = (call.machine.clock.now_s - found.since_s) // 86_400
    (mark, sub), enabled = _MARKS[found.state], "enabled" if found.enabled else "disabled"
    call.print(
        f"{mark} {found.unit} - {found.description}\n"
        f"     Loaded: loaded (/etc/systemd/system/{found.unit}; {enabled}; preset: enabled)\n"
        f"     Active: {found.state} {sub} since {since}; {days} days ago\n"
    )
    if found.pid is not None:
        call.print(f"   Main PID: {found.pid} ({found.name[:15]})\n     Memory: {found.memory_mb:.1f}M\n")
    n_lines = call.options.whole("n", 10)
    lines = [_log_line(call, found, *line) for line in found.lines][-n_lines:] if n_lines else []
    return call.print("\n" + "".join(lines) if lines else "", 0 if found.state == "active" else 3)


def _log_line(call: Call, found: Service, at_s: int, text: str) -> str:
    moment = format_moment(call.machine.clock.moment(at_s), "%b %d %H:%M:%S")
    return f"{moment} {call.machine.host} {found.name}[{found.pid or 611}]: {text}\n"


# A line's words give its priority away.
_ERROR = r"error|fail\w*|fatal|invalid|panic|denied|refused|killed"
_PRIORITIES = {
    **dict.fromkeys(["0", "1", "2", "3", "emerg", "alert", "crit", "err", "error"], rf"(?i)\b({_ERROR})\b"),
    **dict.fromkeys(["4", "warn", "warning"], rf"(?i)\b(warn\w*|{_ERROR})\b"),
}


@command("journalctl")
def journalctl(call: Call) -> int:
    options, now = call.options, call.machine.clock.moment()
    is_bare = options.value("o") == "cat"
    if options.value("o", "short") not in ("short", "cat"):
        raise NotSimulated(f"'-o {options.value('o')[:20]}' is not supported here")
    first_s = int(read_moment(now, options.value("S")).timestamp()) if options.has("S") else 0
    last_s = int(read_moment(now, options.value("U")).timestamp()) if options.has("U") else 2**40
    names = [name.removesuffix(".service") for name in [*options.all("u"), *options.all("t")]]
    priority, words = _PRIORITIES.get(options.value("p"), ""), options.value("g").lower()
    found = [
        (at_s, f"{text}\n" if is_bare else _log_line(call, service, at_s, text))
        for service in call.machine.services
        if not names or any(fnmatchcase(service.name, name) for name in names)
        for at_s, text in service.lines
        if first_s <= at_s <= last_s and words in text.lower() and re.search(priority, text)
    ]
    found.sort(key=lambda pair: pair[0])
    count = options.value("n").lstrip("+")
    if count.isdecimal():
        found = found[max(0, len(found) - int(count)) :]
    if options.has("r"):
        found.reverse()
    return call.print("".join(text for _, text in found) or ("" if options.has("q") else "-- No entries --\n"))


@command("crontab")
def crontab(call: Call) -> int:
    options, schedule = call.options, call.machine.schedule
    if options.has("u") and options.value("u") != call.machine.ledger.user and call.machine.ledger.user != "root":
        raise UsageFault("must be privileged to use -u")
    if options.has("e"):
        raise NotSimulated("there is no editor here; use 'crontab FILE' or 'crontab -'")
    shows = options.has("l") or not options.operands
    if (shows or options.has("r")) and not schedule.jobs:
        return call.say(f"no crontab for {call.machine.user}\n")
    try:
        if options.has("r"):
            schedule.install("")
        elif shows:
            call.print("".join(f"{job.schedule} {job.command}\n" for job in schedule.jobs))
        else:
            name = options.operands[0]
            schedule.install(call.stdin if name == "-" else call.files.read(call.resolve(name)))
    except FileFault as fault:
        return call.complain(f"{options.operands[0]}: {fault}")
    except Refusal as refusal:
        return call.say(f"{refusal}\n")
    return 0
