"""The simulated server: all its nouns in one place, built from a specification.

Owns: which keys a specification has and the order in which the nouns are set up. Refuses: a specification with a
fault in it, naming the key. Knows nothing of tools.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clawgauge.world.clock import Clock, read_clock
from clawgauge.world.disks import Disks, read_disks, settle_disks
from clawgauge.world.effects import EffectLog
from clawgauge.world.faults import Faults, fill_faults
from clawgauge.world.fields import Fields, refusal
from clawgauge.world.files import FileTree
from clawgauge.world.fuel import Fuel
from clawgauge.world.incidentals import Incidentals
from clawgauge.world.mailbox import Mailbox, fill_mailbox
from clawgauge.world.notes import Notes, fill_notes
from clawgauge.world.processes import ProcessTable, fill_processes
from clawgauge.world.schedule import Schedule, fill_schedule
from clawgauge.world.services import Services, fill_services
from clawgauge.world.starting_files import home_of, place_files
from clawgauge.world.web import Web, fill_web

WORLD_KEYS = (
    "seed", "user", "host", "clock", "files", "disks", "ram_mb", "processes", "services", "web", "contacts",
    "messages", "replies", "cron", "notes", "faults", "sudo",
)  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(slots=True)
class Machine:
    """Everything there is. Tools change it; `effects` remembers how."""

    user: str
    host: str
    ram_mb: int
    may_sudo: bool
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

    @property
    def home(self) -> str:
        return home_of(self.user)

    @contextlib.contextmanager
    def acting_as(self, user: str) -> Iterator[None]:
        """What is done meanwhile is done by `user`."""
        before = self.files.user
        self.files.user = self.processes.user = user
        try:
            yield
        finally:
            self.files.user = self.processes.user = before


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
    settle_disks(disks, fields)
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
    effects.listen()
    return Machine(
        user=user,
        host=host,
        ram_mb=fields.whole("ram_mb", 3_920, least=64, most=4_194_304),
        may_sudo=fields.flag("sudo"),
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
    )


def _read_name(fields: Fields, key: str, default: str) -> str:
    name = fields.text(key, default)
    if not _NAME.fullmatch(name):
        raise refusal(fields.at(key), "a short name of lower-case letters, digits and hyphens", name)
    return name
