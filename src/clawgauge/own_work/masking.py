"""What is private is taken out of the texts of a suite: keys, addresses, numbers, names."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import partial

from clawgauge.characters import well_formed
from clawgauge.own_work.rules import RULES
from clawgauge.own_work.turns import HistoryTurn
from clawgauge.secrets import MASK, Redactor, mask_strings

# The forms of stand-ins; `{}` is a number. Those of other things are in the rules.
_ADDRESS_FORM = "192.0.2.{}"
_HOST_FORM = "host{}.example"
_PERSON_FORM = "person{}"
# A shorter part of a name, such as "de", is a word of its own in too many texts.
_MIN_NAME_CHARS = 3
_NEVER = "(?!)"


class Mask:
    """Takes keys out of a text, and puts stand-ins for addresses and numbers in it.

    With `names` (None: do not) it does so for people and hosts too: for these names, and for those
    that paths and addresses in the turns tell. The same gets the same stand-in everywhere.
    """

    def __init__(
        self, secrets: Iterable[str], names: Collection[str] | None, turns: Iterable[HistoryTurn]
    ) -> None:
        self._redact = Redactor(secrets)
        self._stand_ins_by_form: dict[str, dict[str, str]] = defaultdict(dict)
        self._patterns: dict[str, re.Pattern[str]] = {}
        for form, pattern in RULES["replaced"].items():
            self._patterns[form] = re.compile(pattern)
        if names is not None:
            texts = [_all_texts_of(turn) for turn in turns]
            self._patterns[_HOST_FORM] = _any_of(_find_hosts(texts))
            self._patterns[_PERSON_FORM] = _any_of(_find_people(names, texts))

    def __call__(self, text: str) -> str:
        text = self._redact(well_formed(text))
        for form, pattern in self._patterns.items():
            text = pattern.sub(partial(self._stand_in, form), text)
        return text

    def spoils(self, turn: HistoryTurn) -> bool:
        """Whether a question or its calls hold a secret, so that nobody could call the same."""
        texts = [turn.question, *(call.arguments for call in turn.calls)]
        return str(mask_strings(texts, self)).count(MASK) != str(texts).count(MASK)

    def _stand_in(self, form: str, match: re.Match[str]) -> str:
        original = match[0]
        if form == _ADDRESS_FORM and not _is_public(original):
            return original
        stand_ins = self._stand_ins_by_form[form]
        stand_in = stand_ins.setdefault(original.casefold(), form.format(len(stand_ins) + 1))
        if form == _PERSON_FORM and original[0].isupper():
            return stand_in.capitalize()
        return stand_in


def _all_texts_of(turn: HistoryTurn) -> str:
    return json.dumps([turn.cwd, turn.messages, turn.calls], ensure_ascii=False)


def _find_people(names: Collection[str], texts: Iterable[str]) -> set[str]:
    """The names, their parts, and the owners of home folders."""
    people = set(names)
    for text in texts:
        people.update(re.findall(RULES["person"], text))
    for name in names:
        for part in name.split():
            if len(part) >= _MIN_NAME_CHARS:
                people.add(part)
    return people


def _find_hosts(texts: Iterable[str]) -> set[str]:
    hosts = set()
    for text in texts:
        for host in re.findall(RULES["host"], text):
            if re.fullmatch(RULES["nobodys_host"], host.casefold()) is None:
                hosts.add(host)
    return hosts


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern of these names as whole words, the longest first."""
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?i)(?<![^\W_])(?:{alternatives or _NEVER})(?![^\W_])")


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False
