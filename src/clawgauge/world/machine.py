"""The simulated server: all its nouns in one place, built from a specification, with the faults a task injects.

Knows nothing of tools. A fault strikes the first calls it fits, a fixed number of times:

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
from dataclasses import dataclass, field
from typing import Any

from clawgauge.errors import SuiteError
from clawgauge.world import paths
from clawgauge.world.clock import Clock, Incidentals, read_clock
from clawgauge.world.definitions import TOOL_NAMES
from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields, refusal
from clawgauge.world.files import Disk, Disks, FileTree, read_disks, settle_disks
from clawgauge.world.mailbox import Mailbox, Notes, fill_mailbox, fill_notes
from clawgauge.world.nouns import Gpu, Hosts, Page, Repos, Web, fill_hosts, fill_repos, fill_web, read_gpus
from clawgauge.world.refusals import Fuel, Refusal
from clawgauge.world.schedule import Schedule, fill_schedule
from clawgauge.world.services import Process, ProcessTable, Services, fill_processes, fill_services, unit_text
from clawgauge.world.starting_files import RELEASE, home_of, place_files, place_system_file, place_system_files

TOOL_ERRORS = {
    "timeout": "Error: the tool timed out after 30 s; nothing was done",
    "permission_denied": "Error: permission denied; nothing was done",
    "unavailable": "Error: 503 Service Unavailable; nothing was done",
    "rate_limited": "Error: 429 Too Many Requests; nothing was done",
}
_FAULT_KEYS = ("tool", "error", "url", "status", "file", "locked_by", "times")
_MAX_TIMES = 20


@dataclass(slots=True)
class ToolFault:
    """The next `times` calls of a tool fail without doing anything."""

    tool: str
    error: str
    times: int


class Faults:
    """The faults of tools that are still to come."""

    def __init__(self) -> None:
        self._waiting: list[ToolFault] = []
        # Which process holds which file.
        self.holders: dict[str, str] = {}

    def add(self, fault: ToolFault) -> None:
        self._waiting.append(fault)

    def strike(self, tool: str) -> str | None:
        """What a call of `tool` fails with now, or None."""
        for fault in self._waiting:
            if fault.tool == tool and fault.times > 0:
                fault.times -= 1
                return TOOL_ERRORS[fault.error]
        return None


def fill_faults(faults: Faults, spec: Fields, web: Web, tree: FileTree, processes: ProcessTable) -> None:
    """The faults of a specification, each handed to what it strikes."""
    holders = faults.holders
    for fields in spec.objects("faults", _FAULT_KEYS):
        kinds = [kind for kind in ("tool", "url", "file") if kind in fields]
        if len(kinds) != 1:
            raise SuiteError(f"key '{fields.at('tool')}': a fault names one 'tool', one 'url' or one 'file'")
        times = fields.whole("times", 1, least=1, most=_MAX_TIMES)
        if kinds == ["tool"]:
            tool = fields.choice("tool", TOOL_NAMES, "")
            faults.add(ToolFault(tool, fields.choice("error", tuple(TOOL_ERRORS), "timeout"), times))
        elif kinds == ["url"]:
            _add_page_fault(fields, web, times)
        else:
            holders[paths.resolve(fields.path("file"))] = fields.word("locked_by")

    def holder_of(path: str) -> str | None:
        name = holders.get(path)
        running = processes.named(name) if name else []
        return f"{name}, pid {running[0].pid}" if running else None

    tree.holder_of = holder_of


def _add_page_fault(fields: Fields, web: Web, times: int) -> None:
    status = fields.whole("status", 503, least=400, most=599)
    page = Page(status, "", "text/plain", retry_after_s=2 if status in (429, 503) else None)
    try:
        web.put_before(fields.word("url"), page, times)
    except Refusal as refusal:
        raise SuiteError(f"key '{fields.at('url')}': {refusal}") from None


__all__ = ["RELEASE", "WORLD_KEYS", "Machine", "Memory", "build_machine", "check_world"]

WORLD_KEYS = (
    "seed", "user", "host", "clock", "files", "disks", "ram_mb", "processes", "services", "web", "contacts",
    "messages", "replies", "cron", "notes", "faults", "containers", "hosts", "gpus", "repos", "sudo", "cpus",
    "swap_mb", "uptime_days", "load",
)  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, as `free` and /proc/meminfo show them."""

    total: int
    used: int
    cache: int
    swap_total: int
    swap_used: int

    @property
    def free(self) -> int:
        return self.total - self.used - self.cache

    @property
    def available(self) -> int:
        return self.total - self.used

    @property
    def shared(self) -> int:
        return 2 * _MIB


@dataclass(slots=True)
class Machine:
    """Everything there is. Tools change it; `effects` remembers how."""

    user: str
    host: str
    ram_mb: int
    swap_mb: int
    n_cpus: int
    may_sudo: bool
    booted_s: int
    base_load: float
    incidentals: Incidentals
    fuel: Fuel
    effects: EffectLog
    clock: Clock
    disks: Disks
    files: FileTree
    processes: ProcessTable
    services: Services
    web: Web
    mailbox: Mailbox
    schedule: Schedule
    notes: Notes
    faults: Faults
    hosts: Hosts
    repos: Repos
    gpus: list[Gpu]
    # Refusals of this call that the model is to read even where it threw them away.
    notices: list[str] = field(default_factory=list)
    _n_names: int = 0

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
        names = ["root", self.user, "www-data", "postgres", "nobody", *(process.user for process in self.processes)]
        known = {
            "root": 0,
            "www-data": 33,
            "nobody": 65_534,
            "postgres": 105,
            self.user: 0 if self.user == "root" else 1000,
        }
        for name in names:
            known.setdefault(name, 1000 + len(known))
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
        held = [path for path, name in self.faults.holders.items() if name == process.name]
        return [*process.open, *held]


def build_machine(spec: Mapping[str, Any], seed: int) -> Machine:
    """The server a specification describes; raises `SuiteError` naming the key."""
    fields = Fields(spec, "", WORLD_KEYS)
    fields.whole("seed", 0)
    user, host = _read_name(fields, "user", "claw"), _read_name(fields, "host", "heron")
    clock, disks = read_clock(fields), read_disks(fields)
    fuel, effects, incidentals = Fuel(), EffectLog(clock), Incidentals(seed)
    fuel.start_call()
    files = FileTree(user, clock, disks, effects, fuel)
    place_files(files, fields, clock, incidentals)
    processes = ProcessTable(user, effects)
    fill_processes(processes, fields, user, clock.start_s, incidentals)
    services = Services(clock, processes, files, effects)
    fill_services(services, fields, clock.start_s)
    web, mailbox = Web(effects), Mailbox(clock, effects)
    fill_web(web, fields)
    fill_mailbox(mailbox, fields, clock.start_s)
    schedule, notes, faults = Schedule(effects), Notes(effects), Faults()
    fill_schedule(schedule, fields)
    fill_notes(notes, fields)
    fill_faults(faults, fields, web, files, processes)
    hosts, repos = Hosts(incidentals), Repos()
    fill_hosts(hosts, fields)
    fill_repos(repos, fields, clock.start_s)
    for name in (host, *web.hosts()):
        hosts.add(name)
    machine = Machine(
        user=user,
        host=host,
        ram_mb=fields.whole("ram_mb", 3_920, least=64, most=4_194_304),
        swap_mb=fields.whole("swap_mb", 0, most=4_194_304),
        n_cpus=fields.whole("cpus", 2, least=1, most=1_024),
        may_sudo=fields.flag("sudo"),
        booted_s=clock.start_s - int(fields.number("uptime_days", 12, most=5_000) * 86_400),
        base_load=fields.number("load", 0, most=10_000),
        incidentals=incidentals,
        fuel=fuel,
        effects=effects,
        clock=clock,
        disks=disks,
        files=files,
        processes=processes,
        services=services,
        web=web,
        mailbox=mailbox,
        schedule=schedule,
        notes=notes,
        faults=faults,
        hosts=hosts,
        repos=repos,
        gpus=read_gpus(fields),
    )
    _furnish(machine)
    settle_disks(disks, fields)
    effects.listen()
    return machine


def _furnish(machine: Machine) -> None:
    """The files that a server has without being told, as they follow from all the rest."""
    place_system_files(machine.files, machine.host, machine.users(), machine.booted_s)
    for service in machine.services.units():
        place_system_file(machine.files, f"/etc/systemd/system/{service.unit}", unit_text(service), machine.booted_s)

    def meminfo() -> str:
        memory = machine.memory()
        rows = {
            "MemTotal": memory.total, "MemFree": memory.free, "MemAvailable": memory.available,
            "Buffers": memory.cache // 10,
            "Cached": memory.cache - memory.cache // 10, "SwapTotal": memory.swap_total,
            "SwapFree": memory.swap_total - memory.swap_used, "Shmem": memory.shared,
        }  # fmt: skip
        return "".join(f"{name + ':':<15} {size // 1024:>8} kB\n" for name, size in rows.items())

    def loadavg() -> str:
        return (
            " ".join(f"{load:.2f}" for load in machine.loads())
            + f" 1/{len(list(machine.processes)) + 90} {machine.shell_pid}\n"
        )

    def cpuinfo() -> str:
        return "\n".join(
            f"processor\t: {number}\nmodel name\t: QEMU Virtual CPU\ncpu MHz\t\t: 2445.406\n"
            for number in range(machine.n_cpus)
        )

    def uptime() -> str:
        up_s = machine.clock.now_s - machine.booted_s
        return f"{up_s}.00 {up_s * machine.n_cpus}.00\n"

    def mounts() -> str:
        return "".join(f"{disk.device} {disk.mount} ext4 rw,relatime 0 0\n" for disk in machine.disks)

    made = {"meminfo": meminfo, "loadavg": loadavg, "cpuinfo": cpuinfo, "uptime": uptime, "mounts": mounts}
    for name, text in made.items():
        place_system_file(machine.files, f"/proc/{name}", "", machine.clock.start_s, mode=0o444)
        machine.files.live.setdefault(f"/proc/{name}", text)


def check_world(spec: Mapping[str, Any]) -> None:
    """Raise `SuiteError`, naming the key, for a specification no world can be built from."""
    build_machine(spec, 0)


def _read_name(fields: Fields, key: str, default: str) -> str:
    name = fields.text(key, default)
    if not _NAME.fullmatch(name):
        raise refusal(fields.at(key), "a short name of lower-case letters, digits and hyphens", name)
    return name
