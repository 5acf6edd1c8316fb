"""What the docs say is what the program is."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from clawgauge.records import GroupSummary, Result, RunSummary

DOCS = Path(__file__).parents[2] / "docs"
GENERATOR = runpy.run_path(str(DOCS.parent / "scripts" / "generate_docs.py"))


@pytest.mark.parametrize("name", GENERATOR["DOCUMENTS"])
def test_the_published_schema_is_fresh(name: str) -> None:
    """docs/schema/ is what the structs say today; `make docs` writes it."""
    assert (DOCS / "schema" / f"{name}.schema.json").read_text(encoding="utf-8") == GENERATOR["render_schema"](name)


@pytest.mark.parametrize("record", [Result, GroupSummary, RunSummary])
def test_the_schema_page_names_every_field(record: type) -> None:
    """A field that is written is explained in docs/schema.md."""
    page = (DOCS / "schema.md").read_text(encoding="utf-8")
    missing = [field for field in record.__struct_fields__ if f"`{field}`" not in page]
    assert missing == []
