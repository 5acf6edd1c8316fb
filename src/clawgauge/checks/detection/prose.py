"""Commands in prose: fenced blocks, shell prompts, code spans, quotation marks and the two plain markers."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise

import msgspec

from clawgauge.checks.detection import shell
from clawgauge.checks.detection.shell import (
    Call,
    Command,
    Find,
    Vocabulary,
    mention,
    read_commands,
    split_segments,
)
from clawgauge.records import ToolInvocation

_PROMPT_LEAD = (
    r"[ \t]*+(?:>[ \t]*+|(?:[-*+•]|[0-9]{1,3}[.)])[ \t]++)*+(?:\([A-Za-z0-9_.-]{1,40}\)[ \t]*+)?"
)
_WHERE = r"(?::[ \t]?[^\s$#\]]{0,200}|[ \t]+[~/][^\s$#\]]{0,200}|[ \t]+[^\s$#\]]{1,200}(?=\]))?"
_AT_HOST = rf"\[?[A-Za-z0-9_.+-]{{1,64}}@[A-Za-z0-9_.-]{{1,64}}{_WHERE}(?:[ \t]+\([^()\s]{{1,80}}\))?\]?[ \t]?"
_BARE_SHELL = r"(?:ba|z|k|da)?sh-[0-9][0-9.]{0,10}"
_DIRECTORY = r"[~/][A-Za-z0-9_./~-]{0,200}[ \t]?"
_PROMPT = re.compile(
    rf"(?m)^{_PROMPT_LEAD}(?:(?P<shell>{_AT_HOST}|{_BARE_SHELL})[$#]|(?:{_DIRECTORY})?\$|(?P<hash>\#))[ \t]+(?=\S)"
    r"|(?<=[\s(\[{<:=,>|\"'“‘*])(?P<midline>\$)[ \t]+(?=\S)"
)
_CLOSING_QUOTE = {'"': '"', "'": "'", "“": "”", "‘": "’"}


class Prompt(msgspec.Struct, frozen=True, gc=False):
    start: int
    command_start: int
    end: int
    midline: bool = False
    hash_only: bool = False


def scan_prompts(text: str) -> Iterator[Prompt]:
    """Every place that has the shape of a prompt. What is behind one ends at the next, or at the line's end."""
    if "$" not in text and "#" not in text:
        return
    for match, following in pairwise(chain(_PROMPT.finditer(text), [None])):
        if match is None:
            return
        next_start = following.start() if following else len(text)
        midline = match["midline"] is not None
        end = _first_of("\n", text, match.end(), next_start)
        if midline and text[match.start() - 1] in _CLOSING_QUOTE:
            end = _first_of(_CLOSING_QUOTE[text[match.start() - 1]], text, match.end(), end)
        if end > match.end():
            yield Prompt(match.start(), match.end(), end, midline, match["hash"] is not None)


def find_prompts(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    for prompt in scan_prompts(text):
        commands = read_prompt(text, prompt, vocabulary)
        if calls := [
            mention(command) for command in commands if not vocabulary.is_shouted(command.name)
        ]:
            yield Find(prompt.start, prompt.end, calls)


def read_prompt(text: str, prompt: Prompt, vocabulary: Vocabulary) -> list[Command]:
    segments = split_segments(text[prompt.command_start : prompt.end], prompt.command_start)
    first, name = shell.first_word(segments)
    if prompt.midline:
        if first is not None and first.text.endswith("."):
            segments = [shell.Segment([first])]
        if not shell.is_command_like(segments, vocabulary):
            return []
        # Past the first, a segment may be the sentence going on, so it must convince, too.
        segments[1:] = [
            segment
            for segment in segments[1:]
            if shell.starts_known(segment, vocabulary)
            or shell.is_command_like([segment], vocabulary)
        ]
    elif prompt.hash_only:
        is_alone = len(segments) == 1 and segments[0].words[-1] is first
        if not vocabulary.is_known(name or "") or not (
            is_alone or shell.has_shell_syntax(segments)
        ):
            return []
    elif name is not None and (shell.is_number(name) or vocabulary.is_grammar(name)):
        return []
    return read_commands(segments, vocabulary)


def drop_prompt(code: str) -> str:
    """`code` without the shell prompt it opens with, if any; a lone hash sign is not one."""
    prompt = _PROMPT.match(code) if "$" in code or "#" in code else None
    return code[prompt.end() :] if prompt and not prompt["hash"] else code


def _first_of(mark: str, text: str, start: int, end: int) -> int:
    place = text.find(mark, start, end)
    return place if place >= 0 else end


_LINE = re.compile(r"[^\n]+")
_HERE_DOCUMENT = re.compile(
    r"(?<!<)<<-?[ \t]*(?P<quote>['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)[^\n]*"
)


def scan_session(script: str) -> list[Prompt]:
    return [
        prompt for prompt in scan_prompts(script) if not prompt.midline and not prompt.hash_only
    ]


def read_script(script: str, vocabulary: Vocabulary) -> list[Command]:
    if not (prompts := scan_session(script)):
        return read_commands(split_segments(_without_here_documents(script)), vocabulary)
    lines = (
        split_segments(script[prompt.command_start : prompt.end], prompt.command_start)
        for prompt in prompts
    )
    return [command for segments in lines for command in read_commands(segments, vocabulary)]


def read_unlabelled(block: str, vocabulary: Vocabulary) -> list[Command]:
    """Prompts, and lines that look like commands; beside a prompt, where the rest may be output, only known ones."""
    commands, prompt_ends = list[Command](), list[int]()
    for prompt in scan_prompts(block):
        if found := read_prompt(block, prompt, vocabulary):
            commands += found
            prompt_ends.append(prompt.end)
    for line in _LINE.finditer(block):
        place = bisect_left(prompt_ends, line.start())
        if place < len(prompt_ends) and prompt_ends[place] <= line.end():
            continue
        segments = split_segments(line[0], line.start())
        _, name = shell.first_word(segments)
        if (
            name is None
            or vocabulary.is_shouted(name)
            or (prompt_ends and not vocabulary.is_known(name))
        ):
            continue
        if shell.is_command_like(segments, vocabulary):
            commands += read_commands(segments, vocabulary)
    return commands


def _without_here_documents(script: str) -> str:
    """`script` with the text fed to a command by `<<WORD` blanked, up to the line that is WORD."""
    if "<<" not in script:
        return script
    line_starts: defaultdict[str, list[int]] = defaultdict(list)
    for line in _LINE.finditer(script):
        line_starts[line[0].strip()].append(line.start())
    pieces: list[str] = []
    position = 0
    for opening in _HERE_DOCUMENT.finditer(script):
        ends = line_starts.get(opening["word"], [])
        place = bisect_left(ends, opening.end())
        if opening.start() < position or place == len(ends):
            continue
        pieces.append(script[position : opening.end()])
        line_end = script.find("\n", ends[place])
        position = line_end if line_end >= 0 else len(script)
        pieces.append(shell.NOT_NEW_LINE.sub(" ", script[opening.end() : position]))
    return "".join((*pieces, script[position:]))


_FENCE_LEAD = r"[ \t>]*+(?:(?:[-*+•]|[0-9]{1,3}[.)])[ \t]++)?"
_FENCE_OPENING = re.compile(
    rf"^{_FENCE_LEAD}(?P<tildes>~~~+)(?P<tilde_info>[^\n]*)$|(?<!`)(?P<ticks>```+)(?P<tick_info>[^`\n]*)$",
    re.MULTILINE,
)
_LEAD_ONLY = re.compile(_FENCE_LEAD)
_ONE_WORD = re.compile(r"[A-Za-z0-9_+#.-]*[ \t]*")
_TICK_RUN = re.compile(r"`+")
# Models close a block at the end of its last line, too, rather than on a line of its own.
_FENCE_CLOSING = {
    "`": re.compile(r"^[^`\n]*(?P<run>```+)[ \t]*$", re.MULTILINE),
    "~": re.compile(r"^[ \t>]*(?P<run>~~~+)[ \t]*$", re.MULTILINE),
}
_QUOTE_PREFIX = re.compile(r"^[ \t]*+(?:>[ \t]?)++", re.MULTILINE)


class Block(msgspec.Struct, frozen=True, gc=False):
    start: int
    body_start: int
    body_end: int
    end: int
    info: str
    is_quoted: bool


def find_fenced(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    for block in scan_blocks(text):
        body = text[block.body_start : block.body_end]
        if block.is_quoted:
            body = _QUOTE_PREFIX.sub(lambda prefix: " " * len(prefix[0]), body)
        commands = [] if block.info else read_unlabelled(body, vocabulary)
        if block.info in vocabulary.lexicon.shell_info:
            commands = read_script(body, vocabulary)
        yield Find(
            block.start, block.end, [mention(command, block.body_start) for command in commands]
        )


def scan_blocks(text: str) -> Iterator[Block]:
    # Every place where a fence of one kind may close, as a number: there may be millions.
    closings: dict[str, array[int]] = {}
    position = 0
    while opening := _FENCE_OPENING.search(text, position):
        kind = "ticks" if opening["ticks"] else "tildes"
        fence, info = opening[kind], opening[f"{kind[:-1]}_info"]
        start, position = opening.start(kind), opening.end()
        lead = text[text.rfind("\n", 0, start) + 1 : start]
        body_start = min(position + 1, len(text))
        pattern = _FENCE_CLOSING[fence[0]]
        if fence[0] not in closings:
            closings[fence[0]] = array("I", (match.start() for match in pattern.finditer(text)))
        starts = closings[fence[0]]
        stands_alone = _LEAD_ONLY.fullmatch(lead) is not None
        found = (
            pattern.match(text, starts[n])
            for n in range(bisect_left(starts, body_start), len(starts))
        )
        closing = next(
            (one for one in found if one and (len(one["run"]) >= len(fence) or not stands_alone)),
            None,
        )
        if not stands_alone:
            # It opens a block with one info word at most, and where it would not close a code span.
            n_same = sum(len(run) == len(fence) for run in _TICK_RUN.findall(lead))
            if (
                closing is None
                or len(closing["run"]) < len(fence)
                or n_same % 2
                or not _ONE_WORD.fullmatch(info)
            ):
                continue
        body_end, end = (closing.start("run"), closing.end()) if closing else (len(text), len(text))
        info_word = next(iter(info.strip().strip("{}.").lower().split()), "")
        yield Block(start, body_start, body_end, end, info_word, ">" in lead)
        position = end


_TWO_WORDS = re.compile(r"([A-Za-z-]+)[ \t]+(\S+)")
_CALL_SYNTAX = re.compile(r"(?P<name>[A-Za-z_][^\s()]*)\((?P<arguments>.*)\);?", re.DOTALL)
_OPERATORS = frozenset(("!=", ":=", "+=", "-=", "*=", "/=", "->", "<=", ">="))
_COMPARISON = re.compile(r"[<>] ?-?[0-9.]+%?")
_HOST_AND_PORT = re.compile(r".*:[0-9]+")


def find_inline_code(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    for start, end, inside in _spans(text):
        if inside.start - start >= 3:
            # A fence squeezed into one line: the command after `bash`, not `bash`.
            words = _TWO_WORDS.match(text, inside.start, inside.stop)
            if (
                words
                and words[1].lower() in vocabulary.lexicon.shell_info
                and vocabulary.is_known(words[2])
            ):
                inside = slice(words.start(2), inside.stop)
        yield Find(start, end, _read_span(text, inside, vocabulary))


def _spans(text: str) -> Iterator[tuple[int, int, slice]]:
    """Each code span, with its back-ticks and without: a run of a line and the next of its length."""
    for line in _LINE.finditer(text) if "`" in text else ():
        starts, ends = array("I"), array("I")  # the line may be the whole of a large answer
        for run in _TICK_RUN.finditer(text, *line.span()):
            starts.append(run.start())
            ends.append(run.end())
        partners = array("I", starts)
        nearest: dict[int, int] = {}
        for index in reversed(range(len(starts))):
            length = ends[index] - starts[index]
            partners[index] = nearest.get(length, 0)  # the first run is nobody's partner
            nearest[length] = index
        index = 0
        while index < len(starts):
            if partner := partners[index]:
                yield starts[index], ends[partner], slice(ends[index], starts[partner])
                index = partner
            index += 1


def _read_span(text: str, inside: slice, vocabulary: Vocabulary) -> list[Call]:
    code = text[inside].rstrip()
    command_line = drop_prompt(code.lstrip())
    start = inside.start + len(code) - len(command_line)
    call = _CALL_SYNTAX.fullmatch(command_line) if "(" in command_line else None
    if call:
        name = shell.read_name(call["name"])
        commands = [Command(start, name, call["arguments"], call["name"])] if name else []
    else:
        segments = split_segments(command_line, start)
        second = segments[0].words[1].text if segments and len(segments[0].words) > 1 else ""
        if second.startswith("=") or second in _OPERATORS:
            return []  # an assignment
        commands = read_commands(segments, vocabulary)
    return [mention(command) for command in commands if _is_invocation(command, vocabulary)]


def _is_invocation(command: Command, vocabulary: Vocabulary) -> bool:
    name = command.name
    if name.lower() in vocabulary.lexicon.stop or vocabulary.is_shouted(name):
        return False
    if command.arguments:
        return _COMPARISON.fullmatch(command.arguments) is None
    if "/" in command.written or vocabulary.is_expected(name):
        return True
    # A file (`config.yaml`) or an address (`localhost:8080`); `python3.11` is neither.
    is_file = "." in name and not vocabulary.is_known(name.rstrip("0123456789."))
    return not is_file and _HOST_AND_PORT.fullmatch(name) is None


_MARKER_OPENING = re.compile(r"(?P<tag><tool[ \t]*>)|\[[ \t]*tool[ \t]*:", re.IGNORECASE)
_MARKER_CLOSING = {True: re.compile(r"</tool\s*>", re.IGNORECASE), False: re.compile(r"\]")}
# Bounded, so that a text of nothing but openings is not read to its end at each of them.
_FIRST_WORD = re.compile(r"\s*(\S{1,300})(?!\S)")


def find_markers(text: str, _: Vocabulary) -> Iterator[Find]:
    closings = {True: (-1, -1), False: (-1, -1)}  # not looked for yet
    position = 0
    while opening := _MARKER_OPENING.search(text, position):
        position = opening.end()
        is_tag = opening["tag"] is not None
        if closings[is_tag][0] < position:
            closing = _MARKER_CLOSING[is_tag].search(text, position)
            closings[is_tag] = closing.span() if closing else (len(text), len(text))
        inside_end, end = closings[is_tag]
        is_closed = inside_end < len(text)
        word = _FIRST_WORD.match(text, position, inside_end) if is_tag or is_closed else None
        name = shell.read_name(word[1]) if word else None
        calls = []
        if word and name is not None:
            arguments = text[word.end() : inside_end].strip() or None
            calls = [
                Call(
                    word.start(1),
                    ToolInvocation(name=name.lower(), arguments=arguments, channel="text:marker"),
                )
            ]
        if calls or (is_tag and is_closed):
            yield Find(opening.start(), end, calls)
            position = end


_MARK = re.compile(r"[\"'“”‘’\n]")
_OPENS_AFTER, _WORD_STARTS, _STRAIGHT = "([{<:=,>", "/~$_-", "\"'"
_OPENER_OF = {'"': '"', "'": "'", "”": "“", "’": "‘"}


def find_quoted(text: str, vocabulary: Vocabulary) -> Iterator[Find]:
    end_of_last = 0
    for start, end in _pairs(text):
        if start < end_of_last:
            continue  # inside a command line that is found already
        segments = split_segments(text[start + 1 : end - 1], start + 1)
        if sum(len(segment.words) for segment in segments) < 2 or not shell.is_command_like(
            segments, vocabulary
        ):
            continue
        commands = read_commands(segments, vocabulary)
        if calls := [
            mention(command) for command in commands if not vocabulary.is_shouted(command.name)
        ]:
            yield Find(start, end, calls)
            end_of_last = end


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    """Opening and closing marks that belong together, in order; of two opening marks of a kind, the newer counts."""
    pairs, opened = list[tuple[int, int]](), dict[str, int]()
    for match in _MARK.finditer(text):
        at, mark = match.start(), match[0]
        if mark == "\n":
            opened.clear()
        if pairs and not opened:  # none that is still open could start before these
            yield from sorted(pairs)
            pairs.clear()
        if mark == "\n":
            continue
        kind = _OPENER_OF.get(mark, mark)
        before, after = text[at - 1 : at] or " ", text[at + 1 : at + 2] or " "
        can_open = (mark in _STRAIGHT or mark == kind) and (
            before.isspace() or before in _OPENS_AFTER
        )
        is_apostrophe = mark in "'’" and before.isalnum() and after.isalnum()
        opens_word = can_open and before.isspace() and (after.isalnum() or after in _WORD_STARTS)
        if kind in opened and mark not in "“‘" and not is_apostrophe and not opens_word:
            pairs.append((opened.pop(kind), at + 1))
        elif can_open:
            opened[kind] = at
    yield from sorted(pairs)
