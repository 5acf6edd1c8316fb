"""From the words a user gave to a suite that is known to be good, before anything is sent."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.checks import spec as shape
from clawgauge.checks.tool_call import COMPARISONS
from clawgauge.errors import SuiteError
from clawgauge.records import Context, Prompt, SuiteInfo, SuiteRecord, share_contexts
from clawgauge.suites.context import FUNCTION, Shapes, Toolbox, read_messages, read_tools
from clawgauge.suites.document import SUFFIXES, Place, read_document
from clawgauge.suites.draw import Drawing, draw_values
from clawgauge.suites.long_text import LONG_KEYS
from clawgauge.suites.prompt import (
    PROMPT_KEYS,
    SAMPLING,
    SuiteContext,
    build_prompt,
    check_validator,
    fold_defaults,
    label,
)
from clawgauge.suites.variants import unfold

BUILTIN_SUITES = ("core", "tool_use", "native_tools", "restraint", "agentic", "long_context")
MAX_PROMPTS = 10_000
MAX_TEXT_CHARS = 64 * 1024 * 1024
# What a tool or a message of a context that prompts share adds to each of them.
_SHARED_ITEM_CHARS = 8
# What a request may depend on beside the prompt's text, in the order it is hashed.
_HASHED_FIELDS = (
    "system",
    "temperature",
    "max_tokens",
    "expected_tools",
    "tools",
    "tool_choice",
    "response_format",
    "world",
    "max_turns",
    "messages",
    "context",
)

_CONTEXT = shape.Fields({}, {key: PROMPT_KEYS[key] for key in ("system", "tools", "messages")})
_EFFECT_DEFAULTS = shape.Fields(
    {}, dict.fromkeys(("world", "forbid", "env", "stand_ins"), shape.anything)
)
HEADER_KEYS: Shapes = {
    "name": label,
    "version": shape.any_text,
    "description": shape.any_text,
    **SAMPLING,
    "compare": shape.choice(*COMPARISONS),
    "effect": _EFFECT_DEFAULTS,
    "toolbox": shape.Named(shape.Fields({}, FUNCTION), "tools by name"),
    "long": shape.Fields({}, LONG_KEYS),
    "contexts": shape.Named(_CONTEXT, "contexts by name"),
    "prompts": shape.ListOf(shape.anything, "prompts ([[prompts]] in TOML)"),
}
_HEADER = shape.Fields({"prompts": HEADER_KEYS["prompts"]}, HEADER_KEYS)


def load_suite(ref: str, *, base_dir: Path | None = None, drawing: int = 0) -> SuiteRecord:
    """A built-in suite by name, or a file by its path from `base_dir`.

    Drawing 0 is the suite as written. Raises `SuiteError`.
    """
    return read_suite(ref, base_dir=base_dir).build(drawing)


class WrittenSuite:
    """A suite's file, read: its prompts can be had as written, or as any drawing has them."""

    def __init__(self, ref: str, header: Mapping[str, Any], context: SuiteContext) -> None:
        self._ref = ref
        self._header = header
        self._context = context
        self._entries: list[Any] = header["prompts"]

    def build(self, drawing: int = 0) -> SuiteRecord:
        """The whole suite. Raises `SuiteError`."""
        header = self._header
        prompts = _build_prompts(
            [_copy_entry(entry) for entry in self._entries],
            self._context,
            Place(self._ref),
            self._make_drawing(drawing),
        )
        return SuiteRecord(
            name=header.get("name", ""),
            version=header.get("version", ""),
            description=header.get("description", ""),
            sha256=prompts_sha256(prompts),
            source=self._ref,
            prompts=prompts,
        )

    def draw(self, prompt: Prompt, drawing: int) -> Prompt | None:
        """One prompt as a drawing has it; None where the suite has no prompt of this id."""
        written_id = prompt.variant_of or prompt.id
        for number, entry in enumerate(self._entries, start=1):
            if not isinstance(entry, dict) or entry.get("id") != written_id:
                continue
            forms = _prompts_of_entry(
                _copy_entry(entry),
                number,
                self._context,
                Place(self._ref),
                self._make_drawing(drawing),
            )
            for form, _ in forms:
                if form.id == prompt.id:
                    return form
        return None

    def rules_sha256(self) -> str:
        """A hash over all that a drawing is made of: it is the same where drawings are."""
        rules = [self._entries, self._header.get("long", {})]
        text = json.dumps(rules, sort_keys=True, default=str, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _make_drawing(self, number: int) -> Drawing:
        return Drawing(number, self._context.name, self._header.get("long", {}))


def read_suite(ref: str, *, base_dir: Path | None = None) -> WrittenSuite:
    """The file of a suite, not yet made into prompts. Raises `SuiteError`."""
    path = suite_path(ref, base_dir=base_dir)
    place = Place(ref)
    is_builtin = ref in BUILTIN_SUITES
    if is_builtin:
        header: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    else:
        header = _read_header(path, place)
    toolbox = _read_toolbox(header, place)
    tool_call_defaults = {}
    if "compare" in header:
        tool_call_defaults["compare"] = header["compare"]
    context = SuiteContext(
        name=header["name"],
        sampling={key: header[key] for key in SAMPLING if key in header},
        toolbox=toolbox,
        validator_defaults={"tool_call": tool_call_defaults, "effect": header.get("effect", {})},
        is_builtin=is_builtin,
        contexts=_read_contexts(header, toolbox, place),
    )
    return WrittenSuite(ref, header, context)


def _copy_entry(entry: Any) -> Any:
    """A copy of a prompt as written, of which keys may be taken."""
    return dict(entry) if isinstance(entry, dict) else entry


def _read_header(path: Path, place: Place) -> dict[str, Any]:
    """What a file says of its suite, with the prompts as they are written."""
    document = read_document(path, place.file)
    written = {"prompts": document} if isinstance(document, list) else document
    header: dict[str, Any] = {"name": path.stem}
    for key, value in written.items():
        # A known key that is null is as good as left out.
        if value is not None or key not in HEADER_KEYS:
            header[key] = value
    place.check(_HEADER, header)
    return header


def _read_toolbox(header: Mapping[str, Any], place: Place) -> Toolbox:
    toolbox = {}
    for name, tool in header.get("toolbox", {}).items():
        if not name.strip():
            raise place.at("toolbox").refusal("a tool's name must not be empty")
        toolbox[name] = {"type": "function", "function": {"name": name, **tool}}
    return toolbox


def _read_contexts(header: Mapping[str, Any], toolbox: Toolbox, place: Place) -> dict[str, Context]:
    contexts = {}
    for name, entry in header.get("contexts", {}).items():
        context_place = place.at("contexts", name)
        system, messages = read_messages(entry, context_place)
        tools = read_tools(entry.get("tools", []), toolbox, context_place.at("tools"))
        contexts[name] = Context(system=system, tools=tools, messages=messages)
    return contexts


def suite_path(ref: str, *, base_dir: Path | None = None) -> Path:
    """The file a reference stands for, whether or not it is there.

    A word that is no reference is refused.
    """
    if ref in BUILTIN_SUITES:
        return Path(__file__).with_name(f"{ref}.toml")
    if Path(ref).suffix.lower() not in SUFFIXES and os.sep not in ref and "/" not in ref:
        unknown = f"No built-in suite is called {ref!r}{shape.suggest(ref, BUILTIN_SUITES) or '.'}"
        names = f"{', '.join(BUILTIN_SUITES[:-1])} and {BUILTIN_SUITES[-1]}"
        advice = f"for a file of your own give its path, ending in {' or '.join(SUFFIXES)}"
        raise SuiteError(f"{unknown} The built-in suites are {names}; {advice}")
    try:
        path = Path(ref).expanduser()
    except RuntimeError:
        reason = "names a home directory that is not there; write the path out"
        raise Place(ref).refusal(reason) from None
    return path if base_dir is None else base_dir / path


def is_suite_there(ref: str, base_dir: Path) -> bool:
    try:
        return suite_path(ref, base_dir=base_dir).is_file()
    except SuiteError:
        return False


def list_builtin() -> list[SuiteInfo]:
    return [describe_suite(load_suite(name)) for name in BUILTIN_SUITES]


def describe_suite(suite: SuiteRecord) -> SuiteInfo:
    return SuiteInfo(
        name=suite.name,
        version=suite.version,
        description=suite.description,
        sha256=suite.sha256,
        source=suite.source,
        n_prompts=len(suite.prompts),
    )


def check_recorded(prompts: Iterable[Prompt], path: Path) -> None:
    """Refuse tools or a validator in `path`, a run's config.json, that no suite file could hold."""
    for number, prompt in enumerate(prompts, 1):
        place = Place(str(path)).at_prompt(number, {"id": prompt.id})
        for tool in prompt.tools:
            function = tool.get("function")
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                raise place.refusal("tools: one of them is no function")
        check_validator(prompt.validator, prompt.tools, place)


def prompts_sha256(prompts: Iterable[Prompt]) -> str:
    """One hash over all that can change an answer or a verdict, and over the order of prompts.

    The order of keys in `tools` counts, too. Values that are not set are left out, so a field added
    later leaves the hash of older suites alone.
    """
    digest = hashlib.sha256()
    contexts, lean_prompts = share_contexts(prompts)
    for prompt in lean_prompts:
        request: dict[str, Any] = {"id": prompt.id, "prompt": prompt.prompt}
        for key in _HASHED_FIELDS:
            value = getattr(prompt, key)
            if key == "messages":
                value = msgspec.to_builtins(value)
            if value is not None and value != []:
                request[key] = value
        request_json = json.dumps(request, separators=(",", ":"))
        validator_json = json.dumps(prompt.validator, sort_keys=True, separators=(",", ":"))
        digest.update(f"{request_json}\n{validator_json}\n".encode("ascii"))
    if contexts:
        contexts_json = json.dumps(msgspec.to_builtins(contexts), separators=(",", ":"))
        digest.update(contexts_json.encode("ascii"))
    return digest.hexdigest()


def _build_prompts(
    entries: list[Any], suite: SuiteContext, place: Place, drawing: Drawing
) -> list[Prompt]:
    n_forms = sum(map(_count_forms, entries))
    if n_forms > MAX_PROMPTS:
        reason = f"{n_forms} prompts; at most {MAX_PROMPTS}, so split the suite"
        raise place.at("prompts").refusal(reason)
    prompts: list[Prompt] = []
    number_by_id: dict[str, int] = {}
    paired: list[tuple[Prompt, Place]] = []
    n_chars = 0
    for number, entry in enumerate(entries, start=1):
        for prompt, prompt_place in _prompts_of_entry(entry, number, suite, place, drawing):
            if prompt.id in number_by_id:
                first = number_by_id[prompt.id]
                reason = f"is already the id of prompt {first}; give each its own"
                raise prompt_place.at("id").refusal(f"{prompt.id!r} {reason}")
            number_by_id[prompt.id] = number
            prompts.append(prompt)
            n_chars += _count_chars(prompt, suite)
            if n_chars > MAX_TEXT_CHARS:
                reason = f"over {MAX_TEXT_CHARS:,} characters of prompts by now; split the suite"
                raise prompt_place.refusal(reason)
            if prompt.pair is not None:
                paired.append((prompt, prompt_place.at("pair")))
    _check_pairs(paired, {prompt.id: prompt for prompt in prompts})
    return prompts


def _check_pairs(paired: list[tuple[Prompt, Place]], prompt_by_id: Mapping[str, Prompt]) -> None:
    """Refuse a pair that is not exactly two prompts of one suite.

    `paired` are the second prompts, each with the place of its key.
    """
    second_by_first: dict[str, str] = {}
    for prompt, place in paired:
        first_id = prompt.pair or ""
        first = prompt_by_id.get(first_id)
        if first is None:
            advice = (
                shape.suggest(first_id, prompt_by_id) or "; give the id of a prompt of this suite"
            )
            raise place.refusal(f"{first_id!r} is not known{advice}")
        if first is prompt:
            raise place.refusal("names the prompt itself; name the other one")
        if first.pair is not None:
            reason = "is the second prompt of a pair itself; a pair has two prompts"
            raise place.refusal(f"{first_id!r} {reason}")
        if first_id in second_by_first:
            reason = f"is in a pair with {second_by_first[first_id]!r}; a pair has two prompts"
            raise place.refusal(f"{first_id!r} {reason}")
        if prompt.variant_of is not None or first.variant_of is not None:
            raise place.refusal("given with 'variants'; the prompts of a pair have one form each")
        second_by_first[first_id] = prompt.id


def _count_forms(entry: object) -> int:
    variants = entry.get("variants") if isinstance(entry, dict) else None
    return len(variants) if isinstance(variants, list) else 1


def _prompts_of_entry(
    entry: Any, number: int, suite: SuiteContext, place: Place, drawing: Drawing
) -> Iterable[tuple[Prompt, Place]]:
    """The forms of one entry, each with its place; `number` counts from 1."""
    if suite.is_builtin:
        if not drawing.number:
            entry.pop("draw", None)  # its rules change nothing now
        if entry.keys().isdisjoint(("draw", "long", "variants", "world")):
            yield build_prompt(entry, suite, place), place
            return
        entry_place = place
    else:
        entry_place = place.at_prompt(number, entry)
    if (
        isinstance(entry, dict)
        and entry.get("draw") is not None
        and isinstance(entry.get("validator"), dict)
    ):
        # What is drawn is drawn everywhere: on the machine that all prompts share, too.
        entry = {**entry, "validator": fold_defaults(entry["validator"], suite)}
        suite = suite._replace(validator_defaults={})
    for form, variant_of in unfold(draw_values(entry, drawing, entry_place), entry_place):
        form_place = place if suite.is_builtin else place.at_prompt(number, form)
        yield build_prompt(form, suite, form_place, variant_of), form_place


def _count_chars(prompt: Prompt, suite: SuiteContext) -> int:
    """The characters that a prompt adds to its suite, what it shares with others left out."""
    n_chars = len(prompt.prompt)
    for file in (prompt.world or {}).get("files", {}).values():
        n_chars += len(file.get("text", "") if isinstance(file, dict) else file)
    n_shared_messages = 0
    if prompt.context:
        n_shared_messages = len(suite.contexts[prompt.context].messages)
        # What is shared weighs a little, too.
        n_chars += _SHARED_ITEM_CHARS * (len(prompt.tools) + len(prompt.messages))
    for message in prompt.messages[n_shared_messages:]:
        n_chars += len(message.content)
    return n_chars
