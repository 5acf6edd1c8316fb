"""Whether two prompts of one name are the same prompt.

Owns: a short hash of what a prompt asks, and one of how its answer is judged. Refuses: names, categories and suite
titles, which change neither an answer nor a verdict.
"""

from __future__ import annotations

import hashlib

import msgspec

from clawgauge.records import Prompt

_HASH_CHARS = 12


def question_fingerprint(prompt: Prompt) -> str:
    """Everything that is sent to the model. The order of keys in `tools` counts: it is sent as written."""
    asked = (
        prompt.prompt,
        prompt.system,
        prompt.temperature,
        prompt.max_tokens,
        prompt.tools,
        prompt.tool_choice,
        prompt.world,
        prompt.max_turns,
    )
    return _digest(msgspec.json.encode(asked))


def verdict_fingerprint(prompt: Prompt) -> str:
    """Everything that decides the verdict on an answer. The order of a validator's keys does not count."""
    return _digest(msgspec.json.encode((prompt.validator, sorted(prompt.expected_tools)), order="sorted"))


def prompt_fingerprint(prompt: Prompt) -> str:
    """Question and verdict in one: the same prompt in every respect that matters."""
    return _digest(f"{question_fingerprint(prompt)} {verdict_fingerprint(prompt)}".encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_HASH_CHARS]
