"""Commands on services, jobs and the web: systemctl, service, journalctl, crontab, curl, wget."""

import re
from fnmatch import fnmatchcase

from clawgauge.world.commands.call import TABLE, Call, NotSimulated, command, fill, table, unescape
from clawgauge.world.commands.status import format_moment, read_moment
from clawgauge.world.effects import FileFault, Refusal
from clawgauge.world.services import Service
from clawgauge.world.web import Page, read_url

_STATES = TABLE["systemctl"]["states"]
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
        raise Refusal("Too few arguments.")
    return max(_control(call, action, name) for name in names)


def _list_units(call: Call, action: str, patterns: list[str]) -> int:
    options, files = call.options, action == "list-unit-files"
    if options.has("p", "o"):
        raise NotSimulated("options '-p' and '-o' go with 'show' and 'status' only here")
    wanted = {"failed"} if options.has("failed") else set(options.members("state"))
    show_all = options.has("a") or bool(wanted)
    is_listed = "service" in options.value("t", "service").split(",") and action != "list-timers"
    rows = [
        ["UNIT FILE", "STATE", "PRESET"]
        if files
        else ["  UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"]
    ]
    for service in call.machine.services if is_listed else ():
        sub, enabled = _STATES[service.state][0], service.enabling
        is_wanted = not wanted or wanted & {service.state, sub, enabled}
        if not is_wanted or not any(
            fnmatchcase(service.unit, pattern) for pattern in patterns or ["*"]
        ):
            continue
        if files:
            rows.append([service.unit, enabled, "enabled"])
        elif show_all or service.state != "inactive":
            mark = "●" if service.state == "failed" else " "
            rows.append(
                [f"{mark} {service.unit}", "loaded", service.state, sub, service.description]
            )
    if options.has("q", "no-legend"):
        return call.print(table(rows[1:], range(5)))
    count = f"\n{len(rows) - 1} {'unit files' if files else 'loaded units'} listed.\n"
    return call.print(table(rows, range(5)) + count)


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
                return call.print("" if quiet else f"{found.enabling}\n", int(not found.enabled))
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
    sub, _, _, status, result = _STATES[found.state]
    told = {
        "sub": sub,
        "status": status,
        "result": result,
        "pid": found.pid or 0,
        "bytes": int(found.memory_mb * 1024**2),
    }
    told["since"] = format_moment(call.machine.clock.moment(found.since_s), "%a %F %T UTC")
    values = {name: text.format(found, **told) for name, text in TABLE["systemctl"]["show"].items()}
    wanted = [name for text in call.options.all("p") for name in text.split(",")] or list(values)
    form = "{1}\n" if call.options.has("value") else "{0}={1}\n"
    return call.print("".join(form.format(name, values[name]) for name in wanted if name in values))


def _print_status(call: Call, found: Service) -> int:
    since = format_moment(call.machine.clock.moment(found.since_s), "%a %F %T UTC")
    days = (call.machine.clock.now_s - found.since_s) // 86_400
    _, mark, sub, *_ = _STATES[found.state]
    call.print(
        TABLE["systemctl"]["status"].format(found, mark=mark, sub=sub, since=since, days=days)
    )
    if found.pid is not None:
        call.print(
            f"   Main PID: {found.pid} ({found.name[:15]})\n     Memory: {found.memory_mb:.1f}M\n"
        )
    n_lines = call.options.whole("n", 10)
    lines = [_log_line(call, found, *line) for line in found.lines][-n_lines:] if n_lines else []
    return call.print("\n" + "".join(lines) if lines else "", 0 if found.state == "active" else 3)


def _log_line(call: Call, found: Service, at_s: int, text: str, form: str = "short") -> str:
    moment = format_moment(
        call.machine.clock.moment(at_s), "%b %d %T" if form == "short" else "%FT%T+0000"
    )
    return f"{moment} {call.machine.host} {found.name}[{found.pid or 611}]: {text}\n"


_FIELDS, _PRIORITIES = (TABLE["journalctl"][name] for name in ("fields", "priorities"))


@command("journalctl")
def journalctl(call: Call) -> int:
    options, now = call.options, call.machine.clock.moment()
    if (form := options.value("o", "short")) not in ("short", "cat", "short-iso"):
        raise NotSimulated(f"'-o {form[:20]}' is not supported here")
    matches = dict(word.partition("=")[::2] for word in options.operands)
    if unread := [field for field in matches if field not in _FIELDS]:
        raise NotSimulated(f"the match '{unread[0][:40]}' is not supported here")
    first_s = read_moment(now, options.value("S", "@0")).timestamp()
    last_s = read_moment(now, options.value("U", "@99999999999")).timestamp()
    names = [
        name.removesuffix(".service")
        for name in [*options.all("u"), *options.all("t"), *matches.values()]
    ]
    priority = next(
        (words for names, words in _PRIORITIES.items() if options.value("p") in names.split()), ""
    )
    words = options.value("g").lower()
    found = [
        (at_s, f"{text}\n" if form == "cat" else _log_line(call, service, at_s, text, form))
        for service in call.machine.services
        if not names or any(fnmatchcase(service.name, name) for name in names)
        for at_s, text in service.lines
        if first_s <= at_s <= last_s and words in text.lower() and re.search(priority, text)
    ]
    found.sort(key=lambda pair: pair[0])
    if (count := options.value("n").lstrip("+")).isdecimal():
        found = found[max(0, len(found) - int(count)) :]
    if options.has("r"):
        found.reverse()
    return call.print(
        "".join(text for _, text in found) or ("" if options.has("q") else "-- No entries --\n")
    )


@command("crontab")
def crontab(call: Call) -> int:
    options, schedule, user = call.options, call.machine.schedule, call.machine.ledger.user
    if options.has("u") and user not in ("root", options.value("u")):
        raise Refusal("must be privileged to use -u")
    if options.has("e"):
        raise NotSimulated("there is no editor here; use 'crontab FILE' or 'crontab -'")
    name, whose = (
        options.operands[0] if options.operands else None,
        options.value("u", call.machine.user),
    )
    if (options.has("l", "r") or name is None) and (
        not schedule.jobs or whose != call.machine.user
    ):
        return call.say(f"no crontab for {whose[:40]}\n")
    if whose != call.machine.user:
        raise NotSimulated(f"a crontab of {whose[:40]} is not supported here")
    try:
        if options.has("r"):
            schedule.install("")
        elif options.has("l") or name is None:
            call.print("".join(f"{job.schedule} {job.command}\n" for job in schedule.jobs))
        else:
            schedule.install(call.stdin if name == "-" else call.files.read(call.resolve(name)))
    except FileFault as fault:
        return call.complain(f"{name}: {fault}")
    except Refusal as refusal:
        return call.say(f"{refusal}\n")
    return 0


@command("curl")
def curl(call: Call) -> int:
    options = call.options
    method = options.value("X", "HEAD" if options.has("I") else "GET").upper()
    if (options.has("d", "F", "T") and not options.has("G")) or method not in ("GET", "HEAD"):
        raise NotSimulated("(6) only GET requests can be made from here", 6)
    if not (urls := [*options.all("url"), *options.operands]):
        raise Refusal("no URL specified", 2)
    quiet, retries = options.has("s") and not options.has("S"), options.whole("retry", 0)

    def transfer(url: str, _: str) -> int:
        url = url if "://" in url else f"http://{url}"
        if options.has("G") and options.has("d"):
            url += ("&" if "?" in url else "?") + "&".join(options.all("d"))
        try:
            page = _fetch(call, url, retries)
        except Refusal as refusal:
            return 6 if quiet else call.complain(f"(6) {refusal}", 6)
        if options.has("f") and page.status >= 400:
            return (
                22
                if quiet
                else call.complain(f"(22) The requested URL returned error: {page.status}", 22)
            )
        size = len(page.body.encode())
        head = f"HTTP/1.1 {page.status} {page.reason}\r\ncontent-type: {page.content_type}\r\n"
        head += f"retry-after: {page.retry_after_s}\r\n" if page.retry_after_s else ""
        head += f"content-length: {size}\r\n\r\n"
        shown = head if options.has("I") else head + page.body if options.has("i") else page.body
        target = options.value("o") or (_name_of(url) if options.has("O") else "")
        folder = options.value("output-dir").rstrip("/")
        code = _deliver(call, shown, f"{folder}/{target}" if folder and target else target)
        values = {
            name: text.format(page, size=size, url=url)
            for name, text in TABLE["curl"]["write_out"].items()
        }
        return call.print(
            unescape(fill(r"%()\{(\w+)\}", options.value("w"), values, "variable")), code
        )

    return call.each(urls, transfer)


def _fetch(call: Call, url: str, retries: int) -> Page:
    page = call.machine.web.fetch(url)
    for _ in range(min(5, retries)):
        if page.status not in (408, 429, 500, 502, 503, 504):
            break
        call.machine.clock.advance(page.retry_after_s or 1)
        page = call.machine.web.fetch(url)
    return page


@command("wget")
def wget(call: Call) -> int:
    options, url = call.options, call.require_operands("missing URL")[0]
    if len(options.operands) > 1:
        raise NotSimulated("more than one address in a call is not supported here")
    url, quiet, retries = (
        url if "://" in url else f"http://{url}",
        options.has("q"),
        options.whole("t", 1) - 1,
    )
    try:
        page = _fetch(call, url, retries)
    except Refusal as refusal:
        return 4 if quiet else call.complain(f"{refusal}", 4)
    if page.status >= 400 or options.has("spider"):
        is_bad, words = page.status >= 400, f"ERROR {page.status}: {page.reason}.\n"
        return call.say(
            "" if quiet else words if is_bad else "Remote file exists.\n", 8 if is_bad else 0
        )
    folder = f"{options.value('P').rstrip('/')}/" if options.has("P") else ""
    target = options.value("O") or folder + _name_of(url)
    code = _deliver(call, page.body, target)
    call.say(
        "" if quiet or code or target == "-" else f"'{target}' saved [{len(page.body.encode())}]\n"
    )
    return code


def _name_of(url: str) -> str:
    return read_url(url).url.partition("?")[0].rpartition("/")[2] or "index.html"


def _deliver(call: Call, text: str, target: str) -> int:
    if target in ("", "-"):
        return call.print(text)
    try:
        call.files.write(call.resolve(target), text)
    except FileFault as fault:
        return call.complain(f"(23) {target}: {fault}", 23)
    return 0
