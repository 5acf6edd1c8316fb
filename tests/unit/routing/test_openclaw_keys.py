"""What was measured stands in the keys that make OpenClaw send it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawgauge.prices import load_prices
from clawgauge.records import Event, SentSettings, Target
from clawgauge.routing.decision import decide
from clawgauge.routing.evidence import gather_evidence
from clawgauge.routing.openclaw import openclaw_routing
from clawgauge.routing.openclaw_file import find_kept, merge_patch
from clawgauge.routing.policy import Policy
from support.measured_models import MeasuredRun
from unit.routing.runs import GPT, QWEN, decision_of
from unit.routing.sent_settings import OF_EACH_PROTOCOL, native_ollama, sent, with_triage

EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def test_a_model_of_ollamas_own_api_is_routed_whole(tmp_path: Path) -> None:
    """Level, window, temperature, time in memory and time limit: nothing that was measured is left out."""
    patch = openclaw_routing(decision_of(tmp_path, native_ollama(e2e_ms=41_000))).settings
    assert patch["agents"]["defaults"]["models"] == {
        "ollama/qwen3:8b": {"params": {"thinking": "high", "temperature": 0}}
    }
    provider = patch["models"]["providers"]["ollama"]
    (model,) = provider.pop("models")
    assert provider == {
        "baseUrl": "http://localhost:11434",
        "api": "ollama",
        "apiKey": "ollama-local",
        "timeoutSeconds": 82,
    }
    assert model == {
        "id": "qwen3:8b",
        "name": "qwen3:8b",
        "reasoning": True,
        "contextWindow": 40_960,
        "contextTokens": 16_384,
        "params": {"num_ctx": 16_384, "keep_alive": "30m"},
        "compat": {"supportsTools": True},
    }


@pytest.mark.parametrize(
    ("kind", "provider_keys", "entry", "params"),
    [
        ("ollama_openai", {"apiKey": "ollama-local", "injectNumCtxForOpenAICompat": False},
         {"reasoning": True, "compat": {"supportsReasoningEffort": True, "supportedReasoningEfforts": EFFORTS}},
         {"thinking": "off", "temperature": 0}),
        ("openai_chat", {"apiKey": "ollama-local"}, {"reasoning": True},
         {"thinking": "off", "temperature": 0, "chat_template_kwargs": {"enable_thinking": False}}),
        ("openai_responses", {"apiKey": "not-needed"},
         {"reasoning": True, "compat": {"supportedReasoningEfforts": EFFORTS}}, {"thinking": "off"}),
        ("anthropic_messages", {"apiKey": "not-needed"}, {"reasoning": True, "maxTokens": 17_408},
         {"thinking": "high"}),
    ],
)  # fmt: skip
def test_every_protocol_has_its_keys(
    tmp_path: Path,
    kind: str,
    provider_keys: dict[str, Any],
    entry: dict[str, Any],
    params: dict[str, Any],
) -> None:
    patch = openclaw_routing(decision_of(tmp_path, OF_EACH_PROTOCOL[kind])).settings
    ((provider_id, provider),) = patch["models"]["providers"].items()
    (model,) = provider["models"]
    known = {"baseUrl", "api", "models", "timeoutSeconds"}
    assert {key: provider[key] for key in provider if key not in known} == provider_keys
    del model["compat"]["supportsTools"]
    if not model["compat"]:
        del model["compat"]
    ref = f"{provider_id}/{model.pop('id')}"
    del model["name"]
    assert model == entry
    assert patch["agents"]["defaults"]["models"][ref]["params"] == params


def test_what_a_run_sent_last_is_what_counts(tmp_path: Path) -> None:
    """An event of the run has the settings that a provider went on with."""
    path = MeasuredRun([native_ollama()]).write(tmp_path)
    body = {"model": "qwen3:8b", "stream": True, "think": "high", "options": {"num_ctx": 8_192}}
    event = Event(
        event="request_settings",
        at_ms=1,
        target="ollama:qwen3:8b@high",
        detail={"path": "/api/chat", "body": body},
    )
    with (path / "events.jsonl").open("a") as file:
        detail = {"event": event.event, "at_ms": 1, "target": event.target, "detail": event.detail}
        file.write(json.dumps({"record_type": "event", **detail}) + "\n")
        file.write(json.dumps({**detail, "record_type": "event", "detail": {"odd": 1}}) + "\n")
    (evidence,), _ = gather_evidence([path], load_prices())
    assert evidence.sent == SentSettings(path="/api/chat", body=body)


def test_extra_settings_of_a_chat_server_go_along(tmp_path: Path) -> None:
    """What the user had sent beside the rest; the switch of our own for a cold prompt does not."""
    chat = OF_EACH_PROTOCOL["openai_chat"]
    body = {
        "model": "m",
        "top_k": 20,
        "cache_prompt": False,
        "chat_template_kwargs": {"enable_thinking": True},
    }
    measured = replace(chat, sent=sent("/v1/chat/completions", **body))
    params = openclaw_routing(decision_of(tmp_path, measured)).settings
    assert params["agents"]["defaults"]["models"]["llamacpp/m"]["params"] == {
        "thinking": "off",
        "chat_template_kwargs": {"enable_thinking": True},
        "extra_body": {"top_k": 20},
    }


def test_openais_own_address_keeps_the_api_that_was_measured(tmp_path: Path) -> None:
    """OpenClaw might choose its Codex runtime there."""
    measured = replace(GPT, sent=sent("/v1/responses", model="gpt-5"))
    defaults = openclaw_routing(decision_of(tmp_path, measured)).settings["agents"]["defaults"]
    assert defaults["models"]["openai/gpt-5"]["agentRuntime"] == {"id": "openclaw"}


def test_a_price_that_is_known_is_written_and_no_other(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('[[price]]\nprovider = "gw"\nmodel = "m"\ninput = 0.6\noutput = 0.8\n')
    settings = {"base_url": "https://gw.example.com/v1", "type": "openai_chat", "api_key_env": "K"}
    chat = OF_EACH_PROTOCOL["openai_chat"]
    for model, cost in (("m", {"input": 0.6, "output": 0.8}), ("unknown", None)):
        target = Target("gw", model, chat.target.thinking_level)
        measured = replace(chat, target=target, settings=settings)
        path = MeasuredRun([measured], run_id=model).write(tmp_path)
        decision = decide(gather_evidence([path], load_prices(prices))[0], Policy())
        (entry,) = openclaw_routing(decision).settings["models"]["providers"]["gw"]["models"]
        assert entry.get("cost") == cost


def test_small_jobs_go_to_who_is_fit_for_them(tmp_path: Path) -> None:
    """Heartbeat, titles and what is written down before a compaction; the last one only to who may write."""
    small = native_ollama("qwen3:1b", "off", text_passes=8)
    decision = decision_of(tmp_path, native_ollama(), small, for_subagents=True)
    defaults = openclaw_routing(with_triage(decision, "ollama:qwen3:1b@off")).settings["agents"][
        "defaults"
    ]
    assert defaults["heartbeat"] == {"model": "ollama/qwen3:1b"}
    assert defaults["utilityModel"] == "ollama/qwen3:1b"
    assert defaults["compaction"] == {"memoryFlush": {"model": "ollama/qwen3:1b"}}
    denied = decision_of(
        tmp_path / "denied", native_ollama(), replace(small, tool_passes=2), for_subagents=True
    )
    routing = openclaw_routing(with_triage(denied, "ollama:qwen3:1b@off"))
    assert "compaction" not in routing.settings["agents"]["defaults"]
    assert routing.settings["agents"]["defaults"]["heartbeat"]["model"] == "ollama/qwen3:1b"
    assert any("no model of their own for memory flush" in note for note in routing.notes)


def test_subagents_think_as_they_were_measured(tmp_path: Path) -> None:
    """One level goes before those of all models: it is set only where it is that of the whole chain."""
    one = decision_of(tmp_path / "one", native_ollama(), for_subagents=True)
    assert openclaw_routing(one).settings["agents"]["defaults"]["subagents"]["thinking"] == "high"
    other = native_ollama("qwen3:4b", "low", text_passes=9)
    two = decision_of(tmp_path / "two", native_ollama(), other, for_subagents=True)
    assert "thinking" not in openclaw_routing(two).settings["agents"]["defaults"]["subagents"]


def test_a_measured_model_in_a_place_of_the_users_choice_gets_its_keys(tmp_path: Path) -> None:
    """It is not moved, and runs as it was measured."""
    small = native_ollama("qwen3:1b", "off", text_passes=1)
    config = {"agents": {"defaults": {"heartbeat": {"model": "ollama/qwen3:1b"}}}}
    decision = decision_of(tmp_path, native_ollama(), small, policy=Policy(max_fallbacks=0))
    patch = openclaw_routing(decision, config).settings
    assert "heartbeat" not in patch["agents"]["defaults"]
    params = patch["agents"]["defaults"]["models"]["ollama/qwen3:1b"]["params"]
    assert params["thinking"] == "off"
    ids = [model["id"] for model in patch["models"]["providers"]["ollama"]["models"]]
    assert ids == ["qwen3:8b", "qwen3:1b"]


def test_what_stays_although_other_was_measured_is_said(tmp_path: Path) -> None:
    """Without the value in the file, which may be anything."""
    patch = openclaw_routing(decision_of(tmp_path, native_ollama())).settings
    config = {
        "agents": {"defaults": {"models": {"ollama/qwen3:8b": {"params": {"temperature": 0.77}}}}},
        "models": {
            "providers": {
                "ollama": {
                    "timeoutSeconds": 1_800,
                    "models": [{"id": "qwen3:8b", "name": "mine", "contextTokens": 65_536}],
                }
            }
        },
    }
    merged = merge_patch(config, patch)
    assert merged["models"]["providers"]["ollama"]["timeoutSeconds"] == 1_800
    kept = find_kept(config, patch, merged)
    stays = "by what was measured: the file says otherwise, and stays"
    assert kept == [
        f"agents.defaults.models.ollama/qwen3:8b.params.temperature is 0 {stays}",
        f"models.providers.ollama.models.qwen3:8b.contextTokens is 16384 {stays}",
    ]


def test_a_run_that_does_not_say_what_it_sent_still_gives_the_level(tmp_path: Path) -> None:
    """Folders of earlier versions: `reasoning` is what the level needs."""
    measured = replace(QWEN, target=Target("ollama_openai", "qwen3:8b", "high"))
    patch = openclaw_routing(decision_of(tmp_path, measured)).settings
    (entry,) = patch["models"]["providers"]["ollama"]["models"]
    assert entry["reasoning"] is True
    assert patch["agents"]["defaults"]["models"]["ollama/qwen3:8b"]["params"] == {
        "thinking": "high"
    }
