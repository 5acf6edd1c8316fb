"""A Python child of ours runs this installation's code and nothing that lies around it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import clawgauge
from clawgauge.child_processes import isolated_module
from clawgauge.environment import needed_environment
from support.waiting import PATIENCE_S

SOURCE = Path(clawgauge.__file__).parent


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    trap = f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n"
    for name in (
        "argparse",
        "json",
        "msgspec",
        "runpy",
        "site",
        "sitecustomize",
        "usercustomize",
        "start",
        "re",
    ):
        (tmp_path / f"{name}.py").write_text(trap)
    return tmp_path


def test_nothing_around_a_child_is_loaded(trapped: Path) -> None:
    """Neither from its current directory nor from what PYTHONPATH and its like name."""
    environ = {
        "PYTHONPATH": str(trapped),
        "PYTHONSTARTUP": str(trapped / "start.py"),
        "PYTHONUSERBASE": str(trapped),
    }
    command = isolated_module("clawgauge", "suites", "list", "--json")
    done = subprocess.run(
        command, cwd=trapped, env=environ, capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0 and json.loads(done.stdout)[0]["name"] == "core", (
        done.stderr.decode()
    )
    assert not (trapped / "ran").exists()


def test_the_folders_of_the_parent_replace_nothing(
    trapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder on the parent's own path adds names behind those that are installed."""
    monkeypatch.syspath_prepend(str(trapped))
    (trapped / "further.py").write_text(
        "import argparse, msgspec\nprint(argparse.__file__, msgspec.__file__)\n"
    )
    done = subprocess.run(
        isolated_module("further"), cwd="/", env={}, capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0 and str(trapped).encode() not in done.stdout, done.stderr.decode()
    assert not (trapped / "ran").exists()


def test_every_python_child_is_started_in_this_way() -> None:
    """No module starts `sys.executable` by itself but that one, the supervisor too with -I."""
    starting = {
        path.relative_to(SOURCE).as_posix(): found
        for path in SOURCE.rglob("*.py")
        if (found := re.findall(r"sys\.executable, .{4}", path.read_text()))
    }
    assert starting == {"child_processes/__init__.py": ['sys.executable, "-I"'] * 2}


def test_a_child_that_only_computes_gets_no_key() -> None:
    """Its hardware and its libraries, yes; keys, addresses and proxies, no."""
    kept = {
        "PATH": "p",
        "HOME": "h",
        "CUDA_VISIBLE_DEVICES": "0",
        "LD_LIBRARY_PATH": "l",
        "GGML_METAL_NDEBUG": "1",
    }
    withheld = {
        "OPENAI_API_KEY": "k",
        "HF_TOKEN": "t",
        "PYTHONPATH": "x",
        "HTTPS_PROXY": "p",
        "AWS_PROFILE": "a",
    }
    withheld |= {"HOMEBREW_GITHUB_API_TOKEN": "t", "LLAMA_API_KEY": "k", "OLLAMA_HOST": "o"}
    assert needed_environment({**kept, **withheld}) == kept
