"""How many cells of each prompt a target was to fill, less those it could do without.

Owns: the denominators of a comparison, prompt by prompt: a planned prompt without a record has an empty tally, and a
cell that was left out because the tier was already decided is not missed. Refuses: outcomes. How many cells were left
out is what the summary reads from the events; here it is only said which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clawgauge.compare.tallies import PromptTally
from clawgauge.records import Event, Prompt, RunConfig, Target
from clawgauge.summary.coverage import Stop, count_missing, read_stop
from clawgauge.summary.schedule import PromptKey, Schedule, read_schedule


def complete_tallies(
    config: RunConfig | None, events: Sequence[Event], recorded: Mapping[Target, dict[PromptKey, PromptTally]]
) -> dict[Target, dict[PromptKey, PromptTally]]:
    """The tallies of every planned prompt and of every other recorded one, each with the cells it was to have."""
    schedule = read_schedule(config, ())
    targets = dict.fromkeys([*(config.targets if config else ()), *recorded])
    return {target: _complete(config, schedule, events, target, recorded.get(target, {})) for target in targets}


def _complete(
    config: RunConfig | None,
    schedule: Schedule,
    events: Sequence[Event],
    target: Target,
    recorded: Mapping[PromptKey, PromptTally],
) -> dict[PromptKey, PromptTally]:
    if config is None or target not in config.targets:
        return dict(recorded)
    n_missing = count_missing(schedule, target, {key: tally.n_recorded for key, tally in recorded.items()})
    stop = read_stop(events, target.label, n_missing)
    pool = _tier_pool(config.prompts, schedule) if stop.n_not_needed else frozenset()
    tallies = {}
    for prompt in config.prompts:
        key = (prompt.suite, prompt.id)
        tally = tallies[key] = recorded.get(key) or PromptTally(prompt.name)
        tally.n_planned = _needed(config.options.repeats, stop) if key in pool else config.options.repeats
    return tallies | {key: tally for key, tally in recorded.items() if key not in tallies}


def _needed(repeats: int, stop: Stop) -> int:
    """Cells of a tool prompt that are missed if they have no record: none once decided, before that only the first."""
    return 0 if stop.early else min(1, repeats)


def _tier_pool(prompts: Sequence[Prompt], schedule: Schedule) -> frozenset[PromptKey]:
    """The prompts a tier rests on, the only ones that may be left out: those that offer tools, if any of them do."""
    expecting = [p for p in prompts if p.expected_tools and (p.suite, p.id) not in schedule.apart]
    native = any(prompt.tools for prompt in expecting)
    return frozenset((p.suite, p.id) for p in expecting if bool(p.tools) == native)
