"""Commands that bashkit has in a form that would mislead here, and `sudo`, which runs any of them."""

import contextlib
import re
import shlex

from clawgauge.world.commands.call import (
    ABSENT,
    COMMANDS,
    GUARDED,
    NATIVE,
    TABLE,
    Call,
    NotSimulated,
    command,
)
from clawgauge.world.effects import FileFault, Refusal

_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd]?)")
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,9})?")
_SED_LABEL = re.compile(r":\s*\w+\s*[;\n}]|:\w+\s*$|(?:^|[;{!\s'])[bt]\s*\w+")
_MAX_LINES, _MAX_SED_LINES, _MAX_NESTING = 50_000, 900, 200


@command("sudo", raw=True)
def sudo(call: Call) -> int:
    machine, first = call.machine, 0
    while first < len(call.args) and call.args[first].startswith("-"):
        first += 2 if call.args[first] in ("-u", "-g", "--user", "--group") else 1
    options, words = COMMANDS["sudo"].parse(call.args[:first]), call.args[first:]
    if options.has("l"):
        may = "may run" if machine.spec.sudo else "may run no"
        return call.print(f"User {machine.user} {may} commands on {machine.host}\n")
    if machine.user != "root" and not machine.spec.sudo:
        raise Refusal("a password is required")
    if all(re.match(r"[A-Za-z_]\w*=", word) for word in words):
        raise Refusal("there is no terminal for a root shell; give a command")
    if (user := options.value("u", "root")) not in machine.users():
        raise Refusal(f"unknown user {user[:40]}")
    machine.ledger.note("sudo", shlex.join([words[0].rpartition("/")[2], *words[1:]]))
    before, machine.ledger.user = machine.ledger.user, user
    try:
        return call.shell.pass_on(shlex.join(words), call)
    finally:
        machine.ledger.user = before


@command("which", "type", "__where")
def which(call: Call) -> int:
    """`type` and `command -v`, which is `__where` here, tell the shell's own words from the commands on a disk."""
    code, files, asks_kind = 0, {*COMMANDS, *NATIVE} - {*ABSENT}, call.options.has("t")
    for name in call.require_operands():
        is_own = call.name != "which" and name in TABLE["own_words"]
        if not is_own and name not in files:
            code = call.say(
                f"bash: line 1: type: {name}: not found\n"
                if call.name == "type" and not asks_kind
                else ""
            )
            continue
        shown = name if is_own else f"/usr/bin/{name}"
        if call.name == "type":
            kinds = ("builtin", "a shell builtin") if is_own else ("file", shown)
            shown = kinds[0] if asks_kind else f"{name} is {kinds[1]}"
        call.print(f"{shown}\n")
    return code


@command("file")
def file(call: Call) -> int:
    operands = call.require_operands()
    width = 0 if call.options.has("b") else 2 + max(map(len, operands))

    def work(operand: str, path: str) -> None:
        text = "" if call.files.node(path).is_directory else call.files.read(path)
        kind = next(words for pattern, words in TABLE["file"]["kinds"] if re.match(pattern, text))
        if text.count("\n") > 1 and 0 not in (
            commas := {line.count(",") for line in text.splitlines()}
        ):
            kind = "CSV text" if len(commas) == 1 else kind
        shown = kind if text or not call.files.is_directory(path) else "directory"
        call.print(f"{operand + ':':<{width}}"[:width] + f"{shown}\n")

    return call.each(operands, work, "cannot open `{}' ({})")


@command("sleep", raw=True)
def sleep(call: Call) -> int:
    if (total_s := sum(map(_seconds, call.args or [""]))) > 600:
        raise NotSimulated("a call may not take longer than 600 s", 124)
    call.machine.clock.advance(total_s)
    return 0


def _seconds(text: str) -> float:
    if (found := _DURATION.fullmatch(text)) is None:
        raise Refusal(f"invalid time interval '{text[:40]}'")
    return float(found[1]) * {"m": 60, "h": 3_600, "d": 86_400}.get(found[2], 1)


@command("timeout", raw=True)
def timeout(call: Call) -> int:
    """By the world's clock: what sleeps here takes no time of ours."""
    found = re.match(r"(?:(?:-k|-s|--kill-after|--signal) \S+ |-\S+ )*(\S+)", " ".join(call.args))
    before_s, limit_s = call.machine.clock.now_s, _seconds(found[1] if found else "")
    code = call.shell.pass_on(shlex.join(["timeout", *call.args]), call)
    return 124 if 0 < limit_s < call.machine.clock.now_s - before_s else code


@command("yes", raw=True)
def yes(call: Call) -> int:
    """A thousand lines: nobody answers more questions than that, and bashkit has no streams without an end."""
    return call.print(f"{' '.join(call.args) or 'y'}\n" * 1_000)


@command(*GUARDED, raw=True)
def guarded(call: Call) -> int:
    """bashkit's own, unless it would stop, or leave something out, without a word."""
    words, tool = list(call.args), call.name
    pattern, why = TABLE["refused_words"].get(tool, ("(?!)", ""))
    for word in filter(re.compile(pattern).search, words):
        raise NotSimulated(why.format(word[:40]))
    match tool:
        case "wc" if any("more bytes, not text]" in text for text in [call.stdin, *_texts(call)]):
            raise NotSimulated(
                "counting what is no text is not supported here; 'stat -c %s FILE' has the bytes"
            )
        case "seq":
            numbers = [float(word) for word in words if _NUMBER.fullmatch(word)][-3:] or [0.0]
            first, step = (
                numbers[0] if len(numbers) > 1 else 1.0,
                numbers[1] if len(numbers) > 2 else 1.0,
            )
            count = int((numbers[-1] - first) / step) + 1 if step else 0
            if count > _MAX_LINES:
                raise NotSimulated(
                    f"{count} numbers are more than can be printed here ({_MAX_LINES})"
                )
        case "bc" if call.stdin.count("(") > _MAX_NESTING:
            raise NotSimulated("deep nesting is not supported here")
        case "sed" if _SED_LABEL.search(" ".join(words)) and re.search(r":\s*\w", " ".join(words)):
            # Its branches stop after a thousand rounds.
            if max(text.count("\n") for text in [call.stdin, *_texts(call)]) > _MAX_SED_LINES:
                raise NotSimulated(
                    f"a loop over more than {_MAX_SED_LINES} lines is not supported here; use tr or awk"
                )
        case "tail":
            follows = [
                word for word in words if re.fullmatch(r"-\d*[fF]\d*|--follow(=\w+)?|--retry", word)
            ]
            words = [re.sub("[fF]", "", word) for word in follows if re.search(r"\d", word)]
            words += [word for word in call.args if word not in follows]
            if follows:
                call.machine.notices.append(
                    f"tail: ended: with {follows[0]} it would wait for ever"
                )
        case "zgrep" | "zcat" | "less" | "more":
            if any(text.startswith("\x1f") for text in _texts(call)):
                raise NotSimulated(
                    "compressed files are not supported here; use 'gunzip -c FILE | …'"
                )
            tool = "grep" if call.name == "zgrep" else "cat"
            words = (
                words
                if tool == "grep"
                else [word for word in words if not word.startswith(("-", "+"))]
            )
    return call.shell.pass_on(shlex.join([tool, *words]), call)


def _texts(call: Call) -> list[str]:
    texts = []
    for word in call.args:
        with contextlib.suppress(FileFault):
            texts.append(call.files.read(call.resolve(word)))
    return texts


@command(*ABSENT, raw=True)
def not_found(call: Call) -> int:
    """bashkit has some of these; a small server has not."""
    return call.say(f"bash: line 1: {call.name}: command not found\n", 127)
