"""Say what can be reached from here: Ollama and its models, keys, the claude CLI, the embedded model.

Asks servers only about themselves; no model is called and nothing costs money.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Collection
from pathlib import Path

import msgspec

from clawgauge.cli.loop import run_async
from clawgauge.cli.process import DONE, NOTHING_ANSWERED, keep_secrets
from clawgauge.config import find_secrets, provider_settings, read_configuration, read_environment
from clawgauge.errors import CallFailure, ConfigError, MachineError
from clawgauge.journal import encode_document
from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.embedded.model import fetch
from clawgauge.providers.registry import create_provider
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
    parser.add_argument("--get-embedded", action="store_true", help="fetch the embedded model now")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="default: ./clawgauge.toml; in full only once trusted"
    )
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.get_embedded:
        return get_embedded()
    return examine(arguments.config, as_json=arguments.json)


def examine(config: Path | None, *, as_json: bool) -> int:
    """Probe everything; exit 0 as long as something can be used."""
    environ = read_environment()
    configuration = read_configuration(config, environ)
    if configuration.path is not None:
        _tell(clean_cell(f"using {configuration.path} ({configuration.standing})"))
    settings = provider_settings(configuration, environ, concurrency=1, tell=_tell)
    redact = keep_secrets(find_secrets(settings, environ))
    configured = configuration.withheld_providers | set(configuration.providers)
    probes = run_async(_probe_all(_worth_probing(settings, configured)))
    # Masked as a whole: versions and model names are the server's words too.
    if as_json:
        sys.stdout.write(encode_document(mask_strings(msgspec.to_builtins(probes), redact)).decode())
    else:
        sys.stdout.write(redact("".join(map(_lines, probes))))
    return DONE if any(probe.reachable for probe in probes) else NOTHING_ANSWERED


def _worth_probing(settings: dict[str, ProviderSettings], configured: Collection[str]) -> list[ProviderSettings]:
    """Everything but the bare `openai_chat` type, which has no address of its own unless one was given."""
    return [
        setting
        for name, setting in settings.items()
        if name != "openai_chat" or setting.base_url is not None or name in configured
    ]


async def _probe_all(settings: list[ProviderSettings]) -> list[ProviderProbe]:
    return list(await asyncio.gather(*(_probe(setting) for setting in settings)))


async def _probe(setting: ProviderSettings) -> ProviderProbe:
    try:
        async with create_provider(setting) as provider:
            return await provider.probe()
    except ConfigError as wrong:
        return ProviderProbe(provider=setting.name, reachable=False, detail=str(wrong))


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


def get_embedded() -> int:
    """Fetch the embedded model now, so that later runs need no network."""
    try:
        path = fetch(read_environment(), _tell)
    except CallFailure as failure:
        raise MachineError(failure.message) from failure
    sys.stdout.write(f"{path}\n")
    return DONE


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
