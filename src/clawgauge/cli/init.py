"""Look around for models and write a clawgauge.toml that asks them: Ollama, llama.cpp, LM Studio, vLLM, keys, claude.

Servers are asked only about themselves, on their usual ports of this machine, or where OLLAMA_HOST and
CLAWGAUGE_LOCAL_SERVERS say. What costs money is named in the file, but not asked until you take the mark off."""

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
from clawgauge.config.providers import find_secrets, provider_settings
from clawgauge.config.settings import (
    DEFAULT_NAME,
    Configuration,
    ProviderTable,
    place_of,
    read_trusted,
    write_trusted,
)
from clawgauge.errors import ConfigError
from clawgauge.records import ProviderProbe
from clawgauge.registry import EMBEDDED, EMBEDDED_MODEL, OLLAMA_OPENAI, OPENAI_CHAT, PROVIDER_TYPES
from clawgauge.words import list_names, plural

_MAX_TARGETS = 8
# A printable text in JSON is a string of TOML as well.
_quoted = partial(json.dumps, ensure_ascii=False)
_REST = """\
# suites = ["core", "native_tools"]    # without it: some prompts of every kind
# repeats = 3                          # ask each prompt so many times
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
    redact = keep_secrets(find_secrets(settings, environ))
    # A key is found here, whether or not its vendor can be reached just now.
    probes = [
        one
        for one in run_async(probe_all(settings.values()))
        if one.reachable or settings[one.provider].api_key
    ]
    text = redact(write_configuration(probes, servers))
    write_output(path, text, "go where you may write")
    write_trusted(
        environ,
        {**read_trusted(environ), place_of(path): hashlib.sha256(text.encode()).hexdigest()},
    )
    for probe in probes:
        named = list_names([model.name for model in probe.models], _MAX_TARGETS) or (
            "" if probe.reachable else "a key"
        )
        tell(redact(f"found {probe.provider}{named and f': {named}'}"))
    tell("Next: clawgauge run --dry-run shows what would be asked, clawgauge run asks it.")
    sys.stdout.write(f"{path}\n")
    return DONE


def write_configuration(
    probes: Sequence[ProviderProbe], servers: Mapping[str, ProviderTable]
) -> str:
    """The file for what was found. Names are the servers' words: one that would not stand in a line is left out."""
    found = {probe.provider: probe for probe in probes}
    listed = [
        (name, model)
        for name, probe in found.items()
        for model in probe.models
        if model.kind == "chat"
    ]
    free = {*servers, OLLAMA_OPENAI.name}
    local = [
        f"{name}:{model.name}"
        for name, model in listed
        if name in free and model.name.isprintable()
    ]
    paid = []
    for name, provider_type in PROVIDER_TYPES.items():
        if provider_type.suggested_model is not None and name in found:
            paid.append(f"{name}:{provider_type.suggested_model}")
    lines = [
        "# What `clawgauge run` does when nothing else is said. An option on the command line wins.",
        "",
        "[run]",
    ]
    named = local[:_MAX_TARGETS] or [f"{EMBEDDED.name}:{EMBEDDED_MODEL}"]
    lines += ["targets = [", *(f"  {_quoted(target)}," for target in named)]
    lines += [
        f"  # {_quoted(target)},    # costs money: take the # off to ask it" for target in paid
    ]
    lines += ["]", _REST]
    if len(local) > _MAX_TARGETS:
        lines.insert(
            0,
            f"# {plural(len(local) - _MAX_TARGETS, 'more model')} can be had: clawgauge doctor names them.",
        )
    for name, table in servers.items():
        if name in found:
            lines += [
                f"[providers.{name}]",
                f'type = "{OPENAI_CHAT.name}"',
                f"base_url = {_quoted(table.base_url or '')}",
            ]
            lines += ["local = true", ""]
    return "\n".join(lines)
