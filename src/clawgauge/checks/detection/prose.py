"""Commands in running text: code spans, quotation marks and the two plain markers."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import msgspec

from clawgauge.checks.detection.evidence import is_command_like
from clawgauge.checks.detection.prompts import drop_prompt
from clawgauge.checks.detection.shell import (
    Call,
    Command,
    Find,
    Vocabulary,
    mention,
    read_commands,
    read_name,
    split_segments,
)
from clawgauge.records import ToolInvocation

# Code spans.

_LINE = re.compile(r"[^\n]+")
_TICK_RUN = re.compile(r"`+")
_TWO_WORDS = re.compile(r"([A-Za-z-]+)[ \t]+(\S+)")
_CALL_SYNTAX = re.compile(r"(?P<name>[A-Za-z_][^\s()]*)\((?P<arguments>.*)\);?", re.DOTALL)
_OPERATORS = frozenset(("!=", ":=", "+=", "-=", "*=", "/=", "->", "<=", ">="))
_COMPARISON = re.compile(r"[<>] ?-?[0-9.]+%?")
_HOST_AND_PORT = re.compile(r".*:[0-9]+")
_MIN_FENCE_TICKS = 3


class _CodeSpan(msgspec.Struct, frozen=True, gc=False):
    """A code span with its back-ticks (`start`, `end`) and without."""

    start: int
    inside_start: int
    inside_end: int
    end: int


def find_inline_code(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    """A step of the detection: commands in code spans."""
    if "`" not in text:
        return
    for line in _LINE.finditer(text):
        for span in _scan_spans(text, line.start(), line.end()):
            code_start = _code_start(text, span, vocabulary)
            calls = _read_code(text[code_start : span.inside_end], code_start, vocabulary)
            yield Find(span.start, span.end, calls)


def _scan_spans(text: str, line_start: int, line_end: int) -> Iterator[_CodeSpan]:
    """The code spans of a line: from a run of back-ticks to the next one of its length."""
    # Arrays, as the line may be the whole of a large answer.
    starts = array("I")
    ends = array("I")
    for run in _TICK_RUN.finditer(text, line_start, line_end):
        starts.append(run.start())
        ends.append(run.end())
    partners = _next_of_same_length(starts, ends)
    index = 0
    while index < len(starts):
        partner = partners[index]
        if partner:
            yield _CodeSpan(
                start=starts[index],
                inside_start=ends[index],
                inside_end=starts[partner],
                end=ends[partner],
            )
            index = partner
        index += 1


def _next_of_same_length(starts: array[int], ends: array[int]) -> array[int]:
    """For each run of back-ticks the index of the next one of its length.

    That is 0 where there is none: the first run is nobody's partner.
    """
    partners = array("I", starts)
    nearest_by_length: dict[int, int] = {}
    for index in reversed(range(len(starts))):
        length = ends[index] - starts[index]
        partners[index] = nearest_by_length.get(length, 0)
        nearest_by_length[length] = index
    return partners


def _code_start(text: str, span: _CodeSpan, vocabulary: Vocabulary) -> int:
    """Where the code of a span starts: in a fence squeezed into one line, behind its `bash`."""
    if span.inside_start - span.start < _MIN_FENCE_TICKS:
        return span.inside_start
    words = _TWO_WORDS.match(text, span.inside_start, span.inside_end)
    if words is None or words[1].lower() not in vocabulary.lexicon.shell_info:
        return span.inside_start
    return words.start(2) if vocabulary.is_known(words[2]) else span.inside_start


def _read_code(code: str, start: int, vocabulary: Vocabulary) -> list[Call]:
    """The calls in a code span that begins at `start`."""
    code = code.rstrip()
    command_line = drop_prompt(code.lstrip())
    start += len(code) - len(command_line)
    call = _CALL_SYNTAX.fullmatch(command_line) if "(" in command_line else None
    if call is not None:
        name = read_name(call["name"])
        if name is None:
            return []
        commands = [Command(start, name, call["arguments"], call["name"])]
    else:
        segments = split_segments(command_line, start)
        if segments and len(segments[0].words) > 1 and _is_operator(segments[0].words[1].text):
            return []
        commands = read_commands(segments, vocabulary)
    return [mention(command) for command in commands if _is_invocation(command, vocabulary)]


def _is_operator(word: str) -> bool:
    """Whether the second word makes the first a variable rather than a command."""
    return word.startswith("=") or word in _OPERATORS


def _is_invocation(command: Command, vocabulary: Vocabulary) -> bool:
    """Whether a command in a code span is one, and not a name of something else."""
    name = command.name
    if name.lower() in vocabulary.lexicon.stop or vocabulary.is_shouted(name):
        return False
    if command.arguments:
        return _COMPARISON.fullmatch(command.arguments) is None
    if "/" in command.written or vocabulary.is_expected(name):
        return True
    # A file (`config.yaml`) or an address (`localhost:8080`); `python3.11` is neither.
    if "." in name and not vocabulary.is_known(name.rstrip("0123456789.")):
        return False
    return _HOST_AND_PORT.fullmatch(name) is None


# Markers: `<tool>NAME arguments</tool>` and `[tool: NAME arguments]`.

_MARKER_OPENING = re.compile(r"(?P<tag><tool[ \t]*>)|\[[ \t]*tool[ \t]*:", re.IGNORECASE)
_TAG_CLOSING = re.compile(r"</tool\s*>", re.IGNORECASE)
_BRACKET_CLOSING = re.compile(r"\]")
# Bounded, so that a text of nothing but openings is not read to its end at each of them.
_FIRST_WORD = re.compile(r"\s*(\S{1,300})(?!\S)")


class _ClosingMarks:
    """The closing marks of one kind in a text, each looked for once."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self._text = text
        self._pattern = pattern
        self._latest = (-1, -1)

    def find(self, position: int) -> tuple[int, int]:
        """Start and end of the first from `position`, which must not go back.

        Both are the end of the text where there is none.
        """
        if self._latest[0] < position:
            closing = self._pattern.search(self._text, position)
            text_end = len(self._text)
            self._latest = closing.span() if closing else (text_end, text_end)
        return self._latest


def find_markers(text: str, _: Vocabulary) -> Iterator[Find]:
    """A step of the detection: calls between markers. A tag need not be closed."""
    tag_closings = _ClosingMarks(text, _TAG_CLOSING)
    bracket_closings = _ClosingMarks(text, _BRACKET_CLOSING)
    position = 0
    while opening := _MARKER_OPENING.search(text, position):
        position = opening.end()
        is_tag = opening["tag"] is not None
        inside_end, end = (tag_closings if is_tag else bracket_closings).find(position)
        is_closed = inside_end < len(text)
        if not is_tag and not is_closed:
            continue
        call = _read_marker(text, position, inside_end)
        if call is not None:
            yield Find(opening.start(), end, [call])
            position = end
        elif is_tag and is_closed:
            yield Find(opening.start(), end)
            position = end


def _read_marker(text: str, start: int, end: int) -> Call | None:
    word = _FIRST_WORD.match(text, start, end)
    name = read_name(word[1]) if word else None
    if word is None or name is None:
        return None
    arguments = text[word.end() : end].strip() or None
    invocation = ToolInvocation(name=name.lower(), arguments=arguments, channel="text:marker")
    return Call(word.start(1), invocation)


# Quotation marks.

_QUOTE_MARK = re.compile(r"[\"'“”‘’\n]")
_OPENING_ONLY = "“‘"
_CLOSING_ONLY = "”’"
_APOSTROPHES = "'’"
_OPENING_FOLLOWS = "([{<:=,>"
_WORD_STARTS = "/~$_-"
_OPENER_OF = {"”": "“", "’": "‘"}


def find_quoted(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    """A step of the detection: command lines of two words or more between quotation marks."""
    end_of_last = 0
    for start, end in _scan_quotes(text):
        if start < end_of_last:
            continue  # inside a command line that is found already
        segments = split_segments(text[start + 1 : end - 1], start + 1)
        n_words = sum(len(segment.words) for segment in segments)
        if n_words < 2 or not is_command_like(segments, vocabulary):
            continue
        calls = []
        for command in read_commands(segments, vocabulary):
            if not vocabulary.is_shouted(command.name):
                calls.append(mention(command))
        if calls:
            yield Find(start, end, calls)
            end_of_last = end


def _scan_quotes(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of what is quoted within a line, in order.

    Of two opening marks of a kind the newer counts.
    """
    quotes = list[tuple[int, int]]()
    opened = dict[str, int]()
    for match in _QUOTE_MARK.finditer(text):
        mark = match[0]
        if mark == "\n":
            opened.clear()
        if quotes and not opened:  # none that is still open could start before these
            yield from sorted(quotes)
            quotes.clear()
        if mark == "\n":
            continue
        position = match.start()
        kind = _OPENER_OF.get(mark, mark)
        can_open, can_close = _roles_of(mark, text, position)
        if can_close and kind in opened:
            quotes.append((opened.pop(kind), position + 1))
        elif can_open:
            opened[kind] = position
    yield from sorted(quotes)


def _roles_of(mark: str, text: str, position: int) -> tuple[bool, bool]:
    """Whether a mark may open a quotation where it stands, and whether it may close one."""
    before = text[position - 1 : position] or " "
    after = text[position + 1 : position + 2] or " "
    can_open = mark not in _CLOSING_ONLY and (before.isspace() or before in _OPENING_FOLLOWS)
    if mark in _OPENING_ONLY:
        return can_open, False
    if mark in _APOSTROPHES and before.isalnum() and after.isalnum():
        return can_open, False
    opens_word = can_open and before.isspace() and (after.isalnum() or after in _WORD_STARTS)
    return can_open, not opens_word
