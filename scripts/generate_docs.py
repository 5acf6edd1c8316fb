"""Writes the generated pages of the docs.

The JSON Schema of every file in a run folder and the page of clawgauge.toml are made from the structs, the page of all
commands and options from the parsers, and the page of failures from the hints that the program prints.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

import clawgauge.summary
from clawgauge.cli import VERBS, build_parser
from clawgauge.config.settings import FIELDS, NodeTable, ProviderTable, Settings, harmless_fields
from clawgauge.records import Event, Inventory, Job, Result, RunConfig, RunSummary

DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "result": Result,
    "event": Event,
    "config": RunConfig,
    "inventory": Inventory,
    "summary": RunSummary,
}
# What is as it is by default is not written of these.
_LEAVE_OUT_DEFAULTS = ("Prompt", "Context", "Message", "MadeCall")
SCHEMA_DIR = Path(__file__).parents[1] / "docs" / "schema"
COMMANDS_PAGE = SCHEMA_DIR.with_name("commands.md")
CONFIGURATION_PAGE = SCHEMA_DIR.with_name("configuration.md")
TROUBLESHOOTING_PAGE = SCHEMA_DIR.with_name("troubleshooting.md")
HINTS = Path(clawgauge.summary.__file__).with_name("hints.toml")
KEY_TEXTS = Path(__file__).with_name("configuration.toml")
HEADS = Path(__file__).with_name("docs_heads")
_COMMANDS_HEAD = """\
# Every command and option

What `clawgauge VERB --help` says, on one page; `make docs` writes it. `clawgauge --version` tells the version,
`-h` or `--help` after a verb its options with examples. What a command ends with is on the page of
[exit codes](exit_codes.md).
"""


def render_schema(name: str) -> str:
    """One document's schema. Every field we write is required; unknown ones are allowed, for those who add."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    schema: dict[str, Any] = {
        "$schema": draft,
        "title": name,
        **msgspec.json.schema(DOCUMENTS[name]),
    }
    for struct, body in schema["$defs"].items():
        if struct not in _LEAVE_OUT_DEFAULTS and "properties" in body:
            body["required"] = list(body["properties"])
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def iter_parsers() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Every verb and every action of one: its words, what it is for, its parser."""
    for verb, purpose in VERBS.items():
        parser = _subparsers(build_parser([verb]))[verb]
        yield verb, purpose, parser
        for action, subparser in _subparsers(parser).items():
            yield f"{verb} {action}", _purpose_of(parser, action), subparser


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _purpose_of(parser: argparse.ArgumentParser, name: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == name:
                    return choice.help or ""
    return ""


def render_commands() -> str:
    """The page of all commands: a section for each, a table of its arguments and options."""
    blocks = [_COMMANDS_HEAD]
    for words, purpose, parser in iter_parsers():
        blocks.append(f"## {words}\n\n{_word_purpose(purpose, parser)}\n")
        rows = []
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
                rows.append(f"| {_word_option(action)} | {_word_help(action)} |")
        if rows:
            blocks.append("\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n")
        parser.format_help()  # which reads the examples
        if parser.epilog:
            blocks.append(f"```text\n{parser.epilog.strip()}\n```\n")
    return "\n".join(blocks)


def _word_purpose(purpose: str, parser: argparse.ArgumentParser) -> str:
    """What a verb is for: the text of its help, whose pages become links."""
    if not parser.description:
        return f"{purpose[:1].upper()}{purpose[1:]}."
    return re.sub(r"\bdocs/(\w+)\.md", r"[\1](\1.md)", parser.description.strip())


def _word_option(action: argparse.Action) -> str:
    """`` `-o`, `--output FILE` ``; an argument without a name is its own word."""
    value = action.metavar or ("" if action.nargs == 0 else action.dest)
    if action.choices is not None and action.metavar is None:
        value = "|".join(map(str, action.choices))
    if isinstance(value, tuple):
        value = " ".join(value)
    if not action.option_strings:
        return _code(str(value))
    *short, last = action.option_strings
    if action.nargs != 0:
        last = f"{last} {value}"
    return ", ".join(_code(word) for word in (*short, last))


def _word_help(action: argparse.Action) -> str:
    text = (action.help or "").replace("%%", "%")
    default = action.default
    if not text and action.choices is not None:
        text = f"default: {default}" if default else "one of these"
    return text.replace("|", "\\|")


def _code(words: str) -> str:
    # A bar would end the cell, in code as well.
    return f"`{words}`".replace("|", "\\|")


def render_configuration() -> str:
    """The page of clawgauge.toml: every table, every key with its type and its default."""
    texts = tomllib.loads(KEY_TEXTS.read_text(encoding="utf-8"))
    blocks = [_read_head("configuration"), _read_head("configuration_run")]
    blocks.append(_render_run_keys(texts["run"]))
    tables = {"providers": ProviderTable, "nodes": NodeTable, "jobs": Job}
    for name, struct in tables.items():
        blocks.append(_read_head(f"configuration_{name}"))
        blocks.append(_render_keys(struct, texts[name]))
    blocks.append(_read_head("configuration_variables"))
    return "\n\n".join(blocks) + "\n"


def _read_head(name: str) -> str:
    """What is written by hand above a generated table."""
    return (HEADS / f"{name}.md").read_text(encoding="utf-8").strip()


def _render_run_keys(texts: Mapping[str, str]) -> str:
    """The keys of `[run]`, with the words that `clawgauge run --help` has for the same option."""
    parser = _subparsers(build_parser(["run"]))["run"]
    helps = {action.dest: action.help for action in parser._actions}
    hints = get_type_hints(Settings, include_extras=True)
    harmless = harmless_fields(Settings)
    defaults = _find_defaults(Settings)
    rows = ["| key | type | default | trust | meaning |", "|---|---|---|---|---|"]
    for key in sorted(FIELDS):
        field = FIELDS[key]
        meaning = texts.get(key) or helps[key] or ""
        trust = "" if field in harmless else "needed"
        cells = [
            f"`{key}`",
            _word_type(hints[field]),
            _word_default(defaults[field]),
            trust,
            _tidy(meaning),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _render_keys(struct: type[msgspec.Struct], texts: Mapping[str, str]) -> str:
    """The keys of another table. A key that nobody has described is a `KeyError`."""
    hints = get_type_hints(struct, include_extras=True)
    defaults = _find_defaults(struct)
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, hint in hints.items():
        cells = [f"`{key}`", _word_type(hint), _word_default(defaults[key]), _tidy(texts[key])]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _find_defaults(struct: type[msgspec.Struct]) -> dict[str, Any]:
    defaults = {}
    for field in msgspec.structs.fields(struct):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        defaults[field.name] = default
    return defaults


def _word_default(default: Any) -> str:
    if default is msgspec.NODEFAULT:
        return "required"
    if default is None or default in ("", [], {}):
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, float) and default.is_integer():
        return f"`{default:.0f}`"
    return f"`{default}`"


_TYPE_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Any: "any value",
}


def _word_type(hint: Any) -> str:
    """The type of a key in the words of TOML."""
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is Annotated:
        return _word_type(arguments[0])
    if origin in (Union, UnionType):
        kinds = [_word_type(argument) for argument in arguments if argument is not NoneType]
        return " or ".join(kinds)
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is list:
        inner = _word_type(arguments[0])
        return "list of texts" if inner == "text" else f"list of {inner}"
    if origin is dict:
        keys, values = arguments
        names = "" if keys is str else f" of {_word_type(keys)}"
        plain = _TYPE_WORDS.get(values)
        return f"table{names}" if plain is None or values is Any else f"table{names}: {plain}"
    return _TYPE_WORDS.get(hint, "table")


def _tidy(text: str) -> str:
    """A text for a cell of a table."""
    return text.replace("%%", "%").replace("|", "\\|")


def render_troubleshooting() -> str:
    """The page of failures: what the program says to do about each, by its type."""
    hints = tomllib.loads(HINTS.read_text(encoding="utf-8"))
    violations = hints.pop("violations")
    blocks = [_read_head("troubleshooting"), _render_hints(hints.pop("every"))]
    for provider, special in hints.items():
        blocks.append(f"### With `{provider}`\n\n{_render_hints(special)}")
    rows = ["| violation | it means |", "|---|---|"]
    for code, text in violations.items():
        rows.append(f"| `{code}` | {_tidy(text)} |")
    blocks.append(_read_head("troubleshooting_violations"))
    blocks.append("\n".join(rows))
    return "\n\n".join(blocks) + "\n"


def _render_hints(hints: Mapping[str, str]) -> str:
    rows = ["| failure | what to do |", "|---|---|"]
    for failure, text in hints.items():
        shown = f"{failure}xx" if failure in ("http_4", "http_5") else failure
        rows.append(f"| `{shown}` | {_tidy(_fill_hint(text))} |")
    return "\n".join(rows)


def _fill_hint(text: str) -> str:
    """A hint without the names that only a run knows."""
    filled = text.format(
        key_variable="the variable of the key",
        provider="the provider",
        model="MODEL",
        at_address="",
    )
    return filled[:1].upper() + filled[1:]


def main() -> None:
    COMMANDS_PAGE.write_text(render_commands(), encoding="utf-8")
    CONFIGURATION_PAGE.write_text(render_configuration(), encoding="utf-8")
    TROUBLESHOOTING_PAGE.write_text(render_troubleshooting(), encoding="utf-8")
    SCHEMA_DIR.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        (SCHEMA_DIR / f"{name}.schema.json").write_text(render_schema(name), encoding="utf-8")


if __name__ == "__main__":
    main()
