"""The `agreement` validator: does an answer do what the incumbent did at that moment? Agreement, never truth.

Arguments are compared as what they are: paths by where they lead, commands by their words, free text by what it says.
"""

from __future__ import annotations

import difflib
import importlib
import json
import posixpath
import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from clawgauge.characters import well_formed
from clawgauge.checks import spec as shape
from clawgauge.checks import tool_call
from clawgauge.checks.answer import Answer, Verdict, failed, passed, tool_calls_of
from clawgauge.checks.detection.shell import load_lexicon
from clawgauge.checks.json import same_value, shown, try_json
from clawgauge.checks.speech import judge_restraint

Spec = Mapping[str, Any]
_NO_SCHEMA: Spec = {}
_KNOWN: dict[str, Any] = tomllib.loads(Path(__file__).with_name("agreement.toml").read_text("utf-8"))
_RE = {name: re.compile(pattern, re.DOTALL) for name, pattern in _KNOWN["patterns"].items()}
_TOKEN = re.compile(_RE["token"].pattern.replace("QUOTED", _RE["quoted"].pattern))
_OPPOSITES = [re.compile("|".join(f"({one})" for one in group.split())) for group in _KNOWN["opposites"]]
_ORDINARY, _MIN_OVERLAP, _MAX_WORDS = r"\w./:@%+=,-", 0.5, 500
WORD = re.compile(r"\w+(?:[.:/@-]\w+)*")
_INSIDE_A_SENTENCE = re.compile(rf"(?<=[\w,;)] ){WORD.pattern}")


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]


def unwrap(name: str, arguments: Any) -> Call:
    """A call as it was meant: `tool_call` of OpenClaw's tool search names another tool. A null is no argument."""
    given: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
    while name == "tool_call" and isinstance(given.get("id"), str):
        name, inner = given["id"].rpartition(":")[2], given.get("args")
        given = inner if isinstance(inner, dict) else {}
    return Call(name, {key: value for key, value in given.items() if value is not None})


def meaning(call: Call, cwd: str = "", schema: Spec = _NO_SCHEMA) -> dict[str, Any]:
    """The arguments that make a difference: none that might as well be left out, nothing beside a command."""

    def is_idle(key: str, value: Any) -> bool:
        is_on = _RE["on"].fullmatch(key) or (tool_call.property_schema(schema, key) or {}).get("default") is True
        is_off = value is None or value in ("", [], {}) or (value is False and not is_on)
        return is_off and key not in tool_call.listed(schema.get("required"), str)

    kept = {key: value for key, value in call.arguments.items() if not is_idle(key, value)}
    if any(key in kept for key in load_lexicon().exec_args):
        kept = {key: value for key, value in kept.items() if not _RE["beside"].fullmatch(key)}
        kept = {k: v for k, v in kept.items() if k != "workdir" or _resolve(str(v), cwd) != _resolve(".", cwd)}
    return kept


def find_difference(wanted: Call, call: Call, spec: Spec, schema: Spec = _NO_SCHEMA) -> tool_call.Fault | None:
    if call.name.lower() != wanted.name.lower():
        return "unexpected_call", call.name
    theirs, mine = (meaning(one, spec.get("cwd", ""), schema) for one in (wanted, call))
    # What is written to a table or a program is no prose, whatever words it holds.
    files = [posixpath.splitext(str(theirs[key]))[1].lower() for key in theirs if _RE["path"].fullmatch(key)]
    is_prose = all(ending in _KNOWN["prose_files"] for ending in files)
    for key in theirs:
        if key not in mine:
            return "missing_argument", key
        if not _is_same(mine[key], theirs[key], key if is_prose or not _RE["prose"].fullmatch(key) else "", spec):
            return "wrong_value", f"{key}: got {shown(mine[key])}"
    return next((("unexpected_argument", key) for key in mine if key not in theirs), None)


def _only_differs_in_looking(wanted: Call, call: Call, spec: Spec) -> bool:
    """Whether a call only reads a file, or is the incumbent's but for another command, which only looks."""
    # What else a line did would not show on a small machine: it lacks most programs, and the files of everyone.
    theirs, mine = (meaning(one, spec.get("cwd", "")) for one in (wanted, call))
    if call.name.lower() in ("read", "read_file"):
        return all(_RE["path"].fullmatch(key) or key in ("offset", "limit") for key in mine)
    keys = load_lexicon().exec_args
    lines = [mine.pop(key) for key in keys if key in mine]
    is_else_same = call.name.lower() == wanted.name.lower() and mine == {k: theirs[k] for k in theirs if k not in keys}
    return is_else_same and len(lines) == 1 and isinstance(lines[0], str) and only_looks(lines[0])


def _is_same(value: Any, wanted: Any, key: str, spec: Spec) -> bool:
    if isinstance(wanted, dict) and isinstance(value, dict):
        value, wanted = ({k: v for k, v in one.items() if v is not None} for one in (value, wanted))
        return value.keys() == wanted.keys() and all(_is_same(value[one], wanted[one], one, spec) for one in wanted)
    if isinstance(wanted, list) and isinstance(value, list):
        pairs = zip(value, wanted, strict=False)
        return len(value) == len(wanted) and all(_is_same(one, other, key, spec) for one, other in pairs)
    if not isinstance(wanted, str) or not isinstance(value, str):
        return same_value(value, wanted)
    cwd = spec.get("cwd", "")
    if key in load_lexicon().exec_args:
        return _commands(value, cwd) == _commands(wanted, cwd)
    if _RE["path"].fullmatch(key):
        return _resolve(value, cwd) == _resolve(wanted, cwd)
    if _RE["address"].fullmatch(key):
        bare = partial(_RE["host"].sub, lambda host: f"{host[1].lower()}{host[3] or ''}{host[4].lower()}/")
        return bare(value.strip()) == bare(wanted.strip())
    if not _RE["prose"].fullmatch(key) or any(_RE["code"].search(_RE["exact"].sub("", one)) for one in (value, wanted)):
        return bool(_as_it_is(value) == _as_it_is(wanted))
    return _says_the_same(shape.as_written(value), shape.as_written(wanted), spec.get("telling", ()))


def _as_it_is(text: str) -> Any:
    """A point in time, a telephone number or JSON by what it is. Any other text sign by sign, but for blank lines
    around it, and blanks (no tabs) that neither indent nor are quoted."""
    said = text.strip()
    with suppress(ValueError):
        if _RE["time"].fullmatch(said):
            return datetime.fromisoformat(said)
    if _RE["telephone"].fullmatch(said):
        return re.sub(r"\D", "", said)
    if said[:1] in ("{", "[") and (read := try_json(said))[1]:
        return json.dumps(read[0], sort_keys=True)
    lines = _composed(text).rstrip().removeprefix("\ufeff").splitlines()
    parts = ((line.rstrip(), line.strip()) for line in dropwhile(lambda line: not line.strip(), lines))
    return [line.removesuffix(said) + _RE["blanks"].sub(lambda gap: gap[1] or " ", said) for line, said in parts]


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", well_formed(text))


def _says_the_same(value: str, wanted: str, telling: Collection[str]) -> bool:
    """Most words are the same; all figures, names of files, addresses, signs and words that the user gave; nothing more
    is denied or turned around, nobody else is named. Other words one for one, or all in another order: another text."""

    def must(text: str, words: list[str]) -> tuple[Any, ...]:
        signs = sorted(sign for sign in text if unicodedata.category(sign) in ("Sc", "So"))
        told = {word for word in words if word in telling or re.search(r"[\d./@:]", word)}
        return told, {*_RE["exact"].findall(text)}, signs, len(_RE["denial"].findall(text))

    def is_other(mine: list[str], theirs: list[str]) -> bool:
        steps = difflib.SequenceMatcher(None, mine[:_MAX_WORDS], theirs[:_MAX_WORDS], autojunk=False).get_opcodes()
        pairs = [(mine[start:end], theirs[since:to]) for step, start, end, since, to in steps if step == "replace"]
        sizes = {(len(new), len(old)) for new, old in pairs if both.isdisjoint((*new, *old))}
        return sizes == {(1, 1)} or (mine != theirs and sorted(mine) == sorted(theirs))

    value, wanted = (re.sub(r"(?i)n['’]t\b", " not", one) for one in (value, wanted))
    mine, theirs = (WORD.findall(one.casefold()) for one in (value, wanted))
    if must(value, mine) != must(wanted, theirs):
        return False
    if mine == theirs:
        return bool(mine) or value == wanted
    both, plainly = {*mine} & {*theirs}, [_RE["light"].sub(" ", one.casefold()) for one in (value, wanted)]
    named = [one for one in _INSIDE_A_SENTENCE.findall(f"{value}\n{wanted}") if one[0].isupper() and len(one) > 1]
    if len(both) < _MIN_OVERLAP * len({*mine, *theirs}) or not both.issuperset(map(str.casefold, named)):
        return False
    is_elsewhere = all(places := [{*_RE["origin"].findall(one)} for one in plainly]) and places[0] != places[1]
    return not (is_elsewhere or _is_opposite({*mine} - both, {*theirs} - both) or is_other(*map(WORD.findall, plainly)))


def _is_opposite(mine: Collection[str], theirs: Collection[str]) -> bool:
    """Whether words that one text has alone turn around what the other says: on, off; two, three; lock, unlock."""
    stems, others = ({_RE["turned"].sub("", word) for word in words} for words in (mine, theirs))
    found = ([map(group.fullmatch, words) for words in (mine, theirs)] for group in _OPPOSITES)
    kinds = ([{one.lastindex for one in side if one} for side in sides] for sides in found)
    return not stems.isdisjoint(others) or any(one and other and one != other for one, other in kinds)


def _resolve(path: str, cwd: str) -> str:
    """Where a path leads; the home of whoever works in /home/ana/clawd is /home/ana."""
    home = re.match(r"/(?:home|Users)/[^/]+|/root", cwd)
    path = re.sub(r"\A~(?=/|\Z)", lambda _: home[0] if home else "~", _composed(path).strip())
    return posixpath.normpath(posixpath.join(cwd, path))


def _read_line(line: str) -> list[Any] | None:
    """The words of a line of shell, operators as tuples; None if it cannot be told.

    Quotes are taken off where they change nothing: what they keep from the shell has a backslash before it."""
    tokens: list[Any] = []
    at = 0 if _RE["nested"].search(line) is None else -1
    while 0 <= at < len(line) and (found := _TOKEN.match(line, at)) is not None:
        at = found.end()
        if found["operator"]:
            tokens.append((re.sub(r"\A1(?=>)|\s", "", found["operator"]) or ";",))
        elif found["word"]:
            # Where a command is named, quotes make a keyword or an assignment a name.
            names = not tokens or (isinstance(tokens[-1], tuple) and tokens[-1][0][-1] not in "<>")
            tokens.append(found["word"] if names else _RE["quoted"].sub(_unquote, found["word"]) or "''")
    return tokens if at == len(line) else None


def _unquote(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == '"' and re.search(r"[$\\!]", text):
        return text
    return re.sub(rf"[^{_ORDINARY}]", r"\\\g<0>", text[1:] if text[0] == "\\" else text[1:-1])


def _split_line(tokens: Iterable[Any]) -> list[list[Any]]:
    commands: list[list[Any]] = [[]]
    for token in tokens:
        if isinstance(token, tuple):
            commands += [[token], []]
        else:
            commands[-1].append(token)
    return commands


def only_looks(line: str) -> bool:
    """Whether a line of shell can do nothing but print what is in files."""
    tokens, looks = _read_line(line) if _RE["plain_line"].fullmatch(line) else None, _KNOWN["looks"]
    commands = _split_line(tokens or [])
    return all(words == [("|",)] for words in commands[1::2]) and all(
        words and words[0] in looks and not any(re.fullmatch(looks[words[0]], word) for word in words[1:])
        for words in commands[::2]
    )


def _commands(line: str, cwd: str) -> list[Any]:
    """A line as the words of its commands in their order, but for what is known to make no difference.

    That is silencing, quotes around ordinary characters, the order of switches, how a path is written, a shell or a
    `cd` to where one is already."""
    if (read := _read_line(line.strip())) is None:
        return [line.strip()]
    silenced = {n for n, pair in enumerate(pairwise(read)) if pair == (("2>",), "/dev/null")}
    tokens = [one for n, one in enumerate(read) if silenced.isdisjoint((n - 1, n))]
    if tokens[-2:] == [("2>&",), "1"] and not any(">" in one[0] for one in tokens[:-2] if isinstance(one, tuple)):
        tokens = tokens[:-2]
    if len(tokens) == 3 and _RE["in_a_shell"].fullmatch(" ".join(map(str, tokens[:2]))):
        inner = str(tokens[2])
        if re.fullmatch(rf"(?:\\.|[{_ORDINARY}])*", inner, re.DOTALL):
            return _commands(re.sub(r"(?s)\\(.)", r"\1", inner), cwd)
    is_moved = tokens[:1] + tokens[2:3] in (["cd", ("&&",)], ["cd", (";",)])
    if is_moved and _resolve(str(tokens[1]), cwd) == _resolve(".", cwd):
        tokens = tokens[3:]
    tokens = tokens[: -1 if tokens[-1:] == [(";",)] else None]
    commands = _split_line(tokens)
    return [words if n % 2 else _plainly(words, cwd) for n, words in enumerate(commands)]


def _plainly(words: list[str], cwd: str) -> list[Any]:
    """The words of one command: its switches as a set, and paths as where they lead where they surely are."""
    name, n_operands, has_options = re.sub(r"\A/(?:usr/)?bin/", "", "".join(words[:1])), 0, False
    said: list[Any] = [name, set()]
    if name in ("head", "tail"):  # `-5`, `-n 5` and `--lines=5` are `-n5`
        options, *files = "\0".join(words).partition("\0--\0")
        options = re.sub(r"(?<=\0)-(?:n\0?|-lines[=\0])?(\d+)(?=\0|\Z)", r"-n\1", options)
        words = "".join([options, *files]).split("\0")
    switches = _KNOWN["switches"].get(name, "")
    for word in (_KNOWN["long"].get(f"{name} {one}", one) for one in words[1:]):
        # What follows an option that is not known may be its value.
        is_bound = has_options and str(said[-1]).startswith("-")
        if switches and not is_bound and re.fullmatch(f"-[{switches}]+", word):
            said[1].update(word)
        elif word.startswith("-"):
            said.append(word)
            has_options, switches = True, "" if word == "--" else switches
        else:
            n_operands += 1
            is_file = name in _KNOWN["switches"] and (name != "grep" or (n_operands > 1 and not has_options))
            is_file = is_file or (name in _KNOWN["file_first"] and len(said) == 2)
            said.append(_place(word, cwd, name not in _KNOWN["looks"]) if is_file else word)
    # Where one is already need not be named.
    return said[:2] if cwd and name in _KNOWN["here"] and said[2:] == [_resolve(".", cwd)] else said


def _place(word: str, cwd: str, keeps_slash: bool) -> str:
    """Where a word leads that is a path; `..` may follow a link, so that it is left, and a variable may be anything."""
    word = re.sub(r"\A\$HOME(?=/|\Z)", "~", word)
    if re.match(r"[$\\\"']|~[^/]", word) or ".." in word.split("/") or word.endswith("/."):
        return word
    return _resolve(word, cwd) + "/" * (keeps_slash and word.endswith("/"))


_CALL = shape.Fields({"name": shape.some_text}, {"arguments": shape.an_object})
_KEYS: dict[str, shape.Shape] = {
    "expected_calls": shape.ListOf(_CALL, "calls", most=tool_call.MAX_EXPECTED_CALLS),
    "telling": shape.ListOf(shape.any_text, "words", least=0), "effect": shape.an_object,
    "tools_source": shape.choice("captured", "inferred"), **dict.fromkeys(("cwd", "incumbent"), shape.any_text),
    **dict.fromkeys(("no_call", "ask"), tool_call.only_true),
}  # fmt: skip
AGREEMENT = shape.Fields({}, _KEYS, also=tool_call.check_together)


def judge_agreement(spec: Spec, answer: Answer) -> Verdict:
    """By the calls as they were made; where they differ, and the suite knows what the incumbent's printed, by that."""
    native, parsed = answer.native_calls, {"tools": tool_calls_of(answer.native_calls)}
    if "expected_calls" not in spec:
        return judge_restraint(spec, answer)
    wanted = [unwrap(one["name"], one.get("arguments")) for one in spec["expected_calls"]]
    if not native:
        return failed("not_called", f"the incumbent called {', '.join(one.name for one in wanted)}", parsed)
    if malformed := [call for call in native if not call.valid]:
        return failed("malformed_call", f"{malformed[0].name}: the arguments are not a JSON object", parsed)
    calls, schemas = [unwrap(call.name, call.arguments) for call in native], tool_call.parameters_by_tool(answer.tools)
    faults = [[find_difference(one, call, spec, schemas.get(one.name.lower(), {})) for call in calls] for one in wanted]
    fault = tool_call.find_nearest(faults)
    if fault is None and len(calls) == len(wanted):
        return passed(parsed)
    if "effect" in spec and len(calls) == len(wanted) == 1 and _only_differs_in_looking(wanted[0], calls[0], spec):
        effect = importlib.import_module("clawgauge.checks.effect")
        if effect.judge_effect(spec["effect"], answer).objective_pass:
            return passed(parsed)
    if fault is None or len(calls) != len(wanted):
        return failed("wrong_call_count", f"got {len(calls)}, the incumbent made {len(wanted)}", parsed)
    return failed(*fault, parsed)
