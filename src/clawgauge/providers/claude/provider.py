"""Claude Code as a provider: the program a user has installed, and one run of it for each attempt.

Its own tools are off; a prompt's tools are offered to it by an MCP server of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from clawgauge.child_processes.child import DESCRIPTORS, Child, ChildCommand, running
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure, MachineError
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sink
from clawgauge.providers.claude.failures import explain_failure
from clawgauge.providers.claude.program import (
    BASE_URL_VARIABLE,
    CLOUD_PREFIXES,
    DEFAULT_SYSTEM_PROMPT,
    INSTALL_HINT,
    KEY_VARIABLES,
    SWITCHES,
    ClaudeProgram,
    ask_program,
    base_environment,
    call_arguments,
    call_environment,
    find_program,
    level_arguments,
    not_executable,
)
from clawgauge.providers.claude.stream import ClaudeStream
from clawgauge.providers.claude.tools import (
    NEEDED_FLAGS,
    TOOL_ENVIRONMENT,
    OfferedTools,
    report_answers,
)
from clawgauge.providers.one_text import as_one_text, refuse_unsendable
from clawgauge.records import ProviderProbe, SentSettings

# How long the program may take to exit when the call is over.
EXIT_TIMEOUT_S = 1.0
# How long it may take over what comes after a whole answer.
SETTLE_S = 5.0
LOGIN_HINT = "run `claude` and use /login, or set ANTHROPIC_API_KEY"
_LOGIN_VARIABLES = (*KEY_VARIABLES, "CLAUDE_CODE_OAUTH_TOKEN", *CLOUD_PREFIXES)
_SENT_AS_TEXT = (
    "messages_as_text: the conversation before the prompt was sent as one text; "
    "Claude Code takes no other"
)


class ClaudeCodeCli(Provider):
    """The user's own Claude Code.

    It is found and asked once; its working directory lives from enter to exit.
    """

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
            reason = fault.strerror or fault
            message = f"Claude Code needs an empty folder ({reason}): make room, or set TMPDIR"
            raise MachineError(message) from fault
        try:
            # A program that cannot be used is each attempt's failure, not ours.
            with contextlib.suppress(CallFailure):
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

    def request_settings(self, call: Call) -> SentSettings:
        """What the program is told; the request that it makes of that is its own."""
        body: dict[str, Any] = {
            "model": call.model,
            "arguments": list(level_arguments(self._program, call)),
            "environment": call_environment({}, call, self.sampling(call)),
        }
        return SentSettings(path="claude", body=body)

    async def attempt(self, call: Call, sink: Sink) -> None:
        refuse_unsendable(call)
        program = await self._ask_once()
        if call.thinking_level is not None and not program.knows("--effort"):
            level = call.thinking_level
            sink.note(warning=f"{program} has no --effort: thinking level {level} was not sent")
        if not call.stream:
            sink.note(first_token_captured=False)
        if call.messages:
            sink.note(warning=_SENT_AS_TEXT)
        if not call.tools:
            await self._run(program, call, sink, None)
            return
        with tempfile.TemporaryDirectory(
            prefix="tools-", dir=self._workdir, ignore_cleanup_errors=True
        ) as folder:
            await self._run(program, call, sink, OfferedTools(call, Path(folder)))

    async def _run(
        self, program: ClaudeProgram, call: Call, sink: Sink, tools: OfferedTools | None
    ) -> None:
        """Run the program once, and report what it says. Raises `CallFailure`."""
        argv = (str(program.path), *call_arguments(program, call, bare=self._bare))
        env = call_environment(self._env, call, self.sampling(call))
        if tools is not None:
            _require_flags(program)
            argv += tools.arguments()
            env |= TOOL_ENVIRONMENT
        stdin = as_one_text(call).encode("utf-8")
        command = ChildCommand(argv, env, self._cwd(), stdin=stdin)
        started_ns = time.perf_counter_ns()
        if tools is None:
            stream = ClaudeStream(sink, started_ns=started_ns)
        else:
            stream = ClaudeStream(
                sink,
                started_ns=started_ns,
                tools=tools.names,
                max_turns=tools.max_turns,
                is_task=tools.is_task,
            )
        sink.start(started_ns)
        sink.connected(None)
        try:
            async with running(command) as child:
                await _read_stream(child, stream, sink)
        except OSError as fault:
            raise _spawn_failure(program.path, fault) from fault
        finally:
            if tools is not None:
                report_answers(sink, stream, tools.logged_calls())
        failure = explain_failure(
            stream, model=call.model, exit_code=child.exit_code, stderr_tail=child.stderr_tail
        )
        if failure is not None:
            # Asking again would begin the task anew and throw away turns that were paid for.
            failure.retryable = failure.retryable and not stream.turns_ended
            raise failure

    async def probe(self) -> ProviderProbe:
        """Look for the program and for a sign of a login; nothing is sent."""
        try:
            program = await self._ask_once()
        except CallFailure as failure:
            return ProviderProbe(
                provider=self.name, reachable=False, detail=failure.message, hint=INSTALL_HINT
            )
        login = self._find_login()
        usable = login is not None
        if login is None and sys.platform == "darwin":
            usable = True
            login = "its login is in the keychain, if anywhere"
        return ProviderProbe(
            provider=self.name,
            reachable=usable,
            detail=f"{program}; {login or 'no key and no login found'}",
            address=str(program.path),
            version=program.version,
            hint=None if usable else LOGIN_HINT,
        )

    def _find_login(self) -> str | None:
        """A sign that a call could be authorised. Says where it is; never looks inside."""
        for name in _LOGIN_VARIABLES:
            if self._env.get(name):
                return f"{name} is set, not checked whether it is accepted"
        config_folder = self._env.get("CLAUDE_CONFIG_DIR")
        if not config_folder and self._env.get("HOME"):
            config_folder = str(Path(self._env["HOME"]) / ".claude")
        if config_folder and (Path(config_folder) / ".credentials.json").is_file():
            return f"a login is in {config_folder}, not checked whether it is accepted"
        return None

    def describe(self) -> dict[str, Any]:
        program = self._program
        dropped_flags = []
        if program is not None:
            flags = [switch[0] for switch in SWITCHES]
            if self._bare:
                flags.append("--bare")
            flags.append("--effort")
            dropped_flags = [flag for flag in flags if not program.knows(flag)]
        return {
            **super().describe(),
            "command": program.path.name if program else None,
            "version": program.version if program else None,
            "dropped_flags": dropped_flags,
            "bare": self._bare,
            "base_url_host": _host(self._env.get(BASE_URL_VARIABLE)),
            "default_system_prompt": DEFAULT_SYSTEM_PROMPT,
            "thinking": "off unless a level is asked",
            "tools": "offered by an MCP server of clawgauge's own",
            "not_sent": ["temperature", "seed", *sorted(self.cannot_send)],
        }

    async def _ask_once(self) -> ClaudeProgram:
        """The program, found and asked the first time. Raises `CallFailure`."""
        async with self._asking:
            if self._program is None:
                path = find_program(self._env, self.settings.extra.get("command"))
                self._program = await ask_program(path, self._env, self._cwd())
            return self._program

    def _cwd(self) -> Path:
        """An empty folder: what the CLI finds around it may not become part of a prompt."""
        if self._workdir is None:
            return Path(tempfile.gettempdir())
        return self._workdir / "empty"


def _require_flags(program: ClaudeProgram) -> None:
    """Raise `CallFailure` for a program that cannot be offered tools."""
    for flag in NEEDED_FLAGS:
        if not program.knows(flag):
            message = f"{program} cannot be offered tools, it has no {flag}: update it"
            raise CallFailure("error", "cli_error", message)


async def _read_stream(child: Child, stream: ClaudeStream, sink: Sink) -> None:
    """Read until the call is over, then give the program a moment to exit.

    Its exit code counts too.
    """
    try:
        while not stream.done:
            # Where the answer is whole, the CLI may take long over what comes after it.
            async with asyncio.timeout(None if stream.clock_runs else SETTLE_S):
                stamped_line = await child.next_line()
            if stamped_line is None:
                break
            at_ns, line = stamped_line
            stream.feed(at_ns, line)
    except TimeoutError:
        if stream.clock_runs:
            raise
    finally:
        # Before the program is ended: its grace is not part of the time to a deadline or to an
        # exit.
        if stream.clock_runs:
            sink.end(child.exited_ns or time.perf_counter_ns())
    stream.settle()
    if stream.cut_reason is None:
        await child.wait_exit(EXIT_TIMEOUT_S)


def _spawn_failure(path: Path, fault: OSError) -> CallFailure:
    """The failure of a call whose program could not be started."""
    if fault.errno == errno.E2BIG:
        message = "the system prompt is too long for a command line: shorten it"
        return CallFailure("error", "invalid_prompt", message)
    if not path.exists():
        message = f"{path} is gone: {INSTALL_HINT}"
        return CallFailure("skipped_unavailable", "cli_missing", message)
    return client_limit(fault) or not_executable(path, fault.strerror or str(fault))


def _host(url: str | None) -> str | None:
    """Host and port of an address: its user-info, path and query may hold a secret."""
    url = url or ""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url if "//" in url else f"//{url}")
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    return None
