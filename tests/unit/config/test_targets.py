"""Target strings, patterns and exclusions."""

from __future__ import annotations

import pytest

from clawgauge.config.providers import apply_patterns, parse_target
from clawgauge.errors import TargetError
from clawgauge.plan import check_targets
from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.records import Target
from support.rows import every_row

KNOWN = ["claude_code_cli", "embedded", "ollama_openai", "openai_responses", "vllm"]


@every_row(
    ("text", "target"),
    [
        ("ollama_openai:llama3.2:3b", Target("ollama_openai", "llama3.2:3b")),
        ("openai_responses:gpt-5-codex@high", Target("openai_responses", "gpt-5-codex", "high")),
        ("embedded:models/a b.gguf", Target("embedded", "models/a b.gguf")),
        ("vllm:org/model:tag@low", Target("vllm", "org/model:tag", "low")),
    ],
)
def test_a_target_is_read(text: str, target: Target) -> None:
    """The provider ends at the first colon; the model goes on to an optional thinking level."""
    pattern = parse_target(text, KNOWN)
    assert (pattern.target, pattern.excludes, pattern.is_wild) == (target, False, False)


@every_row(
    ("text", "names"),
    [
        ("llama3.2", ["PROVIDER:MODEL"]),
        (":model", ["PROVIDER:MODEL"]),
        ("ollama_openai:", ["PROVIDER:MODEL"]),
        ("", ["PROVIDER:MODEL"]),
        ("olama_openai:llama", ["olama_openai", "did you mean 'ollama_openai'", "embedded"]),
        ("openai_responses:gpt@huge", ["huge", "off, low, medium, high, xhigh"]),
        ("openai_responses:gpt@", ["thinking level"]),
        ("openai_responses:@high", ["thinking level"]),
    ],
)
def test_a_bad_target_gets_a_sentence(text: str, names: list[str]) -> None:
    """What is wrong is named, with what would be right."""
    with pytest.raises(TargetError) as caught:
        parse_target(text, KNOWN)
    for name in names:
        assert name in str(caught.value)


def test_patterns_expand_exclude_and_keep_order() -> None:
    """`*` takes what the provider lists, `!` takes out, a target named twice is asked once."""
    words = [
        "ollama_openai:*",
        "vllm:x@low",
        "!ollama_openai:llama3*",
        "ollama_openai:qwen3:8b",
        "!vllm:y",
    ]
    listed = {"ollama_openai": ["llama3.2:3b", "qwen3:8b", "mistral:7b"]}
    targets = apply_patterns([parse_target(word, KNOWN) for word in words], listed)
    assert targets == [
        Target("ollama_openai", "qwen3:8b"),
        Target("ollama_openai", "mistral:7b"),
        Target("vllm", "x", "low"),
    ]


def test_an_exclusion_without_level_takes_out_every_level() -> None:
    """`!P:M` removes M at any thinking level; `!P:M@high` only that one."""
    words = ["vllm:m@low", "vllm:m@high"]
    both = [parse_target(word, KNOWN) for word in words]
    assert apply_patterns([*both, parse_target("!vllm:m", KNOWN)], {}) == []
    assert apply_patterns([*both, parse_target("!vllm:m@high", KNOWN)], {}) == [
        Target("vllm", "m", "low")
    ]


def test_a_level_that_a_provider_cannot_send_is_no_target() -> None:
    """Who cannot ask a model not to think says so before anything is asked, and so does who knows the model."""
    settings = {
        name: ProviderSettings(name, name)
        for name in ("openai_responses", "anthropic_messages", "embedded", "gemini")
    }
    providers = ProviderSet(settings)
    refused = {
        Target(
            "openai_responses", "gpt-5", "off"
        ): "openai_responses cannot ask a model not to think",
        Target("anthropic_messages", "claude", "off"): "leave out @off",
        Target("gemini", "gemini-2.5-pro", "off"): "gemini-2.5-pro cannot be asked not to think",
        Target("gemini", "gemini-2.5-flash", "xhigh"): "takes no thinking level xhigh",
    }
    for target, sentence in refused.items():
        with pytest.raises(TargetError) as caught:
            check_targets([target], providers, {})
        assert target.label in str(caught.value)
        assert sentence in str(caught.value)
    sendable = [
        Target("openai_responses", "gpt-5", "xhigh"),
        Target("gemini", "gemini-2.5-flash", "off"),
        # It ignores every level, and says so.
        Target("embedded", "smollm2-135m", "off"),
    ]
    check_targets(sendable, providers, {})
