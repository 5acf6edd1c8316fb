"""The jobs of cron, and what a schedule means."""

import calendar
import re
from typing import NamedTuple

from clawgauge.world.effects import Ledger, Refusal
from clawgauge.world.spec import SERVER, SpecObject, Word, at_key

_ALIASES: dict[str, str] = SERVER["cron_aliases"]
_MAX_JOBS = 500
_MAX_COMMAND_CHARS = 4_096
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = {name.lower(): (number + 1) % 7 for number, name in enumerate(calendar.day_abbr)}
_LAST_WEEKDAY = 7  # Sunday, which is 0 as well
_ITEM = re.compile(
    r"(?:\*|(?P<first>[a-z0-9]{1,3})(?:-(?P<last>[a-z0-9]{1,3}))?)(?:/(?P<step>\d{1,2}))?"
)


class _Field(NamedTuple):
    """A field of a schedule: its least and greatest number, and names for numbers."""

    least: int
    most: int
    names: dict[str, int]


_FIELDS = (
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, _MONTHS),
    _Field(0, _LAST_WEEKDAY, _WEEKDAYS),
)


class JobSpec(SpecObject):
    schedule: Word
    command: Word
    name: str = ""


class Job(JobSpec, kw_only=True):
    id: str


def moments_of(schedule: str) -> list[set[int]] | None:
    """The minutes, hours, days, months and weekdays a schedule means; None for what is none."""
    written = _ALIASES.get(schedule.strip().lower(), schedule)
    written_fields = written.lower().split()
    if len(written_fields) != len(_FIELDS):
        return None
    moments: list[set[int]] = []
    for written_field, field in zip(written_fields, _FIELDS, strict=True):
        field_moments: set[int] = set()
        for item in written_field.split(","):
            item_moments = _read_item(item, field)
            if item_moments is None:
                return None
            field_moments |= item_moments
        moments.append(field_moments)
    return moments


def _read_item(item: str, field: _Field) -> set[int] | None:
    """What `*`, `3`, `1-5`, `mon`, `*/10` or `8-18/2` means in a field."""
    match = _ITEM.fullmatch(item)
    if match is None:
        return None
    first: int | None = field.least
    last: int | None = field.most
    if match["first"]:
        first = _read_number(match["first"], field)
        if match["last"]:
            last = _read_number(match["last"], field)
        elif not match["step"]:
            last = first
    step = int(match["step"] or 1)
    if first is None or last is None or step < 1:
        return None
    if not field.least <= first <= last <= field.most:
        return None
    moments = set(range(first, last + 1, step))
    if field.most == _LAST_WEEKDAY and _LAST_WEEKDAY in moments:
        moments.remove(_LAST_WEEKDAY)
        moments.add(0)
    return moments


def _read_number(word: str, field: _Field) -> int | None:
    if word in field.names:
        return field.names[word]
    return int(word) if word.isdecimal() else None


class Schedule:
    """The jobs in the order in which they were added."""

    def __init__(self, ledger: Ledger, specs: list[JobSpec]) -> None:
        self._ledger = ledger
        self._last_number = 0
        self.jobs: list[Job] = []
        for index, spec in enumerate(specs):
            with at_key(f"cron[{index}].schedule"):
                self.add(spec.schedule, spec.command, spec.name)

    def add(self, schedule: str, command: str, name: str = "") -> Job:
        if moments_of(schedule) is None:
            raise Refusal(
                f"bad schedule '{schedule[:100]}'; give five cron fields, such as '30 2 * * *'"
            )
        if not command.strip() or len(command) > _MAX_COMMAND_CHARS or len(self.jobs) >= _MAX_JOBS:
            raise Refusal(
                "the command is empty or too long, or there are too many jobs; "
                "nothing was scheduled"
            )
        self._last_number += 1
        job = Job(
            schedule=" ".join(schedule.split()),
            command=command.strip(),
            name=name.strip(),
            id=f"job-{self._last_number}",
        )
        self.jobs.append(job)
        self._ledger.note("scheduled", job.command, job.schedule)
        return job

    def remove(self, job_id: str) -> Job:
        """Remove the job of an id or a name."""
        for job in self.jobs:
            if job_id.strip() in (job.id, job.name or job.id):
                self.jobs.remove(job)
                self._ledger.note("unscheduled", job.command, job.schedule)
                return job
        raise Refusal(f"no job has the id '{job_id[:100]}'")

    def install(self, crontab: str) -> None:
        """Replace all jobs by those of a crontab; a job that is in both stays itself."""
        wanted = _read_crontab(crontab)
        for job in list(self.jobs):
            if (job.schedule, job.command) in wanted:
                wanted.remove((job.schedule, job.command))
            else:
                self.remove(job.id)
        for schedule, command in wanted:
            self.add(schedule, command)


def _read_crontab(crontab: str) -> list[tuple[str, str]]:
    """The schedule and the command of each line. Raises `Refusal` for a bad one."""
    jobs: list[tuple[str, str]] = []
    for number, line in enumerate(crontab.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        n_fields = 1 if line.startswith("@") else len(_FIELDS)
        *fields, command = line.split(None, n_fields)
        schedule = " ".join(fields)
        if moments_of(schedule) is None:
            raise Refusal(f'"-":{number}: bad minute\nerrors in crontab file, can\'t install.')
        jobs.append((schedule, command.strip()))
    return jobs
