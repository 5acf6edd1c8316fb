"""What the machine and the servers looked like: inventory.json and the parsed resource snapshots."""

from __future__ import annotations

from typing import Any

import msgspec


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model a provider says it has."""

    name: str
    size_bytes: int | None = None
    digest: str | None = None
    quantization: str | None = None
    family: str | None = None
    parameters: str | None = None
    kind: str = "chat"


class ProviderProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a provider could be used just now, and what to do if not."""

    provider: str
    reachable: bool
    address: str | None = None
    detail: str = ""
    hint: str | None = None
    version: str | None = None
    models: list[ModelInfo] = []
    loaded_models: list[str] = []


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """inventory.json."""

    schema_version: int
    collected_at_ms: int
    python_version: str
    packages: dict[str, str]
    host: dict[str, Any]
    cpu: dict[str, Any]
    memory: dict[str, Any]
    gpus: list[dict[str, Any]]
    ollama_list: list[ModelInfo] | None
    cli_versions: dict[str, str | None]
    providers: list[ProviderProbe]


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot, parsed. A figure the machine would not tell is null."""

    taken_at_ms: int
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_used_bytes: int | None = None
    disk_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    load_1m: float | None = None
    load_5m: float | None = None
    load_15m: float | None = None
    cpu_percent: float | None = None
    process_count: int | None = None
    gpus: list[dict[str, Any]] = []
    loaded_models: list[str] = []
