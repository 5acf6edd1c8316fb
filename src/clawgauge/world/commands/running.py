"""Commands that run others or tell of them: sudo, which, type, timeout; and sleep."""

import re
import shlex

from clawgauge.world.commands.call import (
    ABSENT,
    COMMANDS,
    NATIVE,
    TABLE,
    Call,
    NotSimulated,
    command,
)
from clawgauge.world.effects import Refusal

_SUDO_WITH_VALUE = ("-u", "-g", "--user", "--group")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL_WORDS = frozenset(TABLE["own_words"])
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd]?)")
_UNIT_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}
_TIMEOUT_ARGS = re.compile(r"(?:(?:-k|-s|--kill-after|--signal) \S+ |-\S+ )*(\S+)")
_MAX_SLEEP_S = 600
_TIMED_OUT = 124


@command("sudo", raw=True)
def sudo(call: Call) -> int:
    machine = call.machine
    n_option_words = _count_option_words(call.args)
    options = COMMANDS["sudo"].parse(call.args[:n_option_words])
    words = call.args[n_option_words:]
    if options.has("l"):
        may_run = "may run" if machine.spec.sudo else "may run no"
        return call.print(f"User {machine.user} {may_run} commands on {machine.host}\n")
    if machine.user != "root" and not machine.spec.sudo:
        raise Refusal("a password is required")
    if all(_ASSIGNMENT.match(word) for word in words):
        raise Refusal("there is no terminal for a root shell; give a command")
    user = options.value("u", "root")
    if user not in machine.users():
        raise Refusal(f"unknown user {user[:40]}")
    program = words[0].rpartition("/")[2]
    machine.ledger.note("sudo", shlex.join([program, *words[1:]]))
    user_before = machine.ledger.user
    machine.ledger.user = user
    try:
        return call.shell.pass_on(shlex.join(words), call)
    finally:
        machine.ledger.user = user_before


def _count_option_words(args: list[str]) -> int:
    """How many words are options of sudo, or their values, before the command that it runs."""
    count = 0
    while count < len(args) and args[count].startswith("-"):
        count += 2 if args[count] in _SUDO_WITH_VALUE else 1
    return count


@command("which", "type", "__where")
def which(call: Call) -> int:
    """`type` and `command -v`, which is `__where` here, know the shell's own words, too."""
    code = 0
    programs = {*COMMANDS, *NATIVE}.difference(ABSENT)
    asks_kind = call.options.has("t")
    for name in call.require_operands():
        is_shell_word = call.name != "which" and name in _SHELL_WORDS
        if not is_shell_word and name not in programs:
            complaint = ""
            if call.name == "type" and not asks_kind:
                complaint = f"bash: line 1: type: {name}: not found\n"
            code = call.say(complaint)
        elif call.name == "type":
            call.print(f"{_describe(name, is_shell_word=is_shell_word, asks_kind=asks_kind)}\n")
        else:
            call.print(f"{name if is_shell_word else _path_of(name)}\n")
    return code


def _path_of(program: str) -> str:
    return f"/usr/bin/{program}"


def _describe(name: str, *, is_shell_word: bool, asks_kind: bool) -> str:
    """What `type` says of a word; `asks_kind` is its option `-t`."""
    if asks_kind:
        return "builtin" if is_shell_word else "file"
    return f"{name} is {'a shell builtin' if is_shell_word else _path_of(name)}"


@command("sleep", raw=True)
def sleep(call: Call) -> int:
    total_s = sum(map(_read_seconds, call.args or [""]))
    if total_s > _MAX_SLEEP_S:
        raise NotSimulated(f"a call may not take longer than {_MAX_SLEEP_S} s", _TIMED_OUT)
    call.machine.clock.advance(total_s)
    return 0


def _read_seconds(text: str) -> float:
    duration = _DURATION.fullmatch(text)
    if duration is None:
        raise Refusal(f"invalid time interval '{text[:40]}'")
    return float(duration[1]) * _UNIT_SECONDS.get(duration[2], 1)


@command("timeout", raw=True)
def timeout(call: Call) -> int:
    """By the machine's clock: what sleeps here takes no time of ours."""
    args = _TIMEOUT_ARGS.match(" ".join(call.args))
    limit_s = _read_seconds(args[1] if args else "")
    start_s = call.machine.clock.now_s
    code = call.shell.pass_on(shlex.join(["timeout", *call.args]), call)
    is_over = 0 < limit_s < call.machine.clock.now_s - start_s
    return _TIMED_OUT if is_over else code
