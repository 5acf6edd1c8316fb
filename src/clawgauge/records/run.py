"""What decides a run (targets, prompts, options) and what the machine looked like: config.json and inventory.json."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]

PromptKey: TypeAlias = tuple[str, str]
"""(suite, prompt id): what makes repeats repeats of the same thing."""

THINKING_LEVELS: tuple[str, ...] = ("low", "medium", "high", "xhigh")


class Target(msgspec.Struct, frozen=True, order=True):
    """One (provider, model, thinking level): the unit a summary group describes."""

    provider: str
    model: str
    thinking_level: str | None = None

    @property
    def label(self) -> str:
        suffix = f"@{self.thinking_level}" if self.thinking_level else ""
        return f"{self.provider}:{self.model}{suffix}"


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt with its expectation, the suite's own defaults already folded in.

    `expected_tools` is the merge of what the validator expects and the old-style `expected_tool_calls`, lower case.
    `variant_of` is the id this prompt was written under, where it is one of several forms of it. A prompt with a
    `world` is a task: the model takes turns, at most `max_turns`, and the simulated world answers its calls.
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

    @property
    def key(self) -> PromptKey:
        return self.suite, self.id

    @property
    def family(self) -> PromptKey:
        """What a prompt shares with its variants."""
        return self.suite, self.variant_of or self.id

    @property
    def needs_shell(self) -> bool:
        """Whether the simulated shell has a part in asking or judging it."""
        return self.world is not None or self.validator.get("type") == "effect"


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
    """What is declared beside an option: the numbers it takes, and what changing it does to a run that is resumed.

    A number that is not from `low` to `high` is refused, and `meaning` says what it must be. `name` is the option's own
    where the field has another. A `variable` of the environment sets what no flag and no file can. On resuming, a
    `fixed` option cannot change without making records incomparable; a `free` one can; one of the `extent` can, and
    decides how many cells there are; `more` is the extent too, and may only grow.
    """

    low: float = -math.inf
    high: float = math.inf
    meaning: str = ""
    name: str | None = None
    variable: str | None = None
    resume: Literal["fixed", "free", "extent", "more"] = "fixed"


HARMLESS = "harmless"
# Marks an option that is taken from a file the user has neither named nor trusted. Only what shapes the questions and
# the patience of a run is: nothing that runs a program, chooses who is asked or gets a key, names a variable, acts on
# somebody's server or says where files are. Limits are, because a flag always wins.
Harmless = Annotated[T, HARMLESS]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that change what is sent, how it is timed or how much is asked. All of them are recorded."""

    repeats: Harmless[Annotated[int, Option(1, 10_000, "a whole number of 1 or more", resume="more")]] = 1
    concurrency: Harmless[Annotated[int, Option(1, 4_096, "a whole number from 1 to 4096", resume="free")]] = 1
    timeout_s: Harmless[
        Annotated[float, Option(0.001, 86_400, "seconds, more than 0", name="timeout", resume="free")]
    ] = 300.0
    max_tokens: Harmless[Annotated[int | None, Option(1, 10_000_000, "a whole number of 1 or more")]] = None
    temperature: Harmless[Annotated[float | None, Option(0, 10, "a number of 0 or more")]] = None
    seed: Harmless[Annotated[int | None, Option(-(2**63), 2**63 - 1, "a whole number")]] = None
    stream: Harmless[bool] = True
    warm_up: Harmless[Annotated[bool, Option(resume="free")]] = False
    max_retries: Harmless[Annotated[int, Option(0, 100, "a whole number from 0 to 100", resume="free")]] = 5
    retry_base_s: Annotated[
        float, Option(0, 1e308, "a number of seconds, 0 or more", variable="CLAWGAUGE_RETRY_BASE_S", resume="free")
    ] = 1.0
    max_wait_s: Harmless[Annotated[float, Option(0, 86_400, "seconds, 0 or more", name="max_wait", resume="free")]] = (
        60.0
    )
    unload_others: bool = False
    prompt_ids: Harmless[Annotated[list[str] | None, Option(resume="free")]] = None
    unique_prefix: Harmless[bool] = False
    until_decided: Harmless[Annotated[bool, Option(resume="extent")]] = False
    max_calls: Harmless[
        Annotated[int | None, Option(1, 10_000_000, "a whole number of 1 or more", resume="extent")]
    ] = None
    max_cost_usd: Harmless[
        Annotated[float | None, Option(0, 1_000_000, "dollars, 0 or more", name="max_cost", resume="extent")]
    ] = None
    draw: Harmless[Annotated[int, Option(0, 2**31 - 1, "a whole number of 0 or more")]] = 0
    stop_after_errors: Harmless[
        Annotated[int | None, Option(1, 10_000_000, "a whole number of 1 or more", resume="free")]
    ] = None
    interleave: Harmless[bool] = False


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


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job needs, and what it weighs among the models that are fit for it.

    `prompts` are named by SUITE or SUITE/CATEGORY and count together, under the words `called`. The lower end of each
    rate's interval must reach `at_least`; `recommended` is held to what a recommendation for subagents asks.
    `column` is the job's name where there is little room.
    """

    needs: list[Literal["recommended", "calls", "arguments", "restraint", "tasks", "answers", "local"]] = []
    prompts: list[str] = []
    called: str = "its prompts"
    column: Annotated[str, msgspec.Meta(max_length=12)] = ""
    weighs: dict[
        Literal["tasks", "restraint", "tools", "passes", "answers", "first_token", "latency", "cost"],
        Annotated[float, msgspec.Meta(gt=0, le=1e6)],
    ]
    at_least: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.7


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """config.json. `providers` names addresses and key *variables*, never a key.

    `prices` has what each target's tokens cost as far as it was known, by target label. `jobs` are those of the user.
    """

    schema_version: int
    run_id: str
    created_at_ms: int
    clawgauge_version: str
    models: list[str]
    targets: list[Target]
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


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model a provider says it has."""

    name: str
    size_bytes: int | None = None
    digest: str | None = None
    quantization: str | None = None
    family: str | None = None
    parameters: str | None = None
    kind: str = "chat"


class ProviderProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a provider could be used just now, and what to do if not."""

    provider: str
    reachable: bool
    address: str | None = None
    detail: str = ""
    hint: str | None = None
    version: str | None = None
    models: list[ModelInfo] = []
    loaded_models: list[str] = []


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
