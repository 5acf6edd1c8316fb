"""The few fields of a result line that routing looks at, cell by cell."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from clawgauge.records import Status, Target


class CellName(NamedTuple):
    """What pairs the calls of two models: the same prompt, asked for the same time."""

    suite: str
    prompt_id: str
    repeat: int


class RouteRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One cell of one model. Every addition to the schema document has a default, so older folders decode too."""

    provider: str
    model: str
    thinking_level: str | None = None
    prompt_id: str
    availability_status: Status
    e2e_ms: int = 0
    success: bool = False
    objective_pass: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    suite: str = ""
    repeat: int = 0
    total_ms: int | None = None
    model_reported: str | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

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
