"""Commands on services and jobs: systemctl, service, journalctl, crontab."""

from __future__ import annotations

import re

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, table
from clawgauge.world.commands.dates import format_moment, read_moment
from clawgauge.world.refusals import FileFault, Refusal
from clawgauge.world.services import Service, unit_text

_SUBSTATES = {"active": "running", "inactive": "dead", "failed": "failed"}
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
    "reset-failed",
)
_QUESTIONS = ("status", "is-active", "is-failed", "is-enabled", "show", "cat")


@command(
    "systemctl", flags="qa", valued="ntpo",
    long="quiet:q all:a type:t= lines:n= state= failed now property:p= output:o= value no-legend", idle="lo",
    idle_words="no-pager full user system plain no-ask-password",
)  # fmt: skip
def systemctl(call: Call) -> int:
    options = call.options
    action, *names = options.operands or ["list-units"]
    if action in ("list-units", "list-unit-files", "list-timers"):
        return _list_units(call, action, names)
    if action in ("daemon-reload", "daemon-reexec"):
        return 0
    if action == "is-system-running":
        failed = any(service.state == "failed" for service in call.machine.services.units())
        call.print("degraded\n" if failed else "running\n")
        return int(failed)
    if action == "status" and not names:
        call.print(f"● {call.machine.host}\n    State: running\n")
        return 0
    if action not in (*_CHANGES, *_QUESTIONS):
        raise NotSimulated(f"'{action[:40]}' is not supported here")
    if not names:
        if action == "reset-failed":
            return 0
        raise UsageFault("Too few arguments.")
    return max(_control(call, action, name) for name in names)


def _list_units(call: Call, action: str, patterns: list[str]) -> int:
    options = call.options
    wanted = {"failed"} if options.has("failed") else set(filter(None, options.value("state").split(",")))
    kinds = options.value("t", "service").split(",")
    if options.has("p", "o"):
        raise NotSimulated("options '-p' and '-o' go with 'show' and 'status' only here")
    show_all = options.has("a") or bool(wanted)
    rows = []
    for service in call.machine.services.units() if "service" in kinds and action != "list-timers" else ():
        sub = _SUBSTATES[service.state]
        if wanted and not wanted & {service.state, sub, "enabled" if service.enabled else "disabled"}:
            continue
        if patterns and not any(re.fullmatch(re.escape(p).replace(r"\*", ".*"), service.unit) for p in patterns):
            continue
        if action == "list-unit-files":
            rows.append([service.unit, "enabled" if service.enabled else "disabled", "enabled"])
        elif show_all or service.state != "inactive":
            mark = "●" if service.state == "failed" else " "
            rows.append([f"{mark} {service.unit}", "loaded", service.state, sub, service.description])
    title = (
        ["UNIT FILE", "STATE", "PRESET"]
        if action == "list-unit-files"
        else ["  UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"]
    )
    quiet = options.has("q", "no-legend")
    if rows or not quiet:
        call.print(table(rows if quiet else [title, *rows], range(5)))
    if not quiet:
        call.print(f"\n{len(rows)} {'unit files' if len(title) == 3 else 'loaded units'} listed.\n")
    return 0


@command("service", raw=True)
def service(call: Call) -> int:
    if call.args == ["--status-all"]:
        for unit in call.machine.services.units():
            call.print(f" [ {'+' if unit.state == 'active' else '-'} ]  {unit.name}\n")
        return 0
    if len(call.args) < 2:
        raise UsageFault("usage: service NAME {start|stop|restart|status}")
    if call.args[1] not in ("start", "stop", "restart", "reload", "status"):
        raise NotSimulated(f"'{call.args[1][:40]}' is not supported here")
    return _control(call, call.args[1], call.args[0])


def _control(call: Call, action: str, name: str) -> int:
    services = call.machine.services
    found = services.find(name)
    if found is None or found.image:
        unit = name if "." in name else f"{name}.service"
        return _not_found(call, action, unit[:100])
    if action in _QUESTIONS:
        return _answer(call, action, found)
    try:
        if action in ("enable", "disable"):
            services.enable(found, action == "enable")
            if call.options.has("now"):
                services.start(found) if action == "enable" else services.stop(found)
        elif action in ("stop", "kill"):
            services.stop(found)
        elif action == "reset-failed":
            services.forget_failure(found)
        elif action != "try-restart" or found.state == "active":
            services.start(found, again="start" not in (action,))
    except Refusal as refusal:
        call.say(f"{refusal}\n")
        return 1
    return 0


def _not_found(call: Call, action: str, unit: str) -> int:
    if action in ("is-active", "is-failed"):
        call.print("inactive\n")
        return 3 if action == "is-active" else 1
    if action == "status":
        call.say(f"Unit {unit} could not be found.\n")
        return 4
    if action == "is-enabled":
        call.say(f"Failed to get unit file state for {unit}: No such file or directory\n")
        return 1
    call.say(f"Failed to {action} {unit}: Unit {unit} not found.\n")
    return 5


def _answer(call: Call, action: str, found: Service) -> int:
    options = call.options
    quiet = options.has("q")
    is_active = found.state == "active"
    match action:
        case "is-active":
            call.print("" if quiet else f"{found.state}\n")
            return 0 if is_active else 3
        case "is-failed":
            call.print("" if quiet else f"{found.state}\n")
            return 0 if found.state == "failed" else 1
        case "is-enabled":
            call.print("" if quiet else "enabled\n" if found.enabled else "disabled\n")
            return 0 if found.enabled else 1
        case "cat":
            call.print(f"# /etc/systemd/system/{found.unit}\n{unit_text(found)}")
            return 0
        case "show":
            return _show(call, found)
    _print_status(call, found, options.whole("n", 10))
    return 0 if is_active else 3


def _show(call: Call, found: Service) -> int:
    values = {
        "Id": found.unit, "Description": found.description, "LoadState": "loaded", "ActiveState": found.state,
        "SubState": _SUBSTATES[found.state], "MainPID": str(found.pid or 0),
        "UnitFileState": "enabled" if found.enabled else "disabled",
        "FragmentPath": f"/etc/systemd/system/{found.unit}", "NRestarts": "0",
        "ExecMainStatus": "1" if found.state == "failed" else "0",
        "Result": "exit-code" if found.state == "failed" else "success",
        "ActiveEnterTimestamp": format_moment(call.machine.clock.moment(found.since_s), "%a %F %T UTC"),
        "MemoryCurrent": str(int(found.memory_mb * 1024**2)),
    }  # fmt: skip
    wanted = [name for text in call.options.all("p") for name in text.split(",")] or list(values)
    for name in wanted:
        if name in values:
            call.print(f"{values[name]}\n" if call.options.has("value") else f"{name}={values[name]}\n")
    return 0


def _print_status(call: Call, found: Service, n_lines: int) -> None:
    since = format_moment(call.machine.clock.moment(found.since_s), "%a %F %T UTC")
    days = (call.machine.clock.now_s - found.since_s) // 86_400
    sub = {"active": "(running)", "inactive": "(dead)", "failed": "(Result: exit-code)"}[found.state]
    mark = {"active": "●", "inactive": "○", "failed": "×"}[found.state]
    enabled = "enabled" if found.enabled else "disabled"
    call.print(f"{mark} {found.unit} - {found.description}\n")
    call.print(f"     Loaded: loaded (/etc/systemd/system/{found.unit}; {enabled}; preset: enabled)\n")
    call.print(f"     Active: {found.state} {sub} since {since}; {days} days ago\n")
    if found.pid is not None:
        call.print(f"   Main PID: {found.pid} ({found.name[:15]})\n     Memory: {found.memory_mb:.1f}M\n")
    lines = [_log_line(call, found, index) for index in range(len(found.log))][-n_lines:] if n_lines else []
    call.print("\n" + "".join(lines) if lines else "")


def _log_line(call: Call, found: Service, index: int) -> str:
    at_s = found.log[index].at_s
    moment = format_moment(call.machine.clock.moment(at_s), "%b %d %H:%M:%S")
    return f"{moment} {call.machine.host} {found.name}[{found.pid or 611}]: {found.log[index].text}\n"


@command(
    "journalctl", flags="qr", valued="unpSUgto",
    long="unit:u= lines:n= since:S= until:U= priority:p= reverse:r follow:f boot:b dmesg:k grep:g= identifier:t= "
    "disk-usage output:o= pager-end:e quiet:q catalog:x", idle="abefkx",
    idle_words="no-pager no-hostname no-full all merge",
)  # fmt: skip
def journalctl(call: Call) -> int:
    options = call.options
    if options.has("disk-usage"):
        call.print("Archived and active journals take up 48.0M in the file system.\n")
        return 0
    if options.has("o") and options.value("o") not in ("short", "cat"):
        raise NotSimulated(f"'-o {options.value('o')[:20]}' is not supported here")
    now = call.machine.clock.moment()
    first_s = int(read_moment(now, options.value("S")).timestamp()) if options.has("S") else 0
    last_s = int(read_moment(now, options.value("U")).timestamp()) if options.has("U") else 2**40
    names = [name.removesuffix(".service") for name in [*options.all("u"), *options.all("t")]]
    found: list[tuple[int, str]] = []
    for service in call.machine.services.units():
        if names and not any(re.fullmatch(re.escape(name).replace(r"\*", ".*"), service.name) for name in names):
            continue
        for index, line in enumerate(service.log):
            if first_s <= line.at_s <= last_s and _matters(call, line.text):
                shown = f"{line.text}\n" if options.value("o") == "cat" else _log_line(call, service, index)
                found.append((line.at_s, shown))
    found.sort(key=lambda pair: pair[0])
    if options.has("n"):
        count = options.value("n").lstrip("+")
        found = (
            found[-min(len(found), int(count)) :] if count.isdecimal() and int(count) else [] if count == "0" else found
        )
    if options.has("r"):
        found.reverse()
    call.print("".join(text for _, text in found) or ("" if options.has("q") else "-- No entries --\n"))
    return 0


def _matters(call: Call, text: str) -> bool:
    """Whether a line is to be shown by its priority, which its words give away, and by `-g`."""
    options = call.options
    pattern = options.value("g")
    if pattern and not re.search(re.escape(pattern), text, re.IGNORECASE):
        return False
    if options.value("p") in ("err", "3", "crit", "2", "alert", "1", "emerg", "0", "error"):
        return (
            re.search(r"\b(error|fail\w*|fatal|invalid|panic|denied|refused|killed)\b", text, re.IGNORECASE) is not None
        )
    if options.value("p") in ("warning", "4", "warn"):
        return (
            re.search(r"\b(warn\w*|error|fail\w*|fatal|invalid|panic|denied|refused|killed)\b", text, re.IGNORECASE)
            is not None
        )
    return True


@command("crontab", flags="lre", valued="u", idle="i")
def crontab(call: Call) -> int:
    options, schedule = call.options, call.machine.schedule
    if options.has("u") and options.value("u") != call.files.user and call.files.user != "root":
        raise UsageFault("must be privileged to use -u")
    if options.has("e"):
        raise NotSimulated("there is no editor here; use 'crontab FILE' or 'crontab -'")
    if options.has("r"):
        if not schedule.jobs:
            raise UsageFault(f"no crontab for {call.machine.user}")
        schedule.install("")
        return 0
    if options.has("l") or not options.operands:
        if not schedule.jobs:
            call.say(f"no crontab for {call.machine.user}\n")
            return 1
        call.print(schedule.as_crontab())
        return 0
    try:
        schedule.install(call.read_operand(options.operands[0]))
    except FileFault as fault:
        return call.complain(f"{options.operands[0]}: {fault}")
    except Refusal as refusal:
        call.say(f"{refusal}\n")
        return 1
    return 0
