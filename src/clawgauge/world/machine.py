"""The simulated machine: one state that all tools look at and change, made from a specification."""

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from clawgauge.errors import SuiteError
from clawgauge.world import TOOL_NAMES
from clawgauge.world.disks import Disks, DiskSpec
from clawgauge.world.effects import FileFault, Ledger
from clawgauge.world.files import DEVICES, FileTree, Node, to_bytes
from clawgauge.world.paths import resolve
from clawgauge.world.people import Mailbox, MessageSpec, Notes, Reply
from clawgauge.world.processes import Process, ProcessSpec, ProcessTable
from clawgauge.world.schedule import JobSpec, Schedule
from clawgauge.world.services import Services, ServiceSpec
from clawgauge.world.spec import (
    SERVER,
    Mode,
    Name,
    Path,
    Size,
    SpecObject,
    Word,
    at_key,
    read,
    read_moment,
    read_size,
)
from clawgauge.world.web import Web

RELEASE = "6.1.0-31-amd64"
TOOL_ERRORS: dict[str, str] = SERVER["tool_errors"]
FIRST_USER_ID = 1000
_MIB = 1024**2
_DAY_S = 86_400
_SYSTEM_BYTES = 180 * _MIB
_SHARED_BYTES = 2 * _MIB
_SYSTEM_AGE_S = 400 * _DAY_S
_SYSTEM_USERS = {"root": 0, "www-data": 33, "nobody": 65_534, "postgres": 105}
# Directories of the machine whose mode or owner is not root's usual one; the home is another.
_MODES = {"/root": 0o700, "/tmp": 0o1777}  # noqa: S108 - simulated
_USER_DIRECTORIES = ("/opt", "/srv", "/var/log")


class FileSpec(SpecObject):
    text: str | None = None
    size: Size | None = None
    owner: Word = ""
    mode: Mode = ""
    age_days: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    directory: bool = False


class FaultSpec(SpecObject):
    tool: Word = ""
    error: Annotated[str, Meta(pattern=f"^(?:{'|'.join(TOOL_ERRORS)})$")] = "timeout"
    url: Word = ""
    status: Annotated[int, Meta(ge=400, le=599)] = 503
    file: Path = ""
    locked_by: Word = ""
    times: Annotated[int, Meta(ge=1, le=20)] = 1


class WorldSpec(SpecObject):
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    user: Name = "claw"
    host: Name = "heron"
    clock: str = "2026-03-02T09:14:07"
    files: dict[str, Any] = {}
    disks: list[DiskSpec] = []
    ram_mb: Annotated[int, Meta(ge=64, le=4_194_304)] = 3_920
    swap_mb: Annotated[int, Meta(ge=0, le=4_194_304)] = 0
    cpus: Annotated[int, Meta(ge=1, le=1_024)] = 2
    load: Annotated[float, Meta(ge=0, le=10_000)] = 0
    uptime_days: Annotated[float, Meta(ge=0, le=5_000)] = 12
    processes: list[ProcessSpec] = []
    services: list[ServiceSpec] = []
    web: dict[str, Any] = {}
    contacts: list[Word] = []
    messages: list[MessageSpec] = []
    replies: list[Reply] = []
    cron: list[JobSpec] = []
    notes: list[Word] = []
    faults: list[FaultSpec] = []
    sudo: bool = False


class Memory(NamedTuple):
    """Bytes, as `free` and /proc/meminfo show them."""

    total: int
    used: int
    free: int
    shared: int
    cache: int
    available: int
    swap_total: int
    swap_used: int
    swap_free: int


class Machine:
    """The whole state. `user` is whose server it is; `ledger.user` is who acts."""

    def __init__(self, spec: WorldSpec) -> None:
        self.spec = spec
        self.user = spec.user
        self.host = spec.host
        self.home = home_of(spec.user)
        self.ledger = Ledger(spec.user, read_moment(spec.clock, "clock"))
        self.clock = self.ledger.clock
        self.fuel = self.ledger.fuel
        self.effects = self.ledger.effects
        self.booted_s = self.clock.start_s - int(spec.uptime_days * _DAY_S)
        self.disks = Disks(spec.disks)
        self.files = FileTree(self.ledger, self.disks)
        self._place_directories()
        self._place_files(spec.files)
        self.processes = ProcessTable(self.ledger, spec.processes, self.draw)
        self.services = Services(self.ledger, self.processes, self.files, spec.services)
        self.web = Web(self.ledger, spec.web)
        self.mailbox = Mailbox(self.ledger, spec.contacts, spec.messages, spec.replies)
        self.schedule = Schedule(self.ledger, spec.cron)
        self.notes = Notes(self.ledger, spec.notes)
        # The errors that the next calls of a tool end in, and which process holds which file.
        self.errors: dict[str, list[str]] = {}
        self._holders: dict[str, str] = {}
        for index, fault in enumerate(spec.faults):
            self._add_fault(fault, f"faults[{index}]")
        self.files.holder_of = self._holder_of
        # Refusals of this call that the model is to read even where it threw them away.
        self.notices: list[str] = []
        self.n_drawn = 0
        self._place_system_files()
        self.disks.settle()
        self.ledger.is_listening = True

    def draw(self, least: int, most: int, *name: object) -> int:
        """A number from `least` to `most` for the thing called `name`.

        It looks drawn, and is the same every time.
        """
        digest = hashlib.sha256(repr((self.spec.seed, *name)).encode("utf-8", "replace")).digest()
        return least + int.from_bytes(digest[:8], "big") % (most - least + 1)

    @property
    def uptime_s(self) -> int:
        return self.clock.now_s - self.booted_s

    def users(self) -> dict[str, int]:
        """The users' numbers by name."""
        numbers = dict(_SYSTEM_USERS)
        numbers[self.user] = 0 if self.user == "root" else FIRST_USER_ID
        for process in self.processes:
            numbers.setdefault(process.user, FIRST_USER_ID + len(numbers))
        return numbers

    def memory(self) -> Memory:
        total = self.spec.ram_mb * _MIB
        process_mb = sum(process.memory_mb for process in self.processes)
        used = min(total, _SYSTEM_BYTES + int(process_mb * _MIB))
        cache = (total - used) // 3
        swap = self.spec.swap_mb * _MIB
        swap_used = swap // 50
        return Memory(
            total=total,
            used=used,
            free=total - used - cache,
            shared=_SHARED_BYTES,
            cache=cache,
            available=total - used,
            swap_total=swap,
            swap_used=swap_used,
            swap_free=swap - swap_used,
        )

    def loads(self) -> tuple[float, float, float]:
        """The load averages of one, five and fifteen minutes."""
        busy = sum(process.cpu for process in self.processes) / 100 + self.spec.load
        return busy + 0.04, busy * 0.9 + 0.05, busy * 0.8 + 0.05

    def open_files(self, process: Process) -> list[str]:
        held = [path for path, name in self._holders.items() if name == process.name]
        return [*process.open, *held]

    def _add_fault(self, fault: FaultSpec, key: str) -> None:
        targets = [target for target in (fault.tool, fault.url, fault.file) if target]
        if len(targets) != 1:
            raise SuiteError(f"key '{key}.tool': a fault names one 'tool', one 'url' or one 'file'")
        if fault.url:
            self.web.add_fault(fault.url, f"{key}.url", fault.status, fault.times)
        elif fault.file:
            if not fault.locked_by:
                raise SuiteError(f"key '{key}.locked_by' is missing")
            self._holders[resolve(fault.file)] = fault.locked_by
        else:
            if fault.tool not in TOOL_NAMES:
                raise SuiteError(f"key '{key}.tool' must be one of {', '.join(TOOL_NAMES)}")
            errors = self.errors.setdefault(fault.tool, [])
            errors.extend([TOOL_ERRORS[fault.error]] * fault.times)

    def _holder_of(self, path: str) -> str | None:
        """The process that holds a file, as a refusal names it; None if none does, or it ended."""
        name = self._holders.get(path)
        if name is None:
            return None
        running = self.processes.named(name)
        return f"{name}, pid {running[0].pid}" if running else None

    # Files.

    def _place_directories(self) -> None:
        owners = dict.fromkeys([*SERVER["directories"], *_MODES], "root")
        for path in (*_USER_DIRECTORIES, self.home):
            owners[path] = self.user
        modified_s = self.clock.start_s - _SYSTEM_AGE_S
        for path, owner in owners.items():
            node = Node(owner, _MODES.get(path, 0o755), modified_s, is_directory=True)
            self.files.place(path, node)

    def _place_files(self, files: Mapping[str, Any]) -> None:
        """The files of the specification."""
        for path, value in files.items():
            key = f'files."{path}"'
            written = {"text": value} if isinstance(value, str) else value
            spec = read(FileSpec, written, key)
            if not path.startswith("/") or "\0" in path or resolve(path) != path or path == "/":
                raise SuiteError(f"key '{key}' must be named by a plain absolute path")
            if spec.directory and (spec.text is not None or spec.size is not None):
                raise SuiteError(f"key '{key}' is a directory, which has neither 'text' nor 'size'")
            if self.files.exists(path) and not spec.directory:
                raise SuiteError(
                    f"key '{key}' is a directory already, because another path lies inside it"
                )
            node = self._make_node(path, spec, key)
            with at_key(key, " cannot be placed"):
                self.files.place(path, node)

    def _make_node(self, path: str, spec: FileSpec, key: str) -> Node:
        age_s = self.draw(3_600, 30 * _DAY_S, "age", path)
        if spec.age_days is not None:
            age_s = int(spec.age_days * _DAY_S)
        usual_mode = "0755" if spec.directory else "0644"
        text = spec.text or ""
        size = 0 if spec.size is None else read_size(spec.size, f"{key}.size")
        return Node(
            owner=spec.owner or self.user,
            mode=int(spec.mode or usual_mode, 8),
            modified_s=max(0, self.clock.start_s - age_s),
            text=text,
            is_directory=spec.directory,
            hidden_bytes=max(0, size - len(to_bytes(text))),
        )

    def _place_system_files(self) -> None:
        """What stands on every server; a file of the specification stays as it is."""
        self.files.live = {
            "/proc/meminfo": self._meminfo,
            "/proc/loadavg": self._loadavg,
            "/proc/cpuinfo": self._cpuinfo,
            "/proc/uptime": lambda: f"{self.uptime_s}.00 {self.uptime_s * self.spec.cpus}.00\n",
            "/proc/mounts": self._mounts,
        }
        nodes: dict[str, Node] = {}
        for path, text in self._system_texts().items():
            nodes[path] = Node("root", 0o644, self.booted_s, text)
        for path in DEVICES:
            nodes[path] = Node("root", 0o666, self.booted_s)
        for path in self.files.live:
            nodes[path] = Node("root", 0o444, self.clock.start_s)
        for disk in self.disks:
            if disk.wanted != 0:
                nodes[disk.mount] = Node("root", 0o755, self.booted_s, is_directory=True)
        nodes["/etc/shadow"].mode = 0o640
        for path, node in nodes.items():
            if not self.files.exists(path):
                # One that does not fit on a full disk is left out.
                with contextlib.suppress(FileFault):
                    self.files.place(path, node)

    def _system_texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path, text in SERVER["files"].items():
            texts[path] = text.format(host=self.host, release=RELEASE)
        users = sorted(self.users().items(), key=lambda pair: pair[1])
        passwd = ""
        group = ""
        for user, number in users:
            shell = "bin/bash" if number in (0, FIRST_USER_ID) else "sbin/nologin"
            passwd += f"{user}:x:{number}:{number}:{user}:{home_of(user)}:/{shell}\n"
            group += f"{user}:x:{number}:\n"
        texts["/etc/passwd"] = passwd
        texts["/etc/group"] = group
        for service in self.services:
            texts[f"/etc/systemd/system/{service.unit}"] = service.unit_text
        return texts

    def _meminfo(self) -> str:
        memory = self.memory()
        buffers = memory.cache // 10
        sizes = {
            "MemTotal": memory.total,
            "MemFree": memory.free,
            "MemAvailable": memory.available,
            "Buffers": buffers,
            "Cached": memory.cache - buffers,
            "SwapTotal": memory.swap_total,
            "SwapFree": memory.swap_free,
            "Shmem": memory.shared,
        }
        lines = []
        for name, size in sizes.items():
            lines.append(f"{name + ':':<15} {size // 1024:>8} kB\n")
        return "".join(lines)

    def _loadavg(self) -> str:
        loads = " ".join(f"{load:.2f}" for load in self.loads())
        return f"{loads} 1/96 31007\n"

    def _cpuinfo(self) -> str:
        processors = [SERVER["cpu"].format(number=number) for number in range(self.spec.cpus)]
        return "\n".join(processors)

    def _mounts(self) -> str:
        lines = [f"{disk.device} {disk.mount} ext4 rw,relatime 0 0\n" for disk in self.disks]
        return "".join(lines)


def home_of(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def check_world(spec: Mapping[str, Any]) -> Machine:
    """The machine that a specification describes.

    Raises `SuiteError`, naming the key, where none can be built from it.
    """
    world_spec = read(WorldSpec, spec)
    with at_key("disks", ": no room for a server"):
        return Machine(world_spec)
