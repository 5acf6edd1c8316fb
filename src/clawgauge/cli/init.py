"""Look around for models and write a clawgauge.toml that asks them: Ollama, llama.cpp, LM Studio,
vLLM, keys, claude.

Servers are asked only about themselves, on their usual ports of this machine, or where OLLAMA_HOST
and CLAWGAUGE_LOCAL_SERVERS say. What costs money is named in the file, but not asked until you take
the mark off."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from clawgauge.cli.files import write_output
from clawgauge.cli.preflight import probe_all
from clawgauge.cli.process import DONE, keep_secrets, run_async, tell
from clawgauge.config.local_servers import local_servers
from clawgauge.config.providers import (
    find_secrets,
    leave_out_second_names,
    provider_settings,
)
from clawgauge.config.settings import DEFAULT_NAME, Configuration, ProviderTable
from clawgauge.config.trusted_files import (
    place_of,
    read_trusted,
    take_away_write_permission_of_others,
    write_trusted,
)
from clawgauge.errors import ConfigError
from clawgauge.records import ProviderProbe
from clawgauge.registry import (
    EMBEDDED,
    EMBEDDED_MODEL,
    OLLAMA_OPENAI,
    OPENAI_CHAT,
    PROVIDER_TYPES,
    find_type,
)
from clawgauge.words import list_names, plural, word_ollama_apis

_MAX_TARGETS = 8
# A printable text in JSON is a string of TOML as well.
_quoted = partial(json.dumps, ensure_ascii=False)
_HEADING = """\
# What `clawgauge run` does when nothing else is said. An option on the command line wins.
# Edit it as you like: written here by `clawgauge init`, it is yours and counts in full.

[run]
"""
_REST = """\
# suites = ["core", "native_tools"]    # ask these in full; without it: until the jobs are decided
# repeats = 3                          # with suites: ask each prompt so many times
# timeout = 300                        # seconds until a call is given up
# max_cost = 1.0                       # dollars
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help=f"write {DEFAULT_NAME} although there is one"
    )


def execute(arguments: argparse.Namespace) -> int:
    path = Path(DEFAULT_NAME)
    environ = dict(os.environ)
    if path.exists() and not arguments.force:
        raise ConfigError(f"{path} is there already: edit it, or write it anew with --force")
    servers = {}
    for name, address in local_servers(environ).items():
        servers[name] = ProviderTable(type=OPENAI_CHAT.name, base_url=address, local=True)
    settings = provider_settings(Configuration(providers=servers), environ, tell)
    settings = leave_out_second_names(settings)
    redact = keep_secrets(find_secrets(settings, environ))
    probes = []
    for probe in run_async(probe_all(settings.values())):
        # A key is found here, whether or not its vendor can be reached just now.
        if probe.reachable or settings[probe.provider].api_key:
            probes.append(probe)
    text = redact(write_configuration(probes, servers))
    write_output(path, text, "go where you may write")
    take_away_write_permission_of_others(path)
    trusted = read_trusted(environ)
    trusted.add(place_of(path), hashlib.sha256(text.encode()).hexdigest(), by_init=True)
    write_trusted(environ, trusted)
    for probe in probes:
        # Whose models are those of another provider is not one more server.
        if find_type(probe.provider).finds_models or not probe.models:
            tell(redact(_word_found(probe)))
        if probe.provider == OLLAMA_OPENAI.name and probe.models:
            tell(redact(word_ollama_apis(probe.models[0].name)))
    tell("Next: clawgauge run --dry-run shows what would be asked.", "Then: clawgauge run asks it.")
    sys.stdout.write(f"{path}\n")
    return DONE


def _word_found(probe: ProviderProbe) -> str:
    names = list_names([model.name for model in probe.models], _MAX_TARGETS)
    if names:
        return f"found {probe.provider}: {names}"
    if probe.reachable:
        return f"found {probe.provider}"
    return f"found {probe.provider}: a key"


def write_configuration(
    probes: Sequence[ProviderProbe], servers: Mapping[str, ProviderTable]
) -> str:
    """The file for what was found. Names are the servers' words: one that would not stand in a line
    is left out."""
    probe_by_provider = {probe.provider: probe for probe in probes}
    local = _find_local_targets(probes, servers)
    chosen = local[:_MAX_TARGETS] or [f"{EMBEDDED.name}:{EMBEDDED_MODEL}"]
    lines = []
    if len(local) > _MAX_TARGETS:
        more = plural(len(local) - _MAX_TARGETS, "more model")
        lines.append(f"# {more} can be had: clawgauge doctor names them.")
    lines += [*_HEADING.splitlines(), "targets = ["]
    for target in chosen:
        lines.append(f"  {_quoted(target)},")
    for name, provider_type in PROVIDER_TYPES.items():
        if provider_type.suggested_model is not None and name in probe_by_provider:
            target = _quoted(f"{name}:{provider_type.suggested_model}")
            lines.append(f"  # {target},    # costs money: take the # off to ask it")
    lines += ["]", *_REST.splitlines(), ""]
    for name, table in servers.items():
        if name in probe_by_provider:
            lines += [
                f"[providers.{name}]",
                f'type = "{OPENAI_CHAT.name}"',
                f"base_url = {_quoted(table.base_url or '')}",
                "local = true",
                "",
            ]
    return "\n".join(lines)


def _find_local_targets(
    probes: Sequence[ProviderProbe], servers: Mapping[str, ProviderTable]
) -> list[str]:
    """The chat models of servers on this machine, as targets."""
    targets = []
    for probe in probes:
        if probe.provider not in servers and probe.provider != OLLAMA_OPENAI.name:
            continue
        for model in probe.models:
            if model.kind == "chat" and model.name.isprintable():
                targets.append(f"{probe.provider}:{model.name}")
    return targets
