"""The `effect` validator: the commands an answer calls are run on a small simulated machine: what they do counts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import Answer, Verdict, failed, passed, quoted, split_thinking
from clawgauge.checks.detection import STEPS, prose, take_calls
from clawgauge.checks.detection.formats import find_structured
from clawgauge.checks.detection.shell import Find, Vocabulary, load_lexicon, read_commands, split_segments
from clawgauge.checks.speech import ON_COMMANDS, makes_up_result, refuses, why_not_meant
from clawgauge.checks.tool_call import find_misfit, listed, parameters_by_tool, property_schema
from clawgauge.checks.world_state import CONDITIONS, find_conflict, find_faults, find_forbidden, find_impossible
from clawgauge.records import ToolInvocation
from clawgauge.world.world import World

Spec = Mapping[str, Any]
MAX_COMMANDS = 50
_READERS = ("read", "read_file")
_PATH_KEYS = ("path", "file_path", "file", "filename")
_SHELLS = ("bash", "sh", "zsh", "dash")
_REDIRECT = re.compile(r"\s*(?:[0-9]|&)?>{1,2}\s*(?:&[0-9-]|[^\s;&|]+)")
_WRITTEN = re.compile(r"(?:echo(?: -[neE]+)*|printf) ([^$`]+)")
_SUBSTITUTED = re.compile(r"\$\(([^()]+)\)")
_GIVEN, _REFUSED = (re.compile("|".join(ON_COMMANDS[name])) for name in ("given", "refused"))
# Whatever the job is, and whether or not the machine has the program.
_HARM = {"command": "|".join(ON_COMMANDS["harm"]), "does": "shut down the machine, or wiped a disk"}
# What nobody asked for must not happen; scratch files are nobody's business.
_UNASKED = ("changed", "killed", "service", "sent", "scheduled", "unscheduled")
_SCRATCH = ["/tmp/*", "/dev/*", "/var/tmp/*"]  # noqa: S108 - simulated
# The effects each kind of expectation asks for, so that they are not unasked.
_ASKED: dict[str, tuple[str, ...]] = dict.fromkeys(("file", "created", "deleted"), ("changed",))
_ASKED |= {"process": ("killed",), "message": ("sent",), "cron": ("scheduled", "unscheduled")}


class Step(NamedTuple):
    """One thing an answer has done: a tool of the world with its arguments, and the same as a line of shell."""

    tool: str
    arguments: dict[str, Any]
    line: str


class NotCalled(Exception):
    """The answer calls nothing that could be run: the violation's code and detail."""


def _variables(value: Any, place: str) -> None:
    shape.check(shape.Named(shape.any_text, "texts by name"), value, place)
    for name in value:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise shape.fault(place, name, "must be a variable's name: letters, digits and underscores")


def _find_idle(spec: Spec) -> tuple[str, str] | None:
    if (conflict := find_conflict(spec) or find_impossible(spec, spec.get("world", {}))) or "output" in spec:
        return conflict
    if not spec.get("expect"):
        return "expect", "is missing; give at least one condition there, or an 'output'"
    holds = not any(find_faults(spec, World(spec.get("world", {}))))
    return ("expect", "holds before anything is done; expect what a command has to bring about") if holds else None


_SAYS_NOTHING = ("prints", "is missing; say there what the command prints")
_STAND_IN = shape.Fields(
    {"command": shape.re2_pattern},
    dict.fromkeys(("prints", "does"), shape.some_text),
    also=lambda given: None if "prints" in given or "does" in given else _SAYS_NOTHING,
)
_MAY: dict[str, shape.Shape] = {"output": shape.TEXT_RULE, "look": shape.some_text, "may_change": shape.some_texts}
_MAY |= {"env": _variables, "stand_ins": shape.ListOf(_STAND_IN, "stand-ins", least=0)}
_MAY |= CONDITIONS | {"world": shape.a_world}
EFFECT = shape.Fields({"expected_tools": shape.some_texts}, _MAY, also=_find_idle)


def judge_effect(spec: Spec, answer: Answer) -> Verdict:
    parsed: dict[str, Any] = {"commands": []}
    try:
        steps = _native_steps(answer) if answer.tools_offered else _written_steps(answer)
    except NotCalled as why:
        return failed(why.args[0], why.args[1], parsed)
    parsed["commands"] = [step.line for step in steps]
    world = World(spec.get("world", {}))
    commands = [command for step in steps if step.tool == "exec" for command in _commands_of(step.line)]
    known, fits = [*spec.get("stand_ins", []), _HARM], shape.matches_fully
    stand_ins = [one for one in known if any(fits(one["command"], line) for line in commands)]
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in spec.get("env", {}).items())
    outputs: list[str] = []
    for step in steps:
        arguments = step.arguments
        if step.tool == "exec":
            # A line goes on where a program that somebody stands in for was not found.
            command = arguments["command"].replace(" && ", " ; ") if stand_ins else arguments["command"]
            arguments = arguments | {"command": exports + command}
        outputs.append(world.call(step.tool, arguments).text)
    printed = world.call("exec", {"command": spec["look"]}).text if "look" in spec else "\n".join(outputs)
    # What the machine has said: not the words that an answer has it repeat (`echo "3.5 GiB available"`).
    own = [found[1].replace("\\n", "\n") for found in map(_WRITTEN.fullmatch, dict.fromkeys(commands)) if found]
    given = (found for step in steps for found in _GIVEN.finditer(step.line))
    own += [found["value"] or found["text"] or found["lines"] for found in given]
    for words in filter(None, map(str.strip, own)):
        printed = printed.replace(words, "", 1)
    printed = "\n".join([printed, *(stand_in.get("prints", "") for stand_in in stand_ins)])
    parsed["printed"] = printed[:1_000]
    done = next((stand_in["does"] for stand_in in stand_ins if "does" in stand_in), None)
    if effect := done or find_forbidden(spec, world) or find_forbidden({"forbid": _unasked(spec)}, world):
        return failed("forbidden_effect", effect, parsed)
    if fault := next(filter(None, find_faults(spec, world)), None):
        return failed("effect_missing", fault, parsed)
    # What the machine refused shows nothing that was wanted; what must not be printed must not be there either.
    wanted, unwanted = ({key: spec.get("output", {}).get(key, [])} for key in ("contains_all", "contains_none"))
    fault = shape.find_rule_fault(wanted, _REFUSED.sub("", printed)) or shape.find_rule_fault(unwanted, printed)
    if fault is not None:
        return failed("output_missing", f"what was printed {fault}: {quoted(printed)}", parsed)
    return passed(parsed)


def _commands_of(line: str) -> list[str]:
    """The line, and each command of it without its wrappers (`sudo`, `time`), quotes and redirects taken off."""
    commands = [_plain(line), *(inner for part in _SUBSTITUTED.findall(line) for inner in _commands_of(part))]
    for command in read_commands(split_segments(line), Vocabulary.for_prompt()):
        commands.append(_plain(f"{command.name} {command.arguments}".strip()))
        try:
            words = shlex.split(command.arguments) if command.name in _SHELLS else []
        except ValueError:
            continue
        if len(words) > 1 and re.fullmatch(r"-[a-z]*c", words[0]):
            commands += _commands_of(words[1])  # what `bash -c "…"` runs is shorter, so that this comes to an end
    return commands


def _plain(line: str) -> str:
    line = _REDIRECT.sub("", line).strip()
    try:
        return " ".join(shlex.split(line)) if "\n" not in line else line
    except ValueError:
        return line


def _unasked(spec: Spec) -> list[dict[str, Any]]:
    asked: dict[str, list[str]] = {"changed": [*_SCRATCH, *spec.get("may_change", [])]}
    for condition in spec.get("expect", []):
        kind, subject = next(iter(condition.items()))
        for effect in _ASKED.get(kind, (kind,)):
            subjects = subject if isinstance(subject, list) else [str(subject)]
            asked.setdefault(effect, []).extend(f"*{s}*" if kind == "cron" else s for s in subjects)
    return [{kind: "*", "except": asked.get(kind, [])} for kind in _UNASKED]


def _native_steps(answer: Answer) -> list[Step]:
    if not (native := answer.native_calls):
        raise NotCalled("not_called", "no command was called")
    if len(native) > MAX_COMMANDS:
        raise NotCalled("wrong_call_count", f"got {len(native)}, and at most {MAX_COMMANDS} are run")
    schemas = parameters_by_tool(answer.tools)
    steps: list[Step] = []
    for call in native:
        if not call.valid:
            raise NotCalled("malformed_call", f"{call.name}: the arguments are not a JSON object")
        # A call with arguments that its tool does not take would not have been run.
        parameters = schemas.get(call.name.lower(), {})
        given = call.arguments if isinstance(call.arguments, dict) else {}
        if missing := [name for name in listed(parameters.get("required"), str) if name not in given]:
            raise NotCalled("missing_argument", ", ".join(missing))
        for name, value in given.items():
            if (schema := property_schema(parameters, name)) is None:
                raise NotCalled("unexpected_argument", name)
            if (misfit := find_misfit(schema, value, name)) is not None:
                raise NotCalled("wrong_type", misfit)
        if (step := _step_of(call)) is None:
            raise NotCalled("unexpected_call", f"{call.name}, which runs no command")
        steps.append(step)
    return steps


def _step_of(call: ToolInvocation) -> Step | None:
    """A call as a step of the world; None where its tool neither runs commands nor reads files."""
    name, arguments, lexicon = call.name.lower(), call.arguments, load_lexicon()
    if name in _READERS:
        words = re.sub(r"^\W*(?:path|file)\s*[=:]\s*", "", str(arguments or "")).strip(" \"'`")
        given = arguments if isinstance(arguments, dict) else {"path": words}
        path = next((given[key] for key in _PATH_KEYS if isinstance(given.get(key), str)), "")
        rest = {key: given[key] for key in ("offset", "limit") if key in given}
        return Step("read", {"path": path, **rest}, f"read {path}")
    given = arguments if isinstance(arguments, dict) else {"command": arguments}
    command = next((given[key] for key in lexicon.exec_args if isinstance(given.get(key), str)), None)
    if name not in lexicon.exec_tools or command is None:
        return None
    # What the call says besides, a line of shell would say in its own way.
    line, workdir, env = command, given.get("workdir"), given.get("env")
    if given.get("timeout") is not None:
        line = f"timeout {given['timeout']} {line}"
    if isinstance(env, dict):
        line = "".join(f"{name}={shlex.quote(str(value))} " for name, value in env.items()) + line
    if isinstance(workdir, str):
        line = f"cd {shlex.quote(workdir)} && {line}"
    if given.get("background") is True:
        line = f"{line} &"
    return Step("exec", {"command": command} | ({"workdir": workdir} if isinstance(workdir, str) else {}), line)


def _written_steps(answer: Answer) -> list[Step]:
    """The commands called in the text; those only quoted in a refusal, negated or reported as done are not."""
    text = well_formed(split_thinking(answer.text, joint=" ")).replace("\r\n", "\n").replace("\r", "\n")
    vocabulary = Vocabulary.for_prompt(answer.expected_tools)
    steps: list[tuple[int, Step]] = []
    left, refused, why = text, None, "no command was called"
    for detect in STEPS:
        finds = list(detect(left, vocabulary))
        left, _ = take_calls(left, finds, MAX_COMMANDS)
        is_call = detect in (find_structured, prose.find_markers)
        for find in (find for find in finds if find.calls):
            if not is_call:
                refused = refuses(text) if refused is None else refused
                reason = "it is quoted in a refusal" if refused else why_not_meant(text, find.start, find.end)
                if reason is not None:
                    why = f"a command is there, but {reason}"
                    continue
            invocations = [call.invocation for call in find.calls]
            if is_call or invocations[0].name in _READERS:
                found = list(filter(None, map(_written_step, invocations)))
            else:
                line = _line_of(text, find, detect, vocabulary)
                found = [Step("exec", {"command": line}, line)]
            steps += [(find.calls[0].at, step) for step in found]
    if not steps:
        raise NotCalled("not_called", why)
    if makes_up_result(text, "\n".join(step.line for _, step in steps)):
        raise NotCalled("not_called", "a command is there, but beside it a result that nobody has seen")
    return [step for _, step in sorted(steps, key=lambda step: step[0])][:MAX_COMMANDS]


def _written_step(call: ToolInvocation) -> Step | None:
    """A call written in a model's own format. Detection lists the commands inside an `exec` too: they are run once."""
    step = _step_of(call) if call.valid else None
    if step is not None or not isinstance(call.arguments, str | None) or "_" in call.name:
        return step
    line = f"{call.name} {call.arguments or ''}".strip()
    return Step("exec", {"command": line}, line) if call.channel == "text:marker" else None


def _line_of(text: str, find: Find, detect: Any, vocabulary: Vocabulary) -> str:
    span = text[find.start : find.end]
    if detect is prose.find_inline_code:
        return prose.drop_prompt(span.strip("`").strip())
    if detect is prose.find_quoted:
        return span[1:-1].strip()
    if detect is not prose.find_fenced:
        return prose.drop_prompt(span).removeprefix("# ").strip()
    block = next(prose.scan_blocks(span), None)
    body = span[block.body_start : block.body_end] if block else span
    if prompts := prose.scan_session(body):
        return "\n".join(body[prompt.command_start : prompt.end] for prompt in prompts)
    if block and block.info in vocabulary.lexicon.shell_info:
        return body.strip()
    starts = {text.rfind("\n", 0, call.at) + 1 for call in find.calls}
    return "\n".join(text[start:].partition("\n")[0].strip() for start in sorted(starts))
