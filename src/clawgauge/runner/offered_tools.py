"""Whether the tools a prompt offers can have reached the model. Pure: definitions and a token count in, a warning out.

Some servers drop tools in silence, where the model's chat template has no place for them. The model then looks as if it
could not call tools. The count of prompt tokens gives it away: it is smaller than the definitions alone would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Words alone, without any of the punctuation a server may write them with, and far more of them to a token than any
# tokenizer gets: what is below this was not sent.
_CHARS_PER_TOKEN_AT_MOST = 8


def dropped_warning(tools: Sequence[Mapping[str, Any]], input_tokens: int | None) -> str | None:
    """The warning, where the server counted too few tokens to have shown the model these tools."""
    if not tools or input_tokens is None:
        return None
    chars = sum(len(word) for tool in tools for word in _words(tool))
    if input_tokens * _CHARS_PER_TOKEN_AT_MOST >= chars:
        return None
    return (
        f"tools_dropped: the server counted {input_tokens} tokens for a prompt whose tools alone take {chars} "
        "characters; the model cannot have seen them all"
    )


def _words(value: Any, key: str = "") -> Iterator[str]:
    """What a model has to be shown of a definition: names, descriptions, argument names and allowed values."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if key == "properties":
                yield str(name)
            yield from _words(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner, key)
    elif isinstance(value, str) and key in ("name", "description", "enum"):
        yield value
