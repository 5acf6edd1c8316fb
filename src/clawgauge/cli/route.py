"""Turn runs into a routing: which model answers, which takes over, which may have tools. No model is asked.

The configuration goes to stdout, the table of every model to stderr, and the reason for each line into a Markdown file.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from clawgauge.cli.files import (
    configured_path,
    open_run,
    output_width,
    print_output,
    tell_unreadable,
    write_output,
)
from clawgauge.cli.process import print_json
from clawgauge.errors import ConfigError, DiskFailure, RequestError, RunFolderError
from clawgauge.journal import encode_document
from clawgauge.prices import load_prices
from clawgauge.reports.clean import clean_cell, clean_terminal
from clawgauge.reports.document import Prose, Section
from clawgauge.reports.route import describe_decision, describe_forecast, render_diff, render_reasons
from clawgauge.routing.chains import ChainForecast, best_chain, forecast, parse_chain
from clawgauge.routing.decision import Decision, Reason, decide, read_policy
from clawgauge.routing.evidence import gather_evidence
from clawgauge.routing.litellm import litellm_config
from clawgauge.routing.openclaw import (
    find_conflicts,
    merge_patch,
    models_in_use,
    openclaw_routing,
    read_openclaw,
    write_openclaw,
)

EXAMPLES = """\
examples:
  clawgauge route latest                                   a patch for openclaw.json on stdout
  clawgauge route latest --config ~/.openclaw/openclaw.json --dry-run
  clawgauge route latest --config ~/.openclaw/openclaw.json --write
  clawgauge route latest --current ~/.openclaw/openclaw.json       in a tie, what is in use stays
  clawgauge route run-a run-b --for litellm -o litellm.yaml
  clawgauge route latest --policy policy.toml --simulate 'local>codex>claude'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="+", help="a run id, a path to a run folder, or latest")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    parser.add_argument("--for", dest="made_for", choices=("openclaw", "litellm"), default="openclaw")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="limits and weights, as TOML")
    parser.add_argument("--prices", type=Path, metavar="FILE", help="your own prices, as TOML, over the built-in table")
    parser.add_argument("--config", type=Path, metavar="FILE", help="an openclaw.json that is there already (JSON5)")
    parser.add_argument(
        "--current", type=Path, metavar="FILE", help="the openclaw.json in use (default: --config); in a tie it stays"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what --write would change, as a diff")
    parser.add_argument("--write", action="store_true", help="write the patched --config FILE; a backup is kept")
    parser.add_argument("--simulate", metavar="CHAIN", help="forecast a chain, e.g. 'local>codex>claude', and the best")
    parser.add_argument("--reasons", type=Path, metavar="FILE", help="where the reasons go (default: the run folder)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the configuration into a file")
    parser.add_argument("--json", action="store_true", help="decision, reasons and configuration as JSON on stdout")


_NAMES = {"openclaw": "OpenClaw", "litellm": "LiteLLM"}


def execute(arguments: argparse.Namespace) -> int:
    """Print, show as a diff, or write the configuration, with the reasons beside it; or forecast a chain."""
    config, made_for, output = arguments.config, arguments.made_for, arguments.output
    patches = arguments.dry_run or arguments.write
    if arguments.simulate is not None and (patches or config or output or arguments.reasons):
        raise RequestError("--simulate only forecasts: leave out --config, --dry-run, --write, --reasons and -o")
    if arguments.dry_run and arguments.write:
        raise RequestError("--dry-run shows what --write would do: give one of them")
    if config is not None and not patches:
        raise RequestError("--config names a file to patch: say --dry-run or --write with it")
    if patches and made_for != "openclaw":
        raise RequestError("--dry-run and --write patch an openclaw.json; for LiteLLM write a file with -o")
    if patches and config is None:
        raise RequestError("name the openclaw.json to patch: --config ~/.openclaw/openclaw.json")
    folders = [open_run(ref, arguments.runs_dir) for ref in arguments.run]
    policy = read_policy(arguments.policy)
    prices = load_prices(arguments.prices or configured_path("prices"))
    path = config.expanduser() if patches else None
    before = read_openclaw(path) if path is not None and path.exists() else {}
    current = before if arguments.current is None else read_openclaw(arguments.current.expanduser())
    evidence, n_unreadable = gather_evidence(folders, prices)
    decision = decide(evidence, policy, models_in_use(current, evidence))
    code = tell_unreadable(n_unreadable)
    if arguments.simulate is not None:
        _simulate(arguments.simulate, decision, as_json=arguments.json)
        return code
    routing = litellm_config(decision) if made_for == "litellm" else openclaw_routing(decision, current)
    settings, reasons, notes = routing.settings, routing.reasons, routing.notes
    text = encode_document(settings).decode()
    if made_for == "litellm":
        text = yaml.safe_dump(settings, sort_keys=False, width=sys.maxsize) if settings else ""
    notes += _standing_notes(decision, arguments.current is not None)
    notes += find_conflicts(before, settings) if made_for == "openclaw" else []
    from clawgauge.reports.terminal import as_text

    _tell(as_text([describe_decision(decision)], output_width()))
    for note in notes:
        _tell(f"note: {clean_cell(note)}\n")
    if path is not None:
        _apply(path, before, settings, dry_run=arguments.dry_run)
    else:
        facts = _facts(made_for, decision, settings, reasons, notes)
        print_output(output, encode_document(facts).decode() if arguments.json else text)
        if output is not None:
            _tell(f"wrote {output}\n")
    if not arguments.dry_run:
        _write_reasons(arguments.reasons, folders[-1], made_for, decision, reasons, notes)
    return code


def _standing_notes(decision: Decision, current_named: bool) -> list[str]:
    """A tie, and whether what is in use was measured. A name in the file is not repeated: it may be anything."""
    notes = [decision.tie] if decision.tie else []
    if current_named and not decision.in_use:
        notes.append("no model that the file of --current names was measured: run it beside the others to compare them")
    return notes


def _simulate(chain: str, decision: Decision, *, as_json: bool) -> None:
    """What that chain would have done, and the best one the policy allows."""
    asked = forecast(parse_chain(chain, decision))
    best = best_chain(decision)
    if as_json:
        print_json({"asked": _forecast_facts(asked), "best": _forecast_facts(best) if best else None})
        return
    from clawgauge.reports.terminal import as_text

    sections = [describe_forecast(asked)]
    if best is None:
        sections.append(Section("", [Prose(["no model keeps the policy's limits: there is no best chain"])]))
    elif best.chain == asked.chain:
        sections.append(Section("", [Prose(["no chain under the policy is better"])]))
    else:
        sections += [Section("", [Prose(["the best under the policy"])]), describe_forecast(best)]
    sys.stdout.write(as_text(sections, output_width()))


def _apply(path: Path, before: dict[str, Any], patch: dict[str, Any], *, dry_run: bool) -> None:
    after = merge_patch(before, patch)
    if before == after:
        _tell(f"{path} says all of this already\n")
        return
    if dry_run:
        sys.stdout.write(render_diff(before, after, path.name))
        return
    backup = write_openclaw(path, after)
    kept = f"; what was there is in {backup} (comments are kept only there)" if backup else ""
    _tell(f"wrote {path}{kept}\n")


def _write_reasons(
    named: Path | None, folder: Path, made_for: str, decision: Decision, reasons: list[Reason], notes: list[str]
) -> None:
    path = named or folder / f"routing_{made_for}.md"
    text = render_reasons(
        made_for=_NAMES[made_for],
        decision=decision,
        reasons=reasons,
        notes=notes,
        generated_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    try:
        write_output(path, text)
    except (RunFolderError, ConfigError, DiskFailure) as failure:
        if named is not None:
            raise
        # A run folder that is read-only can still be routed from.
        _tell(f"the reasons are not kept: {failure}\n")
        return
    _tell(f"the reason for each line is in {path}\n")


def _facts(
    made_for: str, decision: Decision, settings: dict[str, Any], reasons: list[Reason], notes: list[str]
) -> dict[str, Any]:
    models = [
        {
            "model": standing.evidence.label,
            "run_id": standing.evidence.run_id,
            "kept": standing.kept,
            "removed_by": standing.removed_by,
            "score": standing.score,
            "scores": standing.scores,
            "best_share": standing.best_share,
        }
        for standing in decision.standings
    ]
    whys = [{"path": one.path, "value": one.setting, "why": one.why, "model": one.model} for one in reasons]
    facts = {"for": made_for, "models": models, "tied": decision.tied, "in_use": decision.in_use}
    return {**facts, "configuration": settings, "reasons": whys, "notes": notes}


def _forecast_facts(found: ChainForecast) -> dict[str, Any]:
    figures = {field.name: getattr(found, field.name) for field in fields(found)}
    return {**figures, "chain": [evidence.label for evidence in found.chain]}


def _tell(words: str) -> None:
    sys.stderr.write(clean_terminal(words))
