"""From the words a user gave to a suite that is known to be good, before anything is sent."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.checks import COMPARISONS, check_offer, check_spec
from clawgauge.checks import spec as shape
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt, SuiteInfo, SuiteRecord
from clawgauge.suites.document import SUFFIXES, Place, read_document
from clawgauge.suites.draw import LONG_KEYS, Drawing, draw_values, unfold
from clawgauge.world import TOOL_NAMES, tool_definitions
from clawgauge.world.outside import is_heard

BUILTIN_SUITES = ("core", "tool_use", "native_tools", "restraint", "agentic", "long_context")
# What a run without -s asks: some of every kind of evidence, so that every job has some. Twenty native calls can
# decide a tier, fifteen prompts and nine tasks can show restraint and work done (see summary/tool_use.py).
_SELECTED = {
    "core": "P0 P6 P7 P8 P9 P13 P16 P17 P18 P19 P22 P26 P34",
    "tool_use": "P0 P1 P3 P8 P11 P15 P16 P22 P25 P28",
    "native_tools": "P0#1 P2 P3 P5#1 P6#1 P9 P13#1 P15#1 P18 P19 P20#1 P23#1 P26 P27 P28 P36#1 P40#1 P48 P52 P58 "
    "P59 P60",
    "restraint": "P0 P3 P4 P7 P9 P10 P12 P13 P15 P16 P18 P20 P21 P23 P24",
    "agentic": "P0 P1 P2 P3 P5 P7 P9 P12 P17",
}
SELECTION: dict[str, tuple[str, ...]] = {suite: tuple(ids.split()) for suite, ids in _SELECTED.items()}
MAX_PROMPTS = 10_000
MAX_TEXT_CHARS = 64 * 1024 * 1024
DEFAULT_MAX_TURNS = 12
MOST_TURNS = 100
VALIDATOR = "world_state"
_AS_WRITTEN = ("id", "name", "prompt", "category", "tool_choice", "response_format", "world")
_SETTINGS = "system temperature max_tokens expected_tools tools tool_choice response_format world max_turns"
Tool = dict[str, Any]
Toolbox = Mapping[str, Tool]
Shapes = dict[str, shape.Shape]
_LABEL = re.compile(r"[^\s,\x00-\x1f\x7f](?:[^,\x00-\x1f\x7f]*[^\s,\x00-\x1f\x7f])?")


def label(value: Any, place: str) -> None:
    """A text by which something is selected on the command line, where commas separate and control characters hide."""
    shape.check(shape.some_text, value, place)
    if not _LABEL.fullmatch(value):
        wanted = "a short plain word without comma, control character, or white space at an end"
        raise shape.refuse(place, wanted, value)


_FUNCTION: Shapes = {"description": shape.any_text, "parameters": shape.an_object, "strict": shape.anything}
_NAMED_FUNCTION = shape.Fields({"name": shape.some_text}, _FUNCTION, closed=False)
_TOOL = shape.Fields({"type": shape.choice("function"), "function": _NAMED_FUNCTION}, closed=False)
_NAME = shape.Value("up to 64 letters, digits, underscores and hyphens", (str,), pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")
_SCHEMA = shape.Fields(
    {"name": _NAME, "schema": shape.an_object}, {"description": shape.any_text, "strict": shape.true_or_false}
)
_FORMATS: Shapes = {"json_schema": shape.Fields({"json_schema": _SCHEMA}), "json_object": shape.Fields({})}
# What a suite says for all its prompts, and each prompt may say for itself.
SAMPLING: Shapes = {
    "system": shape.any_text,
    "temperature": shape.Value("a number, 0 or more", (int, float), low=0),
    "max_tokens": shape.whole_number(1),
}
_VALIDATOR = shape.Value('an object such as {"type": "noop"}, which records the answer without judging it', (dict,))
_REQUIRED: Shapes = {"id": label, "name": shape.some_text, "prompt": shape.some_text, "validator": _VALIDATOR}
PROMPT_KEYS: Shapes = {
    **_REQUIRED,
    "expected_tool_calls": shape.ListOf(shape.some_text, "tool names", least=0),
    "category": shape.any_text,
    **SAMPLING,
    "tools": shape.ListOf(shape.anything, "tool definitions", least=0),
    "tool_choice": shape.anything,
    "response_format": shape.ByType(_FORMATS, "a format"),
    **dict.fromkeys(("variants", "draw", "long"), shape.anything),
    "world": shape.a_world,
    "max_turns": shape.whole_number(2, MOST_TURNS),  # with a single message the model could not answer after a call
}
_PROMPT = shape.Fields(_REQUIRED, PROMPT_KEYS)
HEADER_KEYS: Shapes = {
    "name": label,
    **dict.fromkeys(("version", "description"), shape.any_text),
    **SAMPLING,
    "compare": shape.choice(*COMPARISONS),
    "effect": shape.Fields({}, dict.fromkeys(("world", "forbid", "env", "stand_ins"), shape.anything)),
    "toolbox": shape.Named(shape.Fields({}, _FUNCTION), "tools by name"),
    "long": shape.Fields({}, LONG_KEYS),
    "prompts": shape.ListOf(shape.anything, "prompts ([[prompts]] in TOML)"),
}
_HEADER = shape.Fields({"prompts": HEADER_KEYS["prompts"]}, HEADER_KEYS)


class SuiteContext(NamedTuple):
    """What a prompt takes from the suite it stands in: its name, its defaults, its tools by name.

    `validator_defaults` holds, by the type of a validator, the keys it has unless it says otherwise. Of a built-in
    suite the tests know that its effects can be: a run need not load the simulated world to find that out.
    """

    name: str
    sampling: Mapping[str, Any]
    toolbox: Toolbox
    validator_defaults: Mapping[str, Mapping[str, Any]]
    is_builtin: bool = False


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
            f"No built-in suite is called {ref!r}{shape.suggest(ref, BUILTIN_SUITES) or '.'} The built-in suites are "
            f"{names}; for a file of your own give its path, ending in {' or '.join(SUFFIXES)}"
        )
    try:
        path = Path(ref).expanduser()
    except RuntimeError:
        raise Place(ref).refusal("names a home directory that is not there; write the path out") from None
    return path if base_dir is None else base_dir / path


def is_suite_there(ref: str, base_dir: Path) -> bool:
    try:
        return suite_path(ref, base_dir=base_dir).is_file()
    except SuiteError:
        return False


def list_builtin() -> list[SuiteInfo]:
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
    """Raise `SuiteError` for tools or a validator in `path`, a run's config.json, that no suite file could hold."""
    for number, prompt in enumerate(prompts, 1):
        functions = [tool.get("function") for tool in prompt.tools]
        if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in functions):
            raise Place(str(path)).at_prompt(number, {"id": prompt.id}).refusal("tools: one of them is no function")
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
        settings = {key: getattr(prompt, key) for key in _SETTINGS.split()}
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
                first = number_of[prompt.id]
                raise here.at("id").refusal(f"{prompt.id!r} is already the id of prompt {first}; give each its own")
            number_of[prompt.id] = number
            prompts.append(prompt)
            files = (prompt.world or {}).get("files", {}).values()
            n_chars += sum(len(file.get("text", "") if isinstance(file, dict) else file) for file in files)
            n_chars += len(prompt.prompt)
            if n_chars > MAX_TEXT_CHARS:
                raise here.refusal(f"over {MAX_TEXT_CHARS:,} characters of prompts by now; split the suite")
    return prompts


def build_prompt(entry: object, suite: SuiteContext, place: Place, variant_of: str | None = None) -> Prompt:
    """Check one entry and fold the suite's defaults into it. `place` already names the prompt."""
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if value is not None or key not in PROMPT_KEYS}
    place.check(_PROMPT, entry)
    given: dict[str, Any] = entry  # type: ignore[assignment]  # or it would have been refused
    world = given.get("world")
    if world is None and "max_turns" in given:
        raise place.at("max_turns").refusal("given without 'world'; only a task takes turns")
    if world is not None and "response_format" in given:
        raise place.at("response_format").refusal("given with 'world'; a task's answers may be calls, so leave it out")
    toolbox = suite.toolbox if world is None else world_toolbox()
    tools = read_tools(given.get("tools", []), toolbox, place.at("tools"))
    validator = fold_defaults(given["validator"], suite)
    if not suite.is_builtin or validator.get("type") != "effect":
        try:
            check_spec(validator)
            check_offer(validator, tools)
        except SuiteError as error:
            raise place.refusal(f"validator: {error}") from None
    if world is not None:
        check_task(world, validator, tools, place)
    elif validator["type"] == VALIDATOR:
        raise place.at("validator").refusal(f"type '{VALIDATOR}' looks at a world; give the prompt one in 'world'")
    if "tool_choice" in given:
        check_tool_choice(given["tool_choice"], tools, place.at("tool_choice"))
    expected = [*validator.get("expected_tools", []), *(call["name"] for call in validator.get("expected_calls", []))]
    for condition in validator.get("expect", []) if validator["type"] == VALIDATOR else []:
        called = condition.get("called", [])
        expected += called if isinstance(called, list) else [called]
    expected += given.get("expected_tool_calls", [])
    sampling = {**suite.sampling, **given}
    return Prompt(
        **{key: given[key] for key in _AS_WRITTEN if key in given},
        validator=validator,
        suite=suite.name,
        expected_tools=list(dict.fromkeys(name.strip().lower() for name in expected)),
        system=sampling.get("system") or None,
        temperature=None if sampling.get("temperature") is None else float(sampling["temperature"]),
        max_tokens=sampling.get("max_tokens"),
        tools=tools,
        variant_of=variant_of,
        max_turns=None if world is None else given.get("max_turns", DEFAULT_MAX_TURNS),
    )


def fold_defaults(validator: dict[str, Any], suite: SuiteContext) -> dict[str, Any]:
    """A validator with what the suite says for all of its type: of a world its keys, of the files in it each one."""
    defaults = suite.validator_defaults.get(str(validator.get("type")), {})
    own, shared = validator.get("world"), defaults.get("world")
    folded = {**defaults, **validator}
    if isinstance(own, dict) and isinstance(shared, dict):
        folded["world"] = {**shared, **own}
        if isinstance(own.get("files"), dict) and isinstance(shared.get("files"), dict):
            folded["world"]["files"] = {**shared["files"], **own["files"]}
    return folded


def read_tools(entries: list[Any], toolbox: Toolbox, place: Place) -> list[Tool]:
    """The tools of a prompt, those named from the toolbox written out."""
    tools: list[Tool] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        here = place.at(index)
        if isinstance(entry, str) and entry not in toolbox:
            known = f"has no {entry!r}{shape.suggest(entry, toolbox)}"
            found = known if toolbox else f"is missing, so {entry!r} cannot be named"
            raise here.refusal(f"must be an object, or the name of a tool in the suite's 'toolbox', which {found}")
        tool = toolbox[entry] if isinstance(entry, str) else entry
        here.check(_TOOL, tool)
        name = tool["function"]["name"]
        # Calls are matched without regard to case, so two names that differ in it alone are one.
        if name.lower() in seen:
            raise here.refusal(f"{name!r} is offered twice; keep one of them")
        seen.add(name.lower())
        tools.append(tool)
    return tools


def check_tool_choice(wanted: Any, tools: list[Tool], place: Place) -> None:
    """Refuse what the model is told about using the tools where it does not fit those on offer."""
    if not tools:
        raise place.refusal("given without 'tools'; offer some, or leave it out")
    offered = [tool["function"]["name"] for tool in tools]
    match wanted:
        case "auto" | "none" | "required":
            return
        case {"type": "function", "function": {"name": name}}:
            if name not in offered:
                raise place.refusal(f"names {name!r}, which is not offered; the tools are {', '.join(offered)}")
        case _:
            raise place.refusal('must be "auto", "none", "required" or {"type": "function", "function": {"name": "…"}}')


@functools.cache
def world_toolbox() -> Toolbox:
    return {tool["function"]["name"]: tool for tool in tool_definitions(TOOL_NAMES)}


def check_task(world: Any, validator: Mapping[str, Any], tools: list[Tool], place: Place) -> None:
    """Refuse a task without tools or with foreign ones, and one that waits for words nobody will say."""
    if not tools:
        raise place.at("tools").refusal(f"missing; a task offers some of {', '.join(TOOL_NAMES)}")
    replies = world.get("replies", [])
    for index, condition in enumerate(validator.get("forbid", [])):
        until = condition.get("until")
        if until is not None and not any(is_heard(until, reply["from"], reply["text"]) for reply in replies):
            reason = f"{until!r} fits no reply of the world; write it as 'name: text', with * for any characters"
            raise place.at("validator", "forbid", index, "until").refusal(reason)
    for index, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name not in TOOL_NAMES:
            reason = f"{name!r} is not a tool of the simulated world, whose tools are {', '.join(TOOL_NAMES)}"
            raise place.at("tools", index).refusal(reason)
