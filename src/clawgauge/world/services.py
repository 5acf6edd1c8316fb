"""The services that systemd keeps running."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from clawgauge.errors import SuiteError
from clawgauge.world.effects import Ledger, Refusal
from clawgauge.world.files import FileTree
from clawgauge.world.paths import resolve
from clawgauge.world.processes import ProcessSpec, ProcessTable
from clawgauge.world.spec import Amount, Path, Port, SpecObject, Word

STATES = ("active", "inactive", "failed")
_AGE_S = 4 * 86_400


class FailsWhile(SpecObject):
    """The service does not start while a file holds a text."""

    file: Path
    contains: Word


class ServiceSpec(SpecObject):
    name: Word
    state: Annotated[str, Meta(pattern="^(?:active|inactive|failed)$")] = "active"
    command: Word = ""
    description: Word = ""
    memory_mb: Amount = 48
    fails_while: FailsWhile | None = None
    locked: bool = False
    log: list[Word] = []
    ports: list[Port] = []
    enabled: bool = True


class Service(ServiceSpec, kw_only=True):
    since_s: int
    # When each line of its log was written, and the line.
    lines: list[tuple[int, str]]
    pid: int | None = None

    @property
    def unit(self) -> str:
        return f"{self.name}.service"

    @property
    def enabling(self) -> str:
        return "enabled" if self.enabled else "disabled"

    @property
    def unit_text(self) -> str:
        """The file that defines it."""
        return (
            f"[Unit]\nDescription={self.description}\nAfter=network.target\n\n"
            f"[Service]\nExecStart={self.command}\nRestart=on-failure\n\n"
            "[Install]\nWantedBy=multi-user.target\n"
        )


class Services:
    """The services by name, without `.service`."""

    def __init__(
        self, ledger: Ledger, processes: ProcessTable, tree: FileTree, specs: list[ServiceSpec]
    ) -> None:
        self._ledger = ledger
        self._processes = processes
        self._tree = tree
        self._by_name: dict[str, Service] = {}
        for index, spec in enumerate(specs):
            service = _make_service(spec, ledger.clock.start_s)
            if service.name in self._by_name:
                raise SuiteError(
                    f"key 'services[{index}].name' is '{service.name}', "
                    "which another service has; give each its own"
                )
            self._by_name[service.name] = service
            if service.state == "active":
                self._spawn(service, service.since_s)

    def __iter__(self) -> Iterator[Service]:
        for name in list(self._by_name):
            service = self.find(name)
            if service is not None:
                yield service

    def find(self, name: str) -> Service | None:
        """The service, its state brought up to date: one whose process was killed has failed."""
        service = self._by_name.get(name.removesuffix(".service"))
        if service is None or service.state != "active" or not service.pid:
            return service
        if self._processes.get(service.pid) is None:
            self._enter(service, "failed", f"{service.unit}: Main process exited, code=killed")
        return service

    def stop(self, service: Service) -> None:
        self._refuse_locked(service)
        self._ledger.note("service", service.name, "stopped")
        self._enter(service, "inactive", f"{service.name}: Stopped {service.description}.")

    def start(self, service: Service, *, again: bool = True) -> None:
        """Start it, or with `again` restart it where it runs.

        Raises `Refusal` where its settings keep it from starting.
        """
        self._refuse_locked(service)
        if service.state == "active" and not again:
            return
        self._ledger.note("service", service.name, "started")
        trap = service.fails_while
        if trap is not None and trap.contains in (self._tree.text_of(resolve(trap.file)) or ""):
            self._fail_to_start(service, trap)
        self._enter(service, "active", f"{service.name}: Started {service.description}.")
        self._spawn(service, self._ledger.clock.now_s)

    def _fail_to_start(self, service: Service, trap: FailsWhile) -> None:
        self._ledger.note("service", service.name, "failed")
        setting = f"{trap.file}: invalid setting: {trap.contains}"
        event = f"{service.name}: {setting}; failed to start {service.description}."
        self._enter(service, "failed", event)
        raise Refusal(
            f"Job for {service.unit} failed because the control process exited with error code.\n"
            f'See "systemctl status {service.unit}" and "journalctl -xeu {service.unit}" '
            "for details."
        )

    def enable(self, service: Service, wanted: bool) -> None:
        """Whether it is started when the machine is."""
        self._refuse_locked(service)
        if service.enabled != wanted:
            service.enabled = wanted
            self._ledger.note("service", service.name, "enabled" if wanted else "disabled")

    def _spawn(self, service: Service, started_s: int) -> None:
        process = ProcessSpec(
            name=service.name,
            command=service.command,
            user="root",
            cpu=0.2,
            memory_mb=service.memory_mb,
            ports=service.ports,
        )
        service.pid = self._processes.add(process, started_s)

    def _enter(self, service: Service, state: str, event: str) -> None:
        """Another state from now on; the process ends, and the event is in the log."""
        self._processes.end(service.pid or 0)
        service.pid = None
        service.state = state
        service.since_s = self._ledger.clock.now_s
        service.lines.append((service.since_s, event))

    def _refuse_locked(self, service: Service) -> None:
        if service.locked and self._ledger.user != "root":
            raise Refusal(f"Failed to change {service.unit}: Access denied")


def _make_service(spec: ServiceSpec, now_s: int) -> Service:
    name = spec.name.removesuffix(".service")
    since_s = now_s - _AGE_S
    # Lines have no times of their own: the last was written a minute ago, and they lie minutes
    # apart.
    first_s = now_s - 60 * len(spec.log)
    lines = []
    for index, text in enumerate(spec.log):
        lines.append((max(since_s, first_s + 60 * index), text))
    return Service(
        name=name,
        state=spec.state,
        command=spec.command or f"/usr/sbin/{name}",
        description=spec.description or f"{name} service",
        memory_mb=spec.memory_mb,
        fails_while=spec.fails_while,
        locked=spec.locked,
        log=spec.log,
        ports=spec.ports,
        enabled=spec.enabled,
        since_s=since_s,
        lines=lines,
    )
