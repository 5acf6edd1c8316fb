"""The patch for openclaw.json: only what the evidence speaks for, and what is there already stays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clawgauge.errors import ConfigError
from clawgauge.records import Target
from clawgauge.routing import (
    Limits,
    Policy,
    Weights,
    find_conflicts,
    merge_patch,
    openclaw_routing,
    read_openclaw,
    write_openclaw,
)
from unit.routing.runs import CODEX, GPT, LLAMA, OPUS, QWEN, SMOL, TINY, decision_of


def test_primary_fallbacks_and_subagents_come_from_the_evidence(tmp_path: Path) -> None:
    """The best first, the rest behind it; subagents get only models that are Tier 1 and decided."""
    routing = openclaw_routing(decision_of(tmp_path, LLAMA, QWEN, GPT, OPUS))
    defaults = routing.patch["agents"]["defaults"]
    named = [defaults["model"]["primary"], *defaults["model"]["fallbacks"]]
    assert sorted(named) == [
        "anthropic/claude-opus-5-20260101",
        "ollama/llama3.2:3b",
        "ollama/qwen3:8b",
        "openai/gpt-5",
    ]
    subagents = defaults["subagents"]["model"]
    assert "ollama/llama3.2:3b" not in [subagents["primary"], *subagents["fallbacks"]]
    assert defaults["models"]["anthropic/claude-opus-5-20260101"] == {"agentRuntime": {"id": "claude-cli"}}


def test_nobody_qualifies_for_subagents_without_decided_evidence(tmp_path: Path) -> None:
    """Six of six is Tier 1 but not decided: the subagents' model is left alone, and what is missing is said."""
    sure_looking = replace(QWEN, tool_passes=6)
    routing = openclaw_routing(decision_of(tmp_path, sure_looking, n_tool=6))
    assert "subagents" not in routing.patch["agents"]["defaults"]
    assert any("7 more clean passes" in note for note in routing.notes)


def test_tools_are_taken_by_tier(tmp_path: Path) -> None:
    """Tier 3 gets none, also where it is not routed to; Tier 2 none that act; Tier 1 is left alone."""
    patch = openclaw_routing(decision_of(tmp_path, LLAMA, QWEN, TINY)).patch
    by_provider = patch["tools"]["byProvider"]
    assert by_provider["ollama/tiny"]["deny"] == ["*"]
    assert "group:runtime" in by_provider["ollama/llama3.2:3b"]["deny"]
    assert "ollama/qwen3:8b" not in by_provider
    models = {model["id"]: model for model in patch["models"]["providers"]["ollama"]["models"]}
    assert models["tiny"]["compat"] == {"supportsTools": False}
    assert models["llama3.2:3b"]["name"] == "llama3.2:3b (3.2B, Q4_K_M)"


def test_an_embedded_model_is_not_routed_to(tmp_path: Path) -> None:
    """Its server ends with the run: a configuration that names it would be a dead end, and it is said why."""
    routing = openclaw_routing(decision_of(tmp_path, SMOL, policy=Policy(limits=Limits(min_pass_rate=None))))
    assert routing.patch == {}
    assert any("embedded" in note for note in routing.notes)


def test_a_key_is_named_and_never_written(tmp_path: Path) -> None:
    """A provider that needs a key refers to its variable."""
    mine = {"type": "openai_chat", "base_url": "https://gateway.example.com/v1", "api_key_env": "MY_KEY"}
    model = replace(QWEN, target=Target("my gateway/é", "m"), settings=mine)
    provider = openclaw_routing(decision_of(tmp_path, model)).patch["models"]["providers"]["my-gateway"]
    assert provider["apiKey"] == {"source": "env", "provider": "default", "id": "MY_KEY"}


def test_one_model_at_two_thinking_levels_is_routed_once(tmp_path: Path) -> None:
    """A reference names a model: the better placed level is taken and set, the other is said to be left out."""
    slow = replace(CODEX, target=Target("openai_responses", "gpt-5-codex", "xhigh"), e2e_ms=9000)
    routing = openclaw_routing(decision_of(tmp_path, CODEX, slow))
    assert routing.patch["agents"]["defaults"]["model"] == {"primary": "openai/gpt-5-codex", "fallbacks": []}
    assert routing.patch["agents"]["defaults"]["models"]["openai/gpt-5-codex"] == {"params": {"thinking": "high"}}
    assert any("xhigh" in note for note in routing.notes)


def test_every_line_has_its_reason(tmp_path: Path) -> None:
    """Model, tier, k of n, confidence, p95 and run stand behind each setting that is about a model."""
    routing = openclaw_routing(decision_of(tmp_path, LLAMA, QWEN, TINY))
    about_models = [reason for reason in routing.reasons if reason.model]
    assert about_models
    for reason in about_models:
        for word in ("Tier", "/20", "P(tier)=", "p95", "run measured"):
            assert word in reason.why


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    """Other providers, other models of the same provider, and their keys survive; names the user chose too."""
    config = tmp_path / "openclaw.json"
    config.write_text(
        """{ // my own
          models: { providers: { ollama: { baseUrl: 'http://nas:11434/v1', apiKey: 'x',
            models: [ {id: 'old', name: 'Old'}, {id: 'llama3.2:3b', name: 'My Llama', contextWindow: 8192}, ] } } },
          agents: { defaults: { model: 'openai/gpt-4', workspace: '~/w' } }, channels: {telegram: {enabled: true}},
        }"""
    )
    before = read_openclaw(config)
    patch = openclaw_routing(decision_of(tmp_path, LLAMA, TINY)).patch
    after = merge_patch(before, patch)
    assert after["channels"] == before["channels"]
    assert after["agents"]["defaults"]["workspace"] == "~/w"
    assert after["agents"]["defaults"]["model"]["primary"] == "ollama/llama3.2:3b"
    models = {model["id"]: model for model in after["models"]["providers"]["ollama"]["models"]}
    assert list(models) == ["old", "llama3.2:3b", "tiny"]
    assert models["llama3.2:3b"]["name"] == "My Llama"
    assert models["llama3.2:3b"]["contextWindow"] == 8192


def test_writing_keeps_every_backup(tmp_path: Path) -> None:
    """What was there is kept under a free name, permissions and all, and a second write keeps a second copy."""
    config = tmp_path / "openclaw.json"
    config.write_text('{"a": 1}')
    config.chmod(0o600)
    first = write_openclaw(config, {"a": 2})
    second = write_openclaw(config, {"a": 3})
    assert first is not None
    assert second is not None
    assert (json.loads(first.read_text()), json.loads(second.read_text())) == ({"a": 1}, {"a": 2})
    assert json.loads(config.read_text()) == {"a": 3}
    assert {path.stat().st_mode & 0o777 for path in (config, first, second)} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "openclaw.json",
        "openclaw.json.bak",
        "openclaw.json.bak.1",
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1, "a": 2,}', "\x00"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing is written over what was not understood."""
    config = tmp_path / "openclaw.json"
    config.write_text(text)
    with pytest.raises(ConfigError, match=r"openclaw\.json"):
        read_openclaw(config)


def test_a_tool_the_user_denied_stays_denied(tmp_path: Path) -> None:
    """Denials add up: what the file takes from a model, no tier gives back, and it is said where that matters."""
    decision = decision_of(tmp_path, LLAMA, QWEN)
    before = {
        "tools": {
            "byProvider": {
                "ollama/llama3.2:3b": {"deny": ["*"]},
                "ollama/qwen3:8b": {"deny": ["exec"]},
            }
        }
    }
    patch = openclaw_routing(decision).patch
    by_provider = merge_patch(before, patch)["tools"]["byProvider"]
    assert by_provider["ollama/llama3.2:3b"]["deny"] == ["*"]
    assert by_provider["ollama/qwen3:8b"]["deny"] == ["exec"]
    assert any("denies it tools (exec)" in words for words in find_conflicts(before, patch))
    browser = {"tools": {"byProvider": {"ollama/llama3.2:3b": {"deny": ["browser"]}}}}
    denied = merge_patch(browser, patch)["tools"]["byProvider"]["ollama/llama3.2:3b"]["deny"]
    assert denied[0] == "browser"
    assert "group:runtime" in denied


def test_a_provider_the_user_set_up_keeps_its_key_and_address(tmp_path: Path) -> None:
    """Only models are added to it; that it stands elsewhere than measured is said."""
    mine = {"baseUrl": "http://gpu:11434/v1", "apiKey": "my-real-key", "api": "ollama", "models": []}
    before = {"models": {"providers": {"ollama": mine}}}
    patch = openclaw_routing(decision_of(tmp_path, QWEN)).patch
    after = merge_patch(before, patch)["models"]["providers"]["ollama"]
    assert {key: after[key] for key in ("baseUrl", "apiKey", "api")} == {
        "baseUrl": "http://gpu:11434/v1",
        "apiKey": "my-real-key",
        "api": "ollama",
    }
    assert [model["id"] for model in after["models"]] == ["qwen3:8b"]
    assert any("http://gpu:11434/v1" in words for words in find_conflicts(before, patch))


def test_whoever_is_named_is_declared(tmp_path: Path) -> None:
    """A subagent's model that is not the primary is declared too, or OpenClaw could not reach it."""
    policy = Policy(weights=Weights(pass_rate=0, tool_use=0, cost=0, ttft=0, latency=1), max_fallbacks=0)
    patch = openclaw_routing(decision_of(tmp_path, LLAMA, QWEN, policy=policy)).patch
    assert patch["agents"]["defaults"]["model"]["primary"] == "ollama/llama3.2:3b"
    assert patch["agents"]["defaults"]["subagents"]["model"]["primary"] == "ollama/qwen3:8b"
    assert "qwen3:8b" in [model["id"] for model in patch["models"]["providers"]["ollama"]["models"]]


def test_a_decided_model_that_a_limit_removed_is_named(tmp_path: Path) -> None:
    """It is not evidence that is missing then, and the note does not say so."""
    policy = Policy(limits=Limits(max_p95_ms=100))
    routing = openclaw_routing(decision_of(tmp_path, QWEN, policy=policy))
    (note,) = [note for note in routing.notes if "subagents" in note]
    assert "Tier 1 and decided, but out: ollama_openai:qwen3:8b (p95 2900 ms" in note
