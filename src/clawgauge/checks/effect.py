"""The `effect` validator: the commands an answer calls are run on a small simulated machine, and what they do counts.

An answer's commands are those it calls natively (`exec`, `bash`, …) where the prompt offers tools, else those detected
in its text. Nothing runs on the host.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from clawgauge.characters import well_formed
from clawgauge.checks.answer import NATIVE, Answer, Verdict, answer_pieces, failed, passed, quoted
from clawgauge.checks.detection import STEPS, Find, Vocabulary
from clawgauge.checks.detection.finds import take_calls
from clawgauge.checks.detection.formats import find_structured
from clawgauge.checks.detection.prose import (
    drop_prompt,
    find_fenced,
    find_inline_code,
    find_markers,
    find_quoted,
    scan_blocks,
    scan_prompts,
)
from clawgauge.checks.detection.shell import Command, load_lexicon, read_commands, split_segments
from clawgauge.checks.spec import (
    kind_of,
    matches_fully,
    refuse,
    refuse_unknown,
    require_pattern,
    require_text,
    require_texts,
)
from clawgauge.checks.speech import makes_up_result, refuses, why_not_meant
from clawgauge.checks.text import check_text_rule, find_rule_fault
from clawgauge.checks.tool_schema import Schema, find_misfit, parameters_by_tool, property_schema, required_names
from clawgauge.checks.world_state import check_conditions, find_faults, find_forbidden
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation
from clawgauge.world import World, check_world

Spec = Mapping[str, Any]
KEYS = ("type", "expected_tools", "world", "expect", "forbid", "output", "may_change", "look", "env", "stand_ins")
MAX_COMMANDS = 50
_NOT_CALLED = "not_called"
_READERS = ("read", "read_file")
_PATH_KEYS = ("path", "file_path", "file", "filename")
_SHELLS = ("bash", "sh", "zsh", "dash")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECT = re.compile(r"\s*(?:[0-9]|&)?>{1,2}\s*(?:&[0-9-]|[^\s;&|]+)")
# What nobody asked for must not happen; scratch files are nobody's business.
_UNASKED = ("changed", "killed", "service", "sent", "scheduled", "unscheduled")
_SCRATCH = ["/tmp/*", "/dev/*", "/var/tmp/*"]  # noqa: S108 - simulated
# The effects each kind of expectation asks for, so that they are not unasked.
_ASKED: Mapping[str, tuple[str, ...]] = {
    "file": ("changed",),
    "created": ("changed",),
    "deleted": ("changed",),
    "process": ("killed",),
    "message": ("sent",),
    "cron": ("scheduled", "unscheduled"),
}


class Step(NamedTuple):
    """One thing an answer has done: a tool of the world with its arguments, and the same as a line of shell."""

    tool: str
    arguments: dict[str, Any]
    line: str


class NotCalled(Exception):
    """The answer calls nothing that could be run."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def check_effect_spec(spec: Spec) -> None:
    """Refuse a specification by which no answer can be judged, or that holds before anything is done."""
    refuse_unknown(spec, KEYS)
    require_texts(spec, "expected_tools")
    if "output" in spec:
        if not isinstance(spec["output"], Mapping):
            raise refuse("output", "an object with contains_all or contains_none", spec["output"])
        refuse_unknown(spec["output"], ("contains_all", "contains_none"))
        check_text_rule(spec["output"], "output")
    if "look" in spec:
        require_text(spec, "look")
    if "may_change" in spec:
        require_texts(spec, "may_change")
    _check_env(spec.get("env", {}))
    _check_stand_ins(spec.get("stand_ins", []))
    check_conditions(spec)
    world = spec.get("world", {})
    if not isinstance(world, Mapping):
        raise refuse("world", "an object", world)
    _check_world(json.dumps(world))
    if not spec.get("expect") and "output" not in spec:
        raise SuiteError("key 'expect' is missing; give at least one condition there, or an 'output'")
    if "output" not in spec and not any(find_faults(spec, World(world))):
        raise SuiteError("key 'expect' holds before anything is done; expect what a command has to bring about")


@lru_cache(maxsize=64)
def _check_world(encoded: str) -> None:
    """One suite has one world for most of its prompts."""
    try:
        check_world(json.loads(encoded))
    except SuiteError as error:
        raise SuiteError(f"world: {error}") from None


def _check_env(env: Any) -> None:
    if not isinstance(env, Mapping):
        raise refuse("env", "an object of texts by name", env)
    for name, value in env.items():
        if not _ENV_NAME.fullmatch(name) or not isinstance(value, str):
            raise SuiteError(f"key 'env.{name}' must be a variable's name with a text, not {kind_of(value)}")


def _check_stand_ins(stand_ins: Any) -> None:
    if not isinstance(stand_ins, list):
        raise refuse("stand_ins", "a list of objects with a command and what it prints", stand_ins)
    for index, stand_in in enumerate(stand_ins):
        place = f"stand_ins[{index}]"
        if not isinstance(stand_in, Mapping):
            raise refuse(place, "an object with a command and what it prints or does", stand_in)
        try:
            refuse_unknown(stand_in, ("command", "prints", "does"))
            require_pattern(stand_in, "command")
            require_text(stand_in, "does" if "does" in stand_in else "prints")
        except SuiteError as error:
            raise SuiteError(f"key '{place}': {error}") from None


def judge_effect(spec: Spec, answer: Answer) -> Verdict:
    parsed: dict[str, Any] = {"commands": []}
    try:
        steps = _native_steps(answer) if answer.tools_offered else _written_steps(answer)
    except NotCalled as why:
        return failed(why.code, str(why), parsed)
    parsed["commands"] = [step.line for step in steps]
    world = World(spec.get("world", {}))
    stand_ins = _stand_ins_for(steps, spec)
    printed = "\n".join([_perform(world, step, spec, goes_on=bool(stand_ins)) for step in steps])
    if "look" in spec:
        printed = world.call("exec", {"command": spec["look"]}).text
    printed = "\n".join([printed, *(stand_in.get("prints", "") for stand_in in stand_ins)])
    parsed["printed"] = printed[:1_000]
    done = next((stand_in["does"] for stand_in in stand_ins if "does" in stand_in), None)
    effect = done or find_forbidden(spec, world) or find_forbidden({"forbid": _unasked(spec)}, world)
    if effect is not None:
        return failed("forbidden_effect", effect, parsed)
    fault = next(filter(None, find_faults(spec, world)), None)
    if fault is not None:
        return failed("effect_missing", fault, parsed)
    fault = find_rule_fault(spec["output"], printed) if "output" in spec else None
    if fault is not None:
        return failed("output_missing", f"what was printed {fault}: {quoted(printed)}", parsed)
    return passed(parsed)


def _perform(world: World, step: Step, spec: Spec, *, goes_on: bool) -> str:
    """What a step prints on the machine. A line `goes_on` where a program that somebody stands in for was not found."""
    arguments = step.arguments
    if step.tool == "exec":
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in spec.get("env", {}).items())
        command = arguments["command"].replace(" && ", " ; ") if goes_on else arguments["command"]
        arguments = arguments | {"command": exports + command}
    return world.call(step.tool, arguments).text


def _stand_ins_for(steps: Sequence[Step], spec: Spec) -> list[Mapping[str, Any]]:
    """Who speaks for the programs that the machine lacks and the steps call."""
    commands = [command for step in steps if step.tool == "exec" for command in _commands_of(step.line)]
    return [
        stand_in
        for stand_in in spec.get("stand_ins", [])
        if any(matches_fully(stand_in["command"], command) for command in commands)
    ]


def _commands_of(line: str) -> list[str]:
    """The line, and each command of it without its wrappers (`sudo`, `time`), quotes and redirects taken off."""
    commands = [_plain(line)]
    for command in read_commands(split_segments(line), Vocabulary.for_prompt()):
        words = f"{command.name} {command.arguments}".strip()
        commands.append(_plain(words))
        inner = _inner_line(command)
        if inner is not None:
            commands += _commands_of(inner)
    return commands


def _inner_line(command: Command) -> str | None:
    """The command line that `bash -c "…"` runs; shorter than its own, so that this comes to an end."""
    if command.name not in _SHELLS:
        return None
    try:
        words = shlex.split(command.arguments)
    except ValueError:
        return None
    return words[1] if len(words) > 1 and re.fullmatch(r"-[a-z]*c", words[0]) else None


def _plain(line: str) -> str:
    line = _REDIRECT.sub("", line).strip()
    try:
        return " ".join(shlex.split(line)) if "\n" not in line else line
    except ValueError:
        return line


def _unasked(spec: Spec) -> list[dict[str, Any]]:
    """The conditions that forbid what the expectations do not ask for."""
    asked: dict[str, list[str]] = {"changed": [*_SCRATCH, *spec.get("may_change", [])]}
    for condition in spec.get("expect", []):
        kind, subject = next(iter(condition.items()))
        for effect in _ASKED.get(kind, (kind,)):
            subjects = subject if isinstance(subject, list) else [str(subject)]
            asked.setdefault(effect, []).extend(f"*{s}*" if kind == "cron" else s for s in subjects)
    return [{kind: "*", "except": asked.get(kind, [])} for kind in _UNASKED]


# --- what the answer calls -------------------------------------------------------------------------------------------


def _native_steps(answer: Answer) -> list[Step]:
    native = [call for call in answer.tool_invocations if call.channel == NATIVE][:MAX_COMMANDS]
    if not native:
        raise NotCalled(_NOT_CALLED, "no command was called")
    schemas = parameters_by_tool(answer.tools)
    steps: list[Step] = []
    for call in native:
        if not call.valid:
            raise NotCalled("malformed_call", f"{call.name}: the arguments are not a JSON object")
        _refuse_misfit(call, schemas.get(call.name.lower(), {}))
        step = _step_of(call)
        if step is None:
            raise NotCalled("unexpected_call", f"{call.name}, which runs no command")
        steps.append(step)
    return steps


def _refuse_misfit(call: ToolInvocation, parameters: Schema) -> None:
    """A call with arguments that its tool does not take would not have been run."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    missing = [name for name in required_names(parameters) if name not in given]
    if missing:
        raise NotCalled("missing_argument", ", ".join(missing))
    for name, value in given.items():
        schema = property_schema(parameters, name)
        if schema is None:
            raise NotCalled("unexpected_argument", name)
        if (misfit := find_misfit(schema, value, name)) is not None:
            raise NotCalled("wrong_type", misfit)


def _step_of(call: ToolInvocation) -> Step | None:
    """A call as a step of the world; None where its tool neither runs commands nor reads files."""
    name, arguments, lexicon = call.name.lower(), call.arguments, load_lexicon()
    if name in lexicon.exec_tools:
        fields = arguments if isinstance(arguments, dict) else {"command": arguments}
        command = next((fields[key] for key in lexicon.exec_args if isinstance(fields.get(key), str)), None)
        return None if command is None else _exec_step(command, fields)
    if name in _READERS:
        fields = arguments if isinstance(arguments, dict) else {"path": str(arguments or "").strip(" \"'`")}
        path = next((fields[key] for key in _PATH_KEYS if isinstance(fields.get(key), str)), "")
        rest = {key: fields[key] for key in ("offset", "limit") if key in fields}
        return Step("read", {"path": path, **rest}, f"read {path}")
    return None


def _exec_step(command: str, fields: Mapping[str, Any]) -> Step:
    """A command with what the call says besides, which a line of shell would say in its own way."""
    line, workdir, env = command, fields.get("workdir"), fields.get("env")
    if fields.get("timeout") is not None:
        line = f"timeout {fields['timeout']} {line}"
    if isinstance(env, dict):
        line = "".join(f"{name}={shlex.quote(str(value))} " for name, value in env.items()) + line
    if isinstance(workdir, str):
        line = f"cd {shlex.quote(workdir)} && {line}"
    if fields.get("background") is True:
        line = f"{line} &"
    return Step("exec", {"command": command} | ({"workdir": workdir} if isinstance(workdir, str) else {}), line)


def _written_steps(answer: Answer) -> list[Step]:
    """The commands called in the text; those only quoted in a refusal, negated or reported as done are not."""
    text = well_formed(" ".join(answer_pieces(answer.text))).replace("\r\n", "\n").replace("\r", "\n")
    steps: list[tuple[int, Step]] = []
    why = "no command was called"
    refused: bool | None = None
    for at, find, is_call, lines in _spoken(text, answer.expected_tools):
        if not is_call:
            refused = refuses(text) if refused is None else refused
            reason = "it is quoted in a refusal" if refused else why_not_meant(text, find.start, find.end)
            if reason is not None:
                why = f"a command is there, but {reason}"
                continue
        steps += [(at, step) for step in lines]
    if not steps:
        raise NotCalled(_NOT_CALLED, why)
    if makes_up_result(text, "\n".join(step.line for _, step in steps)):
        raise NotCalled(_NOT_CALLED, "a command is there, but beside it a result that nobody has seen")
    return [step for _, step in sorted(steps, key=lambda step: step[0])][:MAX_COMMANDS]


def _spoken(text: str, expected: Sequence[str]) -> Iterator[tuple[int, Find, bool, list[Step]]]:
    """Each find of the detection that holds calls: its place, whether it is a call in form, and its steps."""
    vocabulary = Vocabulary.for_prompt(expected)
    left = text
    for detect in STEPS:
        finds = list(detect(left, vocabulary))
        for find in finds:
            if not find.calls:
                continue
            in_form = detect in (find_structured, find_markers)
            invocations = [call.invocation for call in find.calls]
            if in_form or invocations[0].name in _READERS:
                steps = list(filter(None, map(_written_step, invocations)))
            else:
                line = _line_of(text, find, detect, vocabulary)
                steps = [Step("exec", {"command": line}, line)]
            yield find.calls[0].at, find, in_form, steps
        left, _ = take_calls(left, finds, MAX_COMMANDS)


def _written_step(call: ToolInvocation) -> Step | None:
    """A call written in a model's own format. Detection lists the commands inside an `exec` too: they are run once."""
    step = _step_of(call) if call.valid else None
    if step is not None or not isinstance(call.arguments, str | None) or "_" in call.name:
        return step
    line = f"{call.name} {call.arguments or ''}".strip()
    return Step("exec", {"command": line}, line) if call.channel == "text:marker" else None


def _line_of(text: str, find: Find, detect: Any, vocabulary: Vocabulary) -> str:
    """The shell lines of a find, without the marks around them."""
    span = text[find.start : find.end]
    if detect is find_inline_code:
        return drop_prompt(span.strip("`").strip())
    if detect is find_quoted:
        return span[1:-1].strip()
    if detect is not find_fenced:
        return drop_prompt(span).removeprefix("# ").strip()
    block = next(scan_blocks(span), None)
    body = span[block.body_start : block.body_end] if block else span
    prompts = [prompt for prompt in scan_prompts(body) if not prompt.midline and not prompt.hash_only]
    if prompts:
        return "\n".join(body[prompt.command_start : prompt.end] for prompt in prompts)
    if block and block.info in vocabulary.lexicon.shell_info:
        return body.strip()
    starts = {text.rfind("\n", 0, call.at) + 1 for call in find.calls}
    return "\n".join(text[start:].partition("\n")[0].strip() for start in sorted(starts))
