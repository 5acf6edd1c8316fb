"""The simulated server: all its nouns in one place, built from a specification, with the faults a task injects.

Knows nothing of tools. The files it starts with, and faults, which strike the first calls they fit:

    files."/srv/app/config.ini" = "port = 80\\n"
    files."/var/log/app/debug.log" = { size = "18G", age_days = 2 }
    files."/srv/reports" = { directory = true, owner = "root" }
    faults = [
      { tool = "web_fetch", error = "timeout", times = 1 },          # the first call of a tool fails
      { url = "https://example.org/", status = 503, times = 2 },     # a page answers 503 first
      { file = "/srv/data.db", locked_by = "backup" },               # busy while that process runs
    ]
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clawgauge.errors import SuiteError
from clawgauge.world import paths
from clawgauge.world.definitions import TOOL_NAMES
from clawgauge.world.effects import Clock, EffectLog, Incidentals, read_moment
from clawgauge.world.fields import Fields, refusal
from clawgauge.world.files import DEVICES, Disk, FileTree, Node, read_disks, settle_disks
from clawgauge.world.mailbox import Mailbox, Notes
from clawgauge.world.nouns import Hosts, Repo, Web, read_gpus, read_repos
from clawgauge.world.refusals import FileFault, Fuel
from clawgauge.world.schedule import Schedule
from clawgauge.world.services import Process, ProcessTable, Services, unit_text

RELEASE = "6.1.0-31-amd64"
WORLD_KEYS = (
    "seed", "user", "host", "clock", "files", "disks", "ram_mb", "processes", "services", "web", "contacts",
    "messages", "replies", "cron", "notes", "faults", "containers", "hosts", "gpus", "repos", "sudo", "cpus",
    "swap_mb", "uptime_days", "load",
)  # fmt: skip
TOOL_ERRORS = {
    "timeout": "Error: the tool timed out after 30 s; nothing was done",
    "permission_denied": "Error: permission denied; nothing was done",
    "unavailable": "Error: 503 Service Unavailable; nothing was done",
    "rate_limited": "Error: 429 Too Many Requests; nothing was done",
}
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_MIB = 1024**2
_DAY_S = 86_400
_SYSTEM_DIRECTORIES = (
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr",
    "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin", "/usr/share", "/var", "/var/lib",
)  # fmt: skip
_OS_RELEASE = (
    'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\n'
    'VERSION="12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\nHOME_URL="https://www.debian.org/"\n'
)


class Faults:
    """The faults that are still to come."""

    def __init__(self, spec: Fields, web: Web) -> None:
        self._waiting: dict[str, list[str]] = {}
        # Which process holds which file.
        self.holders: dict[str, str] = {}
        for fields in spec.objects("faults", ("tool", "error", "url", "status", "file", "locked_by", "times")):
            kinds = [kind for kind in ("tool", "url", "file") if kind in fields]
            if len(kinds) != 1:
                raise SuiteError(f"key '{fields.at('tool')}': a fault names one 'tool', one 'url' or one 'file'")
            times = fields.whole("times", 1, least=1, most=20)
            if kinds == ["tool"]:
                error = TOOL_ERRORS[fields.choice("error", tuple(TOOL_ERRORS), "timeout")]
                self._waiting.setdefault(fields.choice("tool", TOOL_NAMES, ""), []).extend([error] * times)
            elif kinds == ["url"]:
                web.add_fault(fields, times)
            else:
                self.holders[paths.resolve(fields.path("file"))] = fields.word("locked_by")

    def strike(self, tool: str) -> str | None:
        """What a call of `tool` fails with now, or None."""
        waiting = self._waiting.get(tool)
        return waiting.pop(0) if waiting else None


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, as `free` and /proc/meminfo show them."""

    total: int
    used: int
    cache: int
    swap_total: int
    swap_used: int
    shared: int = 2 * _MIB

    @property
    def free(self) -> int:
        return self.total - self.used - self.cache

    @property
    def available(self) -> int:
        return self.total - self.used


class Machine:
    """Everything there is. Tools change it; `effects` remembers how."""

    def __init__(self, fields: Fields, seed: int) -> None:
        self.user, self.host = _read_name(fields, "user", "claw"), _read_name(fields, "host", "heron")
        self.ram_mb = fields.whole("ram_mb", 3_920, least=64, most=4_194_304)
        self.swap_mb = fields.whole("swap_mb", 0, most=4_194_304)
        self.n_cpus = fields.whole("cpus", 2, least=1, most=1_024)
        self.may_sudo = fields.flag("sudo")
        self.base_load = fields.number("load", 0, most=10_000)
        self.clock = Clock(read_moment(fields, "clock", "2026-03-02T09:14:07"))
        start_s = self.clock.start_s
        self.booted_s = start_s - int(fields.number("uptime_days", 12, most=5_000) * _DAY_S)
        self.disks = read_disks(fields)
        self.fuel, self.effects, self.incidentals = Fuel(), EffectLog(self.clock), Incidentals(seed)
        self.fuel.start_call()
        self.files = FileTree(self.user, self.clock, self.disks, self.effects, self.fuel)
        self._place_files(fields)
        self.processes = ProcessTable(self.user, self.effects, fields, start_s, self.incidentals)
        self.services = Services(self.clock, self.processes, self.files, self.effects, fields)
        self.web = Web(self.effects, fields)
        self.mailbox = Mailbox(self.clock, self.effects, fields)
        self.schedule, self.notes = Schedule(self.effects, fields), Notes(self.effects, fields)
        self.faults = Faults(fields, self.web)
        self.files.holder_of = self._holder_of
        self.hosts = Hosts(self.incidentals, fields, [self.host, *self.web.hosts()])
        self._repos = read_repos(fields, start_s)
        self.gpus = read_gpus(fields)
        # Refusals of this call that the model is to read even where it threw them away.
        self.notices: list[str] = []
        self._n_names = 0
        self._place_system_files()
        settle_disks(self.disks, fields)
        self.effects.listen()

    @property
    def home(self) -> str:
        return home_of(self.user)

    @property
    def address(self) -> str:
        return f"10.0.0.{self.incidentals.between(10, 250, 'address')}"

    @property
    def shell_pid(self) -> int:
        return self.incidentals.between(29_001, 32_000, "shell")

    def count_name(self) -> int:
        """A number that is another one each time, and the same in every replay: for names drawn at random."""
        self._n_names += 1
        return self._n_names

    def users(self) -> dict[str, int]:
        """The users there are and their ids."""
        known = {"root": 0, "www-data": 33, "nobody": 65_534, "postgres": 105}
        known[self.user] = 0 if self.user == "root" else 1000
        for process in self.processes:
            known.setdefault(process.user, 1000 + len(known))
        return known

    @contextlib.contextmanager
    def acting_as(self, user: str) -> Iterator[None]:
        """What is done meanwhile is done by `user`."""
        before = self.files.user
        self.files.user = self.processes.user = user
        try:
            yield
        finally:
            self.files.user = self.processes.user = before

    def memory(self) -> Memory:
        total = self.ram_mb * _MIB
        used = min(total, 180 * _MIB + int(sum(process.memory_mb for process in self.processes) * _MIB))
        swap = self.swap_mb * _MIB
        return Memory(total, used, (total - used) // 3, swap, swap // 50)

    def loads(self) -> tuple[float, float, float]:
        """The load averages that fit what runs now."""
        busy = sum(process.cpu for process in self.processes) / 100 + self.base_load
        return busy + 0.04, busy * 0.9 + 0.05, busy * 0.8 + 0.05

    def n_files_on(self, disk: Disk) -> int:
        return sum(self.disks.disk_of(path) is disk for path in self.files) + 31_000

    def open_files(self, process: Process) -> list[str]:
        """The files a process has open, those it holds against others among them."""
        return [*process.open, *(path for path, name in self.faults.holders.items() if name == process.name)]

    def repo_around(self, folder: str) -> Repo | None:
        """The git repository a folder lies in."""
        above = (folder, *reversed(paths.ancestors(folder)))
        return next((self._repos[path] for path in above if path in self._repos), None)

    def _holder_of(self, path: str) -> str | None:
        name = self.faults.holders.get(path)
        running = self.processes.named(name) if name else []
        return f"{name}, pid {running[0].pid}" if running else None

    # --- the files it starts with ------------------------------------------------------------------------------------

    def _place_files(self, spec: Fields) -> None:
        """Put the directories every server has and the files of the specification into an empty tree."""
        start_s = self.clock.start_s
        long_ago_s = start_s - 400 * _DAY_S
        modes = dict.fromkeys(_SYSTEM_DIRECTORIES, 0o755) | {"/root": 0o700, "/tmp": 0o1777}  # noqa: S108 - simulated
        for path, mode in modes.items():
            self.files.place(path, Node("root", mode, long_ago_s, is_directory=True))
        for path in ("/opt", "/srv", "/var/log", self.home):
            self.files.place(path, Node(self.user, 0o755, long_ago_s, is_directory=True))
        for path, key, value in spec.entries("files"):
            if not path.startswith("/") or "\0" in path or paths.resolve(path) != path or path == "/":
                raise SuiteError(f"key '{key}' must be named by a plain absolute path")
            given = {"text": value} if isinstance(value, str) else value
            fields = Fields(given, key, ("text", "size", "owner", "mode", "age_days", "directory"))
            seconds_ago = self.incidentals.between(3_600, 30 * _DAY_S, "age", path)
            if "age_days" in fields:
                seconds_ago = int(fields.number("age_days", 0, most=10_000) * _DAY_S)
            is_directory = fields.flag("directory")
            if is_directory and ("text" in fields or "size" in fields):
                raise SuiteError(f"key '{key}' is a directory, which has neither 'text' nor 'size'")
            if self.files.exists(path) and not is_directory:
                raise SuiteError(f"key '{key}' is a directory already, because another path lies inside it")
            mode = _read_mode(fields, "0755" if is_directory else "0644")
            text, modified_s = fields.text("text", ""), max(0, start_s - seconds_ago)
            node = Node(fields.word("owner", self.user), mode, modified_s, text, is_directory)
            if "size" in fields:
                node.set_text(text, max(0, fields.size("size") - node.size))
            try:
                self.files.place(path, node)
            except FileFault as fault:
                raise SuiteError(f"key '{key}' cannot be placed: {fault}") from None

    def _place_system_files(self) -> None:
        """What stands in /etc, /dev and /proc of a small Debian server, as it follows from all the rest."""
        users = sorted(self.users().items(), key=lambda pair: pair[1])
        shells = {number: "bin/bash" if number in (0, 1000) else "sbin/nologin" for _, number in users}
        texts = {
            "/etc/hostname": f"{self.host}\n",
            "/etc/hosts": f"127.0.0.1\tlocalhost\n127.0.1.1\t{self.host}\n",
            "/etc/os-release": _OS_RELEASE,
            "/etc/debian_version": "12.9\n",
            "/etc/passwd": "".join(f"{who}:x:{n}:{n}:{who}:{home_of(who)}:/{shells[n]}\n" for who, n in users),
            "/etc/group": "".join(f"{who}:x:{n}:\n" for who, n in users),
            "/etc/resolv.conf": "nameserver 10.0.0.1\n",
            "/etc/timezone": "Etc/UTC\n",
            "/etc/issue": "Debian GNU/Linux 12 \\n \\l\n\n",
            "/etc/fstab": "/dev/vda1 / ext4 defaults 0 1\n",
            "/etc/crontab": "SHELL=/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin\n",
            "/etc/shells": "/bin/sh\n/bin/bash\n",
            "/proc/version": f"Linux version {RELEASE} (debian-kernel@lists.debian.org)\n",
            "/etc/shadow": "root:*:19800:0:99999:7:::\n",
        }
        texts |= {f"/etc/systemd/system/{unit.unit}": unit_text(unit) for unit in self.services.units()}
        made = {"meminfo": self._meminfo, "loadavg": self._loadavg, "cpuinfo": self._cpuinfo, "uptime": self._uptime}
        self.files.live = {f"/proc/{name}": text for name, text in made.items()} | {"/proc/mounts": self._mounts}
        nodes = {path: Node("root", 0o644, self.booted_s, text) for path, text in texts.items()}
        nodes |= {path: Node("root", 0o666, self.booted_s) for path in DEVICES}
        nodes |= {path: Node("root", 0o444, self.clock.start_s) for path in self.files.live}
        nodes["/etc/shadow"].mode = 0o640
        for path, node in nodes.items():
            # A file of the specification stays as it is; one that does not fit on a full disk is left out.
            if not self.files.exists(path):
                with contextlib.suppress(FileFault):
                    self.files.place(path, node)

    def _meminfo(self) -> str:
        memory = self.memory()
        rows = {
            "MemTotal": memory.total, "MemFree": memory.free, "MemAvailable": memory.available,
            "Buffers": memory.cache // 10,
            "Cached": memory.cache - memory.cache // 10, "SwapTotal": memory.swap_total,
            "SwapFree": memory.swap_total - memory.swap_used, "Shmem": memory.shared,
        }  # fmt: skip
        return "".join(f"{name + ':':<15} {size // 1024:>8} kB\n" for name, size in rows.items())

    def _loadavg(self) -> str:
        loads = " ".join(f"{load:.2f}" for load in self.loads())
        return f"{loads} 1/{len(list(self.processes)) + 90} {self.shell_pid}\n"

    def _cpuinfo(self) -> str:
        about = "model name\t: QEMU Virtual CPU\ncpu MHz\t\t: 2445.406\n"
        return "\n".join(f"processor\t: {number}\n{about}" for number in range(self.n_cpus))

    def _uptime(self) -> str:
        up_s = self.clock.now_s - self.booted_s
        return f"{up_s}.00 {up_s * self.n_cpus}.00\n"

    def _mounts(self) -> str:
        return "".join(f"{disk.device} {disk.mount} ext4 rw,relatime 0 0\n" for disk in self.disks)


def home_of(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def build_machine(spec: Mapping[str, Any], seed: int) -> Machine:
    """The server a specification describes; raises `SuiteError` naming the key."""
    fields = Fields(spec, "", WORLD_KEYS)
    fields.whole("seed", 0)
    return Machine(fields, seed)


def check_world(spec: Mapping[str, Any]) -> None:
    """Raise `SuiteError`, naming the key, for a specification no world can be built from."""
    build_machine(spec, 0)


def _read_name(fields: Fields, key: str, default: str) -> str:
    name = fields.text(key, default)
    if not _NAME.fullmatch(name):
        raise refusal(fields.at(key), "a short name of lower-case letters, digits and hyphens", name)
    return name


def _read_mode(fields: Fields, default: str) -> int:
    written = fields.text("mode", default)
    if not re.fullmatch(r"(0o)?[0-7]{1,5}", written) or int(written, 8) > 0o7777:
        raise refusal(fields.at("mode"), 'an octal mode as text, such as "0640"', written)
    return int(written, 8)
