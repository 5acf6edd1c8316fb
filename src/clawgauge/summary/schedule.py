"""What a run set out to do, so that what it did can be measured against it.

config.json says all of this: a prompt carries a verdict unless its validator is `noop`. A folder that does not name its
prompts (the first harness wrote none) is read from its records: there a prompt carries a verdict if any record of it
in the run has one, and the scheduled cells are the recorded ones. Prompts recorded but not configured, as after a
forced resume, are treated the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from clawgauge.records import Prompt, RunConfig, Target

PromptKey: TypeAlias = tuple[str, str]
"""(suite, prompt id): what makes repeats repeats of the same thing."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of one run. Prompts are named by suite and id."""

    targets: tuple[Target, ...]
    suites: tuple[str, ...]
    prompts: frozenset[PromptKey]
    judged: frozenset[PromptKey]
    restraint: frozenset[PromptKey]
    tasks: frozenset[PromptKey]
    repeats: int

    @property
    def apart(self) -> frozenset[PromptKey]:
        """The prompts that stand beside the tier, never in it."""
        return self.restraint | self.tasks

    def cells(
        self,
        target: Target,
        recorded: Mapping[PromptKey, int],
        *,
        judged_only: bool = False,
        suites: Collection[str] | None = None,
    ) -> int:
        """How many cells `target` was to fill, given how many it has recorded of each prompt; in `suites`, if given."""
        repeats = self.repeats if target in self.targets else 0
        prompts = (self.prompts | recorded.keys()) & self.judged if judged_only else self.prompts | recorded.keys()
        return sum(
            max(repeats if prompt in self.prompts else 0, recorded.get(prompt, 0))
            for prompt in prompts
            if suites is None or prompt[0] in suites
        )


def read_schedule(config: RunConfig | None, with_verdict: Collection[PromptKey]) -> Schedule:
    """The schedule in `config`, completed from the prompts that have a verdict somewhere in the run's records."""
    if config is None:
        return Schedule((), (), frozenset(), frozenset(with_verdict), frozenset(), frozenset(), 0)
    validators = {(prompt.suite, prompt.id): prompt.validator for prompt in config.prompts}
    configured = {key for key, validator in validators.items() if validator.get("type") != "noop"}
    return Schedule(
        targets=tuple(config.targets),
        suites=tuple(dict.fromkeys(prompt.suite for prompt in config.prompts)),
        prompts=frozenset(validators),
        judged=frozenset(configured | (set(with_verdict) - validators.keys())),
        restraint=frozenset(key for key, validator in validators.items() if _asks_for_restraint(validator)),
        tasks=frozenset((prompt.suite, prompt.id) for prompt in config.prompts if _is_task(prompt)),
        repeats=config.options.repeats,
    )


def _is_task(prompt: Prompt) -> bool:
    return prompt.world is not None or prompt.validator.get("type") == "world_state"


def _asks_for_restraint(validator: Mapping[str, Any]) -> bool:
    return validator.get("type") == "tool_call" and bool(validator.get("no_call") or validator.get("ask"))
