"""Words and lines that more than one report uses."""

from __future__ import annotations

from clawgauge.records import Result
from clawgauge.reports.sanitize import clean_terminal


def verdict_word(result: Result) -> str:
    """One call's outcome in a word or two."""
    if not result.success:
        return f"{result.availability_status} ({result.failure_type})"
    if result.objective_pass is None:
        return "answered"
    return "pass" if result.objective_pass else f"fail ({(result.violation or '').partition(':')[0]})"


def clean_lines(text: str) -> str:
    """Strip what could steer a terminal from every line, keep the lines; ends with one line end."""
    return "".join(f"{clean_terminal(line)}\n" for line in text.rstrip("\n").split("\n"))
