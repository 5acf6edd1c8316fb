"""What every test may use: `support` on the path, one Hypothesis profile, and one real model behind all protocols."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from clawgauge.providers.embedded.provider import fetch
from support.command import clean_environment
from support.isolation import isolated_process
from support.waiting import PATIENCE_S

# How fast a machine draws examples, and the first time it has to build its tables of characters, is nothing we claim.
settings.register_profile(
    "clawgauge",
    deadline=None,
    max_examples=100
    if os.environ.get("CI")
    else 50,  # others in every run, where the examples are not always the same
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("clawgauge")

# A shell starts what it puts into the background with Ctrl-C ignored, and every program started from here would inherit
# that: the tests that send one would wait for nothing.
for caught in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(caught) is signal.SIG_IGN:
        signal.signal(
            caught, signal.default_int_handler if caught is signal.SIGINT else signal.SIG_DFL
        )

# Nor is a strict umask part of any test.
os.umask(0o022)

TESTS = Path(__file__).parent
TOOL_TEMPLATE = TESTS / "data" / "smollm2_tools.jinja"


def pytest_configure(config: pytest.Config) -> None:
    """Let the workers share what a fresh clone has to compile: each begins with other modules and leaves them compiled.

    All would else compile each module at the same time, four times the work. What cannot be imported is told later,
    when it is collected.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or [Path(name).resolve() for name in config.args] != [TESTS]:
        return
    names = [
        ".".join(file.relative_to(TESTS).with_suffix("").parts)
        for file in sorted(TESTS.rglob("test_*.py"))
    ]
    first = len(names) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for name in names[first:] + names[:first]:
        with suppress(Exception):
            importlib.import_module(name)


@pytest.fixture(scope="session", autouse=True)
def no_test_sees_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No key, server, model or setting of the user's: neither here nor in any program that a test starts."""
    with isolated_process(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture(scope="session")
def llama_address() -> Iterator[str]:
    """llama.cpp serving the embedded model: one real model behind all three protocols."""
    with serve_embedded_model() as address:
        yield address


@pytest.fixture(scope="session")
def llama_tools_address() -> Iterator[str]:
    """The same with a chat template that shows offered tools, and begins a call where `force_tool` asks for it."""
    with serve_embedded_model(TOOL_TEMPLATE) as address:
        yield address


@contextmanager
def serve_embedded_model(chat_template: Path | None = None) -> Iterator[str]:
    model = asyncio.run(fetch(clean_environment(), print))
    options = {
        "model": str(model),
        "alias": "smollm2-135m",
        "context_tokens": 4096,
        "slots": 1,
        "threads": 1,
    }
    options["chat_template"] = str(chat_template) if chat_template else None
    process = subprocess.Popen(
        [sys.executable, "-m", "clawgauge.providers.embedded.child", json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.stdin.close()
        process.wait(timeout=PATIENCE_S)
        process.stdout.close()
