"""Print what makes a shell complete verbs, options, runs, targets and suites.

In ~/.bashrc: eval "$(clawgauge completion bash)"; in ~/.zshrc the same with zsh;
in ~/.config/fish/config.fish: clawgauge completion fish | source"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import argcomplete
from argcomplete.shell_integration import shellcode

from clawgauge.cli.files import configured_runs_dir
from clawgauge.cli.process import DONE
from clawgauge.errors import ClawgaugeError
from clawgauge.journal import list_runs
from clawgauge.registry import EMBEDDED, EMBEDDED_MODEL
from clawgauge.run_data import Run
from clawgauge.suites import BUILTIN_SUITES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def execute(arguments: argparse.Namespace) -> int:
    sys.stdout.write(f"{shellcode(['clawgauge'], shell=arguments.shell)}\n")
    return DONE


def complete(build_parser: Callable[[list[str]], argparse.ArgumentParser]) -> None:
    line = os.environ.get("COMP_LINE", "")
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    parser = build_parser(words[1:])
    completers = {"RUN": _runs, "A": _runs, "B": _runs, "TARGET": _targets, "NAME|FILE": _suites}
    for action in _actions(parser):
        if isinstance(action.metavar, str) and action.metavar in completers:
            action.completer = completers[action.metavar]  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options="long")


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _actions(verb)


def _folders() -> list[Path]:
    # Where ./clawgauge.toml is not trusted or cannot be read, a completion says nothing.
    with suppress(ClawgaugeError, OSError):
        return list_runs(configured_runs_dir())
    return []


def _runs(**_: object) -> list[str]:
    return ["latest", *(path.name for path in _folders()[:200])]


def _targets(**_: object) -> list[str]:
    """What was asked before: to look for servers would take longer than a key is pressed."""
    labels = {f"{EMBEDDED.name}:{EMBEDDED_MODEL}": None}
    for path in _folders()[:20]:
        with suppress(ClawgaugeError, OSError):
            config = Run.open(path).config
            labels |= {target.label: None for target in (config.targets if config else ())}
    return list(labels)


def _suites(**_: object) -> list[str]:
    files = [
        path.name
        for pattern in ("*.toml", "*.json", "*.yaml")
        for path in sorted(Path().glob(pattern))
    ]
    return [*BUILTIN_SUITES, *files]
