"""Commands that bashkit has in a form that would mislead here: those that cut what they print without a word, that draw
at random, that wait by the wall clock, and those a small server does not have."""

from __future__ import annotations

import hashlib
import random
import re
import shlex

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command
from clawgauge.world.files import to_bytes
from clawgauge.world.refusals import FileFault

_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd]?)")
_MAX_LINES = 50_000
_MAX_SED_LINES = 900
_MAX_NESTING = 200


@command("seq", raw=True)
def seq(call: Call) -> int:
    words, separator, padded, form = list(call.args), "\n", False, ""
    while words and re.match(r"-[^\d.]", words[0]):
        word = words.pop(0)
        if word in ("-w", "--equal-width"):
            padded = True
        elif word.startswith(("-s", "--separator", "-f", "--format")):
            value = (
                word.partition("=")[2]
                if "=" in word and word.startswith("--")
                else word[2:]
                if not word.startswith("--")
                else ""
            )
            value = value or (words.pop(0) if words else "")
            separator, form = (value, form) if word.startswith(("-s", "--s")) else (separator, value)
        else:
            raise NotSimulated(f"option '{word[:40]}' is not supported here")
    if not 1 <= len(words) <= 3 or not all(re.fullmatch(r"[+-]?\d{1,15}(?:\.\d{1,9})?", word) for word in words):
        raise UsageFault(f"invalid floating point argument: '{' '.join(words)[:40]}'" if words else "missing operand")
    places = max(len(word.partition(".")[2]) for word in words)
    first, step, last = (1.0, 1.0, float(words[0])) if len(words) == 1 else (float(words[0]), 1.0, float(words[1]))
    if len(words) == 3:
        step, last = float(words[1]), float(words[2])
    if step == 0:
        raise UsageFault("invalid Zero increment value: '0'")
    count = int((last - first) / step + 1e-9) + 1
    if count > _MAX_LINES:
        raise NotSimulated(f"{count} numbers are more than can be printed here ({_MAX_LINES})")
    numbers = [f"{first + index * step:.{places}f}" for index in range(max(0, count))]
    if form:
        numbers = (
            [form % float(number) for number in numbers]
            if re.fullmatch(r"[^%]*%[-0 +#]*\d*(?:\.\d+)?[fge][^%]*", form)
            else _bad_form(form)
        )
    width = max(map(len, numbers), default=0) if padded else 0
    call.print(separator.join(number.zfill(width) for number in numbers) + "\n" if numbers else "")
    return 0


def _bad_form(form: str) -> list[str]:
    raise UsageFault(f"format '{form[:40]}' has no % directive")


@command("yes", raw=True)
def yes(call: Call) -> int:
    """A thousand lines: nobody answers more questions than that, and bashkit has no streams without an end."""
    call.print(f"{' '.join(call.args) or 'y'}\n" * 1_000)
    return 0


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


@command("shuf", flags="ern", valued="ni", long="echo:e head-count:n= input-range:i= repeat:r")
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
    call.print("".join(f"{line}\n" for line in lines))
    return 0


@command("uuidgen", idle="rt")
def uuidgen(call: Call) -> int:
    digits = f"{random.Random(call.machine.count_name()).getrandbits(128):032x}"
    call.print(f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}\n")
    return 0


@command("bc", "dc", raw=True)
def bc(call: Call) -> int:
    """bashkit's, unless the nesting would end it."""
    if call.name == "dc" or call.stdin.count("(") > _MAX_NESTING or any(arg not in ("-l", "-q") for arg in call.args):
        raise NotSimulated(
            "files, deep nesting and dc are not supported here" if call.name == "bc" else "not supported here"
        )
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
    if re.search(r":\s*\w+\s*[;\n}]|:\w+\s*$|(?:^|[;{!\s'])[bt]\s*\w+", script) and re.search(r":\s*\w", script):
        texts = [call.stdin]
        for word in call.args:
            path = call.resolve(word)
            if call.files.exists(path) and not call.files.is_directory(path):
                try:
                    texts.append(call.files.read(path))
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
    words = [word.replace("f", "").replace("F", "") if re.search(r"\d", word) else "" for word in follows]
    code = call.shell.pass_on(
        shlex.join(["tail", *filter(None, words), *(w for w in call.args if w not in follows)]), call
    )
    if follows:
        call.machine.notices.append(f"tail: ended: with {follows[0]} it would wait for ever")
    return 124 if follows else code


@command("openssl", raw=True)
def openssl(call: Call) -> int:
    """Digests alone."""
    kinds = [word.removeprefix("-") for word in call.args if word.startswith("-")]
    name = next(
        (kind for kind in (*kinds, *call.args[:1]) if kind in ("md5", "sha1", "sha256", "sha384", "sha512")), ""
    )
    if (call.args[:1] != ["dgst"] and name != call.args[0]) or any(kind not in (name, "r") for kind in kinds):
        raise NotSimulated("only 'openssl dgst' is supported here")
    for operand in [word for word in call.args[1:] if not word.startswith("-")] or ["-"]:
        digest = hashlib.new(name or "sha256", to_bytes(call.read_operand(operand))).hexdigest()
        shown = "stdin" if operand == "-" else operand
        call.print(f"{digest} *{shown}\n" if "r" in kinds else f"{(name or 'sha256').upper()}({shown})= {digest}\n")
    return 0


@command("vi", "vim", "nano", "emacs", "less", "more", "watch", "htop", "screen", "tmux", raw=True)
def interactive(call: Call) -> int:
    if call.name in ("less", "more"):
        names = [word for word in call.args if not word.startswith(("-", "+"))]
        return call.shell.pass_on(shlex.join(["cat", *names]), call)
    if call.name in ("vi", "nano", "watch"):
        raise NotSimulated("there is no terminal here")
    call.say(f"bash: line 1: {call.name}: command not found\n")
    return 127


@command(
    "assert", "csv", "dotenv", "glob", "help", "http", "json", "log", "retry", "semver", "template", "verify", "tomlq",
    "busybox", "yq", "parallel", "man", "bind", "history", "fc", "compgen", "complete", "compopt", "python", raw=True,
)  # fmt: skip
def not_found(call: Call) -> int:
    """bashkit has these; a small server has not."""
    call.say(f"bash: line 1: {call.name}: command not found\n")
    return 127
