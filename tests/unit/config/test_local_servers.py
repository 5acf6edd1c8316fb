"""`CLAWGAUGE_LOCAL_SERVERS`: where chat servers are looked for in place of their usual ports."""

from __future__ import annotations

import pytest

from clawgauge.config.local_servers import local_servers
from clawgauge.config.providers import provider_settings
from clawgauge.config.settings import Configuration
from clawgauge.errors import ConfigError
from clawgauge.providers.base import ProviderSettings

USUAL = {
    "llamacpp": "http://localhost:8080/v1",
    "lmstudio": "http://localhost:1234/v1",
    "vllm": "http://localhost:8000/v1",
}


def openai_chat(**environ: str) -> ProviderSettings:
    return provider_settings(Configuration(), environ, print)["openai_chat"]


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("", USUAL),
        ("  ", USUAL),
        ("none", {}),
        ("vllm=http://gpu-box:8000/v1", {"vllm": "http://gpu-box:8000/v1"}),
        (
            "a=http://x/v1?k=v, b-2=https://[::1]:5/v1",
            {"a": "http://x/v1?k=v", "b-2": "https://[::1]:5/v1"},
        ),
    ],
)
def test_the_variable_replaces_the_usual_list(text: str, servers: dict[str, str]) -> None:
    assert local_servers({"CLAWGAUGE_LOCAL_SERVERS": text}) == servers


def test_without_the_variable_the_usual_ports_are_looked_at() -> None:
    assert local_servers({}) == USUAL


@pytest.mark.parametrize(
    "text",
    [
        "http://me:hunter22@box/v1",
        "vllm=box:8000",
        "vllm=ftp://box/v1",
        "vllm=http://box:99999/v1",
        "vllm=http://box:0/v1",
        "=http://box/v1",
        "a]\n[b=http://box/v1",
        "openai_responses=http://box/v1",
        "a=http://box/v1,a=http://other/v1",
        "a=http://box/v1,",
        "none,a=http://box/v1",
    ],
)
def test_what_is_no_list_of_servers_is_refused_and_not_repeated(text: str) -> None:
    """One sentence says how it is written; an address may hold a password."""
    with pytest.raises(ConfigError, match="give NAME=ADDRESS, separated by commas") as refused:
        local_servers({"CLAWGAUGE_LOCAL_SERVERS": text})
    assert "hunter22" not in str(refused.value)
    unusable = openai_chat(CLAWGAUGE_LOCAL_SERVERS=text).unusable
    assert unusable == str(refused.value)


def test_openai_chat_without_an_address_is_the_server_called_llamacpp() -> None:
    """It gets no key: OPENAI_API_KEY goes where OPENAI_BASE_URL says, and nowhere else."""
    named = "llamacpp=http://box:1/v1"
    replaced = openai_chat(CLAWGAUGE_LOCAL_SERVERS=named, OPENAI_API_KEY="sk-of-a-test")
    assert replaced.base_url == "http://box:1/v1"
    assert replaced.api_key is None
    own = openai_chat(
        CLAWGAUGE_LOCAL_SERVERS=named, OPENAI_BASE_URL="http://g/v1", OPENAI_API_KEY="sk-of-a-test"
    )
    assert own.base_url == "http://g/v1"
    assert own.api_key == "sk-of-a-test"
    nowhere = openai_chat(CLAWGAUGE_LOCAL_SERVERS="none")
    assert nowhere.unusable is not None and "openai_chat has no address" in nowhere.unusable
    assert openai_chat().unusable is None
