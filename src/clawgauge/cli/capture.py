"""Keep the system prompt and the tools that your agent gives its models, for `run --in-context`.

OpenClaw stores neither, so it is started once beside your own, and we play its model for one turn:
on a copy of the configuration without secrets, an empty state folder and a copy of the workspace.
Nothing of yours is written to."""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.child_processes.child import Captured, ChildCommand, capture
from clawgauge.cli.files import write_output
from clawgauge.cli.process import DONE, keep_secrets, run_async
from clawgauge.config.providers import find_secrets
from clawgauge.environment import needed_environment, secrets_of_settings
from clawgauge.errors import CallFailure, ConfigError
from clawgauge.json_limits import SETTINGS_LIMITS, find_excess
from clawgauge.routing.openclaw_file import MAX_LEVELS, read_openclaw
from clawgauge.secrets import Redactor, mask_strings
from clawgauge.small_file import UnfitFile, read_small_file
from clawgauge.suites.context import load_context
from clawgauge.words import plural

_NOTE = (
    "The system prompt and the tools of your own agent, as `clawgauge capture` saw them. "
    "Private: they tell of you."
)
# What shapes a prompt or its tools. The rest holds keys, runs programs, listens, or writes
# elsewhere.
_COPIED_TABLES = (
    "agents",
    "tools",
    "skills",
    "plugins",
    "channels",
    "messages",
    "memory",
    "commands",
    "browser",
    "ui",
    "tts",
)
# What of an agent's table is replaced or left out.
_LEFT_OUT_OF_AGENTS = (
    "model",
    "models",
    "agentDir",
    "workspace",
    "sandbox",
    "heartbeat",
    "memorySearch",
    "cliBackends",
)
_COPIED_FILES = ("*.md", "memory/*.md", "skills/**/*.md")
_MAX_FILES = 1_000
_MAX_REQUEST_BYTES = 32 << 20
_MAX_INCLUDES = 64
_MAX_TIMEOUT_S = 86_400
_MAX_WINDOW = 1 << 24
_MAX_REASON_CHARS = 300
_MIB = 1 << 20
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_STAND_IN = "left-out-by-clawgauge"
_ANSWER = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 0,
    "model": "capture",
    "choices": [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": "Captured."},
            "finish_reason": "stop",
        }
    ],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("program", choices=["openclaw"], help="whose prompt")
    add(
        "-o",
        "--output",
        type=Path,
        default=Path("openclaw-context.json"),
        metavar="FILE",
        help="where to keep it",
    )
    add("--agent", default="main", metavar="ID", help="which agent (default main)")
    add("--config", type=Path, metavar="FILE", help="default: OpenClaw's own openclaw.json")
    add(
        "--all-tools",
        action="store_true",
        help="every tool whole, none behind OpenClaw's tool search",
    )
    add(
        "--window",
        type=int,
        default=200_000,
        metavar="N",
        help="the model's window in tokens (default 200000)",
    )
    add(
        "--timeout",
        type=float,
        default=180.0,
        metavar="S",
        help="how long OpenClaw may take (default 180)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Prints the path of the file, which is readable by its owner alone."""
    output: Path = arguments.output
    if output.suffix != ".json" or not re.fullmatch(r"[\w-]+", arguments.agent):
        raise ConfigError("-o names a file that ends in .json, and --agent an agent by its id")
    is_timeout_fit = 0 < arguments.timeout <= _MAX_TIMEOUT_S
    is_window_fit = 0 < arguments.window <= _MAX_WINDOW
    if not is_timeout_fit or not is_window_fit:
        raise ConfigError(
            f"--timeout goes up to {_MAX_TIMEOUT_S} s, and --window to {_MAX_WINDOW} tokens"
        )
    os.umask(0o077)
    environ = dict(os.environ)
    keep_secrets(find_secrets({}, environ))
    captured = {"about": _NOTE, "version": 1, **capture_openclaw(arguments, environ)}
    write_output(output, json.dumps(captured, indent=1))
    context = load_context(output)
    n_chars = len(context.system or "")
    tools = plural(len(context.tools), "tool")
    sys.stderr.write(
        f"OpenClaw {captured['openclaw']}: {n_chars} characters and {tools}, "
        "readable by you alone\n"
    )
    sys.stdout.write(f"{output}\n")
    return DONE


def capture_openclaw(options: argparse.Namespace, environ: dict[str, str]) -> dict[str, Any]:
    """What the OpenClaw on PATH gives a model, with the folders it would use itself.

    Nothing of it runs afterwards.
    """
    program = Path(shutil.which("openclaw", path=environ.get("PATH", "")) or "").absolute()
    if not program.is_file():
        raise ConfigError("no `openclaw` is on PATH: install it, or run this where it is installed")
    state = Path(environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw").expanduser()
    config_path: Path = options.config
    if config_path is None:
        usual_path = environ.get("OPENCLAW_CONFIG_PATH") or state / "openclaw.json"
        config_path = Path(usual_path).expanduser()
    config = {}
    if options.config is not None or config_path.exists():
        config = read_config(config_path, config_path.resolve().parent)
    token = secrets.token_urlsafe(24)
    redact = Redactor({*secrets_of_settings(config), *find_secrets({}, environ), token})
    with tempfile.TemporaryDirectory(
        prefix="clawgauge-capture-", ignore_cleanup_errors=True
    ) as name:
        root = Path(name).resolve()
        copied_workspace = root / "workspace"
        # As people have it: what OpenClaw shortens to ~/.openclaw reads as it would in the user's
        # own prompt.
        copied_state = root / "home" / ".openclaw"
        try:
            workspace, copied_config = copy_config(config, options.agent, state, copied_workspace)
        except (AttributeError, TypeError, ValueError):
            raise ConfigError(
                f"{config_path}: 'agents' is not written as OpenClaw has it; see `openclaw doctor`"
            ) from None
        copy_files(workspace, copied_workspace)
        copy_files(state, copied_state)
        requests, server = _play_model(token)
        try:
            _use_played_model(copied_config, server.server_port, token, options.window)
            if options.all_tools:
                copied_config.setdefault("tools", {})["toolSearch"] = False
            config_copy = root / "openclaw.json"
            config_copy.write_text(json.dumps(copied_config), encoding="utf-8")
            command = _openclaw_command(program, options.agent, root, copied_state, environ)
            done = _run_openclaw(command, options.timeout)
        finally:
            server.shutdown()
            server.server_close()
    request = _only_request(requests, done, redact)

    def clean(text: str) -> str:
        text = text.replace(str(copied_workspace), str(workspace))
        text = text.replace(str(copied_state), str(state))
        return redact(text)

    return {
        "agent": options.agent,
        "captured_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "window": options.window,
        "openclaw": _read_version(program),
        **mask_strings(request, clean),
    }


def _use_played_model(config: dict[str, Any], port: int, token: str, window: int) -> None:
    """Make the model that we play the only one of a configuration."""
    config["models"] = {
        "mode": "replace",
        "providers": {
            "mine": {
                "api": "openai-completions",
                "baseUrl": f"http://127.0.0.1:{port}/v1",
                "apiKey": token,
                "models": [
                    {
                        "id": "capture",
                        "name": "capture",
                        "contextWindow": window,
                        "maxTokens": 8192,
                    }
                ],
            }
        },
    }


def _openclaw_command(
    program: Path, agent: str, root: Path, state: Path, environ: Mapping[str, str]
) -> ChildCommand:
    """One turn of an agent, on the copies under `root`."""
    child_environ = {}
    for name, value in needed_environment(environ).items():
        if not name.startswith("XDG_"):
            child_environ[name] = value
    home = str(root / "home")
    child_environ["HOME"] = home
    child_environ["TMPDIR"] = home
    child_environ["OPENCLAW_STATE_DIR"] = str(state)
    child_environ["OPENCLAW_CONFIG_PATH"] = str(root / "openclaw.json")
    arguments = [str(program), "agent", "--local", "--json"]
    arguments += ["--agent", agent, "--session-key", f"agent:{agent}:capture"]
    arguments += ["-m", "hello", "--model", "mine/capture"]
    return ChildCommand(tuple(arguments), child_environ, cwd=root)


def _run_openclaw(command: ChildCommand, timeout_s: float) -> Captured:
    try:
        return run_async(capture(command, timeout_s=timeout_s))
    except TimeoutError:
        raise ConfigError(
            f"OpenClaw took over {timeout_s:g} s: give it longer with --timeout"
        ) from None
    except (CallFailure, OSError) as fault:
        raise ConfigError(f"OpenClaw cannot be run: {fault}") from None


def _only_request(
    requests: Sequence[dict[str, Any]], done: Captured, redact: Callable[[str], str]
) -> dict[str, Any]:
    """What the agent asked its model; raises `ConfigError` where that is not one thing."""
    if done.exit_code != 0:
        fault = f"ended with code {done.exit_code}"
    elif not requests:
        fault = "did not ask its model"
    elif any(request != requests[0] for request in requests):
        fault = "asked twice, so nobody can tell which prompt is the agent's"
    else:
        return requests[0]
    output = done.stderr.strip() or done.stdout.strip() or "it said nothing"
    last_line = output.splitlines()[-1]
    raise ConfigError(f"OpenClaw {fault}: {redact(last_line)[:_MAX_REASON_CHARS]}")


def _read_version(program: Path) -> str:
    """OpenClaw's version, by the package that its program is in; empty if there is none."""
    package: Any = {}
    with suppress(UnfitFile, msgspec.DecodeError):
        path = program.resolve().parent / "package.json"
        package = msgspec.json.decode(read_small_file(path, _MIB, "too large"))
    version: str = package.get("version", "")
    return version


def _play_model(token: str) -> tuple[list[dict[str, Any]], ThreadingHTTPServer]:
    """A model on loopback that answers whoever has the token, and the list of what it was asked."""
    requests: list[dict[str, Any]] = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            n_bytes = int(self.headers.get("Content-Length") or 0)
            is_ours = self.headers.get("Authorization") == f"Bearer {token}"
            if not is_ours or not 0 < n_bytes <= _MAX_REQUEST_BYTES:
                return self.send_error(401)
            data = self.rfile.read(n_bytes)
            if find_excess(data) is not None:
                return self.send_error(413)
            requests.append(_read_request(msgspec.json.decode(data)))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(f"data: {json.dumps(_ANSWER)}\n\ndata: [DONE]\n\n".encode())

        def log_message(self, *_words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return requests, server


def _read_request(body: Any) -> dict[str, Any]:
    """The system prompt, which may come in pieces, and the tools."""
    texts = []
    for message in body["messages"]:
        if message["role"] not in ("system", "developer"):
            continue
        content = message["content"]
        if isinstance(content, list):
            texts += [block["text"] for block in content]
        else:
            texts.append(content)
    return {"system": "\n\n".join(texts), "tools": body.get("tools") or []}


def read_config(path: Path, folder: Path) -> dict[str, Any]:
    """An openclaw.json with what it includes; nothing outside `folder` is read, as by OpenClaw."""
    return _ConfigReader(path, folder).read()


class _ConfigReader:
    """Puts a configuration and what it includes together, with bounds on the whole."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._folder = folder
        self._includes_left = _MAX_INCLUDES
        self._values_left = SETTINGS_LIMITS.values

    def read(self) -> dict[str, Any]:
        return dict(self._unfold(read_openclaw(self._path), self._path.parent, depth=0))

    def _unfold(self, value: Any, base: Path, depth: int) -> Any:
        """A value with its includes, the paths of which are relative to `base`, in place."""
        self._count_value(depth)
        if isinstance(value, list):
            return [self._unfold(item, base, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        included: Any = {}
        names = value.get("$include", [])
        for name in names if isinstance(names, list) else [names]:
            file = self._find_include(name, base)
            document = self._unfold(read_openclaw(file), file.parent, depth + 1)
            included = _merged(included, document)
        beside_include = {}
        for key, item in value.items():
            if key != "$include":
                beside_include[key] = self._unfold(item, base, depth + 1)
        return _merged(included, beside_include)

    def _count_value(self, depth: int) -> None:
        if self._values_left == 0:
            raise ConfigError(
                f"{self._path}: with what it includes it holds more than "
                f"{SETTINGS_LIMITS.values:,} values; that is no openclaw.json"
            )
        self._values_left -= 1
        if depth > MAX_LEVELS:
            raise ConfigError(
                f"{self._path}: with what it includes it is nested more than "
                f"{MAX_LEVELS} levels deep"
            )

    def _find_include(self, name: Any, base: Path) -> Path:
        file = Path(os.path.realpath(base / str(name).replace("\0", "?")))
        if self._includes_left == 0 or not file.is_relative_to(self._folder):
            raise ConfigError(
                f"{self._path}: $include {str(name)!r} leaves its folder, or is one of too many"
            )
        self._includes_left -= 1
        return file


def _merged(below: Any, above: Any) -> Any:
    """As OpenClaw puts what is included together: tables key by key, lists one after the other."""
    if isinstance(below, dict) and isinstance(above, dict):
        merged = dict(below)
        for key, value in above.items():
            merged[key] = _merged(below[key], value) if key in below else value
        return merged
    if isinstance(below, list) and isinstance(above, list):
        return [*below, *above]
    return above


def copy_config(
    config: dict[str, Any], agent: str, state: Path, workspace: Path
) -> tuple[Path, dict[str, Any]]:
    """Where the agent's workspace is, and a copy of what of its configuration shapes its prompt.

    The copy has no secrets, and `workspace` in the place of that one.
    """
    known_secrets = set(secrets_of_settings(config))

    def leave_out_secrets(text: str) -> str:
        return _STAND_IN if text in known_secrets else _VARIABLE.sub(_STAND_IN, text)

    tables = {key: config[key] for key in _COPIED_TABLES if isinstance(config.get(key), dict)}
    copied = mask_strings(tables, leave_out_secrets)
    agents = copied.setdefault("agents", {})
    defaults = agents.setdefault("defaults", {})
    # By name, or in a list as in earlier releases.
    table_by_agent = {**agents.get("entries", {})}
    for table in agents.get("list", []):
        table_by_agent[str(table.get("id"))] = table
    # Before it is replaced in the copy.
    own_workspace = _find_workspace(table_by_agent.get(agent, {}), defaults, agent, state)
    for name, table in (("", defaults), *table_by_agent.items()):
        for key in _LEFT_OUT_OF_AGENTS:
            table.pop(key, None)
        is_asked = name in ("", agent)
        table["workspace"] = str(workspace if is_asked else workspace.with_name("elsewhere"))
    defaults["model"] = {"primary": "mine/capture"}
    return own_workspace, copied


def _find_workspace(
    table: dict[str, Any], defaults: dict[str, Any], agent: str, state: Path
) -> Path:
    """Where an agent's workspace is: as it says itself, as all do, or where OpenClaw puts it."""
    path = table.get("workspace")
    if not path and agent == "main":
        path = defaults.get("workspace")
    if not path:
        path = state / ("workspace" if agent == "main" else f"workspace-{agent}")
    return Path(path).expanduser()


def copy_files(source: Path, target: Path) -> None:
    """Copy what a prompt is made of; links are followed only to what is inside the folder."""
    target.mkdir(parents=True)
    files: list[Path] = []
    for pattern in _COPIED_FILES:
        files += sorted(source.glob(pattern))
    for file in files[:_MAX_FILES]:
        with suppress(UnfitFile, OSError, RuntimeError):
            if file.resolve().is_relative_to(source.resolve()):
                copy = target / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(read_small_file(file, _MIB, "too large"))
