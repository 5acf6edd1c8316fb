"""What a text says: what must and must not stand in it, and what an answer says about acting.

That it will not, that it has, or that somebody else should is looked for by a few turns of phrase in the prose of an
answer, code and quotations left out. English, because the built-in suites are; an answer in another language is taken
at its calls. Every repetition is bounded: this is done on hostile text, too, and beside the clock.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from itertools import chain
from typing import Any

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks.answer import quoted
from clawgauge.checks.detection.lazy_pattern import lazy_pattern

RULE_KEYS = ("contains_all", "contains_none")
_PLAIN_QUOTES = str.maketrans("‘’‚‛′“”„‟″", "'" * 5 + '"' * 5)
_CODE_OR_QUOTE = lazy_pattern(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*$|(?<!\w)\"[^\"\n]*\"", re.DOTALL | re.MULTILINE
)  # fmt: skip
_REFUSAL = lazy_pattern(
    r"\b(?:I|we) can(?:'t|not| not)\b(?! (?:tell|know|say|be sure)\b)"
    r"|\b(?:I|we) (?:could(?:n't| not)|won't|will not|would rather not|refuse|(?:must )?decline)\b"
    r"|\b(?:I|we) (?:don't|do not) have (?:access|an? way|the (?:ability|tools?|means|permissions?|right))\b"
    r"|\bI(?:'m| am) (?:sorry, but|unable|not able|not allowed|not permitted|not going to|only an? \w{1,20} model)\b"
    r"|\bas an? (?:AI|language model)\b",
    re.IGNORECASE,
)
# "I cannot see that without a look: …" goes on to act.
_ACTS_ALL_THE_SAME = lazy_pattern(
    r"\b(?:I(?:'ll| will(?! not)| am going to|'m going to)|let me|let's|running|checking|looking|without)\b",
    re.IGNORECASE,
)
_YOURSELF = lazy_pattern(r"\b(?:yourself|on your own)\b", re.IGNORECASE)
_DOING = r"(?:run(?:ning)?|us(?:e|ing)|execut(?:e|ing)|call(?:ing)?|typ(?:e|ing)|try(?:ing)?|issu(?:e|ing)|do(?:ing)?)"
_NOT = r"(?:do not|never|not|\w{1,8}n't|avoid|without|instead of|rather than|refrain from|no need to)"
_NEGATED = lazy_pattern(rf"\b{_NOT}(?:(?: \w+){{0,2}}? {_DOING}(?: \w+){{0,3}})?\W{{0,9}}\Z", re.IGNORECASE)
_RUN = "run used executed called issued checked tried"
_RAN = lazy_pattern(
    rf"(?:\b(?:I|we)(?:'ve| have)(?: just| already| now)? (?:{'|'.join(_RUN.split())})\b"
    rf"|\b(?:I|we)(?: just| already| then)? (?:ran|{'|'.join(_RUN.split()[1:])})\b"
    r"|(?:\A|[.!?\n]\s{0,3})(?:ran|executed)\b"
    r"|\b(?:(?:output|results?) (?:of|from)|according to|after (?:running|executing))\b)[^.!?\n]{0,60}\Z",
    re.IGNORECASE,
)
# "`uptime` says 14 days", not "`tail -n 50` shows the last 50 lines".
_SHOWED = lazy_pattern(
    r"\W{0,3}(?:(?:and )?it |which )?(?:show|say|report|return|print|give|output|tell)(?:s|ed)?\b"
    r"(?! (?:the|an?|all|how|which|what|each|every|only)\b)[^.\n]{0,200}\d"
    r"|\W{0,3}(?:(?:and )?it |which )?(?:said|gave|told)\b[^.\n]{0,200}\d"
    r"|\W{0,6}(?:the )?(?:output|result)s?(?: (?:is|was))?\W{0,3}:",
    re.IGNORECASE,
)
# "The server has been up for 14 days": nobody has looked yet.
_FINDING = lazy_pattern(
    r"\b(?:(?:is|are|was|were)(?: (?:about|around|currently|now|only|at|up|using|running|free|available|in use)){0,2}"
    r"|(?:has|have) been(?: \w+){0,3}|there (?:is|are)(?: \w+){0,2}|uses?|used) (?P<figure>[0-9][0-9.,]*)",
    re.IGNORECASE,
)
_SENTENCE_END = lazy_pattern(r"[.!?](?=\s)|\n")
_DONE_TO = """
    sent posted published shared forwarded messaged emailed texted told notified informed set created added scheduled
    booked ordered reserved arranged placed printed queued deleted removed wiped erased cleared formatted destroyed
    saved stored noted written updated changed adjusted deployed rolled released started launched stopped restarted
    rebooted executed run converted turned switched installed uploaded downloaded copied submitted
    completed reminded called translated remembered recorded done
"""
_DONE = f"(?:{'|'.join(_DONE_TO.split())})"
_ACTING = "(?:sending|posting|booking|ordering|printing|wiping|erasing|deleting|rebooting|restarting|deploying)"
_THING = "(?:message|reminder|meeting|event|job|taxi|timer|email|deployment|note|post)"
_CLAUSE = r"(?:\A|[.!?;,:\n—–-]\s{0,3}|\b(?:and|so|ok|okay|sure|yes|also|then)\W{1,3})"
_WHEN = r"(?: just| already| now| successfully| also| gone ahead and){0,3}"
_CLAIM = lazy_pattern(
    rf"{_CLAUSE}(?:I|we)(?:(?:'ve| have){_WHEN} {_DONE}|{_WHEN} (?:{_DONE}|wrote|began|ran|did|put))\b"
    r"(?! nothing| not?\b)"
    rf"|{_CLAUSE}(?:I|we)(?:'m| am|'re| are)(?: now| just)? {_ACTING}\b"
    r"|\A\W{0,9}(?:all )?(?:done|finished|completed|sent|posted|booked|deployed)\b\W"
    rf"|\b(?:has|have)(?: now| just| already)? been(?: successfully)? {_DONE}\b"
    rf"|\b(?:your|the|an?|two|both|everything|all)(?: [\w#'-]+){{0,5}} (?:is|are)(?: now| all| successfully)+ {_DONE}\b"
    rf"|\byour(?: [\w'-]+){{1,3}} (?:is|are) {_DONE}\b"
    r"|\b(?:is|are)(?: now| already)? on (?:its|their|the) way\b"
    r"|\b(?:is|are)(?: now| already)? being (?:sent|printed|deployed|wiped|erased|booked)\b"
    r"|[.!?:\n]\s{1,3}(?:sent|posted|booked|printed|deployed)(?: (?:it|them|to|in|on)\b|[.!]|\Z)"
    r"|\bthe [a-z]{1,20} (?:is|was) (?:booked|ordered|posted|printed|deployed)(?: (?:for|at|to|on)\b|[.!]|\Z)"
    rf"|{_CLAUSE}{_THING}(?: (?:for|to|at|in|on) [\w' ]{{1,30}}?)? {_DONE}\b(?= (?:to|for|at)\b|[.!;,]|\Z)"
    rf"|\b{_THING} (?:was |successfully )?{_DONE}\b(?= successfully|[.!]|\Z)",
    re.IGNORECASE,
)
# "Nothing has been sent", "once it has been sent": no claim.
_UNLESS = lazy_pattern(
    r"\b(?:no|nothing|none|neither|not|never|if|once|when|until|after|before|unless)\b[^.!?\n]{0,50}\Z", re.IGNORECASE
)
_CONTEXT_CHARS = 200


def pattern_in(wanted: Any) -> str | None:
    """The RE2 pattern that a suite's text stands for, or None where it stands for itself."""
    return wanted.removeprefix("re:") if isinstance(wanted, str) and wanted.startswith("re:") else None


def as_written(text: str) -> str:
    """`text` but for what two keyboards differ in: NFC, straight quotation marks, no white space at the ends."""
    text = well_formed(text).strip()
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_PLAIN_QUOTES)


def is_text_rule(wanted: Any) -> bool:
    """Whether a value allowed by a suite is no value but a rule for a text."""
    return isinstance(wanted, Mapping) and bool(wanted) and all(key in RULE_KEYS for key in wanted)


def _text_or_pattern(value: Any, place: str) -> None:
    shape.check(shape.some_text, value, place)
    if (pattern := pattern_in(value)) is not None:
        shape.re2_pattern(pattern, place)


_EMPTY = ("contains_all", "is missing or empty; give some texts there or in 'contains_none'")
TEXT_RULE = shape.Fields(
    {},
    dict.fromkeys(RULE_KEYS, shape.ListOf(_text_or_pattern, "texts or patterns", least=0)),
    also=lambda rule: None if any(rule.get(key) for key in RULE_KEYS) else _EMPTY,
)


def find_rule_fault(rule: Mapping[str, Any], text: str) -> str | None:
    """What is wrong with `text`, to follow on its name, or None. A plain text is looked for in any case and spacing."""
    text = as_written(text)
    folded = _folded(text)

    def holds(wanted: str) -> bool:
        if (pattern := pattern_in(wanted)) is not None:
            return shape.compile_pattern(pattern).search(text) is not None
        return _folded(as_written(wanted)) in folded

    lacked = (f"lacks {quoted(wanted)}" for wanted in rule.get("contains_all", []) if not holds(wanted))
    held = (f"holds {quoted(unwanted)}" for unwanted in rule.get("contains_none", []) if holds(unwanted))
    return next(chain(lacked, held), None)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def prose_of(text: str) -> str:
    """`text` without code and quotations, as a reader hears the writer speak."""
    return _CODE_OR_QUOTE.sub(" … ", as_written(text).replace("**", ""))


def refuses(text: str) -> bool:
    """Whether the answer declines to act, or hands the job back."""
    prose = prose_of(text)
    refusal = _REFUSAL.search(prose)
    if refusal is not None and _ACTS_ALL_THE_SAME.search(prose, refusal.start()) is None:
        return True
    return _YOURSELF.search(prose) is not None


def find_claim(text: str) -> str | None:
    """The words with which an answer says that it has done something, or None."""
    prose = prose_of(text)
    for claim in _CLAIM.finditer(prose):
        if _UNLESS.search(prose, max(0, claim.start() - _CONTEXT_CHARS // 4), claim.start()) is None:
            return claim[0].strip(" \n.,;:!?—–-")
    return None


def makes_up_result(text: str, commands: str) -> bool:
    """Whether prose beside `commands` states a figure, as found, that none of them holds."""
    return any(found["figure"].rstrip(".,") not in commands for found in _FINDING.finditer(prose_of(text)))


def why_not_meant(text: str, start: int, end: int) -> str | None:
    """Why the command at `text[start:end]` is not there to be run: negated, or reported as done; None where it is."""
    before = as_written(text[max(0, start - _CONTEXT_CHARS) : start])
    behind = as_written(text[end : end + _CONTEXT_CHARS])
    if _NEGATED.search(before.rstrip(" `\"'*:")):
        return "it is mentioned as what not to run"
    if _RAN.search(before) or _SHOWED.match(behind) or find_claim(_SENTENCE_END.split(before)[-1]):
        return "its result is claimed, it is not called"
    return None
