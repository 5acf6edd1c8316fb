"""Commands that ask how the machine is: df, free, uptime, uname, id, hostname, nproc."""

from __future__ import annotations

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, human, read_size, table
from clawgauge.world.commands.dates import format_moment
from clawgauge.world.files import Disk
from clawgauge.world.machine import RELEASE

_DF_COLUMNS = {
    "source": "Filesystem", "fstype": "Type", "itotal": "Inodes", "iused": "IUsed", "iavail": "IFree",
    "ipcent": "IUse%",
    "size": "1K-blocks", "used": "Used", "avail": "Available", "pcent": "Use%", "file": "File", "target": "Mounted on",
}  # fmt: skip


@command(
    "df", short="hHmTit:x:B:",
    long="human-readable:h si:H output= type:t= exclude-type:x= print-type:T inodes:i all:a local:l total "
    "block-size:B= portability:P", idle="Pakl",
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
    columns = ["source", "itotal", "iused", "iavail", "ipcent", "target"] if options.has("i") else columns
    columns = options.members("output") or columns
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
    room = {"source": "<14", "size": ">5", "used": ">5", "avail": ">5"}
    rows = [titles, *(_df_cells(call, disk) for disk in disks)]
    shown = [[f"{row[name]:{room.get(name, '')}}" for name in columns] for row in rows]
    left = [index for index, column in enumerate(columns) if column in ("source", "fstype", "target", "file")]
    return call.print(table(shown, left), code)


def _df_cells(call: Call, disk: Disk) -> dict[str, str]:
    options, inodes = call.options, max(1, disk.size // 16_384)
    used = disk.inodes_used
    if used is None:
        used = 31_000 + sum(call.machine.disks.disk_of(path) is disk for path in call.files)
    text = options.value("B", "1M" if options.has("m") else "1K")
    unit = max(1, read_size(text if text[:1].isdecimal() else f"1{text}"))

    def shown(size: int) -> str:
        if options.has("H"):
            return human(size * 1024 // 1000) if size >= 1000 else str(size)
        return human(size) if options.has("h") else str(-(-size // unit))

    counts = {"itotal": inodes, "iused": used, "iavail": inodes - used}
    sizes = {"size": disk.size, "used": disk.used, "avail": disk.size - disk.used}
    return {
        "source": disk.device, "fstype": "ext4", "target": disk.mount, "file": "-",
        **{name: human(count) if options.has("h") else str(count) for name, count in counts.items()},
        **{name: shown(size) for name, size in sizes.items()},
        "ipcent": f"{-(-used * 100 // inodes)}%", "pcent": f"{-(-disk.used * 100 // max(1, disk.size))}%",
    }  # fmt: skip


@command(
    "free", short="hmgbwts:c:",
    long="human:h mebi:m mega:m gibi:g giga:g bytes:b kibi:k kilo:k wide:w total:t seconds:s= count:c= lohi:l",
    idle="kl",
)  # fmt: skip
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


@command("uptime", short="ps", long="pretty:p since:s")
def uptime(call: Call) -> int:
    machine = call.machine
    if call.options.has("s"):
        return call.print(format_moment(machine.clock.moment(machine.booted_s), "%F %T\n"))
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    pretty = f"up {days // 7} weeks, {days % 7} days, {rest // 3600} hours, {rest // 60 % 60} minutes"
    return call.print(f"{pretty if call.options.has('p') else summary_line(call)}\n")


def summary_line(call: Call) -> str:
    """The first line of uptime and top."""
    machine = call.machine
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    loads = ", ".join(f"{load:.2f}" for load in machine.loads())
    clock = f"{machine.clock.moment():%H:%M:%S}"
    return f" {clock} up {days} days, {rest // 3600:>2}:{rest // 60 % 60:02},  1 user,  load average: {loads}"


@command(
    "uname", short="asnrvmpio", long="all:a kernel-name:s nodename:n kernel-release:r machine:m operating-system:o "
    "kernel-version:v processor:p hardware-platform:i",
)  # fmt: skip
def uname(call: Call) -> int:
    parts = {
        "s": "Linux", "n": call.machine.host, "r": RELEASE, "v": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.128-1 (2025-02-07)",
        "m": "x86_64", "p": "unknown", "i": "unknown", "o": "GNU/Linux",
    }  # fmt: skip
    wanted = [letter for letter in parts if call.options.has(letter)] or ["s"]
    return call.print(" ".join(parts[letter] for letter in ("snrvmo" if call.options.has("a") else wanted)) + "\n")


@command("id", short="ungG", long="user:u name:n group:g groups:G", idle="r")
def identity(call: Call) -> int:
    options, known = call.options, call.machine.users()
    user = options.operands[0] if options.operands else call.files.user
    if user not in known:
        raise UsageFault(f"'{user[:60]}': no such user")
    shown = "uid={0}({1}) gid={0}({1}) groups={0}({1})\n".format(known[user], user)
    named = f"{user if options.has('n') else known[user]}\n"
    return call.print(named if options.has("u", "g", "G") else shown)


@command("hostname", short="I", long="fqdn:f long:f short:s all-ip-addresses:I", idle="fs")
def hostname(call: Call) -> int:
    if call.options.operands:
        raise UsageFault("you must be root to change the host name")
    address = f"10.0.0.{call.machine.incidentals.between(10, 250, 'address')}"
    return call.print(f"{address if call.options.has('I') else call.machine.host}\n")


@command("nproc", idle_words="all")
def nproc(call: Call) -> int:
    return call.print(f"{call.machine.spec.cpus}\n")
