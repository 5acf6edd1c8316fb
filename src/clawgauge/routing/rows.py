"""The few fields of a result line that routing looks at, cell by cell."""

from __future__ import annotations

from typing import NamedTuple

from clawgauge.records import CellRow, Target
from clawgauge.summary.rows import Amount, Whole


class CellName(NamedTuple):
    """What pairs the calls of two models: the same prompt, asked for the same time."""

    suite: str
    prompt_id: str
    repeat: int


class RouteRow(CellRow, frozen=True, kw_only=True, gc=False):
    """One cell of one model. Every addition to the schema document has a default, so older folders decode too."""

    e2e_ms: Whole = 0
    input_tokens: Whole | None = None
    output_tokens: Whole | None = None
    total_ms: Whole | None = None
    model_reported: str | None = None
    cached_tokens: Whole | None = None
    cost_usd: Amount | None = None

    @property
    def target(self) -> Target:
        return Target(self.provider, self.model, self.thinking_level)

    @property
    def cell(self) -> CellName:
        return CellName(self.suite, self.prompt_id, self.repeat)

    @property
    def answered(self) -> bool:
        return self.availability_status == "ok" and self.success

    @property
    def waited_ms(self) -> int:
        """What a user waited for this call, retries and all; the call alone where the record does not say."""
        return self.e2e_ms if self.total_ms is None else self.total_ms
