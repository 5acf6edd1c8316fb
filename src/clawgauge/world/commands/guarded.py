"""Commands that bashkit has in a form that would mislead here."""

import contextlib
import re
import shlex
from collections.abc import Callable

from clawgauge.world.commands.call import ABSENT, GUARDED, TABLE, Call, NotSimulated, command
from clawgauge.world.effects import FileFault

_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,9})?")
_SED_LABEL = re.compile(r":\s*\w+\s*[;\n}]|:\w+\s*$|(?:^|[;{!\s'])[bt]\s*\w+")
_SED_LABEL_START = re.compile(r":\s*\w")
_TAIL_FOLLOWS = re.compile(r"-\d*[fF]\d*|--follow(=\w+)?|--retry")
_REFUSED_WORDS: dict[str, tuple[str, str]] = TABLE["refused_words"]
_NOT_TEXT = "more bytes, not text]"
_COMPRESSED_START = "\x1f"
_MAX_LINES = 50_000
_MAX_SED_LINES = 900
_MAX_NESTING = 200
_YES_LINES = 1_000


@command("yes", raw=True)
def yes(call: Call) -> int:
    """A thousand lines.

    Nobody answers more questions than that, and bashkit has no streams without an end.
    """
    return call.print(f"{' '.join(call.args) or 'y'}\n" * _YES_LINES)


@command(*GUARDED, raw=True)
def guarded(call: Call) -> int:
    """bashkit's own, unless it would stop, or leave something out, without a word."""
    if call.name in _REFUSED_WORDS:
        pattern, reason = _REFUSED_WORDS[call.name]
        for word in call.args:
            if re.search(pattern, word):
                raise NotSimulated(reason.format(word[:40]))
    words = [call.name, *call.args]
    if call.name in _PREPARATIONS:
        words = _PREPARATIONS[call.name](call)
    return call.shell.pass_on(shlex.join(words), call)


def _prepare_wc(call: Call) -> list[str]:
    if any(_NOT_TEXT in text for text in [call.stdin, *_texts(call)]):
        raise NotSimulated(
            "counting what is no text is not supported here; 'stat -c %s FILE' has the bytes"
        )
    return ["wc", *call.args]


def _prepare_seq(call: Call) -> list[str]:
    numbers = [float(word) for word in call.args if _NUMBER.fullmatch(word)]
    numbers = numbers[-3:] or [0.0]
    first = numbers[0] if len(numbers) > 1 else 1.0
    step = numbers[1] if len(numbers) > 2 else 1.0
    count = int((numbers[-1] - first) / step) + 1 if step else 0
    if count > _MAX_LINES:
        raise NotSimulated(f"{count} numbers are more than can be printed here ({_MAX_LINES})")
    return ["seq", *call.args]


def _prepare_bc(call: Call) -> list[str]:
    if call.stdin.count("(") > _MAX_NESTING:
        raise NotSimulated("deep nesting is not supported here")
    return ["bc", *call.args]


def _prepare_sed(call: Call) -> list[str]:
    script = " ".join(call.args)
    if _SED_LABEL.search(script) and _SED_LABEL_START.search(script):
        # bashkit's branches stop after a thousand rounds.
        n_lines = max(text.count("\n") for text in [call.stdin, *_texts(call)])
        if n_lines > _MAX_SED_LINES:
            raise NotSimulated(
                f"a loop over more than {_MAX_SED_LINES} lines is not supported here; use tr or awk"
            )
    return ["sed", *call.args]


def _prepare_tail(call: Call) -> list[str]:
    """Without what makes it wait for more, which the model is told."""
    follow_words = [word for word in call.args if _TAIL_FOLLOWS.fullmatch(word)]
    words = ["tail"]
    for word in follow_words:
        if re.search(r"\d", word):
            words.append(re.sub("[fF]", "", word))
    words += [word for word in call.args if word not in follow_words]
    if follow_words:
        call.machine.notices.append(f"tail: ended: with {follow_words[0]} it would wait for ever")
    return words


def _prepare_pager(call: Call) -> list[str]:
    """What zgrep, zcat, less and more do to plain text."""
    if any(text.startswith(_COMPRESSED_START) for text in _texts(call)):
        raise NotSimulated("compressed files are not supported here; use 'gunzip -c FILE | …'")
    if call.name == "zgrep":
        return ["grep", *call.args]
    files = [word for word in call.args if not word.startswith(("-", "+"))]
    return ["cat", *files]


# What looks at a call before bashkit runs it, and gives the words that it runs.
_PREPARATIONS: dict[str, Callable[[Call], list[str]]] = {
    "wc": _prepare_wc,
    "seq": _prepare_seq,
    "bc": _prepare_bc,
    "sed": _prepare_sed,
    "tail": _prepare_tail,
    "zgrep": _prepare_pager,
    "zcat": _prepare_pager,
    "less": _prepare_pager,
    "more": _prepare_pager,
}


def _texts(call: Call) -> list[str]:
    """The texts of the files among the arguments."""
    texts = []
    for word in call.args:
        with contextlib.suppress(FileFault):
            texts.append(call.files.read(call.resolve(word)))
    return texts


@command(*ABSENT, raw=True)
def not_found(call: Call) -> int:
    """bashkit has some of these; a small server has not."""
    return call.say(f"bash: line 1: {call.name}: command not found\n", 127)
