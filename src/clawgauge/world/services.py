"""What runs: processes and how they end, the services that systemd keeps running, and the jobs of cron."""

import calendar
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict

from clawgauge.errors import SuiteError
from clawgauge.world.effects import NOT_PERMITTED, Ledger, Refusal
from clawgauge.world.files import FileTree, resolve
from clawgauge.world.spec import SERVER, Amount, Noun, Path, Port, Word, at_key

STATES = ("active", "inactive", "failed")
_SIGNALS, _CRON_ALIASES = SERVER["signals"], SERVER["cron_aliases"]
# Signals that only ask: the default for HUP would end most programs, but servers take it as "read your settings again".
_HARMLESS = ("HUP", "0", "USR1", "USR2", "CONT", "STOP")
_MAX_JOBS, _MAX_COMMAND_CHARS = 500, 4_096
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = {name.lower(): (number + 1) % 7 for number, name in enumerate(calendar.day_abbr)}
_CRON_FIELDS: Any = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, _MONTHS), (0, 7, _WEEKDAYS))
_CRON_ITEM = re.compile(
    r"(?:\*|(?P<first>[a-z0-9]{1,3})(?:-(?P<last>[a-z0-9]{1,3}))?)(?:/(?P<step>\d{1,2}))?"
)


class ProcessSpec(Noun):
    name: Word
    command: Word = ""
    user: Word = ""
    pid: Annotated[int, Meta(ge=2, le=4_000_000)] = 0
    cpu: Annotated[float, Meta(ge=0, le=6_400)] = 0.1
    memory_mb: Amount = 24
    age_minutes: Amount | None = None
    ignores_term: bool = False
    ports: list[Port] = []
    open: list[Word] = []
    state: Annotated[str, Meta(pattern="^(?:|R|S|D|Z|T)$")] = ""


class Process(ProcessSpec, kw_only=True):
    started_s: int


def signal_name(word: str) -> str | None:
    """`9`, `KILL` or `SIGKILL` → `KILL`; None for what is no signal here."""
    word = word.upper().removeprefix("SIG")
    return next((name for name, number in _SIGNALS.items() if word in (name, str(number))), None)


class ProcessTable:
    def __init__(self, ledger: Ledger, spec: list[ProcessSpec], draw: Callable[..., int]) -> None:
        self._ledger, start_s = ledger, ledger.clock.start_s
        self._by_pid: dict[int, Process] = {}
        self._last_pid = 0
        init = ProcessSpec(
            name="systemd", command="/sbin/init", user="root", pid=1, cpu=0.0, memory_mb=11.2
        )
        self.add(init, start_s - 12 * 86_400)
        for index, given in enumerate(spec):
            pid = given.pid or draw(400, 29_000, "pid", given.name)
            while pid in self._by_pid and not given.pid:
                pid += 1
            if pid in self._by_pid:
                raise SuiteError(
                    f"key 'processes[{index}].pid' is {pid}, which another process has; give each its own"
                )
            given.pid, given.command, given.user = (
                pid,
                given.command or given.name,
                given.user or ledger.user,
            )
            drawn = draw(30, 9_000, "process age", given.name)
            self.add(
                given,
                start_s - int((drawn if given.age_minutes is None else given.age_minutes) * 60),
            )

    def __iter__(self) -> Iterator[Process]:
        return iter(sorted(self._by_pid.values(), key=lambda process: process.pid))

    def get(self, pid: int) -> Process | None:
        return self._by_pid.get(pid)

    def named(self, name: str) -> list[Process]:
        return [process for process in self if process.name == name]

    def add(self, given: ProcessSpec, started_s: int) -> int:
        pid = given.pid or self._last_pid + 3
        self._last_pid = max(self._last_pid, pid)
        self._by_pid[pid] = Process(**asdict(given) | {"pid": pid}, started_s=started_s)
        return pid

    def signal(self, pid: int, signal: str) -> None:
        if (process := self._by_pid.get(pid)) is None:
            raise Refusal("No such process")
        if self._ledger.user not in ("root", process.user):
            raise Refusal(NOT_PERMITTED)
        if signal in _HARMLESS or (process.ignores_term and signal != "KILL"):
            return
        del self._by_pid[pid]
        self._ledger.note("killed", process.name, str(pid))

    def end(self, pid: int) -> None:
        """A process ends for a reason of its own, such as its service being stopped."""
        self._by_pid.pop(pid, None)


class FailsWhile(Noun):
    file: Path
    contains: Word


class ServiceSpec(Noun):
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
        return (
            f"[Unit]\nDescription={self.description}\nAfter=network.target\n\n"
            f"[Service]\nExecStart={self.command}\nRestart=on-failure\n\n[Install]\nWantedBy=multi-user.target\n"
        )


class Services:
    def __init__(
        self, ledger: Ledger, processes: ProcessTable, tree: FileTree, spec: list[ServiceSpec]
    ) -> None:
        self._ledger, self._processes, self._tree = ledger, processes, tree
        self._by_name: dict[str, Service] = {}
        since_s = ledger.clock.start_s - 4 * 86_400
        for index, given in enumerate(spec):
            name, key = given.name.removesuffix(".service"), f"services[{index}].name"
            if name in self._by_name:
                raise SuiteError(
                    f"key '{key}' is '{name}', which another service has; give each its own"
                )
            # Lines without times of their own; the last was written a minute ago, and they lie minutes apart.
            first_s = ledger.clock.start_s - 60 * len(given.log)
            lines = [(max(since_s, first_s + 60 * n), text) for n, text in enumerate(given.log)]
            given.command = given.command or f"/usr/sbin/{name}"
            given.description = given.description or f"{name} service"
            service = self._by_name[name] = Service(
                **asdict(given) | {"name": name}, since_s=since_s, lines=lines
            )
            if service.state == "active":
                self._spawn(service, since_s)

    def __iter__(self) -> Iterator[Service]:
        return filter(None, map(self.find, list(self._by_name)))

    def find(self, name: str) -> Service | None:
        """The service, its state brought up to date: one whose process was killed has failed."""
        service = self._by_name.get(name.removesuffix(".service"))
        if (
            service
            and service.state == "active"
            and service.pid
            and self._processes.get(service.pid) is None
        ):
            self._enter(service, "failed", f"{service.unit}: Main process exited, code=killed")
        return service

    def stop(self, service: Service) -> None:
        self._refuse_locked(service)
        self._ledger.note("service", service.name, "stopped")
        self._enter(service, "inactive", f"{service.name}: Stopped {service.description}.")

    def start(self, service: Service, *, again: bool = True) -> None:
        """Start it, or with `again` restart it where it runs; refuses where its settings keep it from starting."""
        self._refuse_locked(service)
        if service.state == "active" and not again:
            return
        self._ledger.note("service", service.name, "started")
        trap = service.fails_while
        if trap is not None and trap.contains in (self._tree.text_of(resolve(trap.file)) or ""):
            self._ledger.note("service", service.name, "failed")
            why = f"{trap.file}: invalid setting: {trap.contains}; failed to start"
            self._enter(service, "failed", f"{service.name}: {why} {service.description}.")
            hint = f'See "systemctl status {service.unit}" and "journalctl -xeu {service.unit}" for details.'
            raise Refusal(
                f"Job for {service.unit} failed because the control process exited with error code.\n{hint}"
            )
        self._enter(service, "active", f"{service.name}: Started {service.description}.")
        self._spawn(service, self._ledger.clock.now_s)

    def enable(self, service: Service, wanted: bool) -> None:
        self._refuse_locked(service)
        if service.enabled != wanted:
            service.enabled = wanted
            self._ledger.note("service", service.name, "enabled" if wanted else "disabled")

    def _spawn(self, service: Service, started_s: int) -> None:
        given: Any = {"cpu": 0.2, "memory_mb": service.memory_mb, "ports": service.ports}
        service.pid = self._processes.add(
            ProcessSpec(service.name, service.command, "root", **given), started_s
        )

    def _enter(self, service: Service, state: str, event: str) -> None:
        self._processes.end(service.pid or 0)
        service.state, service.pid, service.since_s = state, None, self._ledger.clock.now_s
        service.lines.append((service.since_s, event))

    def _refuse_locked(self, service: Service) -> None:
        if service.locked and self._ledger.user != "root":
            raise Refusal(f"Failed to change {service.unit}: Access denied")


class JobSpec(Noun):
    schedule: Word
    command: Word
    name: str = ""


class Job(JobSpec, kw_only=True):
    id: str


def moments_of(schedule: str) -> list[set[int]] | None:
    """The minutes, hours, days, months and weekdays a schedule means, or None where it is no schedule."""
    fields = _CRON_ALIASES.get(schedule.strip().lower(), schedule).lower().split()
    if len(fields) != len(_CRON_FIELDS):
        return None
    moments: list[set[int]] = []
    for field, (least, most, names) in zip(fields, _CRON_FIELDS, strict=True):
        moments.append(set())
        for item in field.split(","):
            found = _CRON_ITEM.fullmatch(item)
            words = (
                [found["first"], found["last"] or found["first"]]
                if found and found["first"]
                else []
            )
            if found is None or not all(word in names or word.isdecimal() for word in words):
                return None
            first, last = [names[word] if word in names else int(word) for word in words] or [
                least,
                most,
            ]
            last = most if words and found["step"] and not found["last"] else last
            step = int(found["step"] or 1)
            if not least <= first <= last <= most or step < 1:
                return None
            # Sunday is 0 and 7.
            moments[-1] |= {
                0 if (most, moment) == (7, 7) else moment for moment in range(first, last + 1, step)
            }
    return moments


class Schedule:
    def __init__(self, ledger: Ledger, spec: list[JobSpec]) -> None:
        self._ledger, self._last_id = ledger, 0
        self.jobs: list[Job] = []
        for index, job in enumerate(spec):
            with at_key(f"cron[{index}].schedule"):
                self.add(job.schedule, job.command, job.name)

    def add(self, schedule: str, command: str, name: str = "") -> Job:
        if moments_of(schedule) is None:
            raise Refusal(
                f"bad schedule '{schedule[:100]}'; give five cron fields, such as '30 2 * * *'"
            )
        if not command.strip() or len(command) > _MAX_COMMAND_CHARS or len(self.jobs) >= _MAX_JOBS:
            raise Refusal(
                "the command is empty or too long, or there are too many jobs; nothing was scheduled"
            )
        self._last_id += 1
        job = Job(
            " ".join(schedule.split()), command.strip(), name.strip(), id=f"job-{self._last_id}"
        )
        self.jobs.append(job)
        self._ledger.note("scheduled", job.command, job.schedule)
        return job

    def remove(self, job_id: str) -> Job:
        for job in self.jobs:
            if job_id.strip() in (job.id, job.name or job.id):
                self.jobs.remove(job)
                self._ledger.note("unscheduled", job.command, job.schedule)
                return job
        raise Refusal(f"no job has the id '{job_id[:100]}'")

    def install(self, crontab: str) -> None:
        """Replace all jobs by those of a crontab; a job that is in both stays itself."""
        wanted: list[tuple[str, str]] = []
        for number, line in enumerate(map(str.strip, crontab.splitlines()), start=1):
            if not line or line.startswith("#"):
                continue
            *schedule, command = line.split(None, 1 if line.startswith("@") else 5)
            if moments_of(" ".join(schedule)) is None:
                raise Refusal(f'"-":{number}: bad minute\nerrors in crontab file, can\'t install.')
            wanted.append((" ".join(schedule), command.strip()))
        for job in list(self.jobs):
            if (job.schedule, job.command) in wanted:
                wanted.remove((job.schedule, job.command))
            else:
                self.remove(job.id)
        for when, command in wanted:
            self.add(when, command)
