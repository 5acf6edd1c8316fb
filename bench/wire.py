"""The bytes of a calibrated reply, ready to be sent, for three protocols.

Owns: the shape of chat completions, Responses and Anthropic messages, as streams and as whole replies. Refuses: time.
Everything is made once per model name and kept, so that sending a token costs a write and nothing else.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bench.schedule import Schedule, word

TOOL_NAME = "lookup"
INPUT_TOKENS = 12
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
_END_OF_CHUNKS = b"0\r\n\r\n"

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One model name's answer in one protocol: HTTP chunks of its stream, or its whole body."""

    schedule: Schedule
    offsets_ns: list[int]
    opening: bytes
    tokens: list[bytes]
    closing: bytes
    whole: bytes


@functools.lru_cache(maxsize=64)
def make_reply(api: str, model: str, with_usage: bool) -> Reply:
    """`api` is `chat`, `responses` or `messages`; `with_usage` matters for chat streams alone."""
    schedule = Schedule(model)
    opening, tokens, closing, whole = _MAKERS[api](model, schedule, with_usage)
    return Reply(
        schedule=schedule,
        offsets_ns=schedule.offsets_ns(),
        opening=STREAM_HEAD + opening,
        tokens=tokens,
        closing=closing + _END_OF_CHUNKS,
        whole=_whole_reply(whole),
    )


Made = tuple[bytes, list[bytes], bytes, Event]


def _chunk(*events: bytes) -> bytes:
    data = b"".join(events)
    return b"%x\r\n%s\r\n" % (len(data), data)


def _data(event: Event) -> bytes:
    return b"data: %s\n\n" % _compact(event)


def _named(event: Event) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), _compact(event))


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _whole_reply(body: Event) -> bytes:
    data = _compact(body)
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(data),
        data,
    )


def _text(n: int) -> str:
    return "".join(map(word, range(n)))


def _fragments(schedule: Schedule) -> list[str]:
    """The arguments of the tool call, cut into as many pieces as the schedule says."""
    pieces = [word(k) for k in range(schedule.n_tool)]
    if pieces:
        pieces[0] = '{"q": "' + pieces[0]
        pieces[-1] += '"}'
    return pieces


def _chat(model: str, schedule: Schedule, with_usage: bool) -> Made:
    base = {
        "id": "chatcmpl-calibrated",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": model,
    }

    def chunk(delta: Event, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _chunk(_data({**base, "choices": [choice]}))

    def tool_delta(k: int, fragment: str) -> Event:
        call: Event = {"index": 0, "function": {"arguments": fragment}}
        if k == 0:
            call |= {
                "id": "call_0",
                "type": "function",
                "function": {"name": TOOL_NAME, "arguments": fragment},
            }
        return {"tool_calls": [call]}

    deltas: list[Event] = [{"reasoning_content": word(k)} for k in range(schedule.n_reasoning)]
    deltas += [{"content": word(k)} for k in range(schedule.n_text)]
    deltas += [tool_delta(k, fragment) for k, fragment in enumerate(_fragments(schedule))]
    finish = "tool_calls" if schedule.n_tool else "stop"
    usage = {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": schedule.n_tokens,
        "total_tokens": INPUT_TOKENS + schedule.n_tokens,
        "completion_tokens_details": {"reasoning_tokens": schedule.n_reasoning},
    }
    closing = chunk({}, finish)
    if with_usage:
        closing += _chunk(_data({**base, "choices": [], "usage": usage}))
    message: Event = {"role": "assistant", "content": _text(schedule.n_text)}
    if schedule.n_tool:
        function = {"name": TOOL_NAME, "arguments": "".join(_fragments(schedule))}
        message["tool_calls"] = [{"id": "call_0", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
    opening = chunk({"role": "assistant", "content": ""})
    return opening, [chunk(delta) for delta in deltas], closing + _chunk(b"data: [DONE]\n\n"), whole


def _responses(model: str, schedule: Schedule, with_usage: bool) -> Made:
    numbers = iter(range(1 << 62))

    def event(kind: str, **fields: Any) -> bytes:
        return _named({"type": kind, "sequence_number": next(numbers), **fields})

    def shell(status: str, output: list[Event], usage: Event | None) -> Event:
        head = {
            "id": "resp_calibrated",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": status,
        }
        return {
            **head,
            "error": None,
            "incomplete_details": None,
            "model": model,
            "output": output,
            "usage": usage,
        }

    started = shell("in_progress", [], None)
    opening = _chunk(event("response.created", response=started)) + _chunk(
        event("response.in_progress", response=started)
    )
    items = [item for item, pieces in _responses_items(schedule) if pieces]
    tokens: list[bytes] = []
    for index, (item, pieces) in enumerate((i, p) for i, p in _responses_items(schedule) if p):
        blank = {**item, "status": "in_progress"} | {
            key: type(item[key])() for key in _FILLED & item.keys()
        }
        added = event("response.output_item.added", output_index=index, item=blank)
        where = {"item_id": item["id"], "output_index": index, "content_index": 0}
        for k, piece in enumerate(pieces):
            delta = event(_DELTA_KINDS[item["type"]], **where, delta=piece)
            tokens.append(_chunk(added, delta) if k == 0 else _chunk(delta))
    usage = {
        "input_tokens": INPUT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": schedule.n_tokens,
        "output_tokens_details": {"reasoning_tokens": schedule.n_reasoning},
        "total_tokens": INPUT_TOKENS + schedule.n_tokens,
    }
    done = shell("completed", items, usage)
    closing = b"".join(
        _chunk(event("response.output_item.done", output_index=index, item=item))
        for index, item in enumerate(items)
    )
    return opening, tokens, closing + _chunk(event("response.completed", response=done)), done


_FILLED = frozenset({"content", "arguments"})
_DELTA_KINDS = {
    "reasoning": "response.reasoning_text.delta",
    "message": "response.output_text.delta",
    "function_call": "response.function_call_arguments.delta",
}


def _responses_items(schedule: Schedule) -> list[tuple[Event, list[str]]]:
    thought, said = _text(schedule.n_reasoning), _text(schedule.n_text)
    reasoning = {"id": "rs_0", "type": "reasoning", "summary": []}
    message = {"id": "msg_0", "type": "message", "role": "assistant", "status": "completed"}
    call = {
        "id": "fc_0",
        "type": "function_call",
        "call_id": "call_0",
        "name": TOOL_NAME,
        "status": "completed",
    }
    return [
        (
            {**reasoning, "content": [{"type": "reasoning_text", "text": thought}]},
            [word(k) for k in range(schedule.n_reasoning)],
        ),
        (
            {**message, "content": [{"type": "output_text", "annotations": [], "text": said}]},
            [word(k) for k in range(schedule.n_text)],
        ),
        ({**call, "arguments": "".join(_fragments(schedule))}, _fragments(schedule)),
    ]


def _messages(model: str, schedule: Schedule, with_usage: bool) -> Made:
    head = {"id": "msg_calibrated", "type": "message", "role": "assistant", "model": model}
    finish = "tool_use" if schedule.n_tool else "end_turn"
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": schedule.n_tokens}
    started: Event = {
        **head,
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": 1},
    }
    blocks = [(block, deltas) for block, deltas in _messages_blocks(schedule) if deltas]
    tokens: list[bytes] = []
    for index, (block, deltas) in enumerate(blocks):
        before = [_named({"type": "content_block_stop", "index": index - 1})] if index else []
        before.append(
            _named({"type": "content_block_start", "index": index, "content_block": block})
        )
        for delta in deltas:
            tokens.append(
                _chunk(
                    *before, _named({"type": "content_block_delta", "index": index, "delta": delta})
                )
            )
            before = []
    ending: list[Event] = [
        {"type": "content_block_stop", "index": max(len(blocks) - 1, 0)},
        {
            "type": "message_delta",
            "delta": {"stop_reason": finish, "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]
    whole = {
        **head,
        "content": [_filled(block, deltas) for block, deltas in blocks],
        "stop_reason": finish,
    }
    opening = _chunk(_named({"type": "message_start", "message": started}))
    return (
        opening,
        tokens,
        b"".join(_chunk(_named(event)) for event in ending),
        {**whole, "usage": usage},
    )


def _messages_blocks(schedule: Schedule) -> Iterable[tuple[Event, list[Event]]]:
    yield (
        {"type": "thinking", "thinking": ""},
        [{"type": "thinking_delta", "thinking": word(k)} for k in range(schedule.n_reasoning)],
    )
    yield (
        {"type": "text", "text": ""},
        [{"type": "text_delta", "text": word(k)} for k in range(schedule.n_text)],
    )
    yield (
        {"type": "tool_use", "id": "toolu_0", "name": TOOL_NAME, "input": {}},
        [
            {"type": "input_json_delta", "partial_json": fragment}
            for fragment in _fragments(schedule)
        ],
    )


def _filled(block: Event, deltas: list[Event]) -> Event:
    if block["type"] == "tool_use":
        return {**block, "input": json.loads("".join(delta["partial_json"] for delta in deltas))}
    key = block["type"]
    return {**block, key: "".join(delta[key] for delta in deltas)}


_MAKERS: dict[str, Callable[[str, Schedule, bool], Made]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
}
