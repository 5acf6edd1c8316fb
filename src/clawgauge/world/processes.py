"""Processes of the simulated machine, and how they end."""

from collections.abc import Callable, Iterator
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from clawgauge.errors import SuiteError
from clawgauge.world.effects import NOT_PERMITTED, Ledger, Refusal
from clawgauge.world.spec import SERVER, Amount, Port, SpecObject, Word

_SIGNALS: dict[str, int] = SERVER["signals"]
# Signals that only ask: the default for HUP would end most programs, but servers take it as "read
# your settings again".
_HARMLESS = ("HUP", "0", "USR1", "USR2", "CONT", "STOP")
_INIT_AGE_S = 12 * 86_400


class ProcessSpec(SpecObject):
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
    for name, number in _SIGNALS.items():
        if word in (name, str(number)):
            return name
    return None


class ProcessTable:
    """The processes by pid. `draw` gives numbers that look drawn: see `Machine.draw`."""

    def __init__(self, ledger: Ledger, specs: list[ProcessSpec], draw: Callable[..., int]) -> None:
        self._ledger = ledger
        self._draw = draw
        self._by_pid: dict[int, Process] = {}
        self._last_pid = 0
        start_s = ledger.clock.start_s
        init = ProcessSpec(
            name="systemd", command="/sbin/init", user="root", pid=1, cpu=0.0, memory_mb=11.2
        )
        self.add(init, start_s - _INIT_AGE_S)
        for index, spec in enumerate(specs):
            process = replace(
                spec,
                pid=self._choose_pid(spec, f"processes[{index}]"),
                command=spec.command or spec.name,
                user=spec.user or ledger.user,
            )
            age_minutes = spec.age_minutes
            if age_minutes is None:
                age_minutes = draw(30, 9_000, "process age", spec.name)
            self.add(process, start_s - int(age_minutes * 60))

    def _choose_pid(self, spec: ProcessSpec, key: str) -> int:
        if spec.pid in self._by_pid:
            raise SuiteError(
                f"key '{key}.pid' is {spec.pid}, which another process has; give each its own"
            )
        if spec.pid:
            return spec.pid
        pid = self._draw(400, 29_000, "pid", spec.name)
        while pid in self._by_pid:
            pid += 1
        return pid

    def __iter__(self) -> Iterator[Process]:
        return iter(sorted(self._by_pid.values(), key=lambda process: process.pid))

    def get(self, pid: int) -> Process | None:
        return self._by_pid.get(pid)

    def named(self, name: str) -> list[Process]:
        return [process for process in self if process.name == name]

    def add(self, spec: ProcessSpec, started_s: int) -> int:
        """Its pid, which is the next one if the specification has none."""
        pid = spec.pid or self._last_pid + 3
        self._last_pid = max(self._last_pid, pid)
        self._by_pid[pid] = Process(
            name=spec.name,
            command=spec.command,
            user=spec.user,
            pid=pid,
            cpu=spec.cpu,
            memory_mb=spec.memory_mb,
            age_minutes=spec.age_minutes,
            ignores_term=spec.ignores_term,
            ports=spec.ports,
            open=spec.open,
            state=spec.state,
            started_s=started_s,
        )
        return pid

    def signal(self, pid: int, signal: str) -> None:
        """Raises `Refusal` if there is no such process or it is somebody else's."""
        process = self._by_pid.get(pid)
        if process is None:
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
