"""Words and lines that more than one report uses."""

from __future__ import annotations

from clawgauge.records import Result
from clawgauge.reports.sanitize import clean_cell, clean_terminal


def verdict_word(result: Result) -> str:
    """One call's outcome in a word or two."""
    if not result.success:
        status = "no answer" if result.availability_status == "ok" else result.availability_status
        return f"{status} ({result.failure_type})"
    if result.objective_pass is None:
        return "answered"
    return "pass" if result.objective_pass else f"fail ({(result.violation or '').partition(':')[0]})"


def one_line(text: str, limit: int) -> str:
    """Foreign text as part of a line: nothing that steers a terminal, no line end, at most `limit` characters."""
    plain = clean_cell(text)
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def one_row(text: str) -> str:
    """A line with foreign words in it: one line whatever they are, as far in as it began, with its line end."""
    return f"{text[: len(text) - len(text.lstrip(' '))]}{clean_cell(text)}\n"


def clean_lines(text: str) -> str:
    """Strip what could steer a terminal from every line, keep the lines, make no new ones; ends with one line end."""
    return "".join(clean_terminal(line).replace("\n", " ") + "\n" for line in text.rstrip("\n").split("\n"))
