"""Flags over file over defaults: one set of options, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawgauge.config.environment import retry_base_s
from clawgauge.config.file import RunTable
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.records import Prompt, RunOptions, SuiteRecord
from clawgauge.suites import load_suite

DEFAULT_SUITES = ("core", "tool_use")
DEFAULTS = RunOptions()

# option: (smallest, largest, what it counts)
_BOUNDS: dict[str, tuple[float, float, str]] = {
    "repeats": (1, 10_000, "a whole number of 1 or more"),
    "concurrency": (1, 4_096, "a whole number from 1 to 4096"),
    "timeout": (0.001, 86_400, "seconds, more than 0"),
    "max_tokens": (1, 10_000_000, "a whole number of 1 or more"),
    "temperature": (0, 10, "a number of 0 or more"),
    "seed": (-(2**63), 2**63 - 1, "a whole number"),
    "max_retries": (0, 100, "a whole number from 0 to 100"),
    "max_wait": (0, 86_400, "seconds, 0 or more"),
    "fail_under": (0, 1, "a rate from 0 to 1"),
}


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line said; None where it said nothing."""

    repeats: int | None = None
    concurrency: int | None = None
    timeout: float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stream: bool | None = None
    warm_up: bool | None = None
    max_retries: int | None = None
    max_wait: float | None = None
    unload_others: bool | None = None
    fail_under: float | None = None
    prompt_ids: list[str] | None = None


def make_options(flags: Flags, table: RunTable, environ: Mapping[str, str]) -> RunOptions:
    """The options of a run. A value out of bounds is refused, naming the option."""

    def chosen(name: str, default: Any) -> Any:
        for source in (getattr(flags, name), getattr(table, name)):
            if source is not None:
                return _bounded(name, source)
        return default

    return RunOptions(
        repeats=chosen("repeats", DEFAULTS.repeats),
        concurrency=chosen("concurrency", DEFAULTS.concurrency),
        timeout_s=float(chosen("timeout", DEFAULTS.timeout_s)),
        max_tokens=chosen("max_tokens", None),
        temperature=chosen("temperature", None),
        seed=chosen("seed", None),
        stream=chosen("stream", DEFAULTS.stream),
        warm_up=chosen("warm_up", DEFAULTS.warm_up),
        max_retries=chosen("max_retries", DEFAULTS.max_retries),
        retry_base_s=retry_base_s(environ, DEFAULTS.retry_base_s),
        max_wait_s=float(chosen("max_wait", DEFAULTS.max_wait_s)),
        unload_others=chosen("unload_others", DEFAULTS.unload_others),
        prompt_ids=flags.prompt_ids,
    )


def checked_fail_under(flags: Flags, table: RunTable) -> float | None:
    """The gate of `--fail-under`, flag over file."""
    rate = flags.fail_under if flags.fail_under is not None else table.fail_under
    return None if rate is None else float(_bounded("fail_under", rate))


def _bounded(name: str, value: Any) -> Any:
    if name not in _BOUNDS:
        return value
    low, high, meaning = _BOUNDS[name]
    if not math.isfinite(value) or not low <= value <= high:
        raise ConfigError(f"--{name.replace('_', '-')} is {value}: it must be {meaning}")
    return value


def load_suites(refs: list[str], base_dir: Path) -> list[SuiteRecord]:
    """Load every suite; two of one name cannot be told apart in the records."""
    suites = [load_suite(ref, base_dir=base_dir) for ref in refs]
    names = [suite.name for suite in suites]
    for suite in suites:
        if names.count(suite.name) > 1:
            raise SuiteError(f"two suites are named {suite.name!r}: name each only once, or rename one in its header")
    return suites


def choose_prompts(suites: list[SuiteRecord], prompt_ids: list[str] | None) -> list[Prompt]:
    """The prompts of a run, in suite order; `--prompt-ids` keeps `P1` of every suite or `SUITE/P1` of one."""
    prompts = [prompt for suite in suites for prompt in suite.prompts]
    return prompts if prompt_ids is None else choose_from(prompts, prompt_ids)


def choose_from(prompts: list[Prompt], prompt_ids: list[str]) -> list[Prompt]:
    """The prompts that these ids name; an id that names none is refused."""
    known = {form for prompt in prompts for form in (prompt.id, f"{prompt.suite}/{prompt.id}")}
    missing = [wanted for wanted in prompt_ids if wanted not in known]
    if missing or not prompt_ids:
        named = ", ".join(repr(wanted) for wanted in missing) or "nothing"
        suites = ", ".join(dict.fromkeys(prompt.suite for prompt in prompts))
        raise ConfigError(f"--prompt-ids names {named}, which is in none of the suites {suites}")
    wanted_ids = set(prompt_ids)
    return [p for p in prompts if p.id in wanted_ids or f"{p.suite}/{p.id}" in wanted_ids]
