"""Commands that ask how the machine is: df, free, uptime, uname, id, hostname, nproc."""

import re

from clawgauge.world.commands.call import TABLE, Call, NotSimulated, Options, command
from clawgauge.world.commands.dates import format_moment
from clawgauge.world.commands.layout import UNITS, human, in_units, table
from clawgauge.world.disks import Disk
from clawgauge.world.effects import Refusal
from clawgauge.world.machine import RELEASE, Machine

_DF_COLUMNS: dict[str, str] = TABLE["df"]["columns"]
_INODE_COLUMNS = ["source", "itotal", "iused", "iavail", "ipcent", "target"]
_LEFT_COLUMNS = ("source", "fstype", "target")
# GNU leaves room for a common device name, and for five digits.
_DF_ROOM = {"source": "<14", "size": ">5", "used": ">5", "avail": ">5"}
_FILE_SYSTEM = "ext4"
_SYSTEM_INODES = 31_000
_BLOCK = re.compile("([1-9][0-9]{0,8})?([KMGT]?)")
_DAY_S = 86_400


@command("df")
def df(call: Call) -> int:
    options = call.options
    disks: list[Disk] = []

    def work(_: str, path: str) -> None:
        call.files.node(path)
        disks.append(call.machine.disks.disk_of(path))

    code = call.each(options.operands, work)
    if not options.operands:
        disks += call.machine.disks
    is_unwanted = options.has("t") and _FILE_SYSTEM not in options.all("t")
    if is_unwanted or _FILE_SYSTEM in options.all("x"):
        disks = []
    if not disks:
        return code or call.complain("no file systems processed")
    columns = _df_columns(options)
    block = options.value("B", "1M" if options.has("m") else "1K")
    unit = _read_block(block)
    titles = dict(_DF_COLUMNS)
    titles["size"] = "Size" if options.has("h") else f"{block}-blocks"
    titles["avail"] = "Avail" if options.has("h", "m", "B", "output") else "Available"
    rows = []
    for row in (titles, *(_df_row(call, disk, unit) for disk in disks)):
        rows.append([f"{row[name]:{_DF_ROOM.get(name, '')}}" for name in columns])
    left = [index for index, name in enumerate(columns) if name in _LEFT_COLUMNS]
    return call.print(table(rows, left), code)


def _df_columns(options: Options) -> list[str]:
    columns = options.members("output")
    if not columns and options.has("i"):
        columns = _INODE_COLUMNS
    if not columns:
        file_system = ["fstype"] if options.has("T") else []
        columns = ["source", *file_system, "size", "used", "avail", "pcent", "target"]
    for name in columns:
        if name not in _DF_COLUMNS:
            raise Refusal(f"option --output: field '{name[:40]}' unknown")
    return columns


def _read_block(written: str) -> int:
    """The bytes of a block, given as `1K`, `M` or `512`."""
    block = _BLOCK.fullmatch(written)
    if block is None:
        raise NotSimulated(f"blocks of '{written[:40]}' are not supported here")
    power: int = UNITS.index(block[2] or " ")
    return int(block[1] or 1) * int(1024**power)


def _df_row(call: Call, disk: Disk, unit: int) -> dict[str, str]:
    is_human = call.options.has("h")
    inodes_used = disk.inodes_used
    if inodes_used is None:
        disks = call.machine.disks
        inodes_used = _SYSTEM_INODES + sum(disks.disk_of(path) is disk for path in call.files)
    row = {"source": disk.device, "fstype": _FILE_SYSTEM, "target": disk.mount}
    counts = {
        "itotal": disk.n_inodes,
        "iused": inodes_used,
        "iavail": disk.n_inodes - inodes_used,
    }
    for name, count in counts.items():
        row[name] = human(count) if is_human else str(count)
    sizes = {"size": disk.size, "used": disk.used, "avail": disk.size - disk.used}
    for name, size in sizes.items():
        row[name] = human(size) if is_human else str(in_units(size, unit))
    row["ipcent"] = f"{in_units(inodes_used * 100, disk.n_inodes)}%"
    row["pcent"] = f"{in_units(disk.used * 100, max(1, disk.size))}%"
    return row


@command("free")
def free(call: Call) -> int:
    options = call.options
    if options.has("s") and not options.has("c"):
        raise NotSimulated("without '-c' it would never end; leave '-s' out")
    memory = call.machine.memory()
    sizes = {
        "total": memory.total,
        "used": memory.used,
        "free": memory.free,
        "shared": memory.shared,
    }
    if options.has("w"):
        sizes["buffers"] = memory.cache // 10
        sizes["cache"] = memory.cache - memory.cache // 10
    else:
        sizes["buff/cache"] = memory.cache
    sizes["available"] = memory.available
    swap = [memory.swap_total, memory.swap_used, memory.swap_free]
    lines = {"Mem:": list(sizes.values()), "Swap:": swap}
    if options.has("t"):
        usage = [memory.total, memory.used, memory.free]
        lines["Total:"] = [of_ram + of_swap for of_ram, of_swap in zip(usage, swap, strict=True)]
    call.print(" " * 7 + "".join(f"{name:>12}" for name in sizes) + "\n")
    for title, line_sizes in lines.items():
        texts = [_free_size(options, size) for size in line_sizes]
        call.print(f"{title:<7}" + "".join(f"{text:>12}" for text in texts) + "\n")
    return 0


def _free_size(options: Options, size: int) -> str:
    if options.has("h"):
        return human(size) + ("i" if size >= 1024 else "B")
    if options.has("b"):
        return str(size)
    if options.has("m"):
        return str(size // 1024**2)
    if options.has("g"):
        return str(size // 1024**3)
    return str(size // 1024)


@command("uptime")
def uptime(call: Call) -> int:
    machine = call.machine
    if call.options.has("s"):
        return call.print(format_moment(machine.clock.moment(machine.booted_s), "%F %T\n"))
    if not call.options.has("p"):
        return call.print(f"{summary_line(machine)}\n")
    days, rest_s = divmod(machine.uptime_s, _DAY_S)
    hours, minutes = divmod(rest_s // 60, 60)
    return call.print(f"up {days // 7} weeks, {days % 7} days, {hours} hours, {minutes} minutes\n")


def summary_line(machine: Machine) -> str:
    """The line of `uptime`, with which `top` begins, too."""
    days, rest_s = divmod(machine.uptime_s, _DAY_S)
    hours, minutes = divmod(rest_s // 60, 60)
    now = f"{machine.clock.moment():%H:%M:%S}"
    loads = ", ".join(f"{load:.2f}" for load in machine.loads())
    return f" {now} up {days} days, {hours:>2}:{minutes:02},  1 user,  load average: {loads}"


@command("uname")
def uname(call: Call) -> int:
    parts: dict[str, str] = TABLE["uname"]["parts"]
    if call.options.has("a"):
        letters = list("snrvmo")
    else:
        letters = [letter for letter in parts if call.options.has(letter)] or ["s"]
    shown = " ".join(parts[letter] for letter in letters)
    return call.print(shown.format(host=call.machine.host, release=RELEASE) + "\n")


@command("id")
def identity(call: Call) -> int:
    options = call.options
    numbers = call.machine.users()
    user = options.operands[0] if options.operands else call.machine.ledger.user
    if user not in numbers:
        raise Refusal(f"'{user[:60]}': no such user")
    shown = user if options.has("n") else str(numbers[user])
    if options.has("u", "g", "G"):
        return call.print(f"{shown}\n")
    named = f"{numbers[user]}({user})"
    return call.print(f"uid={named} gid={named} groups={named}\n")


@command("hostname")
def hostname(call: Call) -> int:
    if call.options.operands:
        raise Refusal("you must be root to change the host name")
    if call.options.has("I"):
        return call.print(f"10.0.0.{call.machine.draw(10, 250, 'address')}\n")
    return call.print(f"{call.machine.host}\n")


@command("nproc")
def nproc(call: Call) -> int:
    return call.print(f"{call.machine.spec.cpus}\n")
