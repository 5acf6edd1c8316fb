"""The program on a node: the ordinary runner, with a driver on another machine as its folder.

Everything is made of this machine's own environment: providers, keys, what is masked. What is
recorded is on this disk before it is sent, and stays until the driver has it. A driver that is gone
ends the asking: calls in flight come to their end, and are handed over when the run is gone on
with.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from clawgauge import __version__
from clawgauge import plan as planning
from clawgauge.capacity.clients import THIS_PROGRAM, LocalLoadGenerator
from clawgauge.capacity.generator import LoadCommand, LoadEnded
from clawgauge.checks import needs_shell
from clawgauge.config.providers import find_secrets, provider_settings
from clawgauge.config.settings import Settings, check_options, read_configuration
from clawgauge.config.trusted_files import state_folder
from clawgauge.errors import ClawgaugeError, ConfigError, SuiteError
from clawgauge.fleet import limits
from clawgauge.fleet.relay import Handover, RelayFolder
from clawgauge.fleet.wire import (
    PLANNING_FACTS,
    Assignment,
    DriverMessage,
    Hello,
    NodeMessage,
    Pong,
    ProviderFacts,
)
from clawgauge.host.inventory import collect_inventory
from clawgauge.journal import (
    encode_line,
    is_run_folder,
    withhold,
)
from clawgauge.journal.disk import INVENTORY, Directory
from clawgauge.journal.lines import clean
from clawgauge.journal.lock import RunLock
from clawgauge.plan import Plan, PlanDraft
from clawgauge.providers.base import Provider, ProviderSettings
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.records import Price, Prompt, ProviderProbe, Target
from clawgauge.registry import OPENAI_CHAT
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.run import Work, run
from clawgauge.runner.target import TargetRun
from clawgauge.secrets import SecretMask, mask_strings
from clawgauge.stats.load import Sample
from clawgauge.suites import check_recorded
from clawgauge.suites.drawings import NO_DRAWINGS
from clawgauge.world import can_run

_MAX_MESSAGE_BYTES = 512 << 20  # from a driver, who may send any suite
_FAREWELL_S = 5.0
_POLL_S = 0.02

Redact: TypeAlias = Callable[[str], str]
KeepSecrets: TypeAlias = Callable[[Mapping[str, str]], Redact]
"""Is told the secrets of this process, and gives what masks them."""


class OwnProviders(NamedTuple):
    """The providers of this machine, and what of them nobody may see."""

    providers: ProviderSet
    secrets: Mapping[str, str]
    redact: Redact


class NodeProgram:
    """Does what one driver tells it, until the driver leaves."""

    def __init__(self, environ: Mapping[str, str], keep_secrets: KeepSecrets) -> None:
        state = state_folder(environ)
        if state is None:
            raise ConfigError(
                "there is no folder to keep records in until they are fetched: set HOME"
            )
        self._environ = environ
        self._keep_secrets = keep_secrets
        self._spools = state / "node"
        self._messages: asyncio.Queue[DriverMessage | None] = asyncio.Queue()
        """What the driver sent, without pings and stops; None once it is gone."""
        self._running: asyncio.Future[None] | None = None
        self._relay: RelayFolder | None = None

    async def serve(self, source: int, sink: int) -> None:
        """Listen on one descriptor and answer on the other, until the driver is gone."""
        reader = await self._open_streams(source, sink)
        hello = Hello(__version__, sys.version.split()[0], socket.gethostname(), os.nice(0))
        self._send(encode_line(NodeMessage(hello=hello)))
        listening = asyncio.ensure_future(self._listen(reader))
        lock: RunLock | None = None
        try:
            self._spools.mkdir(mode=0o700, parents=True, exist_ok=True)
            # One run at a time on a machine, or two would measure each other.
            lock = RunLock(Directory(self._spools))
            await self._obey()
        except ClawgaugeError as fault:
            self._send(encode_line(NodeMessage(refused=str(fault))))
        finally:
            listening.cancel()
            if lock is not None:
                lock.release()
            await self._close_output()

    async def _open_streams(self, source: int, sink: int) -> asyncio.StreamReader:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MAX_MESSAGE_BYTES)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb")
        )
        self._output, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(sink, "wb"))
        return reader

    async def _close_output(self) -> None:
        """Close it, after what is to be sent yet, if the driver takes that in time."""
        deadline_s = time.monotonic() + _FAREWELL_S
        while not self._output.is_closing() and self._output.get_write_buffer_size():
            if time.monotonic() >= deadline_s:
                break
            await asyncio.sleep(_POLL_S)
        self._output.close()

    async def _obey(self) -> None:
        while (message := await self._messages.get()) is not None:
            if message.describe:
                providers = await self._describe_providers(self._read_own_providers())
                self._send(encode_line(NodeMessage(providers=providers)))
            elif message.assignment is not None:
                await self._carry_out(message.assignment)

    def _send(self, line: bytes) -> None:
        if not self._output.is_closing():
            self._output.write(clean(line))

    def _tell(self, line: str) -> None:
        self._send(encode_line(NodeMessage(notice=line)))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Answer pings and obey stops at once, and queue the rest, until the driver is gone."""
        with suppress(TimeoutError, OSError, ValueError, RecursionError):
            while True:
                async with asyncio.timeout(limits.SILENCE_S):
                    line = await reader.readline()
                message = msgspec.json.decode(line, type=DriverMessage)
                if message.ping is not None:
                    pong = Pong(message.ping, time.time_ns())
                    self._send(encode_line(NodeMessage(pong=pong)))
                elif message.stop and self._running is not None:
                    self._running.cancel()
                else:
                    self._messages.put_nowait(message)
        if self._relay is not None:
            self._relay.wants_more = False
        self._messages.put_nowait(None)

    def _read_own_providers(self) -> OwnProviders:
        """The providers and secrets of this machine's own configuration and environment."""
        configuration = read_configuration(None, self._environ)
        settings = provider_settings(configuration, self._environ, self._tell)
        secrets = find_secrets(settings, self._environ)
        return OwnProviders(ProviderSet(settings), secrets, self._keep_secrets(secrets))

    async def _describe_providers(self, local: OwnProviders) -> list[ProviderFacts]:
        """What every provider here says of itself, and why one cannot be had."""
        facts = []
        for name, settings in local.providers.settings.items():
            if name == OPENAI_CHAT.name and settings.base_url is None:
                continue  # the bare type has no address of its own unless one was given
            try:
                async with local.providers.create(name, concurrency=1) as provider:
                    probe = await provider.probe()
            except ConfigError as wrong:
                unreachable = ProviderProbe(provider=name, reachable=False, detail=str(wrong))
                facts.append(ProviderFacts(probe=unreachable, unusable=str(wrong)))
                continue
            probe = msgspec.structs.replace(probe, detail=local.redact(probe.detail))
            facts.append(_describe_provider(provider, probe, settings, local.secrets))
        return facts

    async def _carry_out(self, assignment: Assignment) -> None:
        """Ask the prompts of an assignment, and send what comes of it."""
        local = self._read_own_providers()
        draft = self._make_draft(assignment, local)
        spool = self._find_spool(assignment)
        relay = self._open_relay(spool)
        with relay:
            self._relay = relay
            relay.begin(assignment, self._send)
            if not relay.has(INVENTORY):
                await self._send_inventory(relay, local)
            work: Work | None = None
            if draft.capacity is not None:
                work = partial(self._make_load, assignment)
            handover = Handover(assignment, draft, self._send)
            plan = draft.complete(handover.deliver(spool))
            await self._run(plan, relay, work)
        self._send(encode_line(NodeMessage(is_end=True)))
        is_recorded = await self._wait_until_recorded()
        if is_recorded and not handover.keeps_records:
            shutil.rmtree(spool, ignore_errors=True)
        else:
            self._messages.put_nowait(None)

    async def _run(self, plan: Plan, relay: RelayFolder, work: Work | None) -> None:
        """Run a plan until its end, or until the driver stops it."""
        self._running = asyncio.ensure_future(run(plan, relay, Observer(), work=work))
        try:
            await asyncio.wait([self._running])
        finally:
            # Where this program is ended itself, the run is ended in order first.
            self._running.cancel()
            await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()

    def _find_spool(self, assignment: Assignment) -> Path:
        """The folder that keeps the records of a run until the driver has them."""
        # Two runs of one name are not the same.
        key = f"{assignment.config.run_id} {assignment.config.created_at_ms}"
        return self._spools / hashlib.sha256(key.encode()).hexdigest()[:32]

    def _open_relay(self, spool: Path) -> RelayFolder:
        if is_run_folder(spool):
            return RelayFolder.open_existing(spool)
        return RelayFolder.create(self._spools, spool.name)

    async def _send_inventory(self, relay: RelayFolder, local: OwnProviders) -> None:
        probes = [facts.probe for facts in await self._describe_providers(local)]
        inventory = await asyncio.to_thread(collect_inventory, probes, environ=self._environ)
        relay.write(INVENTORY, inventory)

    async def _wait_until_recorded(self) -> bool:
        """Wait for the driver to say that all is on its disk; returns False where it is gone."""
        while (message := await self._messages.get()) is not None:
            # All else was sent of a load before its end was heard.
            if message.is_recorded:
                return True
        return False

    async def _make_load(
        self,
        assignment: Assignment,
        context: RunContext,
        runs: Mapping[Target, TargetRun],
        clock: ClientClock,
    ) -> None:
        """Make the calls of a load as the driver commands, until it ends the load or is gone."""
        origin_ns = time.perf_counter_ns() - (time.time_ns() - assignment.origin_ns)
        target_run = next(iter(runs.values()))
        generator = LocalLoadGenerator(context, target_run, clock, origin_ns, assignment.place)
        try:
            async with asyncio.TaskGroup() as group:
                getting_ready = group.create_task(generator.get_ready())
                generator.attach(group, _LoadReporter(self._send))
                await self._obey_load(generator, group, getting_ready)
                # The driver is gone: calls in flight come to their end.
                getting_ready.cancel()
                generator.apply(LoadCommand())
                self._messages.put_nowait(None)
        except* LoadEnded:
            pass  # what is under way is given up
        finally:
            await generator.records.flush()

    async def _obey_load(
        self,
        generator: LocalLoadGenerator,
        group: asyncio.TaskGroup,
        getting_ready: asyncio.Task[None],
    ) -> None:
        """Obey until the driver is gone. Raises `LoadEnded` where it ends the load."""

        async def send_lateness() -> None:
            await asyncio.wait([getting_ready])
            lateness = await generator.read_lateness()
            self._send(encode_line(NodeMessage(lateness=lateness[THIS_PROGRAM])))

        while (message := await self._messages.get()) is not None:
            if message.command is not None:
                generator.apply(message.command)
            elif message.probe is not None:
                group.create_task(generator.probe(*message.probe))
            elif message.read_lateness:
                group.create_task(send_lateness())
            else:
                raise LoadEnded

    def _make_draft(self, assignment: Assignment, local: OwnProviders) -> PlanDraft:
        """The plan as far as this machine has to decide and to check it anew."""
        config = assignment.config
        settings = Settings(**msgspec.structs.asdict(config.options))
        check_options(settings)
        _check_prompts(config.prompts, local)
        withhold(local.secrets, encode_line((config.prompts, config.targets)).decode())
        planning.check_targets(config.targets, local.providers, local.secrets)
        concurrency = planning.fit_concurrency(
            settings, config.targets, local.providers, self._tell
        )
        asked_keys = set(assignment.asked)
        prices: dict[Target, Price] = {}
        for target in config.targets:
            price = config.prices.get(target.label)
            if price is not None:
                prices[target] = price
        return PlanDraft(
            settings=msgspec.structs.replace(settings, concurrency=concurrency),
            prompts=config.prompts,
            asked=[prompt for prompt in config.prompts if prompt.key in asked_keys],
            suites=[],
            context=None,
            targets=config.targets,
            providers=local.providers,
            prices=prices,
            free=frozenset(assignment.free),
            capacity=config.capacity,
            decision=None,
            drawings=NO_DRAWINGS,
            jobs={},
            config_file=None,
            environ=self._environ,
            secrets=local.secrets,
            redact=local.redact,
        )


def _describe_provider(
    provider: Provider,
    probe: ProviderProbe,
    settings: ProviderSettings,
    secrets: Mapping[str, str],
) -> ProviderFacts:
    unusable = None
    if settings.api_key is None and settings.api_key_env:
        unusable = (
            f"{settings.name} needs {settings.api_key_env}, "
            "which a command without a terminal does not see there: set it"
        )
    description = mask_strings(provider.describe(), SecretMask(secrets).mask)
    planning_facts = {name: getattr(provider, name) for name in PLANNING_FACTS}
    return ProviderFacts(probe, unusable, description, **planning_facts)


def _check_prompts(prompts: list[Prompt], local: OwnProviders) -> None:
    """Refuse prompts that cannot be asked here, or have one of this machine's keys in them."""
    if any(needs_shell(prompt) for prompt in prompts) and not can_run():
        raise ConfigError("the package bashkit is not installed there, which these prompts need")
    check_recorded(prompts, Path("config.json"))
    texts_by_prompt = {}
    for prompt in prompts:
        text = msgspec.json.encode(prompt).decode()
        texts_by_prompt[f"prompt {prompt.suite}/{prompt.id}"] = [text]
    planning.refuse_secrets(texts_by_prompt, local.secrets, SuiteError)


class _LoadReporter:
    """Tells the driver which clients have left; it hears of calls by their records."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send

    def call_ended(self, step: str, sample: Sample) -> None:
        pass

    def client_left(self, number: int) -> None:
        self._send(encode_line(NodeMessage(client_left=number)))
