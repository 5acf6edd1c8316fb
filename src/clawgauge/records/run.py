"""What decides a run, and what the machine looked like: config.json and inventory.json."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]

PromptKey: TypeAlias = tuple[str, str]
"""(suite, prompt id): what makes repeats repeats of the same thing."""

IN_CONTEXT = "+context"  # how the suite of prompts inside a context ends
_MAX_FILLED_ENTRIES = 8_000_000
_POSITIVE = "a whole number of 1 or more"
THINKING_OFF = "off"
"""The thinking level that asks a model not to think."""
THINKING_LEVELS: tuple[str, ...] = (THINKING_OFF, "low", "medium", "high", "xhigh")


class Target(msgspec.Struct, frozen=True, order=True):
    """One (provider, model, thinking level): the unit a summary group describes."""

    provider: str
    model: str
    thinking_level: str | None = None

    @property
    def label(self) -> str:
        suffix = f"@{self.thinking_level}" if self.thinking_level else ""
        return f"{self.provider}:{self.model}{suffix}"


class SentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings part of one request: where it goes, and all of it but what is said to the model.

    `body` is without messages, system text, tools and the form of an answer.
    """

    path: str
    body: dict[str, Any]


class PlannedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target in config.json.

    `sent` is the settings part of the request that asks it a prompt without wishes of its own, as
    it was rendered before the run; null where its provider does not say. What is sent otherwise
    later in the run is an event, `request_settings`.
    """

    provider: str
    model: str
    thinking_level: str | None = None
    sent: SentSettings | None = None

    @property
    def target(self) -> Target:
        return Target(self.provider, self.model, self.thinking_level)


def plan_targets(
    targets: Iterable[Target], sent: Mapping[Target, SentSettings] | None = None
) -> list[PlannedTarget]:
    """Targets as config.json has them, each with the settings that it is sent, where known."""
    planned = []
    for target in targets:
        planned_target = PlannedTarget(
            provider=target.provider,
            model=target.model,
            thinking_level=target.thinking_level,
            sent=sent.get(target) if sent is not None else None,
        )
        planned.append(planned_target)
    return planned


class MadeCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call in a conversation that a prompt goes on from."""

    name: str
    arguments: dict[str, Any] = {}


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was said before a prompt.

    An assistant's `calls` are answered by the tools' messages behind it, in order.
    """

    role: Literal["user", "assistant", "tool"]
    content: str = ""
    calls: list[MadeCall] = []

    def __str__(self) -> str:
        lines = [f"[{self.role}]"]
        if self.content:
            lines.append(self.content)
        for call in self.calls:
            lines.append(f"call {call.name} {json.dumps(call.arguments, ensure_ascii=False)}")
        return "\n".join(lines)


class Context(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How several prompts begin: kept once, and named by each of them."""

    system: str | None = None
    tools: list[dict[str, Any]] = []
    messages: list[Message] = []


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt with its expectation, the suite's own defaults already folded in.

    `expected_tools` is the merge of what the validator expects and the old-style
    `expected_tool_calls`, lower case. `variant_of` is the id this prompt was written under, where
    it is one of several forms of it. A prompt with a `world` is a task: the model takes turns, at
    most `max_turns`, and the simulated machine answers its calls. One with `in_context` is another
    prompt inside the user's own context: system prompt and tools have that in them. `messages` come
    before `prompt`, which is empty where they end with a tool's result. `context` names what the
    prompt has in common with others: on disk that is kept once, in memory every prompt is whole.
    `pair` is on the second prompt of a pair, the id of the first: one of the two wants a call that
    the other must not make, and only who gets both right tells them apart. `session` names the
    session of the user's history that a turn was taken from: turns of one session are alike.
    """

    id: str
    name: str
    prompt: str
    validator: dict[str, Any]
    suite: str = ""
    expected_tools: list[str] = []
    category: str | None = None
    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    tools: list[dict[str, Any]] = []
    tool_choice: Any = None
    response_format: dict[str, Any] | None = None
    variant_of: str | None = None
    world: dict[str, Any] | None = None
    max_turns: int | None = None
    messages: list[Message] = []
    context: str | None = None
    in_context: bool = False
    pair: str | None = None
    session: str | None = None

    @property
    def texts(self) -> list[str]:
        """All that is said to the model, tools apart."""
        return [self.system or "", *(message.content for message in self.messages), self.prompt]

    @property
    def key(self) -> PromptKey:
        return self.suite, self.id

    @property
    def family(self) -> PromptKey:
        """What a prompt shares with its variants."""
        return self.suite, self.variant_of or self.id

    @property
    def bare_key(self) -> PromptKey:
        """Of a prompt inside a context: the same one without."""
        return self.suite.removesuffix(IN_CONTEXT), self.id


class DrawnPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A line of prompts.jsonl: a prompt of config.json with the values of another drawing."""

    draw: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    prompt: Prompt


class SuiteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A suite as loaded; `sha256` covers everything that can change an answer or a verdict."""

    name: str
    version: str
    description: str
    sha256: str
    source: str
    prompts: list[Prompt]


class SuiteInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A suite's header: a row of `clawgauge suites list`, and of config.json."""

    name: str
    version: str
    description: str
    n_prompts: int
    sha256: str
    source: str


class Option(NamedTuple):
    """What is declared beside an option.

    That is the numbers it takes, and what changing it does to a run that is resumed. A number that
    is not from `low` to `high` is refused, and `meaning` says what it must be. `name` is the
    option's own where the field has another. A `variable` of the environment sets what no flag and
    no file can.

    On resuming, a `fixed` option cannot change without making records incomparable; a `free` one
    can; one of the `extent` can, and decides how many cells there are; `more` is the extent too,
    and may only grow.
    """

    low: float = -math.inf
    high: float = math.inf
    meaning: str = ""
    name: str | None = None
    variable: str | None = None
    resume: Literal["fixed", "free", "extent", "more"] = "fixed"


HARMLESS = "harmless"
# Marks an option that is taken from a file the user has neither named nor trusted. Only what shapes
# the questions and the patience of a run is: nothing that runs a program, chooses who is asked or
# gets a key, names a variable, acts on somebody's server or says where files are. Limits are,
# because a flag always wins.
Harmless = Annotated[T, HARMLESS]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that change what is sent, how it is timed or how much is asked.

    All of them are recorded.
    """

    repeats: Annotated[int, Option(1, 10_000, _POSITIVE, resume="more"), HARMLESS] = 1
    concurrency: Annotated[
        int,
        Option(0, 4_096, "a whole number from 1 to 4096, or 0 to find it out", resume="free"),
        HARMLESS,
    ] = 0
    timeout_s: Annotated[
        float, Option(1e-3, 86400, "seconds, more than 0", "timeout", resume="free"), HARMLESS
    ] = 300.0
    max_tokens: Annotated[int | None, Option(1, 10_000_000, _POSITIVE), HARMLESS] = None
    temperature: Annotated[float | None, Option(0, 10, "a number of 0 or more"), HARMLESS] = None
    seed: Annotated[int | None, Option(-(2**63), 2**63 - 1, "a whole number"), HARMLESS] = None
    stream: Harmless[bool] = True
    warm_up: Annotated[bool, Option(resume="free"), HARMLESS] = False
    max_retries: Annotated[
        int, Option(0, 100, "a whole number from 0 to 100", resume="free"), HARMLESS
    ] = 5
    retry_base_s: Annotated[
        float,
        Option(
            0,
            1e308,
            "a number of seconds, 0 or more",
            variable="CLAWGAUGE_RETRY_BASE_S",
            resume="free",
        ),
    ] = 1.0
    max_wait_s: Annotated[
        float, Option(0, 86_400, "seconds, 0 or more", "max_wait", resume="free"), HARMLESS
    ] = 60.0
    unload_others: bool = False
    prompt_ids: Annotated[list[str] | None, Option(resume="free"), HARMLESS] = None
    unique_prefix: Harmless[bool] = False
    until_decided: Annotated[bool, Option(resume="extent"), HARMLESS] = False
    max_calls: Annotated[
        int | None, Option(1, 10_000_000, _POSITIVE, resume="extent"), HARMLESS
    ] = None
    max_cost_usd: Annotated[
        float | None,
        Option(0, 1_000_000, "dollars, 0 or more", "max_cost", resume="extent"),
        HARMLESS,
    ] = None
    draw: Annotated[int, Option(0, 2**31 - 1, "a whole number of 0 or more"), HARMLESS] = 0
    stop_after_errors: Annotated[
        int | None, Option(1, 10_000_000, _POSITIVE, resume="free"), HARMLESS
    ] = None
    interleave: Harmless[bool] = False
    job: Annotated[list[str] | None, Option(resume="extent"), HARMLESS] = None
    order: Annotated[int, Option(0, 2**31 - 1, "a whole number of 0 or more"), HARMLESS] = 0
    best: Annotated[bool, Option(resume="extent"), HARMLESS] = False
    max_time_s: Annotated[
        float | None,
        Option(1, 31_536_000, "a time of 1s or more", "max_time", resume="extent"),
        HARMLESS,
    ] = None

    def recorded(self) -> RunOptions:
        """These options alone, without the settings that a subclass adds and no run records."""
        return RunOptions(**{name: getattr(self, name) for name in RunOptions.__struct_fields__})


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens of one model, as its vendor (or the user, for a provider) says.

    Above `max_input_tokens` in one request the price does not hold.
    """

    model: str
    vendor: str | None = None
    provider: str | None = None
    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    max_input_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    as_of: str | None = None
    source: str | None = None


class NeedRates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Between which rates a need may be answered either way.

    A model at `at_least` or below is seldom called fit, one at `good` or above seldom not. `line`
    lies between them, where one single rate is asked for.
    """

    at_least: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    good: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    line: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job needs, and what it weighs among the models that are fit for it.

    `prompts` are named by SUITE or SUITE/CATEGORY and count together, under the words `called`.
    Every rate must be shown to be over `at_least`, and a model at `good` or above shows it nearly
    always; `rates` has other figures for single needs. `recommended` is held to what a
    recommendation for subagents asks, and `useful` to right calls or the job's own prompts in at
    least half of all cases. `column` is the job's name where there is little room.
    """

    needs: list[
        Literal[
            "recommended",
            "calls",
            "arguments",
            "restraint",
            "tasks",
            "answers",
            "local",
            "agreement",
            "useful",
        ]
    ] = []
    prompts: list[str] = []
    called: str = "its prompts"
    column: Annotated[str, msgspec.Meta(max_length=12)] = ""
    weighs: dict[
        Literal[
            "tasks",
            "restraint",
            "tools",
            "passes",
            "answers",
            "first_token",
            "latency",
            "cost",
            "agreement",
        ],
        Annotated[float, msgspec.Meta(gt=0, le=1e6)],
    ]
    at_least: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.7
    good: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    rates: dict[
        Literal["calls", "arguments", "restraint", "tasks", "prompts"],
        NeedRates,
    ] = {}


RULE = 2
"""By which rule jobs are judged today: 2 is the sequential decision.

Rule 1, that of folders that name none, held the interval of each rate against a limit.
"""


class DecisionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run decides what to ask next.

    It asks until the `jobs` are decided, or every need that its prompts tell of where none are
    named. `order` is the number of the order of prompts. Of each target `calls_ahead` says how
    many calls are chosen before the first of them has to be answered, by target label; `drawings`
    is how many drawings of a prompt there are beside the text as written, and `rules_sha256` is
    what they are made of, by suite. With `best` the models that are fit are asked on, all the same
    prompts, until the best of them is known.
    """

    jobs: list[str]
    order: int = 0
    calls_ahead: dict[str, Annotated[int, msgspec.Meta(ge=1, le=4_096)]] = {}
    drawings: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    rules_sha256: dict[str, str] = {}
    best: bool = False


CAPACITY = "capacity"
"""The suite of every call that was made to load a server."""


class Slo(msgspec.Struct, frozen=True):
    """What 95% of the requests must keep; null where there is no such limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The limits that there are, by name."""
        limits = {}
        for name, limit in msgspec.structs.asdict(self).items():
            if limit is not None:
                limits[name] = limit
        return limits


class CapacityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The load that a capacity run makes.

    Clients that ask one call after the other, or with `rates` arrivals at random times. The order
    in which numbers of clients are visited again is drawn by `order_seed`.
    """

    contexts: list[Annotated[int, msgspec.Meta(ge=100, le=4_000_000)]]
    output_tokens: int
    slo: Slo
    max_concurrency: Annotated[int, msgspec.Meta(ge=1, le=4_096)]
    rates: list[Annotated[float, msgspec.Meta(gt=0, le=2_000)]]
    duration_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)]
    shared_prefix: Annotated[int, msgspec.Meta(ge=0, le=4_000_000)]
    shape: Literal["plain", "agent"]
    swap: bool
    max_time_s: float
    order_seed: int = 0


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """config.json. `providers` names addresses and key *variables*, never a key.

    `prices` has what each target's tokens cost as far as it was known, by target label. `jobs` are
    those of the user. `sampling` has, by target label, what a prompt that asks for nothing of its
    own is sent with, as it goes on the wire; null is not sent. `prompt_sampling` has the same for
    the prompts that are sent otherwise, by label and `SUITE/ID`. `context` says whose context some
    prompts were asked in: the folder is then for the user alone. `contexts`, by suite and name, is
    how prompts that name one begin. `rule` is that by which jobs are judged (`RULE`). `decision` is
    there where the answers decide what is asked next.
    """

    schema_version: int
    run_id: str
    created_at_ms: int
    clawgauge_version: str
    models: list[str]
    planned_targets: list[PlannedTarget] = msgspec.field(name="targets")
    options: RunOptions
    suites: list[SuiteInfo]
    prompts: list[Prompt]
    prompts_sha256: str
    providers: dict[str, dict[str, Any]] = {}
    sampling: dict[str, dict[str, Any]] = {}
    prices: dict[str, Price | None] = {}
    versions: dict[str, str] = {}
    argv: list[str] = []
    jobs: dict[str, Job] = {}
    context: str | None = None
    contexts: dict[str, Context] = {}
    capacity: CapacityOptions | None = None
    prompt_sampling: dict[str, dict[str, dict[str, Any]]] = {}
    rule: int = 1
    decision: DecisionOptions | None = None

    @property
    def targets(self) -> list[Target]:
        return [planned.target for planned in self.planned_targets]


def share_contexts(prompts: Iterable[Prompt]) -> tuple[dict[str, Context], list[Prompt]]:
    """What the prompts of each context have in common, and the prompts without it.

    A prompt that names no context stays as it is. `fill_contexts` undoes it.
    """
    whole_prompts = list(prompts)
    groups: dict[str, list[Prompt]] = {}
    for prompt in whole_prompts:
        key = _context_key(prompt)
        if key is not None:
            groups.setdefault(key, []).append(prompt)
    contexts = {key: _find_common_start(group) for key, group in groups.items()}
    lean_prompts = []
    for prompt in whole_prompts:
        key = _context_key(prompt)
        if key is not None:
            prompt = _without(contexts[key], prompt)
        lean_prompts.append(prompt)
    return contexts, lean_prompts


def fill_contexts(
    contexts: Mapping[str, Context], lean_prompts: Iterable[Prompt]
) -> Iterator[Prompt]:
    """The prompts that `share_contexts` was given.

    Raises `ValueError` where a few bytes would become gigabytes.
    """
    n_entries = 0
    for prompt in lean_prompts:
        key = _context_key(prompt)
        context = None if key is None else contexts.get(key)
        if context is None:
            yield prompt
            continue
        n_entries += len(context.tools) + len(context.messages)
        if n_entries > _MAX_FILLED_ENTRIES:
            raise ValueError(
                f"the prompts' contexts come to more than {_MAX_FILLED_ENTRIES:,} "
                f"tools and messages"
            )
        yield msgspec.structs.replace(
            prompt,
            system=prompt.system or context.system,
            tools=[*context.tools, *prompt.tools],
            messages=[*context.messages, *prompt.messages],
        )


def _context_key(prompt: Prompt) -> str | None:
    """The name of a prompt's context in config.json.

    Names may hold the stroke, so two contexts can have one key: they are then one context, which
    has what the prompts of both have in common.
    """
    if prompt.context is None:
        return None
    return f"{prompt.suite}/{prompt.context}"


def _find_common_start(prompts: Sequence[Prompt]) -> Context:
    system = prompts[0].system
    if any(prompt.system != system for prompt in prompts):
        system = None
    return Context(
        system=system,
        tools=_common_start([prompt.tools for prompt in prompts]),
        messages=_common_start([prompt.messages for prompt in prompts]),
    )


def _without(context: Context, prompt: Prompt) -> Prompt:
    """The prompt without what its context holds."""
    return msgspec.structs.replace(
        prompt,
        system=prompt.system if context.system is None else None,
        tools=prompt.tools[len(context.tools) :],
        messages=prompt.messages[len(context.messages) :],
    )


def _common_start(lists: Sequence[list[T]]) -> list[T]:
    """The entries that all lists begin with."""
    start = []
    for entries in zip(*lists, strict=False):
        if any(entry != entries[0] for entry in entries[1:]):
            break
        start.append(entries[0])
    return start


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model a provider says it has. Null is what it does not say."""

    name: str
    size_bytes: int | None = None
    digest: str | None = None
    quantization: str | None = None
    family: str | None = None
    parameters: str | None = None
    kind: str = "chat"
    context_tokens: int | None = None
    takes_tools: bool | None = None


class ProviderProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a provider could be used just now, and what to do if not. `checked` is false where
    nobody could find out."""

    provider: str
    reachable: bool
    address: str | None = None
    detail: str = ""
    hint: str | None = None
    version: str | None = None
    models: list[ModelInfo] = []
    loaded_models: list[str] = []
    checked: bool = True


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """inventory.json."""

    schema_version: int
    collected_at_ms: int
    python_version: str
    packages: dict[str, str]
    host: dict[str, Any]
    cpu: dict[str, Any]
    memory: dict[str, Any]
    gpus: list[dict[str, Any]]
    ollama_list: list[ModelInfo] | None
    cli_versions: dict[str, str | None]
    providers: list[ProviderProbe]


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot, parsed. A figure the machine would not tell is null."""

    taken_at_ms: int
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_used_bytes: int | None = None
    disk_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    load_1m: float | None = None
    load_5m: float | None = None
    load_15m: float | None = None
    cpu_percent: float | None = None
    process_count: int | None = None
    gpus: list[dict[str, Any]] = []
    loaded_models: list[str] = []
