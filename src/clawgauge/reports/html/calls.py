"""The calls of the page: counted in a first pass over the runs, chosen where they are too many, and embedded: foreign
texts as JSON that cannot end its script, long ones cut, grouped and compressed."""

from __future__ import annotations

import gzip
import heapq
import json
import math
from array import array
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence, Set
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from clawgauge.characters import well_formed
from clawgauge.journal import encode_document
from clawgauge.records import Prompt, Result, RunSummary, Target, ToolInvocation
from clawgauge.reports.words import shown_ms
from clawgauge.run_data import Row, Run

_IN_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
TEXT_BUDGET_BYTES = 7_000_000  # compressed; as base64 it is a third more
_BLOCK_CHARS, _HELD_CHARS = 200_000, 64_000_000
# Each about 0.7 of the one before, down to what still tells one text from another.
_CUTS = tuple(round(65_536 / 2 ** (n / 2)) for n in range(21))


def embed_json(value: Any) -> str:
    """`value` for a `<script type="application/json">`: nothing in it that HTML could act on."""
    # A tag, a comment or an entity cannot begin without one of the three.
    return encode_document(value, pretty=False).decode().translate(_IN_SCRIPT)


def show_json(value: Any) -> str:
    """`value` as a person reads it; for showing, never for parsing, since a number may be no JSON number."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)
    return (
        text if len(text) <= 100 else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    )


class Text(str):
    """A string that may be cut. In the page a cut one is `{"t": the beginning, "n": its whole length}`."""

    __slots__ = ("n_whole",)

    n_whole: int

    def cut(self, limit: int) -> Text:
        if len(self) <= limit:
            return self
        cut = Text(self[:limit])
        cut.n_whole = getattr(self, "n_whole", len(self))
        return cut


class TextBlocks(NamedTuple):
    """Compressed groups of values in base64. Value i is in the last block whose entry in `starts` is at most i."""

    blocks: list[str]
    starts: list[int]
    cut_chars: int
    n_cut: int


class TextStore:
    """Takes one JSON value with `Text` in it after another, and gives them back packed, the longest texts cut first."""

    def __init__(self, budget_bytes: int = TEXT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._values: list[Any] = []
        self._n_chars = self._level = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: Any) -> int:
        self._values.append(_cut(value, _CUTS[self._level]))
        self._n_chars += _n_chars(self._values[-1])
        self._cut_down_to(_HELD_CHARS)
        return len(self._values) - 1

    def pack(self) -> TextBlocks:
        while True:
            blocks, starts = _compress(self._values)
            size_bytes = sum(map(len, blocks)) * 3 // 4
            if size_bytes <= self._budget_bytes or _CUTS[self._level] == _CUTS[-1]:
                n_cut = sum(
                    hasattr(text, "n_whole") for value in self._values for text in _texts(value)
                )
                return TextBlocks(blocks, starts, _CUTS[self._level], n_cut)
            # Compressing is slow: cut at once to about what will fit.
            self._cut_down_to(self._n_chars * self._budget_bytes // size_bytes)

    def _cut_down_to(self, n_chars: int) -> None:
        while self._n_chars > n_chars and self._level < len(_CUTS) - 1:
            self._level += 1
            self._values = [_cut(value, _CUTS[self._level]) for value in self._values]
            self._n_chars = sum(map(_n_chars, self._values))


def _map_texts(value: Any, change: Callable[[str], Any]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    return [_map_texts(item, change) for item in value] if isinstance(value, list) else value


def _cut(value: Any, limit: int) -> Any:
    return _map_texts(value, lambda text: text.cut(limit) if isinstance(text, Text) else text)


def _texts(value: Any) -> list[str]:
    found: list[str] = []
    _map_texts(value, found.append)
    return found


def _n_chars(value: Any) -> int:
    return sum(map(len, _texts(value)))


def _plain(text: str) -> Any:
    return (
        {"t": well_formed(text), "n": text.n_whole}
        if hasattr(text, "n_whole")
        else well_formed(text)
    )


def _compress(values: Sequence[Any]) -> tuple[list[str], list[int]]:
    blocks: list[str] = []
    starts: list[int] = []
    start = n_chars = 0
    for end, value in enumerate(values, start=1):
        n_chars += _n_chars(value)
        if n_chars >= _BLOCK_CHARS or end == len(values):
            plain = [_map_texts(one, _plain) for one in values[start:end]]
            encoded = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
            # No time stamp: the same folders give the same page.
            blocks.append(b64encode(gzip.compress(encoded.encode(), mtime=0)).decode())
            starts.append(start)
            start, n_chars = end, 0
    return blocks, starts


MAX_CALLS, _MAX_WHY_CHARS, _MAX_TOOLS_CHARS = 20_000, 240, 120
_COLUMNS = (
    "target", "prompt", "repeat", "outcome", "why", "e2e", "ttft", "ttfa", "tps", "tokensIn", "tokensOut", "cold",
    "tools", "started", "attempts", "cost", "sampled",
)  # fmt: skip
PASS, FAIL, ANSWERED, NO_ANSWER, ERROR, RATE_LIMITED, AUTH_ERROR, UNAVAILABLE, NOT_ASKED = range(9)
OUTCOMES = (
    "pass", "fail", "no_verdict", "no_answer", "error", "rate_limited", "auth_error", "unavailable", "not_asked",
)  # fmt: skip
_BY_STATUS = {
    "ok": NO_ANSWER, "error": ERROR, "rate_limited": RATE_LIMITED, "auth_error": AUTH_ERROR,
    "skipped_unavailable": UNAVAILABLE,
}  # fmt: skip


def classify(call: Row | Result) -> int:
    """The code of a call's outcome: its verdict where it was answered, else why it was not."""
    if not call.was_asked:
        return NOT_ASKED
    if not call.success:
        return _BY_STATUS[call.availability_status]
    return {None: ANSWERED, True: PASS, False: FAIL}[call.objective_pass]


def describe_prompt(prompt: Prompt) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "prompt": Text(prompt.prompt),
        "messages": Text("\n\n".join(map(str, prompt.messages))),
        "system": Text("(your own context)" if prompt.in_context else prompt.system or ""),
        "validator": Text(show_json(prompt.validator)),
        "tools": Text(show_json(prompt.tools)) if prompt.tools and not prompt.in_context else "",
        "world": Text(show_json(prompt.world)) if prompt.world else "",
        "category": prompt.category or "",
        "maxTurns": prompt.max_turns,
    }
    return {key: value for key, value in detail.items() if value}


def call_digest(target: int, prompt: int, repeat: int) -> int:
    """A number for a call that looks random and is the same every time; target and prompt by their numbers."""
    return int.from_bytes(blake2b(b"%d/%d/%d" % (target, prompt, repeat), digest_size=8).digest())


class Survey:
    def __init__(self) -> None:
        self.targets: dict[tuple[int, Target], int] = {}
        self.prompts: dict[tuple[str, str], int] = {}
        self.prompt_names: dict[tuple[str, str], str] = {}
        self.outcomes: Counter[tuple[int, int, int]] = Counter()
        self.digests: dict[int, array[int]] = {}
        self.digests_to_look_at: dict[int, array[int]] = {}

    def target_number(self, run: int, target: Target) -> int:
        return self.targets.setdefault((run, target), len(self.targets))

    def prompt_number(self, suite: str, prompt_id: str, name: str) -> int:
        self.prompt_names.setdefault((suite, prompt_id), name)
        return self.prompts.setdefault((suite, prompt_id), len(self.prompts))


class RunSurvey:
    """One run to report on. Counts every call of it in the survey of all, and keeps where each stands in the file."""

    summary: RunSummary

    def __init__(self, survey: Survey, number: int, run: Run) -> None:
        self.run, self.number = run, number
        self.violations: Counter[str] = Counter()
        self.digests, self.offsets = array("Q"), array("Q")
        self._survey = survey

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        survey = self._survey
        self.offsets.extend(offsets)
        for row in rows:
            target = survey.target_number(self.number, row.target)
            prompt = survey.prompt_number(row.suite, row.prompt_id, row.prompt_name)
            outcome = classify(row)
            survey.outcomes[target, prompt, outcome] += 1
            if outcome == FAIL:
                self.violations[(row.violation or "unnamed").partition(":")[0]] += 1
            digest = call_digest(target, prompt, row.repeat)
            self.digests.append(digest)
            survey.digests.setdefault(target, array("Q")).append(digest)
            # What a reader wants to see even where not all can be shown.
            if outcome not in (PASS, ANSWERED, NOT_ASKED):
                survey.digests_to_look_at.setdefault(target, array("Q")).append(digest)


class Choice(NamedTuple):
    """The digests of the calls to embed; with `everything` set, all of them."""

    everything: bool
    n_calls: int
    n_to_look_at: int
    sampled: Set[int] = frozenset()
    looked_at: Set[int] = frozenset()

    def has(self, digest: int) -> bool:
        return self.everything or digest in self.sampled or digest in self.looked_at

    def is_sampled(self, digest: int) -> bool:
        return self.everything or digest in self.sampled


def choose_calls(survey: Survey, max_calls: int = MAX_CALLS) -> Choice:
    """All calls where they fit. Else an even sample of each target's, and the first of each target's that went wrong,
    in at most half of the room. It is shared so that no target crowds out another."""
    n_calls, n_to_look_at = (
        sum(map(len, some.values())) for some in (survey.digests, survey.digests_to_look_at)
    )
    if n_calls <= max_calls:
        return Choice(everything=True, n_calls=n_calls, n_to_look_at=n_to_look_at)
    room = min(n_to_look_at, max_calls // 2)
    firsts = share_room(
        {target: len(found) for target, found in survey.digests_to_look_at.items()}, room
    )
    looked_at = {
        digest
        for target, n in firsts.items()
        for digest in islice(survey.digests_to_look_at[target], n)
    }
    samples = share_room(
        {target: len(found) for target, found in survey.digests.items()}, max_calls - room
    )
    # The smallest of what looks random is a fair sample, whatever order the calls were made in.
    sampled = {
        digest
        for target, n in samples.items()
        for digest in heapq.nsmallest(n, survey.digests[target])
    }
    return Choice(False, n_calls, n_to_look_at, sampled, looked_at)


def share_room(sizes: dict[int, int], room: int) -> dict[int, int]:
    """How many of each may come in: what it has where that is little, an equal part of the rest where it is much."""
    shares: dict[int, int] = {}
    for key, size in sorted(sizes.items(), key=lambda item: item[1]):
        shares[key] = min(size, room // (len(sizes) - len(shares)))
        room -= shares[key]
    return shares


class CallColumns:
    """Grows by one row a call; `details` takes what is too long for a row."""

    def __init__(self, details: TextStore) -> None:
        self._rows: list[tuple[Any, ...]] = []
        # Each string once; calls name it by its number.
        self._strings: dict[str, int] = {}
        self._details = details

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, result: Result, target: int, prompt: int, *, sampled: bool) -> None:
        exact = result.timings_us
        row = (
            target, prompt, result.repeat, classify(result),
            self._number(reason_of(result), _MAX_WHY_CHARS),
            shown_ms(exact.e2e, result.e2e_ms), shown_ms(exact.ttft, result.ttft_ms),
            shown_ms(exact.ttfa, result.ttfa_ms), _rounded(result.output_tps, 1),
            result.input_tokens, result.output_tokens,
            None if result.cold_start is None else int(result.cold_start),
            self._number(", ".join(result.tool_calls), _MAX_TOOLS_CHARS),
            result.started_at_ms, len(result.attempts), _rounded(result.cost_usd, 6), int(sampled),
        )  # fmt: skip
        self._rows.append(row)
        self._details.add(_detail(result))

    def _number(self, text: str | None, limit: int) -> int:
        short = text if not text or len(text) <= limit else f"{text[: limit - 1]}…"
        return self._strings.setdefault(short, len(self._strings)) if short else -1

    def as_json(self) -> dict[str, Any]:
        columns: list[Any] = list(zip(*self._rows, strict=True)) or [()] * len(_COLUMNS)
        # A column that says the same of every call, as that alone.
        told = [
            {"every": one[0]} if one and one.count(one[0]) == len(one) else one for one in columns
        ]
        return {
            "n": len(self),
            "columns": dict(zip(_COLUMNS, told, strict=True)),
            "strings": list(self._strings),
        }


def reason_of(result: Result | Row) -> str | None:
    """What stands beside an outcome: why there was no answer, no pass, or no verdict."""
    if not result.success:
        return result.failure_type
    return result.violation or result.not_judged


def _rounded(value: float | None, digits: int) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded


def _detail(result: Result) -> dict[str, Any]:
    timings = result.timings_us
    detail: dict[str, Any] = {
        "answer": Text(result.raw_output), "reasoning": Text(result.reasoning_text or ""),
        "answerBytes": result.raw_output_bytes if result.raw_output_truncated else None,
        "error": Text(result.error or ""), "warnings": list(map(Text, result.warnings)),
        "violation": Text(result.violation or ""), "failure": result.failure_type, "status": result.availability_status,
        "parsed": Text(show_json(result.parsed_output)) if result.parsed_output is not None else None,
        "attempts": [
            [a.status, a.failure_type, a.e2e_ms, a.waited_ms, a.http_status, a.retry_after_s, Text(a.error or "")]
            for a in result.attempts
        ],
        "calls": list(map(_invocation, result.tool_invocations)), "channel": result.tool_channel,
        "expectedTools": list(map(Text, result.expected_tools)),
        "toolUse": int(result.tool_use_success) if result.expected_tools else None,
        "transcript": [
            [Text(t.text), list(map(_invocation, t.calls)), list(map(Text, t.answers)), t.output_tokens, t.e2e_ms]
            for t in result.transcript or ()
        ],
        "transcriptCut": int(result.transcript_cut) or None, "turns": result.turns, "total": result.total_ms,
        "connect": None if timings.connect is None else timings.connect / 1000,
        "lag": None if timings.lag is None else timings.lag / 1000, "finish": result.finish_reason,
        "reported": result.model_reported if result.model_reported != result.model else None,
        "cached": result.cached_tokens, "reasoningTokens": result.reasoning_tokens, "overhead": result.cli_overhead_ms,
        "costSource": result.cost_source, "prefix": Text(result.prompt_prefix or ""),
        "repaired": int(result.text_repaired) or None,
    }  # fmt: skip
    return {
        key: value
        for key, value in detail.items()
        if value is not None and value != "" and value != []
    }


def _invocation(call: ToolInvocation) -> list[Any]:
    arguments = "" if call.arguments is None else show_json(call.arguments)
    return [Text(call.name), Text(arguments), call.channel, int(call.valid), call.turn]
