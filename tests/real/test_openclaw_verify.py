"""What `route` writes makes the real OpenClaw send what was measured: its requests, field by field."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawgauge.prices import load_prices
from clawgauge.records import SentSettings, Target
from clawgauge.routing.decision import decide
from clawgauge.routing.evidence import Evidence, gather_evidence
from clawgauge.routing.openclaw import openclaw_routing
from clawgauge.routing.openclaw_file import merge_patch
from clawgauge.routing.policy import Policy
from clawgauge.routing.verification.verify import (
    Outcome,
    SlotResult,
    Verification,
    VerifyOptions,
    verify_routing,
)
from support.measured_models import MeasuredRun
from unit.routing.runs import GPT, decision_of
from unit.routing.sent_settings import OF_EACH_PROTOCOL, native_ollama, with_triage

ROOT = Path(__file__).parents[2]
OPENCLAW = ROOT / ".cache/openclaw/node_modules/.bin/openclaw"
NODE = ROOT / ".cache/openclaw/node/node_modules/.bin"
PATIENCE_S = 1_200.0

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(PATIENCE_S + 60),
    pytest.mark.skipif(
        not OPENCLAW.exists(), reason="the real OpenClaw is not installed: scripts/get-openclaw"
    ),
]
rest = pytest.mark.rest
ENVIRON = {"PATH": f"{NODE}:{OPENCLAW.parent}:{os.environ['PATH']}", "HOME": "/nowhere"}
# The settings of each protocol's request, as the run of the model sent them.
SENT: dict[str, dict[str, Any]] = {
    "ollama": {
        "path": "/api/chat",
        "think": "high",
        "num_ctx": 16_384,
        "temperature": 0,
        "keep_alive": "30m",
    },
    "ollama_openai": {
        "path": "/v1/chat/completions",
        "reasoning_effort": "none",
        "temperature": 0,
        "num_ctx": None,
    },
    "openai_chat": {
        "path": "/v1/chat/completions",
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
        "reasoning_effort": None,
    },
    "openai_responses": {"path": "/v1/responses", "effort": "none", "temperature": None},
    "anthropic_messages": {
        "path": "/v1/messages",
        "thinking": {"type": "enabled", "budget_tokens": 16_384},
        "max_tokens": 17_408,
        "temperature": None,
    },
}
# With the nine settings below two turns in every `make test-real`.
KINDS = [
    pytest.param("ollama", marks=rest),
    pytest.param("ollama_openai", marks=rest),
    pytest.param("openai_chat", marks=rest),
    pytest.param("openai_responses", marks=rest),
    "anthropic_messages",
]


def ask_openclaw(
    config: dict[str, Any], evidence: list[Evidence], *, with_gateway: bool = False
) -> Verification:
    options = VerifyOptions(
        timeout_s=PATIENCE_S, with_gateway=with_gateway, environ=ENVIRON, notify=lambda line: None
    )
    return asyncio.run(verify_routing(config, evidence, options))


def read_field(result: SlotResult, name: str) -> Any:
    """A setting in the request itself, wherever the protocol has it."""
    assert result.seen is not None, result.why
    if name == "path":
        return result.seen.path
    body = result.seen.body
    for part in (body, body.get("options") or {}, body.get("reasoning") or {}):
        if name in part:
            return part[name]
    return None


def believed_window(folder: Path, patch: dict[str, Any], ref: str) -> Any:
    """How many tokens OpenClaw says that a model takes."""
    config = folder / "listed.json"
    config.write_text(json.dumps(patch))
    environ = {
        **ENVIRON,
        "HOME": str(folder),
        "OPENCLAW_STATE_DIR": str(folder / "state"),
        "OPENCLAW_CONFIG_PATH": str(config),
    }
    done = subprocess.run(
        [OPENCLAW, "models", "list", "--json"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    for model in json.loads(done.stdout)["models"]:
        if model["key"] == ref:
            return model.get("contextTokens") or model.get("contextWindow")
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_openclaw_sends_what_was_measured(tmp_path: Path, kind: str) -> None:
    """Each setting stands in the body as the run sent it, and `--verify` says the same of it."""
    measured = OF_EACH_PROTOCOL[kind]
    decision = decision_of(tmp_path, measured)
    patch = openclaw_routing(decision).settings
    verification = ask_openclaw(patch, decision.ranked)
    assert verification.problem is None
    (result,) = verification.results
    assert {name: read_field(result, name) for name in SENT[kind]} == SENT[kind]
    assert read_field(result, "stream") is True
    assert result.outcome is Outcome.SAME, result
    assert verification.exit_code == 0


@pytest.mark.parametrize(
    ("kind", "n_settings"), [("ollama", 9), pytest.param("ollama_openai", 7, marks=rest)]
)
def test_every_setting_is_carried_over(tmp_path: Path, kind: str, n_settings: int) -> None:
    """Of the settings of a run none is lost on its way through `route`; one that is not looked at counts as lost."""
    measured = OF_EACH_PROTOCOL[kind]
    label = measured.target.label
    path = MeasuredRun([measured]).write(tmp_path)
    finished = {"event": "target_finished", "at_ms": 1, "target": label}
    with (path / "events.jsonl").open("a") as file:
        file.write(json.dumps({**finished, "detail": {"window_tokens": 16_384}}) + "\n")
    evidence, _ = gather_evidence([path], load_prices())
    decision = with_triage(decide(evidence, Policy()), label)
    patch = openclaw_routing(decision).settings
    verification = ask_openclaw(patch, decision.ranked)
    results = {result.slot.name: result for result in verification.results}
    main = results["main"]
    ((provider_id, provider),) = patch["models"]["providers"].items()
    ref = f"{provider_id}/{measured.target.model}"
    carried = {
        "api kind": read_field(main, "path") == SENT[kind]["path"],
        "temperature": read_field(main, "temperature") == 0,
        "streaming": read_field(main, "stream") is True,
        "heartbeat slot": results["heartbeat"].slot.ref == ref,
        "time limit": provider["timeoutSeconds"] >= 60,
        "window believed": believed_window(tmp_path, patch, ref) == 16_384,
    }
    if kind == "ollama":
        carried["thinking level"] = read_field(main, "think") == "high"
        carried["window sent"] = read_field(main, "num_ctx") == 16_384
        carried["kept in memory"] = read_field(main, "keep_alive") == "30m"
    else:
        carried["thinking level"] = read_field(main, "reasoning_effort") == "none"
    assert len(carried) == n_settings
    assert all(carried.values()), carried


@rest
def test_a_level_that_the_file_overrules_is_seen(tmp_path: Path) -> None:
    """`agents.defaults.subagents.thinking` beats the level that was measured, and `--verify` says so."""
    decision = decision_of(tmp_path, native_ollama(), for_subagents=True)
    config = {"agents": {"defaults": {"subagents": {"thinking": "low"}}}}
    whole = merge_patch(config, openclaw_routing(decision, config).settings)
    verification = ask_openclaw(whole, decision.ranked)
    outcomes = {result.slot.name: result.outcome for result in verification.results}
    assert outcomes == {"main": Outcome.SAME, "subagents": Outcome.DIFFERS}
    assert verification.exit_code == 1


@rest
def test_the_marker_of_a_local_server_makes_no_call_where_it_is_no_key(tmp_path: Path) -> None:
    """A file of an earlier version may have it: that no call would be made is a difference."""
    decision = decision_of(tmp_path, OF_EACH_PROTOCOL["anthropic_messages"])
    patch = openclaw_routing(decision).settings
    patch["models"]["providers"]["anth"]["apiKey"] = "ollama-local"
    verification = ask_openclaw(patch, decision.ranked)
    (result,) = verification.results
    assert result.outcome is Outcome.DIFFERS
    assert "No API key found for provider anth" in result.why


@rest
def test_a_model_of_a_vendors_own_is_not_compared(tmp_path: Path) -> None:
    """OpenClaw knows the provider itself, and sends something else to another address."""
    body = {"model": "gpt-5", "stream": True, "store": False, "reasoning": {"effort": "high"}}
    target = Target("openai_responses", "gpt-5", "high")
    gpt = replace(GPT, target=target, sent=SentSettings(path="/v1/responses", body=body))
    decision = decision_of(tmp_path, gpt)
    verification = ask_openclaw(openclaw_routing(decision).settings, decision.ranked)
    (result,) = verification.results
    assert result.outcome is Outcome.NOT_COMPARED
    assert verification.exit_code == 0


@rest
def test_every_place_asks_its_own_model_through_the_gateway(tmp_path: Path) -> None:
    """Main, fallback, subagent, heartbeat, utility, compaction and what is written down before it."""
    models = {
        "main:8b": "high",
        "sub:4b": "medium",
        "beat:1b": "off",
        "util:1b": "off",
        "comp:4b": "medium",
        "flush:1b": "off",
    }
    measured = [
        native_ollama(model, level, text_passes=10 - place)
        for place, (model, level) in enumerate(models.items())
    ]
    decision = decision_of(tmp_path, *measured, for_subagents=True)
    config: dict[str, Any] = {
        "agents": {
            "defaults": {
                "heartbeat": {"model": "ollama/beat:1b"},
                "utilityModel": "ollama/util:1b",
                "compaction": {
                    "model": "ollama/comp:4b",
                    "memoryFlush": {"model": "ollama/flush:1b"},
                },
            }
        }
    }
    whole = merge_patch(config, openclaw_routing(decision, config).settings)
    defaults = whole["agents"]["defaults"]
    defaults["model"] = {"primary": "ollama/main:8b", "fallbacks": ["ollama/sub:4b"]}
    # Without a level of its own a subagent takes that of the main agent.
    defaults["subagents"] = {"model": "ollama/sub:4b", "thinking": "medium"}
    verification = ask_openclaw(whole, decision.ranked, with_gateway=True)
    assert verification.problem is None
    sent = {}
    for result in verification.results:
        sent[result.slot.name] = result.seen.model if result.seen is not None else result.why
    assert sent == {
        "main": "main:8b",
        "fallback 1": "sub:4b",
        "subagents": "sub:4b",
        "heartbeat": "beat:1b",
        "utility": "util:1b",
        "compaction": "comp:4b",
        "memory flush": "flush:1b",
    }
    differing = [
        (result.slot.name, result.comparison)
        for result in verification.results
        if result.outcome is not Outcome.SAME
    ]
    assert not differing
