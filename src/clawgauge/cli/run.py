"""Ask models the prompts of one or more suites and record every answer in RUNS_DIR/RUN_ID/.

Prints the run folder's path on stdout (the summary with --json); everything for a person goes to stderr."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clawgauge import plan as planning
from clawgauge.cli import process
from clawgauge.cli.estimate import foresight_lines, plan_facts, plan_lines
from clawgauge.cli.preflight import find_providers, guard_own_words, refuse_wrong_names
from clawgauge.cli.process import DONE, keep_secrets, run_async
from clawgauge.cli.resume import Resumed, find_resumed, open_work, resumed_plan
from clawgauge.config.providers import Tell, apply_patterns, find_secrets, parse_target, provider_settings
from clawgauge.config.settings import FIELDS, make_settings, read_configuration
from clawgauge.errors import ConfigError, RequestError
from clawgauge.journal import check_run_id, encode_line
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan
from clawgauge.reports.clean import clean_cell
from clawgauge.run_data.schedule import is_own_work
from clawgauge.runner.agenda import make_agenda, tier_pool
from clawgauge.stats.tiers import can_tell_tier_1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # None means: not said here, so file or default decide.
    switch: Any = {"action": "store_true", "default": None}
    either = argparse.BooleanOptionalAction
    add = parser.add_argument_group("what to ask").add_argument
    add("-t", "--target", dest="targets", action="append", metavar="TARGET", help="whom to ask; repeatable")
    add("--nodes", metavar="NAME,…", help="machines of clawgauge.toml to ask on; then -t NODE.PROVIDER:MODEL")
    add("-s", "--suite", dest="suites", action="append", metavar="NAME|FILE", help="default: some of every kind")
    add("--full", **switch, help="all prompts of all built-in suites")
    add("--prompt-ids", metavar="P0,P1", help="only these prompts (P1 of every suite, or SUITE/P1)")
    add("--draw", type=int, metavar="N", help="other values in the same prompts (default 0: as written)")
    add("--in-context", metavar="FILE", help="tool prompts also inside your own prompt (see clawgauge capture)")
    add("--repeats", type=int, metavar="N", help="ask each prompt N times (default 1)")
    add = parser.add_argument_group("how to ask").add_argument
    add("--concurrency", type=int, metavar="N", help="calls in flight to one target (default 1)")
    add("--timeout", type=float, metavar="S", help="total deadline of one attempt (default 300)")
    add("--max-tokens", type=int, metavar="N", help="bound a reply (default 1024; embedded 256)")
    add("--temperature", type=float, metavar="T", help="default 0 for local models, none sent to others")
    add("--seed", type=int, metavar="N", help="sampling seed, where the provider takes one")
    add("--stream", action=either, help="stream replies (default)")
    add("--warm-up", **switch, help="one call first that counts in nothing")
    add("--max-retries", type=int, metavar="N", help="after 429, 5xx, resets (default 5)")
    add("--max-wait", type=float, metavar="S", help="longest wait a server may ask for (default 60)")
    add("--unique-prefix", **switch, help="a line of its own before every prompt: no cached start")
    add("--interleave", action=either, help="ask all targets a prompt before the next: times can be compared")
    add("--unload-others", **switch, help="unload other Ollama models first")
    add = parser.add_argument_group("how much is enough").add_argument
    add("--until-decided", action=either, help="ask tool prompts only until Tier 1 or not is 95%% sure")
    add("--max-calls", type=int, metavar="N", help="ask each target at most N prompts in all")
    add("--max-cost", type=float, metavar="USD", help="stop when the calls have cost this much")
    add("--stop-after-errors", type=int, metavar="N", help="give a target up after N errors in a row")
    add("--prices", metavar="FILE", help="your own prices, as TOML, over the built-in table")
    add = parser.add_argument_group("where it goes").add_argument
    add("--runs-dir", metavar="DIR", help="default: runs")
    add("--run-id", metavar="ID", help="default: local time, YYYYMMDD_HHMMSS")
    add("--resume", metavar="RUN", help="go on with an unfinished run")
    add("--retry-errors", action="store_true", help="with --resume: ask again what had no answer")
    add("--force", action="store_true", help="with --resume: go on although the plan has changed")
    add("--config", type=Path, metavar="FILE", help="default: ./clawgauge.toml; in full only once trusted")
    add("--yes", action="store_true", help="what is your own may be sent to models elsewhere")
    add("--dry-run", action="store_true", help="show the plan; ask nothing")
    add("--quiet", "-q", action="store_true", help="no progress; errors are told all the same")
    add("--verbose", "-v", action="store_true", help="every figure at the end, not only the answer")
    add("--json", action="store_true", help="the summary as JSON on stdout")
    add("--fail-under", type=float, metavar="RATE", help="exit 1 if a target's pass rate is lower")


def execute(arguments: argparse.Namespace) -> int:
    resumes, quiet = arguments.resume is not None, arguments.quiet
    if not resumes and (arguments.retry_errors or arguments.force):
        raise RequestError("--retry-errors and --force go on with a run: name it with --resume RUN")
    if resumes and (arguments.run_id is not None or arguments.in_context is not None):
        raise RequestError("--resume goes without --run-id and --in-context: a resumed run keeps both")
    values = [value if isinstance(value, list) else [value] for value in vars(arguments).values()]
    words = [str(word) for value in values for word in value if isinstance(word, str | Path)]
    said = {name: value for name in FIELDS if (value := getattr(arguments, name)) is not None}
    for name in said.keys() & {"prompt_ids", "nodes"}:
        said[name] = [word.strip() for word in said[name].split(",") if word.strip()]

    def tell(line: str) -> None:
        if not quiet:
            process.tell(*line.split("\n"))

    plan = make_plan(said, words, arguments.config, tell, resumes=resumes)
    runs_dir, resumed = Path(plan.settings.runs_dir), None
    if arguments.run_id is not None:
        check_run_id(arguments.run_id)
    if resumes:
        resumed = find_resumed(arguments.resume, runs_dir, retry_errors=arguments.retry_errors, force=arguments.force)
        if resumed.recorded.capacity is not None:
            raise RequestError(f"{resumed.path} is a capacity run: go on with it by `clawgauge capacity --resume`")
        nodes = [str(one["node"]) for one in resumed.recorded.providers.values() if "node" in one]
        if nodes and plan.drive is None:
            from clawgauge.fleet.driver import join

            plan = run_async(join(plan, read_configuration(arguments.config, plan.environ), nodes, tell))
        plan = resumed_plan(plan, resumed, said)
    plan = _settle(plan, resumed, tell if plan.drive is None else lambda _: None)
    if not arguments.dry_run:
        if plan.context is not None or any(map(is_own_work, plan.asked)):
            own = "your own prompt" if plan.context is not None else "your own history"
            guard_own_words(plan, own, yes=arguments.yes)
        from clawgauge.cli.session import run_session

        shown = {"quiet": quiet, "verbose": arguments.verbose, "as_json": arguments.json}
        return run_async(run_session(plan, resumed, arguments.run_id, tell, **shown))
    # What a run would refuse has been refused, by the same code and in the same words.
    if resumed is not None:
        plan = replace(plan, work=open_work(plan, resumed))
    refuse_wrong_names(plan, [target for target in plan.targets if make_agenda(plan, target).n_open])
    if resumed is None:
        RunFolder.check_creatable(runs_dir, arguments.run_id)
    process.tell(*plan_lines(plan), *foresight_lines(plan))
    if arguments.json:
        sys.stdout.write(encode_line(plan_facts(plan)).decode())
    return DONE


def make_plan(
    said: Mapping[str, Any], words: list[str], config: Path | None, tell: Tell, *, resumes: bool, suites: bool = True
) -> Plan:
    """What the command line, the file and the environment decide; with targets, unless a resumed run has its own."""
    environ = dict(os.environ)
    if in_environment := find_secrets({}, environ):
        planning.refuse_secrets({"the command line": words}, in_environment)
    configuration = read_configuration(config, environ)
    names_targets = not resumes or "targets" in said
    # A resumed run has targets and suites of its own.
    wanted = FIELDS.keys() - said.keys() - (set() if names_targets else {"targets", "unload_others"})
    wanted -= {"suites"} if resumes or not suites else set()
    settings = make_settings(configuration.under(said, wanted), environ)
    named = None if resumes else {text.removeprefix("!").partition(":")[0] for text in settings.targets}
    providers = provider_settings(configuration, environ, tell, named)
    secrets = find_secrets(providers, environ)
    redact = keep_secrets(secrets)
    if secrets:
        words = [*words, *settings.targets, settings.runs_dir]
        planning.refuse_secrets({"the command line or the configuration file": words}, secrets)
    plan = Plan(settings, providers=providers, config_file=config, environ=environ, secrets=secrets, redact=redact)
    plan = replace(plan, jobs=configuration.jobs)
    if suites and (not resumes or "suites" in said):
        plan = planning.with_prompts(plan, Path() if "suites" in said else configuration.folder, tell, resumes=resumes)
    texts, known = settings.targets, (*configuration.nodes, *configuration.withheld["nodes"])
    # A command that a run ends with names its nodes in its targets alone.
    named_nodes = [text.removeprefix("!").partition(":")[0].partition(".")[0] for text in texts]
    nodes = settings.nodes or [n for n in named_nodes if any(n == one or n.startswith(f"{one}-") for one in known)]
    if nodes:
        from clawgauge.fleet.driver import join, spell_out

        plan = run_async(join(plan, configuration, nodes, tell, together=not suites))
        texts, providers = spell_out(plan, texts), dict(plan.providers)
    elif any(text.removeprefix("!").partition(":")[0] not in providers for text in texts):
        texts = run_async(find_providers(texts, providers, tell))
    patterns = [parse_target(text, providers) for text in texts]
    chosen = [pattern for pattern in patterns if not pattern.excludes]
    for pattern in chosen:
        if names_targets and (why := providers[pattern.target.provider].unusable) is not None:
            raise ConfigError(why)
    all_named = bool(chosen) and not any(pattern.is_wild for pattern in chosen)
    if names_targets and all_named:
        plan = planning.with_targets(plan, apply_patterns(patterns, {}))
    if configuration.path is not None:
        named_in = [(table, name) for table, names in configuration.withheld.items() for name in sorted(names)]
        withheld = [f"[run] {name}" if table == "run" else f"[{table}.{name}]" for table, name in named_in]
        left_out = f"; left out, until `clawgauge trust`: {', '.join(withheld)}" if withheld else ""
        tell(clean_cell(f"using {configuration.path} ({configuration.standing}){left_out}"))
    if all_named or not names_targets:
        return plan
    return planning.with_targets(plan, run_async(planning.find_targets(plan, patterns, tell)))


def _settle(plan: Plan, resumed: Resumed | None, tell: Tell) -> Plan:
    settings = plan.settings
    if settings.until_decided and plan.context is not None:
        raise ConfigError("--until-decided leaves out what --in-context compares: use one of them")
    n_families = len({prompt.family for prompt in tier_pool(plan.prompts)}) if settings.until_decided else 0
    if settings.until_decided and not (can_tell_tier_1(0, 0, n_families) or (resumed and n_families)):
        suites = ", ".join(suite.name for suite in plan.suites)
        found = f"the prompts chosen of {suites} have {'too few to decide anything' if n_families else 'none'}"
        needs = f"--until-decided needs prompts that expect a tool, and {found}"
        raise ConfigError(f"{needs}: add -s tool_use, or leave the option out")
    if settings.interleave and (resumed is None or not resumed.force):
        import psutil

        run_async(planning.refuse_eviction(plan, psutil.virtual_memory().available))
    plan = planning.fit_to_providers(plan, tell)
    return planning.price_targets(plan, resumed.recorded.prices if resumed else {})
