"""Commands that bashkit has in a form that would mislead here: those that cut what they print without a word, that draw
at random, that wait by the wall clock, and those a small server does not have. And `sudo`, which runs any of them."""

from __future__ import annotations

import random
import re
import shlex

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, read_options
from clawgauge.world.refusals import FileFault

_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd]?)")
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,9})?")
_SED_LABEL = re.compile(r":\s*\w+\s*[;\n}]|:\w+\s*$|(?:^|[;{!\s'])[bt]\s*\w+")
_MAX_LINES = 50_000
_MAX_SED_LINES = 900
_MAX_NESTING = 200


@command("sudo", "doas", raw=True)
def sudo(call: Call) -> int:
    """Run a line as root, or as another user, where the world lets the user do so."""
    machine, words = call.machine, list(call.args)
    first = 0
    while first < len(words) and words[first].startswith("-"):
        first += 2 if words[first] in ("-u", "-g", "-h", "-p", "--user", "--group") else 1
    options = read_options(
        words[:first], flags="l", valued="ughp", long="user:u= group:g=", idle="nESHisk",
        idle_words="non-interactive preserve-env",
    )  # fmt: skip
    words = words[first:]
    if options.has("l"):
        may = "may run" if machine.may_sudo else "may run no"
        return call.print(f"User {machine.user} {may} commands on {machine.host}\n")
    if machine.user != "root" and not machine.may_sudo:
        raise UsageFault("a password is required")
    n_assigned = next((n for n, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*=", word)), len(words))
    if not words[n_assigned:]:
        raise UsageFault("there is no terminal for a root shell; give a command")
    user = options.value("u", "root")
    if user not in machine.users():
        raise UsageFault(f"unknown user {user[:40]}")
    with machine.acting_as(user):
        return call.shell.pass_on(shlex.join(words), call)


@command("seq", raw=True)
def seq(call: Call) -> int:
    """bashkit's, which stops without a word at a hundred thousand."""
    numbers = [float(word) for word in call.args if _NUMBER.fullmatch(word)][-3:] or [0.0]
    first = numbers[0] if len(numbers) > 1 else 1.0
    step = numbers[1] if len(numbers) > 2 else 1.0
    count = int((numbers[-1] - first) / step) + 1 if step else 0
    if count > _MAX_LINES:
        raise NotSimulated(f"{count} numbers are more than can be printed here ({_MAX_LINES})")
    return call.shell.pass_on(shlex.join(["seq", *call.args]), call)


@command("yes", raw=True)
def yes(call: Call) -> int:
    """A thousand lines: nobody answers more questions than that, and bashkit has no streams without an end."""
    return call.print(f"{' '.join(call.args) or 'y'}\n" * 1_000)


@command("sleep", raw=True)
def sleep(call: Call) -> int:
    total_s = 0.0
    for arg in call.args:
        found = _DURATION.fullmatch(arg)
        if found is None:
            raise UsageFault(f"invalid time interval '{arg[:40]}'")
        total_s += float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[2]]
    if not call.args:
        raise UsageFault("missing operand")
    if total_s > 600:
        raise NotSimulated("a call may not take longer than 600 s", 124)
    call.machine.clock.advance(total_s)
    return 0


@command("shuf", flags="er", valued="ni", long="echo:e head-count:n= input-range:i= repeat:r")
def shuf(call: Call) -> int:
    options = call.options
    draw = random.Random(call.machine.count_name())
    if options.has("i"):
        found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", options.value("i"))
        if found is None or int(found[2]) - int(found[1]) > _MAX_LINES:
            raise UsageFault(f"invalid input range: '{options.value('i')[:40]}'")
        lines = [str(number) for number in range(int(found[1]), int(found[2]) + 1)]
    elif options.has("e"):
        lines = list(options.operands)
    else:
        lines = call.read_operand(options.operands[0] if options.operands else "-").splitlines()
    count = min(_MAX_LINES, options.whole("n", len(lines)))
    lines = draw.choices(lines, k=count) if options.has("r") and lines else draw.sample(lines, min(count, len(lines)))
    return call.print("".join(f"{line}\n" for line in lines))


@command("uuidgen", idle="rt")
def uuidgen(call: Call) -> int:
    digits = f"{random.Random(call.machine.count_name()).getrandbits(128):032x}"
    return call.print(f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}\n")


@command("bc", raw=True)
def bc(call: Call) -> int:
    """bashkit's, unless the nesting would end it."""
    if call.stdin.count("(") > _MAX_NESTING or any(arg not in ("-l", "-q") for arg in call.args):
        raise NotSimulated("files and deep nesting are not supported here")
    return call.shell.pass_on(shlex.join(["bc", *call.args]), call)


@command("zcat", "zgrep", "zless", raw=True)
def zcat(call: Call) -> int:
    """On files that are not compressed: the plain command. bashkit's gunzip reads the others."""
    words = [word for word in call.args if not word.startswith("-")]
    names = words[1:] if call.name == "zgrep" else words
    packed = [name for name in names if call.files.read(call.resolve(name)).startswith("\x1f")]
    tool = "grep" if call.name == "zgrep" else "cat"
    if not packed:
        return call.shell.pass_on(shlex.join([tool, *call.args]), call)
    if len(names) > 1:
        raise NotSimulated("one compressed file at a time")
    rest = shlex.join([word for word in call.args if word not in names])
    return call.shell.pass_on(
        f"gunzip -c {shlex.quote(names[0])}" + (f" | grep {rest}" if tool == "grep" else ""), call
    )


@command("sed", raw=True)
def sed(call: Call) -> int:
    """bashkit's. Its branches stop without a word after a thousand rounds, so with more lines they are refused."""
    script = " ".join(call.args)
    if _SED_LABEL.search(script) and re.search(r":\s*\w", script):
        texts = [call.stdin]
        for word in call.args:
            try:
                texts.append(call.files.read(call.resolve(word)))
            except FileFault:
                continue
        if max(text.count("\n") for text in texts) > _MAX_SED_LINES:
            raise NotSimulated(
                f"a loop over more than {_MAX_SED_LINES} lines is not supported here; use tr, awk or paste"
            )
    return call.shell.pass_on(shlex.join(["sed", *call.args]), call)


@command("split", raw=True)
def split(call: Call) -> int:
    """bashkit's, which takes `-n` without doing what it says."""
    if any(word.startswith(("-n", "--number")) for word in call.args):
        raise NotSimulated("option '-n' is not supported here; use '-l' or '-b'")
    return call.shell.pass_on(shlex.join(["split", *call.args]), call)


@command("tail", raw=True)
def tail(call: Call) -> int:
    """bashkit's; what would follow a file is told that nobody can wait here."""
    follows = [word for word in call.args if re.fullmatch(r"-\d*[fF]\d*|--follow(=\w+)?|--retry", word)]
    words = [re.sub("[fF]", "", word) for word in follows if re.search(r"\d", word)]
    words += [word for word in call.args if word not in follows]
    code = call.shell.pass_on(shlex.join(["tail", *words]), call)
    if follows:
        call.machine.notices.append(f"tail: ended: with {follows[0]} it would wait for ever")
    return 124 if follows else code


@command("less", "more", "vi", "nano", "watch", raw=True)
def interactive(call: Call) -> int:
    if call.name not in ("less", "more"):
        raise NotSimulated("there is no terminal here")
    names = [word for word in call.args if not word.startswith(("-", "+"))]
    return call.shell.pass_on(shlex.join(["cat", *names]), call)


@command(
    "assert", "csv", "dotenv", "glob", "help", "http", "json", "log", "retry", "semver", "template", "verify", "tomlq",
    "busybox", "yq", "parallel", "man", "bind", "history", "fc", "compgen", "complete", "compopt", "python", "dc",
    "openssl", "vim", "emacs", "htop", "screen", "tmux", raw=True,
)  # fmt: skip
def not_found(call: Call) -> int:
    """bashkit has some of these; a small server has not."""
    return call.say(f"bash: line 1: {call.name}: command not found\n", 127)
