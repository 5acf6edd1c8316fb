"""Turn runs into a routing: which model answers, which takes over, which may have tools. No model
is asked.

The configuration goes to stdout, the table of every model to stderr, and the reason for each line
into a Markdown file.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from clawgauge.cli.files import configured_path, open_run, render, tell_unreadable, write_output
from clawgauge.cli.process import print_json, tell
from clawgauge.errors import ConfigError, DiskFailure, RequestError, RunFolderError
from clawgauge.journal import encode_document
from clawgauge.prices import load_prices, missing_key
from clawgauge.records import CapacitySummary
from clawgauge.reports.clean import clean_terminal
from clawgauge.reports.document import Prose, Section
from clawgauge.reports.route import (
    describe_decision,
    describe_forecast,
    render_diff,
    render_reasons,
)
from clawgauge.routing.chains import ChainForecast, best_chain, forecast, parse_chain
from clawgauge.routing.configuration import Routing
from clawgauge.routing.decision import Decision, decide
from clawgauge.routing.evidence import Evidence, gather_evidence
from clawgauge.routing.litellm import litellm_config
from clawgauge.routing.openclaw import models_in_use, openclaw_routing
from clawgauge.routing.openclaw_file import (
    find_conflicts,
    merge_patch,
    read_openclaw,
    write_openclaw,
)
from clawgauge.routing.policy import read_policy
from clawgauge.routing.wording import word_agreement, word_removed_by, word_tie
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "run",
        metavar="RUN",
        nargs="*",
        default=["latest"],
        help="a run id, a path to a run folder, or latest",
    )
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    add("--for", dest="made_for", choices=("openclaw", "litellm"), default="openclaw")
    add("--policy", type=Path, metavar="FILE", help="limits and weights, as TOML")
    add(
        "--prices",
        type=Path,
        metavar="FILE",
        help="your own prices, as TOML, over the built-in table",
    )
    add(
        "--config", type=Path, metavar="FILE", help="an openclaw.json that is there already (JSON5)"
    )
    add(
        "--current",
        type=Path,
        metavar="FILE",
        help="the openclaw.json in use (default: --config); in a tie it stays",
    )
    add("--dry-run", action="store_true", help="show what --write would change, as a diff")
    add("--write", action="store_true", help="write the patched --config FILE; a backup is kept")
    add(
        "--simulate",
        metavar="CHAIN",
        help="forecast a chain, e.g. 'local>codex>claude', and the best",
    )
    add(
        "--reasons",
        type=Path,
        metavar="FILE",
        help="where the reasons go (default: the run folder)",
    )
    add("-o", "--output", type=Path, metavar="FILE", help="the configuration into a file")
    add("--json", action="store_true", help="decision, reasons and configuration as JSON on stdout")


_ROUTER_NAMES = {"openclaw": "OpenClaw", "litellm": "LiteLLM"}


def execute(arguments: argparse.Namespace) -> int:
    """Print, show as a diff, or write the configuration, with the reasons beside it; or forecast a
    chain."""
    _check_arguments(arguments)
    folders, capacity = _open_runs(arguments)
    policy = read_policy(arguments.policy)
    prices = load_prices(arguments.prices or configured_path("prices"))
    config_path = arguments.config.expanduser() if _is_patching(arguments) else None
    config: dict[str, Any] = {}
    if config_path is not None and config_path.exists():
        config = read_openclaw(config_path)
    current = config
    if arguments.current is not None:
        current = read_openclaw(arguments.current.expanduser())
    evidence, n_unreadable = gather_evidence(folders, prices)
    decision = decide(evidence, policy, models_in_use(current, evidence))
    code = tell_unreadable(n_unreadable)
    if arguments.simulate is not None:
        _simulate(arguments.simulate, decision, as_json=arguments.json)
        return code
    if arguments.made_for == "litellm":
        routing = litellm_config(decision)
    else:
        routing = openclaw_routing(decision, current, capacity)
    _add_notes(routing, arguments, decision, evidence, config)
    _tell(render(describe_decision(decision), stream=sys.stderr))
    tell(*(f"note: {note}" for note in routing.notes))
    if config_path is not None:
        _apply(config_path, config, routing.settings, dry_run=arguments.dry_run)
    else:
        _write_configuration(arguments, decision, routing)
    if not arguments.dry_run:
        _write_reasons(arguments.reasons, folders[-1], arguments.made_for, decision, routing)
    return code


def _is_patching(arguments: argparse.Namespace) -> bool:
    return bool(arguments.dry_run or arguments.write)


def _check_arguments(arguments: argparse.Namespace) -> None:
    """Raises `RequestError` for options that do not go together."""
    is_patching = _is_patching(arguments)
    if arguments.simulate is not None:
        others = (arguments.config, arguments.output, arguments.reasons)
        if is_patching or any(others):
            raise RequestError(
                "--simulate only forecasts: "
                "leave out --config, --dry-run, --write, --reasons and -o"
            )
    if arguments.dry_run and arguments.write:
        raise RequestError("--dry-run shows what --write would do: give one of them")
    if arguments.config and not is_patching:
        raise RequestError("--config names a file to patch: say --dry-run or --write with it")
    if is_patching and arguments.made_for != "openclaw":
        raise RequestError(
            "--dry-run and --write patch an openclaw.json; for LiteLLM write a file with -o"
        )
    if is_patching and not arguments.config:
        raise RequestError("name the openclaw.json to patch: --config ~/.openclaw/openclaw.json")


def _open_runs(arguments: argparse.Namespace) -> tuple[list[Path], list[CapacitySummary]]:
    """The folders of the runs that asked prompts, and what those say that loaded a server.

    Raises `RequestError` where there are none of the first kind.
    """
    folders = []
    capacity = []
    for ref in arguments.run:
        path = open_run(ref, arguments.runs_dir, loads=False)
        config = Run.open(path).config
        if config is not None and config.capacity is not None:
            capacity += summarize_folder(path).capacity
        else:
            folders.append(path)
    if not folders:
        raise RequestError(
            "a capacity run only says how many at once: name it beside a run that asked prompts"
        )
    return folders, capacity


def _add_notes(
    routing: Routing,
    arguments: argparse.Namespace,
    decision: Decision,
    evidence: Sequence[Evidence],
    config: dict[str, Any],
) -> None:
    """What a person must know beside the notes that the configuration itself came with."""
    notes = routing.notes
    tie = word_tie(decision)
    if tie is not None:
        notes.append(tie)
    for measured in evidence:
        agreement = word_agreement(measured)
        if agreement:
            notes.append(f"{measured.label} {agreement}")
    if arguments.current is not None and not decision.in_use:
        # A name in the file is not repeated: it may be anything.
        nobody = "no model that the file of --current names was measured"
        notes.append(f"{nobody}: run it beside the others to compare them")
    if arguments.made_for == "openclaw":
        notes += find_conflicts(config, routing.settings)
    for measured in evidence:
        key = missing_key(measured.settings, os.environ)
        # Of the commands among the notes, which name their targets so.
        target_option = f" -t {shlex.quote(measured.label)} "
        if key and any(target_option in note for note in notes):
            notes.append(f"{key} is not set here: {measured.label} cannot be asked")


def _write_configuration(
    arguments: argparse.Namespace, decision: Decision, routing: Routing
) -> None:
    """The configuration, or all facts as JSON, to stdout or into the file of -o."""
    if arguments.json:
        text = encode_document(_facts(arguments.made_for, decision, routing)).decode()
    elif arguments.made_for == "openclaw":
        text = encode_document(routing.settings).decode()
    elif routing.settings:
        text = yaml.safe_dump(routing.settings, sort_keys=False, width=sys.maxsize)
    else:
        text = ""
    write_output(arguments.output, text)
    if arguments.output is not None:
        _tell(f"wrote {arguments.output}\n")


def _simulate(chain: str, decision: Decision, *, as_json: bool) -> None:
    """What that chain would have done, and the best one the policy allows."""
    chain_forecast = forecast(parse_chain(chain, decision))
    best = best_chain(decision)
    if as_json:
        best_facts = _forecast_facts(best) if best is not None else None
        print_json({"asked": _forecast_facts(chain_forecast), "best": best_facts})
        return
    sections = [describe_forecast(chain_forecast)]
    if best is None:
        answer = "no model keeps the policy's limits: there is no best chain"
        sections.append(Section("", [Prose([answer])]))
    elif best.chain == chain_forecast.chain:
        sections.append(Section("", [Prose(["no chain under the policy is better"])]))
    else:
        sections.append(Section("", [Prose(["the best under the policy"])]))
        sections.append(describe_forecast(best))
    sys.stdout.write(render(sections))


def _apply(path: Path, before: dict[str, Any], patch: dict[str, Any], *, dry_run: bool) -> None:
    after = merge_patch(before, patch)
    if before == after:
        _tell(f"{path} says all of this already\n")
    elif dry_run:
        sys.stdout.write(render_diff(before, after, path.name))
    else:
        backup = write_openclaw(path, after)
        backup_note = (
            f"; what was there is in {backup} (comments are kept only there)" if backup else ""
        )
        _tell(f"wrote {path}{backup_note}\n")


def _write_reasons(
    named_path: Path | None, folder: Path, made_for: str, decision: Decision, routing: Routing
) -> None:
    """The reason for each line, into the file that the user named, else into the run folder."""
    path = named_path or folder / f"routing_{made_for}.md"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        reasons = render_reasons(_ROUTER_NAMES[made_for], decision, routing, generated_at=now)
        write_output(path, reasons, "name a place with --reasons")
    except (RunFolderError, ConfigError, DiskFailure) as failure:
        if named_path is not None:
            raise
        # A run folder that is read-only can still be routed from.
        _tell(f"the reasons are not kept: {failure}\n")
        return
    _tell(f"the reason for each line is in {path}\n")


def _facts(made_for: str, decision: Decision, routing: Routing) -> dict[str, Any]:
    """The decision and the configuration for a script."""
    models = []
    for standing in decision.standings:
        model = {
            "model": standing.evidence.label,
            "run_id": standing.evidence.run_id,
            "kept": standing.kept,
            "removed_by": word_removed_by(standing),
            "score": standing.score,
            "scores": standing.scores,
            "best_share": standing.best_share if decision.is_by_shares else None,
            "behind_p": standing.behind_p,
        }
        models.append(model)
    reasons = []
    for line in routing.reasons:
        reason = {"path": line.path, "value": line.setting, "why": line.why, "model": line.model}
        reasons.append(reason)
    return {
        "for": made_for,
        "models": models,
        "jobs": decision.jobs,
        "tied": decision.tied,
        "in_use": decision.in_use,
        "configuration": routing.settings,
        "reasons": reasons,
        "notes": routing.notes,
    }


def _forecast_facts(chain_forecast: ChainForecast) -> dict[str, Any]:
    """The figures of a chain under their own names, and its members by their labels."""
    figures = {field.name: getattr(chain_forecast, field.name) for field in fields(chain_forecast)}
    return {**figures, "chain": [evidence.label for evidence in chain_forecast.chain]}


def _tell(text: str) -> None:
    sys.stderr.write(clean_terminal(text))
