"""Writes the generated parts of the docs: the JSON Schemas. A test fails when they are stale."""

from __future__ import annotations

from pathlib import Path

from clawgauge.records.json_schema import DOCUMENTS, render_schema

SCHEMA_DIR = Path(__file__).parents[1] / "docs" / "schema"


def main() -> None:
    SCHEMA_DIR.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        (SCHEMA_DIR / f"{name}.schema.json").write_text(render_schema(name), encoding="utf-8")


if __name__ == "__main__":
    main()
