"""Commands that ask how the machine is: date, df, free, uptime, uname, id, hostname, nproc."""

import calendar
import datetime as dt
import re

from clawgauge.world.commands.call import COMMANDS, TABLE, Call, NotSimulated, command, human, table
from clawgauge.world.effects import Refusal
from clawgauge.world.machine import RELEASE, Machine

_UNITS, _COUNTS, _DAYS, _TIMES, _ISO = (
    TABLE["date"][name] for name in ("units", "counts", "days", "times", "iso")
)
_WEEKDAYS = {name.lower()[:3]: number for number, name in enumerate(calendar.day_name)}
_MONTHS = {name.lower()[:3]: number for number, name in enumerate(calendar.month_name) if name}
_TOKEN = re.compile(TABLE["date"]["token"], re.VERBOSE)


@command("date", raw=True)
def date(call: Call) -> int:
    args = [
        {"-I": "-Idate", "--iso-8601": "-Idate", "--rfc-2822": "-R"}.get(arg, arg)
        for arg in call.args
    ]
    options = COMMANDS["date"].parse(args)
    if options.has("s"):
        raise Refusal("cannot set date: Operation not permitted")
    moment = call.machine.clock.moment()
    if options.has("d"):
        moment = read_moment(moment, options.value("d"))
    elif options.has("r"):
        moment = call.machine.clock.moment(
            call.files.node(call.resolve(options.value("r"))).modified_s
        )
    form = "%a, %d %b %Y %H:%M:%S +0000" if options.has("R") else "%a %b %e %H:%M:%S UTC %Y"
    form = _ISO.get(options.value("I"), form)
    for operand in options.operands:
        if not operand.startswith("+"):
            raise Refusal(f"invalid date '{operand[:40]}'")
        form = operand[1:]
    return call.print(format_moment(moment, form) + "\n")


def read_moment(now: dt.datetime, text: str) -> dt.datetime:
    """What GNU date makes of a text: a date, a time, and steps from there, in any order."""
    day: dt.date | None = None
    time: dt.time | None = None
    month, weekday = 0, ""
    numbers: list[int] = []
    shifts: list[tuple[int, str]] = []
    rest = re.sub(r"[\s,]+", " ", text.strip().lower())
    try:
        while rest:
            if (found := _TOKEN.match(rest)) is None:
                raise ValueError(text)
            rest, word = rest[found.end() :].removeprefix(" "), found["word"] or ""
            if found["epoch"]:
                now = dt.datetime.fromtimestamp(int(found["epoch"][1:]), dt.UTC)
                day, time = now.date(), now.time()
            elif found["date"]:
                day = dt.date(*map(int, re.split("[-/]", found["date"])))
            elif found["compact"]:
                day = dt.date.fromisoformat(found["compact"])
            elif found["time"] or word in _TIMES:
                time = dt.time.fromisoformat((found["time"] or _TIMES[word]).rjust(5, "0"))
                if found["half"]:
                    time = time.replace(hour=time.hour % 12 + 12 * (found["half"] == "pm"))
            elif found["unit"]:
                count = "".join((found["count"] or "1").split())
                amount = _COUNTS[count] if count in _COUNTS else int(count)
                shifts.append((-amount if found["ago"] else amount, found["unit"]))
            elif found["number"]:
                numbers.append(int(found["number"]))
            elif word in _DAYS:
                shifts.append((_DAYS[word], "day"))
            elif word[:3] in _WEEKDAYS and calendar.day_name[
                _WEEKDAYS[word[:3]]
            ].lower().startswith(word):
                weekday = word[:3]
                shifts.append((_COUNTS[(found["which"] or "this").strip()], "weekday"))
            elif word[:3] in _MONTHS and calendar.month_name[_MONTHS[word[:3]]].lower().startswith(
                word
            ):
                month = _MONTHS[word[:3]]
            elif not found["zone"]:
                raise ValueError(text)
        if month:
            numbers.sort()
            year = numbers.pop() if numbers and numbers[-1] > 31 else now.year
            day = dt.date(year, month, numbers.pop() if numbers else 1)
        if numbers:
            raise ValueError(text)
        midnight = day is not None or weekday
        moment = dt.datetime.combine(
            day or now.date(), time or (dt.time() if midnight else now.time()), dt.UTC
        )
        for amount, unit in shifts:
            moment = _shifted(moment, amount, unit, weekday)
        return moment
    except (ValueError, OverflowError, OSError):
        hint = (
            ""
            if text[:4].isdecimal()
            else ": here are read 'March 1 2026', 'next monday', '2 days ago'"
        )
        raise Refusal(f"invalid date '{text[:60]}'{hint}") from None


def _shifted(moment: dt.datetime, amount: int, unit: str, weekday: str) -> dt.datetime:
    if unit in _UNITS:
        return moment + dt.timedelta(seconds=amount * _UNITS[unit])
    if unit == "weekday":
        ahead = (_WEEKDAYS[weekday] - moment.weekday()) % 7
        return moment + dt.timedelta(
            days=ahead + 7 * (amount - 1 if amount > 0 and ahead else amount)
        )
    months = moment.month - 1 + amount * (12 if unit == "year" else 1)
    first = moment.replace(year=moment.year + months // 12, month=months % 12 + 1, day=1)
    # A day that the month has not is one of the next month, as in date(1).
    return first + dt.timedelta(days=moment.day - 1)


def format_moment(moment: dt.datetime, form: str) -> str:
    # Beside what C has, and where C would go by the host.
    special = {
        "s": str(int(moment.timestamp())), "k": f"{moment.hour:>2}", "l": f"{(moment.hour - 1) % 12 + 1:>2}",
        "q": str((moment.month + 2) // 3), "P": f"{moment:%p}".lower(), "N": "000000000", "3N": "000", "Z": "UTC",
        "z": "+0000",
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        flag, letter = found[1], found[2]
        if letter not in special and letter not in "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY%":
            return found[0]
        text = special[letter] if letter in special else moment.strftime(f"%{letter}")
        if flag == "-":
            return text.lstrip("0 ") or "0"
        return text.upper() if flag == "^" else text.replace(" ", "0") if flag == "0" else text

    return re.sub(r"%([-_^0#]?):?(3N|.)", fill, form, flags=re.DOTALL)


_DF_COLUMNS: dict[str, str] = TABLE["df"]["columns"]


@command("df")
def df(call: Call) -> int:
    options, disks = call.options, [] if call.options.operands else list(call.machine.disks)

    def work(_: str, path: str) -> None:
        call.files.node(path)
        disks.append(call.machine.disks.disk_of(path))

    code = call.each(options.operands, work)
    if (options.has("t") and "ext4" not in options.all("t")) or "ext4" in options.all("x"):
        disks = []
    if not disks:
        return code or call.complain("no file systems processed")
    columns = [
        "source",
        *(["fstype"] if options.has("T") else []),
        "size",
        "used",
        "avail",
        "pcent",
        "target",
    ]
    columns = (
        ["source", "itotal", "iused", "iavail", "ipcent", "target"] if options.has("i") else columns
    )
    columns = options.members("output") or columns
    for name in columns:
        if name not in _DF_COLUMNS:
            raise Refusal(f"option --output: field '{name[:40]}' unknown")
    block, is_human = options.value("B", "1M" if options.has("m") else "1K"), options.has("h")
    if (found := re.fullmatch("([1-9][0-9]{0,8})?([KMGT]?)", block)) is None:
        raise NotSimulated(f"blocks of '{block[:40]}' are not supported here")
    unit = int(found[1] or 1) * 1024 ** " KMGT".index(found[2] or " ")
    titles = _DF_COLUMNS | {"size": "Size" if is_human else f"{block}-blocks"}
    titles["avail"] = "Avail" if options.has("h", "m", "B", "output") else "Available"
    # GNU leaves room for a common device name, and for five digits.
    room = {"source": "<14", "size": ">5", "used": ">5", "avail": ">5"}
    rows = [titles]
    for disk in disks:
        inodes, used = disk.n_inodes, disk.inodes_used
        if used is None:
            used = 31_000 + sum(call.machine.disks.disk_of(path) is disk for path in call.files)
        counts = {"itotal": inodes, "iused": used, "iavail": inodes - used}
        sizes = {"size": disk.size, "used": disk.used, "avail": disk.size - disk.used}
        rows.append({
            "source": disk.device, "fstype": "ext4", "target": disk.mount,
            **{name: human(count) if is_human else str(count) for name, count in counts.items()},
            **{name: human(size) if is_human else str(-(-size // unit)) for name, size in sizes.items()},
            "ipcent": f"{-(-used * 100 // inodes)}%", "pcent": f"{-(-disk.used * 100 // max(1, disk.size))}%",
        })  # fmt: skip
    shown = [[f"{row[name]:{room.get(name, '')}}" for name in columns] for row in rows]
    left = [
        index for index, column in enumerate(columns) if column in ("source", "fstype", "target")
    ]
    return call.print(table(shown, left), code)


@command("free")
def free(call: Call) -> int:
    options, memory = call.options, call.machine.memory()
    if options.has("s") and not options.has("c"):
        raise NotSimulated("without '-c' it would never end; leave '-s' out")
    names, values = (
        ["total", "used", "free", "shared", "buff/cache", "available"],
        list(memory)[:6],
    )
    if options.has("w"):
        names[4:5] = ["buffers", "cache"]
        values[4:5] = [memory.cache // 10, memory.cache - memory.cache // 10]
    unit = (
        1
        if options.has("b")
        else 1024**2
        if options.has("m")
        else 1024**3
        if options.has("g")
        else 1024
    )
    swap = [memory.swap_total, memory.swap_used, memory.swap_free]
    lines = {"Mem:": values, "Swap:": swap}
    if options.has("t"):
        lines["Total:"] = [a + b for a, b in zip(values[:3], swap, strict=True)]
    call.print(" " * 7 + "".join(f"{name:>12}" for name in names) + "\n")
    for title, sizes in lines.items():
        texts = [human(size) + ("i" if size >= 1024 else "B") for size in sizes]
        texts = texts if options.has("h") else [str(size // unit) for size in sizes]
        call.print(f"{title:<7}" + "".join(f"{text:>12}" for text in texts) + "\n")
    return 0


@command("uptime")
def uptime(call: Call) -> int:
    machine = call.machine
    if call.options.has("s"):
        return call.print(format_moment(machine.clock.moment(machine.booted_s), "%F %T\n"))
    days, rest = divmod(machine.uptime_s, 86_400)
    pretty = (
        f"up {days // 7} weeks, {days % 7} days, {rest // 3600} hours, {rest // 60 % 60} minutes"
    )
    return call.print(f"{pretty if call.options.has('p') else summary_line(machine)}\n")


def summary_line(machine: Machine) -> str:
    days, rest = divmod(machine.uptime_s, 86_400)
    up = f"{machine.clock.moment():%H:%M:%S} up {days} days, {rest // 3600:>2}:{rest // 60 % 60:02}"
    return f" {up},  1 user,  load average: {', '.join(f'{load:.2f}' for load in machine.loads())}"


@command("uname")
def uname(call: Call) -> int:
    parts: dict[str, str] = TABLE["uname"]["parts"]
    wanted = (
        "snrvmo"
        if call.options.has("a")
        else [letter for letter in parts if call.options.has(letter)] or ["s"]
    )
    shown = " ".join(parts[letter] for letter in wanted)
    return call.print(shown.format(host=call.machine.host, release=RELEASE) + "\n")


@command("id")
def identity(call: Call) -> int:
    options, known = call.options, call.machine.users()
    user = options.operands[0] if options.operands else call.machine.ledger.user
    if user not in known:
        raise Refusal(f"'{user[:60]}': no such user")
    shown = "uid={0}({1}) gid={0}({1}) groups={0}({1})\n".format(known[user], user)
    named = f"{user if options.has('n') else known[user]}\n"
    return call.print(named if options.has("u", "g", "G") else shown)


@command("hostname")
def hostname(call: Call) -> int:
    if call.options.operands:
        raise Refusal("you must be root to change the host name")
    address = f"10.0.0.{call.machine.draw(10, 250, 'address')}"
    return call.print(f"{address if call.options.has('I') else call.machine.host}\n")


@command("nproc")
def nproc(call: Call) -> int:
    return call.print(f"{call.machine.spec.cpus}\n")
