"""The program on a node: the ordinary runner, with a driver on another machine as its folder.

Everything is made of this machine's own environment: providers, keys, what is masked. What is recorded is on this disk
before it is sent, and stays until the driver has it. A driver that is gone ends the asking: calls in flight come to
their end, and are handed over when the run is gone on with."""

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
from typing import Any, NamedTuple

import msgspec

from clawgauge import __version__
from clawgauge import plan as planning
from clawgauge.capacity.load import Go, Machine, Over
from clawgauge.checks import needs_shell
from clawgauge.config.providers import find_secrets, provider_settings
from clawgauge.config.settings import Settings, check_options, read_configuration, state_folder
from clawgauge.errors import ClawgaugeError, ConfigError, SuiteError
from clawgauge.fleet import limits, wire
from clawgauge.fleet.wire import Facts, Item, Order
from clawgauge.host.inventory import collect_inventory
from clawgauge.journal import (
    cell_key,
    encode_document,
    encode_line,
    is_run_folder,
    iter_results,
    withhold,
)
from clawgauge.journal.disk import INVENTORY, Directory
from clawgauge.journal.folder import RunFolder
from clawgauge.journal.lines import KEY_WITHHELD, clean
from clawgauge.journal.lock import RunLock
from clawgauge.plan import Evidence, OpenWork, PlanDraft
from clawgauge.providers.provider_set import ProviderSet
from clawgauge.records import Event, ProviderProbe, Result, Target
from clawgauge.registry import OPENAI_CHAT
from clawgauge.runner.agenda import tier_pool
from clawgauge.runner.clock import ClientClock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.run import run
from clawgauge.runner.target import TargetRun
from clawgauge.secrets import SecretMask, mask_strings
from clawgauge.suites import check_recorded
from clawgauge.world import can_run

_FAREWELL_S, _POLL_S = 5.0, 0.02


class Relay(RunFolder):
    """The folder the runner writes: a spool on this disk, from which everything goes on to the driver's own."""

    def begin(self, work: wire.Work, send: Callable[[bytes], None]) -> None:
        self.run_id, self._has, self._send = work.config.run_id, work.has, send

    def has(self, name: str) -> bool:
        return name in self._has

    def write(self, name: str, document: Any) -> None:
        text = document if isinstance(document, str) else encode_document(document).decode()
        self._send(encode_line(Item(file=(name, text))))

    async def append(self, result: Result) -> None:
        await super().append(result)
        self._send(_as_line(result))

    def event(self, event: Event) -> None:
        super().event(event)
        self._send(encode_line(Item(event=event)))


def _as_line(result: Result) -> bytes:
    return b'{"result":' + clean(encode_line(result), KEY_WITHHELD).rstrip(b"\n") + b"}\n"


class Own(NamedTuple):
    """What a node asks with: its own providers, and what of them nobody may see."""

    providers: ProviderSet
    secrets: Mapping[str, str]
    redact: Callable[[str], str]


class Node:
    """Obeys one driver until it leaves. `keep` is told every secret, and gives what masks them."""

    def __init__(
        self, environ: Mapping[str, str], keep: Callable[[Mapping[str, str]], Callable[[str], str]]
    ) -> None:
        self._environ, self._keep_secrets, state = environ, keep, state_folder(environ)
        if state is None:
            raise ConfigError(
                "there is no folder to keep records in until they are fetched: set HOME"
            )
        self._root = state / "node"
        self._orders: asyncio.Queue[Order | None] = asyncio.Queue()
        self._running: asyncio.Future[None] | None = None
        self._relay: Relay | None = None
        self._keeps = False

    async def serve(self, source: int, sink: int) -> None:
        """Listen on one descriptor and answer on the other, until the driver is gone."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=wire.ORDER_CAP_BYTES)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb")
        )
        self._out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(sink, "wb"))
        self._send(
            encode_line(
                Item(hello=(__version__, sys.version.split()[0], socket.gethostname(), os.nice(0)))
            )
        )
        listening, lock = asyncio.ensure_future(self._listen(reader)), None
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            # One run at a time on a machine, or two would measure each other.
            lock = RunLock(Directory(self._root))
            while (order := await self._orders.get()) is not None:
                if order.look:
                    self._send(encode_line(Item(seen=await self._look(self._read_own()))))
                elif order.work is not None:
                    await self._do(order.work)
        except ClawgaugeError as fault:
            self._send(encode_line(Item(refused=str(fault))))
        finally:
            listening.cancel()
            if lock is not None:
                lock.release()
            until_s = time.monotonic() + _FAREWELL_S
            while (  # noqa: ASYNC110
                not self._out.is_closing()
                and self._out.get_write_buffer_size()
                and time.monotonic() < until_s
            ):
                await asyncio.sleep(_POLL_S)
            self._out.close()

    def _send(self, line: bytes) -> None:
        if not self._out.is_closing():
            self._out.write(clean(line))

    def _tell(self, line: str) -> None:
        self._send(encode_line(Item(said=line)))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(TimeoutError, OSError, ValueError, RecursionError):
            while True:
                async with asyncio.timeout(limits.SILENCE_S):
                    line = await reader.readline()
                order = msgspec.json.decode(line, type=Order)
                if order.ping is not None:
                    self._send(encode_line(Item(pong=(order.ping, time.time_ns()))))
                elif order.stop and self._running is not None:
                    self._running.cancel()
                else:
                    self._orders.put_nowait(order)
        if self._relay is not None:
            self._relay.wants_more = False
        self._orders.put_nowait(None)

    def _read_own(self) -> Own:
        """The providers and secrets of this machine's own configuration and environment."""
        configuration = read_configuration(None, self._environ)
        providers = provider_settings(configuration, self._environ, self._tell)
        secrets = find_secrets(providers, self._environ)
        return Own(ProviderSet(providers), secrets, self._keep_secrets(secrets))

    async def _look(self, own: Own) -> list[Facts]:
        """What every provider here says of itself, and why one cannot be had."""
        seen, mask = [], SecretMask(own.secrets).mask
        for name, settings in own.providers.settings.items():
            if name == OPENAI_CHAT.name and settings.base_url is None:
                continue  # the bare type has no address of its own unless one was given
            try:
                async with own.providers.create(name, concurrency=1) as provider:
                    probe = await provider.probe()
            except ConfigError as wrong:
                seen.append(
                    Facts(
                        ProviderProbe(provider=name, reachable=False, detail=str(wrong)), str(wrong)
                    )
                )
                continue
            probe = msgspec.structs.replace(probe, detail=own.redact(probe.detail))
            key = settings.api_key_env if settings.api_key is None else None
            why = (
                f"{name} needs {key}, which a command without a terminal does not see there: set it"
                if key
                else None
            )
            told = [getattr(provider, field) for field in Facts.__struct_fields__[3:]]
            seen.append(Facts(probe, why, mask_strings(provider.describe(), mask), *told))
        return seen

    async def _do(self, work: wire.Work) -> None:
        # Two runs of one name are not the same.
        key = f"{work.config.run_id} {work.config.created_at_ms}"
        own = self._read_own()
        draft, place = (
            self._draft_of(work, own),
            self._root / hashlib.sha256(key.encode()).hexdigest()[:32],
        )
        relay = (
            Relay.open_existing(place)
            if is_run_folder(place)
            else Relay.create(self._root, place.name)
        )
        with relay:
            self._relay = relay
            relay.begin(work, self._send)
            if not relay.has(INVENTORY):
                probes = [one.probe for one in await self._look(own)]
                relay.write(
                    INVENTORY,
                    await asyncio.to_thread(collect_inventory, probes, environ=self._environ),
                )
            follows = partial(self._follow, work) if draft.capacity else None
            plan = draft.complete(self._hand_over(draft, work, place))
            self._running = asyncio.ensure_future(run(plan, relay, Observer(), work=follows))
            try:
                await asyncio.wait([self._running])
            finally:
                # Where we are ended ourselves, the run is ended in order first.
                self._running.cancel()
                await asyncio.wait([self._running])
            if not self._running.cancelled():
                self._running.result()
        self._send(encode_line(Item(end=True)))
        while (order := await self._orders.get()) is not None and not order.kept:
            pass  # what was said of a load before its end was heard
        if order is not None and not self._keeps:
            shutil.rmtree(place, ignore_errors=True)
        else:
            self._orders.put_nowait(None)

    async def _follow(
        self,
        work: wire.Work,
        context: RunContext,
        runs: Mapping[Target, TargetRun],
        clock: ClientClock,
    ) -> None:
        """Make the calls of a load that the driver tells of, until it tells of none or is gone."""
        origin_ns = time.perf_counter_ns() - (time.time_ns() - work.origin_ns)
        machine = Machine(context, next(iter(runs.values())), clock, origin_ns, work.place)

        async def report() -> None:
            await asyncio.wait([ready])
            [late] = (await machine.mark()).values()
            self._send(encode_line(Item(late=late)))

        try:
            async with asyncio.TaskGroup() as group:
                ready = group.create_task(machine.get_ready())
                machine.enter(
                    group,
                    lambda *_: None,
                    lambda number: self._send(encode_line(Item(left=number))),
                )
                while (order := await self._orders.get()) is not None:
                    if order.go is not None:
                        machine.go(order.go)
                    elif order.brief is not None or order.mark:
                        group.create_task(
                            machine.ask_briefly(*order.brief) if order.brief else report()
                        )
                    else:
                        raise Over
                # The driver is gone: calls in flight come to their end.
                ready.cancel()
                machine.go(Go())
                self._orders.put_nowait(None)
        except* Over:
            pass  # what is under way is given up
        finally:
            await machine.records.flush()

    def _hand_over(self, plan: PlanDraft, work: wire.Work, spool: Path) -> OpenWork:
        """Send what an earlier stretch recorded and could not deliver: it is done, and is not asked again."""
        done, evidence, asked = (
            set(work.done),
            dict(work.evidence),
            {prompt.key for prompt in plan.asked},
        )
        pool, results = {prompt.key for prompt in tier_pool(plan.prompts)}, iter_results(spool)
        for result in results:
            owed = (key := cell_key(result)) not in done and result.availability_status == "ok"
            is_asked = result.prompt in asked or (
                plan.capacity is not None and result.target in plan.targets
            )
            self._keeps |= owed and not is_asked  # for a stretch that asks for it
            if owed and is_asked:
                done.add(key)
                seen = evidence.setdefault(result.target, Evidence())
                seen.n_calls += 1
                seen.cost_usd += result.cost_usd or 0.0
                seen.n_pool += result.prompt in pool
                seen.asked += (
                    [(result.prompt, result.tool_use_success)] if result.repeat == 0 else []
                )
                self._send(_as_line(result))
        labels = {None, *(target.label for target in plan.targets)}
        for event in [event for event in results.events if event.target in labels]:
            self._send(encode_line(Item(event=event)))
        return OpenWork(done, frozenset(), evidence, work.beside_usd, work.stretch)

    def _draft_of(self, work: wire.Work, own: Own) -> PlanDraft:
        config, asked = work.config, set(work.asked)
        settings, prompts = Settings(**msgspec.structs.asdict(config.options)), config.prompts
        check_options(settings)
        if any(map(needs_shell, prompts)) and not can_run():
            raise ConfigError(
                "the package bashkit is not installed there, which these prompts need"
            )
        check_recorded(prompts, Path("config.json"))
        texts = {
            f"prompt {one.suite}/{one.id}": [msgspec.json.encode(one).decode()] for one in prompts
        }
        planning.refuse_secrets(texts, own.secrets, SuiteError)
        withhold(own.secrets, encode_line((prompts, config.targets)).decode())
        planning.check_targets(config.targets, own.providers, own.secrets)
        concurrency = planning.fit_concurrency(settings, config.targets, own.providers, self._tell)
        return PlanDraft(
            settings=msgspec.structs.replace(settings, concurrency=concurrency),
            prompts=prompts,
            asked=[prompt for prompt in prompts if prompt.key in asked],
            suites=[],
            context=None,
            targets=config.targets,
            providers=own.providers,
            prices={
                t: price
                for t in config.targets
                if (price := config.prices.get(t.label)) is not None
            },
            free=frozenset(work.free),
            capacity=config.capacity,
            jobs={},
            config_file=None,
            environ=self._environ,
            secrets=own.secrets,
            redact=own.redact,
        )
