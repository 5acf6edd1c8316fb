"""Services: what systemd would keep running.

Owns: the state of each service and the processes that belong to it. Refuses: units other than services.

    services = [{ name = "web", state = "failed", command = "/usr/sbin/web", needs_file = "/etc/web.conf" }]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world.clock import Clock
from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields
from clawgauge.world.files import FileTree
from clawgauge.world.processes import Process, ProcessTable
from clawgauge.world.refusals import Refusal

STATES = ("active", "inactive", "failed")
_KEYS = ("name", "state", "command", "description", "memory_mb", "fails_while", "locked", "log")


@dataclass(slots=True)
class Service:
    """One service. `fails_while` is (path, text): it cannot start while that file holds that text."""

    name: str
    state: str
    command: str
    description: str
    memory_mb: float
    since_s: int
    log: list[str]
    locked: bool = False
    fails_while: tuple[str, str] | None = None
    pid: int | None = None


class Services:
    """The services by name, with or without `.service`."""

    def __init__(self, clock: Clock, processes: ProcessTable, tree: FileTree, effects: EffectLog) -> None:
        self._clock = clock
        self._processes = processes
        self._tree = tree
        self._effects = effects
        self._by_name: dict[str, Service] = {}

    def __iter__(self) -> Iterator[Service]:
        return iter(self._by_name.values())

    def find(self, name: str) -> Service | None:
        """The service, its state brought up to date: one whose process was killed has failed."""
        service = self._by_name.get(name.removesuffix(".service"))
        if service and service.state == "active" and service.pid and self._processes.get(service.pid) is None:
            service.state, service.pid = "failed", None
            service.since_s = self._clock.now_s
            service.log.append(f"{service.name}.service: Main process exited, code=killed")
        return service

    def add(self, service: Service) -> None:
        self._by_name[service.name] = service
        if service.state == "active":
            self._spawn(service, service.since_s)

    def stop(self, service: Service) -> None:
        self._refuse_locked(service)
        self._effects.note("service", service.name, "stopped")
        self._end(service)
        self._enter(service, "inactive", "Stopped")

    def start(self, service: Service) -> None:
        """Start it, or restart it where it runs; refuses where its settings keep it from starting."""
        self._refuse_locked(service)
        self._effects.note("service", service.name, "started")
        self._end(service)
        if service.fails_while is not None:
            path, text = service.fails_while
            if text in (self._tree.text_of(path) or ""):
                self._effects.note("service", service.name, "failed")
                self._enter(service, "failed", f"{path}: invalid setting: {text}; failed to start")
                raise Refusal(
                    f"Job for {service.name}.service failed because the control process exited with error code.\n"
                    f'See "systemctl status {service.name}.service" for details.'
                )
        self._spawn(service, self._clock.now_s)
        self._enter(service, "active", "Started")

    def _enter(self, service: Service, state: str, event: str) -> None:
        service.state = state
        service.since_s = self._clock.now_s
        service.log.append(f"{service.name}: {event} {service.description}.")

    def _spawn(self, service: Service, started_s: int) -> None:
        service.pid = self._processes.next_pid()
        self._processes.add(
            Process(service.pid, service.name, service.command, "root", 0.2, service.memory_mb, started_s)
        )

    def _end(self, service: Service) -> None:
        process = self._processes.get(service.pid) if service.pid else None
        if process is not None:
            self._processes.remove(process)
        service.pid = None

    def _refuse_locked(self, service: Service) -> None:
        if service.locked and self._processes.user != "root":
            raise Refusal(f"Failed to change {service.name}.service: Access denied")


def fill_services(services: Services, spec: Fields, start_s: int) -> None:
    """The services of a specification; the caller has filled the processes, so that ids follow theirs."""
    for fields in spec.objects("services", _KEYS):
        name = fields.word("name")
        if services.find(name) is not None:
            raise SuiteError(f"key '{fields.at('name')}' is '{name}', which another service has; give each its own")
        services.add(
            Service(
                name=name,
                state=fields.choice("state", STATES, "active"),
                command=fields.word("command", f"/usr/sbin/{name}"),
                description=fields.word("description", f"{name} service"),
                memory_mb=fields.number("memory_mb", 48),
                since_s=start_s - 4 * 86_400,
                log=list(fields.texts("log")),
                locked=fields.flag("locked"),
                fails_while=_read_hindrance(fields),
            )
        )


def _read_hindrance(fields: Fields) -> tuple[str, str] | None:
    if "fails_while" not in fields:
        return None
    inner = Fields(fields.raw("fails_while"), fields.at("fails_while"), ("file", "contains"))
    return inner.path("file"), inner.word("contains")
