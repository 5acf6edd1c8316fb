"""What one target's calls may cost before they are made, and what they are counted at afterwards.

Every attempt is paid for: a retry, a turn of a task and a warm-up as much as a first try. So each of them asks here
before it goes out, and is settled here when it comes back. What an attempt can cost at most is worked out from the
length of its request and its token limit; where that cannot be done, or has been shown to be wrong, the target's calls
go one at a time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.prices import Price, Tokens, cost_usd
from clawgauge.providers.base import Call
from clawgauge.runner.budgets import CostBudget, SpendingKey
from clawgauge.runner.record import call_cost
from clawgauge.runner.retry import TARGET_ENDING
from clawgauge.timeline import Completion

# What a server may put around a request: its template, the names of roles, a preamble for tools.
_WRAPPING_TOKENS = 1_000
# Failures before a model was asked. Whatever else went wrong, some of an answer may have been made, and billed.
_UNBILLED = TARGET_ENDING | {
    "client_limit",
    "context_length_exceeded",
    "invalid_prompt",
    "redirect_refused",
    "tls_error",
}
_UNKNOWN = math.inf


class Spending:
    """One target's attempts against the run's budget."""

    def __init__(self, budget: CostBudget, price: Price | None) -> None:
        self._budget = budget
        self._price = price
        # Whether an attempt of this target is known to cost no more than foreseen; None until one has shown its cost.
        self._foreseeable: bool | None = None
        self._changed = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether no attempt may go out any more."""
        return self._budget.calls_left == 0

    async def admit(self, key: SpendingKey, call: Call) -> bool:
        """Wait until an attempt may go out, and set its money aside. False where the money is spent."""
        while not self._budget.is_open(key):
            if self.is_over:
                return False
            await self.change()
        self._budget.hold(key, self._most_usd(call) if self._foreseeable else _UNKNOWN)
        return True

    def settle(self, key: SpendingKey, call: Call, completion: Completion, failure: CallFailure | None) -> None:
        """Count an attempt that came back."""
        known_usd, _ = call_cost(completion, self._price)
        most_usd = self._most_usd(call)
        if known_usd is not None:
            self._budget.pay(key, known_usd)
            self._foreseeable = self._foreseeable is not False and known_usd <= most_usd
        elif failure is not None and _is_unbilled(failure):
            self._budget.pay(key, 0.0)
        else:
            self._budget.pay(key, self._counted_usd(completion, most_usd), assumed=True)
        self.wake()

    async def change(self) -> None:
        """Wait for an attempt to come back."""
        await self._changed.wait()

    def wake(self) -> None:
        """Something came back: whoever waits may look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _counted_usd(self, completion: Completion, most_usd: float) -> float:
        """What an attempt without a cost is counted at: its tokens at full price, else all it can have cost."""
        if self._price is not None and completion.input_tokens is not None and completion.output_tokens is not None:
            cost = cost_usd(self._price, Tokens(completion.input_tokens, completion.output_tokens))
            return _UNKNOWN if cost is None else cost
        return most_usd

    def _most_usd(self, call: Call) -> float:
        if self._price is None or call.max_tokens is None or call.world is not None:
            return _UNKNOWN
        # No tokenizer makes more tokens of a text than the text has bytes.
        n_input = _WRAPPING_TOKENS + sum(len(text.encode("utf-8", "surrogatepass")) for text in _sent(call))
        cost = cost_usd(self._price, Tokens(n_input, call.max_tokens))
        return _UNKNOWN if cost is None else cost


def _is_unbilled(failure: CallFailure) -> bool:
    refused = failure.http_status is not None and failure.http_status >= 400
    return refused or failure.failure_type.startswith("http_") or failure.failure_type in _UNBILLED


def _sent(call: Call) -> Iterator[str]:
    """Every text of a request."""
    yield call.prompt
    yield call.system or ""
    yield repr(call.tools)
    for turn in call.history:
        yield turn.text
        yield turn.reasoning
        yield repr([msgspec.structs.asdict(made) for made in turn.calls])
        yield from turn.answers
