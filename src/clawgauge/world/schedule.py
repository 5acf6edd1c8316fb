"""Scheduled jobs, as cron has them.

Owns: what a schedule may say and when two spellings of one are the same. Refuses: running jobs.

    cron = [{ schedule = "30 2 * * *", command = "/opt/backup.sh" }]
"""

from __future__ import annotations

import calendar
import re

from clawgauge.errors import SuiteError
from clawgauge.world.effects import EffectLog
from clawgauge.world.refusals import Refusal
from clawgauge.world.spec import Noun, Word

MAX_JOBS = 500
_MAX_COMMAND_CHARS = 4_096
_ALIASES = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = {name.lower(): (number + 1) % 7 for number, name in enumerate(calendar.day_abbr)}
_RANGES: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, _MONTHS), (0, 7, _WEEKDAYS),
)  # fmt: skip
_ITEM = re.compile(r"(?:\*|(?P<first>[a-z0-9]{1,3})(?:-(?P<last>[a-z0-9]{1,3}))?)(?:/(?P<step>\d{1,2}))?")


class JobSpec(Noun):
    schedule: Word
    command: Word
    name: str = ""


class Job(JobSpec, kw_only=True):
    id: str


def moments_of(schedule: str) -> tuple[frozenset[int], ...] | None:
    """The minutes, hours, days, months and weekdays a schedule means, or None where it is no schedule."""
    fields = _ALIASES.get(schedule.strip().lower(), schedule).split()
    if len(fields) != len(_RANGES):
        return None
    try:
        return tuple(_field(field, *limits) for field, limits in zip(fields, _RANGES, strict=True))
    except ValueError:
        return None


def _field(field: str, least: int, most: int, names: dict[str, int]) -> frozenset[int]:
    moments: set[int] = set()
    for item in field.lower().split(","):
        found = _ITEM.fullmatch(item)
        if found is None:
            raise ValueError(item)
        first, last, step = least, most, int(found["step"] or 1)
        if found["first"] is not None:
            first, last = (
                names[word] if word in names else int(word)
                for word in (found["first"], found["last"] or found["first"])
            )
            last = most if found["step"] and not found["last"] else last
        if not least <= first <= last <= most or step < 1:
            raise ValueError(item)
        moments.update(range(first, last + 1, step))
    # Sunday is 0 and 7.
    return frozenset(0 if most == 7 and moment == 7 else moment for moment in moments)


class Schedule:
    """The user's jobs in the order of the crontab."""

    def __init__(self, effects: EffectLog, spec: list[JobSpec]) -> None:
        self._effects = effects
        self._last_id = 0
        self.jobs: list[Job] = []
        for index, job in enumerate(spec):
            try:
                self.add(job.schedule, job.command, job.name)
            except Refusal as refusal:
                raise SuiteError(f"key 'cron[{index}].schedule': {refusal}") from None

    def add(self, schedule: str, command: str, name: str = "") -> Job:
        if moments_of(schedule) is None:
            raise Refusal(f"bad schedule '{schedule[:100]}'; give five cron fields, such as '30 2 * * *'")
        if not command.strip() or len(command) > _MAX_COMMAND_CHARS or len(self.jobs) >= MAX_JOBS:
            raise Refusal("the command is empty or too long, or there are too many jobs; nothing was scheduled")
        self._last_id += 1
        job = Job(" ".join(schedule.split()), command.strip(), name.strip(), id=f"job-{self._last_id}")
        self.jobs.append(job)
        self._effects.note("scheduled", job.command, job.schedule)
        return job

    def remove(self, job_id: str) -> Job:
        for job in self.jobs:
            if job_id.strip() in (job.id, job.name or job.id):
                self.jobs.remove(job)
                self._effects.note("unscheduled", job.command, job.schedule)
                return job
        raise Refusal(f"no job has the id '{job_id[:100]}'")

    def install(self, crontab: str) -> None:
        """Replace all jobs by those of a crontab; a job that is in both stays itself."""
        wanted: list[tuple[str, str]] = []
        for number, line in enumerate(crontab.splitlines(), start=1):
            line = line.strip()
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
