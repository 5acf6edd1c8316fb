"""`clawgauge init`: from nothing to a file that the next `clawgauge run` goes by."""

from __future__ import annotations

import tomllib
from pathlib import Path

from clawgauge.cli.init import write_configuration
from clawgauge.config.settings import ProviderTable
from clawgauge.records import ModelInfo, ProviderProbe
from support.command import clawgauge
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
