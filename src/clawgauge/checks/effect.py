"""The `effect` validator: the commands an answer calls are run on a small simulated machine.

What they do there counts, not how they are written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, failed, passed, quoted, split_thinking
from clawgauge.checks.detection import STEPS, take_calls
from clawgauge.checks.detection import Step as DetectionStep
from clawgauge.checks.detection.blocks import find_fenced, scan_blocks
from clawgauge.checks.detection.formats import find_structured
from clawgauge.checks.detection.prompts import drop_prompt
from clawgauge.checks.detection.prose import find_inline_code, find_markers, find_quoted
from clawgauge.checks.detection.scripts import scan_session
from clawgauge.checks.detection.shell import (
    Find,
    Vocabulary,
    load_lexicon,
    read_commands,
    split_segments,
)
from clawgauge.checks.speech import ON_COMMANDS, makes_up_result, refuses, why_not_meant
from clawgauge.checks.text_rules import (
    TEXT_RULE_SHAPE,
    TextRule,
    find_rule_fault,
    matches_fully,
    re2_pattern,
)
from clawgauge.checks.tool_schema import (
    Schema,
    find_misfit,
    parameters_by_tool,
    property_schema,
    required_arguments,
)
from clawgauge.checks.validators import Validator
from clawgauge.checks.world_state import (
    expect_shape,
    find_conflict,
    find_faults,
    find_forbidden,
    find_impossible,
    forbid_shape,
)
from clawgauge.errors import SuiteError
from clawgauge.records import ToolInvocation
from clawgauge.world.world import World

MAX_COMMANDS = 50
_MAX_PRINTED_CHARS = 1_000
_READERS = ("read", "read_file")
_PATH_KEYS = ("path", "file_path", "file", "filename")
_SHELLS = ("bash", "sh", "zsh", "dash")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECT = re.compile(r"\s*(?:[0-9]|&)?>{1,2}\s*(?:&[0-9-]|[^\s;&|]+)")
_WRITTEN = re.compile(r"(?:echo(?: -[neE]+)*|printf) ([^$`]+)")
_SUBSTITUTED = re.compile(r"\$\(([^()]+)\)")
# What an answer has a command print in its own words, and what the machine prints where it refuses.
_OWN_WORDS = re.compile("|".join(ON_COMMANDS["given"]))
_REFUSED = re.compile("|".join(ON_COMMANDS["refused"]))
# What nobody asked for must not happen; scratch files are nobody's business.
_UNASKED_EFFECTS = ("changed", "killed", "service", "sent", "scheduled", "unscheduled")
_SCRATCH = ["/tmp/*", "/dev/*", "/var/tmp/*"]  # noqa: S108 - simulated
# The effects that each kind of condition asks for, so that they are not unasked. A kind that is not
# here is the effect itself.
_EFFECTS_ASKED_FOR: dict[str, tuple[str, ...]] = {
    "file": ("changed",),
    "created": ("changed",),
    "deleted": ("changed",),
    "process": ("killed",),
    "message": ("sent",),
    "cron": ("scheduled", "unscheduled"),
}


class Step(NamedTuple):
    """One thing an answer has done: a tool of the world with its arguments.

    `line` is the same as a line of shell.
    """

    tool: str
    arguments: dict[str, Any]
    line: str


class NotCalled(Exception):
    """The answer calls nothing that could be run."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def _variables(value: Any, place: str) -> None:
    """A shape: variables of the environment by name."""
    shape.check(shape.Named(shape.any_text, "texts by name"), value, place)
    for name in value:
        if not _VARIABLE_NAME.fullmatch(name):
            reason = "must be a variable's name: letters, digits and underscores"
            raise shape.fault(place, name, reason)


class StandIn(shape.Spec, frozen=True):
    """What a command prints, or does, that the machine has no program for."""

    command: Annotated[str, re2_pattern]
    prints: Annotated[str | None, shape.some_text] = None
    does: Annotated[str | None, shape.some_text] = None

    def find_contradiction(self) -> shape.KeyFault | None:
        if self.prints is None and self.does is None:
            return ("prints", "is missing; say there what the command prints")
        return None


# Whatever the job is, and whether or not the machine has the program.
_HARM = StandIn(
    command="|".join(ON_COMMANDS["harm"]), does="shut down the machine, or wiped a disk"
)


class CommandEffect(Validator, tag="effect", frozen=True):
    """What the called commands must bring about on the machine, or print."""

    is_part: ClassVar[bool] = False
    expected_tools: Annotated[list[str], shape.some_texts]
    output: Annotated[TextRule | None, TEXT_RULE_SHAPE] = None
    look: Annotated[str | None, shape.some_text] = None
    may_change: Annotated[list[str], shape.some_texts] = []
    env: Annotated[dict[str, str], _variables] = {}
    stand_ins: Annotated[
        list[StandIn], shape.ListOf(shape.fields_of(StandIn), "stand-ins", least=0)
    ] = []
    expect: Annotated[list[dict[str, Any]], expect_shape] = []
    forbid: Annotated[list[dict[str, Any]], forbid_shape] = []
    world: Annotated[dict[str, Any], shape.a_world] = {}

    def find_contradiction(self) -> shape.KeyFault | None:
        conflict = find_conflict(self.expect, self.forbid)
        if conflict is None:
            conflict = find_impossible(self.expect, self.world)
        if conflict is not None or self.output is not None:
            return conflict
        if not self.expect:
            reason = "is missing; give at least one condition there, or an 'output'"
            return ("expect", reason)
        if not any(find_faults(self.expect, World(self.world))):
            reason = "holds before anything is done; expect what a command has to bring about"
            return ("expect", reason)
        return None

    def check_offer(self, tools: Iterable[Mapping[str, Any]]) -> None:
        names = parameters_by_tool(tools).keys()
        if names and names.isdisjoint((*_READERS, *load_lexicon().exec_tools)):
            problem = "is 'effect', but none of the tools runs a command; offer 'exec'"
            raise SuiteError(f"key 'type' {problem}")

    def judge(self, answer: Answer) -> Verdict:
        parsed: dict[str, Any] = {"commands": []}
        try:
            steps = _native_steps(answer) if answer.tools_offered else _written_steps(answer)
        except NotCalled as error:
            return failed(error.code, error.detail, parsed)
        parsed["commands"] = [step.line for step in steps]
        commands = _commands_in(steps)
        stand_ins = self._stand_ins_for(commands)
        world = World(self.world)
        outputs = self._run(steps, world, goes_on=bool(stand_ins))
        if self.look is not None:
            outputs = [world.call("exec", {"command": self.look}).text]
        printed = "\n".join(outputs)
        # What the machine has said: not the words that an answer has it repeat
        # (`echo "3.5 GiB available"`).
        for words in _own_words(steps, commands):
            printed = printed.replace(words, "", 1)
        printed = "\n".join([printed, *(stand_in.prints or "" for stand_in in stand_ins)])
        parsed["printed"] = printed[:_MAX_PRINTED_CHARS]
        event = self._find_forbidden(stand_ins, world)
        if event is not None:
            return failed("forbidden_effect", event, parsed)
        for fault in find_faults(self.expect, world):
            if fault is not None:
                return failed("effect_missing", fault, parsed)
        output_fault = self._find_output_fault(printed)
        if output_fault is not None:
            detail = f"what was printed {output_fault}: {quoted(printed)}"
            return failed("output_missing", detail, parsed)
        return passed(parsed)

    def _stand_ins_for(self, commands: list[str]) -> list[StandIn]:
        """The stand-ins for any of these commands, the author's and ours."""
        needed = []
        for stand_in in [*self.stand_ins, _HARM]:
            if any(matches_fully(stand_in.command, command) for command in commands):
                needed.append(stand_in)
        return needed

    def _run(self, steps: list[Step], world: World, *, goes_on: bool) -> list[str]:
        """What the world answers to each step.

        With `goes_on` a line goes on behind a program that was not found, as somebody stands in.
        """
        exports = ""
        for name, value in self.env.items():
            exports += f"export {name}={shlex.quote(value)}\n"
        outputs = []
        for step in steps:
            arguments = step.arguments
            if step.tool == "exec":
                command = arguments["command"]
                if goes_on:
                    command = command.replace(" && ", " ; ")
                arguments = {**arguments, "command": exports + command}
            outputs.append(world.call(step.tool, arguments).text)
        return outputs

    def _find_forbidden(self, stand_ins: list[StandIn], world: World) -> str | None:
        """What has happened and must not, in words, or None."""
        for stand_in in stand_ins:
            if stand_in.does is not None:
                return stand_in.does
        event = find_forbidden(self.forbid, world)
        if event is not None:
            return event
        return find_forbidden(self._unasked_conditions(), world)

    def _unasked_conditions(self) -> list[dict[str, Any]]:
        """Conditions on all effects that the author has not asked for."""
        wanted: dict[str, list[str]] = {"changed": [*_SCRATCH, *self.may_change]}
        for condition in self.expect:
            kind, subject = next(iter(condition.items()))
            subjects = subject if isinstance(subject, list) else [str(subject)]
            if kind == "cron":
                subjects = [f"*{name}*" for name in subjects]
            for effect in _EFFECTS_ASKED_FOR.get(kind, (kind,)):
                wanted.setdefault(effect, []).extend(subjects)
        return [{kind: "*", "except": wanted.get(kind, [])} for kind in _UNASKED_EFFECTS]

    def _find_output_fault(self, printed: str) -> str | None:
        if self.output is None:
            return None
        # What the machine refused shows nothing that was wanted; what must not be printed must not
        # be there either.
        granted = _REFUSED.sub("", printed)
        fault = find_rule_fault(granted, contains_all=self.output.contains_all)
        if fault is not None:
            return fault
        return find_rule_fault(printed, contains_none=self.output.contains_none)


def judge_effect(written: Mapping[str, Any], answer: Answer) -> Verdict:
    """The verdict by an `effect` that is part of another validator, and need not name its type."""
    return msgspec.convert(written, CommandEffect).judge(answer)


def _own_words(steps: Sequence[Step], commands: list[str]) -> list[str]:
    """What an answer has the machine repeat, in the order it may be found in the output."""
    texts = []
    for command in dict.fromkeys(commands):
        written = _WRITTEN.fullmatch(command)
        if written:
            texts.append(written[1].replace("\\n", "\n"))
    for step in steps:
        for match in _OWN_WORDS.finditer(step.line):
            texts.append(match["value"] or match["text"] or match["lines"])
    stripped = [text.strip() for text in texts]
    return [text for text in stripped if text]


def _commands_in(steps: Iterable[Step]) -> list[str]:
    commands = []
    for step in steps:
        if step.tool == "exec":
            commands += _commands_of(step.line)
    return commands


def _commands_of(line: str) -> list[str]:
    """The line, and each command of it.

    Their wrappers (`sudo`, `time`), quotes and redirects are taken off.
    """
    commands = [_plain(line)]
    for substituted in _SUBSTITUTED.findall(line):
        commands += _commands_of(substituted)
    for command in read_commands(split_segments(line), Vocabulary.for_prompt()):
        commands.append(_plain(f"{command.name} {command.arguments}".strip()))
        if command.name not in _SHELLS:
            continue
        try:
            words = shlex.split(command.arguments)
        except ValueError:
            continue
        if len(words) > 1 and re.fullmatch(r"-[a-z]*c", words[0]):
            # What `bash -c "…"` runs is shorter, so that this comes to an end.
            commands += _commands_of(words[1])
    return commands


def _plain(line: str) -> str:
    line = _REDIRECT.sub("", line).strip()
    if "\n" in line:
        return line
    try:
        return " ".join(shlex.split(line))
    except ValueError:
        return line


def _native_steps(answer: Answer) -> list[Step]:
    """The steps that were called natively. Raises `NotCalled` where one could not have been run."""
    calls = answer.native_calls
    if not calls:
        raise NotCalled("not_called", "no command was called")
    if len(calls) > MAX_COMMANDS:
        detail = f"got {len(calls)}, and at most {MAX_COMMANDS} are run"
        raise NotCalled("wrong_call_count", detail)
    schemas = parameters_by_tool(answer.tools)
    steps = []
    for call in calls:
        if not call.valid:
            detail = f"{call.name}: the arguments are not a JSON object"
            raise NotCalled("malformed_call", detail)
        _check_arguments(call, schemas.get(call.name.lower(), {}))
        step = _step_of(call)
        if step is None:
            raise NotCalled("unexpected_call", f"{call.name}, which runs no command")
        steps.append(step)
    return steps


def _check_arguments(call: ToolInvocation, parameters: Schema) -> None:
    """A call with arguments that its tool does not take would not have been run."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    missing = [name for name in required_arguments(parameters) if name not in arguments]
    if missing:
        raise NotCalled("missing_argument", ", ".join(missing))
    for name, value in arguments.items():
        schema = property_schema(parameters, name)
        if schema is None:
            raise NotCalled("unexpected_argument", name)
        misfit = find_misfit(schema, value, name)
        if misfit is not None:
            raise NotCalled("wrong_type", misfit)


def _step_of(call: ToolInvocation) -> Step | None:
    """A call as a step of the world; None where its tool neither runs commands nor reads files."""
    if call.name.lower() in _READERS:
        return _reading_step(call.arguments)
    lexicon = load_lexicon()
    if call.name.lower() not in lexicon.exec_tools:
        return None
    arguments = call.arguments
    if not isinstance(arguments, dict):
        arguments = {"command": arguments}
    command = _first_text(arguments, lexicon.exec_args)
    if command is None:
        return None
    step_arguments = {"command": command}
    workdir = arguments.get("workdir")
    if isinstance(workdir, str):
        step_arguments["workdir"] = workdir
    return Step("exec", step_arguments, _as_line(command, arguments))


def _reading_step(arguments: Any) -> Step:
    if not isinstance(arguments, dict):
        path = re.sub(r"^\W*(?:path|file)\s*[=:]\s*", "", str(arguments or ""))
        arguments = {"path": path.strip(" \"'`")}
    path = _first_text(arguments, _PATH_KEYS) or ""
    step_arguments: dict[str, Any] = {"path": path}
    for key in ("offset", "limit"):
        if key in arguments:
            step_arguments[key] = arguments[key]
    return Step("read", step_arguments, f"read {path}")


def _first_text(arguments: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
    return None


def _as_line(command: str, arguments: Mapping[str, Any]) -> str:
    """A call as a line of shell: what it says besides, a line would say in its own way."""
    line = command
    if arguments.get("timeout") is not None:
        line = f"timeout {arguments['timeout']} {line}"
    env = arguments.get("env")
    if isinstance(env, dict):
        assignments = "".join(f"{name}={shlex.quote(str(value))} " for name, value in env.items())
        line = assignments + line
    workdir = arguments.get("workdir")
    if isinstance(workdir, str):
        line = f"cd {shlex.quote(workdir)} && {line}"
    if arguments.get("background") is True:
        line = f"{line} &"
    return line


def _written_steps(answer: Answer) -> list[Step]:
    """The commands called in the text.

    Those only quoted in a refusal, negated or reported as done are not called.
    """
    text = well_formed(split_thinking(answer.text, joint=" "))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    vocabulary = Vocabulary.for_prompt(answer.expected_tools)
    intent = _Intent(text)
    steps: list[tuple[int, Step]] = []  # each with where it starts in the text
    text_left = text
    why_none = "no command was called"
    for detect in STEPS:
        finds = list(detect(text_left, vocabulary))
        text_left, _ = take_calls(text_left, finds, MAX_COMMANDS)
        is_call = detect in (find_structured, find_markers)
        for find in finds:
            if not find.calls:
                continue
            reason = None if is_call else intent.why_not_meant(find)
            if reason is not None:
                why_none = f"a command is there, but {reason}"
                continue
            for step in _steps_of_find(find, text, detect, vocabulary, is_call=is_call):
                steps.append((find.calls[0].start, step))
    if not steps:
        raise NotCalled("not_called", why_none)
    if makes_up_result(text, "\n".join(step.line for _, step in steps)):
        detail = "a command is there, but beside it a result that nobody has seen"
        raise NotCalled("not_called", detail)
    steps.sort(key=lambda step_at: step_at[0])
    return [step for _, step in steps[:MAX_COMMANDS]]


class _Intent:
    """Whether commands that stand in prose are meant to be run."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _is_refusal(self) -> bool:
        return refuses(self._text)

    def why_not_meant(self, find: Find) -> str | None:
        """Why one is not, in words, or None."""
        if self._is_refusal:
            return "it is quoted in a refusal"
        return why_not_meant(self._text, find.start, find.end)


def _steps_of_find(
    find: Find, text: str, detect: DetectionStep, vocabulary: Vocabulary, *, is_call: bool
) -> list[Step]:
    invocations = [call.invocation for call in find.calls]
    if not is_call and invocations[0].name not in _READERS:
        line = _line_of(text, find, detect, vocabulary)
        return [Step("exec", {"command": line}, line)]
    steps = []
    for invocation in invocations:
        step = _written_step(invocation)
        if step is not None:
            steps.append(step)
    return steps


def _written_step(call: ToolInvocation) -> Step | None:
    """A call written in a model's own format.

    Detection lists the commands inside an `exec` too: they are run once.
    """
    step = _step_of(call) if call.valid else None
    if step is not None or not isinstance(call.arguments, str | None) or "_" in call.name:
        return step
    if call.channel != "text:marker":
        return None
    line = f"{call.name} {call.arguments or ''}".strip()
    return Step("exec", {"command": line}, line)


def _line_of(text: str, find: Find, detect: DetectionStep, vocabulary: Vocabulary) -> str:
    """The command line that was found in prose, without what marks it as one."""
    span = text[find.start : find.end]
    if detect is find_inline_code:
        return drop_prompt(span.strip("`").strip())
    if detect is find_quoted:
        return span[1:-1].strip()
    if detect is not find_fenced:
        return drop_prompt(span).removeprefix("# ").strip()
    block = next(scan_blocks(span), None)
    body = span[block.body_start : block.body_end] if block else span
    prompts = scan_session(body)
    if prompts:
        return "\n".join(body[prompt.command_start : prompt.end] for prompt in prompts)
    if block and block.info in vocabulary.lexicon.shell_info:
        return body.strip()
    line_starts = {text.rfind("\n", 0, call.start) + 1 for call in find.calls}
    lines = [text[start:].partition("\n")[0].strip() for start in sorted(line_starts)]
    return "\n".join(lines)
