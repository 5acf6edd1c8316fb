"""Single calls with nothing beside them: how a server counts, and which prompts it reads whole."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from clawgauge.capacity.generator import PROBE_TOKENS, LoadEnded
from clawgauge.capacity.prompts import (
    CountedText,
    LoadPrompt,
    TokenScale,
    fit_token_scale,
    make_prompt,
)
from clawgauge.capacity.scope import SearchScope
from clawgauge.errors import TargetError
from clawgauge.records import Result
from clawgauge.stats.load import has_answer, sample_of

# The texts that a server's count is calibrated by.
_SHORT_CHARS = 600
_LONG_CHARS = 2_400
_MAX_TRIES = 3
# Where a server counts less of what was sent it may have cut the rest off, or count unevenly: a
# longer text tells. So much less is suspect, so much longer is that text, and so much more may a
# count grow that has come to its end.
_COUNTED_SHARE = 0.996
_LONGER_SHARE = 1.1
_STANDSTILL = 1.005
# Statuses that say nothing of a prompt's length.
_PASSING_STATUSES = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class Probe:
    """A prompt that was sent alone, and what came of it."""

    prompt: LoadPrompt
    result: Result

    @property
    def failure(self) -> str | None:
        """Why it was not answered; None where it was."""
        if has_answer(self.result):
            return None
        return self.result.error or self.result.failure_type or None

    @property
    def is_refusal(self) -> bool:
        """Whether the server will not have such a prompt.

        What may pass says nothing of the prompt's length.
        """
        if self.result.failure_type == "context_length_exceeded":
            return True
        if not self.result.attempts:
            return False
        status = self.result.attempts[-1].http_status or 0
        return 400 <= status < 500 and status not in _PASSING_STATUSES

    @property
    def has_first_code(self) -> bool:
        return self.prompt.first_code in self._reply

    @property
    def has_last_code(self) -> bool:
        return self.prompt.last_code in self._reply

    @property
    def _reply(self) -> str:
        return f"{self.result.raw_output} {self.result.reasoning_text or ''}"


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a server counts tokens, and whether its model can be asked what it has read."""

    scale: TokenScale
    repeats_codes: bool
    """Whether it repeats both codes of a prompt that is short."""
    largest_count: int
    """What it counted of the longer text."""


@dataclass(frozen=True, slots=True)
class LengthCheck:
    """What is known of prompts of one length."""

    arrives_whole: bool
    """As far as can be told."""
    call_ms: float
    """How long a call of a whole answer would take alone; 0 where there was no answer."""


@dataclass(frozen=True, slots=True)
class _LengthReading:
    """What the probes of one length came to; `probe` is the last of them."""

    probe: Probe
    expected_tokens: float | None
    """What the server should have counted; None where it did not count."""
    is_count_cut: bool
    """Whether its count stands still though the text grows."""
    n_beginning_lost: int
    """In how many answers the last code was and the first was not."""


class Prober:
    """Sends the probes of one target."""

    def __init__(self, scope: SearchScope, salt: str) -> None:
        self._scope = scope
        self._salt = salt
        self._numbers = count()
        self.n_answered = 0

    async def send(self, name: str, n_chars: int = 0) -> Probe:
        """Send a prompt of so many characters, which begins like no other."""
        key = f"{self._salt} {next(self._numbers)}"
        result = await self._scope.generator.probe(self._scope.name_of(name), n_chars, key)
        self.n_answered += has_answer(result)
        return Probe(make_prompt(n_chars, key), result)

    async def calibrate(self) -> Calibration:
        """Find out how the server counts, from two short prompts.

        Raises `TargetError` where there is no such model, `LoadEnded` where there is no answer.
        """
        short = await self._send_for_calibration(_SHORT_CHARS)
        long = await self._send_for_calibration(_LONG_CHARS)
        scale = fit_token_scale(_counted_text(short), _counted_text(long))
        if not scale.is_counted:
            self._scope.observer.notice(
                "the server does not count tokens: four characters are taken for one"
            )
        return Calibration(
            scale=scale,
            repeats_codes=long.has_first_code and long.has_last_code,
            largest_count=long.result.input_tokens or 0,
        )

    async def _send_for_calibration(self, n_chars: int) -> Probe:
        probe = await self.send("calibration", n_chars)
        result = probe.result
        if has_answer(result):
            return probe
        message = (
            f"{self._scope.target.label} cannot be loaded: {result.error or result.failure_type}"
        )
        if result.failure_type == "model_not_found":
            raise TargetError(message)
        raise LoadEnded(message)  # that is no wrong request

    async def check_length(self, tokens: int, calibration: Calibration) -> LengthCheck:
        """Find out whether prompts of this length are read from their beginning to their end.

        What is found is recorded, and a fault is reported.
        """
        reading = await self._read_length(tokens, calibration)
        probe = reading.probe
        failure = probe.failure
        truncated_by = None
        if reading.is_count_cut:
            truncated_by = "count"
        elif reading.n_beginning_lost == _MAX_TRIES and reading.expected_tokens is None:
            # Of a text that was counted whole, the model may have forgotten the beginning.
            truncated_by = "marker"
        truncated = None
        if truncated_by is not None:
            truncated = True
        elif failure is None and _is_read_whole(reading, calibration):
            truncated = False
        refused = failure if probe.is_refusal else None
        self._scope.record_event(
            "capacity_context",
            self._scope.target,
            context_tokens=tokens,
            counted_tokens=probe.result.input_tokens,
            truncated=truncated,
            truncated_by=truncated_by,
            refused=refused,
        )
        if truncated_by is not None:
            self._report_truncated(tokens, truncated_by, probe.result.input_tokens)
        elif failure is not None:
            self._report_failed(tokens, failure, is_refusal=probe.is_refusal)
        call_ms = 0.0
        if failure is None:
            call_ms = self._estimate_call_ms(probe.result)
        return LengthCheck(truncated_by is None and failure is None, call_ms)

    async def _read_length(self, tokens: int, calibration: Calibration) -> _LengthReading:
        """Probe a length until it is clear what becomes of its prompts, a few times at most."""
        scale = calibration.scale
        n_chars = scale.to_chars(tokens)
        probe = await self._send_length(tokens, n_chars)
        n_tries = 1
        if probe.failure is not None and not probe.is_refusal:
            # What failed for once may pass.
            probe = await self._send_length(tokens, n_chars)
            n_tries += 1
        n_beginning_lost = 0
        while True:
            expected_tokens = None
            if scale.is_counted and probe.result.input_tokens is not None:
                expected_tokens = scale.to_tokens(len(probe.prompt.text))
            is_count_cut = await self._is_count_cut(tokens, probe, expected_tokens, calibration)
            is_beginning_lost = (
                calibration.repeats_codes
                and probe.failure is None
                and probe.has_last_code
                and not probe.has_first_code
            )
            if is_beginning_lost:
                n_beginning_lost += 1
            if is_count_cut or not is_beginning_lost or n_tries == _MAX_TRIES:
                return _LengthReading(probe, expected_tokens, is_count_cut, n_beginning_lost)
            probe = await self._send_length(tokens, n_chars)
            n_tries += 1

    async def _send_length(self, tokens: int, n_chars: int) -> Probe:
        return await self.send(f"{tokens}/look", n_chars)

    async def _is_count_cut(
        self,
        tokens: int,
        probe: Probe,
        expected_tokens: float | None,
        calibration: Calibration,
    ) -> bool:
        """Whether the server's count has come to the end of its window."""
        counted = probe.result.input_tokens
        if not expected_tokens or not counted:
            return False
        # A window may have cut even the text that was calibrated by: its count is as suspect as a
        # small one.
        is_suspect = counted <= expected_tokens - 1 or counted == calibration.largest_count
        if not is_suspect:
            return False
        longer = await self._send_length(tokens, round(_LONGER_SHARE * len(probe.prompt.text)))
        most = float(counted)
        if counted < _COUNTED_SHARE * expected_tokens:
            most *= _STANDSTILL
        longer_count = longer.result.input_tokens
        return longer_count is not None and longer_count <= most

    def _estimate_call_ms(self, result: Result) -> float:
        """How long a call takes whose answer is as long as those under load may be."""
        sample = sample_of(result)
        n_more_tokens = max(0, self._scope.options.output_tokens - PROBE_TOKENS)
        return sample.e2e_ms + (sample.tpot_ms or 0.0) * n_more_tokens

    def _report_truncated(self, tokens: int, truncated_by: str, counted: int | None) -> None:
        observed = "did not see how they begin"
        if truncated_by == "count":
            observed = f"counted {counted}"
        self._scope.observer.notice(
            f"SILENTLY TRUNCATED: of prompts of {tokens} tokens the server {observed}"
        )

    def _report_failed(self, tokens: int, failure: str, *, is_refusal: bool) -> None:
        outcome = "had no answer, so nobody can tell what they come to"
        if is_refusal:
            outcome = "are refused"
        self._scope.observer.notice(f"prompts of {tokens} tokens {outcome}: {failure}")


def _counted_text(probe: Probe) -> CountedText:
    return CountedText(len(probe.prompt.text), probe.result.input_tokens)


def _is_read_whole(reading: _LengthReading, calibration: Calibration) -> bool:
    """Whether the count tells that all was read; without one, whether the answer does."""
    if reading.expected_tokens is not None:
        return reading.n_beginning_lost < _MAX_TRIES
    probe = reading.probe
    return calibration.repeats_codes and probe.has_first_code and probe.has_last_code
