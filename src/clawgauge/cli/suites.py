"""List the built-in suites, show one, begin one of your own, or check a file. No model is asked."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from clawgauge.cli.files import output_file, write_output
from clawgauge.cli.process import DONE, keep_secrets, print_json, row_for, tell
from clawgauge.config.providers import find_secrets
from clawgauge.environment import secrets_of_settings
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.reports.clean import clean_cell, clean_lines, one_line, one_row
from clawgauge.secrets import looks_like_key
from clawgauge.small_file import UnfitFile, read_small_file
from clawgauge.suites import BUILTIN_SUITES, list_builtin, load_suite, suite_path
from clawgauge.suites.context import load_context
from clawgauge.words import plural

if TYPE_CHECKING:
    _Actions = argparse._SubParsersAction[argparse.ArgumentParser]

_SPAN_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_PREVIEW_CHARS = 90
_MAX_ENV_FILE_BYTES = 1 << 20
_KEY_FILES = (".env", "openclaw.json", "credentials/*.json", "agents/*/agent/*.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    add = actions.add_parser("list", help="the built-in suites", allow_abbrev=False).add_argument
    add("--json", action="store_true", help="as JSON")
    add = actions.add_parser("show", help="the prompts of a suite", allow_abbrev=False).add_argument
    add("name", metavar="NAME|FILE", help="a built-in suite, or a suite file")
    add("--source", action="store_true", help="the file itself, to copy and edit")
    add("--json", action="store_true", help="as JSON, loaded and checked")
    add = actions.add_parser(
        "check", help="say whether a suite file would be accepted"
    ).add_argument
    add("file", metavar="FILE", help="a suite file: TOML, JSON or YAML")
    add = actions.add_parser(
        "new", help="write a file with three prompts to change", allow_abbrev=False
    ).add_argument
    add("file", metavar="FILE.toml", type=Path, help="a file that is not there yet")
    _add_from_openclaw(actions)
    _add_from_bfcl(actions)


def _add_from_openclaw(actions: _Actions) -> None:
    add = actions.add_parser(
        "from-openclaw", help="make one of your own history", allow_abbrev=False
    ).add_argument
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.toml",
        required=True,
        help="for your eyes alone (0600)",
    )
    add(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="default: OPENCLAW_STATE_DIR, else ~/.openclaw",
    )
    add(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="of this agent only; repeatable",
    )
    add("--since", default="", metavar="30d|DATE", help="no turn before that")
    add("--max", type=int, default=200, metavar="N", help="at most N turns (default 200)")
    add(
        "--capture",
        type=Path,
        metavar="FILE",
        help="system prompt and tools, by `clawgauge capture openclaw`",
    )
    add(
        "--redact-names",
        nargs="?",
        const="",
        metavar="NAMES",
        help="replace people and hosts, and NAME,NAME too",
    )


def _add_from_bfcl(actions: _Actions) -> None:
    add = actions.add_parser(
        "from-bfcl", help="make some of the Berkeley collection", allow_abbrev=False
    ).add_argument
    add(
        "category",
        nargs="*",
        metavar="CATEGORY",
        help="simple, multiple, parallel, irrelevance, live_simple, …",
    )
    add("-o", "--output", type=Path, default=Path("bfcl"), metavar="DIR", help="default: bfcl")
    add(
        "--package", type=Path, metavar="FILE", help="the wheel of bfcl-eval, if it is here already"
    )


def execute(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "show":
            show_suite(arguments.name, source=arguments.source, as_json=arguments.json)
        case "check":
            check_suite(arguments.file)
        case "new":
            write_starter_suite(arguments.file)
        case "from-openclaw":
            make_own_suite(arguments)
        case "from-bfcl":
            from clawgauge.own_work.bfcl import write_suites

            for line in write_suites(arguments.category, arguments.output, arguments.package):
                sys.stderr.write(clean_lines(line))
        case _:
            list_suites(as_json=getattr(arguments, "json", False))
    return DONE


def list_suites(*, as_json: bool) -> None:
    suites = list_builtin()
    if as_json:
        print_json(suites)
        return
    for suite in suites:
        n_prompts = plural(suite.n_prompts, "prompt")
        line = f"{suite.name} v{suite.version}, {n_prompts}: {suite.description}"
        sys.stdout.write(row_for(sys.stdout, line))


def write_starter_suite(path: Path) -> None:
    """Write three prompts to begin with. Raises `ConfigError` where that is not possible."""
    if path.suffix != ".toml":
        raise ConfigError(f"{path} must end in .toml: that is what is written")
    if path.exists() or path.is_symlink():
        raise ConfigError(f"{path} is there already: name another file")
    text = Path(__file__).with_name("starter_suite.toml").read_text("utf-8")
    # A printable text in JSON is a string of TOML as well.
    text = text.replace('"NAME"', json.dumps(path.stem)).replace("THIS_FILE", clean_cell(path.name))
    write_output(path, text, "go where you may write")
    named = shlex.quote(str(path))
    tell(f"Next: change the prompts, then clawgauge run -s {named}")
    sys.stdout.write(clean_lines(str(path)))


def check_suite(name: str) -> None:
    """Raises `SuiteError` where the suite would not be accepted."""
    file = str(suite_path(name)) if name in BUILTIN_SUITES else name
    suite = load_suite(file, base_dir=Path())
    n_by_validator = Counter(prompt.validator["type"] for prompt in suite.prompts)
    validators = ", ".join(f"{validator} {n}" for validator, n in sorted(n_by_validator.items()))
    n_fine = plural(len(suite.prompts), "prompt is", "prompts are")
    sys.stdout.write(clean_lines(f"{suite.name}: {n_fine} fine ({validators})"))


def show_suite(name: str, *, source: bool, as_json: bool) -> None:
    suite = load_suite(name, base_dir=Path())
    if source:
        text = suite_path(name, base_dir=Path()).read_text(encoding="utf-8")
        # A copy for a file is the file; on a terminal somebody else's suite must not steer it.
        sys.stdout.write(clean_lines(text) if sys.stdout.isatty() else text)
        return
    if as_json:
        print_json(suite)
        return
    title = f"{suite.name} v{suite.version}" if suite.version else suite.name
    sys.stdout.write(one_row(f"{title}: {suite.description}"))
    sys.stdout.write(f"{plural(len(suite.prompts), 'prompt')}, sha256 {suite.sha256}\n\n")
    for prompt in suite.prompts:
        label = f"{clean_cell(prompt.id):<5} {clean_cell(prompt.name):<32}"
        n_messages = plural(len(prompt.messages), "message")
        text = one_line(prompt.prompt or f"(goes on after {n_messages})", _PREVIEW_CHARS)
        sys.stdout.write(clean_lines(f"{label} {prompt.validator['type']:<16} {text}"))


def make_own_suite(arguments: argparse.Namespace) -> None:
    """Write a suite made of OpenClaw's history, or nothing: then a `ConfigError` says why."""
    from clawgauge.own_work.left_out import LeftOut
    from clawgauge.own_work.masking import Mask
    from clawgauge.own_work.stores import read_sessions
    from clawgauge.own_work.suite import make_suite
    from clawgauge.own_work.turns import choose_turns, find_turns

    path: Path = arguments.output
    if path.suffix.lower() != ".toml" or arguments.max < 1:
        raise ConfigError(
            "the suite is written as TOML, of one turn or more: -o mine.toml --max 200"
        )
    state: Path = arguments.state_dir or Path(os.environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw")
    state = state.expanduser()
    capture = load_context(arguments.capture) if arguments.capture else None
    secrets = find_secrets({}, os.environ)
    secrets |= dict.fromkeys(_find_openclaw_secrets(state), "OpenClaw's settings")
    left_out: Counter[str] = Counter()
    logins: list[object] = []
    sessions = read_sessions(state, arguments.agent, left_out, logins)
    turns = list(find_turns(sessions, _read_since(arguments.since), left_out))
    secrets |= dict.fromkeys(secrets_of_settings(logins), "OpenClaw's logins")
    keep_secrets(secrets)
    mask = Mask(secrets, _read_names(arguments.redact_names), turns)
    comparable = [turn for turn in turns if not mask.spoils(turn)]
    left_out[LeftOut.MASKED_SECRETS] += len(turns) - len(comparable)
    chosen = choose_turns(comparable, arguments.max, left_out)
    counts = [
        f"{n_left_out} {reason}" for reason, n_left_out in left_out.most_common() if n_left_out
    ]
    left_out_text = "; ".join(counts) or "nothing"
    if not chosen:
        raise ConfigError(
            f"{state} has no turn to ask about again, and nothing was written; "
            f"left out: {left_out_text}"
        )
    data = make_suite(chosen, path.stem, mask, capture)
    os.umask(0o077)
    _require_loadable(data, path.name)
    with output_file(path) as file:
        file.write(data)
    n_turns = plural(len(chosen), "turn")
    n_sessions = plural(len({turn.session_id for turn in chosen}), "session")
    sys.stderr.write(
        clean_lines(
            f"{path}: {n_turns} of {n_sessions}, for your eyes alone\nleft out: {left_out_text}"
        )
    )


def _require_loadable(data: bytes, name: str) -> None:
    """Raise `ConfigError` where `run` would refuse this suite."""
    with tempfile.TemporaryDirectory(prefix="clawgauge-") as private:
        file = Path(private) / name
        file.write_bytes(data)
        try:
            load_suite(str(file))
        except SuiteError as refusal:
            reason = str(refusal).removeprefix(f"{file}: ")
            raise ConfigError(
                f"no suite can be made of this history, and nothing was written: {reason}"
            ) from None


def _read_names(text: str | None) -> list[str] | None:
    """The names to replace, besides those that are found; None where none are to be replaced."""
    if text is None:
        return None
    return [name for name in text.split(",") if name.strip()]


def _find_openclaw_secrets(state: Path) -> set[str]:
    """The keys that OpenClaw itself has.

    Those of its settings with what they include, of its variables, and of its agents' logins.
    """
    config = Path(os.environ.get("OPENCLAW_CONFIG_PATH") or state / "openclaw.json").expanduser()
    paths = {config}
    for pattern in _KEY_FILES:
        paths.update(state.glob(pattern))
    secrets: set[str] = set()
    for path in paths:
        try:
            secrets |= _read_secrets(path)
        except (ConfigError, UnfitFile, OSError, RuntimeError, ValueError) as fault:
            consequence = f"so that keys in it are known by their shape alone: {fault}"
            sys.stderr.write(clean_lines(f"{path} cannot be read, {consequence}"))
    return secrets


def _read_secrets(path: Path) -> set[str]:
    """The keys in a file of settings, or of variables (`.env`)."""
    from clawgauge.cli.capture import read_config

    if path.name != ".env":
        if not path.exists():
            return set()
        return set(secrets_of_settings(read_config(path, path.resolve().parent)))
    text = read_small_file(path, _MAX_ENV_FILE_BYTES, "over 1 MiB").decode("utf-8", "replace")
    variables = {}
    for line in text.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        # A comment may stand behind a value, and quotes around it.
        variables[name.strip()] = value.split(" #")[0].strip().strip("\"'")
    secrets = set(find_secrets({}, variables))
    secrets.update(filter(looks_like_key, variables.values()))
    return secrets


def _read_since(text: str) -> str:
    """The time that `--since` means, as the history writes times; empty for all of it."""
    span = re.fullmatch(r"([0-9]{1,4})([hdw])", text)
    if span is not None:
        age = timedelta(**{_SPAN_UNITS[span[2]]: int(span[1])})
        return (datetime.now(UTC) - age).isoformat()
    if text and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ConfigError(f"--since takes 12h, 30d, 8w or a date such as 2026-11-01, not {text!r}")
    return text
