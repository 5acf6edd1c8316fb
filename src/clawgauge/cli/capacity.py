"""Load a server and say what it can carry: how many at once, with prompts how long, within which limits.

Clients ask in turn, 1, 2, 4 … of them until more bring no more; with --rate, arrivals are scheduled at random times.
Prints the run folder's path on stdout (the summary with --json); everything for a person goes to stderr."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from clawgauge.cli.preflight import refuse_wrong_names
from clawgauge.cli.process import DONE, run_async
from clawgauge.cli.resume import Resumed, find_resumed, open_work, resumed_plan
from clawgauge.cli.run import make_plan
from clawgauge.client_limits import fit_to_descriptors
from clawgauge.config.providers import Tell
from clawgauge.config.settings import read_configuration
from clawgauge.errors import ConfigError, RequestError
from clawgauge.journal import encode_line
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import Plan, price_targets
from clawgauge.records import CapacityOptions, Slo, StepSummary, Target
from clawgauge.reports.capacity import word_step
from clawgauge.reports.clean import clean_lines
from clawgauge.verdict.wording import word_tokens
from clawgauge.words import format_duration, format_latency, list_names, plural

_EMBEDDED_SLOTS = 4  # what the embedded server, which is there for the run alone, serves side by side
_MIN_ARRIVALS = 10
_LENGTH, _LIMITS = "tokens, from 100 to 4000k, such as 800 or 16k", "ttft=2s,tpot=80ms"
_COUNTS, _TIMES = {"": 1.0, "k": 1_000.0}, {"ms": 1.0, "s": 1_000.0, "m": 60_000.0}
_SPANS, _WARM_UP = {"": 1_000.0, **_TIMES}, 1.25
_TOGETHER = ("interleave", "unload_others")
_DEFAULTS = {
    "context": "2k", "output": "128", "slo": None, "max_concurrency": None, "rate": None, "duration": "60s",
    "shape": "plain", "shared_prefix": "0", "swap": False, "max_time": "15m",
}  # fmt: skip
_PLAN = ("targets", "nodes", "timeout", "max_cost", "prices", "runs_dir")
_WITHIN = {"ttft_ms": "the first token within {}", "tpot_ms": "a token every {}", "e2e_ms": "all of it within {}"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what load").add_argument
    add("-t", "--target", dest="targets", action="append", metavar="TARGET", help="whom to load; repeatable")
    add("--nodes", metavar="NAME,…", help="machines of clawgauge.toml that make the load, together")
    add("--context", metavar="2k,16k", help="tokens of a prompt, k = 1,000 (default 2k)")
    add("--output", metavar="N", help="tokens of an answer at most (default 128)")
    add("--slo", metavar="ttft=2s,tpot=80ms,e2e=30s", help="what 95%% of the requests must keep")
    add("--max-concurrency", metavar="N", help="most calls at once (default 64; with --rate 1024)")
    add("--rate", metavar="0.5..8", help="arrivals a second, at random times (Poisson): from..to, or a,b,c")
    add("--duration", metavar="60s", help="how long each rate is held (default 60s)")
    add("--shape", choices=("plain", "agent"), help="agent: growing context, pauses, fan-out")
    add("--shared-prefix", metavar="N", help="tokens that all prompts begin with (default 0)")
    add("--swap", action="store_true", default=None, help="what changing between models costs; unloads them first")
    add = parser.add_argument_group("how much is enough").add_argument
    add("--max-time", metavar="15m", help="for all of it (default 15m)")
    add("--max-cost", type=float, metavar="USD", help="stop at this cost; needed where calls are paid for")
    add("--prices", metavar="FILE", help="your own prices, as TOML, over the built-in table")
    add("--timeout", type=float, metavar="S", help="total deadline of one call (default 300)")
    add = parser.add_argument_group("where it goes").add_argument
    add("--runs-dir", metavar="DIR", help="default: runs")
    add("--run-id", metavar="ID", help="default: local time, YYYYMMDD_HHMMSS")
    add("--resume", metavar="RUN", help="go on with a capacity run; the steps it has stand")
    add("--config", type=Path, metavar="FILE", help="default: ./clawgauge.toml; in full only once trusted")
    add("--dry-run", action="store_true", help="show what would be tried; ask nothing")
    add("--quiet", "-q", action="store_true", help="no progress")
    add("--json", action="store_true", help="the summary as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    resumed, done = None, dict[tuple[str, int, float], StepSummary]()
    if (arguments.resume is None) != bool(arguments.targets):
        raise RequestError("name whom to load with -t PROVIDER:MODEL, or a run to go on with: --resume RUN")
    given = [name for name in _DEFAULTS if getattr(arguments, name) is not None]
    if arguments.resume is not None and given not in ([], ["max_time"]):
        raise RequestError("--resume goes on with the load the run was begun with: only --max-time may be another")
    options = read_options(arguments)
    if options.swap and not {"swap", "max_time"} >= {*given}:
        raise RequestError("--swap changes models and makes no load: only --max-time goes with it")
    said = {name: value for name in _PLAN if (value := getattr(arguments, name)) is not None}
    said |= {"nodes": [word.strip() for word in said["nodes"].split(",")]} if "nodes" in said else {}
    # What failed is slower than any answer: it is not asked again. Models that are changed are all at hand.
    said |= {"max_retries": 0, "concurrency": _EMBEDDED_SLOTS} | dict.fromkeys(_TOGETHER if options.swap else (), True)
    values = [*vars(arguments).values(), *said.get("targets", [])]
    words = [str(word) for word in values if isinstance(word, str | Path)]

    def tell(line: str) -> None:
        if not arguments.quiet:
            sys.stderr.write(clean_lines(line))

    def told(target: Target, context_tokens: int, what: StepSummary | str) -> None:
        tell(plan.redact(what if isinstance(what, str) else word_step(context_tokens, what)))

    plan = make_plan(said, words, arguments.config, tell, resumes=arguments.resume is not None, suites=False)
    if arguments.resume is not None:
        from clawgauge.summary import summarize_folder

        resumed = find_resumed(arguments.resume, Path(plan.settings.runs_dir), retry_errors=False, force=False)
        if resumed.recorded.capacity is None or resumed.recorded.capacity.swap:
            raise ConfigError(f"{resumed.path} is no capacity run to go on with: use `clawgauge run --resume`")
        nodes = [str(one["node"]).split(",") for one in resumed.recorded.providers.values() if "node" in one]
        if nodes and plan.drive is None:
            from clawgauge.fleet.driver import join

            configuration, on = read_configuration(arguments.config, plan.environ), list(dict.fromkeys(chain(*nodes)))
            plan = run_async(join(plan, configuration, on, tell, together=True))
        anew = {"max_time_s": options.max_time_s} if given else {}
        options = msgspec.structs.replace(resumed.recorded.capacity, **anew)
        plan = resumed_plan(plan, resumed, said | {"suites": []})
        plan = replace(plan, work=open_work(plan, resumed))
        entries = summarize_folder(resumed.path).capacity
        done = {(entry.target, entry.context_tokens, step.level): step for entry in entries for step in entry.steps}
    plan = _settle(replace(plan, capacity=options), options, resumed, tell)
    labels = [target.label for target in plan.targets]
    tell(f"{', '.join(labels)}: {word_load(plan.capacity or options)}")
    if arguments.dry_run:
        refuse_wrong_names(plan, plan.targets)
        RunFolder.check_creatable(Path(plan.settings.runs_dir), arguments.run_id)
        sys.stdout.write(encode_line({"targets": labels, "capacity": plan.capacity}).decode() if arguments.json else "")
        return DONE
    # Loaded only now: a rehearsal needs none of it.
    from clawgauge.capacity.measure import measure_capacity
    from clawgauge.cli.session import run_session

    if plan.drive is not None:
        from clawgauge.fleet.load import load_together

        plan = replace(plan, drive=partial(plan.drive, load=partial(load_together, told, done)))
    shown = {"quiet": arguments.quiet, "verbose": False, "as_json": arguments.json}
    work = partial(measure_capacity, told, done)
    return run_async(run_session(plan, resumed, arguments.run_id, tell, work=work, **shown))


def _settle(plan: Plan, options: CapacityOptions, resumed: Resumed | None, tell: Tell) -> Plan:
    """No more at once than this machine can open, and nothing that costs money without a limit."""
    if options.swap and len(plan.targets) < 2:
        raise ConfigError("--swap changes between models: name at least two with -t")
    asking = (str(plan.provider(target.provider).describe().get("node")) for target in plan.targets if plan.drive)
    n_nodes = max((names.count(",") + 1 for names in asking), default=1)
    if options.rates and options.max_concurrency < n_nodes:
        raise ConfigError(f"--max-concurrency is shared out to the nodes: with --rate give {n_nodes} or more")
    plan = price_targets(plan, resumed.recorded.prices if resumed else {})
    if plan.settings.max_cost_usd is None and (paid := [t.label for t in plan.targets if t not in plan.free]):
        own = "a server of your own has `local = true` in its table"
        raise ConfigError(f"loading {', '.join(paid)} may cost money: say how much with --max-cost ({own})")
    per_call = max(plan.provider(target.provider).descriptors_per_call for target in plan.targets)
    fitted = fit_to_descriptors(options.max_concurrency, per_call)
    if plan.drive is None and fitted < options.max_concurrency:
        tell(f"this machine's limit of open files allows {plural(fitted, 'call')} at once")
        plan = replace(plan, capacity=msgspec.structs.replace(options, max_concurrency=fitted))
    return plan


def word_load(options: CapacityOptions) -> str:
    """What is about to be tried, as one would say it."""
    within = [_WITHIN[name].format(format_latency(limit)) for name, limit in options.slo.limits.items()]
    until = f", until fewer than 95% have {' and '.join(within)}" if within else ""
    load = f"1, 2, 4 … up to {options.max_concurrency} at once{until or ', until more bring no more'}"
    if options.rates:
        rates, each = list_names([f"{rate:g}" for rate in options.rates], 9), format_duration(options.duration_s * 1000)
        load = f"{rates} requests a second, each for {each}, at most {options.max_concurrency} at once{until}"
    lengths = list_names([word_tokens(tokens) for tokens in options.contexts], 9)
    shared = f", the first {word_tokens(options.shared_prefix)} of them the same" if options.shared_prefix else ""
    agents = ", which grow, with pauses, as an agent's do" if options.shape == "agent" else ""
    texts = f"prompts of {lengths} tokens{shared}{agents}, answers of up to {options.output_tokens}"
    what = "one model after the other" if options.swap else f"{load}; {texts}"
    return f"{what}; {format_duration(options.max_time_s * 1000)} in all"


def read_options(arguments: argparse.Namespace) -> CapacityOptions:
    """The load as it was asked for; a sentence for what makes no sense."""
    for name, value in _DEFAULTS.items():
        setattr(arguments, name, value if getattr(arguments, name) is None else getattr(arguments, name))
    read = partial(_read, arguments)
    contexts = [round(read("context", _COUNTS, 100, 4e6, _LENGTH, one)) for one in arguments.context.split(",")]
    rates, duration_s = _read_rates(arguments), read("duration", _SPANS, 1_000, 8.64e7, "a time such as 60s") / 1000
    max_time_s = read("max_time", _SPANS, 1_000, 1e9, "a time such as 90s or 15m") / 1000
    if rates and rates[0] * duration_s < _MIN_ARRIVALS:
        raise ConfigError(f"--rate {rates[0]:g} for {duration_s:g} s makes too few requests: raise --duration")
    each_s = max_time_s / len(contexts) / max(1, len(arguments.targets or ()))
    if rates and _WARM_UP * duration_s > each_s:
        raise ConfigError(f"--max-time leaves {each_s:g} s to each load, and a rate takes {_WARM_UP * duration_s:g} s")
    if rates and arguments.shape == "agent":
        raise ConfigError("--rate schedules single requests, and --shape agent has sessions: give one of them")
    slo: dict[str, float] = {}
    for part in [] if arguments.slo is None else arguments.slo.split(","):
        name, _, value = (piece.strip().lower() for piece in part.partition("="))
        if f"{name}_ms" not in Slo.__struct_fields__ or f"{name}_ms" in slo:
            raise ConfigError(f"--slo has {part.strip()!r}: it knows ttft, tpot and e2e, each once, as in {_LIMITS}")
        slo[f"{name}_ms"] = read("slo", _TIMES, 0.001, 1e9, f"times with their units, as in {_LIMITS}", value)
    if slo.get("e2e_ms", 1e9) < max(slo.get("ttft_ms", 0), slo.get("tpot_ms", 0)):
        raise ConfigError("--slo makes no sense: the whole answer (e2e) cannot be faster than a part of it")
    arguments.max_concurrency = arguments.max_concurrency or ("1024" if rates else "64")
    return CapacityOptions(
        contexts=sorted(set(contexts)), slo=Slo(**slo), rates=rates, duration_s=duration_s,
        output_tokens=round(read("output", _COUNTS, 2, 1e6, "2 tokens or more: one has no pace")),
        max_concurrency=round(read("max_concurrency", {"": 1.0}, 1, 4_096, "a number from 1 to 4096")),
        shared_prefix=round(read("shared_prefix", _COUNTS, 0, min(contexts) - 100, "less than a prompt")),
        max_time_s=max_time_s, shape=arguments.shape, swap=arguments.swap,
    )  # fmt: skip


def _read(
    said: argparse.Namespace, name: str, units: Mapping[str, float], low: float, high: float, like: str, word: str = ""
) -> float:
    """A number with its unit: an option's, or a part of it."""
    word = (word or getattr(said, name)).strip()
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)([a-z]*)", word.lower())
    value = float(found[1]) * units[found[2]] if found and found[2] in units else -1.0
    if not low <= value <= high:
        raise ConfigError(f"--{name.replace('_', '-')} has {word!r}: give {like}")
    return value


def _read_rates(arguments: argparse.Namespace) -> list[float]:
    if arguments.rate is None:
        return []
    like = "arrivals a second that can be made, from 0.001 to 2000, rising: 0.5..8, or 2,4,6"
    low, dots, high = arguments.rate.partition("..")
    parts = [low, high] if dots else arguments.rate.split(",")
    rates = [_read(arguments, "rate", {"": 1.0}, 0.001, 2_000, like, part or " ") for part in parts]
    if sorted(set(rates)) != rates:
        raise ConfigError(f"--rate has {arguments.rate!r}: give {like}")
    between = [rate for n in range(24) if (rate := rates[0] * 2.0**n) < 0.95 * rates[-1]] if dots else rates[:-1]
    return [*between, rates[-1]]
