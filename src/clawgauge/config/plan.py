"""What was said made into one set of options, checked, and one list of prompts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clawgauge.config.environment import retry_base_s
from clawgauge.config.settings import RunSettings
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.records import Prompt, RunOptions, SuiteRecord
from clawgauge.suites import load_suite

DEFAULT_RUNS_DIR = "runs"
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
    "max_calls": (1, 10_000_000, "a whole number of 1 or more"),
    "max_cost": (0, 1_000_000, "dollars, 0 or more"),
    "fail_under": (0, 1, "a rate from 0 to 1"),
}


def make_options(settings: RunSettings, environ: Mapping[str, str]) -> RunOptions:
    """The options of a run. A value out of bounds is refused, naming the option."""

    def chosen(name: str, default: Any) -> Any:
        value = getattr(settings, name)
        return default if value is None else _bounded(name, value)

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
        prompt_ids=settings.prompt_ids,
        unique_prefix=chosen("unique_prefix", DEFAULTS.unique_prefix),
        until_decided=chosen("until_decided", DEFAULTS.until_decided),
        max_calls=chosen("max_calls", DEFAULTS.max_calls),
        max_cost_usd=chosen("max_cost", DEFAULTS.max_cost_usd),
    )


def check_options(options: RunOptions) -> None:
    """Refuse recorded options that no command line could have asked for: a run folder may come from anyone."""
    for name in RunOptions.__struct_fields__:
        value = getattr(options, name)
        if value is not None:
            _bounded(name.removesuffix("_s").removesuffix("_usd"), value)


def checked_fail_under(settings: RunSettings) -> float | None:
    """The gate of `--fail-under`."""
    return None if settings.fail_under is None else float(_bounded("fail_under", settings.fail_under))


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
    """The prompts of a run, in suite order; `--prompt-ids` keeps `P1` of every suite or `SUITE/P1` of one.

    The id a prompt with variants was written under keeps all its forms; `P1#1`, `P1#2`, … keep one.
    """
    prompts = [prompt for suite in suites for prompt in suite.prompts]
    return prompts if prompt_ids is None else choose_from(prompts, prompt_ids)


def choose_from(prompts: list[Prompt], prompt_ids: list[str]) -> list[Prompt]:
    """The prompts that these ids name; an id that names none is refused."""
    names_of = [_names_of(prompt) for prompt in prompts]
    known = set().union(*names_of)
    missing = [wanted for wanted in prompt_ids if wanted not in known]
    if missing or not prompt_ids:
        named = ", ".join(repr(wanted) for wanted in missing) or "nothing"
        suites = ", ".join(dict.fromkeys(prompt.suite for prompt in prompts))
        raise ConfigError(f"--prompt-ids names {named}, which is in none of the suites {suites}")
    wanted_ids = set(prompt_ids)
    return [prompt for prompt, names in zip(prompts, names_of, strict=True) if names & wanted_ids]


def _names_of(prompt: Prompt) -> set[str]:
    """The words that select a prompt."""
    ids = {prompt.id}
    if prompt.variant_of is not None:
        ids |= {prompt.variant_of, f"{prompt.id}#1" if prompt.id == prompt.variant_of else prompt.id}
    return ids | {f"{prompt.suite}/{one}" for one in ids}
