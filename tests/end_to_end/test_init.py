"""`clawgauge init`: from nothing to a file that the next `clawgauge run` goes by."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from clawgauge.cli.init import write_configuration
from clawgauge.config.settings import ProviderTable
from clawgauge.records import ModelInfo, ProviderProbe
from support.command import Outcome, clawgauge
from support.scripted_server import InstalledModel, ScriptedServer


def test_what_is_found_is_asked_by_the_next_run(tmp_path: Path) -> None:
    """The file is trusted as it was written, and a model that only embeds is none to ask."""
    with ScriptedServer(
        models=["llama3.2:3b", InstalledModel("nomic-embed-text", family="nomic-bert")]
    ) as server:
        env = {"OLLAMA_HOST": server.base_url}
        done = clawgauge(tmp_path, "init", env=env, trusting=False)
        assert (done.code, done.stdout) == (0, "clawgauge.toml\n"), done.stderr
        assert (
            "found ollama_openai: llama3.2:3b" in done.stderr
            and "clawgauge run --dry-run" in done.stderr
        )
        planned = clawgauge(tmp_path, "run", "--dry-run", env=env, trusting=False)
        assert (
            planned.code == 0
            and "ollama_openai:llama3.2:3b: about " in planned.stdout + planned.stderr
        )
        assert "clawgauge.toml (trusted)" in planned.stderr


def test_servers_are_looked_for_where_the_user_says(tmp_path: Path) -> None:
    """Those of CLAWGAUGE_LOCAL_SERVERS in place of the usual ports; nobody's key goes there."""
    with ScriptedServer(models=["qwen3:8b"], ollama=False) as server:
        env = {
            "CLAWGAUGE_LOCAL_SERVERS": f"studio={server.v1_url}",
            "OPENAI_API_KEY": "sk-nobody-000000",
        }
        env["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
        done = clawgauge(tmp_path, "init", env=env, trusting=False)
        assert done.code == 0 and "found studio: qwen3:8b" in done.stderr
        written = tomllib.loads((tmp_path / "clawgauge.toml").read_text())
        assert written["run"]["targets"] == ["studio:qwen3:8b"]
        assert written["providers"] == {
            "studio": {"type": "openai_chat", "base_url": server.v1_url, "local": True}
        }
        assert [request.path for request in server.requests] == ["/v1/models"]
        assert "authorization" not in {name.lower() for name in server.requests[0].headers}
        wrong = clawgauge(
            tmp_path, "init", "--force", env={"CLAWGAUGE_LOCAL_SERVERS": server.v1_url}
        )
        assert (
            wrong.code == 2 and "CLAWGAUGE_LOCAL_SERVERS is not a list of servers" in wrong.stderr
        )


def test_a_key_is_found_though_its_vendor_cannot_be_reached(tmp_path: Path) -> None:
    """Without a network a person still sees what could be asked, and it is never asked by itself."""
    keyed = {"OPENAI_API_KEY": "sk-nobody-000000", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = clawgauge(tmp_path, "init", env=keyed, trusting=False)
    assert done.code == 0 and "found openai_responses: a key" in done.stderr
    text = (tmp_path / "clawgauge.toml").read_text()
    assert '# "openai_responses:' in text and "sk-nobody" not in text + done.stderr
    assert tomllib.loads(text)["run"]["targets"] == ["embedded:smollm2-135m"]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "clawgauge.toml").write_text("# mine\n")
    done = clawgauge(tmp_path, "init")
    assert done.code == 2 and "--force" in done.stderr
    assert (tmp_path / "clawgauge.toml").read_text() == "# mine\n"
    assert clawgauge(tmp_path, "init", "--force").code == 0
    assert "[run]" in (tmp_path / "clawgauge.toml").read_text()


def test_names_of_servers_cannot_write_into_the_file() -> None:
    """A model's name may hold quotes, brackets and line ends; what is paid for is only named."""
    hostile = ['a"]\n[providers.evil]\nbase_url = "x', 'b"quoted', "c\\", "d\x7f"]
    server = ProviderProbe(
        provider="lmstudio", reachable=True, models=[ModelInfo(name=name) for name in hostile]
    )
    paid = ProviderProbe(provider="openai_responses", reachable=True)
    tables = {
        "lmstudio": ProviderTable(
            type="openai_chat", base_url="http://127.0.0.1:1234/v1", local=True
        )
    }
    read = tomllib.loads(write_configuration([server, paid], tables))
    assert read["run"]["targets"] == ['lmstudio:b"quoted', "lmstudio:c\\"]
    assert list(read["providers"]) == ["lmstudio"]


def test_where_nothing_is_found_the_embedded_model_is_asked() -> None:
    assert tomllib.loads(write_configuration([], {}))["run"]["targets"] == ["embedded:smollm2-135m"]


def _init_and_edit(folder: Path, server: ScriptedServer) -> dict[str, str]:
    """A file that `init` wrote and somebody edited; the environment for the commands that follow."""
    env = {"OLLAMA_HOST": server.base_url}
    assert clawgauge(folder, "init", env=env, trusting=False).code == 0
    with (folder / "clawgauge.toml").open("a") as file:
        file.write("\n# a line of my own\n")
    return env


def _rehearse(folder: Path, env: dict[str, str]) -> Outcome:
    return clawgauge(folder, "run", "--dry-run", env=env, trusting=False)


def test_the_written_file_may_be_edited(tmp_path: Path) -> None:
    """It invites to take a # off; who does so need not trust their own file first."""
    with ScriptedServer(models=["llama3.2:3b"]) as server:
        env = _init_and_edit(tmp_path, server)
        planned = _rehearse(tmp_path, env)
        assert planned.code == 0, planned.stderr
        assert "using clawgauge.toml (yours, made by init)" in planned.stderr
        listed = clawgauge(tmp_path, "trust", "--list", env=env, trusting=False)
        assert f"{tmp_path / 'clawgauge.toml'}: yours" in listed.stdout


def test_an_edited_file_that_others_can_write_to_is_not_ones_own(tmp_path: Path) -> None:
    with ScriptedServer(models=["llama3.2:3b"]) as server:
        env = _init_and_edit(tmp_path, server)
        (tmp_path / "clawgauge.toml").chmod(0o664)
        planned = _rehearse(tmp_path, env)
    assert planned.code == 2
    assert "others can write to it" in planned.stderr and "`clawgauge trust`" in planned.stderr


def test_a_link_in_place_of_the_written_file_is_not_ones_own(tmp_path: Path) -> None:
    with ScriptedServer(models=["llama3.2:3b"]) as server:
        env = _init_and_edit(tmp_path, server)
        (tmp_path / "clawgauge.toml").rename(tmp_path / "elsewhere.toml")
        (tmp_path / "clawgauge.toml").symlink_to("elsewhere.toml")
        assert _rehearse(tmp_path, env).code == 2


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(("version", "in_work_tree"), [(2, False), (4, False), (2, True)])
def test_an_edited_file_that_git_tracks_is_not_ones_own(
    version: int, in_work_tree: bool, tmp_path: Path
) -> None:
    """A pull could have changed it, so that it counts for what was trusted alone."""
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*words: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", repository, *who, *words], check=True, capture_output=True)

    git("init")
    git("config", "index.version", str(version))
    folder = repository
    if in_work_tree:
        git("commit", "--allow-empty", "--message", "First")
        folder = tmp_path / "tree"
        git("worktree", "add", str(folder))
    folder /= "agents"
    folder.mkdir()
    (folder / "clawgauge.md").write_text("a name with the same beginning\n")
    with ScriptedServer(models=["llama3.2:3b"]) as server:
        env = _init_and_edit(folder, server)
        if version == 2:
            git("-C", str(folder), "add", "clawgauge.md")
            assert _rehearse(folder, env).code == 0
        git("-C", str(folder), "add", ".")
        planned = _rehearse(folder, env)
        assert planned.code == 2 and "git tracks it" in planned.stderr


def test_one_server_is_one_provider(tmp_path: Path) -> None:
    """The bare chat server and the one called llamacpp are one where they have one address."""
    with ScriptedServer(models=["qwen3:8b"], ollama=False) as server:
        env = {"CLAWGAUGE_LOCAL_SERVERS": f"llamacpp={server.v1_url}"}
        done = clawgauge(tmp_path, "init", env=env, trusting=False)
        assert "found llamacpp: qwen3:8b" in done.stderr and "openai_chat" not in done.stderr
        planned = clawgauge(tmp_path, "run", "--dry-run", "-t", "qwen3:8b", env=env, trusting=False)
        assert planned.code == 0, planned.stderr
        assert "qwen3:8b is taken for llamacpp:qwen3:8b" in planned.stderr
        examined = clawgauge(tmp_path, "doctor", env=env, trusting=False)
        assert "ok llamacpp" in examined.stdout and "openai_chat" not in examined.stdout
