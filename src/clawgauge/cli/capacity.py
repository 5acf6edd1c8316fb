"""Load a server and say what it can carry: how many at once, with prompts how long, within which
limits.

Clients ask in turn, 1, 2, 4 … of them until more bring no more; with --rate, arrivals are scheduled
at random times. Prints the run folder's path on stdout (the summary with --json); everything for a
person goes to stderr."""

from __future__ import annotations

import argparse
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.capacity.scope import FinishedSteps, VisitKey
from clawgauge.cli.planner import DecidedRun, PlanRequest, decide_run
from clawgauge.cli.preflight import refuse_wrong_names
from clawgauge.cli.process import DONE, as_typed, row_for, run_async
from clawgauge.cli.resume import ResumedRun, ResumeRequest
from clawgauge.cli.run import typed_words
from clawgauge.config.providers import Tell
from clawgauge.errors import ConfigError, RequestError
from clawgauge.journal import encode_line
from clawgauge.journal.folder import RunFolder
from clawgauge.plan import PlanDraft
from clawgauge.records import CapacityOptions, Slo, StepSummary
from clawgauge.reports.capacity import word_step
from clawgauge.reports.clean import clean_lines
from clawgauge.verdict.wording import word_tokens
from clawgauge.words import format_duration, format_latency, list_names

# What the embedded server, which is there for the run alone, serves side by side.
_EMBEDDED_SLOTS = 4
_MIN_ARRIVALS = 10
_WARM_UP = 1.25
"""How much longer than it is measured a rate is held."""
_MAX_DOUBLINGS = 24
# The order of rounds is drawn from so many.
_N_ORDERS = 1 << 32
# The last rate of a range is left out of the doubling when it is as close to one as that.
_CLOSE_RATES = 0.95
# Erases what stands to the right.
_CLEAR_LINE = "\x1b[K"
_PLAIN = {"": 1.0}
_COUNTS = {"": 1.0, "k": 1_000.0}
_TIMES_MS = {"ms": 1.0, "s": 1_000.0, "m": 60_000.0}
_SPANS_MS = {"": 1_000.0, **_TIMES_MS}
_LIMITS_HINT = "ttft=2s,tpot=80ms"


class _Quantity(NamedTuple):
    """A number that an option takes."""

    flag: str
    units: Mapping[str, float]
    """Every unit that may follow it, with its factor."""
    lowest: float
    highest: float
    hint: str
    """What a person is told to give."""

    def read(self, text: str) -> float:
        """The number in this text; raises `ConfigError` where it is none that the option takes."""
        text = text.strip()
        match = re.fullmatch(r"([0-9]*\.?[0-9]+)([a-z]*)", text.lower())
        if match is not None and match[2] in self.units:
            number = float(match[1]) * self.units[match[2]]
            if self.lowest <= number <= self.highest:
                return number
        raise ConfigError(f"{self.flag} has {text!r}: give {self.hint}")


_CONTEXT = _Quantity(
    "--context", _COUNTS, 100, 4e6, "tokens, from 100 to 4000k, such as 800 or 16k"
)
_RATE = _Quantity(
    "--rate",
    _PLAIN,
    0.001,
    2_000,
    "arrivals a second that can be made, from 0.001 to 2000, rising: 0.5..8, or 2,4,6",
)
_DURATION_MS = _Quantity("--duration", _SPANS_MS, 1_000, 8.64e7, "a time such as 60s")
_MAX_TIME_MS = _Quantity("--max-time", _SPANS_MS, 1_000, 1e9, "a time such as 90s or 15m")
_LIMIT_MS = _Quantity(
    "--slo", _TIMES_MS, 0.001, 1e9, f"times with their units, as in {_LIMITS_HINT}"
)
_OUTPUT = _Quantity("--output", _COUNTS, 2, 1e6, "2 tokens or more: one has no pace")
_MAX_CONCURRENCY = _Quantity("--max-concurrency", _PLAIN, 1, 4_096, "a number from 1 to 4096")
# What describes a load, with the values of what is not given; None is decided by the others.
_LOAD_DEFAULTS: dict[str, Any] = {
    "context": "2k",
    "output": "128",
    "slo": None,
    "max_concurrency": None,
    "rate": None,
    "duration": "60s",
    "shape": "plain",
    "shared_prefix": "0",
    "swap": False,
    "max_time": "15m",
}
# The other options, which are those of `run`.
_RUN_OPTIONS = ("targets", "nodes", "timeout", "max_cost", "prices", "runs_dir")
_WITHIN = {
    "ttft_ms": "the first token within {}",
    "tpot_ms": "a token every {}",
    "e2e_ms": "all of it within {}",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what load").add_argument
    add(
        "-t",
        "--target",
        dest="targets",
        action="append",
        metavar="TARGET",
        help="whom to load; repeatable",
    )
    add("--nodes", metavar="NAME,…", help="machines of clawgauge.toml that make the load, together")
    add("--context", metavar="2k,16k", help="tokens of a prompt, k = 1,000 (default 2k)")
    add("--output", metavar="N", help="tokens of an answer at most (default 128)")
    add(
        "--slo",
        metavar="ttft=2s,tpot=80ms,e2e=30s",
        help="what 95%% of the requests must keep: first token, time per token, whole call",
    )
    add("--max-concurrency", metavar="N", help="most calls at once (default 64; with --rate 1024)")
    add(
        "--rate",
        metavar="0.5..8",
        help="arrivals a second, at random times (Poisson): from..to, or a,b,c",
    )
    add("--duration", metavar="60s", help="how long each rate is held (default 60s)")
    add("--shape", choices=("plain", "agent"), help="agent: growing context, pauses, fan-out")
    add("--shared-prefix", metavar="N", help="tokens that all prompts begin with (default 0)")
    add(
        "--swap",
        action="store_true",
        default=None,
        help="what changing between models costs; unloads them first",
    )
    add = parser.add_argument_group("how much is enough").add_argument
    add("--max-time", metavar="15m", help="for all of it (default 15m)")
    add(
        "--max-cost",
        type=float,
        metavar="USD",
        help="stop at this cost; needed where calls are paid for",
    )
    add("--prices", metavar="FILE", help="your own prices, as TOML, over the built-in table")
    add("--timeout", type=float, metavar="S", help="total deadline of one call (default 300)")
    add = parser.add_argument_group("where it goes").add_argument
    add("--runs-dir", metavar="DIR", help="default: runs")
    add("--run-id", metavar="ID", help="default: local time, YYYYMMDD_HHMMSS")
    add("--resume", metavar="RUN", help="go on with a capacity run; the steps it has stand")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="default: ./clawgauge.toml; in full only once trusted",
    )
    add("--dry-run", action="store_true", help="show what would be tried; ask nothing")
    add("--quiet", "-q", action="store_true", help="no progress")
    add("--json", action="store_true", help="the summary as JSON on stdout")


def execute(arguments: argparse.Namespace) -> int:
    if (arguments.resume is None) != bool(arguments.targets):
        raise RequestError(
            "name whom to load with -t PROVIDER:MODEL, or a run to go on with: --resume RUN"
        )
    request = _read_request(arguments)

    def tell(line: str) -> None:
        if not arguments.quiet:
            sys.stderr.write(row_for(sys.stderr, as_typed(line)))

    decided = decide_run(request, tell)
    draft = decided.draft
    load = draft.capacity
    assert load is not None  # noqa: S101  # as it was requested
    finished_steps: FinishedSteps = {}
    if decided.resumed is not None:
        finished_steps = _read_finished_steps(decided.resumed)
    labels = [target.label for target in draft.targets]
    tell(f"{', '.join(labels)}: {word_load(load)}")
    if arguments.dry_run:
        refuse_wrong_names(draft, draft.targets)
        RunFolder.check_creatable(Path(draft.settings.runs_dir), arguments.run_id)
        if arguments.json:
            sys.stdout.write(encode_line({"targets": labels, "capacity": load}).decode())
        return DONE
    return _measure(arguments, decided, finished_steps, tell)


def _read_request(arguments: argparse.Namespace) -> PlanRequest:
    """What is asked of the planner; raises `RequestError` for options that do not go together."""
    load_options = [name for name in _LOAD_DEFAULTS if getattr(arguments, name) is not None]
    if arguments.resume is not None and load_options not in ([], ["max_time"]):
        raise RequestError(
            "--resume goes on with the load the run was begun with: only --max-time may be another"
        )
    load = read_options(arguments)
    if load.swap and not set(load_options) <= {"swap", "max_time"}:
        raise RequestError("--swap changes models and makes no load: only --max-time goes with it")
    resume = None
    if arguments.resume is not None:
        resume = ResumeRequest(arguments.resume, retry_errors=False, force=False)
    load = msgspec.structs.replace(load, order_seed=secrets.randbelow(_N_ORDERS))
    return PlanRequest(
        options=_read_run_options(arguments, load),
        words=typed_words(arguments),
        config_file=arguments.config,
        resume=resume,
        capacity=load,
        changes_max_time=bool(load_options),
    )


def _read_run_options(arguments: argparse.Namespace, load: CapacityOptions) -> dict[str, Any]:
    """The options of `run`, as far as they were given on the command line or follow from the
    load."""
    options: dict[str, Any] = {}
    for name in _RUN_OPTIONS:
        value = getattr(arguments, name)
        if value is not None:
            options[name] = value
    if "nodes" in options:
        options["nodes"] = [name.strip() for name in options["nodes"].split(",")]
    # What failed is slower than any answer: it is not asked again.
    options["max_retries"] = 0
    options["concurrency"] = _EMBEDDED_SLOTS
    if load.swap:
        # Models that are changed are all at hand.
        options["interleave"] = True
        options["unload_others"] = True
    return options


def _read_finished_steps(resumed: ResumedRun) -> dict[VisitKey, StepSummary]:
    """What a capacity run has measured, visit by visit: it stands."""
    from clawgauge.summary.capacity import read_visits

    steps = {}
    for visit in read_visits(resumed.path):
        key = VisitKey(
            target=visit.target,
            prompt_tokens=visit.context_tokens,
            load=visit.step.level,
            visit=visit.number,
        )
        steps[key] = visit.step
    return steps


def _measure(
    arguments: argparse.Namespace,
    decided: DecidedRun,
    finished_steps: FinishedSteps,
    tell: Tell,
) -> int:
    # Loaded only now: a rehearsal needs none of it.
    from clawgauge.capacity.measure import measure_capacity
    from clawgauge.cli.session import Ask, OutputOptions, run_session
    from clawgauge.runner.run import run

    shows_status = sys.stderr.isatty() and not arguments.quiet
    progress = _Progress(decided.draft, tell, shows_status=shows_status)
    ask: Ask = partial(run, work=partial(measure_capacity, progress, finished_steps))
    if decided.nodes is not None:
        from clawgauge.fleet.load import load_together

        load_from_nodes = partial(load_together, progress, finished_steps)
        ask = partial(decided.nodes.drive, load=load_from_nodes)
    output = OutputOptions(quiet=arguments.quiet, verbose=False, as_json=arguments.json)
    return run_async(run_session(decided, arguments.run_id, ask, output, tell))


class _Progress:
    """Shows what is being done, every visit of a load as it ends, and what a person should know.

    On a terminal the last line says what is under way; the next line takes its place.
    """

    def __init__(self, draft: PlanDraft, tell: Tell, *, shows_status: bool) -> None:
        self._draft = draft
        self._tell = tell
        self._shows_status = shows_status
        self._has_status = False

    def step_begun(self, context_tokens: int, load: str) -> None:
        if not self._shows_status:
            return
        self._clear_status()
        status = self._draft.redact(f"{load} at {word_tokens(context_tokens)} …")
        # Whoever writes next begins at the beginning of this line.
        sys.stderr.write(clean_lines(status).rstrip("\n") + "\r")
        sys.stderr.flush()
        self._has_status = True

    def step_measured(self, context_tokens: int, step: StepSummary) -> None:
        self.notice(word_step(context_tokens, step))

    def notice(self, text: str) -> None:
        self._clear_status()
        self._tell(self._draft.redact(text))

    def _clear_status(self) -> None:
        if self._has_status:
            sys.stderr.write(_CLEAR_LINE)
            self._has_status = False


def word_load(options: CapacityOptions) -> str:
    """What is about to be tried, in words."""
    in_all = f"{format_duration(options.max_time_s * 1000)} in all"
    if options.swap:
        return f"one model after the other; {in_all}"
    limits = []
    for name, limit in options.slo.limits.items():
        limits.append(_WITHIN[name].format(format_latency(limit)))
    until = f", until fewer than 95% have {' and '.join(limits)}" if limits else ""
    if options.rates:
        rates = list_names([f"{rate:g}" for rate in options.rates], 9)
        each = format_duration(options.duration_s * 1000)
        load = (
            f"{rates} requests a second, each for {each}, "
            f"at most {options.max_concurrency} at once{until}"
        )
    else:
        ending = until or ", until more bring no more"
        load = f"1, 2, 4 … up to {options.max_concurrency} at once{ending}"
    lengths = list_names([word_tokens(tokens) for tokens in options.contexts], 9)
    prompts = f"prompts of {lengths} tokens"
    if options.shared_prefix:
        prompts += f", the first {word_tokens(options.shared_prefix)} of them the same"
    if options.shape == "agent":
        prompts += ", which grow, with pauses, as an agent's do"
    return f"{load}; {prompts}, answers of up to {options.output_tokens}; {in_all}"


def read_options(arguments: argparse.Namespace) -> CapacityOptions:
    """The load as it was asked for; raises `ConfigError` for what makes no sense."""
    texts = _fill_in_defaults(arguments)
    contexts = _read_contexts(texts["context"])
    rates = []
    if texts["rate"] is not None:
        rates = _read_rates(texts["rate"])
    duration_s = _DURATION_MS.read(texts["duration"]) / 1000
    max_time_s = _MAX_TIME_MS.read(texts["max_time"]) / 1000
    if rates:
        n_loads = len(contexts) * max(1, len(arguments.targets or ()))
        _refuse_impossible_rates(rates, duration_s, max_time_s, n_loads, texts["shape"])
    slo = Slo()
    if texts["slo"] is not None:
        slo = _read_slo(texts["slo"])
    output_tokens = _OUTPUT.read(texts["output"])
    default_concurrency = "1024" if rates else "64"
    max_concurrency = _MAX_CONCURRENCY.read(texts["max_concurrency"] or default_concurrency)
    shared_prefix = _Quantity(
        "--shared-prefix", _COUNTS, 0, min(contexts) - 100, "less than a prompt"
    )
    return CapacityOptions(
        contexts=sorted(set(contexts)),
        output_tokens=round(output_tokens),
        slo=slo,
        max_concurrency=round(max_concurrency),
        rates=rates,
        duration_s=duration_s,
        shared_prefix=round(shared_prefix.read(texts["shared_prefix"])),
        shape=texts["shape"],
        swap=texts["swap"],
        max_time_s=max_time_s,
    )


def _fill_in_defaults(arguments: argparse.Namespace) -> dict[str, Any]:
    texts = {}
    for name, default in _LOAD_DEFAULTS.items():
        value = getattr(arguments, name)
        texts[name] = default if value is None else value
    return texts


def _read_contexts(text: str) -> list[int]:
    """The lengths of prompts, as `2k,16k`."""
    contexts = []
    for part in text.split(","):
        # An empty part says nothing: the whole option is shown.
        contexts.append(round(_CONTEXT.read(part or text)))
    return contexts


def _refuse_impossible_rates(
    rates: Sequence[float], duration_s: float, max_time_s: float, n_loads: int, shape: str
) -> None:
    """Raise `ConfigError` for rates that tell nothing, or that there is no time for."""
    if rates[0] * duration_s < _MIN_ARRIVALS:
        raise ConfigError(
            f"--rate {rates[0]:g} for {duration_s:g} s makes too few requests: raise --duration"
        )
    load_s = max_time_s / n_loads
    if _WARM_UP * duration_s > load_s:
        raise ConfigError(
            f"--max-time leaves {load_s:g} s to each load, "
            f"and a rate takes {_WARM_UP * duration_s:g} s"
        )
    if shape == "agent":
        raise ConfigError(
            "--rate schedules single requests, and --shape agent has sessions: give one of them"
        )


def _read_slo(text: str) -> Slo:
    """The limits that 95% of the requests must keep, as `ttft=2s,tpot=80ms`."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        field = f"{name.strip().lower()}_ms"
        if field not in Slo.__struct_fields__ or field in limits:
            raise ConfigError(
                f"--slo has {part.strip()!r}: "
                f"it knows ttft, tpot and e2e, each once, as in {_LIMITS_HINT}"
            )
        limits[field] = _LIMIT_MS.read(value.strip().lower() or text)
    slo = Slo(**limits)
    longest_part_ms = max(slo.ttft_ms or 0, slo.tpot_ms or 0)
    if slo.e2e_ms is not None and slo.e2e_ms < longest_part_ms:
        raise ConfigError(
            "--slo makes no sense: the whole answer (e2e) cannot be faster than a part of it"
        )
    return slo


def _read_rates(text: str) -> list[float]:
    """Arrivals a second: `2,4,6`, or from..to, each twice the one before."""
    first, dots, last = text.partition("..")
    parts = [first, last] if dots else text.split(",")
    rates = [_RATE.read(part) for part in parts]
    if sorted(set(rates)) != rates:
        raise ConfigError(f"{_RATE.flag} has {text!r}: give {_RATE.hint}")
    if not dots:
        return rates
    lowest = rates[0]
    highest = rates[-1]
    doubled = []
    for n in range(_MAX_DOUBLINGS):
        rate = lowest * 2.0**n
        # One just below the last would be no other load.
        if rate < _CLOSE_RATES * highest:
            doubled.append(rate)
    return [*doubled, highest]
