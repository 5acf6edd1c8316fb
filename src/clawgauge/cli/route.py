"""Turn runs into a routing: which model answers, which takes over, which may have tools. No model is asked.

The configuration goes to stdout, the table of every model to stderr, and the reason for each line into a Markdown file.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
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
from clawgauge.reports.clean import clean_terminal
from clawgauge.reports.document import Prose, Section
from clawgauge.reports.route import describe_decision, describe_forecast, render_diff, render_reasons
from clawgauge.routing import openclaw
from clawgauge.routing.chains import ChainForecast, best_chain, forecast, parse_chain
from clawgauge.routing.decision import Decision, Routing, decide, read_policy, word_agreement
from clawgauge.routing.evidence import gather_evidence
from clawgauge.routing.litellm import litellm_config
from clawgauge.run_data import Run
from clawgauge.summary import summarize_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", nargs="*", default=["latest"], help="a run id, a path to a run folder, or latest")
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    add("--for", dest="made_for", choices=("openclaw", "litellm"), default="openclaw")
    add("--policy", type=Path, metavar="FILE", help="limits and weights, as TOML")
    add("--prices", type=Path, metavar="FILE", help="your own prices, as TOML, over the built-in table")
    add("--config", type=Path, metavar="FILE", help="an openclaw.json that is there already (JSON5)")
    add("--current", type=Path, metavar="FILE", help="the openclaw.json in use (default: --config); in a tie it stays")
    add("--dry-run", action="store_true", help="show what --write would change, as a diff")
    add("--write", action="store_true", help="write the patched --config FILE; a backup is kept")
    add("--simulate", metavar="CHAIN", help="forecast a chain, e.g. 'local>codex>claude', and the best")
    add("--reasons", type=Path, metavar="FILE", help="where the reasons go (default: the run folder)")
    add("-o", "--output", type=Path, metavar="FILE", help="the configuration into a file")
    add("--json", action="store_true", help="decision, reasons and configuration as JSON on stdout")


_NAMES = {"openclaw": "OpenClaw", "litellm": "LiteLLM"}


def execute(arguments: argparse.Namespace) -> int:
    """Print, show as a diff, or write the configuration, with the reasons beside it; or forecast a chain."""
    config, made_for, output = arguments.config, arguments.made_for, arguments.output
    patches = arguments.dry_run or arguments.write
    simulates = arguments.simulate is not None and (patches or config or output or arguments.reasons)
    for wrong, words in (
        (simulates, "--simulate only forecasts: leave out --config, --dry-run, --write, --reasons and -o"),
        (arguments.dry_run and arguments.write, "--dry-run shows what --write would do: give one of them"),
        (config and not patches, "--config names a file to patch: say --dry-run or --write with it"),
        (patches and made_for != "openclaw",
         "--dry-run and --write patch an openclaw.json; for LiteLLM write a file with -o"),
        (patches and not config, "name the openclaw.json to patch: --config ~/.openclaw/openclaw.json"),
    ):  # fmt: skip
        if wrong:
            raise RequestError(words)
    folders = [open_run(ref, arguments.runs_dir, loads=False) for ref in arguments.run]
    loads = [path for path in folders if (plan := Run.open(path).config) is not None and plan.capacity is not None]
    capacity = [entry for path in loads for entry in summarize_folder(path).capacity]
    if not (folders := [path for path in folders if path not in loads]):
        raise RequestError("a capacity run only says how many at once: name it beside a run that asked prompts")
    policy, prices = read_policy(arguments.policy), load_prices(arguments.prices or configured_path("prices"))
    path = config.expanduser() if patches else None
    before = openclaw.read_openclaw(path) if path is not None and path.exists() else {}
    current = before if arguments.current is None else openclaw.read_openclaw(arguments.current.expanduser())
    evidence, n_unreadable = gather_evidence(folders, prices)
    decision = decide(evidence, policy, openclaw.models_in_use(current, evidence))
    code = tell_unreadable(n_unreadable)
    if arguments.simulate is not None:
        _simulate(arguments.simulate, decision, as_json=arguments.json)
        return code
    made = litellm_config(decision) if made_for == "litellm" else openclaw.openclaw_routing(decision, current, capacity)
    settings, notes = made.settings, made.notes
    text = encode_document(settings).decode()
    if made_for == "litellm":
        text = yaml.safe_dump(settings, sort_keys=False, width=sys.maxsize) if settings else ""
    notes += [decision.tie] if decision.tie else []
    notes += [f"{one.label} {words}" for one in evidence if (words := word_agreement(one))]
    if arguments.current is not None and not decision.in_use:
        # A name in the file is not repeated: it may be anything.
        notes.append("no model that the file of --current names was measured: run it beside the others to compare them")
    notes += openclaw.find_conflicts(before, settings) if made_for == "openclaw" else []
    for one in evidence:
        key, asked = missing_key(one.settings, os.environ), f" -t {shlex.quote(one.label)} "
        notes += [f"{key} is not set here: {one.label} cannot be asked"] if key and asked in "".join(notes) else []
    _tell(render(describe_decision(decision), stream=sys.stderr))
    tell(*(f"note: {note}" for note in notes))
    if path is not None:
        _apply(path, before, settings, dry_run=arguments.dry_run)
    else:
        write_output(output, encode_document(_facts(made_for, decision, made)).decode() if arguments.json else text)
        if output is not None:
            _tell(f"wrote {output}\n")
    if not arguments.dry_run:
        _write_reasons(arguments.reasons, folders[-1], made_for, decision, made)
    return code


def _simulate(chain: str, decision: Decision, *, as_json: bool) -> None:
    """What that chain would have done, and the best one the policy allows."""
    asked, best = forecast(parse_chain(chain, decision)), best_chain(decision)
    if as_json:
        print_json({"asked": _forecast_facts(asked), "best": _forecast_facts(best) if best else None})
        return
    words, better = "no model keeps the policy's limits: there is no best chain", []
    if best is not None and best.chain == asked.chain:
        words = "no chain under the policy is better"
    elif best is not None:
        words, better = "the best under the policy", [describe_forecast(best)]
    sys.stdout.write(render([describe_forecast(asked), Section("", [Prose([words])]), *better]))


def _apply(path: Path, before: dict[str, Any], patch: dict[str, Any], *, dry_run: bool) -> None:
    after = openclaw.merge_patch(before, patch)
    if before == after:
        _tell(f"{path} says all of this already\n")
    elif dry_run:
        sys.stdout.write(render_diff(before, after, path.name))
    else:
        backup = openclaw.write_openclaw(path, after)
        kept = f"; what was there is in {backup} (comments are kept only there)" if backup else ""
        _tell(f"wrote {path}{kept}\n")


def _write_reasons(named: Path | None, folder: Path, made_for: str, decision: Decision, made: Routing) -> None:
    path, now = named or folder / f"routing_{made_for}.md", datetime.now(UTC).isoformat(timespec="seconds")
    try:
        reasons = render_reasons(_NAMES[made_for], decision, made, generated_at=now)
        write_output(path, reasons, "name a place with --reasons")
    except (RunFolderError, ConfigError, DiskFailure) as failure:
        if named is not None:
            raise
        # A run folder that is read-only can still be routed from.
        _tell(f"the reasons are not kept: {failure}\n")
        return
    _tell(f"the reason for each line is in {path}\n")


def _facts(made_for: str, decision: Decision, made: Routing) -> dict[str, Any]:
    told, models = ("kept", "removed_by", "score", "scores", "best_share"), []
    for one in decision.standings:
        named = {"model": one.evidence.label, "run_id": one.evidence.run_id}
        models.append(named | {name: getattr(one, name) for name in told})
    whys = [{"path": one.path, "value": one.setting, "why": one.why, "model": one.model} for one in made.reasons]
    jobs = {"jobs": decision.jobs, "tied": decision.tied, "in_use": decision.in_use}
    facts = {"for": made_for, "models": models, **jobs}
    return {**facts, "configuration": made.settings, "reasons": whys, "notes": made.notes}


def _forecast_facts(found: ChainForecast) -> dict[str, Any]:
    figures = {field.name: getattr(found, field.name) for field in fields(found)}
    return {**figures, "chain": [evidence.label for evidence in found.chain]}


def _tell(words: str) -> None:
    sys.stderr.write(clean_terminal(words))
