"""From the words a user gave to a suite that is known to be good, before anything is sent."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.checks import check_offer, check_spec
from clawgauge.checks import spec as shape
from clawgauge.checks.tool_call import COMPARISONS
from clawgauge.errors import SuiteError
from clawgauge.records import Context, Message, Prompt, SuiteInfo, SuiteRecord, share_contexts
from clawgauge.suites.context import FUNCTION, Shapes, Tool, Toolbox, read_messages, read_tools
from clawgauge.suites.document import SUFFIXES, Place, read_document
from clawgauge.suites.draw import LONG_KEYS, Drawing, draw_values, unfold
from clawgauge.world import TOOL_NAMES, tool_definitions
from clawgauge.world.outside import is_heard

BUILTIN_SUITES = ("core", "tool_use", "native_tools", "restraint", "agentic", "long_context")
_SELECTION = tomllib.loads(Path(__file__).with_name("selection.toml").read_text("utf-8"))
SELECTION: dict[str, tuple[str, ...]] = {suite: tuple(ids.split()) for suite, ids in _SELECTION.items()}
MAX_PROMPTS, MAX_TEXT_CHARS = 10_000, 64 << 20
DEFAULT_MAX_TURNS, MOST_TURNS = 12, 100
VALIDATOR = "world_state"
_ASKED_WITH = ("system", "temperature", "max_tokens", "expected_tools", "tools", "tool_choice", "response_format",
               "world", "max_turns", "messages", "context")  # fmt: skip
_AS_WRITTEN = ("id", "name", "category", "tool_choice", "response_format", "world", "context")
_LABEL = re.compile(r"[^\s,\x00-\x1f\x7f](?:[^,\x00-\x1f\x7f]*[^\s,\x00-\x1f\x7f])?")


def label(value: Any, place: str) -> None:
    """A text by which something is selected on the command line, where commas separate and control characters hide."""
    shape.check(shape.some_text, value, place)
    if not _LABEL.fullmatch(value):
        wanted = "a short plain word without comma, control character, or white space at an end"
        raise shape.refuse(place, wanted, value)


_NAME = shape.Value("up to 64 letters, digits, underscores and hyphens", (str,), pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")
_NOTES: Shapes = {"description": shape.any_text, "strict": shape.true_or_false}
_SCHEMA = shape.Fields({"name": _NAME, "schema": shape.an_object}, _NOTES)
_FORMATS: Shapes = {"json_schema": shape.Fields({"json_schema": _SCHEMA}), "json_object": shape.Fields({})}
# What a suite says for all its prompts, and each prompt may say for itself.
_HEAT = shape.Value("a number, 0 or more", (int, float), low=0)
SAMPLING: Shapes = {"system": shape.any_text, "temperature": _HEAT, "max_tokens": shape.whole_number(1)}
_VALIDATOR = shape.Value('an object such as {"type": "noop"}, which records the answer without judging it', (dict,))
_REQUIRED: Shapes = {"id": label, "name": shape.some_text, "prompt": shape.some_text, "validator": _VALIDATOR}
PROMPT_KEYS: Shapes = {
    **_REQUIRED,
    "expected_tool_calls": shape.ListOf(shape.some_text, "tool names", least=0), "category": shape.any_text,
    **SAMPLING,
    "tools": shape.ListOf(shape.anything, "tool definitions", least=0), "tool_choice": shape.anything,
    "response_format": shape.ByType(_FORMATS, _FORMATS.__getitem__, "a format"),
    **dict.fromkeys(("variants", "draw", "long"), shape.anything), "world": shape.a_world,
    "max_turns": shape.whole_number(2, MOST_TURNS),  # with a single message the model could not answer after a call
    "messages": shape.ListOf(shape.anything, "messages"), "context": shape.some_text,
}  # fmt: skip
_PROMPT = shape.Fields(_REQUIRED, PROMPT_KEYS)
_GOING_ON = shape.Fields({key: _REQUIRED[key] for key in _REQUIRED if key != "prompt"}, PROMPT_KEYS)
_CONTEXT = shape.Fields({}, {key: PROMPT_KEYS[key] for key in ("system", "tools", "messages")})
HEADER_KEYS: Shapes = {
    "name": label, **dict.fromkeys(("version", "description"), shape.any_text), **SAMPLING,
    "compare": shape.choice(*COMPARISONS),
    "effect": shape.Fields({}, dict.fromkeys(("world", "forbid", "env", "stand_ins"), shape.anything)),
    "toolbox": shape.Named(shape.Fields({}, FUNCTION), "tools by name"), "long": shape.Fields({}, LONG_KEYS),
    "contexts": shape.Named(_CONTEXT, "contexts by name"),
    "prompts": shape.ListOf(shape.anything, "prompts ([[prompts]] in TOML)"),
}  # fmt: skip
_HEADER = shape.Fields({"prompts": HEADER_KEYS["prompts"]}, HEADER_KEYS)


class SuiteContext(NamedTuple):
    """What a prompt takes from its suite. A built-in one is checked by the tests: a run need not find out again that it
    is sound, nor load the simulated world for it. `validator_defaults` are keys by the type of a validator."""

    name: str
    sampling: Mapping[str, Any]
    toolbox: Toolbox
    validator_defaults: Mapping[str, Mapping[str, Any]]
    is_builtin: bool = False
    contexts: Mapping[str, Context] = {}


def load_suite(ref: str, *, base_dir: Path | None = None, drawing: int = 0) -> SuiteRecord:
    """A built-in suite by name, or a file by its path from `base_dir`; drawing 0 is the suite as written."""
    path, place, is_builtin = suite_path(ref, base_dir=base_dir), Place(ref), ref in BUILTIN_SUITES
    if is_builtin:
        header: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    else:
        document = read_document(path, ref)
        written = {"prompts": document} if isinstance(document, list) else document
        header = {"name": path.stem}
        header |= {key: value for key, value in written.items() if value is not None or key not in HEADER_KEYS}
        place.check(_HEADER, header)
    named_tools = header.get("toolbox", {})
    if not all(map(str.strip, named_tools)):
        raise place.at("toolbox").refusal("a tool's name must not be empty")
    toolbox = {name: {"type": "function", "function": {"name": name, **tool}} for name, tool in named_tools.items()}
    contexts = {}
    for name, entry in header.get("contexts", {}).items():
        here = place.at("contexts", name)
        system, messages = read_messages(entry, here)
        tools = read_tools(entry.get("tools", []), toolbox, here.at("tools"))
        contexts[name] = Context(system=system, tools=tools, messages=messages)
    sampling = {key: header[key] for key in SAMPLING if key in header}
    calls = {"compare": header["compare"]} if "compare" in header else {}
    defaults = {"tool_call": calls, "effect": header.get("effect", {})}
    context = SuiteContext(header["name"], sampling, toolbox, defaults, is_builtin, contexts)
    prompts = _build_prompts(header["prompts"], context, place, Drawing(drawing, context.name, header.get("long", {})))
    told = {key: header.get(key, "") for key in ("name", "version", "description")}
    return SuiteRecord(**told, sha256=prompts_sha256(prompts), source=ref, prompts=prompts)


def suite_path(ref: str, *, base_dir: Path | None = None) -> Path:
    """The file a reference stands for, whether or not it is there; a word that is no reference is refused."""
    if ref in BUILTIN_SUITES:
        return Path(__file__).with_name(f"{ref}.toml")
    if Path(ref).suffix.lower() not in SUFFIXES and os.sep not in ref and "/" not in ref:
        names = f"{', '.join(BUILTIN_SUITES[:-1])} and {BUILTIN_SUITES[-1]}"
        unknown = f"No built-in suite is called {ref!r}{shape.suggest(ref, BUILTIN_SUITES) or '.'}"
        own = f"for a file of your own give its path, ending in {' or '.join(SUFFIXES)}"
        raise SuiteError(f"{unknown} The built-in suites are {names}; {own}")
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
    told = {key: getattr(suite, key) for key in ("name", "version", "description", "sha256", "source")}
    return SuiteInfo(**told, n_prompts=len(suite.prompts))


def check_recorded(prompts: Iterable[Prompt], path: Path) -> None:
    """Raise `SuiteError` for tools or a validator in `path`, a run's config.json, that no suite file could hold."""
    for number, prompt in enumerate(prompts, 1):
        place = Place(str(path)).at_prompt(number, {"id": prompt.id})
        functions = [tool.get("function") for tool in prompt.tools]
        if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in functions):
            raise place.refusal("tools: one of them is no function")
        _check_validator(prompt.validator, prompt.tools, place)


def _check_validator(validator: Mapping[str, Any], tools: list[Tool], place: Place) -> None:
    try:
        check_spec(validator)
        check_offer(validator, tools)
    except SuiteError as error:
        raise place.refusal(f"validator: {error}") from None


def prompts_sha256(prompts: Iterable[Prompt]) -> str:
    """One hash over all that can change an answer or a verdict, and over the order of prompts and of keys in `tools`.
    Values that are not set are left out, so a field added later leaves the hash of older suites alone."""
    digest = hashlib.sha256()
    contexts, lean = share_contexts(prompts)
    for prompt in lean:
        settings = {key: getattr(prompt, key) for key in _ASKED_WITH}
        settings["messages"] = msgspec.to_builtins(prompt.messages)
        asked = {"id": prompt.id, "prompt": prompt.prompt}
        asked |= {key: value for key, value in settings.items() if value is not None and value != []}
        verdict = json.dumps(prompt.validator, sort_keys=True, separators=(",", ":"))
        digest.update(f"{json.dumps(asked, separators=(',', ':'))}\n{verdict}\n".encode("ascii"))
    if contexts:
        digest.update(json.dumps(msgspec.to_builtins(contexts), separators=(",", ":")).encode("ascii"))
    return digest.hexdigest()


def _build_prompts(entries: list[Any], suite: SuiteContext, place: Place, drawing: Drawing) -> list[Prompt]:
    variants = [entry.get("variants") if isinstance(entry, dict) else None for entry in entries]
    n_forms = sum(len(forms) if isinstance(forms, list) else 1 for forms in variants)
    if n_forms > MAX_PROMPTS:
        raise place.at("prompts").refusal(f"{n_forms} prompts; at most {MAX_PROMPTS}, so split the suite")
    prompts, number_of, n_chars = list[Prompt](), dict[str, int](), 0
    for number, entry in enumerate(entries, start=1):
        at_entry, own = place if suite.is_builtin else place.at_prompt(number, entry), suite
        if suite.is_builtin and not drawing.number:
            entry.pop("draw", None)  # its rules change nothing now
        elif isinstance(entry, dict) and entry.get("draw") is not None and isinstance(entry.get("validator"), dict):
            # What is drawn is drawn everywhere: on the machine that all prompts share, too.
            entry = {**entry, "validator": fold_defaults(entry["validator"], suite)}
            own = suite._replace(validator_defaults={})
        is_plain = suite.is_builtin and entry.keys().isdisjoint(("draw", "long", "variants", "world"))
        forms = [(entry, None)] if is_plain else unfold(draw_values(entry, drawing, at_entry), at_entry)
        for form, variant_of in forms:
            here = place if suite.is_builtin else place.at_prompt(number, form)
            prompt = build_prompt(form, own, here, variant_of)
            if prompt.id in number_of:
                first = number_of[prompt.id]
                raise here.at("id").refusal(f"{prompt.id!r} is already the id of prompt {first}; give each its own")
            number_of[prompt.id] = number
            prompts.append(prompt)
            files = (prompt.world or {}).get("files", {}).values()
            n_chars += sum(len(file.get("text", "") if isinstance(file, dict) else file) for file in files)
            shared = suite.contexts[prompt.context].messages if prompt.context else []
            n_chars += len(prompt.prompt) + sum(len(one.content) for one in prompt.messages[len(shared) :])
            # What is shared weighs a little, too.
            n_chars += 8 * (len(prompt.tools) + len(prompt.messages)) if prompt.context else 0
            if n_chars > MAX_TEXT_CHARS:
                raise here.refusal(f"over {MAX_TEXT_CHARS:,} characters of prompts by now; split the suite")
    return prompts


def build_prompt(entry: object, suite: SuiteContext, place: Place, variant_of: str | None = None) -> Prompt:
    """Check one entry and fold the suite's defaults into it. `place` already names the prompt."""
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if value is not None or key not in PROMPT_KEYS}
    goes_on = isinstance(entry, dict) and not {"messages", "context"}.isdisjoint(entry)
    if not suite.is_builtin:
        place.check(_GOING_ON if goes_on else _PROMPT, entry)
    given: dict[str, Any] = entry  # type: ignore[assignment]  # or it would have been refused
    world = given.get("world")
    toolbox = suite.toolbox if world is None else world_toolbox()
    validator = given["validator"]
    if suite.validator_defaults.get(str(validator.get("type"))):
        validator = fold_defaults(validator, suite)
    name = given.get("context")
    if name is not None and name not in suite.contexts:
        known = shape.suggest(name, suite.contexts) or f"; the suite has {', '.join(suite.contexts) or 'none'}"
        raise place.at("context").refusal(f"{name!r} is not known{known}")
    before = Context() if name is None else suite.contexts[name]
    if suite.is_builtin:
        tools = [toolbox[tool] if isinstance(tool, str) else tool for tool in given.get("tools", [])]
    else:
        tools = _checked_tools(given, validator, toolbox, before.tools, place)
    system, text, messages = _go_on(given, before, place) if goes_on else (None, given["prompt"], [])
    if not tools and any(message.calls for message in messages):
        why = "missing; the messages call tools, and not every server takes a call where none is offered"
        raise place.at("tools").refusal(why)
    expected = [*validator.get("expected_tools", []), *(call["name"] for call in validator.get("expected_calls", []))]
    for condition in validator.get("expect", []) if validator["type"] == VALIDATOR else []:
        called = condition.get("called", [])
        expected += called if isinstance(called, list) else [called]
    expected += given.get("expected_tool_calls", [])
    sampling = {**suite.sampling, **given}
    return Prompt(
        **{key: given[key] for key in _AS_WRITTEN if key in given},
        suite=suite.name, variant_of=variant_of, prompt=text, messages=messages, tools=tools, validator=validator,
        expected_tools=list(dict.fromkeys(name.strip().lower() for name in expected)),
        system=(system if system is not None else sampling.get("system")) or None,
        temperature=None if sampling.get("temperature") is None else float(sampling["temperature"]),
        max_tokens=sampling.get("max_tokens"),
        max_turns=None if world is None else given.get("max_turns", DEFAULT_MAX_TURNS),
    )  # fmt: skip


def _go_on(given: Mapping[str, Any], before: Context, place: Place) -> tuple[str | None, str, list[Message]]:
    """The system text, None where the suite's is to be had, what is said last, and all messages before that."""
    here = place.at("messages")
    system, own = read_messages(given, place)
    system = before.system if system is None else system
    text, messages = given.get("prompt"), [*before.messages, *own] if own else before.messages
    if messages and messages[0].role != "user":
        raise here.refusal("the first to speak must be a user")
    if text is None and not messages:
        place.check(_PROMPT, given)
    elif text is None and messages[-1].role == "assistant":
        raise here.refusal("the last to speak is the assistant; end with a user or a tool's result, or give a 'prompt'")
    elif text is None and messages[-1].role == "user":
        return system, messages[-1].content, messages[:-1]
    return system, text or "", messages


def _checked_tools(
    given: Mapping[str, Any], validator: Mapping[str, Any], toolbox: Toolbox, shared: list[Tool], place: Place
) -> list[Tool]:
    """The tools of a prompt, its own in the place of those of a name that it shares; what does not fit is refused."""
    world = given.get("world")
    if world is None and "max_turns" in given:
        raise place.at("max_turns").refusal("given without 'world'; only a task takes turns")
    if world is not None and "response_format" in given:
        raise place.at("response_format").refusal("given with 'world'; a task's answers may be calls, so leave it out")
    tools = read_tools(given.get("tools", []), toolbox, place.at("tools"))
    if shared:
        own = {tool["function"]["name"].lower(): tool for tool in tools}
        kept = [own.pop(tool["function"]["name"].lower(), tool) for tool in shared]
        tools = [*kept, *own.values()] if tools else shared
    _check_validator(validator, tools, place)
    if world is not None:
        check_task(world, validator, tools, place)
    elif validator["type"] == VALIDATOR:
        raise place.at("validator").refusal(f"type '{VALIDATOR}' looks at a world; give the prompt one in 'world'")
    if "tool_choice" in given:
        here, offered = place.at("tool_choice"), [tool["function"]["name"] for tool in tools]
        if not tools:
            raise here.refusal("given without 'tools'; offer some, or leave it out")
        match given["tool_choice"]:
            case "auto" | "none" | "required":
                pass
            case {"type": "function", "function": {"name": name}}:
                if name not in offered:
                    raise here.refusal(f"names {name!r}, which is not offered; the tools are {', '.join(offered)}")
            case _:
                choices = '"auto", "none", "required" or {"type": "function", "function": {"name": "…"}}'
                raise here.refusal(f"must be {choices}")
    return tools


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


@functools.cache
def world_toolbox() -> Toolbox:
    return {tool["function"]["name"]: tool for tool in tool_definitions(TOOL_NAMES)}


def check_task(world: Any, validator: Mapping[str, Any], tools: list[Tool], place: Place) -> None:
    """Refuse a task without tools or with foreign ones, and one that waits for words nobody will say."""
    if not tools:
        raise place.at("tools").refusal(f"missing; a task offers some of {', '.join(TOOL_NAMES)}")
    from clawgauge.checks.world_state import find_impossible

    if (fault := find_impossible(validator.get("expect", []), world)) is not None:
        raise place.refusal(f"validator: key '{fault[0]}' {fault[1]}")
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
