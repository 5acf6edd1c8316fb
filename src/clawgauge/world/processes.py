"""Processes: who runs what, and how it ends.

Owns: process ids, signals and their permission. Refuses: running anything.

    processes = [{ name = "indexer", command = "/opt/indexer --all", user = "claw", cpu = 97.5, memory_mb = 900 }]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world.effects import EffectLog
from clawgauge.world.fields import Fields
from clawgauge.world.incidentals import Incidentals
from clawgauge.world.refusals import Refusal

_KEYS = ("name", "command", "user", "pid", "cpu", "memory_mb", "age_minutes", "ignores_term")
_SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "TERM": 15}
# Signals that only ask: the default for HUP would end most programs, but servers take it as "read your settings again".
_HARMLESS = ("HUP", "0")


@dataclass(slots=True)
class Process:
    """One running program."""

    pid: int
    name: str
    command: str
    user: str
    cpu: float
    memory_mb: float
    started_s: int
    ignores_term: bool = False


def signal_name(word: str) -> str | None:
    """`9`, `KILL` or `SIGKILL` → `KILL`; None for what is no signal here."""
    word = word.upper().removeprefix("SIG")
    if word == "0" or word in _SIGNALS:
        return word
    return next((name for name, number in _SIGNALS.items() if str(number) == word), None)


class ProcessTable:
    """The running processes by id."""

    def __init__(self, user: str, effects: EffectLog) -> None:
        self.user = user
        self._effects = effects
        self._by_pid: dict[int, Process] = {}
        self._last_pid = 0

    def __iter__(self) -> Iterator[Process]:
        return iter(sorted(self._by_pid.values(), key=lambda process: process.pid))

    def get(self, pid: int) -> Process | None:
        return self._by_pid.get(pid)

    def named(self, name: str) -> list[Process]:
        return [process for process in self if process.name == name]

    def add(self, process: Process) -> None:
        self._by_pid[process.pid] = process
        self._last_pid = max(self._last_pid, process.pid)

    def next_pid(self) -> int:
        self._last_pid += 3
        return self._last_pid

    def signal(self, pid: int, signal: str) -> None:
        """Send a signal, as the user: a process that ends is gone from the table."""
        process = self._by_pid.get(pid)
        if process is None:
            raise Refusal("No such process")
        if self.user not in ("root", process.user):
            raise Refusal("Operation not permitted")
        if signal in _HARMLESS or (process.ignores_term and signal != "KILL"):
            return
        del self._by_pid[pid]
        self._effects.note("killed", process.name, str(pid))

    def remove(self, process: Process) -> None:
        """A process ends for a reason of its own, such as its service being stopped."""
        self._by_pid.pop(process.pid, None)


def fill_processes(table: ProcessTable, spec: Fields, user: str, start_s: int, incidentals: Incidentals) -> None:
    """The processes of a specification, with `init` before them all."""
    boot_s = start_s - 12 * 86_400
    table.add(Process(1, "systemd", "/sbin/init", "root", 0.0, 11.2, boot_s))
    for fields in spec.objects("processes", _KEYS):
        name = fields.word("name")
        pid = fields.whole("pid", _free_pid(table, name, incidentals), least=2, most=4_000_000)
        if table.get(pid) is not None:
            raise SuiteError(f"key '{fields.at('pid')}' is {pid}, which another process has; give each its own")
        age_minutes = fields.number("age_minutes", incidentals.between(30, 9_000, "process age", name))
        process = Process(
            pid=pid,
            name=name,
            command=fields.word("command", name),
            user=fields.word("user", user),
            cpu=fields.number("cpu", 0.1, most=6_400),
            memory_mb=fields.number("memory_mb", 24),
            started_s=start_s - int(age_minutes * 60),
            ignores_term=fields.flag("ignores_term"),
        )
        table.add(process)


def _free_pid(table: ProcessTable, name: str, incidentals: Incidentals) -> int:
    pid = incidentals.between(400, 29_000, "pid", name)
    while table.get(pid) is not None:
        pid += 1
    return pid
