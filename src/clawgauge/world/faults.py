"""Faults a task injects, for a model to recover from.

Owns: the key `faults` of a specification and when each fault strikes. Refuses: chance; a fault strikes the first calls
it fits, a fixed number of times.

    faults = [
      { tool = "web_fetch", error = "timeout", times = 1 },          # the first call of a tool fails
      { url = "https://example.org/", status = 503, times = 2 },     # a page answers 503 first
      { file = "/srv/data.db", locked_by = "backup" },               # busy while that process runs
    ]
"""

from __future__ import annotations

from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world import paths
from clawgauge.world.definitions import TOOL_NAMES
from clawgauge.world.fields import Fields
from clawgauge.world.files import FileTree
from clawgauge.world.refusals import Refusal
from clawgauge.world.services import ProcessTable
from clawgauge.world.web import Page, Web

TOOL_ERRORS = {
    "timeout": "Error: the tool timed out after 30 s; nothing was done",
    "permission_denied": "Error: permission denied; nothing was done",
    "unavailable": "Error: 503 Service Unavailable; nothing was done",
    "rate_limited": "Error: 429 Too Many Requests; nothing was done",
}
_KEYS = ("tool", "error", "url", "status", "file", "locked_by", "times")
_MAX_TIMES = 20


@dataclass(slots=True)
class ToolFault:
    """The next `times` calls of a tool fail without doing anything."""

    tool: str
    error: str
    times: int


class Faults:
    """The faults of tools that are still to come."""

    def __init__(self) -> None:
        self._waiting: list[ToolFault] = []
        # Which process holds which file.
        self.holders: dict[str, str] = {}

    def add(self, fault: ToolFault) -> None:
        self._waiting.append(fault)

    def strike(self, tool: str) -> str | None:
        """What a call of `tool` fails with now, or None."""
        for fault in self._waiting:
            if fault.tool == tool and fault.times > 0:
                fault.times -= 1
                return TOOL_ERRORS[fault.error]
        return None


def fill_faults(faults: Faults, spec: Fields, web: Web, tree: FileTree, processes: ProcessTable) -> None:
    """The faults of a specification, each handed to what it strikes."""
    holders = faults.holders
    for fields in spec.objects("faults", _KEYS):
        kinds = [kind for kind in ("tool", "url", "file") if kind in fields]
        if len(kinds) != 1:
            raise SuiteError(f"key '{fields.at('tool')}': a fault names one 'tool', one 'url' or one 'file'")
        times = fields.whole("times", 1, least=1, most=_MAX_TIMES)
        if kinds == ["tool"]:
            tool = fields.choice("tool", TOOL_NAMES, "")
            faults.add(ToolFault(tool, fields.choice("error", tuple(TOOL_ERRORS), "timeout"), times))
        elif kinds == ["url"]:
            _add_page_fault(fields, web, times)
        else:
            holders[paths.resolve(fields.path("file"))] = fields.word("locked_by")

    def holder_of(path: str) -> str | None:
        name = holders.get(path)
        running = processes.named(name) if name else []
        return f"{name}, pid {running[0].pid}" if running else None

    tree.holder_of = holder_of


def _add_page_fault(fields: Fields, web: Web, times: int) -> None:
    status = fields.whole("status", 503, least=400, most=599)
    page = Page(status, "", "text/plain", retry_after_s=2 if status in (429, 503) else None)
    try:
        web.put_before(fields.word("url"), page, times)
    except Refusal as refusal:
        raise SuiteError(f"key '{fields.at('url')}': {refusal}") from None
