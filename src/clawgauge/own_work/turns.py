"""The turns of a history: what the model saw, what it did, and which can be asked again."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from clawgauge.checks.agreement import Call, meaning
from clawgauge.checks.tool_call import MAX_EXPECTED_CALLS
from clawgauge.own_work.left_out import LeftOut
from clawgauge.own_work.messages import calls_of, has_failed, message_of, text_of
from clawgauge.own_work.request import Message, RebuiltRequest
from clawgauge.own_work.rules import CORRECTION, MASKED_SECRET
from clawgauge.own_work.stores import Record, Session, look_up

_SLASH_COMMAND = re.compile(r"/[a-z][\w-]*(?:\s|:|\Z)")
_RUN_OF_LETTERS = re.compile(r"[^\W\d]+")
_MAX_CONTEXT_CHARS = 2_000_000
# What OpenClaw's gateway says in the model's place.
_GATEWAY_MODEL = "gateway-injected"
# In Latin, East Asian and Arabic writing.
_QUESTION_MARKS = ("?", "？", "؟")
_FILE_CHANGES = ("write", "edit", "apply_patch")


@dataclass(frozen=True, slots=True)
class HistoryTurn:
    """One answer of the model in use then, the reference model, and what it answered to."""

    session_id: str
    at: str
    model: str
    """Its provider and name."""
    cwd: str
    messages: list[Message]
    """The conversation before the answer."""
    question: str
    """What the user said last."""
    calls: list[Call]
    """What the answer called; empty where it just answered, or asked something."""
    asks: bool
    """Whether the answer called nothing and ended with a question."""
    first_output: str
    """What the first of its calls printed."""

    @property
    def tools(self) -> str:
        return " + ".join(sorted({call.name for call in self.calls}))


def find_turns(
    sessions: Iterable[Session], since: str, left_out: Counter[str]
) -> Iterator[HistoryTurn]:
    """Every turn since then that can be asked again; the others are counted in `left_out`."""
    # A record that a later session repeats is looked at there alone: that one knows whether it was
    # rewound.
    read_turns: set[tuple[str, str]] = set()
    for session in sessions:
        answers: set[int] = set()
        for record in session.records:
            record_id = str(record.get("id"))
            timestamp = str(record.get("timestamp"))
            is_answer = message_of(record).get("role") == "assistant"
            if is_answer and timestamp >= since and (record_id, timestamp) not in read_turns:
                answers.add(id(record))
            read_turns.add((record_id, timestamp))
        yield from _find_in_session(session, answers, left_out)


def _find_in_session(
    session: Session, answers: set[int], left_out: Counter[str]
) -> Iterator[HistoryTurn]:
    """The turns of one session; `answers` has the identities of the records to look at."""
    path = _find_path(session.records)
    standing = {id(record) for record in path.records}
    left_out[LeftOut.REWOUND] += len(answers - standing)
    cwd = _find_cwd(session.records)
    request = RebuiltRequest(None if path.is_whole else LeftOut.INCOMPLETE_HISTORY)
    # The records that the model still sees.
    window: list[Record] = []
    for index, record in enumerate(path.records):
        if record.get("type") in ("reset", "compaction"):
            window = _records_kept(record, window)
            request = RebuiltRequest()
            for kept_record in window:
                request.add(message_of(kept_record))
        window.append(record)
        message = message_of(record)
        if id(record) in answers:
            answer = _Answer.read(path.records, index, request)
            reason = _why_left_out(answer, session)
            if reason is None:
                yield _make_turn(session.id, cwd, answer)
            else:
                left_out[reason] += 1
        is_sent = message.get("model") != _GATEWAY_MODEL and message.get("stopReason") != "error"
        if is_sent:
            request.add(message)


def _find_cwd(records: Sequence[Record]) -> str:
    for record in records:
        if record.get("type") == "session":
            return str(record.get("cwd") or "")
    return ""


class _Path(NamedTuple):
    """The records that still stand, and whether none before the first of them is missing."""

    records: list[Record]
    is_whole: bool


def _find_path(records: Sequence[Record]) -> _Path:
    """From the last record back to the first, by what each names as its parent."""
    by_id: dict[str, Record] = {}
    for record in records:
        record_id = record.get("id")
        if isinstance(record_id, str) and record.get("type") != "session":
            by_id[record_id] = record
    last = next(reversed(by_id.values()), None)
    next_id = look_up(last, "targetId" if look_up(last, "type") == "leaf" else "id")
    path: dict[str, Record] = {}
    while isinstance(next_id, str) and next_id in by_id and next_id not in path:
        path[next_id] = by_id[next_id]
        next_id = by_id[next_id].get("parentId")
    return _Path(records=list(path.values())[::-1], is_whole=next_id is None)


def _records_kept(boundary: Record, window: Sequence[Record]) -> list[Record]:
    """What the model sees after a reset or a compaction: a summary, and what is said to be kept."""
    summary: Record = {"message": {"role": "user", "content": boundary.get("summary")}}
    first_kept = boundary.get("firstKeptEntryId")
    record_ids = [record.get("id", "") for record in window]
    if first_kept not in record_ids:
        return [summary]
    return [summary, *window[record_ids.index(first_kept) :]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of a model, what it was an answer to, and what followed."""

    message: Record
    timestamp: str
    request: RebuiltRequest
    text: str
    calls: list[Call]
    results: list[Record | None]
    """Of each call the message with its result; None where there is none."""
    later_calls: list[Call]
    """The calls of later answers, up to the user's next message."""
    reply: str
    """The user's next message; empty where there is none."""

    @classmethod
    def read(cls, path: Sequence[Record], index: int, request: RebuiltRequest) -> _Answer:
        """The answer that is the record at `index` of `path`."""
        message = message_of(path[index])
        calls = calls_of(message)
        results: dict[str, Record | None] = dict.fromkeys(calls)
        later_calls: list[Call] = []
        reply = ""
        for record in islice(path, index + 1, None):
            later = message_of(record)
            if later.get("role") == "user" and not _SLASH_COMMAND.match(text_of(later)):
                reply = text_of(later)
                break
            call_id = str(later.get("toolCallId"))
            if call_id in results:
                results[call_id] = later
            later_calls += calls_of(later).values()
        return cls(
            message=message,
            timestamp=str(path[index].get("timestamp")),
            request=request,
            text=text_of(message),
            calls=list(calls.values()),
            results=list(results.values()),
            later_calls=later_calls,
            reply=reply,
        )


def _make_turn(session_id: str, cwd: str, answer: _Answer) -> HistoryTurn:
    first_output = ""
    if answer.results:
        first_output = text_of(answer.results[0] or {})
    return HistoryTurn(
        session_id=session_id,
        at=answer.timestamp,
        model=f"{answer.message.get('provider')}/{answer.message.get('model')}",
        cwd=cwd,
        messages=list(answer.request.messages),
        question=answer.request.question,
        calls=answer.calls,
        asks=not answer.calls and answer.text.rstrip().endswith(_QUESTION_MARKS),
        first_output=first_output,
    )


def _why_left_out(answer: _Answer, session: Session) -> LeftOut | None:
    """What speaks against a turn.

    That it is no answer to what is known, or that the answer did not stand.
    """
    if answer.message.get("model") == _GATEWAY_MODEL:
        return LeftOut.GATEWAY
    if answer.request.fault is not None:
        return answer.request.fault
    for reason, applies in _REASONS:
        if applies(answer):
            return reason
    if any(first <= answer.timestamp <= last for first, last in session.retried):
        return LeftOut.RETRIED_RUNS
    return None


def _sees_image(answer: _Answer) -> bool:
    return answer.request.shows_image


def _is_failed_or_empty(answer: _Answer) -> bool:
    is_empty = not answer.calls and not answer.text.strip()
    return is_empty or answer.message.get("stopReason") == "error"


def _is_cut(answer: _Answer) -> bool:
    return bool(answer.message.get("stopReason") == "length")


def _is_announcement(answer: _Answer) -> bool:
    """Whether nobody asked: a subagent reports, or the model speaks twice."""
    run_id = str(look_up(answer.message, "__openclaw", "runId"))
    messages = answer.request.messages
    return run_id.startswith("announce:") or not messages or messages[-1]["role"] == "assistant"


def _answers_slash_command(answer: _Answer) -> bool:
    return _SLASH_COMMAND.match(answer.request.question) is not None


def _holds_masked_secret(answer: _Answer) -> bool:
    arguments = [call.arguments for call in answer.calls]
    arguments_text = json.dumps(arguments, ensure_ascii=False)
    return MASKED_SECRET.search(f"{answer.request.question} {arguments_text}") is not None


def _has_long_context(answer: _Answer) -> bool:
    n_chars = sum(len(message["content"]) for message in answer.request.messages)
    return n_chars > _MAX_CONTEXT_CHARS


def _was_stopped(answer: _Answer) -> bool:
    return None in answer.results


def _has_failed_call(answer: _Answer) -> bool:
    return any(result is not None and has_failed(result) for result in answer.results)


def _was_corrected(answer: _Answer) -> bool:
    return CORRECTION.search(answer.reply) is not None


def _was_repeated(answer: _Answer) -> bool:
    aims = {_aim_of(call) for call in answer.calls}
    return any(_aim_of(call) in aims for call in answer.later_calls)


def _aim_of(call: Call) -> tuple[str, str]:
    """What a call is about: the same again, in one turn, is a second try.

    Another page of a file is not.
    """
    if call.name in _FILE_CHANGES and "path" in call.arguments:
        return "written", str(call.arguments["path"])
    return call.name, json.dumps(meaning(call), sort_keys=True)


def _searches_for_tools(answer: _Answer) -> bool:
    return any(call.name.startswith("tool_") for call in answer.calls)


def _has_unheld_calls(answer: _Answer) -> bool:
    is_nameless = any(not call.name.strip() for call in answer.calls)
    return is_nameless or len(answer.calls) > MAX_EXPECTED_CALLS


# In their order: the first that applies is counted.
_REASONS: tuple[tuple[LeftOut, Callable[[_Answer], bool]], ...] = (
    (LeftOut.IMAGES, _sees_image),
    (LeftOut.FAILED_ANSWERS, _is_failed_or_empty),
    (LeftOut.CUT_ANSWERS, _is_cut),
    (LeftOut.ANNOUNCEMENTS, _is_announcement),
    (LeftOut.SLASH_COMMANDS, _answers_slash_command),
    (LeftOut.MASKED_SECRETS, _holds_masked_secret),
    (LeftOut.LONG_CONTEXTS, _has_long_context),
    (LeftOut.STOPPED_CALLS, _was_stopped),
    (LeftOut.FAILED_CALLS, _has_failed_call),
    (LeftOut.CORRECTED, _was_corrected),
    (LeftOut.REPEATED_CALLS, _was_repeated),
    (LeftOut.TOOL_SEARCHES, _searches_for_tools),
    (LeftOut.UNHELD_CALLS, _has_unheld_calls),
)


def choose_turns(
    turns: Iterable[HistoryTurn], max_turns: int, left_out: Counter[str]
) -> list[HistoryTurn]:
    """At most so many turns: what is nearly the same once, and the rest drawn by lot.

    Tools take turns, and among those of one tool the sessions. The order is that of the history.
    """
    by_likeness: dict[str, HistoryTurn] = {}
    for turn in turns:
        likeness = _likeness_of(turn)
        if likeness in by_likeness:
            left_out[LeftOut.NEAR_DUPLICATES] += 1
        else:
            by_likeness[likeness] = turn
    drawn = sorted(by_likeness.values(), key=_lot_of)
    drawn = _alternate(drawn, lambda turn: (turn.tools, turn.session_id))
    drawn = _alternate(drawn, lambda turn: turn.tools)
    left_out[LeftOut.MORE_THAN_MAX] += max(0, len(drawn) - max_turns)
    return sorted(drawn[:max_turns], key=lambda turn: (turn.session_id, turn.at))


def _likeness_of(turn: HistoryTurn) -> str:
    """What two turns have in common that are nearly the same: their texts without the numbers."""
    last_message = turn.messages[-1]
    last_result = last_message["content"] if last_message["role"] == "tool" else ""
    calls = sorted(json.dumps(call, sort_keys=True, ensure_ascii=False) for call in turn.calls)
    text = f"{turn.question} {last_result} {calls}".casefold()
    return " ".join(_RUN_OF_LETTERS.findall(text))


def _lot_of(turn: HistoryTurn) -> bytes:
    return hashlib.sha256(f"{turn.session_id}{turn.at}".encode()).digest()


def _alternate(
    turns: Sequence[HistoryTurn], group_of: Callable[[HistoryTurn], Hashable]
) -> list[HistoryTurn]:
    """The first turn of each group, then the second of each, and so on."""
    n_by_group: Counter[Hashable] = Counter()
    numbered: list[tuple[int, HistoryTurn]] = []
    for turn in turns:
        group = group_of(turn)
        numbered.append((n_by_group[group], turn))
        n_by_group[group] += 1
    numbered.sort(key=lambda pair: pair[0])
    return [turn for _, turn in numbered]
