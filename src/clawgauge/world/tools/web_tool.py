"""The tool `web_fetch`: a page's status and text. `curl` in the shell sees the same web."""

from __future__ import annotations

from clawgauge.world.answer import ToolAnswer
from clawgauge.world.arguments import Arguments
from clawgauge.world.machine import Machine


def web_fetch(machine: Machine, arguments: Arguments) -> ToolAnswer:
    page = machine.web.fetch(arguments.text("url"))
    head = f"HTTP {page.status} {page.reason}\ncontent-type: {page.content_type}"
    if page.retry_after_s is not None:
        head += f"\nretry-after: {page.retry_after_s}"
    return ToolAnswer(f"{head}\n\n{page.body}", is_error=page.status >= 400)
