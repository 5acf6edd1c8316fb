"""`date` by the world's own clock, with the dates people write after `-d`."""

from __future__ import annotations

import calendar
import datetime as dt
import re

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


def _read(now: dt.datetime, text: str) -> dt.datetime:
    day: dt.date | None = None
    time: dt.time | None = None
    weekday: tuple[int, int] | None = None
    month: int | None = None
    numbers: list[int] = []
    shifts: list[tuple[int, str]] = []
    position = 0
    count: int | None = None
    while position < len(text):
        if text[position] in " \t,":
            position += 1
            continue
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(text)
        position = found.end()
        if found["epoch"]:
            now = dt.datetime.fromtimestamp(int(float(found["epoch"][1:])), dt.UTC)
            day, time = now.date(), now.time()
        elif found["iso"]:
            day = dt.date(*map(int, found["iso"].split("-")))
        elif found["compact"]:
            day = dt.date(int(text[found.start() :][:4]), int(found["compact"][4:6]), int(found["compact"][6:]))
        elif found["us"]:
            parts = [int(part) for part in found["us"].split("/")]
            day = dt.date(parts[2] if len(parts) > 2 else now.year, parts[0], parts[1])
        elif found["time"]:
            hour, *rest = found["time"].split(":")
            time = dt.time(_hour(int(hour), found["half"]), int(rest[0]), int(float(rest[1])) if len(rest) > 1 else 0)
        elif found["hour"]:
            time = dt.time(_hour(int(found["hour"]), found["hour_half"]))
        elif found["shift"]:
            amount = int(found["shift"].replace(" ", ""))
            shifts.append((-amount if found["ago"] else amount, found["unit"]))
        elif found["number"]:
            numbers.append(int(found["number"]))
        elif found["word"]:
            word = found["word"]
            if word in _DAYS:
                shifts.append((_DAYS[word], "day"))
            elif word == "midnight" or word == "noon":
                time = dt.time(12 if word == "noon" else 0)
            elif word in _COUNTS:
                count = _COUNTS[word]
            elif word == "ago" and shifts:
                shifts[-1] = (-shifts[-1][0], shifts[-1][1])
            elif (unit := word.removesuffix("s")) in _UNITS or unit in ("month", "year"):
                shifts.append((1 if count is None else count, unit))
                count = None
            elif (index := _named(word, _WEEKDAYS)) is not None:
                weekday, count = (index, count or 0), None
            elif (index := _named(word, _MONTHS[1:])) is not None:
                month = index + 1
            else:
                raise ValueError(word)
    if month is not None:
        years = [number for number in numbers if number > 31] or [now.year]
        days = [number for number in numbers if number <= 31] or [1]
        day = dt.date(years[0], month, days[0])
    elif numbers:
        raise ValueError(text)
    return _assemble(now, day, time, weekday, shifts)


def _assemble(
    now: dt.datetime,
    day: dt.date | None,
    time: dt.time | None,
    weekday: tuple[int, int] | None,
    shifts: list[tuple[int, str]],
) -> dt.datetime:
    if time is None:
        # A date alone, or a day of the week, begins at midnight; steps alone keep the time of day.
        time = dt.time(0) if day is not None or weekday is not None else now.time()
    moment = dt.datetime.combine(day or now.date(), time, dt.UTC)
    if weekday is not None:
        ahead = (weekday[0] - moment.weekday()) % 7
        weeks = weekday[1] - 1 if weekday[1] > 0 and ahead else weekday[1]
        moment += dt.timedelta(days=ahead + 7 * weeks)
    for amount, unit in shifts:
        if unit in _UNITS:
            moment += dt.timedelta(seconds=amount * _UNITS[unit])
            continue
        months = moment.month - 1 + amount * (12 if unit == "year" else 1)
        first = moment.replace(year=moment.year + months // 12, month=months % 12 + 1, day=1)
        moment = first + dt.timedelta(days=moment.day - 1)
    if not 1 <= moment.year <= 9999:
        raise ValueError(moment.year)
    return moment


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
