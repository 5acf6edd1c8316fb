"""Flags, environment and clawgauge.toml made into one set of settings, each checked.

The long options of `run` and `[run]` of the file are the same words. A key is named in the file, never written."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args, get_type_hints
from urllib.parse import urlsplit

import msgspec

from clawgauge.config.trust import TrustStore, hash_content
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.records import Prompt, RunOptions, SuiteRecord
from clawgauge.small_file import fit_toml, parse_toml, read_toml_bytes
from clawgauge.suites import load_suite

T = TypeVar("T")

# A setting that is taken from a file the user has neither named nor trusted. Only what shapes the questions and the
# patience of a run is: nothing that runs a program, chooses who is asked or gets a key, names a variable, acts on
# somebody's server or says where files are.
_HARMLESS = msgspec.Meta(extra={"harmless": True})
Harmless = Annotated[T, _HARMLESS]
_OLLAMA_PORT = 11434
DEFAULT_NAME = "clawgauge.toml"
_WHAT = "configuration"
_KEY_FIELDS = ("api_key", "key", "token", "secret", "password")
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


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The long options of `clawgauge run`, with underscores; None where nothing is said.

    Limits are harmless because a flag always wins: a file can set one where the user set none, and raise none.
    """

    targets: list[str] | None = None
    suites: Harmless[list[str] | None] = None
    prompt_ids: Harmless[list[str] | None] = None
    repeats: Harmless[int | None] = None
    concurrency: Harmless[int | None] = None
    timeout: Harmless[float | None] = None
    max_tokens: Harmless[int | None] = None
    temperature: Harmless[float | None] = None
    seed: Harmless[int | None] = None
    stream: Harmless[bool | None] = None
    warm_up: Harmless[bool | None] = None
    max_retries: Harmless[int | None] = None
    max_wait: Harmless[float | None] = None
    unload_others: bool | None = None
    unique_prefix: Harmless[bool | None] = None
    until_decided: Harmless[bool | None] = None
    max_calls: Harmless[int | None] = None
    max_cost: Harmless[float | None] = None
    prices: str | None = None
    runs_dir: str | None = None
    fail_under: Harmless[float | None] = None

    def over(self, other: Self) -> Self:
        """These words, and those of `other` where these say nothing."""
        return msgspec.structs.replace(other, **self.said())

    def said(self) -> dict[str, Any]:
        """What is said at all."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


def harmless_fields(settings: type) -> frozenset[str]:
    """The fields that are declared harmless; one that is not declared is not."""
    hints = get_type_hints(settings, include_extras=True)
    return frozenset(name for name, hint in hints.items() if _HARMLESS in get_args(hint)[1:])


def read_environment() -> dict[str, str]:
    """A copy of the environment, taken once."""
    return dict(os.environ)


def ollama_base_url(environ: Mapping[str, str]) -> str | None:
    """`OLLAMA_OPENAI_BASE` as it stands, else `OLLAMA_HOST` in any of the forms Ollama itself accepts."""
    if base := environ.get("OLLAMA_OPENAI_BASE", "").strip():
        return base
    host = environ.get("OLLAMA_HOST", "").strip()
    if not host:
        return None
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        asked_port = parts.port
    except ValueError:
        raise ConfigError("OLLAMA_HOST is not an address: give one like 127.0.0.1:11434, or unset it") from None
    # A server told to listen everywhere is reached on this machine.
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(parts.hostname or "", parts.hostname or "")  # noqa: S104  # compared, not bound
    shown = f"[{name}]" if ":" in name else name
    port = asked_port or {"https": 443}.get(parts.scheme, _OLLAMA_PORT)
    return f"{parts.scheme}://{shown}:{port}{parts.path.rstrip('/')}/v1"


def retry_base_s(environ: Mapping[str, str], default: float) -> float:
    """`CLAWGAUGE_RETRY_BASE_S` shortens the backoff."""
    value = environ.get("CLAWGAUGE_RETRY_BASE_S")
    if not value:
        return default
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"CLAWGAUGE_RETRY_BASE_S is {value!r}: give a number of seconds, 0 or more")
    return seconds


class ProviderTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[providers.NAME]`. `type` may be left out where NAME is itself a provider type."""

    type: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    local: bool | None = None
    command: str | None = None
    chat_template_file: str | None = None
    extra_body: dict[str, Any] = {}


class FileConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    run: RunSettings = RunSettings()
    providers: dict[str, ProviderTable] = {}


class Configuration(msgspec.Struct, frozen=True):
    """What counts of a configuration file, and what was withheld because nobody has vouched for it.

    `withheld_run` are options of `[run]`, `withheld_providers` names of tables; both are empty for a file the user has
    named or trusted.
    """

    file: FileConfig = FileConfig()
    path: Path | None = None
    standing: str = ""
    withheld_run: frozenset[str] = frozenset()
    withheld_providers: frozenset[str] = frozenset()

    def why_withheld(self) -> str:
        """What to do about what was withheld."""
        return f"{DEFAULT_NAME} here is {self.standing}: read it, then run `clawgauge trust`, or name it with --config"

    def refuse_withheld(self, options: Collection[str]) -> None:
        """Stop where one of these options of `[run]` would have counted: the user may well expect it."""
        if wanted := sorted(self.withheld_run & set(options)):
            flags = ", ".join("--" + {"targets": "target"}.get(name, name).replace("_", "-") for name in wanted)
            raise ConfigError(f"[run] {', '.join(wanted)} of {self.why_withheld()}, or say {flags} yourself")


def read_configuration(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """The file that was named, else ./clawgauge.toml where there is one, else nothing."""
    if path is not None:
        found, _ = read_file(path)
        return Configuration(found, path, "named with --config")
    here = Path(DEFAULT_NAME)
    if not os.path.lexists(here):
        return Configuration()
    found, sha256 = read_file(here)
    store = TrustStore.of(environ)
    if store.trusts(here, sha256):
        return Configuration(found, here, "trusted")
    standing = "changed since it was trusted" if store.knows(here) else "not trusted"
    return _withhold(Configuration(found, here, standing))


def read_file(path: Path) -> tuple[FileConfig, str]:
    """A file and the hash of what was read, from one reading."""
    raw = read_toml_bytes(path, _WHAT)
    table = parse_toml(raw, path, _WHAT)
    _refuse_keys(path, table)
    return fit_toml(table, FileConfig, path, _WHAT), hash_content(raw)


def _withhold(whole: Configuration) -> Configuration:
    """What an untrusted file may say: the harmless settings of `[run]`, and no other table."""
    harmless = harmless_fields(RunSettings)
    said = whole.file.run.said()
    kept = {name: value for name, value in said.items() if name in harmless}
    if suites := kept.get("suites"):
        _refuse_far_suites(suites)
    return msgspec.structs.replace(
        whole,
        file=FileConfig(run=RunSettings(**kept)),
        withheld_run=frozenset(said.keys() - harmless),
        withheld_providers=frozenset(whole.file.providers),
    )


def _refuse_far_suites(refs: list[str]) -> None:
    """An untrusted file names suites beside it: what lies elsewhere is not for whoever wrote it to have asked."""
    here = Path().resolve()
    for ref in refs:
        try:
            far = ref.startswith("~") or not (here / ref).resolve().is_relative_to(here)
        except (OSError, ValueError, RuntimeError):
            far = True
        if far:
            raise ConfigError(
                f"{DEFAULT_NAME} here is not trusted and names the suite {ref!r} outside this folder: "
                "name it with -s, or run `clawgauge trust`"
            )


def _refuse_keys(path: Path, table: dict[str, Any]) -> None:
    """A key written into the file gets its own sentence, and is not echoed."""
    providers = table.get("providers")
    for name, provider in (providers if isinstance(providers, dict) else {}).items():
        if (field := _find_key_field(provider)) is not None:
            raise ConfigError(
                f"{path}: [providers.{name}] holds {field!r}; "
                'put the key in an environment variable and name it: api_key_env = "MY_KEY"'
            )


def _find_key_field(value: Any) -> str | None:
    """The first field, at any depth, that is named as keys are."""
    fields = value if isinstance(value, dict) else {}
    inner = fields.values() if fields else value if isinstance(value, list) else ()
    named = (field for field in _KEY_FIELDS if field in fields)
    return next(named, None) or next(filter(None, map(_find_key_field, inner)), None)


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
