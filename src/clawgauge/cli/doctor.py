"""Say what can be reached from here: Ollama and its models, keys, the claude CLI, the embedded model.

Asks servers only about themselves; no model is called and nothing costs money.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from clawgauge.cli.process import DONE, NOTHING_ANSWERED, keep_secrets, print_json, run_async
from clawgauge.config.providers import find_secrets, provider_settings
from clawgauge.config.settings import read_configuration
from clawgauge.errors import CallFailure, ConfigError, MachineError
from clawgauge.providers.base import ProviderSettings, create_provider
from clawgauge.providers.embedded.model import fetch
from clawgauge.records import ProviderProbe
from clawgauge.reports.clean import clean_cell, one_row
from clawgauge.secrets import mask_strings
from clawgauge.words import list_names

EXAMPLES = """\
examples:
  clawgauge doctor
  clawgauge doctor --get-embedded      fetch the embedded model now (93 MB, once)
"""
_MODELS_SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--get-embedded", action="store_true", help="fetch the embedded model now")
    add("--config", type=Path, metavar="FILE", help="default: ./clawgauge.toml; in full only once trusted")
    add("--json", action="store_true", help="as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    """Probe everything, and exit 0 as long as something can be used; or fetch the embedded model."""
    environ = dict(os.environ)
    if arguments.get_embedded:
        try:
            sys.stdout.write(f"{run_async(fetch(environ, _tell))}\n")
        except CallFailure as failure:
            raise MachineError(failure.message) from failure
        return DONE
    configuration = read_configuration(arguments.config, environ)
    if configuration.path is not None:
        _tell(clean_cell(f"using {configuration.path} ({configuration.standing})"))
    settings = provider_settings(configuration, environ, _tell)
    redact = keep_secrets(find_secrets(settings, environ))
    configured = configuration.withheld_providers | set(configuration.providers)
    # The bare `openai_chat` type has no address of its own unless one was given.
    if settings["openai_chat"].base_url is None and "openai_chat" not in configured:
        del settings["openai_chat"]
    probes = run_async(probe_all(settings.values()))
    # Masked as a whole: versions and model names are the server's words too.
    if arguments.json:
        print_json(mask_strings(msgspec.to_builtins(probes), redact))
    else:
        sys.stdout.write(redact("".join(map(_lines, probes))))
    return DONE if any(probe.reachable for probe in probes) else NOTHING_ANSWERED


async def probe_all(settings: Iterable[ProviderSettings]) -> list[ProviderProbe]:
    """What each provider says of itself, all asked at once."""

    async def probe(setting: ProviderSettings) -> ProviderProbe:
        try:
            async with create_provider(setting) as provider:
                return await provider.probe()
        except ConfigError as wrong:
            return ProviderProbe(provider=setting.name, reachable=False, detail=str(wrong))

    return list(await asyncio.gather(*map(probe, settings)))


def _lines(probe: ProviderProbe) -> str:
    mark = "ok  " if probe.reachable else "no  "
    where = f" at {probe.address}" if probe.address else ""
    version = f" {probe.version}" if probe.version else ""
    lines = [f"{mark}{probe.provider}{version}{where}: {probe.detail}"]
    names = [model.name + (" (loaded)" if model.name in probe.loaded_models else "") for model in probe.models]
    if names and probe.provider != "embedded":
        lines.append(f"      models: {list_names(names, _MODELS_SHOWN)}")
    if probe.hint:
        lines.append(f"      → {probe.hint}")
    return "".join(map(one_row, lines))


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
