"""Claude Code as a provider: the program a user has installed, and one run of `claude -p` for each attempt. A prompt's
own tools are offered to it by an MCP server of ours."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from clawgauge.child_processes import isolated_module
from clawgauge.child_processes.child import DESCRIPTORS, Child, ChildCommand, capture, running
from clawgauge.client_limits import client_limit
from clawgauge.environment import with_proxies
from clawgauge.errors import CallFailure, MachineError
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sampling, Sink
from clawgauge.providers.claude.failures import explain_failure
from clawgauge.providers.claude.stream import ClaudeStream
from clawgauge.records import ProviderProbe
from clawgauge.registry import ANTHROPIC
from clawgauge.world.mcp import SERVER_NAME, LoggedCall, read_log

PROGRAM_NAME = "claude"
QUESTION_TIMEOUT_S = 10.0
INSTALL_HINT = "install it with `npm install -g @anthropic-ai/claude-code`, or set `command` to its path"

# What a shell and `env` say of a program they cannot start: a launcher whose interpreter is missing, for one.
_CANNOT_RUN = (126, 127)
_OPTION_ROW = re.compile(r"^ {1,6}(?:-\w, )?(--[\w-]+)(?:, (--[\w-]+))?", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."
KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
BASE_URL_VARIABLE, _HEADERS_VARIABLE = "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"

_DISABLED = (
    *("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"),
    *("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"),
)
# One attempt is one request: retries and the silent second, unstreamed try are the runner's business.
FORCED_ENVIRONMENT = {"CLAUDE_CODE_MAX_RETRIES": "0", **dict.fromkeys(_DISABLED, "1")}
_CLOUD_PREFIXES = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_", "CLOUDSDK_", "VERTEX_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}
# Takes the place of a key at an address of the user's own that wants none: without one the CLI would send its login.
NO_KEY = "none"
# The marks of an outer session, and what would overrule a call.
_WITHHELD = frozenset(
    {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"}
    | {"CLAUDE_CODE_EFFORT_LEVEL", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS"}
    | {"ENABLE_TOOL_SEARCH", "MCP_CONNECTION_NONBLOCKING"}
)

_SWITCHES: tuple[tuple[str, ...], ...] = (
    *(("--include-partial-messages",), ("--tools", ""), ("--setting-sources", ""), ("--strict-mcp-config",)),
    *(("--no-session-persistence",), ("--disable-slash-commands",)),
)
# For a CLI without `--tools`, whose `--disallowedTools` knows no wildcard.
_BUILT_IN_TOOLS = (
    "Bash,BashOutput,Edit,ExitPlanMode,Glob,Grep,KillBash,KillShell,LS,MultiEdit,NotebookEdit,NotebookRead,Read,Skill,"
    "SlashCommand,Task,TodoRead,TodoWrite,WebFetch,WebSearch,Write,exit_plan_mode"
)
_SENT_AS_TEXT = "messages_as_text: the conversation before the prompt was sent as one text; Claude Code takes no other"
_AS_TEXT = (
    "Below is a conversation so far, and what its tools answered. Go on with it: write the assistant's next message, "
    "and nothing else.\n\n"
)
NAME_PREFIX = f"mcp__{SERVER_NAME}__"
# Used with a login, the CLI otherwise holds tools back behind a search of its own and shows the model a placeholder.
TOOL_ENVIRONMENT = {"ENABLE_TOOL_SEARCH": "false"}
NEEDED_FLAGS = ("--mcp-config", "--allowedTools", "--strict-mcp-config")
_REPLACED = re.compile(r"[^a-zA-Z0-9_-]")
LINGER_S, SETTLE_S = 1.0, 5.0
LOGIN_HINT = "run `claude` and use /login, or set ANTHROPIC_API_KEY"
_LOGIN_VARIABLES = (*KEY_VARIABLES, "CLAUDE_CODE_OAUTH_TOKEN", *_CLOUD_PREFIXES)


@dataclass(frozen=True, slots=True)
class ClaudeProgram:
    """What is installed. `flags` is None where its help could not be read: it is then taken for a current one."""

    path: Path
    version: str | None = None
    flags: frozenset[str] | None = None

    def knows(self, flag: str) -> bool:
        return self.flags is None or flag in self.flags

    def __str__(self) -> str:
        return f"Claude Code {self.version or 'of unknown version'}"


def find_program(environ: Mapping[str, str], command: str | None = None) -> Path:
    """The program on the user's PATH, or at `command`. Raises `CallFailure` when it is missing or cannot be run."""
    search_path, name = environ.get("PATH", os.defpath), command or PROGRAM_NAME
    if is_path := os.sep in name:
        name = os.fspath(Path(name).expanduser())
    if found := shutil.which(name, path=search_path):
        return Path(found).absolute()
    if present := shutil.which(name, os.F_OK, path=search_path):
        raise _not_executable(Path(present), "it has no execute permission")
    where = f"at {name}" if is_path else "on PATH"
    raise CallFailure("skipped_unavailable", "cli_missing", f"Claude Code is not {where}: {INSTALL_HINT}")


async def ask_program(path: Path, env: Mapping[str, str], cwd: Path) -> ClaudeProgram:
    """Ask for version and flags. A program that does not answer is taken as it is; one that cannot start is refused."""
    said = {"--version": "", "--help": ""}
    for question in said:
        try:
            answer = await capture(ChildCommand((str(path), question), env, cwd), timeout_s=QUESTION_TIMEOUT_S)
        except TimeoutError:
            break
        except OSError as fault:
            raise client_limit(fault) or _not_executable(path, fault.strerror or str(fault)) from fault
        if question == "--version" and answer.exit_code in _CANNOT_RUN:
            raise _not_executable(path, answer.stderr.strip() or f"exit code {answer.exit_code}")
        said[question] = answer.stdout
    version = _VERSION.search(said["--version"])
    flags = frozenset(flag for row in _OPTION_ROW.findall(said["--help"]) for flag in row if flag)
    return ClaudeProgram(path, version[0] if version else None, flags if "--print" in flags else None)


def _not_executable(path: Path, why: str) -> CallFailure:
    words = f"{path} cannot be run ({why}): repair it, or set `command` to another Claude Code"
    return CallFailure("skipped_unavailable", "cli_not_executable", words)


def as_one_text(call: Call) -> str:
    """The prompt, with the messages before it written out, for a provider that takes nothing but a text."""
    if not call.messages:
        return call.prompt
    asked = [f"[user]\n{call.prompt}"] if call.prompt else []
    return _AS_TEXT + "\n\n".join([*map(str, call.messages), *asked])


def refuse_unsendable(call: Call) -> None:
    """Raise for text that no process can be given: a NUL, or half a surrogate pair."""
    sent = {"prompt": as_one_text(call), "system prompt": call.system or "", "model name": call.model}
    for what, text in sent.items():
        if "\0" in text:
            raise CallFailure("error", "invalid_prompt", f"the {what} contains a NUL character, which cannot be sent")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as fault:
            words = f"the {what} is not valid Unicode at character {fault.start}, and cannot be sent"
            raise CallFailure("error", "invalid_prompt", words) from fault


def call_arguments(program: ClaudeProgram, call: Call, *, bare: bool) -> tuple[str, ...]:
    """The command line without the prompt, which goes through stdin. Flags the program does not know are left out."""
    # `--system-prompt` is never left out: older CLIs take it without listing it.
    arguments = ["-p", "--model", call.model, "--output-format", "stream-json", "--verbose"]
    arguments += ["--system-prompt", call.system if call.system is not None else DEFAULT_SYSTEM_PROMPT]
    for switch in (*_SWITCHES, *([("--bare",)] if bare else [])):
        if program.knows(switch[0]):
            arguments += switch
    if not program.knows("--tools") and program.knows("--disallowedTools"):
        arguments += ["--disallowedTools", _BUILT_IN_TOOLS]
    if call.thinking_level is not None and program.knows("--effort"):
        arguments += ["--effort", call.thinking_level]
    return tuple(arguments)


def base_environment(settings: ProviderSettings) -> dict[str, str]:
    environ = {name: value for name, value in settings.environ.items() if name not in _WITHHELD}
    allowed_prefixes = ["ANTHROPIC_", "CLAUDE_"]
    for switch, prefixes in _CLOUD_PREFIXES.items():
        if settings.environ.get(switch):
            allowed_prefixes.extend(prefixes)
    env = with_proxies(environ, allowed_prefixes=tuple(allowed_prefixes))
    if settings.base_url and not ANTHROPIC.is_address(settings.base_url):
        env = with_proxies(env, allowed_prefixes=())
        env.pop(_HEADERS_VARIABLE, None)
        env["ANTHROPIC_API_KEY"] = NO_KEY
    if settings.api_key:
        env["ANTHROPIC_API_KEY"] = settings.api_key
    if settings.base_url:
        env[BASE_URL_VARIABLE] = settings.base_url
    return env | FORCED_ENVIRONMENT


def call_environment(base: Mapping[str, str], call: Call, sampling: Sampling) -> dict[str, str]:
    """`base` with the call's own limits. Thinking is off unless a level is asked. The CLI would otherwise think with
    nearly all of the token limit, and below 1025 tokens it sends a thinking budget that is not under the limit, which
    the API refuses."""
    env = dict(base)
    if sampling.max_tokens is not None:
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(sampling.max_tokens)
    if call.thinking_level is None:
        env["MAX_THINKING_TOKENS"] = "0"
    return env


class ClaudeCodeCli(Provider):
    """The user's own Claude Code. It is found and asked once; its working directory lives from enter to exit."""

    takes = frozenset()
    cannot_send = frozenset({"response_format", "tool_choice"})
    runs_tasks = True
    descriptors_per_call = DESCRIPTORS

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._env = base_environment(settings)
        # With a key rather than a login: `--bare` starts cleaner, but cannot read a login.
        self._bare = any(self._env.get(name) for name in KEY_VARIABLES)
        self._workdir: Path | None = None
        self._program: ClaudeProgram | None = None
        self._asking = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            self._workdir = Path(tempfile.mkdtemp(prefix="clawgauge-claude-"))
            self._cwd().mkdir()
        except OSError as fault:
            why = f"Claude Code needs an empty folder ({fault.strerror or fault}): make room, or set TMPDIR"
            raise MachineError(why) from fault
        try:
            with contextlib.suppress(CallFailure):  # a program that cannot be used is each attempt's failure, not ours
                await self._ask_once()
        except asyncio.CancelledError:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._workdir is not None:
            shutil.rmtree(self._workdir, ignore_errors=True)
            self._workdir = None

    def check_here(self, model: str) -> None:
        find_program(self._env, self.settings.extra.get("command"))

    async def attempt(self, call: Call, sink: Sink) -> None:
        refuse_unsendable(call)
        program = await self._ask_once()
        if call.thinking_level is not None and not program.knows("--effort"):
            sink.note(warning=f"{program} has no --effort: thinking level {call.thinking_level} was not sent")
        if not call.stream:
            sink.note(first_token_captured=False)
        if call.messages:
            sink.note(warning=_SENT_AS_TEXT)
        if not call.tools:
            await self._converse(program, call, sink, None)
            return
        with tempfile.TemporaryDirectory(prefix="tools-", dir=self._workdir, ignore_cleanup_errors=True) as folder:
            await self._converse(program, call, sink, OfferedTools(call, Path(folder)))

    async def _converse(self, program: ClaudeProgram, call: Call, sink: Sink, tools: OfferedTools | None) -> None:
        argv = (str(program.path), *call_arguments(program, call, bare=self._bare))
        env = call_environment(self._env, call, self.sampling(call))
        offer: dict[str, Any] = {}
        if tools is not None:
            if lacking := [flag for flag in NEEDED_FLAGS if not program.knows(flag)]:
                message = f"{program} cannot be offered tools, it has no {lacking[0]}: update it"
                raise CallFailure("error", "cli_error", message)
            argv += tools.arguments()
            env |= TOOL_ENVIRONMENT
            offer = {"tools": tools.names, "max_turns": tools.max_turns, "is_task": tools.is_task}
        command = ChildCommand(argv, env, self._cwd(), stdin=as_one_text(call).encode("utf-8"))
        started_ns = time.perf_counter_ns()
        stream = ClaudeStream(sink, started_ns=started_ns, **offer)
        sink.start(started_ns)
        sink.connected(None)
        try:
            async with running(command) as child:
                await _listen(child, stream, sink)
        except OSError as fault:
            raise _spawn_failure(program.path, fault) from fault
        finally:
            if tools is not None:
                report_answers(sink, stream, tools.logged_calls())
        failure = explain_failure(stream, model=call.model, exit_code=child.exit_code, stderr_tail=child.stderr_tail)
        if failure is not None:
            # Asking again would begin the task anew and throw away turns that were paid for.
            failure.retryable = failure.retryable and not stream.turns_ended
            raise failure

    async def probe(self) -> ProviderProbe:
        """Look for the program and for a sign of a login; nothing is sent."""
        try:
            program = await self._ask_once()
        except CallFailure as failure:
            return ProviderProbe(provider=self.name, reachable=False, detail=failure.message, hint=INSTALL_HINT)
        # A sign that a call could be authorised. Says where it is; never looks inside.
        env, login = self._env, None
        home = env.get("CLAUDE_CONFIG_DIR") or (str(Path(env["HOME"]) / ".claude") if env.get("HOME") else None)
        if named := next((name for name in _LOGIN_VARIABLES if env.get(name)), None):
            login = f"{named} is set, not checked whether it is accepted"
        elif home is not None and (Path(home) / ".credentials.json").is_file():
            login = f"a login is in {home}, not checked whether it is accepted"
        usable = login is not None or sys.platform == "darwin"
        unseen = "its login is in the keychain, if anywhere" if usable else "no key and no login found"
        found: Any = {"address": str(program.path), "version": program.version, "hint": None if usable else LOGIN_HINT}
        return ProviderProbe(provider=self.name, reachable=usable, detail=f"{program}; {login or unseen}", **found)

    def describe(self) -> dict[str, Any]:
        program = self._program
        # The flags we would use that this program does not know.
        wanted = [*(switch[0] for switch in _SWITCHES), *(["--bare"] if self._bare else []), "--effort"]
        return {
            **super().describe(),
            "command": program.path.name if program else None, "version": program.version if program else None,
            "dropped_flags": [flag for flag in wanted if not program.knows(flag)] if program else [],
            "bare": self._bare, "base_url_host": _host(self._env.get(BASE_URL_VARIABLE)),
            "default_system_prompt": DEFAULT_SYSTEM_PROMPT, "thinking": "off unless a level is asked",
            "tools": "offered by an MCP server of clawgauge's own",
            "not_sent": ["temperature", "seed", *sorted(self.cannot_send)],
        }  # fmt: skip

    async def _ask_once(self) -> ClaudeProgram:
        async with self._asking:
            if self._program is None:
                path = find_program(self._env, self.settings.extra.get("command"))
                self._program = await ask_program(path, self._env, self._cwd())
            return self._program

    def _cwd(self) -> Path:
        """An empty folder: what the CLI finds around it may not become part of a prompt."""
        return self._workdir / "empty" if self._workdir else Path(tempfile.gettempdir())


async def _listen(child: Child, stream: ClaudeStream, sink: Sink) -> None:
    """Read until the call is over, then give the program a moment to exit so that its exit code counts too."""
    try:
        while not stream.done:
            # Where the answer is whole, the CLI may take long over what comes after it.
            async with asyncio.timeout(None if stream.clock_runs else SETTLE_S):
                stamped = await child.next_line()
            if stamped is None:
                break
            stream.feed(*stamped)
    except TimeoutError:
        if stream.clock_runs:
            raise
    finally:
        # Before the burial: its grace is not part of the time to a deadline or to an exit.
        if stream.clock_runs:
            sink.end(child.exited_ns or time.perf_counter_ns())
    stream.settle()
    if stream.cut is None:
        await child.wait_exit(LINGER_S)


def _spawn_failure(path: Path, fault: OSError) -> CallFailure:
    if fault.errno == errno.E2BIG:
        return CallFailure("error", "invalid_prompt", "the system prompt is too long for a command line: shorten it")
    if not path.exists():
        return CallFailure("skipped_unavailable", "cli_missing", f"{path} is gone: {INSTALL_HINT}")
    return client_limit(fault) or _not_executable(path, fault.strerror or str(fault))


def _host(url: str | None) -> str | None:
    """Host and port of an address: its user-info, path and query may hold a secret."""
    url = url or ""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url if "//" in url else f"//{url}")
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    return None


def report_answers(sink: Sink, stream: ClaudeStream, logged: Iterable[LoggedCall]) -> None:
    """Tell `sink` what every call was answered, and of any call that no line of the stream showed."""
    calls = list(logged)
    claimed = {call.id for call in calls}
    # The streamed calls that no logged one names by its id, in order: not every CLI tells the server its ids.
    unclaimed: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
    for streamed, (name, fragments) in stream.calls.items():
        if streamed not in claimed:
            with contextlib.suppress(ValueError, RecursionError):  # the CLI passes no such call on
                unclaimed[name, _written(json.loads("".join(fragments) or "{}") or {})].append(streamed)
    for number, call in enumerate(calls):
        if call.id in stream.calls:
            index = call.id
        elif alike := unclaimed[call.name, _written(call.arguments or {})]:
            index = alike.popleft()
        else:
            index = call.id or f"logged {number}"
            if stream.last_said_ns is None:
                sink.note(first_token_captured=False)
            sink.tool_delta(stream.last_said_ns or stream.started_ns, index, call.name, _written(call.arguments))
        sink.tool_answer(index, call.answer)


def _written(arguments: Any) -> str:
    try:
        return json.dumps(arguments, sort_keys=True)
    except RecursionError:
        return '"nested too deeply to be written"'


class OfferedTools:
    """One call's tools, with their files in a folder of their own. `max_turns` is how often the model is asked."""

    def __init__(self, call: Call, folder: Path) -> None:
        names = [tool["function"]["name"] for tool in call.tools]
        # Each tool's name by the one it is served under. The CLI replaces characters it does not take, so that two
        # names may become one; those are numbered instead.
        served = self._served = {name: name for name in names if not _REPLACED.search(name)}
        for name in names:
            plain = _REPLACED.sub("_", name)
            if plain != name and name not in served.values():
                candidates = chain((plain,), (f"{plain}_{number}" for number in count(2)))
                served[next(candidate for candidate in candidates if candidate not in served)] = name
        self.names = {NAME_PREFIX + served: name for served, name in self._served.items()}
        self.is_task = call.world is not None
        self.max_turns = (call.max_turns or 1) if self.is_task else 1
        self._call, self._folder, self._log = call, folder, folder / "calls.jsonl"

    def arguments(self) -> tuple[str, ...]:
        """Write the server's files and give the flags that make the CLI start it."""
        served = {name: cli_name for cli_name, name in self._served.items()}
        functions = [tool["function"] for tool in self._call.tools]
        tools = [{"type": "function", "function": {**one, "name": served[one["name"]]}} for one in functions]
        world = None if self._call.world is None else dict(self._call.world)
        serving, config = self._folder / "serving.json", self._folder / "mcp.json"
        serving.write_text(json.dumps({"tools": tools, "world": world, "log_path": str(self._log)}), encoding="ascii")
        command, *args = isolated_module("clawgauge.world.mcp", str(serving))
        server = {"command": command, "args": args, "env": {}}
        config.write_text(json.dumps({"mcpServers": {SERVER_NAME: server}}), encoding="ascii")
        # `--max-turns` is in no help text, but every version takes it.
        return ("--mcp-config", str(config), "--allowedTools", ",".join(self.names), "--max-turns", str(self.max_turns))

    def logged_calls(self) -> list[LoggedCall]:
        """The calls that reached the server, in order and by our names. For when the CLI is gone."""
        calls = read_log(self._log)
        return [msgspec.structs.replace(call, name=self._served.get(call.name, call.name)) for call in calls]
