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
from typing import TYPE_CHECKING, Any

import yaml

from clawgauge.cli.files import configured_path, open_run, render, tell_unreadable, write_output
from clawgauge.cli.process import DONE, keep_secrets, print_json, run_async, tell
from clawgauge.config.providers import find_secrets
from clawgauge.config.verified_routing import keep_verification
from clawgauge.environment import secrets_of_settings
from clawgauge.errors import ConfigError, DiskFailure, RequestError, RunFolderError
from clawgauge.journal import encode_document
from clawgauge.prices import load_prices, missing_key
from clawgauge.records import CapacitySummary
from clawgauge.registry import OLLAMA, OLLAMA_OPENAI
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
    find_kept,
    merge_patch,
    read_openclaw,
    undo_write,
    write_openclaw,
)
from clawgauge.routing.policy import read_policy
from clawgauge.routing.wording import word_agreement, word_removed_by, word_tie
from clawgauge.run_data import Run
from clawgauge.secrets import Redactor
from clawgauge.summary import summarize_folder
from clawgauge.verdict.wording import word_run

if TYPE_CHECKING:
    from clawgauge.routing.verification.verify import Verification


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
    add("--undo", action="store_true", help="put back what the last --write to --config FILE kept")
    add(
        "--verify",
        nargs="?",
        const="models",
        choices=("models", "slots"),
        help="ask the OpenClaw installed here what it would send; 'slots' starts its gateway, too",
    )
    add(
        "--verify-timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="how long --verify may take in all (default 600)",
    )
    add(
        "--even-so",
        action="store_true",
        help="with --write --verify: write although something differs, or could not be told",
    )
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


_MAX_VERIFY_S = 86_400
_ROUTER_NAMES = {"openclaw": "OpenClaw", "litellm": "LiteLLM"}


def execute(arguments: argparse.Namespace) -> int:
    """Print, show as a diff, or write the configuration, with the reasons beside it; or forecast a
    chain."""
    _check_arguments(arguments)
    if arguments.undo:
        return _undo(arguments.config.expanduser())
    folders, capacity = _open_runs(arguments)
    policy = read_policy(arguments.policy)
    prices = load_prices(arguments.prices or configured_path("prices"))
    config_path = arguments.config.expanduser() if arguments.config is not None else None
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
    verification = None
    if arguments.verify is not None:
        verification = _verify(arguments, config_path, decision, routing)
        code = verification.exit_code or code
        if arguments.write and verification.exit_code and not arguments.even_so:
            tell("nothing is written; mend what differs, or write it all the same with --even-so")
            return code
    if config_path is not None and _is_patching(arguments):
        _apply(config_path, config, routing.settings, dry_run=arguments.dry_run)
    elif verification is None or arguments.json or arguments.output is not None:
        _write_configuration(arguments, decision, routing, verification)
    if not arguments.dry_run:
        _write_reasons(arguments.reasons, folders[-1], arguments.made_for, decision, routing)
    return code


def _verify(
    arguments: argparse.Namespace, config_path: Path | None, decision: Decision, routing: Routing
) -> Verification:
    """What the OpenClaw of this machine would send: told on stdout where nothing else is."""
    from clawgauge.cli.capture import read_config
    from clawgauge.reports.verify import describe_verification
    from clawgauge.routing.verification.verify import VerifyOptions, verify_routing

    config = routing.settings
    if config_path is not None:
        there: dict[str, Any] = {}
        if config_path.exists():
            there = read_config(config_path, config_path.resolve().parent)
        config = merge_patch(there, routing.settings)
    environ = dict(os.environ)
    keep_secrets(find_secrets({}, environ))
    options = VerifyOptions(
        timeout_s=arguments.verify_timeout,
        with_gateway=arguments.verify == "slots",
        environ=environ,
        notify=tell,
    )
    evidence = [standing.evidence for standing in decision.standings]
    verification = run_async(verify_routing(config, evidence, options), with_uvloop=False)
    is_alone = not (arguments.dry_run or arguments.json)
    stream = sys.stdout if is_alone else sys.stderr
    redact = Redactor(set(secrets_of_settings(config)))
    for line in describe_verification(verification):
        stream.write(clean_terminal(f"{redact(line)}\n"))
    keep_verification(environ, verification)
    return verification


def _undo(path: Path) -> int:
    """Put back what the last --write kept."""
    restored = undo_write(path)
    _tell(
        f"{path} is as it was before the last --write; what was there until now is in "
        f"{restored.replaced}\n"
    )
    return DONE


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
    _check_undo(arguments)
    _check_verify(arguments)
    if arguments.dry_run and arguments.write:
        raise RequestError("--dry-run shows what --write would do: give one of them")
    if arguments.config and not (is_patching or arguments.undo or arguments.verify):
        raise RequestError(
            "--config names a file to patch: say --dry-run, --verify or --write with it"
        )
    if is_patching and arguments.made_for != "openclaw":
        raise RequestError(
            "--dry-run and --write patch an openclaw.json; for LiteLLM write a file with -o"
        )
    if is_patching and not arguments.config:
        raise RequestError("name the openclaw.json to patch: --config ~/.openclaw/openclaw.json")


def _check_undo(arguments: argparse.Namespace) -> None:
    if not arguments.undo:
        return
    others = (arguments.verify, arguments.output, arguments.reasons, arguments.json)
    if _is_patching(arguments) or any(others):
        raise RequestError("--undo puts a backup back, and does nothing else: give --config alone")
    if not arguments.config:
        raise RequestError("name the openclaw.json to put back: --config ~/.openclaw/openclaw.json")


def _check_verify(arguments: argparse.Namespace) -> None:
    if arguments.verify is None:
        if arguments.even_so:
            raise RequestError("--even-so is for --write with --verify")
        return
    if arguments.made_for != "openclaw" or arguments.simulate is not None:
        raise RequestError("--verify asks OpenClaw what it would send; it is for --for openclaw")
    if not 0 < arguments.verify_timeout <= _MAX_VERIFY_S:
        raise RequestError(f"--verify-timeout is a number of seconds up to {_MAX_VERIFY_S}")


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
        notes += _word_ollama_api(decision)
        notes += _word_includes(config)
        notes += find_conflicts(config, routing.settings)
        if config:
            merged = merge_patch(config, routing.settings)
            notes += find_kept(config, routing.settings, merged)
    for measured in evidence:
        key = missing_key(measured.settings, os.environ)
        # Of the commands among the notes, which name their targets so.
        target_option = f" -t {shlex.quote(measured.label)} "
        if key and any(target_option in note for note in notes):
            notes.append(f"{key} is not set here: {measured.label} cannot be asked")


def _word_includes(config: dict[str, Any]) -> list[str]:
    """What a file has in others is not read where it is patched."""
    unread: list[Any] = [config]
    while unread:
        value = unread.pop()
        if isinstance(value, dict):
            if "$include" in value:
                return [
                    "the file includes others, which are not read for the patch: what they set may "
                    "be overruled; --verify reads them"
                ]
            unread += value.values()
        elif isinstance(value, list):
            unread += value
    return []


def _word_ollama_api(decision: Decision) -> list[str]:
    """Which of Ollama's two APIs is routed to, where it is not the one that OpenClaw prefers."""
    labels = []
    for evidence in decision.ranked:
        if evidence.provider_type == OLLAMA_OPENAI.name:
            labels.append(f"{OLLAMA.name}:{evidence.target.model}")
    if not labels:
        return []
    return [
        "Ollama's /v1 was measured, and is what is routed to; OpenClaw itself talks to Ollama's "
        f"own API. To measure that: {' '.join(word_run(labels[:1], ()))}"
    ]


def _write_configuration(
    arguments: argparse.Namespace,
    decision: Decision,
    routing: Routing,
    verification: Verification | None,
) -> None:
    """The configuration, or all facts as JSON, to stdout or into the file of -o."""
    if arguments.json:
        facts = _facts(arguments.made_for, decision, routing)
        if verification is not None:
            from clawgauge.reports.verify import verification_facts

            facts["verification"] = verification_facts(verification)
        text = encode_document(facts).decode()
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
