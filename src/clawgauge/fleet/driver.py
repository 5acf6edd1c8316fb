"""The driver's side: who is there, which targets they have, the work handed out, and the one folder written.

What a node sends is trusted no more than what a server sends: it may only add records of its own targets, of cells that
were planned and have none, and files and events by names that are known."""

from __future__ import annotations

import asyncio
import fnmatch
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import msgspec
from msgspec.structs import asdict
from msgspec.structs import replace as change

from clawgauge.config.providers import Tell
from clawgauge.config.settings import Configuration, Settings
from clawgauge.errors import CallFailure, ConfigError, TargetError
from clawgauge.fleet import limits, wire
from clawgauge.fleet.wire import Member, NodeLost, Order, Talk, talking
from clawgauge.journal import cell_key, encode_line, iter_results, resource_tag
from clawgauge.journal.disk import INVENTORY
from clawgauge.journal.folder import RunFolder
from clawgauge.json_limits import find_excess
from clawgauge.outcomes import CallOutcome, CellOutcome
from clawgauge.plan import Plan
from clawgauge.prices import host_of
from clawgauge.providers.base import (
    Call,
    Provider,
    ProviderSettings,
    Sampling,
    Sink,
    create_provider,
)
from clawgauge.proxies import is_loopback
from clawgauge.records import (
    CellRow,
    Event,
    Inventory,
    ModelInfo,
    ProviderProbe,
    Result,
    RunConfig,
    RunOptions,
    Target,
)
from clawgauge.records.result import as_count
from clawgauge.registry import OLLAMA_OPENAI, PROVIDER_TYPES, find_type
from clawgauge.run_data import Run
from clawgauge.runner.agenda import Cell, cost_budget, make_agenda
from clawgauge.runner.context import Observer
from clawgauge.runner.record import RAW_OUTPUT_CAP_BYTES, STRING_CAP_BYTES, Source, make_result
from clawgauge.suites.prompt import DEFAULT_MAX_TURNS

# Your own configuration, agent and keys, but nobody is asked for anything; a pulled cable is noticed in ten seconds.
_SSH = (
    "ssh",
    "-T",
    "-a",
    "-x",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=3",
)
_LEAVE_S = 10.0  # after Ctrl-C: what is recorded there by then comes along
_EVENTS = (
    "target_started",
    "target_finished",
    "warm_up",
    "retry",
    "skip",
    "decided",
    "undecided",
    "budget_spent",
)
_SENT = ("schema_version", "run_id", "created_at_ms", "clawgauge_version", "prompts_sha256")
_EVENT_BYTES = 1024  # what a node may tell of each cell and retry


class Elsewhere(Provider):
    """A provider of a node, as far as planning needs one. It is asked there, never here."""

    def __init__(self, member: Member, facts: wire.Facts, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self._member, self._facts = member, facts
        for name in facts.__struct_fields__[3:]:
            setattr(self, name, getattr(facts, name))
        self._twin = _make_twin(facts, settings)
        if self._twin is not None:
            self.fixed_max_tokens = self._twin.fixed_max_tokens

    async def attempt(self, call: Call, sink: Sink) -> None:
        raise CallFailure("error", "exception", f"{self.name} is asked on its node")

    def sampling(self, call: Call) -> Sampling:
        """What the node will send: the same version is there, and decides as it would here."""
        return super().sampling(call) if self._twin is None else self._twin.sampling(call)

    def why_not_level(self, model: str, level: str) -> str | None:
        if self._twin is None:
            return super().why_not_level(model, level)
        return self._twin.why_not_level(model, level)

    async def probe(self) -> ProviderProbe:
        return change(self._facts.probe, provider=self.name)

    async def models(self) -> list[ModelInfo]:
        if not self._facts.probe.reachable:
            raise CallFailure("skipped_unavailable", "connection_refused", self._facts.probe.detail)
        return self._facts.probe.models

    def check_here(self, model: str) -> None:
        """An Ollama lists all it has: what it has not is not asked."""
        listed = {one.name.removesuffix(":latest") for one in self._facts.probe.models}
        if (
            find_type(self.settings.type).is_ollama
            and listed
            and model.removesuffix(":latest") not in listed
        ):
            raise CallFailure(
                "skipped_unavailable",
                "model_not_found",
                f"no model {model!r} on {self._member.name}",
            )

    def describe(self) -> dict[str, Any]:
        """As the node does; its own loopback is nobody else's, and has an address for others or none."""
        told: dict[str, Any] = {**self._facts.described, "node": self._member.name}
        url, there = str(told.get("base_url")), f"//{self._member.address or 'localhost'}"
        if is_loopback(host_of(url)):
            url = re.sub(r"//([^/?#]*@)?(\[.*?\]|[^:/?#]*)", lambda _: there, url, count=1)
            told["base_url"] = None if is_loopback(host_of(url)) else url
        return told


def _make_twin(facts: wire.Facts, settings: ProviderSettings) -> Provider | None:
    """A provider of the same built-in type with the same `extra_body`, which is asked nothing but what it would send;
    None for a type that is not known here."""
    kind = str(facts.described.get("type"))
    if kind not in PROVIDER_TYPES:
        return None
    extra_body = facts.described.get("extra_body")
    extra = {"extra_body": extra_body} if isinstance(extra_body, dict) else {}
    return create_provider(ProviderSettings(settings.name, kind, "http://localhost", extra=extra))


def find_members(configuration: Configuration, names: Sequence[str]) -> list[Member]:
    """The nodes of these names. Of a cluster's, which are called by its name and their own, one stands for all."""
    clusters = [name for name, table in configuration.nodes.items() if table.ray]
    found = (
        next((name for name in clusters if node.startswith(f"{name}-")), node) for node in names
    )
    members: list[Member] = []
    for name in dict.fromkeys(found):
        table = configuration.find_node(name)
        if table.ray is not None:
            from clawgauge.fleet.rays import find_machines

            members += find_machines(name, table)
        else:
            members.append(
                Member(name, [*_SSH, "--", table.ssh or "", f"{table.command} node"], table.address)
            )
    return members


async def look(member: Member, tell: Tell) -> None:
    """Ask a node what it has, and read its clock."""
    async with talking(member, tell) as talk:
        talk.say(Order(look=True))
        member.seen = (await talk.hear()).seen or []
        await talk.read_clock()
    tell(member.describe())


async def probe_nodes(
    configuration: Configuration, names: Sequence[str], tell: Tell
) -> list[ProviderProbe]:
    """What these nodes have, by the names that a run gives it, or why one cannot be had."""

    async def ask(member: Member) -> list[ProviderProbe]:
        try:
            await look(member, tell)
        except NodeLost as lost:
            return [ProviderProbe(provider=member.name, reachable=False, detail=str(lost))]
        return [
            change(one.probe, provider=f"{member.name}.{one.probe.provider}") for one in member.seen
        ]

    members = find_members(configuration, [name.strip() for name in names])
    return [probe for found in await asyncio.gather(*map(ask, members)) for probe in found]


@dataclass(frozen=True, slots=True)
class JoinedNodes:
    """The machines that ask a run's models, and their `providers` by the names that targets have here."""

    members: Sequence[Member]
    providers: Mapping[str, ProviderSettings]
    tell: Tell

    async def drive(
        self,
        plan: Plan,
        folder: RunFolder,
        observer: Observer,
        load: Callable[..., Awaitable[None]] | None = None,
    ) -> None:
        """A stretch of a run: every node asks its targets, or they make a `load` together.

        Returns when all is recorded; cancelled, after a farewell.
        """
        outcome = "interrupted"
        options = plan.settings.recorded()
        note(folder, "stretch_started", stretch=plan.work.stretch, options=asdict(options))
        try:
            await (load or _drive_parts)(self.members, options, plan, folder, observer, self.tell)
            outcome = "finished"
        finally:
            note(folder, "stretch_ended", stretch=plan.work.stretch, outcome=outcome)


async def join(
    settings: Settings,
    config: Configuration,
    names: Sequence[str],
    tell: Tell,
    *,
    together: bool = False,
) -> JoinedNodes:
    """The nodes of these names, with their providers. Who cannot be had is refused: nothing is paid for.

    With `together`, a provider without a node's name before it is one that all of them ask at once."""
    members = find_members(config, names)
    if settings.interleave:
        what = "--swap changes between models" if together else "--interleave takes turns"
        raise ConfigError(f"{what} on one machine: leave it out with --nodes")
    if settings.max_cost_usd is not None and (together or len(members) > 1):
        other = (
            "load what is paid for from here alone"
            if together
            else "give it to one, or use --max-calls"
        )
        raise ConfigError(f"--max-cost cannot be kept by several nodes at once: {other}")
    await asyncio.gather(*(look(member, tell) for member in members))
    providers: dict[str, ProviderSettings] = {}
    shared: dict[str, list[wire.Facts]] = {}
    for member in members:
        for facts in member.seen:
            name, kind = f"{member.name}.{facts.probe.provider}", str(facts.described.get("type"))
            why, make = (
                facts.unusable and f"node {member.name}: {facts.unusable}",
                partial(Elsewhere, member, facts),
            )
            providers[name] = ProviderSettings(name, kind, unusable=why, make=make)
            shared.setdefault(facts.probe.provider, []).append(facts)
    all_of_them = Member(",".join(member.name for member in members), [], members[0].address)
    for name, (facts, *_) in shared.items() if together else ():
        why, make = _why_not_one(name, members, providers), partial(Elsewhere, all_of_them, facts)
        providers[name] = ProviderSettings(
            name, str(facts.described.get("type")), unusable=why, make=make
        )
    return JoinedNodes(members, providers, tell)


def _why_not_one(
    name: str, members: Sequence[Member], providers: Mapping[str, ProviderSettings]
) -> str | None:
    """Why what nodes have under one name is not one server that all of them can load; None where it is."""
    places: dict[str, tuple[str | None, str]] = {}
    for member in members:
        if (one := providers.get(f"{member.name}.{name}")) is None or one.unusable:
            return one.unusable if one else f"node {member.name}: it has no provider {name!r}"
        described = next(facts.described for facts in member.seen if facts.probe.provider == name)
        url, host = described.get("base_url"), (member.hello or ("", "", ""))[2]
        # Its own process is nobody else's, and its loopback that of its machine.
        own = member.name if url is None else host if is_loopback(host_of(str(url))) else ""
        places[member.name] = url, own
    at = ", ".join(
        f"{node} has it {f'at {url}' if url else 'by itself'}" for node, (url, _) in places.items()
    )
    each = f"give them one address, or load each by itself with -t '*.{name}:MODEL'"
    return (
        None
        if len({*places.values()}) == 1
        else f"{name} is not one server for all nodes ({at}): {each}"
    )


def spell_out(providers: Mapping[str, ProviderSettings], texts: Sequence[str]) -> list[str]:
    """Targets on the nodes, with every one that a `*` stands for."""
    ours, spelled = [name for name, one in providers.items() if one.make is not None], []
    for text in texts or [f"*.{OLLAMA_OPENAI.name}:*"]:
        provider, _, model = text.removeprefix("!").partition(":")
        if not (names := fnmatch.filter(ours, provider)):
            raise TargetError(
                f"target {text!r} is on none of the nodes, which have {', '.join(ours)}"
            )
        spelled += [f"{'!' * text.startswith('!')}{name}:{model}" for name in names]
    return spelled


async def _drive_parts(
    members: Sequence[Member], options: RunOptions, plan: Plan, *run: Any
) -> None:
    """Have every node ask its targets, side by side."""
    parts, cost = [Part(member, plan, *run) for member in members], cost_budget(plan)
    async with asyncio.TaskGroup() as group:
        for part in parts:
            if any(make_agenda(plan, target, cost).n_open for target in part.own.values()):
                group.create_task(part.drive(options))


class Part:
    """One node's part of a run, and what may come of it."""

    lost = "what it was still to ask is recorded as node_lost"

    def __init__(
        self,
        member: Member,
        plan: Plan,
        folder: RunFolder,
        observer: Observer,
        tell: Tell,
        *,
        targets: Sequence[Target] | None = None,
    ) -> None:
        """`targets` are those of the plan that bear the node's name, unless they are given."""
        self._member, self._plan, self._folder, self._observer, self._tell = (
            member,
            plan,
            folder,
            observer,
            tell,
        )
        # By the names that the node knows them by.
        prefix = f"{member.name}."
        if targets is None:
            targets = [target for target in plan.targets if target.provider.startswith(prefix)]
        self.own = {
            change(target, provider=target.provider.removeprefix(prefix)): target
            for target in targets
        }
        self._agendas = {target: make_agenda(plan, target) for target in self.own.values()}
        self._prompts = {prompt.key: prompt for prompt in plan.asked}
        self._recorded = set(plan.work.done)
        # An event of a node is the same when it is told again, whatever its clock was taken to be meanwhile.
        before = Run.open(folder.path).events if plan.work.stretch else []
        self._told = {encode_line(change(event, at_ms=0)) for event in before}
        n_cells = len(self.own) * len(plan.prompts) * plan.settings.repeats
        self._event_bytes_left = _EVENT_BYTES * (n_cells + 16) * (plan.settings.max_retries + 2)
        self._n_cells = n_cells
        self._n_records = 0
        self._files_taken: set[str] = set()
        self._files = {INVENTORY: f"inventory_{member.name}.json"}
        for moment in ("before", "after"):
            there = {one: change(one, provider=f"{prefix}{one.provider}") for one in self.own}
            tags = [(resource_tag(a), resource_tag(b)) for a, b in there.items()]
            self._files |= {
                f"resources_{a}_{moment}.txt": f"resources_{b}_{moment}.txt" for a, b in tags
            }

    async def drive(self, options: RunOptions) -> None:
        """Hand out the work and record what comes of it, a lost node among that."""
        member = self._member
        try:
            async with talking(member, self._tell) as talk:
                hello = dict[str, Any](
                    zip(("version", "python", "host", "nice"), member.hello or (), strict=False)
                )
                hello |= {"offset_ms": member.offset_ms, "error_ms": member.error_ms}
                note(self._folder, "node_joined", node=member.name, **hello)
                for target, agenda in self._agendas.items():
                    self._observer.target_started(target, agenda.n_open)
                talk.begin_work(self.max_bytes(), self.max_idle_s(options))
                talk.say(Order(work=self.work(options)))
                try:
                    await self.take(talk)
                except asyncio.CancelledError:
                    talk.say(Order(stop=True))
                    with suppress(NodeLost, TimeoutError):
                        async with asyncio.timeout(_LEAVE_S):
                            await self.take(talk)
                    raise
        except NodeLost as lost:
            why = self._plan.redact(str(lost))
            note(self._folder, "node_lost", node=member.name, why=why)
            self._tell(f"{why}; {self.lost}")
            await self._give_up(CallFailure("skipped_unavailable", "node_lost", why))

    def max_bytes(self) -> int:
        """What may come of the work, beside what every node may say."""
        return limits.bytes_of_cells(self._n_cells) + self._event_bytes_left

    def max_idle_s(self, options: RunOptions) -> float:
        """How long the node may take for anything of its work: a task's turns are one record."""
        n_turns = 1
        for prompt in self._plan.asked:
            if prompt.world is not None:
                n_turns = max(n_turns, prompt.max_turns or DEFAULT_MAX_TURNS)
        return limits.idle_s(options.timeout_s, n_turns, options.max_wait_s)

    def work(self, options: RunOptions) -> wire.Work:
        plan, work, config = self._plan, self._plan.work, Run.open(self._folder.path).config
        assert config is not None  # noqa: S101  # the run was begun with it
        plain, seen = {own: plain for plain, own in self.own.items()}, work.evidence
        done = ((plain.get(Target(*key[:3])), key) for key in work.done)
        known: dict[str, Any] = {
            "models": [],
            "suites": [],
            **{name: getattr(config, name) for name in _SENT},
        }
        known["prices"] = {
            plain[own].label: price for own, price in plan.prices.items() if own in plain
        }
        known |= {"prompts": plan.prompts, "capacity": plan.capacity}
        return wire.Work(
            config=RunConfig(**known, targets=list(self.own), options=options), asked=list(self._prompts),
            free=[plain[own] for own in plan.free if own in plain], beside_usd=work.beside_usd, stretch=work.stretch,
            done=[key._replace(provider=one.provider) for one, key in done if one is not None],
            evidence=[(one, seen[own]) for own, one in plain.items() if own in seen],
            has=[name for name, own in self._files.items() if self._folder.has(own)],
        )  # fmt: skip

    async def take(self, talk: Talk) -> None:
        """Record what the node sends until it says that this was all; then it need keep it no longer."""
        while not (item := await talk.hear()).end:
            if await self.keep(item):
                talk.note_progress()
        await self.flush()
        # A cell that counts as lost may be answered there: that is fetched once the cell is open again.
        rows = iter_results(self._folder.path, CellRow) if self._plan.work.stretch else ()
        lost = {row.provider for row in rows if row.failure_type == "node_lost"}
        talk.say(Order(kept=not any(target.provider in lost for target in self._agendas)))

    async def keep(self, item: wire.Item) -> bool:
        """Record what may be recorded. Whether it was anything new."""
        if item.result is not None:
            self.count_record()
            result = self.check(item.result)
            key = cell_key(result)
            if key in self._recorded:
                return False
            self._recorded.add(key)
            await self.record(result)
            return True
        if item.event is not None and item.event.event != "stretch_started":
            return self._keep_event(item.event)
        if item.file is not None:
            self._write(*item.file)
            return True
        return False

    def count_record(self) -> None:
        self._n_records += 1
        most = limits.records_of_cells(self._n_cells)
        if self._n_records > most:
            self.refuse(f"more than the {most:,} records its work can have")

    def refuse(self, what: str) -> NoReturn:
        raise NodeLost(f"node {self._member.name} sent {what}: nothing more is taken from it")

    def check(self, result: Result, **ours: Any) -> Result:
        """The record as it is ours; one that none may send is refused."""
        target, prompt = self.own.get(result.target), self._prompts.get(result.prompt)
        if prompt is not None and 0 <= result.repeat < self._plan.settings.repeats:
            ours = {"prompt_name": prompt.name, "expected_tools": prompt.expected_tools}
        if target is None or not ours:
            self.refuse("a record of what is not its to ask")
        shift_ms = round(self._member.offset_ms)
        # Labels on our wall clock; durations are as they were measured there.
        began_ms, over_ms = result.started_at_ms - shift_ms, result.ended_at_ms - shift_ms
        if abs(began_ms) + abs(over_ms) > limits.MAX_COUNT:
            self.refuse("a time that cannot be")
        words = [
            result.error,
            result.failure_type,
            result.model_reported,
            result.finish_reason,
            result.tools_unseen,
            result.not_judged,
            *result.warnings,
        ]
        texts = [result.raw_output, result.reasoning_text, result.violation]
        n_words, n_texts = (len("".join(filter(None, some))) for some in (words, texts))
        if n_words > 2 * STRING_CAP_BYTES or n_texts > 3 * RAW_OUTPUT_CAP_BYTES:
            self.refuse("a record with more in it than any of ours has")
        ours |= {
            "run_id": self._folder.run_id,
            "provider": target.provider,
            "node": self._member.name,
        }
        return change(result, **ours, started_at_ms=began_ms, ended_at_ms=over_ms)

    async def record(self, result: Result) -> None:
        agenda = self._agendas[result.target]
        if agenda.take(Cell(self._prompts[result.prompt], result.repeat)) is not None:
            agenda.learn(result)
        await self._folder.append(result)
        self._observer.recorded(result.target, result)

    async def flush(self) -> None:
        """Until all that was taken is on disk."""

    def _keep_event(self, event: Event) -> bool:
        """Whether it is one that was not told before."""
        target = next((own for plain, own in self.own.items() if plain.label == event.target), None)
        if event.event != "stretch_ended" and (event.event not in _EVENTS or target is None):
            self.refuse("an event that is not of its targets")
        name = "node_left" if target is None else event.event
        detail = {**event.detail, "node": self._member.name, "node_at_ms": event.at_ms}
        kept = Event(event=name, at_ms=0, target=target.label if target else None, detail=detail)
        line = encode_line(kept)
        if line in self._told:
            return False
        self._told.add(line)
        self._event_bytes_left -= len(line)
        if self._event_bytes_left < 0 or abs(event.at_ms) > limits.MAX_COUNT:
            self.refuse("more events than its work can have, or one of a time that cannot be")
        self._folder.event(change(kept, at_ms=event.at_ms - round(self._member.offset_ms)))
        if name == "node_left":
            self._report_given_up(event.detail)
        elif target is not None and name == "target_finished":
            self._observer.target_finished(target)
        elif target is not None and "not_asked" in event.detail:
            # What a node says of itself may be anything.
            with suppress(KeyError, TypeError, ValueError):
                self._observer.stopped(target, name, event.detail)
        return True

    def _report_given_up(self, detail: Mapping[str, Any]) -> None:
        """The calls that a node gave up when it ended; of an earlier stretch they were reported then."""
        n_calls = as_count(detail.get("given_up"), below=self._n_cells + 1)
        if n_calls and detail.get("stretch") == self._plan.work.stretch:
            self._observer.calls_given_up(n_calls)

    def _write(self, name: str, text: str) -> None:
        if name not in self._files:
            self.refuse("a file that is not of its work")
        if name in self._files_taken:
            self.refuse("a file of its work for the second time")
        self._files_taken.add(name)
        document: Inventory | str = text
        if name == INVENTORY:
            if find_excess(text.encode("utf-8", "replace"), limits.DOCUMENT) is not None:
                self.refuse("an inventory with more in it than any machine has")
            try:
                document = msgspec.json.decode(text, type=Inventory)
            except (msgspec.DecodeError, RecursionError):
                self.refuse("an inventory that cannot be read")
        self._folder.write(self._files[name], document)

    async def _give_up(self, failure: CallFailure) -> None:
        await self.flush()
        now_ms = time.time_ns() // 1_000_000
        unasked = CellOutcome(call=CallOutcome.not_sent(failure, now_ms))
        for target, agenda in self._agendas.items():
            source = Source(
                self._folder.run_id, self._plan.work.stretch, target, self._plan.redact, None
            )
            while (cell := agenda.take()) is not None:
                result = change(make_result(source, cell, unasked), node=self._member.name)
                agenda.learn(result)
                await self._folder.append(result)
                self._observer.recorded(target, result)


def note(folder: RunFolder, name: str, target: Target | None = None, **detail: Any) -> None:
    at_ms, label = time.time_ns() // 1_000_000, target.label if target else None
    folder.event(Event(event=name, at_ms=at_ms, target=label, detail=detail))
