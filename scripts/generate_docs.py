"""Writes the generated parts of the docs: the JSON Schema of every file in a run folder, made from the structs, and the
page of all commands and options, made from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.cli import VERBS, build_parser
from clawgauge.records import Event, Inventory, Result, RunConfig, RunSummary

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
_COMMANDS_HEAD = """\
# Every command and option

What `clawgauge VERB --help` says, on one page; `make docs` writes it. `clawgauge --version` tells the version,
`-h` or `--help` after a verb its options with examples. The exit codes are
[on the page of the files](schema.md#exit-codes).
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
        blocks.append(f"## {words}\n\n{purpose[:1].upper()}{purpose[1:]}.\n")
        rows = []
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
                rows.append(f"| {_word_option(action)} | {_word_help(action)} |")
        if rows:
            blocks.append("\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n")
    return "\n".join(blocks)


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


def main() -> None:
    COMMANDS_PAGE.write_text(render_commands(), encoding="utf-8")
    SCHEMA_DIR.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        (SCHEMA_DIR / f"{name}.schema.json").write_text(render_schema(name), encoding="utf-8")


if __name__ == "__main__":
    main()
