"""Which nodes there are, what they have, and the providers and targets of a run on them."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from clawgauge.config.providers import Tell
from clawgauge.config.settings import Configuration, Settings
from clawgauge.errors import ConfigError, TargetError
from clawgauge.fleet.connection import NodeAddress, ProbedNode, connect
from clawgauge.fleet.driver import JoinedNodes
from clawgauge.fleet.remote_provider import RemoteProvider
from clawgauge.fleet.wire import NodeLost, ProviderFacts
from clawgauge.prices import host_of
from clawgauge.providers.base import ProviderSettings
from clawgauge.proxies import is_loopback
from clawgauge.records import ProviderProbe
from clawgauge.registry import OLLAMA_OPENAI

# Your own configuration, agent and keys, but nobody is asked for anything; a pulled cable is
# noticed in ten seconds.
_SSH = (
    "ssh",
    "-T",
    "-a",
    "-x",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=3",
)


def find_nodes(configuration: Configuration, names: Sequence[str]) -> list[NodeAddress]:
    """The nodes of these names; raises `ConfigError` for one that is not configured.

    The machines of a cluster are called by its name and their own: of these, one stands for all.
    """
    clusters = [name for name, table in configuration.nodes.items() if table.ray]
    table_names = []
    for name in names:
        table_name = name
        for cluster in clusters:
            if name.startswith(f"{cluster}-"):
                table_name = cluster
                break
        if table_name not in table_names:
            table_names.append(table_name)
    nodes: list[NodeAddress] = []
    for name in table_names:
        table = configuration.find_node(name)
        if table.ray is not None:
            from clawgauge.fleet.ray_bridge import find_machines

            nodes += find_machines(name, table)
        else:
            command = [*_SSH, "--", table.ssh or "", f"{table.command} node"]
            nodes.append(NodeAddress(name, command, table.address))
    return nodes


async def probe_node(address: NodeAddress, tell: Tell) -> ProbedNode:
    """Ask a node what it has, and read its clock. Raises `NodeLost`."""
    async with connect(address, tell) as connection:
        node = await connection.probe()
    tell(node.describe())
    return node


async def probe_nodes(
    configuration: Configuration, names: Sequence[str], tell: Tell
) -> list[ProviderProbe]:
    """What these nodes have, by the names that a run gives it, or why a node cannot be had."""
    addresses = find_nodes(configuration, [name.strip() for name in names])
    probes = []
    for of_node in await asyncio.gather(*(_probe_providers(node, tell) for node in addresses)):
        probes += of_node
    return probes


async def _probe_providers(address: NodeAddress, tell: Tell) -> list[ProviderProbe]:
    try:
        node = await probe_node(address, tell)
    except NodeLost as lost:
        return [ProviderProbe(provider=address.name, reachable=False, detail=str(lost))]
    probes = []
    for facts in node.providers:
        probes.append(replace(facts.probe, provider=f"{node.name}.{facts.probe.provider}"))
    return probes


async def join_nodes(
    settings: Settings,
    configuration: Configuration,
    names: Sequence[str],
    tell: Tell,
    *,
    is_load: bool = False,
) -> JoinedNodes:
    """The nodes of these names, with their providers. Nothing is paid for.

    Of a load, a provider without a node's name before it is one that all of them ask at once.
    Raises `ConfigError` for settings that several machines cannot keep, `NodeLost` where a node
    cannot be had.
    """
    addresses = find_nodes(configuration, names)
    _refuse_settings_of_one_machine(settings, len(addresses), is_load=is_load)
    nodes = await asyncio.gather(*(probe_node(address, tell) for address in addresses))
    providers: dict[str, ProviderSettings] = {}
    for node in nodes:
        for facts in node.providers:
            on_node = _settings_on_node(node, facts)
            providers[on_node.name] = on_node
    if is_load:
        for shared in _find_shared_providers(nodes, providers):
            providers[shared.name] = shared
    return JoinedNodes(nodes, providers, tell)


def _refuse_settings_of_one_machine(settings: Settings, n_nodes: int, *, is_load: bool) -> None:
    if settings.interleave:
        reason = "--swap changes between models" if is_load else "--interleave takes turns"
        raise ConfigError(f"{reason} on one machine: leave it out with --nodes")
    if settings.max_cost_usd is not None and (is_load or n_nodes > 1):
        remedy = "give it to one, or use --max-calls"
        if is_load:
            remedy = "load what is paid for from here alone"
        raise ConfigError(f"--max-cost cannot be kept by several nodes at once: {remedy}")


def _settings_on_node(node: ProbedNode, facts: ProviderFacts) -> ProviderSettings:
    unusable = None
    if facts.unusable:
        unusable = f"node {node.name}: {facts.unusable}"
    return ProviderSettings(
        f"{node.name}.{facts.probe.provider}",
        str(facts.described.get("type")),
        unusable=unusable,
        make=partial(RemoteProvider, node.name, node.address.public_host, facts),
    )


def _find_shared_providers(
    nodes: Sequence[ProbedNode], providers: Mapping[str, ProviderSettings]
) -> list[ProviderSettings]:
    """What nodes have under one name, as one provider that all of them ask."""
    first_facts_by_name: dict[str, ProviderFacts] = {}
    for node in nodes:
        for facts in node.providers:
            first_facts_by_name.setdefault(facts.probe.provider, facts)
    node_names = ",".join(node.name for node in nodes)
    shared = []
    for name, facts in first_facts_by_name.items():
        shared.append(
            ProviderSettings(
                name,
                str(facts.described.get("type")),
                unusable=_why_not_shared(name, nodes, providers),
                make=partial(RemoteProvider, node_names, nodes[0].address.public_host, facts),
            )
        )
    return shared


def _why_not_shared(
    name: str, nodes: Sequence[ProbedNode], providers: Mapping[str, ProviderSettings]
) -> str | None:
    """Why what nodes have under one name is not one server that all can load; None where it is."""
    url_by_node = {}
    servers = set()
    for node in nodes:
        on_node = providers.get(f"{node.name}.{name}")
        if on_node is None:
            return f"node {node.name}: it has no provider {name!r}"
        if on_node.unusable:
            return on_node.unusable
        url = _find_base_url(node, name)
        url_by_node[node.name] = url
        # A node's own process is nobody else's, and its loopback that of its machine.
        machine = ""
        if url is None:
            machine = node.name
        elif is_loopback(host_of(url)):
            machine = node.hello.host
        servers.add((url, machine))
    if len(servers) == 1:
        return None
    places = []
    for node_name, url in url_by_node.items():
        where = f"at {url}" if url else "by itself"
        places.append(f"{node_name} has it {where}")
    return (
        f"{name} is not one server for all nodes ({', '.join(places)}): "
        f"give them one address, or load each by itself with -t '*.{name}:MODEL'"
    )


def _find_base_url(node: ProbedNode, provider: str) -> str | None:
    for facts in node.providers:
        if facts.probe.provider == provider:
            url = facts.described.get("base_url")
            return None if url is None else str(url)
    return None


def expand_targets(providers: Mapping[str, ProviderSettings], targets: Sequence[str]) -> list[str]:
    """Targets on the nodes, with every provider that a `*` stands for."""
    remote_names = []
    for name, settings in providers.items():
        if settings.make is not None:
            remote_names.append(name)
    expanded = []
    for target in targets or [f"*.{OLLAMA_OPENAI.name}:*"]:
        exclusion = "!" if target.startswith("!") else ""
        pattern, _, model = target.removeprefix("!").partition(":")
        names = fnmatch.filter(remote_names, pattern)
        if not names:
            raise TargetError(
                f"target {target!r} is on none of the nodes, which have {', '.join(remote_names)}"
            )
        for name in names:
            expanded.append(f"{exclusion}{name}:{model}")
    return expanded
