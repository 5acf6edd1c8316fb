"""The warning for tools that a server dropped in silence."""

from __future__ import annotations

from typing import Any

from clawgauge.runner.record import dropped_warning
from support.rows import every_row


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


MANY = [tool(f"tool_{n}", "Does one of the many things a tool may do. " * 5, path={"type": "string"}) for n in range(8)]


@every_row(
    ("tools", "input_tokens", "warned"),
    [
        (MANY, 40, True),
        (MANY, 900, False),
        (MANY, None, False),
        ([], 3, False),
        ([tool("add", "Add two numbers", a={"type": "number"})], 12, False),
        ([tool("pick", "", colour={"enum": ["ultramarine" * 100]})], 50, True),
        ([tool("pick", "", **{"a_long_argument_name" * 50: {}})], 50, True),
    ],
    ids=["far too few", "enough", "not told", "no tools", "too small to tell", "values", "argument names"],
)
def test_too_few_tokens_give_it_away(tools: list[dict[str, Any]], input_tokens: int | None, warned: bool) -> None:
    """Fewer tokens than the definitions alone must take is told; anything that might be enough is not."""
    assert (dropped_warning(tools, input_tokens) is not None) == warned
