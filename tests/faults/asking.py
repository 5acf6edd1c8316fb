"""One target's cells asked in this process: the real runner, provider, sockets and run folder, without the snapshots.

For the rows that have too many cases to start a process each, and for those that wait: `WaitingClock` makes waiting
free and keeps count of it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from clawgauge.journal.folder import RunFolder
from clawgauge.providers.base import Provider, ProviderSettings, create_provider
from clawgauge.records import Prompt, Target
from clawgauge.runner.agenda import Agenda, OpenCells
from clawgauge.runner.clock import ClientClock, Clock
from clawgauge.runner.context import Observer, RunContext
from clawgauge.runner.judging import Judge
from clawgauge.runner.target import TargetRun
from clawgauge.secrets import Redactor
from support.command import read_records
from support.plans import plan_of
from support.published_schema import check_run_folder
from support.scripted_server import Reply, ScriptedServer
from support.waiting import PATIENCE_S

PROTOCOLS: list[Any] = [
    *("openai_chat", "openai_responses"),
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("anthropic_messages", "gemini")),
    pytest.param("ollama", marks=pytest.mark.slow),
]


@dataclass
class WaitingClock(Clock):
    """Real clocks, but a wait takes no time: it only moves them."""

    waits_s: list[float] = field(default_factory=list)

    def perf_ns(self) -> int:
        return time.perf_counter_ns() + round(sum(self.waits_s) * 1e9)

    def wall_ns(self) -> int:
        return time.time_ns() + round(sum(self.waits_s) * 1e9)

    async def sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        await asyncio.sleep(0)


def ask(
    folder: Path,
    base_url: str,
    *,
    kind: str = "openai_chat",
    settings: dict[str, Any] | None = None,
    **asked: Any,
) -> list[dict[str, Any]]:
    """Ask the server at `base_url` in the protocol of `kind`; keywords as for `ask_provider`."""
    concurrency = asked.get("concurrency", 1)
    given = ProviderSettings(
        name=kind, type=kind, base_url=base_url, concurrency=concurrency, **(settings or {})
    )
    return ask_provider(folder, create_provider(given), **asked)


def ask_provider(
    folder: Path,
    provider: Provider,
    *,
    n_prompts: int = 1,
    clock: Clock | None = None,
    prompts: Sequence[Prompt] = (),
    judge: Judge | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Ask every prompt and return the records, read back by a reader that knows only the published schema."""
    prompts = prompts or [
        Prompt(
            id=f"P{n}",
            name=f"prompt_{n}",
            prompt=f"prompt {n}",
            validator={"type": "noop"},
            suite="faults",
        )
        for n in range(n_prompts)
    ]

    async def asked(run_folder: RunFolder) -> None:
        plan = plan_of(
            prompts,
            redact=Redactor(),
            **{"timeout_s": PATIENCE_S, "retry_base_s": 0.001, **options},
        )
        context = RunContext(
            plan,
            run_folder,
            Observer(),
            clock or Clock(),
            rng=random.Random(1),
            judge=judge or Judge(),
        )
        agenda = Agenda(OpenCells(prompts, 1), [])
        with ClientClock() as client:
            async with provider:
                await TargetRun(
                    context, Target(provider.name, "scripted-model"), provider, agenda, client
                ).ask()
        context.judge.close()

    with (
        RunFolder.create(folder / "runs") as run_folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(asked(run_folder))
    check_run_folder(run_folder.path)
    return read_records(run_folder.path)


def ask_once(folder: Path, base_url: str, **asked: Any) -> dict[str, Any]:
    """One prompt, one record."""
    (record,) = ask(folder, base_url, **asked)
    return record


def ask_each(
    folder: Path, server: ScriptedServer, replies: Sequence[Reply], **asked: Any
) -> list[dict[str, Any]]:
    """As many prompts as replies, each answered with its own; the records in the order of the replies."""
    server.reply_with(lambda request: replies[int(request.prompt.split()[-1])])
    records = ask(folder, server.v1_url, n_prompts=len(replies), **asked)
    return sorted(records, key=lambda record: int(record["prompt_id"][1:]))


def verdict(record: dict[str, Any]) -> tuple[str, bool, str | None]:
    """The three fields by which a fault is known."""
    return record["availability_status"], record["success"], record["failure_type"]
