"""Whether an attempt may be made: how long to wait after a failure, and what may still be spent."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.prices import Price, Tokens, cost_usd
from clawgauge.providers.base import Call
from clawgauge.records import RunOptions
from clawgauge.runner.agenda import CostBudget, SpendingKey
from clawgauge.runner.record import find_cost

BACKOFF_CAP_S = 60.0
_MAX_DOUBLINGS = 30  # beyond these the wait has long reached its cap

# After one of these every further call to the target would fail the same way: it is asked once.
TARGET_ENDING = frozenset(
    {
        "api_key_invalid",
        "api_key_missing",
        "cli_auth",
        "cli_missing",
        "cli_not_executable",
        "connect_timeout",
        "connection_refused",
        "dns_error",
        "http_401",
        "model_not_found",
        "runtime_missing",
    }
)
# A server that answered before and is gone now may be restarting: worth the patience of a reset.
_MAY_RETURN = frozenset({"connection_refused", "connect_timeout"})
# Shorter hold-ups are recorded as the call's lag, and decide nothing.
_DECISIVE_NS = 1_000_000_000
_DEADLINES = frozenset({"timeout", "connect_timeout"})
# What a connection looks like after this machine has slept: the other side gave up on us.
_AFTER_SLEEP = _DEADLINES | {
    "stream_interrupted",
    "connection_reset",
    "connection_refused",
    "dns_error",
}
# What a server may put around a request: its template, the names of roles, a preamble for tools.
_WRAPPING_TOKENS = 1_000
# Failures before a model was asked. Whatever else went wrong, some of an answer may have been
# made, and billed.
_UNBILLED = TARGET_ENDING | {
    "client_limit",
    "context_length_exceeded",
    "invalid_prompt",
    "redirect_refused",
    "tls_error",
}
_UNKNOWN_USD = math.inf


def retry_wait_s(
    options: RunOptions,
    failure: CallFailure,
    n_attempts: int,
    jitter: float,
    *,
    answered_before: bool = False,
) -> float | None:
    """Seconds to wait before the next attempt after `n_attempts` of them, or None to give up.

    `jitter` is in [0, 1). `answered_before` says that the server has answered another call.
    """
    may_return = answered_before and failure.failure_type in _MAY_RETURN
    if not failure.retryable and not may_return:
        return None
    if n_attempts > options.max_retries:
        return None
    if failure.retry_after_s is not None:
        if failure.retry_after_s > options.max_wait_s:
            return None
        return failure.retry_after_s
    backoff_s = options.retry_base_s * 2.0 ** min(n_attempts - 1, _MAX_DOUBLINGS)
    longest_s = min(backoff_s, BACKOFF_CAP_S, options.max_wait_s)
    return float(longest_s * (0.5 + jitter / 2))


def own_fault(failure: CallFailure, *, held_ns: int, slept_ns: int) -> CallFailure | None:
    """The failure as our own, where this machine slept or this program stood still meanwhile.

    While we stand still the whole answer may be waiting in the socket, and the deadline is heard
    first. Such an attempt says nothing of the server: it may be made again, and never ends a
    target. Returns None where the failure is not our own.
    """
    still_ns = 0
    if failure.failure_type in _AFTER_SLEEP:
        still_ns = slept_ns
    if failure.failure_type in _DEADLINES:
        still_ns = max(still_ns, held_ns)
    if still_ns < _DECISIVE_NS:
        return None
    message = (
        f"this machine or program stood still for {still_ns / 1e9:.0f} s during the call "
        f"({failure.failure_type})"
    )
    return CallFailure("error", "client_stalled", message, retryable=True)


class Spending:
    """Admits the attempts of one target as long as the run's budget allows them.

    What an attempt can cost at most is worked out from the length of its request and its token
    limit. Where that cannot be done, or has been shown to be wrong, the target's calls go one at
    a time.

    `most_output` says how many tokens a call can be answered with at most; None where nothing
    limits them.
    """

    def __init__(
        self, budget: CostBudget, price: Price | None, most_output: Callable[[Call], int | None]
    ) -> None:
        self.budget = budget
        self._price = price
        self._most_output = most_output
        # Whether attempts are known to cost no more than foreseen; None until one has shown it.
        self._is_foreseeable: bool | None = None

    async def admit(self, key: SpendingKey, call: Call) -> bool:
        """Wait until an attempt may go out, and set its money aside; False where it is spent."""
        while not self.budget.is_open(key):
            if self.budget.calls_left == 0:
                return False
            await self.budget.changed.wait()
        most_usd = self._most_usd(call) if self._is_foreseeable else _UNKNOWN_USD
        self.budget.held[key] = most_usd
        return True

    def settle(
        self, key: SpendingKey, call: Call, reply: Reply, failure: CallFailure | None
    ) -> None:
        """Pay for an attempt that has come back."""
        call_usd = find_cost(reply, self._price).usd
        most_usd = self._most_usd(call)
        if call_usd is not None:
            is_as_foreseen = call_usd <= most_usd
            self._is_foreseeable = self._is_foreseeable is not False and is_as_foreseen
            self.budget.pay(key, call_usd)
        elif failure is not None and _is_unbilled(failure):
            self.budget.pay(key, 0.0)
        elif reply.input_tokens is not None and reply.output_tokens is not None:
            usd = self._full_price_usd(reply.input_tokens, reply.output_tokens)
            self.budget.pay(key, usd, assumed=True)
        else:
            self.budget.pay(key, most_usd, assumed=True)

    def _most_usd(self, call: Call) -> float:
        """What an attempt can cost at most."""
        max_output_tokens = self._most_output(call)
        # How often a provider that runs a whole task by itself asks, nobody knows.
        if self._price is None or max_output_tokens is None or call.world is not None:
            return _UNKNOWN_USD
        texts = [call.system or "", call.prompt, repr(call.tools)]
        for message in call.messages:
            texts += [message.content, repr(message.calls)]
        for turn in call.history:
            tool_calls = [msgspec.structs.asdict(invocation) for invocation in turn.calls]
            texts += [turn.text, turn.reasoning, repr(tool_calls), *turn.answers]
            if turn.replay is not None:
                texts.append(repr(turn.replay))
        # No tokenizer makes more tokens of a text than the text has bytes.
        n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        return self._full_price_usd(_WRAPPING_TOKENS + n_bytes, max_output_tokens)

    def _full_price_usd(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost without any discount."""
        if self._price is None:
            return _UNKNOWN_USD
        usd = cost_usd(self._price, Tokens(input_tokens, output_tokens))
        return _UNKNOWN_USD if usd is None else usd


def _is_unbilled(failure: CallFailure) -> bool:
    """Whether an attempt that failed so cannot have cost anything."""
    if failure.failure_type in _UNBILLED or failure.failure_type.startswith("http_"):
        return True
    return failure.http_status is not None and failure.http_status >= 400
