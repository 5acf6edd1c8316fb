"""config.json, inventory.json, summary.json and events read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawgauge.errors import RunFolderError
from clawgauge.journal import read_config, read_events, read_inventory, read_raw_config, read_summary
from clawgauge.journal.folder import RunFolder
from clawgauge.records import Inventory
from support.rows import every_row

from .samples import make_config, make_event

INVENTORY = Inventory(
    schema_version=1,
    collected_at_ms=1,
    python_version="3.11.7",
    packages={},
    host={"name": "h"},
    cpu={},
    memory={},
    gpus=[],
    ollama_list=None,
    cli_versions={"claude": None},
    providers=[],
)


def test_documents_come_back_as_written(tmp_path: Path) -> None:
    """Each document is read back equal to what was written."""
    with RunFolder.create(tmp_path, "r") as folder:
        folder.write("config.json", make_config())
        folder.write("inventory.json", INVENTORY)
        folder.event(make_event(detail={"n": 1}))
    assert read_config(folder.path) == make_config()
    assert read_inventory(folder.path) == INVENTORY
    assert read_events(folder.path) == [make_event(detail={"n": 1})]


def test_what_is_missing_is_none(tmp_path: Path) -> None:
    """A run killed before its first document has none, and that is no error."""
    assert [read_config(tmp_path), read_raw_config(tmp_path)] == [None, None]
    assert [read_inventory(tmp_path), read_summary(tmp_path), read_events(tmp_path)] == [None, None, []]


def test_documents_of_another_shape_are_none_but_can_be_had_raw(tmp_path: Path) -> None:
    """config.json of the first harness is no RunConfig, yet its content can be read."""
    for name in ("config.json", "inventory.json", "summary.json"):
        (tmp_path / name).write_text('{"models": ["llama3.2:3b"], "note": "\\ud800"}')
    assert [read_config(tmp_path), read_inventory(tmp_path), read_summary(tmp_path)] == [None, None, None]
    assert read_raw_config(tmp_path) == {"models": ["llama3.2:3b"], "note": "\ufffd"}


@every_row(
    ("content", "complaint"),
    [("{", "not a JSON object"), ("[]", "not a JSON object"), ('{"schema_version": 1}', "missing required field")],
)
def test_a_spoilt_document_is_named(tmp_path: Path, content: str, complaint: str) -> None:
    """A document that cannot be read says which file it is and what is wrong with it."""
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunFolderError, match=rf"config\.json .*{complaint}"):
        read_config(tmp_path)


def test_a_newer_schema_asks_for_an_update(tmp_path: Path) -> None:
    """A run made by a later version is not misread."""
    (tmp_path / "config.json").write_text('{"schema_version": 99}')
    with pytest.raises(RunFolderError, match="update clawgauge"):
        read_config(tmp_path)


def test_events_that_are_none_are_passed_over(tmp_path: Path) -> None:
    """A spoilt line among the events hides none of the others."""
    (tmp_path / "events.jsonl").write_text(
        '{"event": "a", "at_ms": 1}\nrubbish\n{"at_ms": 2}\n{"event": "b", "at_ms": 3}'
    )
    assert [event.event for event in read_events(tmp_path)] == ["a", "b"]
