"""List the built-in suites, show one, or check a suite file without asking any model."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from clawgauge.cli.files import output_file
from clawgauge.cli.process import DONE, keep_secrets, print_json, row_for
from clawgauge.config.providers import find_secrets
from clawgauge.environment import secrets_of_settings
from clawgauge.errors import ConfigError, SuiteError
from clawgauge.reports.clean import clean_cell, clean_lines, one_line, one_row
from clawgauge.secrets import looks_like_key
from clawgauge.small_file import UnfitFile, read_small_file
from clawgauge.suites import BUILTIN_SUITES, list_builtin, load_suite, suite_path
from clawgauge.suites.context import load_context
from clawgauge.words import plural

_SPANS, _PREVIEW_CHARS = {"h": "hours", "d": "days", "w": "weeks"}, 90
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
    add("--since", default="", metavar="30d|DATE", help="no moment before that")
    add("--max", type=int, default=200, metavar="N", help="at most N moments (default 200)")
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
    if arguments.action == "show":
        show_suite(arguments.name, source=arguments.source, as_json=arguments.json)
    elif arguments.action == "check":
        ref = (
            arguments.file
            if arguments.file not in BUILTIN_SUITES
            else str(suite_path(arguments.file))
        )
        suite = load_suite(ref, base_dir=Path())
        kinds = Counter(prompt.validator["type"] for prompt in suite.prompts)
        mix = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
        n_fine = plural(len(suite.prompts), "prompt is", "prompts are")
        sys.stdout.write(clean_lines(f"{suite.name}: {n_fine} fine ({mix})"))
    elif arguments.action == "from-openclaw":
        make_own_suite(arguments)
    elif arguments.action == "from-bfcl":
        from clawgauge.own_work.bfcl import write_suites

        for line in write_suites(arguments.category, arguments.output, arguments.package):
            sys.stderr.write(clean_lines(line))
    elif getattr(arguments, "json", False):
        print_json(list_builtin())
    else:
        for one in list_builtin():
            line = (
                f"{one.name} v{one.version}, {plural(one.n_prompts, 'prompt')}: {one.description}"
            )
            sys.stdout.write(row_for(sys.stdout, line))
    return DONE


def show_suite(name: str, *, source: bool, as_json: bool) -> None:
    suite = load_suite(name, base_dir=Path())
    if source:
        text = suite_path(name, base_dir=Path()).read_text(encoding="utf-8")
        # A copy for a file is the file; on a terminal somebody else's suite must not steer it.
        sys.stdout.write(clean_lines(text) if sys.stdout.isatty() else text)
    elif as_json:
        print_json(suite)
    else:
        sys.stdout.write(
            one_row(f"{suite.name}{suite.version and f' v{suite.version}'}: {suite.description}")
        )
        sys.stdout.write(f"{plural(len(suite.prompts), 'prompt')}, sha256 {suite.sha256}\n\n")
        for prompt in suite.prompts:
            named = f"{clean_cell(prompt.id):<5} {clean_cell(prompt.name):<32} {prompt.validator['type']:<16}"
            asked = prompt.prompt or f"(goes on after {plural(len(prompt.messages), 'message')})"
            sys.stdout.write(clean_lines(f"{named} {one_line(asked, _PREVIEW_CHARS)}"))


def make_own_suite(arguments: argparse.Namespace) -> None:
    from clawgauge.own_work.moments import Mask, choose, find_moments, make_suite
    from clawgauge.own_work.stores import read_sessions

    path, state = (
        arguments.output,
        arguments.state_dir or Path(os.environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw"),
    )
    state = state.expanduser()
    if path.suffix.lower() != ".toml" or arguments.max < 1:
        raise ConfigError(
            "the suite is written as TOML, of one moment or more: -o mine.toml --max 200"
        )
    capture = load_context(arguments.capture) if arguments.capture else None
    secrets = find_secrets({}, os.environ)
    secrets |= dict.fromkeys(_find_openclaw_secrets(state), "OpenClaw's settings")
    left_out, logins = Counter[str](), list[object]()
    sessions = read_sessions(state, arguments.agent, left_out, logins)
    found = list(find_moments(sessions, _read_since(arguments.since), left_out))
    secrets |= dict.fromkeys(secrets_of_settings(logins), "OpenClaw's logins")
    keep_secrets(secrets)
    named = arguments.redact_names
    mask = Mask(
        secrets, None if named is None else list(filter(str.strip, named.split(","))), found
    )
    comparable = [moment for moment in found if not mask.spoils(moment)]
    left_out["masked secrets"] += len(found) - len(comparable)
    moments = choose(comparable, arguments.max, left_out)
    said = (
        "; ".join(f"{n_left} {why}" for why, n_left in left_out.most_common() if n_left)
        or "nothing"
    )
    if not moments:
        raise ConfigError(
            f"{state} has no moment to ask about again, and nothing was written; left out: {said}"
        )
    data = make_suite(moments, path.stem, mask, capture)
    os.umask(0o077)
    with tempfile.TemporaryDirectory(prefix="clawgauge-") as private:
        # As `run` will read it: a suite that would be refused then is not written.
        (whole := Path(private) / path.name).write_bytes(data)
        try:
            load_suite(str(whole))
        except SuiteError as refused:
            why = str(refused).removeprefix(f"{whole}: ")
            raise ConfigError(
                f"no suite can be made of this history, and nothing was written: {why}"
            ) from None
    with output_file(path) as file:
        file.write(data)
    made = f"{plural(len(moments), 'moment')} of {plural(len({moment.session for moment in moments}), 'session')}"
    sys.stderr.write(clean_lines(f"{path}: {made}, for your eyes alone\nleft out: {said}"))


def _find_openclaw_secrets(state: Path) -> set[str]:
    """The keys that OpenClaw itself has: of its settings with what they include, its variables, its agents' logins."""
    from clawgauge.cli.capture import read_config

    found: set[str] = set()
    named = Path(os.environ.get("OPENCLAW_CONFIG_PATH") or state / "openclaw.json").expanduser()
    for path in {named, *(one for place in _KEY_FILES for one in state.glob(place))}:
        try:
            if path.name == ".env":
                lines = (
                    read_small_file(path, 1 << 20, "over 1 MiB")
                    .decode("utf-8", "replace")
                    .splitlines()
                )
                pairs = (line.removeprefix("export ").partition("=")[::2] for line in lines)
                given = {
                    name.strip(): value.split(" #")[0].strip().strip("\"'") for name, value in pairs
                }
                found |= {*find_secrets({}, given), *filter(looks_like_key, given.values())}
            elif path.exists():
                found |= set(secrets_of_settings(read_config(path, path.resolve().parent)))
        except (ConfigError, UnfitFile, OSError, RuntimeError, ValueError) as fault:
            why = f"so that keys in it are known by their shape alone: {fault}"
            sys.stderr.write(clean_lines(f"{path} cannot be read, {why}"))
    return found


def _read_since(text: str) -> str:
    if span := re.fullmatch(r"([0-9]{1,4})([hdw])", text):
        return (datetime.now(UTC) - timedelta(**{_SPANS[span[2]]: int(span[1])})).isoformat()
    if text and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ConfigError(f"--since takes 12h, 30d, 8w or a date such as 2026-11-01, not {text!r}")
    return text
