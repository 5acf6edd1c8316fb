"""The inventory says what the machine is and what is installed, and does without what is missing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec
import psutil

from clawgauge.host.inventory import collect_inventory
from clawgauge.records import Inventory, ModelInfo, ProviderProbe
from support.fake_claude import install_fake_claude
from support.fake_tools import install_tool, path_of

OLLAMA_LIST = r"""
case "$1" in
list) printf 'NAME  ID  SIZE  MODIFIED\nllama3.2:3b    a80c4f17acd5    2.0 GB    2 weeks ago\n'
      printf 'gpt-oss:120b-cloud    569662207105    -    3 days ago\nall-minilm:22m    1b226e2802db    45 MB    now\n';;
*) printf 'Warning: could not connect to a running Ollama instance\nWarning: client version is 0.12.6\n';;
esac
"""


def test_with_an_empty_path_the_machine_is_still_described() -> None:
    """Without any tool Python, packages, host, CPU and memory are known, and the rest is null or empty."""
    inventory = collect_inventory([], environ={"PATH": ""})
    assert inventory.python_version == platform.python_version()
    assert {"clawgauge", "httptools", "msgspec"} <= set(inventory.packages)
    assert inventory.host["machine"] == os.uname().machine
    assert inventory.cpu["logical_cores"] == os.cpu_count()
    assert inventory.memory["total_bytes"] == psutil.virtual_memory().total
    assert inventory.gpus == []
    assert inventory.ollama_list is None
    assert inventory.cli_versions == {"ollama": None, "claude": None, "node": None}


def test_programs_say_their_versions(tmp_path: Path) -> None:
    """The line with the number is taken, not the warning before it; no number means no version."""
    install_fake_claude(tmp_path)
    install_tool(tmp_path, "ollama", OLLAMA_LIST)
    install_tool(tmp_path, "node", "printf 'segmentation fault\\n'; exit 139")
    versions = collect_inventory([], environ=path_of(tmp_path)).cli_versions
    assert versions["claude"] == "2.1.325 (Claude Code)"
    assert versions["ollama"] == "client version is 0.12.6"
    assert versions["node"] is None


def test_models_come_from_the_probe_where_there_is_one(tmp_path: Path) -> None:
    """A reachable Ollama's own list, which has sizes and quantisations, goes before that of the CLI."""
    install_tool(tmp_path, "ollama", OLLAMA_LIST)
    models = [ModelInfo(name="qwen3:8b", size_bytes=5, digest="d", quantization="Q4_K_M")]
    probe = ProviderProbe(provider="ollama_openai", reachable=True, models=models)
    cloud = ProviderProbe(
        provider="openai_responses", reachable=False, detail="OPENAI_API_KEY is not set"
    )
    inventory = collect_inventory([cloud, probe], environ=path_of(tmp_path))
    assert inventory.ollama_list == models
    assert inventory.providers == [cloud, probe]


def test_models_come_from_the_cli_otherwise(tmp_path: Path) -> None:
    """Without a reachable server `ollama list` is read, with its rounded sizes and models that have none."""
    install_tool(tmp_path, "ollama", OLLAMA_LIST)
    down = ProviderProbe(provider="ollama_openai", reachable=False)
    listed = collect_inventory([down], environ=path_of(tmp_path)).ollama_list
    assert listed == [
        ModelInfo(name="llama3.2:3b", digest="a80c4f17acd5", size_bytes=2_000_000_000),
        ModelInfo(name="gpt-oss:120b-cloud", digest="569662207105"),
        ModelInfo(name="all-minilm:22m", digest="1b226e2802db", size_bytes=45_000_000),
    ]


def test_an_ollama_without_a_server_has_no_list(tmp_path: Path) -> None:
    """A failing `ollama list` means unknown, and an empty one means that nothing is installed."""
    install_tool(tmp_path, "ollama", "printf 'Error: could not connect to ollama server'; exit 1")
    assert collect_inventory([], environ=path_of(tmp_path)).ollama_list is None
    install_tool(tmp_path, "ollama", "printf 'NAME    ID    SIZE    MODIFIED\\n'")
    assert collect_inventory([], environ=path_of(tmp_path)).ollama_list == []


def test_garbage_from_every_tool_does_no_harm(tmp_path: Path) -> None:
    """Tools that print rubbish leave an inventory that is valid JSON and claims nothing."""
    for name in (
        "ollama",
        "claude",
        "node",
        "nvidia-smi",
        "rocm-smi",
        "system_profiler",
        "lscpu",
        "sysctl",
    ):
        install_tool(tmp_path, name, r"printf '\377\033[2J [[[[{\"SPDisplaysDataType\": 3}'")
    inventory = collect_inventory([], environ=path_of(tmp_path))
    assert inventory.gpus == []
    assert inventory.ollama_list == []
    assert set(inventory.cli_versions.values()) == {None}
    assert msgspec.json.decode(msgspec.json.encode(inventory), type=Inventory) == inventory


def test_apple_gpus_are_read(tmp_path: Path) -> None:
    """macOS's system_profiler gives the chip and its GPU cores."""
    row = '{"_name": "Apple M2 Pro", "sppci_model": "Apple M2 Pro", "sppci_cores": "19", "spdisplays_vendor": "Apple"}'
    install_tool(tmp_path, "system_profiler", f"printf '%s' '{{\"SPDisplaysDataType\": [{row}]}}'")
    (gpu,) = collect_inventory([], environ=path_of(tmp_path)).gpus
    assert gpu == {"vendor": "apple", "index": 0, "name": "Apple M2 Pro", "cores": 19}


def test_kubernetes_is_recognised_by_the_given_environment() -> None:
    """The environment that the caller passes in is the one that counts."""
    environ = {"PATH": "", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert collect_inventory([], environ=environ).host["container"] == "kubernetes"
