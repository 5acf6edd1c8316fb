"""`date` by the world's own clock, with the dates people write after `-d`."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from dataclasses import dataclass, field

from clawgauge.world.commands.call import Call, UsageFault, command

_UNITS = {
    "sec": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
    "fortnight": 1_209_600,
}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = tuple(name.lower() for name in calendar.month_name)
_DAYS = {"now": 0, "today": 0, "yesterday": -1, "tomorrow": 1}
_COUNTS = {"last": -1, "this": 0, "next": 1, "a": 1, "an": 1}
_TOKEN = re.compile(
    r"(?P<epoch>@-?\d{1,12}(?:\.\d+)?)"
    r"|(?P<iso>\d{4}-\d{1,2}-\d{1,2})(?=$|[ t+-])t?"
    r"|(?P<compact>\d{8})(?=$|\s)"
    r"|(?P<us>\d{1,2}/\d{1,2}(?:/\d{4})?)"
    r"|(?P<time>\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?)\s*(?P<half>[ap]m)?"
    r"|(?P<zone>z|utc|gmt|[+-]00:?00)(?=$|\s)"
    r"|(?P<shift>[+-]?\s*\d{1,6})\s*(?P<unit>sec|second|min|minute|hour|day|week|fortnight|month|year)s?\b(?P<ago>\s+ago\b)?"
    r"|(?P<hour>\d{1,2})\s*(?P<hour_half>[ap]m)"
    r"|(?P<number>\d{1,4})(?:st|nd|rd|th)?\b"
    r"|(?P<word>[a-z]+)\.?,?"
)
_FORMATS = {
    "c": "%a %b %e %H:%M:%S %Y", "D": "%m/%d/%y", "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "r": "%I:%M:%S %p",
    "h": "%b", "x": "%m/%d/%y", "X": "%H:%M:%S",
}  # fmt: skip
_DIRECT = frozenset("YmdHMSyjaAbBuwpIVUWGgC")
_DEFAULT = "%a %b %e %H:%M:%S UTC %Y"
_ISO = {
    "": "%F",
    "date": "%F",
    "hours": "%FT%H+00:00",
    "minutes": "%FT%H:%M+00:00",
    "seconds": "%FT%T+00:00",
    "ns": "%FT%T,%N+00:00",
}


@command("date", raw=True)
def date(call: Call) -> int:
    now = call.machine.clock.moment()
    moment, form = now, _DEFAULT
    waiting = list(reversed(call.args))
    while waiting:
        arg = waiting.pop()
        name, has_value, value = arg.partition("=")
        if arg.startswith("+"):
            form = arg[1:]
        elif arg in ("-u", "--utc", "--universal"):
            continue
        elif arg in ("-R", "--rfc-email", "--rfc-2822"):
            form = "%a, %d %b %Y %H:%M:%S +0000"
        elif name in ("--iso-8601", "--rfc-3339") or re.fullmatch(r"-I\w*", arg):
            kind = value or arg[2:] if arg.startswith("-I") else value
            form = _ISO.get(kind, "")
            form = form.replace("T%", " %") if name == "--rfc-3339" else form
        elif name == "--date" or arg == "-d" or (arg.startswith("-d") and not arg.startswith("--")):
            text = (
                value
                if has_value and name == "--date"
                else arg[2:]
                if arg[2:] and name != "--date"
                else _next(arg, waiting)
            )
            moment = read_moment(now, text)
        elif name == "--reference" or arg == "-r":
            path = call.resolve(value if has_value else _next(arg, waiting))
            moment = call.machine.clock.moment(call.files.node(path).modified_s)
        elif arg in ("-s", "--set") or name == "--set":
            raise UsageFault("cannot set date: Operation not permitted")
        else:
            raise UsageFault(f"option or operand '{arg[:40]}' is not supported here")
    call.print(format_moment(moment, form) + "\n")
    return 0


def _next(option: str, waiting: list[str]) -> str:
    if not waiting:
        raise UsageFault(f"option requires an argument -- '{option.lstrip('-')}'")
    return waiting.pop()


def read_moment(now: dt.datetime, text: str) -> dt.datetime:
    """What GNU date makes of a text: a date, a time, and steps from there, in any order."""
    try:
        return _read(now, text.strip().lower())
    except (ValueError, OverflowError, OSError):
        raise UsageFault(f"invalid date '{text[:60]}'") from None


@dataclass(slots=True)
class _Reading:
    """What has been understood of a date so far."""

    now: dt.datetime
    day: dt.date | None = None
    time: dt.time | None = None
    weekday: tuple[int, int] | None = None
    month: int | None = None
    numbers: list[int] = field(default_factory=list)
    shifts: list[tuple[int, str]] = field(default_factory=list)
    count: int | None = None

    def take(self, found: re.Match[str]) -> None:
        """Understand one token; raises ValueError for what is none."""
        if found["epoch"]:
            self.now = dt.datetime.fromtimestamp(int(float(found["epoch"][1:])), dt.UTC)
            self.day, self.time = self.now.date(), self.now.time()
        elif found["iso"]:
            year, month, day = map(int, found["iso"].split("-"))
            self.day = dt.date(year, month, day)
        elif found["compact"]:
            self.day = dt.date.fromisoformat(found["compact"])
        elif found["us"]:
            month, day, *years = (int(part) for part in found["us"].split("/"))
            self.day = dt.date(years[0] if years else self.now.year, month, day)
        elif found["time"]:
            hour, minute, *seconds = found["time"].split(":")
            self.time = dt.time(_hour(int(hour), found["half"]), int(minute), int(float(seconds[0])) if seconds else 0)
        elif found["hour"]:
            self.time = dt.time(_hour(int(found["hour"]), found["hour_half"]))
        elif found["shift"]:
            amount = int(found["shift"].replace(" ", ""))
            self.shifts.append((-amount if found["ago"] else amount, found["unit"]))
        elif found["number"]:
            self.numbers.append(int(found["number"]))
        elif found["word"]:
            self._take_word(found["word"])

    def _take_word(self, word: str) -> None:
        unit = word.removesuffix("s")
        if word in _DAYS:
            self.shifts.append((_DAYS[word], "day"))
        elif word in ("midnight", "noon"):
            self.time = dt.time(12 if word == "noon" else 0)
        elif word in _COUNTS:
            self.count = _COUNTS[word]
        elif word == "ago" and self.shifts:
            self.shifts[-1] = (-self.shifts[-1][0], self.shifts[-1][1])
        elif unit in _UNITS or unit in ("month", "year"):
            self.shifts.append((1 if self.count is None else self.count, unit))
            self.count = None
        elif (index := _named(word, _WEEKDAYS)) is not None:
            self.weekday, self.count = (index, self.count or 0), None
        elif (index := _named(word, _MONTHS[1:])) is not None:
            self.month = index + 1
        else:
            raise ValueError(word)

    def moment(self) -> dt.datetime:
        """The moment that all of it means."""
        if self.month is not None:
            years = [number for number in self.numbers if number > 31] or [self.now.year]
            days = [number for number in self.numbers if number <= 31] or [1]
            self.day = dt.date(years[0], self.month, days[0])
        elif self.numbers:
            raise ValueError(self.numbers)
        # A date alone, or a day of the week, begins at midnight; steps alone keep the time of day.
        is_dated = self.day is not None or self.weekday is not None
        time = self.time if self.time is not None else dt.time(0) if is_dated else self.now.time()
        moment = dt.datetime.combine(self.day or self.now.date(), time, dt.UTC)
        if self.weekday is not None:
            ahead = (self.weekday[0] - moment.weekday()) % 7
            weeks = self.weekday[1] - 1 if self.weekday[1] > 0 and ahead else self.weekday[1]
            moment += dt.timedelta(days=ahead + 7 * weeks)
        for amount, unit in self.shifts:
            moment = _shifted(moment, amount, unit)
        return moment


def _read(now: dt.datetime, text: str) -> dt.datetime:
    reading = _Reading(now)
    position = 0
    while position < len(text):
        if text[position] in " \t,":
            position += 1
            continue
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(text)
        position = found.end()
        reading.take(found)
    return reading.moment()


def _shifted(moment: dt.datetime, amount: int, unit: str) -> dt.datetime:
    if unit in _UNITS:
        return moment + dt.timedelta(seconds=amount * _UNITS[unit])
    months = moment.month - 1 + amount * (12 if unit == "year" else 1)
    first = moment.replace(year=moment.year + months // 12, month=months % 12 + 1, day=1)
    # A day that the month has not is one of the next month, as in date(1).
    return first + dt.timedelta(days=moment.day - 1)


def _hour(hour: int, half: str | None) -> int:
    if half is None:
        return hour
    return hour % 12 + (12 if half == "pm" else 0)


def _named(word: str, names: tuple[str, ...]) -> int | None:
    return next((index for index, name in enumerate(names) if len(word) >= 3 and name.startswith(word)), None)


def format_moment(moment: dt.datetime, form: str) -> str:
    """`form` filled as date(1) fills it."""

    def fill(found: re.Match[str]) -> str:
        flag, letter = found[1], found[2]
        seconds = int(moment.timestamp())
        special = {
            "s": str(seconds), "e": f"{moment.day:>2}", "k": f"{moment.hour:>2}", "q": str((moment.month + 2) // 3),
            "l": f"{(moment.hour - 1) % 12 + 1:>2}", "Y": str(moment.year),
            "n": "\n", "t": "\t", "%": "%", "Z": "UTC", "z": "+0000", "N": "000000000", "P": f"{moment:%p}".lower(),
        }  # fmt: skip
        if letter in special:
            text = special[letter]
        elif letter in _FORMATS:
            text = format_moment(moment, _FORMATS[letter])
        elif letter in _DIRECT:
            text = moment.strftime(f"%{letter}")
        else:
            return found[0]
        if flag == "-":
            return text.lstrip("0 ") or "0"
        return text.upper() if flag == "^" else text.replace(" ", "0") if flag == "0" else text

    return re.sub(
        r"%([-_^0#]?)(?:3N|:?(.))", lambda found: "000" if found[2] is None else fill(found), form, flags=re.DOTALL
    )
