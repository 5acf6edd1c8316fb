"""What every test may use: `support` on the path, and one real model behind all three protocols."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from clawgauge.providers.embedded_model import fetch
from support.command import clean_environment


@pytest.fixture(scope="session")
def llama_address() -> Iterator[str]:
    """llama.cpp serving the embedded model: one real model behind all three protocols."""
    model = fetch(clean_environment(), print)
    options = {"model": model, "alias": "smollm2-135m", "context-tokens": 4096, "slots": 1, "threads": 1}
    process = subprocess.Popen(
        [sys.executable, "-m", "clawgauge.providers.llama_child", *(f"--{k}={v}" for k, v in options.items())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()
