"""A request of OpenClaw's is held against the measured one by what it does, in every protocol."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.reports.verify import word_difference
from clawgauge.routing.request_facts import read_request
from clawgauge.routing.verification.comparison import (
    Comparison,
    Setting,
    Size,
    compare_requests,
    measure_size,
)

OLLAMA, CHAT, RESPONSES, MESSAGES = (
    "/api/chat",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
)


def compare(
    path: str,
    measured: dict[str, Any],
    seen: dict[str, Any],
    *,
    seen_path: str | None = None,
    has_reasoned: bool = False,
    **rules: bool,
) -> Comparison:
    common = {"model": "m", "stream": True}
    rules = {"compares_limit": False, **rules}
    return compare_requests(
        read_request(path, {**common, **measured}),
        read_request(seen_path or path, {**common, **seen}),
        has_reasoned=has_reasoned,
        **rules,
    )


@pytest.mark.parametrize(
    ("path", "measured", "seen"),
    [
        (OLLAMA, {"think": "high"}, {"think": "high"}),
        (OLLAMA, {"options": {"temperature": 0.0}}, {"options": {"temperature": 0, "top_p": 1}}),
        (OLLAMA, {"keep_alive": "30m"}, {"keep_alive": "30m", "truncate": False, "shift": False}),
        (OLLAMA, {"options": {"num_predict": 1_024}}, {"options": {}}),
        (CHAT, {"max_tokens": 1_024}, {"max_completion_tokens": 8_192}),
        (CHAT, {}, {"options": {"num_ctx": 200_000}}),
        (CHAT, {"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}),
        (RESPONSES, {"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "low", "summary": "auto"}}),
        (MESSAGES, {}, {"thinking": {"type": "disabled"}}),
        (MESSAGES, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
         {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}}),
        (OLLAMA, {}, {"think": False}),
    ],
)  # fmt: skip
def test_what_does_the_same_is_the_same(
    path: str, measured: dict[str, Any], seen: dict[str, Any]
) -> None:
    assert compare(path, measured, seen).differences == []


@pytest.mark.parametrize(
    ("path", "measured", "seen", "setting"),
    [
        (OLLAMA, {"think": "high"}, {}, Setting.THINKING),
        (OLLAMA, {"think": "medium"}, {"think": "low"}, Setting.THINKING),
        (CHAT, {"reasoning_effort": "none"}, {}, Setting.THINKING),
        (RESPONSES, {"reasoning": {"effort": "high"}}, {}, Setting.THINKING),
        (MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 16_384}},
         {"thinking": {"type": "enabled", "budget_tokens": 7_168}}, Setting.THINKING),
        (OLLAMA, {"options": {"num_ctx": 16_384}}, {"options": {}}, Setting.WINDOW),
        (OLLAMA, {}, {"options": {"num_ctx": 16_384}}, Setting.WINDOW),
        (CHAT, {"temperature": 0.0}, {}, Setting.TEMPERATURE),
        (CHAT, {"temperature": 0.0}, {"temperature": 0.7}, Setting.TEMPERATURE),
        (OLLAMA, {"keep_alive": "30m"}, {}, Setting.KEEP_ALIVE),
        (CHAT, {}, {"stream": False}, Setting.STREAM),
        (CHAT, {}, {"model": "other"}, Setting.MODEL),
    ],
)  # fmt: skip
def test_what_is_lost_or_another_differs(
    path: str, measured: dict[str, Any], seen: dict[str, Any], setting: Setting
) -> None:
    (difference,) = compare(path, measured, seen).differences
    assert difference.setting is setting


def test_a_model_that_thinks_by_itself_is_not_told_not_to() -> None:
    """Nothing was sent, and it thought: to be told not to is a difference then."""
    (difference,) = compare(OLLAMA, {}, {"think": False}, has_reasoned=True).differences
    assert (difference.measured, difference.would_send) == ("nothing", "think false")
    text = "nothing was measured, think false would be sent (measure it with a level, or @off)"
    assert word_difference(difference) == text


def test_another_api_is_the_only_thing_said() -> None:
    (difference,) = compare(CHAT, {"temperature": 0}, {}, seen_path=OLLAMA).differences
    assert difference.setting is Setting.API
    assert difference.would_send == "Ollama's own API"


def test_a_limit_counts_where_it_was_measured_and_not_where_it_is_openclaws_own() -> None:
    """A budget lies inside it; the recap of a turn has one of its own, and a temperature too."""
    measured = {"max_tokens": 17_408}
    seen = {"max_tokens": 8_192, "temperature": 0.2}
    limits = compare(MESSAGES, measured, seen, compares_limit=True).differences
    assert [one.setting for one in limits] == [Setting.OUTPUT_LIMIT, Setting.TEMPERATURE]
    own = compare(MESSAGES, measured, seen, compares_limit=True, has_own_sampling=True)
    assert own.differences == []
    assert own.remarks == ["at most 8,192 tokens, its own limit", "temperature 0.2, its own"]


def test_sizes_are_told_of_what_is_not_compared() -> None:
    """System text in any of its places, tools, and messages."""
    chat = {
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "abc"}]},
            {"role": "user", "content": "d"},
        ],
        "tools": [{}, {}],
    }
    assert measure_size(chat) == Size(n_system_chars=3, n_tools=2, n_messages=2)
    assert measure_size({"instructions": "ab", "input": [{}]}).n_system_chars == 2
    assert measure_size({"system": [{"text": "abcd"}], "messages": []}).n_system_chars == 4
    assert measure_size({"messages": "odd", "tools": 7}).n_tools == 0
