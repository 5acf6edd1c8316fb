"""One attempt at a provider, run to its end and folded: what the runner would see of it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.providers.base import Call, ProviderSettings, create_provider
from clawgauge.timeline import Timeline
from support.waiting import PATIENCE_S


def attempt(
    kind: str,
    base_url: str,
    *,
    timeout_s: float = PATIENCE_S,
    settings: dict[str, Any] | None = None,
    **call: Any,
) -> tuple[Reply, CallFailure | None]:
    """Make one attempt with a fresh client, under a deadline of the test's own."""
    asked = Call(**{"model": "scripted-model", "prompt": "hi", "timeout_s": timeout_s, **call})
    given = ProviderSettings(name=kind, type=kind, base_url=base_url, **(settings or {}))

    async def run() -> tuple[Reply, CallFailure | None]:
        timeline, failure = Timeline(), None
        async with create_provider(given) as provider:
            try:
                async with asyncio.timeout(timeout_s):
                    await provider.attempt(asked, timeline)
            except CallFailure as found:
                failure = found
            except TimeoutError:
                failure = CallFailure("error", "timeout")
        return timeline.fold(time.perf_counter_ns()), failure

    return asyncio.run(run())
