"""The JSON Schema of every file in a run folder, made from the structs themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from clawgauge.records.result import Event, Result
from clawgauge.records.run import Inventory, RunConfig
from clawgauge.records.summary import RunSummary

DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "result": Result,
    "event": Event,
    "config": RunConfig,
    "inventory": Inventory,
    "summary": RunSummary,
}
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(name: str) -> dict[str, Any]:
    """One document's schema. Every field we write is required; unknown ones are allowed, for those who add."""
    record = DOCUMENTS[name]
    schema: dict[str, Any] = {"$schema": _DRAFT, "title": name, **msgspec.json.schema(record)}
    for struct, body in schema["$defs"].items():
        if struct != "Prompt" and "properties" in body:
            body["required"] = list(body["properties"])
    return schema


def render_schema(name: str) -> str:
    """The schema as it stands in docs/schema/."""
    return msgspec.json.format(msgspec.json.encode(json_schema(name)), indent=2).decode() + "\n"
