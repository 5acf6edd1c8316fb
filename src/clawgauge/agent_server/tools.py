"""The tools that an agent is offered, and what each of them does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.agent_server import answers
from clawgauge.agent_server.arguments import (
    Arguments,
    Asking,
    CallQuery,
    CallsQuery,
    FiguresQuery,
    JobQuery,
    ListQuery,
    NoArguments,
    ProgressQuery,
    StopOrder,
)
from clawgauge.agent_server.bounds import MAX_ANSWER_BYTES, bound_value
from clawgauge.agent_server.library import RunLibrary
from clawgauge.agent_server.own_runs import RunLauncher
from clawgauge.errors import ClawgaugeError, RequestError
from clawgauge.journal import encode_document
from clawgauge.run_data import Row, Run
from clawgauge.run_data.state import read_state
from clawgauge.workers import Workers

_MAX_CHARS = 2_000
_READ_THREADS = 2


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool: what an agent is told of it, what it takes, and what it does. One that is not
    `read_only` starts or stops a run."""

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Any], Awaitable[dict[str, Any]]]
    read_only: bool = True

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments, in one piece."""
        schema = msgspec.json.schema(self.arguments)
        schema |= schema.pop("$defs")[self.arguments.__name__]
        del schema["$ref"]
        schema.pop("title", None)
        # This is what the type's docstring says to whoever writes the program.
        schema.pop("description", None)
        return schema


class Toolbox:
    """All tools, over the runs of one folder. `mask` hides keys in whatever is answered."""

    def __init__(
        self,
        library: RunLibrary,
        launcher: RunLauncher,
        mask: Callable[[str], str],
        *,
        may_run: bool,
    ) -> None:
        self._library = library
        self._launcher = launcher
        self._mask = mask
        self._workers = Workers("reader", _READ_THREADS)
        self._tools = {tool.name: tool for tool in self._make_tools(may_run=may_run)}

    @property
    def tools(self) -> list[AgentTool]:
        return list(self._tools.values())

    def has(self, name: str) -> bool:
        return name in self._tools

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """The answer of a tool, as JSON. Raises `ClawgaugeError` with one sentence where there is
        none."""
        tool = self._tools[name]
        try:
            query = msgspec.convert(arguments, tool.arguments)
        except msgspec.ValidationError as error:
            raise RequestError(f"{name} cannot take these arguments: {error}") from None
        answer = await tool.run(query)
        max_chars = query.max_chars if isinstance(query, CallQuery) else _MAX_CHARS
        text = encode_document(bound_value(answer, self._mask, max_chars)).decode()
        if len(text.encode()) > MAX_ANSWER_BYTES:
            raise RequestError(
                f"the answer of {name} would be longer than {MAX_ANSWER_BYTES // 1024} KiB: "
                "ask for less (a limit, one job, one target, a smaller max_chars)"
            )
        return text

    def mask(self, text: str) -> str:
        return self._mask(text)

    def _make_tools(self, *, may_run: bool) -> list[AgentTool]:
        tools = [
            AgentTool(
                name="list_runs",
                description=(
                    "Lists the benchmark runs on this machine, the newest first: which models each "
                    "asked, what passed, and its answer in few words."
                ),
                arguments=ListQuery,
                run=self._reading(answers.list_runs),
            ),
            AgentTool(
                name="answer_by_job",
                description=(
                    "Says which model to take for which job (main agent, subagent, triage, "
                    "structured data ...), by the evidence of a run: whether each model is fit, "
                    "decided or not, the chance of it, and why. A model whose state is not "
                    "decided_fit has not been shown to be fit."
                ),
                arguments=JobQuery,
                run=self._reading(answers.answer_by_job),
            ),
            AgentTool(
                name="model_figures",
                description=(
                    "Gives the figures of the models of a run (pass rates, tool use, first token, "
                    "latency, cost) with their counts and 95% intervals, and what failed."
                ),
                arguments=FiguresQuery,
                run=self._reading(answers.model_figures),
            ),
            AgentTool(
                name="list_calls",
                description="Lists calls of a run with their outcome, such as those that failed.",
                arguments=CallsQuery,
                run=self._reading(answers.list_calls),
            ),
            AgentTool(
                name="show_call",
                description=(
                    "Shows one call in full: prompt, answer, verdict, attempts, timings. "
                    + answers.QUOTED
                ),
                arguments=CallQuery,
                run=self._reading(answers.show_call),
            ),
            AgentTool(
                name="plan_run",
                description=(
                    "Says what a run would ask of these models, how many calls, how long and at "
                    "what cost. Servers are asked which models they have; no model is called."
                ),
                arguments=Asking,
                run=self._launcher.rehearse,
            ),
            AgentTool(
                name="run_progress",
                description="Says how far a run is: its state, and per model what is recorded.",
                arguments=ProgressQuery,
                run=self._tell_progress,
            ),
        ]
        if may_run:
            tools += self._make_run_tools()
        return tools

    def _make_run_tools(self) -> list[AgentTool]:
        return [
            AgentTool(
                name="start_run",
                description=(
                    "Starts a real run, within the limits of calls, time and cost that the user "
                    "gave for all runs together. It takes minutes: ask run_progress. Ask plan_run "
                    "first, and the user where the run was not their wish."
                ),
                arguments=Asking,
                run=self._launcher.start,
                read_only=False,
            ),
            AgentTool(
                name="stop_run",
                description="Ends a run that start_run has started; what is recorded stands.",
                arguments=StopOrder,
                run=self._stop,
                read_only=False,
            ),
            AgentTool(
                name="own_run",
                description="Says how the run that start_run has started last goes on or ended.",
                arguments=NoArguments,
                run=self._tell_own_run,
            ),
        ]

    def _reading(
        self, answer: Callable[[RunLibrary, Any], dict[str, Any]]
    ) -> Callable[[Any], Awaitable[dict[str, Any]]]:
        """A tool that only reads files, which is done in a thread."""

        async def run(query: Any) -> dict[str, Any]:
            return await self._workers.run(lambda: answer(self._library, query))

        return run

    async def _stop(self, order: StopOrder) -> dict[str, Any]:
        return await self._launcher.stop(order.run)

    async def _tell_own_run(self, _: NoArguments) -> dict[str, Any]:
        run = self._launcher.newest
        if run is None:
            raise RequestError("no run was started from here")
        await self._launcher.settle()
        described = self._launcher.describe(run)
        if not (self._library.runs_dir / run).is_dir():
            return {"run": run, "state": "starting", **described}
        progress = await self._workers.run(lambda: _describe_progress(self._library.runs_dir / run))
        return {"run": run, **progress, **described}

    async def _tell_progress(self, query: ProgressQuery) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            path = self._library.find(query.run)
            return {"run": path.name, **_describe_progress(path)}

        return await self._workers.run(read)


class _Tally:
    """How many calls of each target are recorded, and what came of them."""

    def __init__(self) -> None:
        self.counts_by_target: dict[str, Counter[str]] = {}

    def add(self, rows: list[Row], offsets: list[int]) -> None:
        for row in rows:
            counts = self.counts_by_target.setdefault(row.target.label, Counter())
            counts["n_recorded"] += 1
            counts["n_answered"] += row.succeeded
            counts["n_passed"] += row.objective_pass is True


def _describe_progress(path: Path) -> dict[str, Any]:
    tally = _Tally()
    try:
        Run.open(path).feed(tally)
    except ClawgaugeError:
        # A run that has only begun has no records yet.
        tally = _Tally()
    targets = []
    for target, counts in tally.counts_by_target.items():
        targets.append({"target": target, **counts})
    return {"state": read_state(path).value, "targets": targets}
