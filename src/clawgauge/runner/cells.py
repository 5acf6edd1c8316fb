"""A target's cells, and the order in which a plain run asks them. Pure."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from clawgauge.journal import CellKey
from clawgauge.records import Prompt, Target


class Cell(msgspec.Struct, frozen=True, gc=False):
    """One prompt, once. A plan may hold a hundred thousand, which the collector need not walk while calls are out."""

    prompt: Prompt
    repeat: int

    def key(self, target: Target) -> CellKey:
        """What the record of this cell is found by."""
        prompt = self.prompt
        return CellKey(target.provider, target.model, target.thinking_level, prompt.suite, prompt.id, self.repeat)


def plan_cells(target: Target, prompts: list[Prompt], repeats: int, done: Collection[CellKey]) -> list[Cell]:
    """A target's open cells in the order they are asked."""
    cells = (Cell(prompt, repeat) for repeat in range(repeats) for prompt in prompts)
    return [cell for cell in cells if cell.key(target) not in done]
