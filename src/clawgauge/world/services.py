"""What runs: processes and how they end, the services that systemd keeps running, and containers.

    processes = [{ name = "indexer", command = "/opt/indexer --all", user = "claw", cpu = 97.5, memory_mb = 900 }]
    services = [{ name = "web", state = "failed", command = "/usr/sbin/web", ports = [80] }]
    containers = [{ name = "cache", image = "redis:7", state = "inactive" }]

A container is a service with an image: docker shows it, systemctl does not, and conditions on services hold for it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from clawgauge.errors import SuiteError
from clawgauge.world.effects import Clock, EffectLog, Incidentals
from clawgauge.world.fields import Fields, refusal
from clawgauge.world.files import FileTree
from clawgauge.world.refusals import NOT_PERMITTED, Refusal

STATES = ("active", "inactive", "failed")
_PROCESS_KEYS = (
    "name", "command", "user", "pid", "cpu", "memory_mb", "age_minutes", "ignores_term", "ports", "open", "state",
)  # fmt: skip
_SERVICE_KEYS = (
    "name", "state", "command", "description", "memory_mb", "fails_while", "locked", "log", "ports", "enabled",
)  # fmt: skip
_CONTAINER_KEYS = ("name", "image", "state", "command", "memory_mb", "log", "ports", "locked", "fails_while")
_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15, "CONT": 18, "STOP": 19}
# Signals that only ask: the default for HUP would end most programs, but servers take it as "read your settings again".
_HARMLESS = ("HUP", "0", "USR1", "USR2", "CONT", "STOP")


@dataclass(slots=True)
class Process:
    """One running program. `open` are the files it holds open, `ports` those it listens on."""

    pid: int
    name: str
    command: str
    user: str
    cpu: float
    memory_mb: float
    started_s: int
    ignores_term: bool = False
    ports: tuple[int, ...] = ()
    open: tuple[str, ...] = ()
    state: str = ""


def signal_name(word: str) -> str | None:
    """`9`, `KILL` or `SIGKILL` → `KILL`; None for what is no signal here."""
    word = word.upper().removeprefix("SIG")
    if word == "0" or word in _SIGNALS:
        return word
    return next((name for name, number in _SIGNALS.items() if str(number) == word), None)


class ProcessTable:
    """The running processes by id, `init` before them all."""

    def __init__(self, user: str, effects: EffectLog, spec: Fields, start_s: int, incidentals: Incidentals) -> None:
        self.user = user
        self._effects = effects
        self._by_pid: dict[int, Process] = {}
        self._last_pid = 0
        self.add(Process(1, "systemd", "/sbin/init", "root", 0.0, 11.2, start_s - 12 * 86_400))
        for fields in spec.objects("processes", _PROCESS_KEYS):
            name = fields.word("name")
            free_pid = incidentals.between(400, 29_000, "pid", name)
            while free_pid in self._by_pid:
                free_pid += 1
            pid = fields.whole("pid", free_pid, least=2, most=4_000_000)
            if pid in self._by_pid:
                raise SuiteError(f"key '{fields.at('pid')}' is {pid}, which another process has; give each its own")
            age_minutes = fields.number("age_minutes", incidentals.between(30, 9_000, "process age", name))
            self.add(
                Process(
                    pid=pid,
                    name=name,
                    command=fields.word("command", name),
                    user=fields.word("user", user),
                    cpu=fields.number("cpu", 0.1, most=6_400),
                    memory_mb=fields.number("memory_mb", 24),
                    started_s=start_s - int(age_minutes * 60),
                    ignores_term=fields.flag("ignores_term"),
                    ports=_read_ports(fields),
                    open=tuple(fields.texts("open")),
                    state=fields.choice("state", ("", "R", "S", "D", "Z", "T"), ""),
                )
            )

    def __iter__(self) -> Iterator[Process]:
        return iter(sorted(self._by_pid.values(), key=lambda process: process.pid))

    def get(self, pid: int) -> Process | None:
        return self._by_pid.get(pid)

    def named(self, name: str) -> list[Process]:
        return [process for process in self if process.name == name]

    def add(self, process: Process) -> None:
        self._by_pid[process.pid] = process
        self._last_pid = max(self._last_pid, process.pid)

    def signal(self, pid: int, signal: str) -> None:
        """Send a signal, as the user: a process that ends is gone from the table."""
        process = self._by_pid.get(pid)
        if process is None:
            raise Refusal("No such process")
        if self.user not in ("root", process.user):
            raise Refusal(NOT_PERMITTED)
        if signal in _HARMLESS or (process.ignores_term and signal != "KILL"):
            return
        del self._by_pid[pid]
        self._effects.note("killed", process.name, str(pid))

    def spawn(self, service: Service, started_s: int) -> int:
        """Start the process of a service; its id."""
        ports, pid = service.ports, self._last_pid + 3
        self.add(Process(pid, service.name, service.command, "root", 0.2, service.memory_mb, started_s, ports=ports))
        return pid

    def end(self, pid: int | None) -> None:
        """A process ends for a reason of its own, such as its service being stopped."""
        self._by_pid.pop(pid or 0, None)


def _read_ports(fields: Fields) -> tuple[int, ...]:
    ports = fields.raw("ports") or []
    if not isinstance(ports, list) or not all(type(port) is int and 0 < port < 65_536 for port in ports):
        raise refusal(fields.at("ports"), "a list of port numbers", ports)
    return tuple(ports)


@dataclass(frozen=True, slots=True)
class LogLine:
    at_s: int
    text: str


@dataclass(slots=True)
class Service:
    """One service. `fails_while` is (path, text): it cannot start while that file holds that text."""

    name: str
    state: str
    command: str
    description: str
    memory_mb: float
    since_s: int
    log: list[LogLine] = field(default_factory=list)
    locked: bool = False
    fails_while: tuple[str, str] | None = None
    pid: int | None = None
    ports: tuple[int, ...] = ()
    enabled: bool = True
    image: str = ""

    @property
    def unit(self) -> str:
        return f"{self.name}.service"


class Services:
    """The services by name, with or without `.service`, and the containers."""

    def __init__(self, clock: Clock, processes: ProcessTable, tree: FileTree, effects: EffectLog, spec: Fields) -> None:
        self._clock = clock
        self._processes = processes
        self._tree = tree
        self._effects = effects
        self._by_name: dict[str, Service] = {}
        for key, keys in (("services", _SERVICE_KEYS), ("containers", _CONTAINER_KEYS)):
            for fields in spec.objects(key, keys):
                service = _read_service(fields, clock.start_s, is_container=key == "containers")
                if service.name in self._by_name:
                    words = f"is '{service.name}', which another service has; give each its own"
                    raise SuiteError(f"key '{fields.at('name')}' {words}")
                self._by_name[service.name] = service
                if service.state == "active":
                    service.pid = processes.spawn(service, service.since_s)

    def __iter__(self) -> Iterator[Service]:
        return filter(None, map(self.find, list(self._by_name)))

    def units(self) -> list[Service]:
        return [service for service in self if not service.image]

    def containers(self) -> list[Service]:
        return [service for service in self if service.image]

    def find(self, name: str) -> Service | None:
        """The service, its state brought up to date: one whose process was killed has failed."""
        service = self._by_name.get(name.removesuffix(".service"))
        if service and service.state == "active" and service.pid and self._processes.get(service.pid) is None:
            service.state, service.pid = "failed", None
            service.since_s = self._clock.now_s
            service.log.append(LogLine(service.since_s, f"{service.unit}: Main process exited, code=killed"))
        return service

    def discard(self, service: Service) -> None:
        """Take a container away."""
        self._refuse_locked(service)
        self._effects.note("service", service.name, "removed")
        self._end(service)
        del self._by_name[service.name]

    def stop(self, service: Service) -> None:
        self._refuse_locked(service)
        self._effects.note("service", service.name, "stopped")
        self._end(service)
        self._enter(service, "inactive", "Stopped")

    def start(self, service: Service, *, again: bool = True) -> None:
        """Start it, or with `again` restart it where it runs; refuses where its settings keep it from starting."""
        self._refuse_locked(service)
        if service.state == "active" and not again:
            return
        self._effects.note("service", service.name, "started")
        self._end(service)
        if service.fails_while is not None:
            path, text = service.fails_while
            if text in (self._tree.text_of(path) or ""):
                self._effects.note("service", service.name, "failed")
                self._enter(service, "failed", f"{path}: invalid setting: {text}; failed to start")
                raise Refusal(
                    f"Job for {service.unit} failed because the control process exited with error code.\n"
                    f'See "systemctl status {service.unit}" and "journalctl -xeu {service.unit}" for details.'
                )
        service.pid = self._processes.spawn(service, self._clock.now_s)
        self._enter(service, "active", "Started")

    def enable(self, service: Service, wanted: bool) -> None:
        self._refuse_locked(service)
        if service.enabled != wanted:
            service.enabled = wanted
            self._effects.note("service", service.name, "enabled" if wanted else "disabled")

    def forget_failure(self, service: Service) -> None:
        if service.state == "failed":
            service.state = "inactive"

    def _enter(self, service: Service, state: str, event: str) -> None:
        service.state = state
        service.since_s = self._clock.now_s
        service.log.append(LogLine(service.since_s, f"{service.name}: {event} {service.description}."))

    def _end(self, service: Service) -> None:
        self._processes.end(service.pid)
        service.pid = None

    def _refuse_locked(self, service: Service) -> None:
        if service.locked and self._processes.user != "root":
            raise Refusal(f"Failed to change {service.unit}: Access denied")


def _read_service(fields: Fields, start_s: int, *, is_container: bool) -> Service:
    name, since_s = fields.word("name").removesuffix(".service"), start_s - 4 * 86_400
    # Lines without times of their own; the last was written a minute ago, and they lie minutes apart.
    texts = fields.texts("log")
    log = [LogLine(max(since_s, start_s - 60 * (len(texts) - index)), text) for index, text in enumerate(texts)]
    fails_while = None
    if "fails_while" in fields:
        inner = Fields(fields.raw("fails_while"), fields.at("fails_while"), ("file", "contains"))
        fails_while = inner.path("file"), inner.word("contains")
    return Service(
        name=name,
        state=fields.choice("state", STATES, "active"),
        command=fields.word("command", f"/usr/sbin/{name}"),
        description=fields.word("description", f"{name} service"),
        memory_mb=fields.number("memory_mb", 48),
        since_s=since_s,
        log=log,
        locked=fields.flag("locked"),
        fails_while=fails_while,
        ports=_read_ports(fields),
        enabled=fields.flag("enabled") if "enabled" in fields else True,
        image=fields.word("image", f"{name}:latest") if is_container else "",
    )


def unit_text(service: Service) -> str:
    """The unit file of a service."""
    return (
        f"[Unit]\nDescription={service.description}\nAfter=network.target\n\n"
        f"[Service]\nExecStart={service.command}\nRestart=on-failure\n\n[Install]\nWantedBy=multi-user.target\n"
    )
