"""Commands that ask how the machine is: date, df, free, uptime, uname, id, hostname, vmstat and their like.

`date` goes by the world's own clock and reads the dates people write after `-d`.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re

from clawgauge.world.commands.call import (
    Call,
    NotSimulated,
    UsageFault,
    command,
    human,
    read_options,
    read_size,
    table,
)
from clawgauge.world.files import Disk
from clawgauge.world.machine import RELEASE

_UNITS = {
    "sec": 1, "second": 1, "min": 60, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800,
    "fortnight": 1_209_600,
}  # fmt: skip
_WEEKDAYS = [name.lower() for name in calendar.day_name]
_MONTHS = [name.lower() for name in calendar.month_name]
_DAYS = {"now": 0, "today": 0, "yesterday": -1, "tomorrow": 1}
_COUNTS = {"last": -1, "this": 0, "next": 1, "a": 1, "an": 1}
_TOKEN = re.compile(
    r"[\s,]*(?:(?P<epoch>@-?\d{1,12}(?:\.\d+)?)"
    r"|(?P<iso>\d{4}-\d{1,2}-\d{1,2})(?=$|[ t+-])t?"
    r"|(?P<compact>\d{8})(?=$|\s)"
    r"|(?P<us>\d{1,2}/\d{1,2}(?:/\d{4})?)"
    r"|(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?\s*(?P<half>[ap]m)?|\s*(?P<bare_half>[ap]m))"
    r"|(?P<zone>z|utc|gmt|[+-]00:?00)(?=$|\s)"
    r"|(?P<shift>[+-]?\s*\d{1,6})\s*(?P<unit>sec|second|min|minute|hour|day|week|fortnight|month|year)s?\b(?P<ago>\s+ago\b)?"
    r"|(?P<number>\d{1,4})(?:st|nd|rd|th)?\b"
    r"|(?P<word>[a-z]+)\.?,?)\s*"
)
_FORMATS = {
    "c": "%a %b %e %H:%M:%S %Y", "D": "%m/%d/%y", "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "r": "%I:%M:%S %p",
    "h": "%b", "x": "%m/%d/%y", "X": "%H:%M:%S",
}  # fmt: skip
_ISO = {
    "date": "%F", "hours": "%FT%H+00:00", "minutes": "%FT%H:%M+00:00", "seconds": "%FT%T+00:00",
    "ns": "%FT%T,%N+00:00",
}  # fmt: skip


@command("date", raw=True)
def date(call: Call) -> int:
    args = [{"-I": "-Idate", "--iso-8601": "-Idate", "--rfc-2822": "-R"}.get(arg, arg) for arg in call.args]
    options = read_options(
        args, flags="R", valued="drIs", idle="u", idle_words="utc universal",
        long="date:d= reference:r= rfc-email:R iso-8601:I= rfc-3339= set:s=",
    )  # fmt: skip
    if options.has("s"):
        raise UsageFault("cannot set date: Operation not permitted")
    moment = call.machine.clock.moment()
    if options.has("d"):
        moment = read_moment(moment, options.value("d"))
    elif options.has("r"):
        moment = call.machine.clock.moment(call.files.node(call.resolve(options.value("r"))).modified_s)
    form = "%a, %d %b %Y %H:%M:%S +0000" if options.has("R") else "%a %b %e %H:%M:%S UTC %Y"
    form = _ISO.get(options.value("I"), form)
    form = _ISO[options.value("rfc-3339")].replace("T%", " %") if options.value("rfc-3339") in _ISO else form
    for operand in options.operands:
        if not operand.startswith("+"):
            raise UsageFault(f"invalid date '{operand[:40]}'")
        form = operand[1:]
    return call.print(format_moment(moment, form) + "\n")


def read_moment(now: dt.datetime, text: str) -> dt.datetime:
    """What GNU date makes of a text: a date, a time, and steps from there, in any order."""
    reading, position, text = _Reading(now), 0, text.strip().lower()
    try:
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(text)
            position = found.end()
            reading.take(found)
        return reading.moment()
    except (ValueError, OverflowError, OSError):
        raise UsageFault(f"invalid date '{text[:60]}'") from None


class _Reading:
    """What has been understood of a date so far."""

    def __init__(self, now: dt.datetime) -> None:
        self.now = now
        self.day: dt.date | None = None
        self.time: dt.time | None = None
        self.weekday: tuple[int, int] | None = None
        self.month: int | None = None
        self.numbers: list[int] = []
        self.shifts: list[tuple[int, str]] = []
        self.count: int | None = None

    def take(self, found: re.Match[str]) -> None:
        """Understand one token; raises ValueError for what is none."""
        if found["epoch"]:
            self.now = dt.datetime.fromtimestamp(int(float(found["epoch"][1:])), dt.UTC)
            self.day, self.time = self.now.date(), self.now.time()
        elif found["iso"]:
            self.day = dt.date(*map(int, found["iso"].split("-")))
        elif found["compact"]:
            self.day = dt.date.fromisoformat(found["compact"])
        elif found["us"]:
            month, day, *years = (int(part) for part in found["us"].split("/"))
            self.day = dt.date(years[0] if years else self.now.year, month, day)
        elif found["hour"]:
            hour, half = int(found["hour"]), found["half"] or found["bare_half"]
            hour = hour if half is None else hour % 12 + (12 if half == "pm" else 0)
            self.time = dt.time(hour, int(found["minute"] or 0), int(found["second"] or 0))
        elif found["shift"]:
            amount = int("".join(found["shift"].split()))
            self.shifts.append((-amount if found["ago"] else amount, found["unit"]))
        elif found["number"]:
            self.numbers.append(int(found["number"]))
        elif found["word"]:
            self._take_word(found["word"])

    def _take_word(self, word: str) -> None:
        unit = word.removesuffix("s")
        weekday, month = (
            next((index for index, name in enumerate(names) if len(word) >= 3 and name.startswith(word)), None)
            for names in (_WEEKDAYS, _MONTHS)
        )
        if word in _DAYS:
            self.shifts.append((_DAYS[word], "day"))
        elif word in ("midnight", "noon"):
            self.time = dt.time(12 if word == "noon" else 0)
        elif word in _COUNTS:
            self.count = _COUNTS[word]
        elif word == "ago" and self.shifts:
            self.shifts[-1] = (-self.shifts[-1][0], self.shifts[-1][1])
        elif unit in _UNITS or unit in ("month", "year"):
            self.shifts.append((1 if self.count is None else self.count, unit))
            self.count = None
        elif weekday is not None:
            self.weekday, self.count = (weekday, self.count or 0), None
        elif month is not None:
            self.month = month
        else:
            raise ValueError(word)

    def moment(self) -> dt.datetime:
        """The moment that all of it means."""
        if self.month is not None:
            years = [number for number in self.numbers if number > 31] or [self.now.year]
            days = [number for number in self.numbers if number <= 31] or [1]
            self.day = dt.date(years[0], self.month, days[0])
        elif self.numbers:
            raise ValueError(self.numbers)
        # A date alone, or a day of the week, begins at midnight; steps alone keep the time of day.
        is_dated = self.day is not None or self.weekday is not None
        time = self.time if self.time is not None else dt.time(0) if is_dated else self.now.time()
        moment = dt.datetime.combine(self.day or self.now.date(), time, dt.UTC)
        if self.weekday is not None:
            ahead = (self.weekday[0] - moment.weekday()) % 7
            weeks = self.weekday[1] - 1 if self.weekday[1] > 0 and ahead else self.weekday[1]
            moment += dt.timedelta(days=ahead + 7 * weeks)
        for amount, unit in self.shifts:
            if unit in _UNITS:
                moment += dt.timedelta(seconds=amount * _UNITS[unit])
                continue
            months = moment.month - 1 + amount * (12 if unit == "year" else 1)
            first = moment.replace(year=moment.year + months // 12, month=months % 12 + 1, day=1)
            # A day that the month has not is one of the next month, as in date(1).
            moment = first + dt.timedelta(days=moment.day - 1)
        return moment


def format_moment(moment: dt.datetime, form: str) -> str:
    """`form` filled as date(1) fills it."""
    special = {
        "s": str(int(moment.timestamp())), "e": f"{moment.day:>2}", "k": f"{moment.hour:>2}", "Y": str(moment.year),
        "q": str((moment.month + 2) // 3), "l": f"{(moment.hour - 1) % 12 + 1:>2}", "n": "\n", "t": "\t", "%": "%",
        "Z": "UTC", "z": "+0000", "N": "000000000", "3N": "000", "P": f"{moment:%p}".lower(),
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        flag, letter = found[1], found[2]
        if letter in special:
            text = special[letter]
        elif letter in _FORMATS:
            text = format_moment(moment, _FORMATS[letter])
        elif letter in "YmdHMSyjaAbBuwpIVUWGgC":
            text = moment.strftime(f"%{letter}")
        else:
            return found[0]
        if flag == "-":
            return text.lstrip("0 ") or "0"
        return text.upper() if flag == "^" else text.replace(" ", "0") if flag == "0" else text

    return re.sub(r"%([-_^0#]?):?(3N|.)", fill, form, flags=re.DOTALL)


# --- disks and memory ------------------------------------------------------------------------------------------------

_DF_COLUMNS = {
    "source": "Filesystem", "fstype": "Type", "itotal": "Inodes", "iused": "IUsed", "iavail": "IFree",
    "ipcent": "IUse%",
    "size": "1K-blocks", "used": "Used", "avail": "Available", "pcent": "Use%", "file": "File", "target": "Mounted on",
}  # fmt: skip


@command(
    "df", flags="hHmTi", valued="txB",
    long="human-readable:h si:H output output= type:t= exclude-type:x= print-type:T inodes:i all:a local:l total "
    "block-size:B= portability:P", idle="Pakl", idle_words="sync no-sync",
)  # fmt: skip
def df(call: Call) -> int:
    options, disks, code = call.options, list(call.machine.disks), 0
    if options.operands:
        disks = []

        def work(operand: str) -> None:
            call.files.node(call.resolve(operand))
            disks.append(call.machine.disks.disk_of(call.resolve(operand)))

        code = call.each(options.operands, work)
    if (options.has("t") and "ext4" not in options.all("t")) or "ext4" in options.all("x"):
        disks = []
    if not disks:
        return code or call.complain("no file systems processed")
    columns = ["source", *(["fstype"] if options.has("T") else []), "size", "used", "avail", "pcent", "target"]
    if options.has("output"):
        columns = options.members("output") or list(_DF_COLUMNS)
    elif options.has("i"):
        columns = ["source", "itotal", "iused", "iavail", "ipcent", "target"]
    for name in columns:
        if name not in _DF_COLUMNS:
            raise UsageFault(f"option --output: field '{name[:40]}' unknown")
    titles = dict(_DF_COLUMNS)
    if options.has("h", "H", "m", "B", "output"):
        titles["avail"] = "Avail"
    unit = f"{options.value('B')}-blocks" if options.has("B") else "1M-blocks" if options.has("m") else titles["size"]
    titles["size"] = "Size" if options.has("h", "H") else unit
    if options.has("total"):
        disks.append(Disk("total", "-", sum(disk.size for disk in disks), sum(disk.used for disk in disks)))
    # GNU leaves room for a common device name, and for five digits.
    widths = {"source": -14, "size": 5, "used": 5, "avail": 5}
    rows = [titles, *(_df_cells(call, disk) for disk in disks)]
    shown = [
        [f"{row[name]:{'<' if widths.get(name, 0) < 0 else '>'}{abs(widths.get(name, 0))}}" for name in columns]
        for row in rows
    ]
    left = [index for index, column in enumerate(columns) if column in ("source", "fstype", "target", "file")]
    return call.print(table(shown, left), code)


def _df_cells(call: Call, disk: Disk) -> dict[str, str]:
    options = call.options
    inodes = max(1, disk.size // 16_384)
    used = call.machine.n_files_on(disk) if disk.inodes_used is None else disk.inodes_used
    unit = 1024**2 if options.has("m") else 1024
    if options.has("B"):
        text = options.value("B")
        unit = max(1, read_size(text if text[:1].isdecimal() else f"1{text}"))

    def shown(size: int) -> str:
        if options.has("H"):
            return human(size * 1024 // 1000) if size >= 1000 else str(size)
        return human(size) if options.has("h") else str(-(-size // unit))

    def count(number: int) -> str:
        return human(number) if options.has("h") else str(number)

    return {
        "source": disk.device, "fstype": "ext4", "target": disk.mount, "file": "-", "itotal": count(inodes),
        "iused": count(used), "iavail": count(inodes - used), "ipcent": f"{-(-used * 100 // inodes)}%",
        "size": shown(disk.size), "used": shown(disk.used), "avail": shown(disk.size - disk.used),
        "pcent": f"{-(-disk.used * 100 // disk.size) if disk.size else 0}%",
    }  # fmt: skip


@command(
    "free", flags="hmgbwt", valued="sc",
    long="human:h mebi:m mega:m gibi:g giga:g bytes:b kibi:k kilo:k wide:w total:t seconds:s= count:c= lohi:l",
    idle="kl",
)  # fmt: skip
def free(call: Call) -> int:
    options, memory = call.options, call.machine.memory()
    if options.has("s") and not options.has("c"):
        raise NotSimulated("without '-c' it would never end; leave '-s' out")
    names = ["total", "used", "free", "shared", "buff/cache", "available"]
    values = [memory.total, memory.used, memory.free, memory.shared, memory.cache, memory.available]
    if options.has("w"):
        names[4:5] = ["buffers", "cache"]
        values[4:5] = [memory.cache // 10, memory.cache - memory.cache // 10]
    unit = 1 if options.has("b") else 1024**2 if options.has("m") else 1024**3 if options.has("g") else 1024

    def line(title: str, sizes: list[int]) -> None:
        texts = [human(size) + ("i" if size >= 1024 else "B") for size in sizes]
        texts = texts if options.has("h") else [str(size // unit) for size in sizes]
        call.print(f"{title:<7}" + "".join(f"{text:>12}" for text in texts) + "\n")

    call.print(" " * 7 + "".join(f"{name:>12}" for name in names) + "\n")
    swap = [memory.swap_total, memory.swap_used, memory.swap_total - memory.swap_used]
    line("Mem:", values)
    line("Swap:", swap)
    if options.has("t"):
        line("Total:", [a + b for a, b in zip(values[:3], swap, strict=True)])
    return 0


@command("vmstat", valued="S", long="wide:w unit:S=", idle="aw")
def vmstat(call: Call) -> int:
    unit = 1024**2 if call.options.value("S").upper() == "M" else 1024
    memory, processes = call.machine.memory(), list(call.machine.processes)
    running = sum(process.cpu > 50 for process in processes)
    busy = min(100, int(sum(process.cpu for process in processes) / call.machine.n_cpus))
    call.print("procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n")
    call.print(" r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n")
    line = (
        f"{running:>2}  0 {memory.swap_used // unit:>6} {memory.free // unit:>6} {memory.cache // 10 // unit:>6} "
        f"{memory.cache // unit:>6}    0    0     4    11   52   98 {busy:>2}  1 {max(0, 99 - busy):>2}  0  0\n"
    )
    count = (call.options.operands[1:2] or ["1"])[0]
    return call.print(line * min(20, int(count) if count.isdecimal() and len(count) < 4 else 1))


@command("lsblk", flags="fpnb", valued="o", long="fs:f paths:p noheadings:n output:o= bytes:b", idle="al")
def lsblk(call: Call) -> int:
    options = call.options
    default = "NAME,FSTYPE,FSAVAIL,FSUSE%,MOUNTPOINTS" if options.has("f") else "NAME,SIZE,TYPE,MOUNTPOINTS"
    columns = options.value("o", default).upper().split(",")
    rows = [] if options.has("n") else [columns]
    with_path, as_bytes = options.has("p"), options.has("b")
    for disk in call.machine.disks:
        sizes = {"SIZE": disk.size, "FSSIZE": disk.size, "FSUSED": disk.used, "FSAVAIL": disk.size - disk.used}
        texts = {name: str(size) if as_bytes else human(size) for name, size in sizes.items()} | {
            "NAME": disk.device if with_path else disk.device.removeprefix("/dev/"), "TYPE": "part", "FSTYPE": "ext4",
            "MOUNTPOINT": disk.mount, "MOUNTPOINTS": disk.mount,
            "FSUSE%": f"{-(-disk.used * 100 // max(1, disk.size))}%",
        }  # fmt: skip
        for column in columns:
            if column not in texts:
                raise UsageFault(f"unknown column: {column[:40]}")
        rows.append([texts[column] for column in columns])
    return call.print(table(rows, [0, len(columns) - 1]))


@command("mount", "findmnt", idle="l")
def mount(call: Call) -> int:
    if call.options.operands:
        raise NotSimulated("only the list of mounted file systems can be shown here")
    return call.print("".join(f"{d.device} on {d.mount} type ext4 (rw,relatime)\n" for d in call.machine.disks))


# --- the machine and who is on it ------------------------------------------------------------------------------------


@command("uptime", flags="ps", long="pretty:p since:s")
def uptime(call: Call) -> int:
    machine = call.machine
    if call.options.has("s"):
        return call.print(format_moment(machine.clock.moment(machine.booted_s), "%F %T\n"))
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    pretty = f"up {days // 7} weeks, {days % 7} days, {rest // 3600} hours, {rest // 60 % 60} minutes"
    return call.print(f"{pretty if call.options.has('p') else summary_line(call)}\n")


def summary_line(call: Call) -> str:
    """The first line of uptime, w and top."""
    machine = call.machine
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    loads = ", ".join(f"{load:.2f}" for load in machine.loads())
    clock = f"{machine.clock.moment():%H:%M:%S}"
    return f" {clock} up {days} days, {rest // 3600:>2}:{rest // 60 % 60:02},  1 user,  load average: {loads}"


@command("w", "who", "users", idle="Habhqsu")
def who(call: Call) -> int:
    user = call.machine.user
    since = format_moment(call.machine.clock.moment(call.machine.clock.start_s - 1_800), "%Y-%m-%d %H:%M")
    if call.name != "w":
        return call.print(f"{user}\n" if call.name == "users" else f"{user:<8} pts/0        {since} (10.0.0.2)\n")
    call.print(f"{summary_line(call)}\nUSER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n")
    return call.print(f"{user:<8} pts/0    10.0.0.2         {since[-5:]}    0.00s  0.04s  0.00s -bash\n")


@command(
    "uname", flags="asnrvmpio", long="all:a kernel-name:s nodename:n kernel-release:r machine:m operating-system:o "
    "kernel-version:v processor:p hardware-platform:i",
)  # fmt: skip
def uname(call: Call) -> int:
    parts = {
        "s": "Linux", "n": call.machine.host, "r": RELEASE, "v": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.128-1 (2025-02-07)",
        "m": "x86_64", "p": "unknown", "i": "unknown", "o": "GNU/Linux",
    }  # fmt: skip
    wanted = [letter for letter in parts if call.options.has(letter)] or ["s"]
    return call.print(" ".join(parts[letter] for letter in ("snrvmo" if call.options.has("a") else wanted)) + "\n")


@command("id", flags="ungG", long="user:u name:n group:g groups:G real:r", idle="r")
def identity(call: Call) -> int:
    options, known = call.options, call.machine.users()
    user = options.operands[0] if options.operands else call.files.user
    if user not in known:
        raise UsageFault(f"'{user[:60]}': no such user")
    if options.has("u", "g", "G"):
        return call.print(f"{user if options.has('n') else known[user]}\n")
    if options.has("n"):
        raise UsageFault("cannot print only names or real IDs in default format")
    return call.print("uid={0}({1}) gid={0}({1}) groups={0}({1})\n".format(known[user], user))


@command("hostname", flags="Iid", long="fqdn:f long:f short:s all-ip-addresses:I ip-address:i domain:d", idle="fs")
def hostname(call: Call) -> int:
    if call.options.operands:
        raise UsageFault("you must be root to change the host name")
    shown = call.machine.address if call.options.has("I", "i") else call.machine.host
    return call.print("" if call.options.has("d") else f"{shown}\n")


@command("nproc", long="all ignore=", idle_words="all")
def nproc(call: Call) -> int:
    return call.print(f"{max(1, call.machine.n_cpus - call.options.whole('ignore', 0))}\n")


@command("hostnamectl", "timedatectl", "lscpu")
def about(call: Call) -> int:
    if call.options.operands not in ([], ["status"]):
        raise NotSimulated(f"'{call.options.operands[0][:40]}' is not supported here")
    shown = format_moment(call.machine.clock.moment(), "%a %F %T UTC")
    rows = {
        "hostnamectl": {
            "Static hostname": call.machine.host, "Icon name": "computer-vm", "Chassis": "vm",
            "Operating System": "Debian GNU/Linux 12 (bookworm)", "Kernel": f"Linux {RELEASE}",
            "Architecture": "x86-64",
        },
        "timedatectl": {
            "Local time": shown, "Universal time": shown, "Time zone": "Etc/UTC (UTC, +0000)",
            "System clock synchronized": "yes", "NTP service": "active",
        },
        "lscpu": {
            "Architecture": "x86_64", "CPU op-mode(s)": "32-bit, 64-bit", "CPU(s)": str(call.machine.n_cpus),
            "Model name": "QEMU Virtual CPU", "Thread(s) per core": "1",
        },
    }[call.name]  # fmt: skip
    return call.print(table([[f"{title}:", text] for title, text in rows.items()], [1]))


@command("lsb_release", flags="adirc", long="all:a description:d id:i release:r codename:c", idle="s")
def lsb_release(call: Call) -> int:
    lines = {
        "i": "Distributor ID:\tDebian\n", "d": "Description:\tDebian GNU/Linux 12 (bookworm)\n", "r": "Release:\t12\n",
        "c": "Codename:\tbookworm\n",
    }  # fmt: skip
    return call.print("".join(line for letter, line in lines.items() if call.options.has(letter, "a")))


@command("dmesg", valued="ln", long="human:H ctime:T level:l=", idle="wHTklntx")
def dmesg(call: Call) -> int:
    return call.print(call.files.read("/var/log/kern.log") if call.files.exists("/var/log/kern.log") else "")
