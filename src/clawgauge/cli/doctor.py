"""Say what can be reached from here: Ollama and its models, keys, the claude CLI, the embedded
model.

Asks servers only about themselves; no model is called and nothing costs money."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from clawgauge.cli.preflight import probe_all
from clawgauge.cli.process import (
    DONE,
    NOTHING_ANSWERED,
    keep_secrets,
    print_json,
    row_for,
    run_async,
    tell,
)
from clawgauge.config.providers import (
    find_secrets,
    leave_out_second_names,
    provider_settings,
)
from clawgauge.config.settings import read_configuration
from clawgauge.config.verified_routing import read_verification
from clawgauge.errors import CallFailure, MachineError
from clawgauge.providers.base import ProviderSettings
from clawgauge.providers.embedded.provider import fetch
from clawgauge.records import ProviderProbe
from clawgauge.registry import EMBEDDED, OLLAMA_OPENAI, OPENAI, OPENAI_CHAT, find_type
from clawgauge.routing.verification.program import find_program, read_version
from clawgauge.secrets import mask_strings
from clawgauge.words import list_names, word_ollama_apis


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--get-embedded", action="store_true", help="fetch the embedded model now")
    add(
        "--nodes",
        metavar="NAME,…",
        help="what machines of clawgauge.toml have, instead of this one",
    )
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="default: ./clawgauge.toml; in full only once trusted",
    )
    add("--json", action="store_true", help="as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    environ = dict(os.environ)
    if arguments.get_embedded:
        try:
            sys.stdout.write(f"{run_async(fetch(environ, tell))}\n")
        except CallFailure as failure:
            raise MachineError(failure.message) from failure
        return DONE
    configuration = read_configuration(arguments.config, environ)
    if configuration.path is not None:
        tell(f"using {configuration.path} ({configuration.standing})")
    settings = leave_out_second_names(provider_settings(configuration, environ, tell))
    redact = keep_secrets(find_secrets(settings, environ))
    configured = configuration.withheld["providers"] | set(configuration.providers)
    probes = []
    # The bare type has no address of its own unless one was given.
    bare = settings.get(OPENAI_CHAT.name)
    if bare is not None and bare.base_url is None and OPENAI_CHAT.name not in configured:
        del settings[OPENAI_CHAT.name]
        why = (
            f"not checked: it has no address ({OPENAI.address_variable}, or base_url in "
            "clawgauge.toml)"
        )
        probe = ProviderProbe(provider=bare.name, reachable=False, checked=False, detail=why)
        probes = [probe]
    if arguments.nodes:
        from clawgauge.fleet.nodes import probe_nodes

        probes = run_async(probe_nodes(configuration, arguments.nodes.split(","), tell))
    else:
        probes = [*run_async(probe_all(settings.values())), *probes]
        probes = [probe for probe in probes if _is_told(probe, settings, configured)]
        # What can be asked is what a person looks for.
        probes.sort(key=lambda probe: not probe.reachable)
    # Masked as a whole: versions and model names are the server's words too.
    if arguments.json:
        print_json(mask_strings(msgspec.to_builtins(probes), redact))
    else:
        sys.stdout.write(redact("".join(map(_lines, probes))))
        for line in (*_ollama_lines(probes), *_routing_lines(environ)):
            sys.stdout.write(row_for(sys.stdout, redact(line)))
    return DONE if any(probe.reachable for probe in probes) else NOTHING_ANSWERED


def _is_told(
    probe: ProviderProbe, settings: Mapping[str, ProviderSettings], configured: Collection[str]
) -> bool:
    """Whether a probe is shown: not that of an agent program that nobody has installed or named."""
    if probe.reachable or probe.provider in configured or probe.provider not in settings:
        return True
    return not find_type(settings[probe.provider].type).is_agent


def _ollama_lines(probes: Sequence[ProviderProbe]) -> list[str]:
    """Which of Ollama's two APIs is asked unless one says otherwise."""
    for probe in probes:
        if probe.provider == OLLAMA_OPENAI.name and probe.reachable and probe.models:
            return [word_ollama_apis(probe.models[0].name)]
    return []


def _routing_lines(environ: Mapping[str, str]) -> list[str]:
    """With which OpenClaw a routing was verified last, and which one is here."""
    verified = read_verification(environ)
    program = find_program(environ)
    installed = read_version(program) if program is not None else None
    if verified is None:
        if installed is None:
            return []
        how = "clawgauge route RUN --config FILE --verify"
        return [f"?   routing for OpenClaw {installed}: not verified ({how})"]
    what = f"verified with OpenClaw {verified.openclaw} at {verified.at}"
    if verified.n_differ:
        what += f", {verified.n_differ} of {verified.n_places} places differed"
    mark = "no  " if verified.n_differ else "ok  "
    if installed is not None and installed != verified.openclaw:
        mark = "?   "
        what += f"; OpenClaw {installed} is here now: verify it again"
    return [f"{mark}routing: {what}"]


def _lines(probe: ProviderProbe) -> str:
    if not probe.checked:
        mark = "?   "
    elif probe.reachable:
        mark = "ok  "
    else:
        mark = "no  "
    version = f" {probe.version}" if probe.version else ""
    address = f" at {probe.address}" if probe.address else ""
    lines = [f"{mark}{probe.provider}{version}{address}: {probe.detail}"]
    names = []
    for model in probe.models:
        loaded = " (loaded)" if model.name in probe.loaded_models else ""
        names.append(f"{model.name}{loaded}")
    if names and probe.provider != EMBEDDED.name:
        lines.append(f"      models: {list_names(names, 12)}")
    if probe.hint and probe.hint not in probe.detail:
        lines.append(f"      → {probe.hint}")
    return "".join(row_for(sys.stdout, line) for line in lines)
