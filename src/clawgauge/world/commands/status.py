"""Commands that ask how the machine is: df, free, uptime, uname, id, hostname, vmstat and their like."""

from __future__ import annotations

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, human, read_size, table
from clawgauge.world.commands.dates import format_moment
from clawgauge.world.files import Disk
from clawgauge.world.machine import RELEASE
from clawgauge.world.refusals import FileFault

_DF_COLUMNS = {
    "source": "Filesystem", "fstype": "Type", "itotal": "Inodes", "iused": "IUsed", "iavail": "IFree",
    "ipcent": "IUse%",
    "size": "1K-blocks", "used": "Used", "avail": "Avail", "pcent": "Use%", "file": "File", "target": "Mounted on",
}  # fmt: skip


@command(
    "df", flags="hHmTi", valued="txB",
    long="human-readable:h si:H output output= type:t= exclude-type:x= print-type:T inodes:i all:a local:l total "
    "block-size:B= portability:P", idle="Pakl", idle_words="sync no-sync",
)  # fmt: skip
def df(call: Call) -> int:
    options = call.options
    disks = list(call.machine.disks)
    code = 0
    if options.operands:
        disks = []

        def work(operand: str) -> None:
            call.files.node(call.resolve(operand))
            disks.append(call.machine.disks.disk_of(call.resolve(operand)))

        code = call.each(options.operands, work)
    if options.has("t"):
        disks = disks if "ext4" in options.all("t") else []
    if "ext4" in options.all("x"):
        disks = []
    if not disks:
        return code or call.complain("no file systems processed")
    columns = _df_columns(call)
    rows = [[_df_title(call, column) for column in columns]]
    rows += [[_df_cell(call, disk, column) for column in columns] for disk in disks]
    if options.has("total"):
        whole = Disk("total", "-", sum(disk.size for disk in disks), sum(disk.used for disk in disks))
        rows.append([_df_cell(call, whole, column) for column in columns])
    # GNU leaves room for a common device name, and for five digits.
    for row in rows:
        row[:] = [
            cell.ljust(14) if name == "source" else cell.rjust(5) if name in ("size", "used", "avail") else cell
            for cell, name in zip(row, columns, strict=True)
        ]
    left = [index for index, column in enumerate(columns) if column in ("source", "fstype", "target", "file")]
    call.print(table(rows, left))
    return code


def _df_columns(call: Call) -> list[str]:
    options = call.options
    if options.has("output"):
        names = options.value("output").split(",") if options.value("output") else list(_DF_COLUMNS)
        for name in names:
            if name not in _DF_COLUMNS:
                raise UsageFault(f"option --output: field '{name[:40]}' unknown")
        return names
    if options.has("i"):
        return ["source", "itotal", "iused", "iavail", "ipcent", "target"]
    return ["source", *(["fstype"] if options.has("T") else []), "size", "used", "avail", "pcent", "target"]


def _df_title(call: Call, column: str) -> str:
    options = call.options
    is_short = options.has("h", "H", "m", "output") or options.has("B")
    if column == "size" and (options.has("h", "H")):
        return "Size"
    if column == "size" and options.has("m"):
        return "1M-blocks"
    if column == "size" and options.has("B"):
        return f"{options.value('B')}-blocks"
    if column == "avail":
        return "Avail" if is_short else "Available"
    return _DF_COLUMNS[column]


def _df_cell(call: Call, disk: Disk, column: str) -> str:
    options = call.options
    inodes = max(1, disk.size // 16_384)
    used_inodes = call.machine.n_files_on(disk) if disk.inodes_used is None else disk.inodes_used
    free = disk.size - disk.used
    texts = {
        "source": disk.device, "fstype": "ext4", "target": disk.mount, "file": "-", "itotal": str(inodes),
        "iused": str(used_inodes), "iavail": str(inodes - used_inodes), "ipcent": f"{-(-used_inodes * 100 // inodes)}%",
        "pcent": f"{-(-disk.used * 100 // disk.size) if disk.size else 0}%",
    }  # fmt: skip
    if column in texts:
        if column in ("itotal", "iused", "iavail") and options.has("h"):
            return human(int(texts[column]))
        return texts[column]
    size = {"size": disk.size, "used": disk.used, "avail": free}[column]
    if options.has("H"):
        return human(size * 1024 // 1000) if size >= 1000 else str(size)
    if options.has("h"):
        return human(size)
    if options.has("B"):
        unit = options.value("B")
        return str(-(-size // max(1, read_size(unit if unit[:1].isdecimal() else f"1{unit}"))))
    return str(-(-size // (1024**2 if options.has("m") else 1024)))


@command(
    "free", flags="hmgbwt", valued="sc",
    long="human:h mebi:m mega:m gibi:g giga:g bytes:b kibi:k kilo:k wide:w total:t si seconds:s= count:c= tebi lohi:l",
    idle="kl", idle_words="si tebi",
)  # fmt: skip
def free(call: Call) -> int:
    options = call.options
    if options.has("s") and not options.has("c"):
        raise NotSimulated("without '-c' it would never end; leave '-s' out")
    memory = call.machine.memory()
    names = ["total", "used", "free", "shared", "buff/cache", "available"]
    values = [memory.total, memory.used, memory.free, memory.shared, memory.cache, memory.available]
    if options.has("w"):
        names[4:5] = ["buffers", "cache"]
        values[4:5] = [memory.cache // 10, memory.cache - memory.cache // 10]

    def shown(size: int) -> str:
        if options.has("h"):
            text = human(size)
            return text + "i" if text[-1] in "KMGT" else f"{text}B"
        unit = 1 if options.has("b") else 1024**2 if options.has("m") else 1024**3 if options.has("g") else 1024
        return str(size // unit)

    call.print(" " * 7 + "".join(f"{name:>12}" for name in names) + "\n")
    call.print("Mem:   " + "".join(f"{shown(value):>12}" for value in values) + "\n")
    swap = [memory.swap_total, memory.swap_used, memory.swap_total - memory.swap_used]
    call.print("Swap:  " + "".join(f"{shown(value):>12}" for value in swap) + "\n")
    if options.has("t"):
        totals = [a + b for a, b in zip(values[:3], swap, strict=True)]
        call.print("Total: " + "".join(f"{shown(value):>12}" for value in totals) + "\n")
    return 0


@command("uptime", flags="ps", long="pretty:p since:s")
def uptime(call: Call) -> int:
    machine = call.machine
    if call.options.has("s"):
        call.print(format_moment(machine.clock.moment(machine.booted_s), "%F %T\n"))
        return 0
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    if call.options.has("p"):
        call.print(f"up {days // 7} weeks, {days % 7} days, {rest // 3600} hours, {rest // 60 % 60} minutes\n")
        return 0
    call.print(f"{summary_line(call)}\n")
    return 0


def summary_line(call: Call) -> str:
    """The first line of uptime, w and top."""
    machine = call.machine
    days, rest = divmod(machine.clock.now_s - machine.booted_s, 86_400)
    loads = ", ".join(f"{load:.2f}" for load in machine.loads())
    clock = f"{machine.clock.moment():%H:%M:%S}"
    return f" {clock} up {days} days, {rest // 3600:>2}:{rest // 60 % 60:02},  1 user,  load average: {loads}"


@command("w", "who", "users", idle="Habhqsu")
def who(call: Call) -> int:
    since = format_moment(call.machine.clock.moment(call.machine.clock.start_s - 1_800), "%Y-%m-%d %H:%M")
    if call.name == "users":
        call.print(f"{call.machine.user}\n")
    elif call.name == "who":
        call.print(f"{call.machine.user:<8} pts/0        {since} (10.0.0.2)\n")
    else:
        call.print(f"{summary_line(call)}\nUSER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n")
        call.print(f"{call.machine.user:<8} pts/0    10.0.0.2         {since[-5:]}    0.00s  0.04s  0.00s -bash\n")
    return 0


@command(
    "uname", flags="asnrvmpio", long="all:a kernel-name:s nodename:n kernel-release:r machine:m operating-system:o "
    "kernel-version:v processor:p hardware-platform:i",
)  # fmt: skip
def uname(call: Call) -> int:
    parts = {
        "s": "Linux", "n": call.machine.host, "r": RELEASE, "v": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.128-1 (2025-02-07)",
        "m": "x86_64", "p": "unknown", "i": "unknown", "o": "GNU/Linux",
    }  # fmt: skip
    wanted = [letter for letter in parts if call.options.has(letter)]
    if call.options.has("a"):
        wanted = list("snrvmo")
    call.print(" ".join(parts[letter] for letter in wanted or ["s"]) + "\n")
    return 0


@command("arch")
def arch(call: Call) -> int:
    call.print("x86_64\n")
    return 0


@command("whoami", "logname")
def whoami(call: Call) -> int:
    call.print(f"{call.files.user}\n")
    return 0


@command("id", flags="ungG", long="user:u name:n group:g groups:G real:r", idle="r")
def identity(call: Call) -> int:
    options = call.options
    user = options.operands[0] if options.operands else call.files.user
    if user not in call.machine.users():
        raise UsageFault(f"'{user[:60]}': no such user")
    number = call.machine.users()[user]
    if options.has("u", "g", "G"):
        call.print(f"{user if options.has('n') else number}\n")
    elif options.has("n"):
        raise UsageFault("cannot print only names or real IDs in default format")
    else:
        call.print(f"uid={number}({user}) gid={number}({user}) groups={number}({user})\n")
    return 0


@command("groups")
def groups(call: Call) -> int:
    call.print(f"{call.options.operands[0] if call.options.operands else call.files.user}\n")
    return 0


@command("hostname", flags="Iid", long="fqdn:f long:f short:s all-ip-addresses:I ip-address:i domain:d", idle="fs")
def hostname(call: Call) -> int:
    options = call.options
    if options.operands:
        raise UsageFault("you must be root to change the host name")
    call.print(
        "" if options.has("d") else f"{call.machine.address}\n" if options.has("I", "i") else f"{call.machine.host}\n"
    )
    return 0


@command("hostnamectl", "timedatectl", raw=True)
def system_control(call: Call) -> int:
    if call.args[:1] not in ([], ["status"]):
        raise NotSimulated(f"'{call.args[0][:40]}' is not supported here")
    if call.name == "hostnamectl":
        call.print(
            f" Static hostname: {call.machine.host}\n       Icon name: computer-vm\n         Chassis: vm\n"
            f"Operating System: Debian GNU/Linux 12 (bookworm)\n"
            f"          Kernel: Linux {RELEASE}\n    Architecture: x86-64\n"
        )
        return 0
    shown = format_moment(call.machine.clock.moment(), "%a %F %T UTC")
    call.print(
        f"               Local time: {shown}\n           Universal time: {shown}\n"
        "                Time zone: Etc/UTC (UTC, +0000)\n"
        "System clock synchronized: yes\n              NTP service: active\n"
    )
    return 0


@command("nproc", long="all ignore=", idle_words="all")
def nproc(call: Call) -> int:
    call.print(f"{max(1, call.machine.n_cpus - call.options.whole('ignore', 0))}\n")
    return 0


@command("lscpu")
def lscpu(call: Call) -> int:
    call.print(
        "Architecture:        x86_64\nCPU op-mode(s):      32-bit, 64-bit\n"
        f"CPU(s):              {call.machine.n_cpus}\nModel name:          QEMU Virtual CPU\nThread(s) per core:  1\n"
    )
    return 0


@command("vmstat", raw=False, valued="S", long="wide:w unit:S=", idle="aw")
def vmstat(call: Call) -> int:
    unit = 1024**2 if call.options.value("S").upper() == "M" else 1024
    memory = call.machine.memory()
    running = sum(process.cpu > 50 for process in call.machine.processes)
    busy = min(100, int(sum(process.cpu for process in call.machine.processes) / call.machine.n_cpus))
    call.print("procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n")
    call.print(" r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n")
    line = (
        f"{running:>2}  0 {memory.swap_used // unit:>6} {memory.free // unit:>6} {memory.cache // 10 // unit:>6} "
        f"{memory.cache // unit:>6}    0    0     4    11   52   98 {busy:>2}  1 {max(0, 99 - busy):>2}  0  0\n"
    )
    count = call.options.operands[1] if len(call.options.operands) > 1 else "1"
    call.print(line * min(20, int(count) if count.isdecimal() and len(count) < 4 else 1))
    return 0


@command("lsblk", flags="fpnb", valued="o", long="fs:f paths:p noheadings:n output:o= bytes:b", idle="al")
def lsblk(call: Call) -> int:
    options = call.options
    default = "NAME,FSTYPE,FSAVAIL,FSUSE%,MOUNTPOINTS" if options.has("f") else "NAME,SIZE,TYPE,MOUNTPOINTS"
    columns = options.value("o", default).upper().split(",")
    rows = [columns]
    with_path, as_bytes = options.has("p"), options.has("b")
    for disk in call.machine.disks:
        sizes = {"SIZE": disk.size, "FSSIZE": disk.size, "FSUSED": disk.used, "FSAVAIL": disk.size - disk.used}
        percent = -(-disk.used * 100 // max(1, disk.size))
        texts = {name: str(size) if as_bytes else human(size) for name, size in sizes.items()}
        texts |= {
            "NAME": disk.device if with_path else disk.device.removeprefix("/dev/"), "TYPE": "part", "FSTYPE": "ext4",
            "MOUNTPOINT": disk.mount, "MOUNTPOINTS": disk.mount,
            "FSUSE%": f"{percent}%",
        }  # fmt: skip
        for column in columns:
            if column not in texts:
                raise UsageFault(f"unknown column: {column[:40]}")
        rows.append([texts[column] for column in columns])
    call.print(table(rows[1:] if options.has("n") else rows, [0, len(columns) - 1]))
    return 0


@command("lsb_release", flags="adirc", long="all:a description:d id:i release:r codename:c", idle="s")
def lsb_release(call: Call) -> int:
    lines = {
        "i": "Distributor ID:\tDebian\n", "d": "Description:\tDebian GNU/Linux 12 (bookworm)\n", "r": "Release:\t12\n",
        "c": "Codename:\tbookworm\n",
    }  # fmt: skip
    call.print("".join(line for letter, line in lines.items() if call.options.has(letter, "a")))
    return 0


@command("mount", "findmnt", raw=True)
def mount(call: Call) -> int:
    if call.args and call.args[0] not in ("-l",):
        raise NotSimulated("only the list of mounted file systems can be shown here")
    for disk in call.machine.disks:
        call.print(f"{disk.device} on {disk.mount} type ext4 (rw,relatime)\n")
    return 0


@command("dmesg", valued="ln", long="human:H ctime:T level:l=", idle="wHTklntx")
def dmesg(call: Call) -> int:
    try:
        call.print(call.files.read("/var/log/kern.log") if call.files.exists("/var/log/kern.log") else "")
    except FileFault as fault:
        return call.complain(f"read kernel buffer failed: {fault}")
    return 0
