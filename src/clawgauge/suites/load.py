"""From the words a user gave to a suite that is known to be good, before anything is sent."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clawgauge.checks import COMPARISONS, check_offer, check_spec
from clawgauge.checks.spec import Fields, ListOf, Shape, any_text, anything, choice, suggest
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt, SuiteInfo, SuiteRecord
from clawgauge.suites.document import SUFFIXES, Place, read_document
from clawgauge.suites.draw import LONG_KEYS, Drawing, draw_values
from clawgauge.suites.prompts import SAMPLING, TOOLBOX, SuiteContext, build_prompt, fold_defaults, label, unfold

BUILTIN_SUITES = ("core", "tool_use", "native_tools", "restraint", "agentic", "long_context")
# What a run without -s asks: some of every kind of evidence, so that every job has some. Twenty native calls can
# decide a tier, fifteen prompts and eight tasks can show restraint and work done (see summary/recommendation.py).
SELECTION: dict[str, tuple[str, ...]] = {
    "core": ("P0", "P6", "P7", "P8", "P9", "P13", "P16", "P17", "P18", "P19", "P22", "P26", "P34"),
    "tool_use": ("P0", "P1", "P3", "P8", "P11", "P15", "P16", "P22", "P25", "P28"),
    "native_tools": (
        *("P0#1", "P2", "P3", "P5#1", "P6#1", "P9", "P13#1", "P15#1", "P18", "P19"),
        *("P20#1", "P23#1", "P26", "P27", "P28", "P36#1", "P40#1", "P48", "P52", "P58", "P59", "P60"),
    ),
    "restraint": (
        *("P0", "P3", "P4", "P7", "P9", "P10", "P12", "P13"),
        *("P15", "P16", "P18", "P20", "P21", "P23", "P24"),
    ),
    "agentic": ("P0", "P1", "P2", "P3", "P5", "P7", "P9", "P12", "P17"),
}
MAX_PROMPTS = 10_000
_HASHED = (
    *("system", "temperature", "max_tokens", "expected_tools", "tools", "tool_choice", "response_format", "world"),
    "max_turns",
)
MAX_TEXT_CHARS = 64 * 1024 * 1024
HEADER_KEYS: dict[str, Shape] = {
    "name": label,
    "version": any_text,
    "description": any_text,
    **SAMPLING,
    "compare": choice(*COMPARISONS),
    "effect": Fields({}, dict.fromkeys(("world", "forbid", "env", "stand_ins"), anything)),
    "toolbox": TOOLBOX,
    "long": Fields({}, LONG_KEYS),
    "prompts": ListOf(anything, "prompts ([[prompts]] in TOML)"),
}
_HEADER = Fields({"prompts": HEADER_KEYS["prompts"]}, HEADER_KEYS)


def load_suite(ref: str, *, base_dir: Path | None = None, drawing: int = 0) -> SuiteRecord:
    """Load a built-in suite by name, or a suite file by path (relative to `base_dir`, else to the working directory).

    `drawing` picks the values of prompts that have several to choose from; 0 is the suite as written. Raises
    `SuiteError` naming the file, the prompt and the key for anything that is wrong with it.
    """
    path, place = suite_path(ref, base_dir=base_dir), Place(ref)
    document = read_document(path, ref)
    written = {"prompts": document} if isinstance(document, list) else document
    header: dict[str, Any] = {"name": path.stem}
    header |= {key: value for key, value in written.items() if value is not None or key not in HEADER_KEYS}
    place.check(_HEADER, header)
    named_tools = header.get("toolbox", {})
    if not all(map(str.strip, named_tools)):
        raise place.at("toolbox").refusal("a tool's name must not be empty")
    context = SuiteContext(
        header["name"],
        {key: header[key] for key in SAMPLING if key in header},
        {name: {"type": "function", "function": {"name": name, **tool}} for name, tool in named_tools.items()},
        {"tool_call": {key: header[key] for key in ("compare",) if key in header}, "effect": header.get("effect", {})},
        is_builtin=ref in BUILTIN_SUITES,
    )
    prompts = _build_prompts(header["prompts"], context, place, Drawing(drawing, context.name, header.get("long", {})))
    return SuiteRecord(
        name=context.name,
        version=header.get("version", ""),
        description=header.get("description", ""),
        sha256=prompts_sha256(prompts),
        source=ref,
        prompts=prompts,
    )


def suite_path(ref: str, *, base_dir: Path | None = None) -> Path:
    """The file a reference stands for, whether or not it is there; a word that is no reference is refused."""
    if ref in BUILTIN_SUITES:
        return Path(__file__).with_name(f"{ref}.toml")
    if Path(ref).suffix.lower() not in SUFFIXES and os.sep not in ref and "/" not in ref:
        names = f"{', '.join(BUILTIN_SUITES[:-1])} and {BUILTIN_SUITES[-1]}"
        raise SuiteError(
            f"No built-in suite is called {ref!r}{suggest(ref, BUILTIN_SUITES) or '.'} The built-in suites are "
            f"{names}; for a file of your own give its path, ending in {' or '.join(SUFFIXES)}"
        )
    try:
        path = Path(ref).expanduser()
    except RuntimeError:
        raise Place(ref).refusal("names a home directory that is not there; write the path out") from None
    return path if base_dir is None else base_dir / path


def is_suite_there(ref: str, base_dir: Path) -> bool:
    """Whether a reference still stands for a file."""
    try:
        return suite_path(ref, base_dir=base_dir).is_file()
    except SuiteError:
        return False


def list_builtin() -> list[SuiteInfo]:
    """The suites that come with the package, in the order they run by default."""
    return [describe_suite(load_suite(name)) for name in BUILTIN_SUITES]


def describe_suite(suite: SuiteRecord) -> SuiteInfo:
    """A suite's header alone, as lists and config.json show it."""
    return SuiteInfo(
        name=suite.name,
        version=suite.version,
        description=suite.description,
        n_prompts=len(suite.prompts),
        sha256=suite.sha256,
        source=suite.source,
    )


def check_recorded(prompts: Iterable[Prompt], path: Path) -> None:
    """Raise `SuiteError` for a validator in `path`, a run's config.json, that no suite file could hold."""
    for number, prompt in enumerate(prompts, 1):
        try:
            check_spec(prompt.validator)
            check_offer(prompt.validator, prompt.tools)
        except SuiteError as error:
            raise Place(str(path)).at_prompt(number, {"id": prompt.id}).refusal(f"validator: {error}") from error


def prompts_sha256(prompts: Iterable[Prompt]) -> str:
    """One hash over everything that can change an answer or a verdict, and over the order of the prompts.

    Names, categories, suite titles and the order of a validator's keys are left out: they change neither. The order of
    keys inside `tools` is kept, because it is sent to the model as written. Values that are not set are left out too,
    so a field added to prompts later leaves the hash of older suites alone.
    """
    digest = hashlib.sha256()
    for prompt in prompts:
        settings = {key: getattr(prompt, key) for key in _HASHED}
        asked = {"id": prompt.id, "prompt": prompt.prompt}
        asked |= {key: value for key, value in settings.items() if value is not None and value != []}
        verdict = json.dumps(prompt.validator, sort_keys=True, separators=(",", ":"))
        digest.update(f"{json.dumps(asked, separators=(',', ':'))}\n{verdict}\n".encode("ascii"))
    return digest.hexdigest()


def _build_prompts(entries: list[Any], suite: SuiteContext, place: Place, drawing: Drawing) -> list[Prompt]:
    variants = [entry.get("variants") if isinstance(entry, dict) else None for entry in entries]
    n_forms = sum(len(forms) if isinstance(forms, list) else 1 for forms in variants)
    if n_forms > MAX_PROMPTS:
        raise place.at("prompts").refusal(f"{n_forms} prompts; at most {MAX_PROMPTS}, so split the suite")
    prompts: list[Prompt] = []
    number_of: dict[str, int] = {}
    n_chars = 0
    for number, entry in enumerate(entries, start=1):
        at_entry, own = place.at_prompt(number, entry), suite
        if isinstance(entry, dict) and entry.get("draw") is not None and isinstance(entry.get("validator"), dict):
            # What is drawn is drawn everywhere: on the machine that all prompts share, too.
            entry = {**entry, "validator": fold_defaults(entry["validator"], suite)}
            own = suite._replace(validator_defaults={})
        for form, variant_of in unfold(draw_values(entry, drawing, at_entry), at_entry):
            here = place.at_prompt(number, form)
            prompt = build_prompt(form, own, here, variant_of)
            if prompt.id in number_of:
                raise here.at("id").refusal(
                    f"{prompt.id!r} is already the id of prompt {number_of[prompt.id]}; give each its own"
                )
            number_of[prompt.id] = number
            prompts.append(prompt)
            files = (prompt.world or {}).get("files", {}).values()
            n_chars += sum(len(file.get("text", "") if isinstance(file, dict) else file) for file in files)
            n_chars += len(prompt.prompt)
            if n_chars > MAX_TEXT_CHARS:
                raise here.refusal(f"over {MAX_TEXT_CHARS:,} characters of prompts by now; split the suite")
    return prompts
