"""The simulated server: one state that all tools look at and change, made from a specification."""

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from clawgauge.errors import SuiteError
from clawgauge.world import TOOL_NAMES
from clawgauge.world.effects import FileFault, Ledger
from clawgauge.world.files import DEVICES, Disks, DiskSpec, FileTree, Node, resolve, to_bytes
from clawgauge.world.outside import Mailbox, MessageSpec, Notes, Reply, Web
from clawgauge.world.services import (
    JobSpec,
    Process,
    ProcessSpec,
    ProcessTable,
    Schedule,
    Services,
    ServiceSpec,
)
from clawgauge.world.spec import (
    SERVER,
    Mode,
    Name,
    Noun,
    Path,
    Size,
    Word,
    at_key,
    read,
    read_moment,
    read_size,
)

RELEASE = "6.1.0-31-amd64"
_MIB, _DAY_S = 1024**2, 86_400
TOOL_ERRORS: dict[str, str] = SERVER["tool_errors"]


class FileSpec(Noun):
    text: str | None = None
    size: Size | None = None
    owner: Word = ""
    mode: Mode = ""
    age_days: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    directory: bool = False


class FaultSpec(Noun):
    tool: Word = ""
    error: Annotated[str, Meta(pattern=f"^(?:{'|'.join(TOOL_ERRORS)})$")] = "timeout"
    url: Word = ""
    status: Annotated[int, Meta(ge=400, le=599)] = 503
    file: Path = ""
    locked_by: Word = ""
    times: Annotated[int, Meta(ge=1, le=20)] = 1


class WorldSpec(Noun):
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


class Machine:
    def __init__(self, spec: WorldSpec) -> None:
        self.spec = spec
        # `user` is whose server it is; `ledger.user` is who acts, which `sudo` changes.
        self.user, self.host, self.home = spec.user, spec.host, home_of(spec.user)
        self.ledger = ledger = Ledger(spec.user, read_moment(spec.clock, "clock"))
        self.clock, self.fuel, self.effects = ledger.clock, ledger.fuel, ledger.effects
        self.booted_s = self.clock.start_s - int(spec.uptime_days * _DAY_S)
        self.disks = Disks(spec.disks)
        self.files = FileTree(ledger, self.disks)
        self._place_files(spec.files)
        self.processes = ProcessTable(ledger, spec.processes, self.draw)
        self.services = Services(ledger, self.processes, self.files, spec.services)
        self.web = Web(ledger, spec.web)
        self.mailbox = Mailbox(ledger, spec.contacts, spec.messages, spec.replies)
        self.schedule, self.notes = Schedule(ledger, spec.cron), Notes(ledger, spec.notes)
        # The errors that the next calls of a tool end in, and which process holds which file.
        self.errors: dict[str, list[str]] = {}
        self._holders: dict[str, str] = {}
        self._read_faults(spec.faults)
        self.files.holder_of = self._holder_of
        # Refusals of this call that the model is to read even where it threw them away.
        self.notices: list[str] = []
        self.n_drawn = 0
        self._place_system_files()
        self.disks.settle()
        ledger.is_listening = True

    def draw(self, least: int, most: int, *name: object) -> int:
        """A number from `least` to `most` for the thing called `name`: it looks drawn and is the same every time."""
        digest = hashlib.sha256(repr((self.spec.seed, *name)).encode("utf-8", "replace")).digest()
        return least + int.from_bytes(digest[:8], "big") % (most - least + 1)

    @property
    def uptime_s(self) -> int:
        return self.clock.now_s - self.booted_s

    def users(self) -> dict[str, int]:
        known = {"root": 0, "www-data": 33, "nobody": 65_534, "postgres": 105}
        known[self.user] = 0 if self.user == "root" else 1000
        for process in self.processes:
            known.setdefault(process.user, 1000 + len(known))
        return known

    def memory(self) -> dict[str, int]:
        """Bytes, as `free` and /proc/meminfo show them."""
        total, swap = self.spec.ram_mb * _MIB, self.spec.swap_mb * _MIB
        used = min(
            total, 180 * _MIB + int(sum(process.memory_mb for process in self.processes) * _MIB)
        )
        cache = (total - used) // 3
        return {
            "total": total, "used": used, "free": total - used - cache, "shared": 2 * _MIB, "cache": cache,
            "available": total - used, "swap_total": swap, "swap_used": swap // 50, "swap_free": swap - swap // 50,
        }  # fmt: skip

    def loads(self) -> tuple[float, float, float]:
        busy = sum(process.cpu for process in self.processes) / 100 + self.spec.load
        return busy + 0.04, busy * 0.9 + 0.05, busy * 0.8 + 0.05

    def open_files(self, process: Process) -> list[str]:
        return [
            *process.open,
            *(path for path, name in self._holders.items() if name == process.name),
        ]

    def _read_faults(self, faults: list[FaultSpec]) -> None:
        for index, fault in enumerate(faults):
            key = f"faults[{index}]"
            if [fault.tool, fault.url, fault.file].count("") != 2:
                raise SuiteError(
                    f"key '{key}.tool': a fault names one 'tool', one 'url' or one 'file'"
                )
            if fault.url:
                self.web.add_fault(fault.url, f"{key}.url", fault.status, fault.times)
            elif fault.file and not fault.locked_by:
                raise SuiteError(f"key '{key}.locked_by' is missing")
            elif fault.file:
                self._holders[resolve(fault.file)] = fault.locked_by
            elif fault.tool not in TOOL_NAMES:
                raise SuiteError(f"key '{key}.tool' must be one of {', '.join(TOOL_NAMES)}")
            else:
                self.errors.setdefault(fault.tool, []).extend(
                    [TOOL_ERRORS[fault.error]] * fault.times
                )

    def _holder_of(self, path: str) -> str | None:
        name = self._holders.get(path)
        running = self.processes.named(name) if name else []
        return f"{name}, pid {running[0].pid}" if running else None

    def _place_files(self, files: Mapping[str, Any]) -> None:
        start_s = self.clock.start_s
        modes = dict.fromkeys(SERVER["directories"], 0o755) | {"/root": 0o700, "/tmp": 0o1777}  # noqa: S108 - simulated
        owners = dict.fromkeys(modes, "root") | dict.fromkeys(
            ("/opt", "/srv", "/var/log", self.home), self.user
        )
        for path, owner in owners.items():
            self.files.place(
                path, Node(owner, modes.get(path, 0o755), start_s - 400 * _DAY_S, is_directory=True)
            )
        for path, value in files.items():
            key = f'files."{path}"'
            given = read(FileSpec, {"text": value} if isinstance(value, str) else value, key)
            if not path.startswith("/") or "\0" in path or resolve(path) != path or path == "/":
                raise SuiteError(f"key '{key}' must be named by a plain absolute path")
            if given.directory and (given.text is not None or given.size is not None):
                raise SuiteError(f"key '{key}' is a directory, which has neither 'text' nor 'size'")
            if self.files.exists(path) and not given.directory:
                raise SuiteError(
                    f"key '{key}' is a directory already, because another path lies inside it"
                )
            drawn_s = self.draw(3_600, 30 * _DAY_S, "age", path)
            modified_s = start_s - (
                drawn_s if given.age_days is None else int(given.age_days * _DAY_S)
            )
            mode = int(given.mode or ("0755" if given.directory else "0644"), 8)
            text, size = (
                given.text or "",
                0 if given.size is None else read_size(given.size, f"{key}.size"),
            )
            hidden_bytes = max(0, size - len(to_bytes(text)))
            node = Node(
                given.owner or self.user,
                mode,
                max(0, modified_s),
                text,
                given.directory,
                hidden_bytes,
            )
            with at_key(key, " cannot be placed"):
                self.files.place(path, node)

    def _place_system_files(self) -> None:
        users = sorted(self.users().items(), key=lambda pair: pair[1])
        shells = {
            number: "bin/bash" if number in (0, 1000) else "sbin/nologin" for _, number in users
        }
        texts = {
            path: text.format(host=self.host, release=RELEASE)
            for path, text in SERVER["files"].items()
        }
        texts["/etc/passwd"] = "".join(
            f"{who}:x:{n}:{n}:{who}:{home_of(who)}:/{shells[n]}\n" for who, n in users
        )
        texts["/etc/group"] = "".join(f"{who}:x:{n}:\n" for who, n in users)
        texts |= {
            f"/etc/systemd/system/{service.unit}": service.unit_text for service in self.services
        }
        self.files.live = {
            "/proc/meminfo": self._meminfo,
            "/proc/loadavg": lambda: " ".join(
                [*(f"{load:.2f}" for load in self.loads()), "1/96", "31007\n"]
            ),
            "/proc/cpuinfo": lambda: "\n".join(
                SERVER["cpu"].format(number=n) for n in range(self.spec.cpus)
            ),
            "/proc/uptime": lambda: f"{self.uptime_s}.00 {self.uptime_s * self.spec.cpus}.00\n",
            "/proc/mounts": lambda: "".join(
                f"{d.device} {d.mount} ext4 rw,relatime 0 0\n" for d in self.disks
            ),
        }
        nodes = {path: Node("root", 0o644, self.booted_s, text) for path, text in texts.items()}
        nodes |= {path: Node("root", 0o666, self.booted_s) for path in DEVICES}
        nodes |= {path: Node("root", 0o444, self.clock.start_s) for path in self.files.live}
        nodes |= {
            d.mount: Node("root", 0o755, self.booted_s, is_directory=True)
            for d in self.disks
            if d.wanted != 0
        }
        nodes["/etc/shadow"].mode = 0o640
        for path, node in nodes.items():
            # A file of the specification stays as it is; one that does not fit on a full disk is left out.
            if not self.files.exists(path):
                with contextlib.suppress(FileFault):
                    self.files.place(path, node)

    def _meminfo(self) -> str:
        memory = self.memory()
        rows = {
            "MemTotal": memory["total"], "MemFree": memory["free"], "MemAvailable": memory["available"],
            "Buffers": memory["cache"] // 10, "Cached": memory["cache"] - memory["cache"] // 10,
            "SwapTotal": memory["swap_total"], "SwapFree": memory["swap_free"], "Shmem": memory["shared"],
        }  # fmt: skip
        return "".join(f"{name + ':':<15} {size // 1024:>8} kB\n" for name, size in rows.items())


def home_of(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def check_world(spec: Mapping[str, Any]) -> Machine:
    """The server a specification describes; raises `SuiteError`, naming the key, where none can be built from it."""
    given = read(WorldSpec, spec)
    with at_key("disks", ": no room for a server"):
        return Machine(given)
