"""Keep the system prompt and the tools that your agent gives its models, for `run --in-context`.

OpenClaw stores neither, so it is started once beside your own, and we play its model for one turn: on a copy of the
configuration without secrets, an empty state folder and a copy of the workspace. Nothing of yours is written to."""

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
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.child_processes.child import ChildCommand, capture
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

_NOTE = "The system prompt and the tools of your own agent, as `clawgauge capture` saw them. Private: they tell of you."
# What shapes a prompt or its tools. The rest holds keys, runs programs, listens, or writes elsewhere.
_KEPT = ("agents", "tools", "skills", "plugins", "channels", "messages", "memory", "commands", "browser", "ui", "tts")
_NOT_OF_AGENTS = ("model", "models", "agentDir", "workspace", "sandbox", "heartbeat", "memorySearch", "cliBackends")
_FILES, _MAX_FILES, _MAX_BYTES = ("*.md", "memory/*.md", "skills/**/*.md"), 1_000, 32 << 20
_MAX_INCLUDES, _MAX_TIMEOUT_S, _MAX_WINDOW = 64, 86_400, 1 << 24
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_STAND_IN = "left-out-by-clawgauge"
_SAID = {"index": 0, "delta": {"role": "assistant", "content": "Captured."}, "finish_reason": "stop"}
_ANSWER = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "capture", "choices": [_SAID]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("program", choices=["openclaw"], help="whose prompt")
    add("-o", "--output", type=Path, default=Path("openclaw-context.json"), metavar="FILE", help="where to keep it")
    add("--agent", default="main", metavar="ID", help="which agent (default main)")
    add("--config", type=Path, metavar="FILE", help="default: OpenClaw's own openclaw.json")
    add("--all-tools", action="store_true", help="every tool whole, none behind OpenClaw's tool search")
    add("--window", type=int, default=200_000, metavar="N", help="the model's window in tokens (default 200000)")
    add("--timeout", type=float, default=180.0, metavar="S", help="how long OpenClaw may take (default 180)")


def execute(arguments: argparse.Namespace) -> int:
    """Prints the path of the file, which is readable by its owner alone."""
    output, environ = arguments.output, dict(os.environ)
    if output.suffix != ".json" or not re.fullmatch(r"[\w-]+", arguments.agent):
        raise ConfigError("-o names a file that ends in .json, and --agent an agent by its id")
    if not 0 < arguments.timeout <= _MAX_TIMEOUT_S or not 0 < arguments.window <= _MAX_WINDOW:
        raise ConfigError(f"--timeout goes up to {_MAX_TIMEOUT_S} s, and --window to {_MAX_WINDOW} tokens")
    os.umask(0o077)
    keep_secrets(find_secrets({}, environ))
    captured = {"about": _NOTE, "version": 1, **capture_openclaw(arguments, environ)}
    write_output(output, json.dumps(captured, indent=1))
    context = load_context(output)
    size = f"{len(context.system or '')} characters and {plural(len(context.tools), 'tool')}"
    sys.stderr.write(f"OpenClaw {captured['openclaw']}: {size}, readable by you alone\n")
    sys.stdout.write(f"{output}\n")
    return DONE


def capture_openclaw(options: argparse.Namespace, environ: dict[str, str]) -> dict[str, Any]:
    """What the OpenClaw on PATH, with the folders it would use itself, gives a model. Nothing of it runs afterwards."""
    if not (program := Path(shutil.which("openclaw", path=environ.get("PATH", "")) or "").absolute()).is_file():
        raise ConfigError("no `openclaw` is on PATH: install it, or run this where it is installed")
    state = Path(environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw").expanduser()
    path = options.config or Path(environ.get("OPENCLAW_CONFIG_PATH") or state / "openclaw.json").expanduser()
    config = read_config(path, path.resolve().parent) if options.config or path.exists() else {}
    token = secrets.token_urlsafe(24)
    redact = Redactor({*secrets_of_settings(config), *find_secrets({}, environ), token})
    with tempfile.TemporaryDirectory(prefix="clawgauge-capture-", ignore_cleanup_errors=True) as name:
        root = Path(name).resolve()
        try:
            workspace, ours = copy_config(config, options.agent, state, root / "workspace")
        except (AttributeError, TypeError, ValueError):
            raise ConfigError(f"{path}: 'agents' is not written as OpenClaw has it; see `openclaw doctor`") from None
        # As people have it: what OpenClaw shortens to ~/.openclaw reads as it would in the user's own prompt.
        copied_state = root / "home" / ".openclaw"
        places = {root / "workspace": workspace, copied_state: state}
        for place, source in places.items():
            copy_files(source, place)
        asked, server = _play_model(token)
        model = {"id": "capture", "name": "capture", "contextWindow": options.window, "maxTokens": 8192}
        provider = {"baseUrl": f"http://127.0.0.1:{server.server_port}/v1", "apiKey": token, "models": [model]}
        ours["models"] = {"mode": "replace", "providers": {"mine": {"api": "openai-completions", **provider}}}
        if options.all_tools:
            ours.setdefault("tools", {})["toolSearch"] = False
        (root / "openclaw.json").write_text(json.dumps(ours), encoding="utf-8")
        env = {name: value for name, value in needed_environment(environ).items() if not name.startswith("XDG_")}
        env |= dict.fromkeys(("HOME", "TMPDIR"), str(root / "home"))
        env |= {"OPENCLAW_STATE_DIR": str(copied_state), "OPENCLAW_CONFIG_PATH": str(root / "openclaw.json")}
        words = f"agent --local --json --agent {options.agent} --session-key agent:{options.agent}:capture -m hello"
        command = ChildCommand((str(program), *words.split(), "--model", "mine/capture"), env, cwd=root)
        try:
            done = run_async(capture(command, timeout_s=options.timeout))
        except TimeoutError:
            raise ConfigError(f"OpenClaw took over {options.timeout:g} s: give it longer with --timeout") from None
        except (CallFailure, OSError) as fault:
            raise ConfigError(f"OpenClaw cannot be run: {fault}") from None
        finally:
            server.shutdown()
            server.server_close()
    if done.exit_code != 0 or not asked or any(one != asked[0] for one in asked):
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        failed = "did not ask its model" if not asked else "asked twice, so nobody can tell which prompt is the agent's"
        failed = f"ended with code {done.exit_code}" if done.exit_code != 0 else failed
        raise ConfigError(f"OpenClaw {failed}: {redact(said)[:300]}")

    def clean(text: str) -> str:
        for here, there in places.items():
            text = text.replace(str(here), str(there))
        return redact(text)

    package: Any = {}
    with suppress(UnfitFile, msgspec.DecodeError):
        package = msgspec.json.decode(read_small_file(program.resolve().parent / "package.json", 1 << 20, "too large"))
    found = {"agent": options.agent, "captured_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "window": options.window}
    return {**found, "openclaw": package.get("version", ""), **mask_strings(asked[0], clean)}


def _play_model(token: str) -> tuple[list[dict[str, Any]], ThreadingHTTPServer]:
    """A model on loopback that answers whoever has the token with one word, and the list of what it was asked."""
    asked: list[dict[str, Any]] = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            n_bytes = int(self.headers.get("Content-Length") or 0)
            if self.headers.get("Authorization") != f"Bearer {token}" or not 0 < n_bytes <= _MAX_BYTES:
                return self.send_error(401)
            data = self.rfile.read(n_bytes)
            if find_excess(data) is not None:
                return self.send_error(413)
            body = msgspec.json.decode(data)
            given = [one["content"] for one in body["messages"] if one["role"] in ("system", "developer")]
            blocks = [block for text in given for block in (text if isinstance(text, list) else [{"text": text}])]
            asked.append({"system": "\n\n".join(block["text"] for block in blocks), "tools": body.get("tools") or []})
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(f"data: {json.dumps(_ANSWER)}\n\ndata: [DONE]\n\n".encode())

        def log_message(self, *_words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return asked, server


def read_config(path: Path, folder: Path) -> dict[str, Any]:
    """An openclaw.json with what it includes; nothing outside its folder is read, as OpenClaw itself has it."""
    reads = iter(range(_MAX_INCLUDES))
    values = iter(range(SETTINGS_LIMITS.values))

    def unfold(value: Any, base: Path, depth: int = 0) -> Any:
        if next(values, None) is None:
            most = f"{SETTINGS_LIMITS.values:,} values"
            raise ConfigError(f"{path}: with what it includes it holds more than {most}; that is no openclaw.json")
        if depth > MAX_LEVELS:
            raise ConfigError(f"{path}: with what it includes it is nested more than {MAX_LEVELS} levels deep")
        if not isinstance(value, dict):
            return [unfold(item, base, depth + 1) for item in value] if isinstance(value, list) else value
        whole: Any = {}
        for name in names if isinstance(names := value.get("$include", []), list) else [names]:
            file = Path(os.path.realpath(base / str(name).replace("\0", "?")))
            if next(reads, None) is None or not file.is_relative_to(folder):
                raise ConfigError(f"{path}: $include {str(name)!r} leaves its folder, or is one of too many")
            whole = _merged(whole, unfold(read_openclaw(file), file.parent, depth + 1))
        own = {key: unfold(item, base, depth + 1) for key, item in value.items() if key != "$include"}
        return _merged(whole, own)

    return dict(unfold(read_openclaw(path), path.parent))


def _merged(below: Any, above: Any) -> Any:
    """As OpenClaw puts what is included together: tables key by key, lists one after the other."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merged(below[key], one) if key in below else one for key, one in above.items()}}
    return [*below, *above] if isinstance(below, list) and isinstance(above, list) else above


def copy_config(config: dict[str, Any], agent: str, state: Path, workspace: Path) -> tuple[Path, dict[str, Any]]:
    """Where the agent's workspace is, and what of a configuration shapes its prompt, with `workspace` for that one."""
    known = set(secrets_of_settings(config))
    kept = {key: config[key] for key in _KEPT if isinstance(config.get(key), dict)}
    ours = mask_strings(kept, lambda text: _STAND_IN if text in known else _REFERENCE.sub(_STAND_IN, text))
    agents = ours.setdefault("agents", {})
    shared = agents.setdefault("defaults", {})
    # By name, or in a list as in earlier releases.
    own = {**agents.get("entries", {}), **{str(one.get("id")): one for one in agents.get("list", [])}}
    usual = state / ("workspace" if agent == "main" else f"workspace-{agent}")
    named = own.get(agent, {}).get("workspace") or (agent == "main" and shared.get("workspace")) or usual
    for name, table in (("", shared), *own.items()):
        for key in _NOT_OF_AGENTS:
            table.pop(key, None)
        table["workspace"] = str(workspace if name in ("", agent) else workspace.with_name("elsewhere"))
    shared["model"] = {"primary": "mine/capture"}
    return Path(named).expanduser(), ours


def copy_files(source: Path, target: Path) -> None:
    """Copy what a prompt is made of; links are followed only to what is inside the folder."""
    target.mkdir(parents=True)
    for file in [file for pattern in _FILES for file in sorted(source.glob(pattern))][:_MAX_FILES]:
        with suppress(UnfitFile, OSError, RuntimeError):
            if file.resolve().is_relative_to(source.resolve()):
                place = target / file.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(read_small_file(file, 1 << 20, "too large"))
