"""Writes the generated parts of the docs: the JSON Schema of every file in a run folder, made from the structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from clawgauge.records import Event, Inventory, Result, RunConfig, RunSummary

DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "result": Result,
    "event": Event,
    "config": RunConfig,
    "inventory": Inventory,
    "summary": RunSummary,
}
# What is as it is by default is not written of these.
_LEAVE_OUT_DEFAULTS = ("Prompt", "Context", "Message", "MadeCall")
SCHEMA_DIR = Path(__file__).parents[1] / "docs" / "schema"


def render_schema(name: str) -> str:
    """One document's schema. Every field we write is required; unknown ones are allowed, for those who add."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    schema: dict[str, Any] = {"$schema": draft, "title": name, **msgspec.json.schema(DOCUMENTS[name])}
    for struct, body in schema["$defs"].items():
        if struct not in _LEAVE_OUT_DEFAULTS and "properties" in body:
            body["required"] = list(body["properties"])
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def main() -> None:
    SCHEMA_DIR.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        (SCHEMA_DIR / f"{name}.schema.json").write_text(render_schema(name), encoding="utf-8")


if __name__ == "__main__":
    main()
