"""Tests see nothing of the machine that they run on: no server, key, program or setting of its user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from clawgauge.providers.embedded.provider import model_path
from support.command import clean_environment
from support.isolation import isolated_environment
from support.scripted_server import ScriptedServer
from support.waiting import PATIENCE_S

REPOSITORY = Path(__file__).parents[3]


def add_program(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\necho a program of the user\n")
    (folder / name).chmod(0o755)


def test_a_server_of_the_user_is_not_seen_by_any_test(tmp_path: Path) -> None:
    """In the user's shell `init` finds the server; the tests of `init`, started from the same shell, never ask it."""
    add_program(tmp_path / "bin", "claude")
    with ScriptedServer(models=["llama3.2:3b"]) as server:
        shell = {
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "OLLAMA_HOST": server.base_url,
            "CLAWGAUGE_LOCAL_SERVERS": f"llamacpp={server.v1_url},vllm={server.v1_url}",
            "OPENAI_API_KEY": "sk-of-the-user-0123456789",
            "OPENAI_BASE_URL": server.v1_url,
            "ANTHROPIC_API_KEY": "sk-ant-of-the-user-0123456789",
            "ANTHROPIC_BASE_URL": server.base_url,
            "HTTP_PROXY": server.base_url,
        }
        command = [sys.executable, "-m", "clawgauge", "init"]
        found = subprocess.run(
            command, cwd=tmp_path, env=shell, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert "found ollama_openai: llama3.2:3b" in found.stderr
        assert "found llamacpp: llama3.2:3b" in found.stderr
        assert "found claude_code_cli" in found.stderr
        n_requests = len(server.requests)
        assert n_requests > 0
        tests = [
            "tests/end_to_end/test_init.py",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path / 'inner'}",
        ]
        command = [sys.executable, "-m", "pytest", "-q", *tests]
        tested = subprocess.run(
            command, cwd=REPOSITORY, env=shell, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert tested.returncode == 0, tested.stdout
        assert len(server.requests) == n_requests


def test_no_variable_of_the_user_reaches_a_test(tmp_path: Path) -> None:
    """Whatever it is called: keys have names that nobody has heard of."""
    keys = (
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "OUR_COMPANYS_LLM_KEY",
    )
    settings = (
        "OLLAMA_OPENAI_BASE",
        "https_proxy",
        "XDG_CONFIG_HOME",
        "CLAWGAUGE_RETRY_BASE_S",
        "COLUMNS",
        "LC_ALL",
    )
    user = dict.fromkeys([*keys, *settings], "of the user") | {
        "HOME": "/home/user",
        "TZ": "Asia/Kolkata",
    }
    isolated = isolated_environment(user, tmp_path)
    assert "of the user" not in isolated.values()
    assert isolated["HOME"] == str(tmp_path)
    assert isolated["TZ"] == "UTC"


def test_the_embedded_model_of_the_user_is_not_fetched_again(tmp_path: Path) -> None:
    user = {"HOME": "/home/user"}
    assert model_path(isolated_environment(user, tmp_path)) == model_path(user)
    elsewhere = {"HOME": "/home/user", "CLAWGAUGE_CACHE_DIR": "/models"}
    assert model_path(isolated_environment(elsewhere, tmp_path)) == model_path(elsewhere)


def test_a_program_of_the_user_is_not_found_and_its_neighbours_are(tmp_path: Path) -> None:
    add_program(tmp_path / "bin", "claude")
    add_program(tmp_path / "bin", "git-of-the-user")
    user = {"PATH": f"{tmp_path / 'missing'}{os.pathsep}{tmp_path / 'bin'}"}
    isolated = isolated_environment(user, tmp_path / "home")
    assert shutil.which("claude", path=isolated["PATH"]) is None
    neighbour = shutil.which("git-of-the-user", path=isolated["PATH"])
    assert neighbour is not None
    assert (
        "a program of the user"
        in subprocess.run([neighbour], capture_output=True, text=True).stdout
    )


def test_this_very_process_is_isolated() -> None:
    """So are the commands that it starts, in whatever way."""
    assert os.environ["OLLAMA_HOST"] == clean_environment()["OLLAMA_HOST"] == "127.0.0.1:9"
    assert (
        os.environ["CLAWGAUGE_LOCAL_SERVERS"]
        == clean_environment()["CLAWGAUGE_LOCAL_SERVERS"]
        == "none"
    )
    assert os.environ["HOME"] == clean_environment()["HOME"] == str(Path.home())
