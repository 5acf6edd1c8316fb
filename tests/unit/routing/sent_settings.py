"""Models whose runs say what they were sent, one for each protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from clawgauge.records import ModelInfo, SentSettings, Target
from clawgauge.routing.decision import Decision
from support.measured_models import Measured

NATIVE = {"type": "ollama", "base_url": "http://localhost:11434"}
CHAT = {"type": "openai_chat", "base_url": "http://localhost:8080/v1", "local": True}
RESPONSES = {"type": "openai_responses", "base_url": "http://localhost:8081/v1", "local": True}
MESSAGES = {"type": "anthropic_messages", "base_url": "http://localhost:8082", "local": True}
OLLAMA_V1 = {"type": "ollama_openai", "base_url": "http://localhost:11434/v1"}


def sent(path: str, **body: Any) -> SentSettings:
    return SentSettings(path=path, body={"stream": True, **body})


def native_ollama(model: str = "qwen3:8b", level: str | None = "high", **facts: Any) -> Measured:
    """A model of Ollama's own API, with a window, a temperature and a time in memory."""
    think: str | bool | None = False if level == "off" else level
    body: dict[str, Any] = {
        "model": model,
        "options": {"num_ctx": 16_384, "num_predict": 1_024, "temperature": 0.0},
        "keep_alive": "30m",
    }
    if think is not None:
        body["think"] = think
    return Measured(
        Target("ollama", model, level),
        NATIVE,
        info=ModelInfo(name=model, context_tokens=40_960),
        sent=sent("/api/chat", **body),
        **facts,
    )


OF_EACH_PROTOCOL: dict[str, Measured] = {
    "ollama": native_ollama(),
    "ollama_openai": Measured(
        Target("ollama_openai", "qwen3:4b", "off"),
        OLLAMA_V1,
        sent=sent(
            "/v1/chat/completions",
            model="qwen3:4b",
            max_tokens=1_024,
            temperature=0.0,
            reasoning_effort="none",
        ),
    ),
    "openai_chat": Measured(
        Target("llamacpp", "m", "off"),
        CHAT,
        sent=sent(
            "/v1/chat/completions",
            model="m",
            max_tokens=1_024,
            temperature=0.0,
            chat_template_kwargs={"enable_thinking": False},
        ),
    ),
    "openai_responses": Measured(
        Target("resp", "gpt-5.4", "off"),
        RESPONSES,
        sent=sent(
            "/v1/responses",
            model="gpt-5.4",
            store=False,
            max_output_tokens=1_024,
            reasoning={"effort": "none"},
        ),
    ),
    "anthropic_messages": Measured(
        Target("anth", "qwen-x", "high"),
        MESSAGES,
        sent=sent(
            "/v1/messages",
            model="qwen-x",
            max_tokens=17_408,
            thinking={"type": "enabled", "budget_tokens": 16_384},
        ),
    ),
}


def with_triage(decision: Decision, label: str) -> Decision:
    """The decision in which this model alone is fit for heartbeat and triage."""
    jobs = []
    for job in decision.jobs:
        if job.job == "heartbeat and triage":
            ranking = []
            for fit in job.ranking:
                ranking.append(structs.replace(fit, fit="yes" if fit.target == label else "no"))
            job = structs.replace(job, ranking=ranking)
        jobs.append(job)
    return replace(decision, jobs=jobs)
