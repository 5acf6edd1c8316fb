"""Commands that ask how the machine is: df, free, uptime, uname, id, hostname, nproc."""

from __future__ import annotations

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, human, read_size, table
from clawgauge.world.commands.dates import format_moment
from clawgauge.world.files import Disk
from clawgauge.world.machine import RELEASE, Machine

_DF_COLUMNS = {
    "source": "Filesystem", "fstype": "Type", "itotal": "Inodes", "iused": "IUsed", "iavail": "IFree",
    "ipcent": "IUse%", "size": "", "used": "Used", "avail": "", "pcent": "Use%", "target": "Mounted on",
}  # fmt: skip


@command("df")
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
    columns = ["source", "itotal", "iused", "iavail", "ipcent", "target"] if options.has("i") else columns
    columns = options.members("output") or columns
    for name in columns:
        if name not in _DF_COLUMNS:
            raise UsageFault(f"option --output: field '{name[:40]}' unknown")
    block, titles = options.value("B", "1M" if options.has("m") else "1K"), dict(_DF_COLUMNS)
    titles["size"] = "Size" if options.has("h") else f"{block}-blocks"
    titles["avail"] = "Avail" if options.has("h", "m", "B", "output") else "Available"
    unit = max(1, read_size(block if block[:1].isdecimal() else f"1{block}"))
    # GNU leaves room for a common device name, and for five digits.
    room = {"source": "<14", "size": ">5", "used": ">5", "avail": ">5"}
    rows = [titles, *(_df_cells(call, disk, unit) for disk in disks)]
    shown = [[f"{row[name]:{room.get(name, '')}}" for name in columns] for row in rows]
    left = [index for index, column in enumerate(columns) if column in ("source", "fstype", "target")]
    return call.print(table(shown, left), code)


def _df_cells(call: Call, disk: Disk, unit: int) -> dict[str, str]:
    inodes, used, is_human = max(1, disk.size // 16_384), disk.inodes_used, call.options.has("h")
    if used is None:
        used = 31_000 + sum(call.machine.disks.disk_of(path) is disk for path in call.files)
    counts = {"itotal": inodes, "iused": used, "iavail": inodes - used}
    sizes = {"size": disk.size, "used": disk.used, "avail": disk.size - disk.used}
    return {
        "source": disk.device, "fstype": "ext4", "target": disk.mount,
        **{name: human(count) if is_human else str(count) for name, count in counts.items()},
        **{name: human(size) if is_human else str(-(-size // unit)) for name, size in sizes.items()},
        "ipcent": f"{-(-used * 100 // inodes)}%", "pcent": f"{-(-disk.used * 100 // max(1, disk.size))}%",
    }  # fmt: skip


@command("free")
def free(call: Call) -> int:
    options, memory = call.options, call.machine.memory()
    if options.has("s") and not options.has("c"):
        raise NotSimulated("without '-c' it would never end; leave '-s' out")
    names, values = ["total", "used", "free", "shared", "buff/cache", "available"], list(memory[:6])
    if options.has("w"):
        names[4:5] = ["buffers", "cache"]
        values[4:5] = [memory.cache // 10, memory.cache - memory.cache // 10]
    unit = 1 if options.has("b") else 1024**2 if options.has("m") else 1024**3 if options.has("g") else 1024
    swap = [memory.swap_total, memory.swap_used, memory.swap_total - memory.swap_used]
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
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    pretty = f"up {days // 7} weeks, {days % 7} days, {rest // 3600} hours, {rest // 60 % 60} minutes"
    return call.print(f"{pretty if call.options.has('p') else summary_line(machine)}\n")


def summary_line(machine: Machine) -> str:
    """The first line of uptime and top."""
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    up = f"{machine.clock.moment():%H:%M:%S} up {days} days, {rest // 3600:>2}:{rest // 60 % 60:02}"
    return f" {up},  1 user,  load average: {', '.join(f'{load:.2f}' for load in machine.loads())}"


@command("uname")
def uname(call: Call) -> int:
    parts = {
        "s": "Linux", "n": call.machine.host, "r": RELEASE, "v": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.128-1 (2025-02-07)",
        "m": "x86_64", "p": "unknown", "i": "unknown", "o": "GNU/Linux",
    }  # fmt: skip
    wanted = [letter for letter in parts if call.options.has(letter)] or ["s"]
    return call.print(" ".join(parts[letter] for letter in ("snrvmo" if call.options.has("a") else wanted)) + "\n")


@command("id")
def identity(call: Call) -> int:
    options, known = call.options, call.machine.users()
    user = options.operands[0] if options.operands else call.files.user
    if user not in known:
        raise UsageFault(f"'{user[:60]}': no such user")
    shown = "uid={0}({1}) gid={0}({1}) groups={0}({1})\n".format(known[user], user)
    named = f"{user if options.has('n') else known[user]}\n"
    return call.print(named if options.has("u", "g", "G") else shown)


@command("hostname")
def hostname(call: Call) -> int:
    if call.options.operands:
        raise UsageFault("you must be root to change the host name")
    address = f"10.0.0.{call.machine.incidentals.between(10, 250, 'address')}"
    return call.print(f"{address if call.options.has('I') else call.machine.host}\n")


@command("nproc")
def nproc(call: Call) -> int:
    return call.print(f"{call.machine.spec.cpus}\n")
