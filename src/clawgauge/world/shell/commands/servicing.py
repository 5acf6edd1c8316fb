"""Commands on services, jobs and the web: systemctl, service, journalctl, crontab, curl, wget.

Owns: their output, as the real ones print it. Refuses: enabling units, and sending data to the web.
"""

from __future__ import annotations

from clawgauge.world.refusals import FileFault, Refusal
from clawgauge.world.services import Service
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.options import parse_options
from clawgauge.world.web import Page, read_address

_CURL_LONG = {
    "silent": "s", "show-error": "S", "location": "L", "fail": "f", "output": "o", "include": "i", "head": "I",
    "header": "H", "max-time": "m", "remote-name": "O", "write-out": "w", "request": "X", "data": "d", "retry": "r",
    "user-agent": "A", "connect-timeout": "m", "compressed": "s", "insecure": "k", "verbose": "v", "data-raw": "d",
}  # fmt: skip


def systemctl(call: Call) -> int:
    options = parse_options(
        call.args,
        "qal",
        "nt",
        {
            "no-pager": "q",
            "quiet": "q",
            "all": "a",
            "type": "t",
            "lines": "n",
            "state": "t",
            "failed": "q",
            "user": "q",
            "now": "q",
            "full": "l",
        },
    )
    action, *names = options.operands or ["list-units"]
    if action in ("list-units", "list-unit-files"):
        for service in call.machine.services:
            call.machine.services.find(service.name)
            sub = "running" if service.state == "active" else "dead" if service.state == "inactive" else "failed"
            call.print(f"{service.name}.service loaded {service.state} {sub} {service.description}\n")
        return 0
    if action == "daemon-reload":
        return 0
    if action not in ("status", "is-active", "is-failed", "start", "stop", "restart", "reload", "show", "reset-failed"):
        raise UsageFault(f"'{action[:40]}' is not supported here", 1)
    if not names:
        raise UsageFault("too few arguments", 1)
    return max(_control(call, action, name, quiet=options.has("q")) for name in names)


def service(call: Call) -> int:
    if len(call.args) < 2:
        raise UsageFault("usage: service NAME {start|stop|restart|status}", 1)
    call.args = [call.args[1], call.args[0]]
    return systemctl(call)


def _control(call: Call, action: str, name: str, *, quiet: bool) -> int:
    found = call.machine.services.find(name)
    unit = f"{name.removesuffix('.service')[:100]}.service"
    if found is None:
        call.err.write(
            f"Unit {unit} could not be found.\n"
            if action == "status"
            else f"Failed to {action} {unit}: Unit not found.\n"
        )
        return 4 if action == "status" else 5
    match action:
        case "status" | "show":
            _print_status(call, found)
            return 0 if found.state == "active" else 3
        case "is-active":
            call.print("" if quiet and call.args[0] == "-q" else f"{found.state}\n")
            return 0 if found.state == "active" else 3
        case "is-failed":
            call.print(f"{found.state}\n")
            return 0 if found.state == "failed" else 1
        case "reset-failed":
            return 0
    try:
        if action == "stop":
            call.machine.services.stop(found)
        else:
            call.machine.services.start(found)
    except Refusal as refusal:
        call.err.write(f"{refusal}\n")
        return 1
    return 0


def _print_status(call: Call, service: Service) -> None:
    since = call.machine.clock.moment(service.since_s)
    sub = {"active": "running", "inactive": "dead", "failed": "Result: exit-code"}[service.state]
    call.print(f"● {service.name}.service - {service.description}\n")
    call.print(f"     Loaded: loaded (/etc/systemd/system/{service.name}.service; enabled)\n")
    call.print(f"     Active: {service.state} ({sub}) since {since:%a %Y-%m-%d %H:%M:%S} UTC\n")
    if service.pid is not None:
        call.print(f"   Main PID: {service.pid} ({service.name})\n")
    _print_log(call, service, 10)


def _print_log(call: Call, service: Service, count: int) -> None:
    since = call.machine.clock.moment(service.since_s)
    for line in service.log[-count:] if count else []:
        call.print(f"{since:%b %d %H:%M:%S} {call.machine.host} {service.name}[{service.pid or 611}]: {line}\n")


def journalctl(call: Call) -> int:
    options = parse_options(
        call.args, "xeqr", "unpS", {"unit": "u", "lines": "n", "no-pager": "q", "since": "S", "priority": "p"}
    )
    count = options.whole("n", 1_000)
    wanted = [name.removesuffix(".service") for name in options.values.get("u", [])]
    printed = False
    for service in call.machine.services:
        if not wanted or service.name in wanted:
            _print_log(call, service, min(abs(count), 1_000))
            printed = printed or bool(service.log)
    if not printed:
        call.print("-- No entries --\n")
    return 0


def crontab(call: Call) -> int:
    options = parse_options(call.args, "lrei", "u")
    if "u" in options.values and options.value("u") != call.machine.user:
        raise UsageFault("must be privileged to use -u", 1)
    schedule = call.machine.schedule
    if options.has("e"):
        raise UsageFault("there is no editor here; use 'crontab FILE' or 'crontab -'", 1)
    if options.has("r"):
        schedule.install("")
        return 0
    if options.has("l") or not options.operands:
        if not schedule.jobs:
            call.err.write(f"no crontab for {call.machine.user}\n")
            return 1
        call.print(schedule.as_crontab())
        return 0
    texts, code = call.read_operands(options.operands[:1])
    if code:
        return code
    try:
        schedule.install(texts[0][1])
    except Refusal as refusal:
        call.err.write(f"{refusal}\n")
        return 1
    return 0


def curl(call: Call) -> int:
    options = parse_options(call.args, "sSLfiIOkvg#", "omHwXdrAu", _CURL_LONG)
    if options.values.get("d") or options.value("X", "GET").upper() not in ("GET", "HEAD"):
        raise UsageFault("(6) only GET requests can be made from here", 6)
    if not options.operands:
        raise UsageFault("no URL specified", 2)
    url = options.operands[0] if "://" in options.operands[0] else f"http://{options.operands[0]}"
    try:
        page = call.machine.web.fetch(url)
    except Refusal as refusal:
        return call.complain(f"(6) {refusal}", 6)
    if options.has("f") and page.status >= 400:
        return call.complain(f"(22) The requested URL returned error: {page.status}", 22)
    head = f"HTTP/1.1 {page.status} {page.reason}\ncontent-type: {page.content_type}\n\n"
    shown = head if options.has("I") else head + page.body if options.has("i") else page.body
    target = options.value("o") or (_name_of(url) if options.has("O") else "")
    code = _deliver(call, shown, target)
    if options.value("w"):
        form = (
            options.value("w").replace("%{http_code}", str(page.status)).replace("%{response_code}", str(page.status))
        )
        call.print(form.replace("\\n", "\n"))
    return code


def wget(call: Call) -> int:
    args = ["-q" if arg in ("-nv", "-nc") else arg for arg in call.args]
    options = parse_options(args, "qcS", "OTtP", {"quiet": "q", "output-document": "O", "timeout": "T", "tries": "t"})
    if not options.operands:
        raise UsageFault("missing URL", 1)
    url = options.operands[0] if "://" in options.operands[0] else f"http://{options.operands[0]}"
    try:
        page: Page = call.machine.web.fetch(url)
    except Refusal as refusal:
        return call.complain(f"{refusal}", 4)
    if page.status >= 400:
        call.err.write(f"ERROR {page.status}: {page.reason}.\n")
        return 8
    target = options.value("O") or _name_of(url)
    if not options.has("q"):
        call.err.write(f"'{target}' saved [{len(page.body.encode())}]\n")
    return _deliver(call, page.body, "" if target == "-" else target)


def _name_of(url: str) -> str:
    try:
        return read_address(url).text.partition("?")[0].rpartition("/")[2] or "index.html"
    except Refusal:
        return "index.html"


def _deliver(call: Call, text: str, target: str) -> int:
    """To a file where one is named, else to standard output."""
    if not target or target == "-":
        call.print(text)
        return 0
    try:
        call.machine.files.write(call.resolve(target), text)
    except FileFault as fault:
        return call.complain(f"(23) {target}: {fault}", 23)
    return 0
