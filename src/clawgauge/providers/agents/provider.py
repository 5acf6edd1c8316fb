"""An agent program as a provider: the model of another provider, asked inside it.

A subclass for each program says how it is started; this module starts it, once for each attempt,
beside a recorder, and puts together what was seen on both sides of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from clawgauge.child_processes.child import (
    DESCRIPTORS,
    Child,
    ChildCommand,
    capture,
    running,
)
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure, MachineError
from clawgauge.outcomes import AgentLedger, AgentSpans
from clawgauge.providers.agents.joining import JoinedCalls, join_calls
from clawgauge.providers.agents.ledger import WireTurn, covered_ns
from clawgauge.providers.agents.recorder import Expectation, Recorder
from clawgauge.providers.agents.wires import WIRE_FORMATS
from clawgauge.providers.base import (
    Call,
    Provider,
    ProviderSettings,
    Sampling,
    Sink,
    create_provider,
)
from clawgauge.providers.one_text import as_one_text, refuse_unsendable
from clawgauge.providers.tool_server import ToolServer
from clawgauge.records import ProviderProbe
from clawgauge.records.agent import AgentProgramFacts, AgentTurn, EndedBy
from clawgauge.registry import Wire, find_type
from clawgauge.words import list_names
from clawgauge.world.mcp import LoggedCall

DEFAULT_CONTEXT_TOKENS = 32_768
"""The window that a program is told where nobody knows the model's own."""
_QUESTION_TIMEOUT_S = 60.0
_EXIT_TIMEOUT_S = 2.0
_VERSION = re.compile(r"\d+\.\d+\.\d+[\w.+-]*")
_STDERR_CHARS = 400
# What every program is given of the user's environment; its own settings come on top.
_KEPT_VARIABLES = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_SENT_AS_TEXT = (
    "messages_as_text: the conversation before the prompt was sent as one text; "
    "the program takes no other"
)
# A connection of the program's, one to the server, and the child's own.
_DESCRIPTORS_PER_CALL = DESCRIPTORS + 6


class InstalledProgram(NamedTuple):
    """The program that is installed here."""

    path: Path
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a program is to be started for: one attempt at one call."""

    home: Path
    """A folder that is the program's home, with nothing in it."""
    work: Path
    """An empty folder to work in."""
    tools: Path
    address: str
    """Where it finds its model: the recorder."""
    wire: Wire
    asks_ollama: bool
    model: str
    level: str | None
    system: str | None
    tool_command: list[str] | None
    """What starts our tools; None where the call has none."""
    context_tokens: int
    max_tokens: int | None
    max_turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a program is started. The prompt goes through its standard input."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


class _Target(NamedTuple):
    """`PROVIDER/MODEL` of a target."""

    provider: str
    model: str


class _Upstream(NamedTuple):
    """The provider whose model is asked, and the wire format it is asked in."""

    server: Provider
    wire: Wire


class AgentProvider(Provider):
    """One agent program that the user has installed. None is installed by clawgauge."""

    title: ClassVar[str]
    """What the program is called."""
    install_hint: ClassVar[str]
    tested_versions: ClassVar[frozenset[str]]
    """The versions that the tests have seen refuse a call of a tool of their own."""
    harmless_tools: ClassVar[frozenset[str]] = frozenset()
    """Tools of its own that it offers although it is told not to, and that can do no harm."""
    own_tools: ClassVar[frozenset[str]]
    """Tools that it has when it is used as it comes."""
    levels: ClassVar[Mapping[str, str]] = {}
    """Its word for each thinking level that it can be told."""
    settings_files: ClassVar[frozenset[str]]
    """The names of the files that `launch` writes."""
    tells_host_facts: ClassVar[str]
    """What of this machine it puts into its prompt."""

    takes = frozenset()
    cannot_send = frozenset({"response_format", "tool_choice"})
    runs_tasks = True
    descriptors_per_call = _DESCRIPTORS_PER_CALL

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._type = find_type(settings.type)
        self.takes_thinking = bool(self.levels)
        self._workdir: Path | None = None
        self._program: InstalledProgram | None = None
        self._upstreams: dict[str, Provider] = {}
        self._exits = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            self._workdir = Path(tempfile.mkdtemp(prefix="clawgauge-agent-"))
        except OSError as fault:
            reason = fault.strerror or fault
            message = f"{self.title} needs an empty folder ({reason}): make room, or set TMPDIR"
            raise MachineError(message) from fault
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._exits.aclose()
        if self._workdir is not None:
            shutil.rmtree(self._workdir, ignore_errors=True)
            self._workdir = None

    # What a program has to say.

    @abstractmethod
    def launch(self, setup: Setup) -> Launch:
        """Write the program's settings into `setup.home`, and say how it is started."""

    @abstractmethod
    def wire_name(self, served_name: str) -> str:
        """What the program calls one of our tools on the wire."""

    def sends_max_tokens(self, wire: Wire, *, asks_ollama: bool) -> bool:
        """Whether the program sends the limit of a reply that it is told, so that it counts."""
        return False

    # What the runner asks.

    def why_not_model(self, model: str) -> str | None:
        example = f"{self.name}:ollama/qwen3:8b"
        provider, slash, name = model.partition("/")
        if not slash or not provider or not name:
            return f"name the model's provider before it, as in {example}"
        settings = self.settings.upstreams.get(provider)
        if settings is None:
            known = list_names(sorted(self.settings.upstreams), 12)
            return f"there is no provider {provider!r} for {self.title} to ask: there are {known}"
        if settings.unusable is not None:
            return settings.unusable
        if self._common_wire(settings) is None:
            return self._word_foreign_wire(provider)
        return None

    def why_not_level(self, model: str, level: str) -> str | None:
        if level not in self.levels:
            known = list_names([f"@{name}" for name in self.levels], len(self.levels))
            return f"{self.title} takes no @{level}" + (f": it takes {known}" if known else "")
        return None

    def sampling(self, call: Call) -> Sampling:
        settings = self.settings.upstreams.get(_split(call.model).provider)
        wire = None if settings is None else self._common_wire(settings)
        if settings is None or wire is None:
            return Sampling()
        asks_ollama = find_type(settings.type).is_ollama
        if not self.sends_max_tokens(wire, asks_ollama=asks_ollama):
            return Sampling()
        return Sampling(max_tokens=call.max_tokens)

    def check_here(self, model: str) -> None:
        self._find_program()
        settings = self.settings.upstreams.get(_split(model).provider)
        if settings is not None:
            create_provider(settings).check_here(_split(model).model)

    async def before_target(self, model: str, *, unload_others: bool) -> bool | None:
        target = _split(model)
        upstream = await self._open(target.provider)
        return await upstream.server.before_target(target.model, unload_others=unload_others)

    async def find_window(self, model: str) -> int | None:
        target = _split(model)
        # What cannot be asked the first call will say with its own evidence.
        with contextlib.suppress(CallFailure):
            upstream = await self._open(target.provider)
            return await upstream.server.find_window(target.model)
        return None

    async def takes_tools(self, model: str) -> bool | None:
        target = _split(model)
        with contextlib.suppress(CallFailure):
            upstream = await self._open(target.provider)
            return await upstream.server.takes_tools(target.model)
        return None

    async def loaded_models(self) -> list[str]:
        loaded: list[str] = []
        for server in self._upstreams.values():
            loaded += await server.loaded_models()
        return loaded

    def pids(self) -> list[int]:
        return [pid for server in self._upstreams.values() for pid in server.pids()]

    def describe(self) -> dict[str, Any]:
        program = self._program
        return {
            **super().describe(),
            "command": None if program is None else program.path.name,
            "version": None if program is None else program.version,
            "is_tested_version": program is not None and program.version in self.tested_versions,
            "tools": "offered by an MCP server of clawgauge's own; its own are switched off",
            "host_facts": self.tells_host_facts,
            "not_sent": ["temperature", "seed", *sorted(self.cannot_send)],
        }

    async def probe(self) -> ProviderProbe:
        """Look for the program; no model is asked."""
        try:
            program = await self._ask_once()
        except CallFailure as failure:
            return ProviderProbe(
                provider=self.name,
                reachable=False,
                detail=failure.message,
                hint=self.install_hint,
            )
        version = program.version or "of unknown version"
        tested = (
            "" if program.version in self.tested_versions else ", not a version it was tested with"
        )
        return ProviderProbe(
            provider=self.name,
            reachable=True,
            detail=f"{self.title} {version}{tested}: -t {self.name}:PROVIDER/MODEL",
            address=str(program.path),
            version=program.version,
        )

    async def attempt(self, call: Call, sink: Sink) -> None:
        refuse_unsendable(call)
        target = _split(call.model)
        program = await self._ask_once()
        upstream = await self._open(target.provider)
        upstream.server.check_here(target.model)
        context_tokens = await upstream.server.find_window(target.model)
        if call.messages:
            sink.note(warning=_SENT_AS_TEXT)
        with tempfile.TemporaryDirectory(
            prefix="cell-", dir=self._workdir, ignore_cleanup_errors=True
        ) as folder:
            attempt = _Attempt(
                provider=self,
                program=program,
                upstream=upstream,
                call=call,
                model=target.model,
                context_tokens=context_tokens or DEFAULT_CONTEXT_TOKENS,
                folder=Path(folder),
            )
            await attempt.run(sink)

    # What it takes.

    async def _ask_once(self) -> InstalledProgram:
        """The program, found and asked for its version the first time. Raises `CallFailure`."""
        async with self._opening:
            if self._program is None:
                path = self._find_program()
                self._program = InstalledProgram(path, await self._ask_version(path))
            return self._program

    def _find_program(self) -> Path:
        """Raises `CallFailure` where it is not installed."""
        name = str(self.settings.extra.get("command") or self._type.program)
        if os.sep in name:
            name = os.fspath(Path(name).expanduser())
        search_path = self.settings.environ.get("PATH", os.defpath)
        path = shutil.which(name, path=search_path)
        if path is None:
            where = f"at {name}" if os.sep in name else "on PATH"
            message = f"{self.title} is not {where}: {self.install_hint}"
            raise CallFailure("skipped_unavailable", "cli_missing", message)
        return Path(path).absolute()

    async def _ask_version(self, path: Path) -> str | None:
        with tempfile.TemporaryDirectory(prefix="clawgauge-agent-") as home:
            env = self.base_environment(Path(home))
            command = ChildCommand((str(path), "--version"), env, Path(home))
            try:
                answer = await capture(command, timeout_s=_QUESTION_TIMEOUT_S)
            except TimeoutError:
                return None
            except OSError as fault:
                raise client_limit(fault) or self.not_executable(path, fault) from fault
        found = _VERSION.search(answer.stdout)
        return None if found is None else found[0]

    def not_executable(self, path: Path, fault: OSError) -> CallFailure:
        reason = fault.strerror or str(fault)
        message = f"{path} cannot be run ({reason}): repair it, or set `command` to another"
        return CallFailure("skipped_unavailable", "cli_not_executable", message)

    def base_environment(self, home: Path) -> dict[str, str]:
        """The environment of the program: built from nothing, with a home of its own."""
        env = {}
        for name in _KEPT_VARIABLES:
            if name in self.settings.environ:
                env[name] = self.settings.environ[name]
        temporary = home / "tmp"
        temporary.mkdir(exist_ok=True)
        env["HOME"] = str(home)
        env["TMPDIR"] = str(temporary)
        env["LANG"] = "C.UTF-8"
        env["NO_PROXY"] = "127.0.0.1,localhost"
        env["no_proxy"] = "127.0.0.1,localhost"
        return env

    def _common_wire(self, settings: ProviderSettings) -> Wire | None:
        """The wire format that the program and a provider both speak."""
        for wire in self._type.wires:
            if wire in find_type(settings.type).wires:
                return wire
        return None

    def _word_foreign_wire(self, provider: str) -> str:
        own = " or ".join(_WIRE_TITLES[wire] for wire in self._type.wires)
        foreign = self.settings.upstreams[provider].type
        return (
            f"{self.title} speaks {own} only, and {provider} ({foreign}) does not: "
            f"{_WIRE_HINTS[self._type.wires[0]]}"
        )

    async def _open(self, name: str) -> _Upstream:
        """The provider of this name, ready to be asked. Raises `CallFailure`."""
        settings = self.settings.upstreams.get(name)
        wire = None if settings is None else self._common_wire(settings)
        if settings is None or wire is None:
            raise CallFailure("error", "invalid_prompt", self.why_not_model(f"{name}/?") or name)
        async with self._opening:
            if name not in self._upstreams:
                server = create_provider(settings)
                await self._exits.enter_async_context(server)
                self._upstreams[name] = server
        return _Upstream(self._upstreams[name], wire)


_WIRE_TITLES = {
    Wire.CHAT: "chat completions",
    Wire.RESPONSES: "the Responses API",
    Wire.MESSAGES: "the Messages API",
    Wire.OLLAMA: "Ollama's own API",
    Wire.GEMINI: "Gemini's API",
}
_WIRE_HINTS = {
    Wire.CHAT: "use a provider of type openai_chat or ollama_openai",
    Wire.RESPONSES: "use a provider of type openai_responses, such as one for Ollama's /v1",
    Wire.OLLAMA: "use a provider of type ollama, ollama_openai or openai_chat",
}


def _split(model: str) -> _Target:
    provider, _, name = model.partition("/")
    return _Target(provider, name)


class _Attempt:
    """One start of a program, from its empty folder to the report of what was seen."""

    def __init__(
        self,
        *,
        provider: AgentProvider,
        program: InstalledProgram,
        upstream: _Upstream,
        call: Call,
        model: str,
        context_tokens: int,
        folder: Path,
    ) -> None:
        self._provider = provider
        self._program = program
        self._upstream = upstream
        self._call = call
        self._model = model
        self._context_tokens = context_tokens
        self._folder = folder
        self._is_task = call.world is not None
        self._max_turns = 1
        if self._is_task and call.max_turns:
            self._max_turns = call.max_turns
        self._tool_server = ToolServer(call, folder) if call.tools else None
        self._tool_names: dict[str, str] = {}
        if self._tool_server is not None:
            for served, name in self._tool_server.names.items():
                self._tool_names[provider.wire_name(served)] = name

    async def run(self, sink: Sink) -> None:
        """Start the program, wait for its end, and report. Raises `CallFailure`."""
        provider = self._provider
        is_tested = self._program.version in provider.tested_versions
        expected = Expectation(
            model=self._model,
            tool_names=self._tool_names,
            harmless_tools=provider.harmless_tools,
            max_requests=self._max_turns,
            withhold_own_tools=not is_tested,
            own_tools=provider.own_tools,
        )
        client = self._upstream.server.relay_client()
        if client is None:
            message = "the server of the model is not running"
            raise CallFailure("skipped_unavailable", "connection_refused", message)
        wire_format = WIRE_FORMATS[self._upstream.wire]
        async with Recorder(client, wire_format, expected) as recorder:
            launch = provider.launch(self._set_up(recorder.address))
            argv = (str(self._program.path), *launch.arguments)
            stdin = as_one_text(self._call).encode("utf-8")
            command = ChildCommand(argv, launch.environment, self._folder / "work", stdin=stdin)
            started_ns = time.perf_counter_ns()
            sink.start(started_ns)
            sink.connected(None)
            child = None
            exited_ns = None
            try:
                async with running(command) as child:
                    await _wait_for_end(child, recorder)
                    exited_ns = child.exited_ns or time.perf_counter_ns()
            except OSError as fault:
                raise client_limit(fault) or provider.not_executable(
                    self._program.path, fault
                ) from fault
            finally:
                if child is not None:
                    self._report(sink, recorder, child, started_ns, exited_ns, launch)
        failure = self._find_failure(recorder, child)
        if failure is not None:
            # Asking again would begin the task anew and throw away turns that were paid for.
            failure.retryable = failure.retryable and len(recorder.turns) <= 1
            raise failure

    def _set_up(self, address: str) -> Setup:
        """Make the program's folders and the files of our tools."""
        home = self._folder / "home"
        work = self._folder / "work"
        tools = self._folder / "tools"
        for folder in (home, work, tools):
            folder.mkdir()
        tool_command = None
        if self._tool_server is not None:
            tool_command = self._tool_server.write_files()
        upstream_settings = self._upstream.server.settings
        return Setup(
            home=home,
            work=work,
            tools=tools,
            address=address,
            wire=self._upstream.wire,
            asks_ollama=find_type(upstream_settings.type).is_ollama,
            model=self._model,
            level=self._call.thinking_level,
            system=self._call.system,
            tool_command=tool_command,
            context_tokens=self._context_tokens,
            max_tokens=self._call.max_tokens,
            max_turns=self._max_turns,
        )

    def _find_failure(self, recorder: Recorder, child: Child) -> CallFailure | None:
        """Why there is no answer. The exit code decides nothing: programs end with 0 on errors."""
        if recorder.failure is not None:
            return recorder.failure
        turns = [turn for turn in recorder.turns if not turn.is_extra]
        if any(turn.is_whole for turn in turns):
            return None
        title = self._provider.title
        if turns:
            message = f"{title} did not wait for its model's reply"
        else:
            message = f"{title} ended without asking its model (exit code {child.exit_code})"
        words = " ".join(child.stderr_tail.split())[-_STDERR_CHARS:]
        if words:
            message += f": {words}"
        return CallFailure("error", "agent_error", message)

    def _report(
        self,
        sink: Sink,
        recorder: Recorder,
        child: Child,
        started_ns: int,
        exited_ns: int | None,
        launch: Launch,
    ) -> None:
        """Report the turns, the calls that reached the tools, and the ledger of both sides."""
        ended_ns = exited_ns or time.perf_counter_ns()
        ended_by: EndedBy = recorder.ended_by or "itself"
        if exited_ns is None and recorder.ended_by is None:
            ended_by = "timeout"
        turns = [turn for turn in recorder.turns if not turn.is_extra]
        logged = [] if self._tool_server is None else self._tool_server.logged_calls()
        joined = join_calls(
            turns, logged, self._tool_names, was_withheld=recorder.ended_by == "withheld"
        )
        _report_turns(sink, turns, joined, is_task=self._is_task)
        _report_sums(sink, turns)
        sink.end(ended_ns)
        first = turns[0] if turns else None
        facts = AgentProgramFacts(
            program=self._provider.settings.type,
            version=self._program.version,
            is_tested_version=self._program.version in self._provider.tested_versions,
            wire=self._upstream.wire.value,
            prompt_chars=recorder.prompt_chars,
            prompt_sha256=recorder.prompt_sha256,
            tools_left=recorder.tools_left,
            settings_digest=self._digest_settings(launch, recorder.address),
            exit_code=child.exit_code,
            ended_by=ended_by,
        )
        spans = _measure_spans(turns, logged, started_ns, ended_ns)
        sink.note(cli_overhead_ms=round(spans.harness_ns / 1e6))
        sink.agent(
            AgentLedger(
                facts=facts,
                spans=spans,
                turns=[_describe_turn(turn, started_ns) for turn in recorder.turns],
                calls=joined.calls,
                first_sent_ns=None if first is None else first.sent_ns,
                first_token_ns=None if first is None else first.first_token_ns(),
                ttft_user_ns=_user_wait_ns(first, started_ns),
                added_messages=recorder.added_messages,
                recorder_late=recorder.is_late,
            )
        )

    def _digest_settings(self, launch: Launch, address: str) -> str:
        """The same for the same settings of the program, wherever its folders are."""
        texts = list(launch.arguments)
        for name, value in sorted(launch.environment.items()):
            if name not in _KEPT_VARIABLES:
                texts.append(f"{name}={value}")
        for file in sorted((self._folder / "home").rglob("*")):
            if file.is_file() and file.name in self._provider.settings_files:
                texts.append(file.read_text(encoding="utf-8", errors="replace"))
        plain = json.dumps(texts).replace(str(self._folder), "FOLDER").replace(address, "ADDRESS")
        return hashlib.sha256(plain.encode()).hexdigest()[:16]


async def _wait_for_end(child: Child, recorder: Recorder) -> None:
    """Until the program has ended, or is to be ended. What it writes is read and dropped."""
    reading = asyncio.ensure_future(_drain(child))
    stopping = asyncio.ensure_future(recorder.stopped.wait())
    try:
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and not recorder.stopped.is_set():
            reading.result()
            await child.wait_exit(_EXIT_TIMEOUT_S)
    finally:
        for task in (reading, stopping):
            task.cancel()
        await asyncio.wait({reading, stopping})


async def _drain(child: Child) -> None:
    while await child.next_line() is not None:
        pass


def _report_turns(sink: Sink, turns: list[WireTurn], joined: JoinedCalls, *, is_task: bool) -> None:
    """Report what the model said turn by turn, and the calls that reached the tools."""
    n_reported = 0
    for index, turn in enumerate(turns):
        if is_task:
            sink.turn()
        for at_ns, piece in turn.reasonings:
            sink.reasoning(at_ns, piece)
        for at_ns, piece in turn.texts:
            sink.text(at_ns, piece)
        for run in joined.run:
            if run.turn != index + 1:
                continue
            n_reported += 1
            key = f"call {n_reported}"
            arguments = json.dumps(run.logged.arguments or {}, ensure_ascii=False)
            sink.tool_delta(run.made_ns, key, run.logged.name, arguments)
            sink.tool_answer(key, run.logged.answer)


def _report_sums(sink: Sink, turns: list[WireTurn]) -> None:
    """Report tokens, which add up over the turns, and what was noted of any of them."""
    sink.usage(
        input_tokens=_sum([turn.input_tokens for turn in turns]),
        output_tokens=_sum([turn.output_tokens for turn in turns]),
        cached_tokens=_sum([turn.cached_tokens for turn in turns]),
        reasoning_tokens=_sum([turn.reasoning_tokens for turn in turns]),
    )
    for turn in turns:
        if turn.model_reported is not None:
            sink.note(model_reported=turn.model_reported)
        if not turn.first_token_captured:
            sink.note(first_token_captured=False)
        if not turn.reasoning_streamed:
            sink.note(reasoning_streamed=False)
        for warning in turn.warnings:
            sink.note(warning=warning)
    if turns:
        for refusal in turns[-1].refusals:
            sink.note(refusal=refusal)
        sink.finish(turns[-1].finish_reason)


def _sum(counts: list[int | None]) -> int | None:
    """The sum where every turn has its count."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total if counts else None


def _measure_spans(
    turns: list[WireTurn], logged: list[LoggedCall], started_ns: int, ended_ns: int
) -> AgentSpans:
    """Whose the time was. Requests may overlap each other and tools: each moment counts once."""
    model_spans = []
    for turn in turns:
        if turn.end_ns is not None:
            model_spans.append((turn.arrived_ns, turn.end_ns))
    tool_spans = []
    for call in logged:
        if call.arrived_ns and call.answered_ns:
            tool_spans.append((call.arrived_ns, call.answered_ns))
    model_ns = covered_ns(model_spans)
    busy_ns = covered_ns([*model_spans, *tool_spans])
    first_ns = min((begin_ns for begin_ns, _ in model_spans), default=ended_ns)
    last_ns = max((end_ns for _, end_ns in model_spans), default=ended_ns)
    start_ns = max(0, first_ns - started_ns)
    end_ns = max(0, ended_ns - last_ns)
    harness_ns = max(0, ended_ns - started_ns - busy_ns)
    return AgentSpans(
        model_ns=model_ns,
        tools_ns=busy_ns - model_ns,
        start_ns=start_ns,
        between_ns=max(0, harness_ns - start_ns - end_ns),
        end_ns=end_ns,
    )


def _user_wait_ns(first: WireTurn | None, started_ns: int) -> int | None:
    """How long a user waits for the first token: the program's start is part of it."""
    first_token_ns = None if first is None else first.first_token_ns()
    return None if first_token_ns is None else first_token_ns - started_ns


def _describe_turn(turn: WireTurn, started_ns: int) -> AgentTurn:
    ended = "whole"
    if turn.is_extra:
        ended = "not_passed_on"
    elif turn.failure is not None:
        ended = turn.failure.failure_type
    elif turn.client_left:
        ended = "client_left"
    elif turn.end_ns is None:
        ended = "given_up"
    return AgentTurn(
        at_ms=_ms_since(started_ns, turn.arrived_ns) or 0,
        sent_ms=_ms_since(started_ns, turn.sent_ns),
        first_byte_ms=_ms_since(started_ns, turn.first_byte_ns),
        first_token_ms=_ms_since(started_ns, turn.first_token_ns()),
        end_ms=_ms_since(started_ns, turn.end_ns),
        status=turn.status,
        ended=ended,
        input_tokens=turn.input_tokens,
        output_tokens=turn.output_tokens,
        cached_tokens=turn.cached_tokens,
        calls=len(turn.calls),
        kind="extra" if turn.is_extra else "turn",
    )


def _ms_since(started_ns: int, at_ns: int | None) -> int | None:
    return None if at_ns is None else round((at_ns - started_ns) / 1e6)
