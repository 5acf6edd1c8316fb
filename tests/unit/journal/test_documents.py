"""config.json, inventory.json, summary.json and events read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawgauge.errors import RunFolderError
from clawgauge.journal.folder import RunFolder
from clawgauge.records import Inventory
from clawgauge.run_data import Run
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
    assert Run.open(folder.path).config == make_config()
    assert Run.open(folder.path).inventory == INVENTORY
    assert Run.open(folder.path).events == [make_event(detail={"n": 1})]


def test_what_is_missing_is_none(tmp_path: Path) -> None:
    """A run killed before its first document has none, and that is no error."""
    assert Run.open(tmp_path).config is None
    assert [
        Run.open(tmp_path).inventory,
        Run.open(tmp_path).summary,
        Run.open(tmp_path).events,
    ] == [None, None, []]


def test_documents_of_another_shape_are_none_and_tell_who_wrote_them(tmp_path: Path) -> None:
    """config.json of the first harness is no RunConfig, yet the folder is known as its own."""
    for name in ("config.json", "inventory.json", "summary.json"):
        (tmp_path / name).write_text('{"models": ["llama3.2:3b"], "note": "\\ud800"}')
    assert [
        Run.open(tmp_path).config,
        Run.open(tmp_path).inventory,
        Run.open(tmp_path).summary,
    ] == [None, None, None]
    assert Run.open(tmp_path).first_harness


@every_row(
    ("content", "complaint"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"schema_version": 1}', "missing required field"),
    ],
)
def test_a_spoilt_document_is_named(tmp_path: Path, content: str, complaint: str) -> None:
    """A document that cannot be read says which file it is and what is wrong with it."""
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunFolderError, match=rf"config\.json .*{complaint}"):
        _ = Run.open(tmp_path).config


def test_a_newer_schema_asks_for_an_update(tmp_path: Path) -> None:
    """A run made by a later version is not misread."""
    (tmp_path / "config.json").write_text('{"schema_version": 99}')
    with pytest.raises(RunFolderError, match="update clawgauge"):
        _ = Run.open(tmp_path).config


def test_events_that_are_none_are_passed_over(tmp_path: Path) -> None:
    """A spoilt line among the events hides none of the others."""
    (tmp_path / "events.jsonl").write_text(
        '{"event": "a", "at_ms": 1}\nrubbish\n{"at_ms": 2}\n{"event": "b", "at_ms": 3}'
    )
    assert [event.event for event in Run.open(tmp_path).events] == ["a", "b"]
