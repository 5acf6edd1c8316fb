"""Fixtures for tests that run the command: a server, a folder to run in, and the schema every run folder must meet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import chat_config, write_suite
from support.published_schema import check_run_folder
from support.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(models=["scripted-model", "other-model"]) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, server: ScriptedServer) -> Path:
    """A folder with a configuration that names the scripted server `fake`, and a small suite `small.json`."""
    chat_config(tmp_path, fake=server.v1_url)
    write_suite(
        tmp_path / "small.json",
        {"prompt": "say yes", "validator": {"type": "exact", "value": "yes"}},
        {"prompt": "at most three words", "validator": {"type": "max_words", "value": 3}},
        {
            "prompt": "free memory?",
            "validator": {"type": "tool_invocation", "expected_tools": ["free"]},
        },
        {"prompt": "anything"},
    )
    return tmp_path


@pytest.fixture(autouse=True)
def every_run_meets_the_schema(tmp_path: Path) -> Iterator[None]:
    """Whatever a test wrote, each run folder validates against the published schemas."""
    yield
    for config in tmp_path.rglob("config.json"):
        if "schema_version" in json.loads(config.read_bytes()):
            check_run_folder(config.parent)
