"""Whether an attempt may be made: how long to wait after a failure, and what may still be spent.

What an attempt can cost at most is worked out from the length of its request and its token limit; where that cannot be
done, or has been shown to be wrong, the target's calls go one at a time."""

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

# After one of these every further call to the target would fail the same way: it is asked once.
TARGET_ENDING = frozenset({
    "api_key_missing", "cli_auth", "cli_missing", "cli_not_executable", "connect_timeout", "connection_refused",
    "dns_error", "http_401", "model_not_found", "runtime_missing",
})  # fmt: skip
# A server that answered before and is gone now may be restarting: worth the same patience as a reset.
_MAY_RETURN = frozenset({"connection_refused", "connect_timeout"})
# Shorter hold-ups are recorded as the call's lag, and decide nothing.
_DECISIVE_NS = 1_000_000_000
_DEADLINES = frozenset({"timeout", "connect_timeout"})
# What a connection looks like after this machine has slept: the other side gave up on us.
_AFTER_SLEEP = _DEADLINES | {"stream_interrupted", "connection_reset", "connection_refused", "dns_error"}


def retry_wait_s(
    options: RunOptions, failure: CallFailure, tries: int, jitter: float, *, answered_before: bool = False
) -> float | None:
    """Seconds before the next attempt after `tries` of them, or None to give up. `jitter` is in [0, 1)."""
    may_return = answered_before and failure.failure_type in _MAY_RETURN
    if not (failure.retryable or may_return) or tries > options.max_retries:
        return None
    if failure.retry_after_s is not None:
        return failure.retry_after_s if failure.retry_after_s <= options.max_wait_s else None
    ceiling = min(options.retry_base_s * 2.0 ** min(tries - 1, 30), BACKOFF_CAP_S, options.max_wait_s)
    return float(ceiling * (0.5 + jitter / 2))


def own_fault(failure: CallFailure, *, held_ns: int, slept_ns: int) -> CallFailure | None:
    """The failure as our own, where the machine slept during the attempt, or this program stood still at its deadline.
    While we stand still the whole answer may be waiting in the socket, and the deadline is heard first. Such an attempt
    says nothing of the server: it may be made again, and it never ends a target."""
    still_ns = slept_ns if failure.failure_type in _AFTER_SLEEP else 0
    if failure.failure_type in _DEADLINES:
        still_ns = max(still_ns, held_ns)
    if still_ns < _DECISIVE_NS:
        return None
    words = f"this machine or program stood still for {still_ns / 1e9:.0f} s during the call ({failure.failure_type})"
    return CallFailure("error", "client_stalled", words, retryable=True)


# What a server may put around a request: its template, the names of roles, a preamble for tools.
_WRAPPING_TOKENS = 1_000
# Failures before a model was asked. Whatever else went wrong, some of an answer may have been made, and billed.
_UNBILLED = TARGET_ENDING | {
    "client_limit", "context_length_exceeded", "invalid_prompt", "redirect_refused", "tls_error",
}  # fmt: skip
_UNKNOWN = math.inf


class Spending:
    def __init__(self, budget: CostBudget, price: Price | None, most_output: Callable[[Call], int | None]) -> None:
        self.budget = budget
        self._price, self._most_output = price, most_output
        # Whether an attempt of this target is known to cost no more than foreseen; None until one has shown its cost.
        self._foreseeable: bool | None = None

    async def admit(self, key: SpendingKey, call: Call) -> bool:
        """Wait until an attempt may go out, and set its money aside. False where the money is spent."""
        while not self.budget.is_open(key):
            if self.budget.calls_left == 0:
                return False
            await self.budget.changed.wait()
        self.budget.held[key] = self._most_usd(call) if self._foreseeable else _UNKNOWN
        return True

    def settle(self, key: SpendingKey, call: Call, reply: Reply, failure: CallFailure | None) -> None:
        known_usd = find_cost(reply, self._price).usd
        most_usd = self._most_usd(call)
        n_input, n_output = reply.input_tokens, reply.output_tokens
        if known_usd is not None:
            self._foreseeable = self._foreseeable is not False and known_usd <= most_usd
            self.budget.pay(key, known_usd)
        elif failure is not None and (
            failure.failure_type in _UNBILLED
            or failure.failure_type.startswith("http_")
            or (failure.http_status or 0) >= 400
        ):
            self.budget.pay(key, 0.0)
        else:
            is_counted = n_input is not None and n_output is not None
            self.budget.pay(key, self._usd(n_input, n_output) if is_counted else most_usd, assumed=True)

    def _most_usd(self, call: Call) -> float:
        if self._price is None or (n_output := self._most_output(call)) is None or call.world is not None:
            return _UNKNOWN
        sent = [call.system or "", call.prompt, repr(call.tools)]
        for message in call.messages:
            sent += [message.content, repr(message.calls)]
        for turn in call.history:
            calls = [msgspec.structs.asdict(made) for made in turn.calls]
            sent += [turn.text, turn.reasoning, repr(calls), *turn.answers]
            if turn.replay is not None:
                sent.append(repr(turn.replay))
        # No tokenizer makes more tokens of a text than the text has bytes.
        return self._usd(_WRAPPING_TOKENS + sum(len(text.encode("utf-8", "surrogatepass")) for text in sent), n_output)

    def _usd(self, n_input: int | None, n_output: int | None) -> float:
        """So many tokens at full price."""
        cost = None if self._price is None else cost_usd(self._price, Tokens(n_input, n_output))
        return _UNKNOWN if cost is None else cost
