"""Commands in code spans: `` `free -h` ``, `` `uptime` ``, `` `get_weather(city="Paris")` ``.

Owns: pairing back-ticks (runs of equal length on one line) and telling commands from the other things people set in
code: formats, options, figures, files, assignments, constants. Refuses: fenced blocks; they come before.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from clawgauge.checks.detection.command_line import Command, Segment, read_commands, split_segments
from clawgauge.checks.detection.finds import Call, Find, mention
from clawgauge.checks.detection.lazy_pattern import lazy_pattern
from clawgauge.checks.detection.prompts import drop_prompt
from clawgauge.checks.detection.vocabulary import Vocabulary, read_name

_RUN = lazy_pattern(r"`+")
_TWO_WORDS = lazy_pattern(r"([A-Za-z-]+)[ \t]+(\S+)")
_CALL_SYNTAX = lazy_pattern(r"(?P<name>[A-Za-z_][^\s()]*)\((?P<arguments>.*)\);?", re.DOTALL)
_OPERATORS = frozenset(("!=", ":=", "+=", "-=", "*=", "/=", "->", "<=", ">="))
_COMPARISON = lazy_pattern(r"[<>] ?-?[0-9.]+%?")
_HOST_AND_PORT = lazy_pattern(r".*:[0-9]+")


def find_inline_code(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    for start, end, inside in _spans(text):
        if inside.start - start >= 3:
            inside = _after_info_word(text, inside, vocabulary)
        yield Find(start, end, _read_span(text, inside, vocabulary))


def _spans(text: str) -> Iterator[tuple[int, int, slice]]:
    """Each code span, with its back-ticks and without."""
    if "`" not in text:
        return
    starts, ends = array("I"), array("I")  # of one line, which may be the whole of a large answer
    for match in _RUN.finditer(text):
        if ends and text.find("\n", ends[-1], match.start()) >= 0:
            yield from _paired(starts, ends)
            del starts[:], ends[:]
        starts.append(match.start())
        ends.append(match.end())
    yield from _paired(starts, ends)


def _paired(starts: array[int], ends: array[int]) -> Iterator[tuple[int, int, slice]]:
    """Pair each run of one line with the next of its length."""
    n_runs = len(starts)
    partners = array("I", bytes(starts.itemsize * n_runs))
    nearest: dict[int, int] = {}
    for index in range(n_runs - 1, -1, -1):
        length = ends[index] - starts[index]
        partners[index] = nearest.get(length, 0)  # the first run is nobody's partner
        nearest[length] = index
    index = 0
    while index < n_runs:
        partner = partners[index]
        if partner:
            yield starts[index], ends[partner], slice(ends[index], starts[partner])
            index = partner
        index += 1


def _after_info_word(text: str, inside: slice, vocabulary: Vocabulary) -> slice:
    """The span past the info word of a fence squeezed into one line: the command after `bash`, not `bash`."""
    words = _TWO_WORDS.match(text, inside.start, inside.stop)
    if words and words[1].lower() in vocabulary.lexicon.shell_info and vocabulary.is_known(words[2]):
        return slice(words.start(2), inside.stop)
    return inside


def _read_span(text: str, inside: slice, vocabulary: Vocabulary) -> list[Call]:
    code = text[inside].rstrip()
    command_line = drop_prompt(code.lstrip())
    start = inside.start + len(code) - len(command_line)
    call = _CALL_SYNTAX.fullmatch(command_line) if "(" in command_line else None
    if call:
        name = read_name(call["name"])
        commands = [Command(start, name, call["arguments"], call["name"])] if name else []
    else:
        segments = split_segments(command_line, start)
        if segments and _is_assignment(segments[0]):
            return []
        commands = read_commands(segments, vocabulary)
    return [mention(command) for command in commands if _is_invocation(command, vocabulary)]


def _is_assignment(segment: Segment) -> bool:
    second = segment.words[1].text if len(segment.words) > 1 else ""
    return second.startswith("=") or second in _OPERATORS


def _is_invocation(command: Command, vocabulary: Vocabulary) -> bool:
    name = command.name
    if name.lower() in vocabulary.lexicon.stop or vocabulary.is_shouted(name):
        return False
    if command.arguments:
        return _COMPARISON.fullmatch(command.arguments) is None
    if "/" in command.written or vocabulary.is_expected(name):
        return True
    return not _names_a_thing(name, vocabulary)


def _names_a_thing(name: str, vocabulary: Vocabulary) -> bool:
    """Whether a bare word is a file (`config.yaml`) or an address (`localhost:8080`); `python3.11` is neither."""
    if "." in name and not vocabulary.is_known(name.rstrip("0123456789.")):
        return True
    return ":" in name and _HOST_AND_PORT.fullmatch(name) is not None
