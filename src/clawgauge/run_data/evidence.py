"""Which prompts tell what of a model, which of its answers count, and how they add up.

A run that is under way and a summary that is made years later ask this of the same answers, and
have to come to the same counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from clawgauge.records import TOOLS_REFUSED, FamilyTally, Job, Prompt, PromptKey, Target
from clawgauge.run_data.row import Row, is_harm
from clawgauge.run_data.schedule import (
    asks_for_restraint,
    expecting_prompts,
    is_own_work,
    is_task,
)

CALLS = "calls"
ARGUMENTS = "arguments"
RESTRAINT = "restraint"
TASKS = "tasks"
TEXT_CALLS = "text_calls"
"""Calls that are written as text, by prompts that offer no tools. No job rests on them."""
# A server that has answered other calls is up: what it did not answer in time, or not to the end,
# is a failure of the model that it serves.
_FAILURES_OF_A_SERVER_THAT_IS_UP = frozenset({"timeout", "stream_interrupted"})
_REFUSAL = "refusal"


def job_pool(job: str) -> str:
    """The name of the pool of a job's own prompts."""
    return f"job/{job}"


class EvidencePool(NamedTuple):
    """The prompts that tell of one need."""

    name: str
    prompts: frozenset[PromptKey]
    counts_calls: bool = False
    """Whether it counts that an expected tool was called, and not that the answer was right."""
    leaves_out_refusals: bool = False
    """Whether a refusal in the protocol's own words counts neither for nor against the model."""


@dataclass(frozen=True, slots=True)
class EvidencePools:
    """Every pool of a run, and what its prompts have in common."""

    pools: Mapping[str, EvidencePool]
    family_of: Mapping[PromptKey, PromptKey]
    """Of a prompt that is a variant, or the second half of a pair, what it counts with."""
    pairs: frozenset[PromptKey] = frozenset()
    """The families that are pairs: only both halves together pass."""

    def family(self, prompt: PromptKey) -> PromptKey:
        return self.family_of.get(prompt, prompt)


def find_pools(prompts: Sequence[Prompt], jobs: Mapping[str, Job]) -> EvidencePools:
    """The pools of a run that has these prompts to ask, for these jobs."""
    bare = [prompt for prompt in prompts if not prompt.in_context]
    native_keys = frozenset(prompt.key for prompt in expecting_prompts(bare) if prompt.tools)
    text_keys = frozenset(prompt.key for prompt in expecting_prompts(bare) if not prompt.tools)
    restraint = []
    tasks = []
    pairs = set()
    family_of = {}
    for prompt in bare:
        if asks_for_restraint(prompt) or prompt.pair is not None:
            restraint.append(prompt.key)
        if is_task(prompt):
            tasks.append(prompt.key)
        if prompt.pair is not None:
            pair = (prompt.suite, prompt.pair)
            pairs.add(pair)
            family_of[prompt.key] = pair
        elif prompt.variant_of is not None:
            family_of[prompt.key] = prompt.family
    pools = {
        CALLS: EvidencePool(CALLS, native_keys, counts_calls=True),
        ARGUMENTS: EvidencePool(ARGUMENTS, native_keys),
        RESTRAINT: EvidencePool(
            RESTRAINT, frozenset(restraint) | frozenset(pairs), leaves_out_refusals=True
        ),
        TASKS: EvidencePool(TASKS, frozenset(tasks)),
        TEXT_CALLS: EvidencePool(TEXT_CALLS, text_keys, counts_calls=True),
    }
    for name, job in jobs.items():
        if job.prompts:
            own_keys = frozenset(prompt.key for prompt in bare if is_prompt_of(job, prompt))
            pools[job_pool(name)] = EvidencePool(job_pool(name), own_keys)
    return EvidencePools(pools=pools, family_of=family_of, pairs=frozenset(pairs))


def is_prompt_of(job: Job, prompt: Prompt) -> bool:
    """Whether a prompt is one of a job's own, which are named by SUITE or SUITE/CATEGORY."""
    if is_own_work(prompt):
        return False
    return prompt.suite in job.prompts or f"{prompt.suite}/{prompt.category}" in job.prompts


class Weight(Enum):
    """Whether an observation counts."""

    ANSWER = "answer"
    FAILURE_IF_UP = "failure_if_up"
    """No answer: it counts as failed where the server has answered anything else."""
    NONE = "none"


class Observation(NamedTuple):
    """What a cell says of the model that was asked."""

    weight: Weight
    called_tool: bool
    passed: bool | None
    """None where there is no verdict on an answer."""
    is_refusal: bool
    did_harm: bool
    refuses_tools: bool = False
    """Whether the server said that the model takes no tools."""
    drops_tools: bool = False
    """Whether the tools on offer cannot have reached the model."""


class EndedCell(Protocol):
    """How a cell ended."""

    @property
    def availability_status(self) -> str: ...
    @property
    def success(self) -> bool: ...
    @property
    def failure_type(self) -> str | None: ...
    @property
    def objective_pass(self) -> bool | None: ...
    @property
    def not_judged(self) -> str | None: ...
    @property
    def was_asked(self) -> bool: ...


class ObservedCell(EndedCell, Protocol):
    """What a record of a run and a view of one have in common."""

    @property
    def tools_unseen(self) -> str | None: ...

    @property
    def tool_use_success(self) -> bool: ...
    @property
    def violation(self) -> str | None: ...


def find_weight(cell: EndedCell) -> Weight:
    """Whether what came of a cell counts."""
    if cell.availability_status == "ok":
        return Weight.ANSWER if cell.not_judged is None else Weight.NONE
    if cell.was_asked and cell.failure_type in _FAILURES_OF_A_SERVER_THAT_IS_UP:
        return Weight.FAILURE_IF_UP
    return Weight.NONE


def find_pass(cell: EndedCell) -> bool | None:
    """Whether a cell that counts was passed; None where there is no verdict. An answer that is
    empty is an answer, and not a right one."""
    if cell.availability_status == "ok" and cell.success:
        return cell.objective_pass
    return False


def observe(cell: ObservedCell) -> Observation:
    """What counts of a record."""
    weight = find_weight(cell)
    passed = find_pass(cell) if weight is not Weight.NONE else None
    return Observation(
        weight=weight,
        called_tool=cell.tool_use_success,
        passed=passed,
        is_refusal=cell.failure_type == _REFUSAL,
        did_harm=is_harm(cell.violation),
        refuses_tools=cell.failure_type == TOOLS_REFUSED,
        drops_tools=cell.tools_unseen is not None,
    )


TextKey: TypeAlias = tuple[PromptKey, int]
"""A text that was asked: a prompt, and which drawing of it."""


class Observations:
    """What came of every text that one target was asked: of several times, the first that counts.

    A repeat of a text adds nothing to its first answer. The second time counts where nothing came
    of the first: that is how a run asks again.
    """

    def __init__(self) -> None:
        self.is_server_up = False
        self._by_text: dict[TextKey, tuple[int, Observation]] = {}

    def add(self, prompt: PromptKey, draw: int, repeat: int, observation: Observation) -> None:
        """Take in what came of a text, in any order."""
        if observation.weight is Weight.ANSWER:
            self.is_server_up = True
        key = (prompt, draw)
        earlier = self._by_text.get(key)
        if earlier is not None:
            earlier_repeat, earlier_observation = earlier
            if observation.weight is Weight.NONE:
                return
            if earlier_observation.weight is not Weight.NONE and earlier_repeat <= repeat:
                return
        self._by_text[key] = (repeat, observation)

    @property
    def n_harm(self) -> int:
        return sum(observation.did_harm for _, observation in self._by_text.values())

    def is_settled(self, prompt: PromptKey, draw: int) -> bool:
        """Whether what came of a text counts."""
        observation = self._by_text.get((prompt, draw))
        return observation is not None and self._counts(observation[1])

    def counting(self) -> Iterator[tuple[PromptKey, int, Observation]]:
        """All that counts: prompt, drawing, and what came of it."""
        for (prompt, draw), (_, observation) in self._by_text.items():
            if self._counts(observation):
                yield prompt, draw, observation

    def _counts(self, observation: Observation) -> bool:
        if observation.weight is Weight.FAILURE_IF_UP:
            return self.is_server_up
        return observation.weight is Weight.ANSWER


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one target's answers say of the needs of jobs."""

    pools: EvidencePools
    observations: Observations

    def count(self, name: str, assumed_passes: Collection[TextKey] = ()) -> list[FamilyTally]:
        """How the families of a pool stand: of how many texts each how many were passed.

        `assumed_passes` are texts that are being asked, and count as if they had been passed.
        """
        pool = self.pools.pools[name]
        counts = _FamilyCounts(self.pools)
        for prompt, draw, observation in self.observations.counting():
            if prompt not in pool.prompts:
                continue
            if pool.leaves_out_refusals and observation.is_refusal:
                continue
            if pool.counts_calls:
                counts.add(prompt, draw, observation.called_tool)
            elif observation.passed is not None:
                counts.add(prompt, draw, observation.passed)
        for prompt, draw in assumed_passes:
            if prompt in pool.prompts:
                counts.add(prompt, draw, True)
        return counts.tally()

    def count_all(self) -> dict[str, list[FamilyTally]]:
        """The counts of every pool that has a prompt in this run."""
        tallies = {}
        for name, pool in self.pools.pools.items():
            if pool.prompts:
                tallies[name] = self.count(name)
        return tallies


class _FamilyCounts:
    """Counts texts by family; the two halves of a pair are one text, once both are there."""

    def __init__(self, pools: EvidencePools) -> None:
        self._pools = pools
        self._passes: Counter[PromptKey] = Counter()
        self._answers: Counter[PromptKey] = Counter()
        self._first_halves: dict[TextKey, bool] = {}

    def add(self, prompt: PromptKey, draw: int, passed: bool) -> None:
        family = self._pools.family(prompt)
        if family in self._pools.pairs:
            first_half = self._first_halves.pop((family, draw), None)
            if first_half is None:
                self._first_halves[family, draw] = passed
                return
            passed = passed and first_half
        self._answers[family] += 1
        self._passes[family] += passed

    def tally(self) -> list[FamilyTally]:
        """How many families there are of each kind, in a fixed order."""
        kinds: Counter[tuple[int, int, bool]] = Counter()
        for family, n_answers in self._answers.items():
            kinds[self._passes[family], n_answers, family in self._pools.pairs] += 1
        tallies = []
        for (passes, answers, is_pair), n_families in sorted(kinds.items()):
            tallies.append(FamilyTally(passes=passes, answers=answers, n=n_families, pair=is_pair))
        return tallies


class ObservationCollector:
    """Takes what came of every text out of the rows of a run, by target."""

    def __init__(self) -> None:
        self._by_target: dict[Target, Observations] = {}

    def add(self, rows: list[Row]) -> None:
        for row in rows:
            if row.repeat > 1:
                continue
            target = row.target
            observations = self._by_target.get(target)
            if observations is None:
                observations = Observations()
                self._by_target[target] = observations
            observations.add(row.prompt, row.draw, row.repeat, observe(row))

    def of(self, target: Target) -> Observations:
        """Of one target; empty where it has no record."""
        return self._by_target.get(target) or Observations()
