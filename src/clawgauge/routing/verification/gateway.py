"""Every place of OpenClaw's in turn, through one gateway: what `agent exec` alone does not show.

A gateway on a free port of loopback is asked by the main agent, which starts a subagent; it is
woken for a heartbeat; and its session is compacted. The recap of a turn, and what is written down
before a compaction, come by themselves.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from clawgauge.child_processes.child import running
from clawgauge.routing.openclaw_file import object_at
from clawgauge.routing.verification.comparison import measure_size
from clawgauge.routing.verification.program import STEP_TIMEOUT_S, OpenClaw, Untold
from clawgauge.routing.verification.recorder import (
    SUBAGENT_TASK,
    VERIFY_WORD,
    Recorder,
    SeenRequest,
)
from clawgauge.routing.verification.slots import FilledSlot
from clawgauge.routing.verification.verify import (
    Verification,
    ask_model,
    is_comparable,
    judge_slot,
    leave_out,
)

_SESSION = "agent:main:main"
_POLL_S = 0.5
_READY_TIMEOUT_S = 180.0
# What comes by itself after a turn.
_AFTER_TURN_S = 60.0
# Below the window by so much, a session is nearly full.
_NEARLY_FULL_TOKENS = 600
_FALLBACK_WINDOW = 128_000
_MAX_TOOLS_OF_FLUSH = 4
# In these OpenClaw has a temperature and a limit of its own.
_OWN_SAMPLING = ("utility", "compaction")


class _Step(NamedTuple):
    """What makes a place ask its model."""

    arguments: tuple[str, ...]
    wait_s: float
    slots: tuple[str, ...]
    """Whose requests come of it."""


_STEPS = (
    _Step(
        ("agent", "--agent", "main", "-m", f"Start a subagent: {VERIFY_WORD}.", "--json"),
        _AFTER_TURN_S,
        ("main", "subagents", "utility"),
    ),
    _Step(
        ("system", "event", "--mode", "now", "--text", "verify", "--json"),
        _AFTER_TURN_S,
        ("heartbeat",),
    ),
    _Step(("sessions", "compact", _SESSION, "--json"), 0.0, ("compaction",)),
    _Step(("agent", "--agent", "main", "-m", "Reply with READY once.", "--json"), 0.0, ()),
    _Step(
        ("agent", "--agent", "main", "-m", "Reply with READY again.", "--json"),
        _AFTER_TURN_S,
        ("memory flush",),
    ),
)
_NEARLY_FULL_FROM_STEP = 3


def _is_main(request: SeenRequest) -> bool:
    return _n_tools(request) > _MAX_TOOLS_OF_FLUSH and _has_text(request, VERIFY_WORD)


def _is_subagent(request: SeenRequest) -> bool:
    return (
        _n_tools(request) > 0
        and _has_text(request, SUBAGENT_TASK)
        and not _has_text(request, VERIFY_WORD)
    )


def _is_small(request: SeenRequest) -> bool:
    return _n_tools(request) == 0


def _is_heartbeat(request: SeenRequest) -> bool:
    # A subagent's end may have the main agent asked once more at the same time.
    return _n_tools(request) > _MAX_TOOLS_OF_FLUSH and _has_text(request, "heartbeat")


def _is_flush(request: SeenRequest) -> bool:
    return 0 < _n_tools(request) <= _MAX_TOOLS_OF_FLUSH


_IS_FROM: dict[str, Callable[[SeenRequest], bool]] = {
    "main": _is_main,
    "subagents": _is_subagent,
    "utility": _is_small,
    "heartbeat": _is_heartbeat,
    "compaction": _is_small,
    "memory flush": _is_flush,
}


async def ask_gateway(
    openclaw: OpenClaw,
    slots: Sequence[FilledSlot],
    recorder: Recorder,
    verification: Verification,
) -> None:
    """Have every place ask its model, and judge what it sent."""
    port = _free_port()
    _prepare_config(openclaw, port)
    filled = {slot.name for slot in slots}
    seen: dict[str, SeenRequest] = {}
    problems: dict[str, str] = {}
    command = openclaw.command("gateway", "run", "--port", str(port), "--bind", "loopback")
    try:
        async with running(command) as child:
            drain = asyncio.create_task(_drain(child))
            try:
                await _wait_for_port(openclaw, port, child)
                await _take_steps(openclaw, recorder, filled, seen, problems)
            finally:
                drain.cancel()
    except OSError as fault:
        raise Untold(f"OpenClaw cannot be run: {fault}") from fault
    for slot in slots:
        if not is_comparable(slot):
            verification.results.append(leave_out(slot))
            continue
        request = seen.get(slot.name)
        problem = problems.get(slot.name, "it did not ask its model")
        is_keyless = False
        if slot.name not in _IS_FROM:
            # Those behind the first: a gateway asks them after a minute of errors alone.
            told = await ask_model(openclaw, slot, recorder)
            request, problem, is_keyless = told.seen, told.problem or problem, told.is_keyless
        if request is not None:
            verification.sizes.append(measure_size(request.body))
        result = judge_slot(
            slot, request, problem, is_keyless, has_own_sampling=slot.name in _OWN_SAMPLING
        )
        verification.results.append(result)


def _free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _prepare_config(openclaw: OpenClaw, port: int) -> None:
    """A gateway for us alone, whose session can be compacted although it is short."""
    config: dict[str, Any] = json.loads(openclaw.config.read_bytes())
    token = secrets.token_urlsafe(24)
    config["gateway"] = {
        "mode": "local",
        "bind": "loopback",
        "port": port,
        "auth": {"mode": "token", "token": token},
    }
    # It would tell the network of itself, and look for updates.
    config["discovery"] = {"mdns": {"mode": "off"}}
    config["update"] = {"checkOnStart": False}
    defaults = config["agents"]["defaults"]
    # Its own prompt tells of heartbeats.
    defaults["heartbeat"].pop("prompt", None)
    compaction = defaults.setdefault("compaction", {})
    compaction["keepRecentTokens"] = 50
    compaction["recentTurnsPreserve"] = 1
    compaction["qualityGuard"] = {"enabled": False}
    flush = compaction.setdefault("memoryFlush", {})
    flush["enabled"] = True
    flush["softThresholdTokens"] = 4_000
    openclaw.config.write_text(json.dumps(config), encoding="utf-8")


async def _drain(child: Any) -> None:
    while await child.next_line() is not None:
        pass


async def _wait_for_port(openclaw: OpenClaw, port: int, child: Any) -> None:
    """Wait until the gateway takes connections. Raises `Untold` where it does not."""
    waited_s = 0.0
    while waited_s < min(_READY_TIMEOUT_S, openclaw.deadline.left_s()):
        if child.exited_ns is not None:
            lines = child.stderr_tail.strip().splitlines() or ["it said nothing"]
            raise Untold(f"OpenClaw's gateway ended: {lines[-1][:300]}")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(_POLL_S)
            waited_s += _POLL_S
            continue
        writer.close()
        return
    raise Untold("OpenClaw's gateway was not ready in time")


async def _take_steps(
    openclaw: OpenClaw,
    recorder: Recorder,
    filled: set[str],
    seen: dict[str, SeenRequest],
    problems: dict[str, str],
) -> None:
    window = _smallest_window(openclaw)
    for number, step in enumerate(_STEPS):
        wanted = [name for name in step.slots if name in filled]
        is_needed = bool(wanted) or number == 0
        if number >= _NEARLY_FULL_FROM_STEP:
            is_needed = "memory flush" in filled
            recorder.prompt_tokens = max(1_000, window - _NEARLY_FULL_TOKENS)
        if not is_needed:
            continue
        n_before = len(recorder.requests)
        try:
            done = await openclaw.run(*step.arguments, timeout_s=STEP_TIMEOUT_S)
        except Untold as untold:
            for name in wanted:
                problems[name] = str(untold)
            continue
        await _wait_for_requests(openclaw, recorder, n_before, wanted, step.wait_s)
        for name in wanted:
            request = _first(recorder.requests[n_before:], _IS_FROM[name])
            if request is not None:
                seen[name] = request
            elif done.exit_code:
                lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
                problems[name] = " ".join(lines[-1:])[:300] or "OpenClaw ended with an error"


async def _wait_for_requests(
    openclaw: OpenClaw, recorder: Recorder, n_before: int, names: Sequence[str], wait_s: float
) -> None:
    """Wait until all places have asked, or the time is over."""
    waited_s = 0.0
    while waited_s < min(wait_s, openclaw.deadline.left_s()):
        requests = recorder.requests[n_before:]
        if all(_first(requests, _IS_FROM[name]) is not None for name in names):
            return
        await asyncio.sleep(_POLL_S)
        waited_s += _POLL_S


def _first(
    requests: Sequence[SeenRequest], is_from: Callable[[SeenRequest], bool]
) -> SeenRequest | None:
    for request in requests:
        if is_from(request):
            return request
    return None


def _smallest_window(openclaw: OpenClaw) -> int:
    """The window of the main model, as the configuration has it."""
    config: dict[str, Any] = json.loads(openclaw.config.read_bytes())
    model = object_at(config, "agents", "defaults").get("model")
    ref = model.get("primary") if isinstance(model, dict) else model
    provider_id, _, model_id = str(ref).partition("/")
    models = object_at(config, "models", "providers", provider_id).get("models")
    for entry in models if isinstance(models, list) else ():
        if isinstance(entry, dict) and entry.get("id") == model_id:
            window = entry.get("contextTokens") or entry.get("contextWindow")
            if isinstance(window, int):
                return window
    return _FALLBACK_WINDOW


def _n_tools(request: SeenRequest) -> int:
    tools = request.body.get("tools")
    return len(tools) if isinstance(tools, list) else 0


def _has_text(request: SeenRequest, text: str) -> bool:
    said: Mapping[str, Any] = {
        name: request.body.get(name) for name in ("messages", "input", "contents")
    }
    return text in json.dumps(said, ensure_ascii=False)
