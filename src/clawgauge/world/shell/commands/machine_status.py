"""Commands that ask how the machine is: df, free, uptime, uname, whoami, id, hostname, date, nproc.

Owns: their output, as GNU and procps print it. Refuses: setting anything.
"""

from __future__ import annotations

import datetime as dt
import re

from clawgauge.world.refusals import FileFault
from clawgauge.world.shell.call import Call, UsageFault
from clawgauge.world.shell.commands.sizes import human
from clawgauge.world.shell.options import parse_options

_RELEASE = "6.8.0-52-generic"
_BOOT_AGE_S = 12 * 86_400
_SHIFT = re.compile(r"(?:(?P<sign>[+-])?(?P<number>\d{1,6}) (?P<unit>second|minute|hour|day|week)s?(?P<ago> ago)?)")
_WORDS = {"today": 0, "now": 0, "yesterday": -1, "tomorrow": 1}
_UNIT_S = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}


def df(call: Call) -> int:
    options = parse_options(call.args, "hkmPTaiH", "txB", {"human-readable": "h", "output": "o", "type": "t"})
    disks = list(call.machine.disks)
    if options.operands:
        try:
            for operand in options.operands:
                call.machine.files.node(call.resolve(operand))
        except FileFault as fault:
            return call.complain(f"{options.operands[0]}: {fault}")
        disks = [call.machine.disks.disk_of(call.resolve(operand)) for operand in options.operands]
    is_human = options.has("h", "H")
    rows = [["Filesystem", "Size" if is_human else "1K-blocks", "Used", "Avail" if is_human else "Available", "Use%"]]
    for disk in disks:
        sizes = (disk.size, disk.used, disk.size - disk.used)
        percent = f"{-(-disk.used * 100 // disk.size) if disk.size else 0}%"
        rows.append([disk.device, *(human(size) if is_human else str(size // 1024) for size in sizes), percent])
    mounts = ["Mounted on", *(disk.mount for disk in disks)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row, mount in zip(rows, mounts, strict=True):
        cells = [
            f"{row[0]:<{widths[0]}}",
            *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        call.print(" ".join([*cells, mount]) + "\n")
    return 0


def free(call: Call) -> int:
    options = parse_options(call.args, "hmgbkwt", "s", {"human": "h", "mebi": "m", "gibi": "g"})
    total = call.machine.ram_mb * 1024**2
    used = min(total, 180 * 1024**2 + int(sum(p.memory_mb for p in call.machine.processes) * 1024**2))
    cache = (total - used) // 3
    values = [total, used, total - used - cache, 2 * 1024**2, cache, total - used]

    def shown(size: int) -> str:
        if options.has("h"):
            text = human(size)
            return text + "i" if text[-1] in "KMGT" else f"{text}B"
        return str(
            size // (1 if options.has("b") else 1024**2 if options.has("m") else 1024**3 if options.has("g") else 1024)
        )

    names = ("total", "used", "free", "shared", "buff/cache", "available")
    call.print(" " * 7 + "".join(f"{name:>12}" for name in names).rstrip() + "\n")
    call.print("Mem:   " + "".join(f"{shown(value):>12}" for value in values) + "\n")
    call.print("Swap:  " + "".join(f"{shown(0):>12}" for _ in range(3)) + "\n")
    return 0


def load_of(call: Call) -> tuple[float, float, float]:
    """The load averages that fit what runs now."""
    busy = sum(process.cpu for process in call.machine.processes) / 100
    return busy + 0.04, busy * 0.9 + 0.05, busy * 0.8 + 0.05


def uptime(call: Call) -> int:
    options = parse_options(call.args, "ps", long={"pretty": "p", "since": "s"})
    up_s = call.machine.clock.now_s - call.machine.clock.start_s + _BOOT_AGE_S
    days, rest = divmod(up_s, 86_400)
    if options.has("p"):
        call.print(f"up {days} days, {rest // 3600} hours, {rest // 60 % 60} minutes\n")
        return 0
    loads = ", ".join(f"{load:.2f}" for load in load_of(call))
    clock = f"{call.machine.clock.moment():%H:%M:%S}"
    call.print(f" {clock} up {days} days, {rest // 3600:>2}:{rest // 60 % 60:02},  1 user,  load average: {loads}\n")
    return 0


def uname(call: Call) -> int:
    options = parse_options(call.args, "asnrvmpio", long={"all": "a"})
    parts = {
        "s": "Linux",
        "n": call.machine.host,
        "r": _RELEASE,
        "v": "#53-Ubuntu SMP",
        "m": "x86_64",
        "o": "GNU/Linux",
    }
    wanted = parts if options.has("a") else [letter for letter in parts if options.has(letter)] or ["s"]
    call.print(" ".join(parts[letter] for letter in wanted) + "\n")
    return 0


def whoami(call: Call) -> int:
    call.print(f"{call.machine.user}\n")
    return 0


def identity(call: Call) -> int:
    options = parse_options(call.args, "ungG")
    user = call.machine.user
    number = 0 if user == "root" else 1000
    if options.flags:
        call.print(f"{user if options.has('n') else number}\n")
    else:
        call.print(f"uid={number}({user}) gid={number}({user}) groups={number}({user})\n")
    return 0


def hostname(call: Call) -> int:
    parse_options(call.args, "fsI")
    call.print(f"{call.machine.host}\n")
    return 0


def nproc(call: Call) -> int:
    call.print("2\n")
    return 0


def date(call: Call) -> int:
    options = parse_options(call.args, "uR", "d", {"utc": "u", "date": "d", "iso-8601": "I"}) if call.args else None
    moment = call.machine.clock.moment()
    form = "+%a %b %e %H:%M:%S UTC %Y"
    if options is not None:
        moment = _moment(moment, options.value("d", "now"))
        form = next((operand for operand in options.operands if operand.startswith("+")), form)
        form = "+%F" if options.has("I") else form
    call.print(_format_date(moment, form[1:]) + "\n")
    return 0


def _moment(now: dt.datetime, text: str) -> dt.datetime:
    text = text.strip().lower()
    if text in _WORDS:
        return now + dt.timedelta(days=_WORDS[text])
    if text.startswith("@") and text[1:].isdecimal() and len(text) < 12:
        return dt.datetime.fromtimestamp(int(text[1:]), dt.UTC)
    shift = _SHIFT.fullmatch(text)
    if shift is not None:
        backward = (shift["sign"] == "-") != bool(shift["ago"])
        seconds = int(shift["number"]) * _UNIT_S[shift["unit"]] * (-1 if backward else 1)
        try:
            return now + dt.timedelta(seconds=seconds)
        except OverflowError:
            raise UsageFault(f"invalid date '{text[:40]}'", 1) from None
    try:
        return dt.datetime.fromisoformat(text.upper()).replace(tzinfo=dt.UTC)
    except ValueError:
        raise UsageFault(f"invalid date '{text[:40]}'", 1) from None


_DATE_PARTS = {
    "Y": "%Y", "m": "%m", "d": "%d", "H": "%H", "M": "%M", "S": "%S", "y": "%y", "j": "%j", "a": "%a", "A": "%A",
    "b": "%b", "B": "%B", "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "u": "%u", "w": "%w", "p": "%p", "I": "%I",
    "V": "%V", "D": "%m/%d/%y", "h": "%b",
}  # fmt: skip


def _format_date(moment: dt.datetime, form: str) -> str:
    def fill(found: re.Match[str]) -> str:
        letter = found[1]
        special = {"s": str(int(moment.timestamp())), "e": f"{moment.day:>2}", "n": "\n", "t": "\t", "%": "%"}
        special |= {"Z": "UTC", "z": "+0000", "N": "000000000"}
        if letter in special:
            return special[letter]
        # `%Y` of a year before 1000 is not padded by every C library, so no such year is made here.
        return moment.strftime(_DATE_PARTS[letter]) if letter in _DATE_PARTS else found[0]

    return re.sub(r"%-?(.)", fill, form, flags=re.DOTALL)
