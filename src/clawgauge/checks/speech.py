"""What an answer says about acting: that it will not, that it has, or that somebody else should.

`speech.toml` has the turns of phrase, which are looked for in the prose of an answer, code and quotations left out.
English, because the built-in suites are; an answer in another language is taken at its calls."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clawgauge.checks.answer import TEXT_PREFIX, Answer, Verdict, failed, passed, quoted, split_thinking, tool_calls_of
from clawgauge.checks.spec import as_written

_KNOWN, _WORDS = (
    tomllib.loads(Path(__file__).with_name(name).read_text("utf-8")) for name in ("speech.toml", "sentences.toml")
)
# What goes before and behind a full stop, for who counts sentences.
WORDS: dict[str, frozenset[str]] = {name: frozenset(words.split()) for name, words in _WORDS.items()}
ON_COMMANDS: dict[str, list[str]] = _KNOWN["commands"]
_PART = re.compile("|".join(_KNOWN["parts"]))
_SAYS = {
    name: re.compile(_PART.sub(lambda part: _KNOWN["parts"][part[0]], "|".join(alternatives)), re.IGNORECASE)
    for name, alternatives in _KNOWN["phrases"].items()
}
_CODE_OR_QUOTE = re.compile(r"(?sm)```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*$|(?<!\w)\"[^\"\n]*\"")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_CONTEXT_CHARS = 200


def prose_of(text: str) -> str:
    """`text` without code and quotations, as a reader hears the writer speak."""
    return _CODE_OR_QUOTE.sub(" … ", as_written(text).replace("**", ""))


def refuses(text: str) -> bool:
    prose = prose_of(text)
    refusal = _SAYS["refusal"].search(prose)
    declines = refusal is not None and _SAYS["acts_all_the_same"].search(prose, refusal.start()) is None
    return declines or _SAYS["yourself"].search(prose) is not None


def find_claim(text: str) -> str | None:
    """The words with which an answer says that it has done something, or None."""
    prose = prose_of(text)
    for claim in _SAYS["claim"].finditer(prose):
        if _SAYS["unless"].search(prose, max(0, claim.start() - _CONTEXT_CHARS // 4), claim.start()) is None:
            return claim[0].strip(" \n.,;:!?—–-")
    return None


def makes_up_result(text: str, commands: str) -> bool:
    """Whether prose beside `commands` states a figure, as found, that none of them holds."""
    return any(found["figure"].rstrip(".,") not in commands for found in _SAYS["finding"].finditer(prose_of(text)))


def why_not_meant(text: str, start: int, end: int) -> str | None:
    """Why the command at `text[start:end]` is not there to be run: negated, or reported as done; None where it is."""
    before = as_written(text[max(0, start - _CONTEXT_CHARS) : start])
    behind = as_written(text[end : end + _CONTEXT_CHARS])
    if _SAYS["negated"].search(before.rstrip(" `\"'*:")):
        return "it is mentioned as what not to run"
    if _SAYS["offered"].search(before) and "?" in behind.partition("\n")[0]:
        return "it is only offered, in a question"
    if _SAYS["ran"].search(before) or _SAYS["showed"].match(behind) or find_claim(_SENTENCE_END.split(before)[-1]):
        return "its result is claimed, it is not called"
    return None


# A model that is caught in a loop has not answered, whatever words it goes round in.
_BREAK = re.compile(r"[.!?\n]+")
_LOOP_CHARS, _LOOP_TIMES = 10, 4
# A mark belongs to an address behind a slash or before more of it; `?page=2` is the end of one. Any other asks, also
# right behind an address. The scheme may stay: it holds no mark, and looking for its start takes quadratic time.
_ADDRESS = re.compile(r"""(?:://|\bwww\.)(?:[^\s<>"`?？؟]|(?<=/)\?|\?(?=[\w=&%#/]))*|\?[\w.%-]*=""")
_QUESTION = re.compile(r"\w[^\w!\n]{0,20}[?？؟]")  # of words: a mark alone asks nothing


def judge_restraint(spec: Mapping[str, Any], answer: Answer) -> Verdict:
    """No call, in whatever form, but words; a question, where one is wanted."""
    parsed, text = {"tools": tool_calls_of(answer.native_calls)}, split_thinking(answer.text).strip()
    # A call in a model's own format is meant as one, malformed or not; a command in prose is not.
    if answer.native_calls:
        return failed("unexpected_call", answer.native_calls[0].name or "a call without a name", parsed)
    for call in answer.tool_invocations:
        if call.channel.startswith(TEXT_PREFIX):
            return failed("call_as_text", call.name or "a call without a name", parsed)
    if not text:
        return failed("no_text", "no call was made, and nothing was said", parsed)
    said = Counter(part for part in map(str.strip, _BREAK.split(text.lower())) if len(part) >= _LOOP_CHARS)
    if said and said.most_common(1)[0][1] >= _LOOP_TIMES:
        return failed("repeats_itself", f"{_LOOP_TIMES} times and more: {quoted(said.most_common(1)[0][0])}", parsed)
    # Where somebody's own work goes on, much has been done before.
    claim = None if spec["type"] == "agreement" and "no_call" in spec else find_claim(text)
    if claim is not None:
        return failed("claimed_action", f"nothing was called, but the answer says {quoted(claim)}", parsed)
    if "ask" in spec and _QUESTION.search(_ADDRESS.sub("", text)) is None:
        return failed("no_question", "the answer does not ask for what is missing", parsed)
    return passed(parsed)
