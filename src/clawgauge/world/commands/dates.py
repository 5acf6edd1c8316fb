"""The command date, and dates as other commands read and write them."""

import calendar
import datetime as dt
import re

from clawgauge.world.commands.call import COMMANDS, TABLE, Call, command
from clawgauge.world.effects import Refusal

_UNIT_SECONDS: dict[str, int] = TABLE["date"]["units"]
_COUNTS: dict[str, int] = TABLE["date"]["counts"]
_DAYS: dict[str, int] = TABLE["date"]["days"]
_TIMES: dict[str, str] = TABLE["date"]["times"]
_ISO_FORMS: dict[str, str] = TABLE["date"]["iso"]
_TOKEN = re.compile(TABLE["date"]["token"], re.VERBOSE)
_WEEKDAYS = [name.lower() for name in calendar.day_name]
_MONTHS = [name.lower() for name in calendar.month_name]  # the first is empty
_LEAST_NAME_CHARS = 3
_MOST_DAYS = 31
# Options whose value may be left out, as getopt reads them.
_SPELLED_OUT = {"-I": "-Idate", "--iso-8601": "-Idate", "--rfc-2822": "-R"}
_USUAL_FORM = "%a %b %e %H:%M:%S UTC %Y"
_MAIL_FORM = "%a, %d %b %Y %H:%M:%S +0000"
_C_DIRECTIVES = "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY%"
_DIRECTIVE = re.compile(r"%(?P<flag>[-_^0#]?):?(?P<name>3N|.)", re.DOTALL)


@command("date", raw=True)
def date(call: Call) -> int:
    args = [_SPELLED_OUT.get(arg, arg) for arg in call.args]
    options = COMMANDS["date"].parse(args)
    if options.has("s"):
        raise Refusal("cannot set date: Operation not permitted")
    moment = call.machine.clock.moment()
    if options.has("d"):
        moment = read_moment(moment, options.value("d"))
    elif options.has("r"):
        node = call.files.node(call.resolve(options.value("r")))
        moment = call.machine.clock.moment(node.modified_s)
    form = _MAIL_FORM if options.has("R") else _USUAL_FORM
    form = _ISO_FORMS.get(options.value("I"), form)
    for operand in options.operands:
        if not operand.startswith("+"):
            raise Refusal(f"invalid date '{operand[:40]}'")
        form = operand[1:]
    return call.print(format_moment(moment, form) + "\n")


def read_moment(now: dt.datetime, text: str) -> dt.datetime:
    """What GNU date makes of a text: a date, a time, and steps from there, in any order.

    Raises `Refusal` for what is none.
    """
    try:
        return _parse_moment(now, text)
    except (ValueError, OverflowError, OSError):
        hint = ": here are read 'March 1 2026', 'next monday', '2 days ago'"
        if text[:4].isdecimal():
            hint = ""
        raise Refusal(f"invalid date '{text[:60]}'{hint}") from None


def _parse_moment(now: dt.datetime, text: str) -> dt.datetime:
    written = _WrittenMoment(now)
    rest = re.sub(r"[\s,]+", " ", text.strip().lower())
    while rest:
        token = _TOKEN.match(rest)
        if token is None:
            raise ValueError(text)
        written.add(token)
        rest = rest[token.end() :].removeprefix(" ")
    return written.resolve()


class _WrittenMoment:
    """The parts of a moment as somebody has written it.

    Every method raises `ValueError` for what makes no moment.
    """

    def __init__(self, now: dt.datetime) -> None:
        self._now = now
        self._day: dt.date | None = None
        self._time: dt.time | None = None
        self._month = 0
        self._weekday: int | None = None
        self._numbers: list[int] = []
        self._shifts: list[tuple[int, str]] = []  # how many of which unit

    def add(self, token: re.Match[str]) -> None:
        """Take in the next part; its kinds are in `commands.toml`."""
        if token["epoch"]:
            self._now = dt.datetime.fromtimestamp(int(token["epoch"][1:]), dt.UTC)
            self._day = self._now.date()
            self._time = self._now.time()
        elif token["date"]:
            year, month, day = re.split("[-/]", token["date"])
            self._day = dt.date(int(year), int(month), int(day))
        elif token["compact"]:
            self._day = dt.date.fromisoformat(token["compact"])
        elif token["time"]:
            self._time = _read_time(token["time"], token["half"])
        elif token["unit"]:
            self._add_shift(token)
        elif token["number"]:
            self._numbers.append(int(token["number"]))
        elif token["word"]:
            self._add_word(token["word"], (token["which"] or "this").strip())

    def _add_shift(self, token: re.Match[str]) -> None:
        count = "".join((token["count"] or "1").split())
        amount = _COUNTS[count] if count in _COUNTS else int(count)
        self._shifts.append((-amount if token["ago"] else amount, token["unit"]))

    def _add_word(self, word: str, which: str) -> None:
        """`which` is `last`, `this` or `next`."""
        if word in _TIMES:
            self._time = _read_time(_TIMES[word], None)
            return
        if word in _DAYS:
            self._shifts.append((_DAYS[word], "day"))
            return
        weekday = _find_name(word, _WEEKDAYS)
        if weekday is not None:
            self._weekday = weekday
            self._shifts.append((_COUNTS[which], "weekday"))
            return
        month = _find_name(word, _MONTHS)
        if month is None:
            raise ValueError(word)
        self._month = month

    def resolve(self) -> dt.datetime:
        """The moment that all parts make together."""
        day = self._day
        if self._month:
            day = self._day_of_month()
        elif self._numbers:
            raise ValueError("a number without a month")
        time = self._time
        if time is None:
            is_of_a_day = day is not None or self._weekday is not None
            time = dt.time() if is_of_a_day else self._now.time()
        moment = dt.datetime.combine(day or self._now.date(), time, dt.UTC)
        for amount, unit in self._shifts:
            moment = self._shift(moment, amount, unit)
        return moment

    def _day_of_month(self) -> dt.date:
        """The day of a month that stands in words, beside numbers for the day and the year."""
        numbers = sorted(self._numbers)
        year = self._now.year
        if numbers and numbers[-1] > _MOST_DAYS:
            year = numbers.pop()
        day = numbers.pop() if numbers else 1
        if numbers:
            raise ValueError("too many numbers")
        return dt.date(year, self._month, day)

    def _shift(self, moment: dt.datetime, amount: int, unit: str) -> dt.datetime:
        if unit in _UNIT_SECONDS:
            return moment + dt.timedelta(seconds=amount * _UNIT_SECONDS[unit])
        if unit == "weekday":
            days_ahead = ((self._weekday or 0) - moment.weekday()) % 7
            # The next one is the first that is ahead, if today is another day.
            weeks = amount - 1 if amount > 0 and days_ahead else amount
            return moment + dt.timedelta(days=days_ahead + 7 * weeks)
        n_months = moment.month - 1 + amount * (12 if unit == "year" else 1)
        first = moment.replace(year=moment.year + n_months // 12, month=n_months % 12 + 1, day=1)
        # A day that the month has not is one of the next month, as in date(1).
        return first + dt.timedelta(days=moment.day - 1)


def _read_time(written: str, half: str | None) -> dt.time:
    """`half` is `am` or `pm`."""
    time = dt.time.fromisoformat(written.rjust(5, "0"))
    if half is None:
        return time
    return time.replace(hour=time.hour % 12 + (12 if half == "pm" else 0))


def _find_name(word: str, names: list[str]) -> int | None:
    """The index of the name that a word is, or is short for."""
    if len(word) < _LEAST_NAME_CHARS:
        return None
    for index, name in enumerate(names):
        if name.startswith(word):
            return index
    return None


def format_moment(moment: dt.datetime, form: str) -> str:
    """A moment as `date +FORM` writes it; a directive that is none stays as it is."""
    special = _special_directives(moment)

    def write_out(directive: re.Match[str]) -> str:
        flag = directive["flag"]
        name = directive["name"]
        if name in special:
            text = special[name]
        elif name in _C_DIRECTIVES:
            text = moment.strftime(f"%{name}")
        else:
            return directive[0]
        if flag == "-":
            return text.lstrip("0 ") or "0"
        if flag == "^":
            return text.upper()
        if flag == "0":
            return text.replace(" ", "0")
        return text

    return _DIRECTIVE.sub(write_out, form)


def _special_directives(moment: dt.datetime) -> dict[str, str]:
    """What C's `strftime` has not, or does by the host."""
    return {
        "s": str(int(moment.timestamp())),
        "k": f"{moment.hour:>2}",
        "l": f"{(moment.hour - 1) % 12 + 1:>2}",
        "q": str((moment.month + 2) // 3),
        "P": f"{moment:%p}".lower(),
        "N": "000000000",
        "3N": "000",
        "Z": "UTC",
        "z": "+0000",
    }
