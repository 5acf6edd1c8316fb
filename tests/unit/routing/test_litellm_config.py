"""What a LiteLLM proxy is told: how to reach each model, how long to wait, whom to ask next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clawgauge.records import Target
from clawgauge.routing.litellm import litellm_config
from clawgauge.routing.policy import Limits, Policy
from support.measured_models import Measured
from unit.routing.runs import CODEX, GPT, LLAMA, OPUS, QWEN, SMOL, decision_of

CHAT = {"type": "openai_chat", "base_url": "https://gateway.example.com/v1"}


@pytest.mark.parametrize(
    ("e2e_ms", "timeout_s", "words"),
    [
        (
            400,
            5,
            "timeout 5 s (the least there is; p99 of the answers 400 ms, indicative only, n=30)",
        ),
        (
            2500,
            5,
            "timeout 5 s (the least there is; p99 of the answers 2500 ms, indicative only, n=30)",
        ),
        (2900, 6, "timeout 6 s (p99 × 2; p99 of the answers 2900 ms, indicative only, n=30)"),
        (40_000, 80, "timeout 80 s (p99 × 2; p99 of the answers 40000 ms, indicative only, n=30)"),
    ],
)
def test_a_timeout_is_twice_the_measured_tail_in_whole_seconds(
    tmp_path: Path, e2e_ms: int, timeout_s: int, words: str
) -> None:
    """Never under five seconds, and the reason says what it rests on."""
    routing = litellm_config(decision_of(tmp_path, replace(QWEN, e2e_ms=e2e_ms)))
    assert routing.settings["model_list"][0]["litellm_params"]["timeout"] == timeout_s
    assert routing.reasons[0].why.startswith(words)


def test_a_tail_of_many_calls_is_not_called_indicative(tmp_path: Path) -> None:
    """From 368 calls on a p99 has both ends of its interval."""
    enough = litellm_config(
        decision_of(tmp_path / "enough", replace(QWEN, tool_passes=358), n_tool=358)
    )
    short = litellm_config(
        decision_of(tmp_path / "short", replace(QWEN, tool_passes=357), n_tool=357)
    )
    assert ("indicative" in enough.reasons[0].why, "indicative" in short.reasons[0].why) == (
        False,
        True,
    )


def test_new_protocols_have_their_own_words(tmp_path: Path) -> None:
    """Anthropic's Messages and Ollama's own API, each at its address without `/v1`."""
    claude = {
        "type": "anthropic_messages",
        "base_url": "https://api.anthropic.com",
        "api_key_env": "ANTHROPIC_API_KEY",
    }
    box = {"type": "ollama", "base_url": "http://localhost:11434"}
    measured = (Measured(Target("c", "opus"), claude), Measured(Target("box", "qwen3:8b"), box))
    entries = litellm_config(decision_of(tmp_path, *measured)).settings["model_list"]
    found = {entry["litellm_params"]["model"]: entry["litellm_params"] for entry in entries}
    assert set(found) == {"anthropic/opus", "ollama_chat/qwen3:8b"}
    assert found["anthropic/opus"]["api_key"] == "os.environ/ANTHROPIC_API_KEY"


def test_gemini_is_reached_at_googles_address_with_its_level(tmp_path: Path) -> None:
    """LiteLLM puts the path of a model after the address with its version, and says `none` for no thinking."""
    settings = {
        "type": "gemini",
        "base_url": "https://generativelanguage.googleapis.com/v1beta",
        "api_key_env": "GOOGLE_API_KEY",
    }
    measured = Measured(Target("gemini", "gemini-2.5-flash", "off"), settings)
    (entry,) = litellm_config(decision_of(tmp_path, measured)).settings["model_list"]
    params = entry["litellm_params"]
    assert params["model"] == "gemini/gemini-2.5-flash"
    assert params["api_base"] == "https://generativelanguage.googleapis.com/v1beta"
    assert params["api_key"] == "os.environ/GOOGLE_API_KEY"
    assert params["reasoning_effort"] == "none"


def test_every_model_is_reached_as_it_was_measured(tmp_path: Path) -> None:
    """Protocol, address, thinking level; a key by the name of its variable; and who cannot be reached is said."""
    mine = Measured(Target("gateway", "m"), CHAT)
    routing = litellm_config(decision_of(tmp_path, QWEN, CODEX, mine, OPUS))
    params = {
        entry["model_name"]: entry["litellm_params"] for entry in routing.settings["model_list"]
    }
    assert {name: {k: v for k, v in one.items() if k != "timeout"} for name, one in params.items()} == {
        "ollama_openai:qwen3:8b": {
            "model": "openai/qwen3:8b", "api_base": "http://localhost:11434/v1", "api_key": "none",
        },
        "gateway:m": {"model": "openai/m", "api_base": "https://gateway.example.com/v1", "api_key": "none"},
        "openai_responses:gpt-5-codex@high": {
            "model": "openai/responses/gpt-5-codex", "api_base": "https://api.openai.com/v1",
            "api_key": "os.environ/OPENAI_API_KEY", "reasoning_effort": "high",
        },
    }  # fmt: skip
    assert routing.notes[1:] == [
        "claude_code_cli:opus is not routed: LiteLLM cannot reach a provider of this kind"
    ]


def test_each_model_falls_back_to_those_placed_after_it(tmp_path: Path) -> None:
    """As many as the policy allows, and the last to none; without fallbacks there is nothing to set."""
    models = (QWEN, LLAMA, GPT)
    routing = litellm_config(decision_of(tmp_path / "one", *models, policy=Policy(max_fallbacks=1)))
    first, second, third = (entry["model_name"] for entry in routing.settings["model_list"])
    assert routing.settings["router_settings"] == {
        "fallbacks": [{first: [second]}, {second: [third]}]
    }
    routing = litellm_config(decision_of(tmp_path / "many", *models))
    assert routing.settings["router_settings"] == {
        "fallbacks": [{first: [second, third]}, {second: [third]}]
    }
    assert routing.reasons[-1].setting == f"{first} > {second} > {third}"
    assert "router_settings" not in litellm_config(decision_of(tmp_path / "alone", QWEN)).settings


def test_where_nobody_can_be_routed_nothing_is_configured(tmp_path: Path) -> None:
    """No empty list that would stop a proxy from starting, and the note says why."""
    routing = litellm_config(
        decision_of(tmp_path, SMOL, policy=Policy(limits=Limits(min_pass_rate=None)))
    )
    assert routing.settings == {}
    assert routing.notes[-1].endswith("nothing is configured")


def test_without_an_answer_there_is_no_timeout(tmp_path: Path) -> None:
    """A model that is kept though it never answered has no tail to go by."""
    silent = replace(QWEN, failed_calls=30)
    nothing_wanted = Policy(limits=Limits(min_pass_rate=None, min_answered_rate=None))
    routing = litellm_config(decision_of(tmp_path, silent, policy=nothing_wanted))
    assert "timeout" not in routing.settings["model_list"][0]["litellm_params"]
    assert routing.reasons[0].why.startswith(
        "no successful call, so no timeout; ollama_openai:qwen3:8b: "
    )
