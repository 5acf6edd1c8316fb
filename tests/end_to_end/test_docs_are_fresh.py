"""What the docs say is what the program is."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawgauge.records import GroupSummary, Result, RunSummary
from clawgauge.records.json_schema import DOCUMENTS, render_schema

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_published_schema_is_fresh(name: str) -> None:
    """docs/schema/ is what the structs say today; `make docs` writes it."""
    assert (DOCS / "schema" / f"{name}.schema.json").read_text(encoding="utf-8") == render_schema(name)


@pytest.mark.parametrize("record", [Result, GroupSummary, RunSummary])
def test_the_schema_page_names_every_field(record: type) -> None:
    """A field that is written is explained in docs/schema.md."""
    page = (DOCS / "schema.md").read_text(encoding="utf-8")
    missing = [field for field in record.__struct_fields__ if f"`{field}`" not in page]
    assert missing == []
