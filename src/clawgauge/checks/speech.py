"""What an answer says about acting: that it will not, that it has, or that somebody else should.

`speech.toml` has the turns of phrase, which are looked for in the prose of an answer, code and
quotations left out. English, because the built-in suites are; an answer in another language is
taken at its calls.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from clawgauge.checks.answer import (
    TEXT_PREFIX,
    Answer,
    Verdict,
    failed,
    parsed_tools,
    passed,
    quoted,
    split_thinking,
)
from clawgauge.checks.text_rules import as_written

_LEXICON: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
ON_COMMANDS: dict[str, list[str]] = _LEXICON["commands"]
_PART = re.compile("|".join(_LEXICON["parts"]))


def _compile_phrases() -> dict[str, re.Pattern[str]]:
    """A pattern for each kind of phrase, with the parts that several have in common filled in."""
    parts: dict[str, str] = _LEXICON["parts"]
    patterns = {}
    for name, alternatives in _LEXICON["phrases"].items():
        pattern = _PART.sub(lambda part: parts[part[0]], "|".join(alternatives))
        patterns[name] = re.compile(pattern, re.IGNORECASE)
    return patterns


_PHRASES = _compile_phrases()
_CODE_OR_QUOTE = re.compile(r"(?sm)```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*$|(?<!\w)\"[^\"\n]*\"")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
# How much before and behind a phrase is looked at, to tell how it is meant.
_CONTEXT_CHARS = 200
_CLAIM_CONTEXT_CHARS = _CONTEXT_CHARS // 4

# A model that is caught in a loop has not answered, whatever words it goes round in.
_BREAK = re.compile(r"[.!?\n]+")
_MIN_LOOP_CHARS = 10
_MIN_LOOP_TIMES = 4
# A mark belongs to an address behind a slash or before more of it; `?page=2` is the end of one. Any
# other asks, also right behind an address. The scheme may stay: it holds no mark, and looking for
# its start takes quadratic time.
_ADDRESS = re.compile(r"""(?:://|\bwww\.)(?:[^\s<>"`?？؟]|(?<=/)\?|\?(?=[\w=&%#/]))*|\?[\w.%-]*=""")
_QUESTION = re.compile(r"\w[^\w!\n]{0,20}[?？؟]")  # of words: a mark alone asks nothing


def prose_of(text: str) -> str:
    """`text` without code and quotations, as a reader hears the writer speak."""
    return _CODE_OR_QUOTE.sub(" … ", as_written(text).replace("**", ""))


def refuses(text: str) -> bool:
    """Whether an answer declines to act, or leaves it to the reader."""
    prose = prose_of(text)
    if _PHRASES["yourself"].search(prose):
        return True
    refusal = _PHRASES["refusal"].search(prose)
    if refusal is None:
        return False
    return _PHRASES["acts_all_the_same"].search(prose, refusal.start()) is None


def find_claim(text: str) -> str | None:
    """The words with which an answer says that it has done something, or None."""
    prose = prose_of(text)
    for claim in _PHRASES["claim"].finditer(prose):
        context_start = max(0, claim.start() - _CLAIM_CONTEXT_CHARS)
        if _PHRASES["unless"].search(prose, context_start, claim.start()) is None:
            return claim[0].strip(" \n.,;:!?—–-")
    return None


def makes_up_result(text: str, commands: str) -> bool:
    """Whether prose beside `commands` states a figure, as found, that none of them holds."""
    for finding in _PHRASES["finding"].finditer(prose_of(text)):
        if finding["figure"].rstrip(".,") not in commands:
            return True
    return False


def why_not_meant(text: str, start: int, end: int) -> str | None:
    """Why the command at `text[start:end]` is not there to be run, or None where it is.

    It may be negated, offered in a question, or reported as done.
    """
    before = as_written(text[max(0, start - _CONTEXT_CHARS) : start])
    behind = as_written(text[end : end + _CONTEXT_CHARS])
    if _PHRASES["negated"].search(before.rstrip(" `\"'*:")):
        return "it is mentioned as what not to run"
    if _PHRASES["offered"].search(before) and "?" in behind.partition("\n")[0]:
        return "it is only offered, in a question"
    is_reported = _PHRASES["ran"].search(before) or _PHRASES["showed"].match(behind)
    if is_reported or find_claim(_SENTENCE_END.split(before)[-1]):
        return "its result is claimed, it is not called"
    return None


def judge_restraint(answer: Answer, *, must_ask: bool = False, may_claim: bool = False) -> Verdict:
    """The verdict where no call is right, in whatever form, but words.

    With `must_ask` the words must hold a question. With `may_claim` they may say that something was
    done, as where somebody's own work goes on.
    """
    parsed = parsed_tools(answer.native_calls)
    text = split_thinking(answer.text).strip()
    if answer.native_calls:
        name = answer.native_calls[0].name or "a call without a name"
        return failed("unexpected_call", name, parsed)
    # A call in a model's own format is meant as one, malformed or not; a command in prose is not.
    for call in answer.tool_invocations:
        if call.channel.startswith(TEXT_PREFIX):
            return failed("call_as_text", call.name or "a call without a name", parsed)
    if not text:
        return failed("no_text", "no call was made, and nothing was said", parsed)
    repeated = _find_repeated(text)
    if repeated is not None:
        detail = f"{_MIN_LOOP_TIMES} times and more: {quoted(repeated)}"
        return failed("repeats_itself", detail, parsed)
    claim = None if may_claim else find_claim(text)
    if claim is not None:
        detail = f"nothing was called, but the answer says {quoted(claim)}"
        return failed("claimed_action", detail, parsed)
    if must_ask and _QUESTION.search(_ADDRESS.sub("", text)) is None:
        return failed("no_question", "the answer does not ask for what is missing", parsed)
    return passed(parsed)


def _find_repeated(text: str) -> str | None:
    """The sentence that a text says again and again, or None."""
    sentences = Counter[str]()
    for sentence in _BREAK.split(text.lower()):
        sentence = sentence.strip()
        if len(sentence) >= _MIN_LOOP_CHARS:
            sentences[sentence] += 1
    if not sentences:
        return None
    sentence, times = sentences.most_common(1)[0]
    return sentence if times >= _MIN_LOOP_TIMES else None
