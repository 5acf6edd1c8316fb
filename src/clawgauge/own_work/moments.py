"""The moments of a history: what the model saw each time, what it did, and which are worth asking about again; and the
suite made of them: masked, what several share written once, for its owner's eyes alone.

A request is not stored: it is rebuilt from the records before the answer."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
import posixpath
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import count, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.characters import well_formed
from clawgauge.checks.agreement import Call, meaning, unwrap
from clawgauge.checks.command_lines import only_looks
from clawgauge.checks.detection.shell import load_lexicon
from clawgauge.checks.same_prose import WORD
from clawgauge.checks.tool_call import MAX_EXPECTED_CALLS
from clawgauge.checks.tool_schema import listed
from clawgauge.errors import ConfigError
from clawgauge.own_work.stores import Record, Session, decode, look_up
from clawgauge.records import Context
from clawgauge.secrets import MASK, Redactor, mask_strings
from clawgauge.suites.document import MAX_FILE_BYTES
from clawgauge.words import plural
from clawgauge.world import can_run
from clawgauge.world.world import World

Message = dict[str, Any]
RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))
MASKED = re.compile(RULES["masked"])
_AT_FIRST, _ANYWHERE = ("|".join(RULES[name]) for name in ("taken_back_at_first", "taken_back"))
_TAKEN_BACK = re.compile(
    rf"(?i)\A\W*(?:(?:{RULES['fillers']})\b\W*)*(?:{_AT_FIRST})|\b(?:{_ANYWHERE})"
)
_SLASH_COMMAND = re.compile(r"/[a-z][\w-]*(?:\s|:|\Z)")
_UNHELD = "calls that a suite cannot hold"
# Of arguments: a suite may be 64 deep, and a schema is twice as deep as what it describes.
_MAX_DEPTH = 24
# OpenClaw cuts a stored result at about 32,000 characters: the model may have seen more.
_CUT_CHARS = 31_500
_MAX_CONTEXT_CHARS, _NO_RESULT = 2_000_000, "Error: there is no result, the run was stopped."
# OpenClaw sends an image in its own turn and while three later ones follow; then this stands in its place.
_IMAGE_TURNS, _PAST_IMAGE = 4, "[image data removed - already processed by model]"


class Moment(NamedTuple):
    """One answer of the incumbent: it made `calls`, the first of which `printed` something, `asks`, or just answers."""

    session: str
    at: str
    model: str
    cwd: str
    messages: list[Message]
    asked: str
    calls: list[Call]
    asks: bool
    printed: str

    @property
    def tools(self) -> str:
        return " + ".join(sorted({call.name for call in self.calls}))


def text_of(message: Record) -> str:
    """The text of a message, thinking and calls left out."""
    content = message.get("content")
    texts = [
        _PAST_IMAGE if look_up(one, "type") == "image" else look_up(one, "text")
        for one in listed(content, dict)
    ]
    blocks = texts if isinstance(content, list) else [content]
    return "\n".join(block for block in blocks if isinstance(block, str))


def calls_of(message: Record) -> dict[str, Call]:
    """The calls of an assistant's message by their ids, those that went through tool search unwrapped."""
    content = message.get("content")
    blocks = (
        [block for block in content if look_up(block, "type") == "toolCall"]
        if isinstance(content, list)
        else []
    )
    calls = {
        str(block.get("id")): unwrap(str(block.get("name")), block.get("arguments"))
        for block in blocks
    }
    return {key: call if _fits(call.arguments) else Call("", {}) for key, call in calls.items()}


def _fits(value: Any, depth: int = 0) -> bool:
    """Whether a suite can hold a value: TOML has no null, and its numbers and depths have their bounds."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return depth < _MAX_DEPTH and all(_fits(one, depth + 1) for one in inner)
    if isinstance(value, int | float):
        return math.isfinite(value) and (isinstance(value, float) or -(2**63) <= value < 2**63)
    return value is not None


@dataclass(slots=True)
class Thread:
    """The messages so far, what the user said last, and what spoils it. A call's result is filled in as it comes."""

    spoilt: str = ""
    turn: int = 0
    sees_until: int = 0
    asked: str = ""
    messages: list[Message] = field(default_factory=list)
    waiting: dict[str, Message] = field(default_factory=dict)

    def add(self, message: Record) -> None:
        """Take in one more message; neighbours of one speaker are joined, as they are sent."""
        role, text, calls, content = (
            message.get("role"),
            text_of(message),
            calls_of(message),
            message.get("content"),
        )
        if isinstance(content, list) and any(
            look_up(block, "type") == "image" for block in content
        ):
            self.sees_until = self.turn + _IMAGE_TURNS + (role == "user")
        if (
            role == "toolResult"
            and (result := self.waiting.pop(str(message.get("toolCallId")), None)) is not None
        ):
            result["content"] = text
            self.spoilt = "results that were cut" if len(text) >= _CUT_CHARS else self.spoilt
        if role not in ("user", "assistant") or not (text.strip() or calls):
            return
        if role == "user":
            self.asked, text = text, f"{_stamp(message.get('timestamp'))}{text}"
        if not all(call.name.strip() for call in calls.values()):
            self.spoilt = _UNHELD
        last = self.messages[-1] if self.messages else {}
        self.turn += role == "user" != last.get("role")
        if not calls and last.get("role") == role and "calls" not in last:
            text = f"{self.messages.pop()['content']}\n\n{text}"
        made = {"calls": [call._asdict() for call in calls.values()]} if calls else {}
        self.waiting = {call_id: {"role": "tool", "content": _NO_RESULT} for call_id in calls}
        self.messages += [{"role": role, "content": text, **made}, *self.waiting.values()]


def _stamp(at_ms: Any) -> str:
    """The time before a user's message, as OpenClaw sends and does not store it."""
    if not isinstance(at_ms, int | float) or not 0 < at_ms < 4e12:
        return ""
    at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    hours, minutes = int(f"{at:%z}"[:3]), f"{at:%z}"[3:5]
    return f"[{at:%a %Y-%m-%d %H:%M} GMT{hours:+d}{'' if minutes == '00' else f':{minutes}'}] "


def has_failed(result: Record) -> bool:
    """Whether a call came to nothing; `isError` says little: an exit code of 2 is no error to some releases."""
    details = result.get("details")
    for part in (details, look_up(details, "result", "details"), decode(text_of(result))):
        is_failure = look_up(part, "status") in RULES["failures"] or look_up(part, "error")
        if is_failure or look_up(part, "exitCode") not in (None, 0):
            return True
    return result.get("isError") is True


def find_moments(
    sessions: Iterable[Session], since: str, left_out: Counter[str]
) -> Iterator[Moment]:
    """Every moment since then that may be asked again; the others are counted by what speaks against them."""
    # A record that a later session repeats is looked at there alone: that one knows whether it was rewound.
    seen: set[tuple[str, str]] = set()
    for session in sessions:
        path, is_whole = _find_path(session.records)
        answers: set[int] = set()
        for record in session.records:
            name = (str(record.get("id")), str(record.get("timestamp")))
            if (
                message_of(record).get("role") == "assistant"
                and name not in seen
                and name[1] >= since
            ):
                answers.add(id(record))
            seen.add(name)
        left_out["rewound answers"] += len(answers - {id(record) for record in path})
        cwd = next(
            (str(one.get("cwd") or "") for one in session.records if one.get("type") == "session"),
            "",
        )
        thread, window = Thread("" if is_whole else "incomplete histories"), list[Record]()
        for place, record in enumerate(path):
            if record.get("type") in ("reset", "compaction"):
                # What was before is forgotten, but for a summary and what is said to be kept.
                ids = [one.get("id", "") for one in window]
                kept = (
                    window[ids.index(first) :]
                    if (first := record.get("firstKeptEntryId")) in ids
                    else []
                )
                thread, window = (
                    Thread(),
                    [{"message": {"role": "user", "content": record.get("summary")}}, *kept],
                )
                for one in window:
                    thread.add(message_of(one))
            window.append(record)
            message, at = message_of(record), str(record.get("timestamp"))
            if id(record) in answers:
                came, later, following = _what_followed(path, place)
                why = _why_not(message, thread, came, later, following)
                if why is None and any(first <= at <= last for first, last in session.retried):
                    why = "retried runs"
                if why is not None:
                    left_out[why] += 1
                else:
                    said = (
                        f"{message.get('provider')}/{message.get('model')}",
                        cwd,
                        [*thread.messages],
                        thread.asked,
                    )
                    calls, printed = (
                        list(calls_of(message).values()),
                        text_of(came[0] or {}) if came else "",
                    )
                    asks = not calls and text_of(message).rstrip().endswith(("?", "？", "؟"))
                    yield Moment(session.id, at, *said, calls, asks, printed)
            if message.get("model") != "gateway-injected" and message.get("stopReason") != "error":
                thread.add(message)


def message_of(record: Record) -> Record:
    message = record.get("message")
    return message if isinstance(message, dict) else {}


def _find_path(records: Sequence[Record]) -> tuple[list[Record], bool]:
    """The records from the first to the last one that still stands, and whether none before them is missing."""
    by_id = {
        one["id"]: one
        for one in records
        if isinstance(one.get("id"), str) and one.get("type") != "session"
    }
    last = next(reversed(by_id.values()), None)
    at = look_up(last, "targetId" if look_up(last, "type") == "leaf" else "id")
    path: dict[str, Record] = {}
    while isinstance(at, str) and at in by_id and at not in path:
        path[at] = by_id[at]
        at = by_id[at].get("parentId")
    return list(path.values())[::-1], at is None


def _what_followed(
    path: Sequence[Record], place: int
) -> tuple[list[Record | None], list[Call], str]:
    """Up to the user's next message: the results of an answer's calls, the calls of later answers; and that message."""
    results: dict[str, Record | None] = dict.fromkeys(calls_of(message_of(path[place])))
    later: list[Call] = []
    for message in map(message_of, islice(path, place + 1, None)):
        if message.get("role") == "user" and not _SLASH_COMMAND.match(text_of(message)):
            return list(results.values()), later, text_of(message)
        if (call_id := str(message.get("toolCallId"))) in results:
            results[call_id] = message
        later += calls_of(message).values()
    return list(results.values()), later, ""


def _why_not(
    message: Record, before: Thread, came: list[Record | None], later: list[Call], reply: str
) -> str | None:
    """What speaks against a moment: that it is no answer to what is known, or that the answer did not stand."""
    calls, said, stopped = (
        list(calls_of(message).values()),
        text_of(message).strip(),
        message.get("stopReason"),
    )
    is_announced = str(look_up(message, "__openclaw", "runId")).startswith("announce:")
    is_unasked = not before.messages or before.messages[-1]["role"] == "assistant"
    is_nameless = not all(call.name.strip() for call in calls)
    made = json.dumps([call.arguments for call in calls], ensure_ascii=False)
    reasons = {
        "answers of the gateway": message.get("model") == "gateway-injected",
        before.spoilt: before.spoilt,
        "answers to images": before.turn < before.sees_until,
        "failed or empty answers": stopped == "error" or not (calls or said),
        "answers cut by the token limit": stopped == "length",
        "announcements of subagents": is_announced or is_unasked,
        "slash commands": _SLASH_COMMAND.match(before.asked),
        "masked secrets": MASKED.search(f"{before.asked} {made}"),
        "contexts that are too long": sum(len(one["content"]) for one in before.messages)
        > _MAX_CONTEXT_CHARS,
        "stopped calls": None in came,
        "failed calls": any(result is not None and has_failed(result) for result in came),
        "answers that the user corrected": _TAKEN_BACK.search(reply),
        "calls that were repeated": not {*map(_aim, calls)}.isdisjoint(map(_aim, later)),
        "searches for tools": any(call.name.startswith("tool_") for call in calls),
        _UNHELD: before.spoilt == _UNHELD or len(calls) > MAX_EXPECTED_CALLS or is_nameless,
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _aim(call: Call) -> tuple[str, str]:
    """What a call is about: the same again, in one turn, is a second try. Another page of a file is not."""
    if call.name in ("write", "edit", "apply_patch") and "path" in call.arguments:
        return "written", str(call.arguments["path"])
    return call.name, json.dumps(meaning(call), sort_keys=True)


def choose(moments: Iterable[Moment], most: int, left_out: Counter[str]) -> list[Moment]:
    """At most so many: what is nearly the same once, tools and then sessions in turn, and the rest drawn by lot."""
    once: dict[str, Moment] = {}
    for moment in moments:
        last = moment.messages[-1]["content"] if moment.messages[-1]["role"] == "tool" else ""
        calls = sorted(
            json.dumps(call, sort_keys=True, ensure_ascii=False) for call in moment.calls
        )
        likeness = " ".join(re.findall(r"[^\W\d]+", f"{moment.asked} {last} {calls}".casefold()))
        left_out["near-duplicates"] += likeness in once
        once.setdefault(likeness, moment)
    drawn = sorted(
        once.values(), key=lambda one: hashlib.sha256(f"{one.session}{one.at}".encode()).digest()
    )
    for group_of in (attrgetter("tools", "session"), attrgetter("tools")):
        counts: defaultdict[Any, Iterator[int]] = defaultdict(count)
        turns = [next(counts[group_of(moment)]) for moment in drawn]
        drawn = [one for _, one in sorted(zip(turns, drawn, strict=True), key=itemgetter(0))]
    left_out["more than --max"] += max(0, len(drawn) - most)
    return sorted(drawn[:most], key=lambda one: (one.session, one.at))


_MAX_FILES, _MAX_FILE_CHARS, _MAX_LINES, _SHORT_CHARS = 40, 20_000, 40, 20
_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


class Mask:
    """Takes keys out of texts; addresses, numbers and, where names are given, people and hosts have stand-ins."""

    def __init__(
        self, secrets: Iterable[str], names: Collection[str] | None, moments: Iterable[Moment]
    ) -> None:
        self._redact = Redactor(secrets)
        self._stand_ins: dict[str, dict[str, str]] = defaultdict(dict)
        self._patterns = {form: re.compile(pattern) for form, pattern in RULES["replaced"].items()}
        if names is not None:
            texts = [
                json.dumps([one.cwd, one.messages, one.calls], ensure_ascii=False)
                for one in moments
            ]
            people = {*names, *(one for text in texts for one in re.findall(RULES["person"], text))}
            people |= {part for name in names for part in name.split() if len(part) > 2}
            hosts = {one for text in texts for one in re.findall(RULES["host"], text)}
            hosts = {
                one for one in hosts if not re.fullmatch(RULES["nobodys_host"], one.casefold())
            }
            for form, found in (("host{}.example", hosts), ("person{}", people)):
                words = "|".join(re.escape(one) for one in sorted(found, key=len, reverse=True))
                self._patterns[form] = re.compile(
                    rf"(?i)(?<![^\W_])(?:{words or '(?!)'})(?![^\W_])"
                )

    def __call__(self, text: str) -> str:
        text = self._redact(well_formed(text))
        for form, pattern in self._patterns.items():
            text = pattern.sub(partial(self._stand_in, form), text)
        return text

    def spoils(self, moment: Moment) -> bool:
        """Whether a question or its calls hold a secret, so that nobody could call the same."""
        said = [moment.asked, *(call.arguments for call in moment.calls)]
        return str(mask_strings(said, self)).count(MASK) != str(said).count(MASK)

    def _stand_in(self, form: str, match: re.Match[str]) -> str:
        found, known = match[0], self._stand_ins[form]
        if form.startswith("192.") and not _is_public(found):
            return found
        word = known.setdefault(found.casefold(), form.format(len(known) + 1))
        return word.capitalize() if form == "person{}" and found[0].isupper() else word


def _is_public(address: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_global
    return False


def make_suite(moments: Sequence[Moment], name: str, mask: Mask, capture: Context | None) -> bytes:
    tools = _make_toolbox(moments, capture)
    if moments and not tools:
        raise ConfigError(
            "no tool was called in these moments, so none can be offered: give them with --capture"
        )
    source = "inferred" if capture is None else "captured"
    contexts, prompts = list[dict[str, Any]](), list[dict[str, Any]]()
    shared: list[Message] = []
    for moment in moments:
        calls = [Call(name, mask_strings(given, mask)) for name, given in moment.calls]
        if not shared or moment.messages[: len(shared)] != shared:
            shared = moment.messages
            contexts.append({"tools": list(tools), "messages": mask_strings(shared, mask)})
        kind = "expected_calls" if calls else "ask" if moment.asks else "no_call"
        # The words of the user that came back in a call, grammar left out: "Yes, do it" speaks of what was said before.
        asked = mask(
            " ".join([one["content"] for one in moment.messages if one["role"] == "user"][-2:])
        )
        made = {
            *WORD.findall(str(calls).replace("\\n", " ").casefold())
        } - load_lexicon().function_words
        told = sorted(made.intersection(WORD.findall(asked.casefold())))
        effect = find_effect(moment, mask) if calls else None
        made_calls = [call._asdict() for call in calls] or True
        validator = {
            "type": "agreement",
            kind: made_calls,
            "telling": told,
            "effect": effect,
            "cwd": mask(moment.cwd),
        }
        validator |= {"incumbent": moment.model, "tools_source": source}
        prompt = {
            "id": f"m{len(prompts) + 1}",
            "name": moment.tools or ("a question" if moment.asks else "an answer"),
        }
        prompt |= {"category": moment.tools or "no call", "context": f"c{len(contexts)}"}
        own = mask_strings(moment.messages[len(shared) :], mask) or None
        prompts.append({**prompt, "messages": own, "validator": validator})
    held = f"{plural(len(prompts), 'moment')} of your own OpenClaw history"
    lines = [
        f"# PRIVATE. {held}: what you wrote, what tools returned, what was called. Keys are masked, little else is.",
        *_assign({"name": name, "description": f"Agreement with the incumbent in {held}."}),
        *_assign({"system": mask(capture.system or "") if capture else None}),
        *("\n[toolbox]", *_assign(mask_strings(tools, mask))),
    ]
    lines += [
        line for n, one in enumerate(contexts, 1) for line in (f"\n[contexts.c{n}]", *_assign(one))
    ]
    lines += [line for one in prompts for line in ("\n[[prompts]]", *_assign(one))]
    data = "\n".join([*lines, ""]).encode()
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(
            f"these moments come to more than {MAX_FILE_BYTES >> 20} MiB: give a smaller --max"
        )
    return data


def find_effect(moment: Moment, mask: Mask) -> dict[str, Any] | None:
    """A small machine on which the one command that was called prints what it printed, if one can be made."""
    command = str(moment.calls[0].arguments.get("command", "")) if len(moment.calls) == 1 else ""
    lines = [line for line in moment.printed.splitlines() if line.strip()]
    if not only_looks(command) or not 0 < len(lines) <= _MAX_LINES or not can_run():
        return None
    files: dict[str, str] = {}
    if command.split()[0] == "ls":
        folder = next((word for word in command.split()[1:] if not word.startswith("-")), ".")
        files = {posixpath.join(folder, line): "" for line in lines if not line.endswith("/")}
    for name, given, result in _made_before(moment):
        text = (
            given.get("content")
            if name == "write"
            else result
            if name == "read" and len(given) == 1
            else None
        )
        if name in ("write", "read", "edit") and isinstance(path := given.get("path"), str):
            files.pop(path, None)
            files |= {path: text} if isinstance(text, str) and len(text) <= _MAX_FILE_CHARS else {}
    # A relative path is looked for at home on the machine, in the workspace in history.
    home = (re.match(r"/home/[^/]+", moment.cwd) or ["/root"])[0]
    known, places = [*files.items()][-_MAX_FILES:], (home, moment.cwd or "/")
    there = {
        posixpath.normpath(posixpath.join(place, path)): text
        for path, text in known
        for place in places
    }
    world = {"user": posixpath.basename(home), "files": there}
    with suppress(Exception):  # a history may hold any name: then there is no such machine
        if World(world).call("exec", {"command": command}).text.split() == moment.printed.split():
            output = {
                "contains_all": [_apart(mask(line)) for line in lines],
                "contains_none": RULES["not_looked_at"],
            }
            return {
                "expected_tools": ["exec"],
                "world": mask_strings(world, mask),
                "output": output,
            }
    return None


def _apart(line: str) -> str:
    """What to look for in a line's stead: almost anything holds a 2, so a short line must stand apart, or alone."""
    if len(line) > _SHORT_CHARS:
        return line
    words = r"\s+".join(map(re.escape, line.split()))
    has_letters = re.search(r"[^\W\d_]", line)
    return rf"re:(?m)(?:^|[\s:/]){words}(?:\s|$)" if has_letters else rf"re:(?m)^\s*{words}\s*$"


def _made_before(moment: Moment) -> Iterator[tuple[str, dict[str, Any], str]]:
    for place, message in enumerate(moment.messages):
        for n, call in enumerate(message.get("calls", ()), 1):
            yield call["name"], call["arguments"], moment.messages[place + n]["content"]


def _make_toolbox(moments: Sequence[Moment], capture: Context | None) -> dict[str, dict[str, Any]]:
    """The tools on offer: those captured, and of what was called besides what the calls tell of it."""
    made: dict[str, list[Any]] = defaultdict(list)
    known = (
        {tool["function"]["name"]: tool["function"] for tool in capture.tools} if capture else {}
    )
    # Names that differ in case alone are one.
    spelled = {name.lower(): name for name in known}
    right = {call.name.lower() for moment in moments for call in moment.calls}
    for moment in moments:
        before = [
            Call(name, given)
            for name, given, _ in _made_before(moment)
            if name.lower() not in right
        ]
        for name, given in (*moment.calls, *before):
            made[spelled.setdefault(name.lower(), name)].append(given)
    # Nobody has to search for a tool that is offered.
    names = [name for name in sorted(made) if name not in known and not name.startswith("tool_")]
    box = {name: {"parameters": {"properties": {}, **_infer(made[name])}} for name in names}
    return {
        n: {k: f[k] for k in ("description", "parameters") if k in f} for n, f in known.items()
    } | box


def _infer(values: Sequence[Any]) -> dict[str, Any]:
    kinds = sorted({_TYPES.get(type(value), "string") for value in values})
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    if "array" in kinds:
        schema["items"] = _infer(
            [one for value in values if isinstance(value, list) for one in value] or [""]
        )
    if objects := [value for value in values if isinstance(value, dict)]:
        keys = list(dict.fromkeys(key for value in objects for key in value))
        schema["properties"] = {
            key: _infer([value[key] for value in objects if key in value]) for key in keys
        }
        schema["required"] = [
            key for key in keys if len(objects) > 1 and all(key in value for value in objects)
        ]
    return schema


def _assign(fields: Mapping[str, Any]) -> list[str]:
    return [f"{_toml(key)} = {_toml(value)}" for key, value in fields.items() if value is not None]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(_assign(value))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
