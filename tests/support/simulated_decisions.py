"""A decision run without a server: an agenda is asked, and a coin answers, in whatever order a test wants."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import msgspec

from clawgauge.plan import EarlierAnswers, OpenWork
from clawgauge.records import DecisionOptions, Prompt, Result, SuiteInfo
from clawgauge.run_data.evidence import Observation, observe
from clawgauge.runner.agenda import Cell, SpendingKey
from clawgauge.runner.agendas import make_agenda
from clawgauge.runner.decision import DecisionAgenda
from clawgauge.suites import describe_suite, load_suite
from clawgauge.suites.drawings import Drawings
from clawgauge.suites.load import read_suite
from clawgauge.verdict.jobs import PLAIN_JOBS
from support.coin_model import SUITES
from support.plans import plan_of
from unit.runner.prompts import TARGET, result_of

IsRight = Callable[[Prompt, int], bool]


@functools.cache
def built_in() -> tuple[list[Prompt], list[SuiteInfo]]:
    """What a run without -s may ask."""
    suites = [load_suite(name) for name in SUITES]
    prompts = [prompt for suite in suites for prompt in suite.prompts]
    return prompts, [describe_suite(suite) for suite in suites]


@functools.cache
def _files() -> dict[str, object]:
    return {name: read_suite(name) for name in SUITES}


class _Provider:
    """What an agenda asks of a provider."""

    cannot_send: frozenset[str] = frozenset()
    context_tokens = None
    local = True


def plain_agenda(
    *,
    calls_ahead: int = 1,
    n_drawings: int = 3,
    order: int = 0,
    recorded: dict[SpendingKey, Observation] | None = None,
    jobs: tuple[str, ...] = PLAIN_JOBS,
    **options: object,
) -> DecisionAgenda:
    """What a run without -s asks a target."""
    prompts, suites = built_in()
    decision = DecisionOptions(
        jobs=list(jobs), order=order, calls_ahead={TARGET.label: calls_ahead}, drawings=n_drawings
    )
    answers = {TARGET: EarlierAnswers(observations=dict(recorded or {}))}
    plan = plan_of(
        prompts,
        suites=suites,
        decision=decision,
        drawings=Drawings(_files(), n_drawings),  # type: ignore[arg-type]  # files of suites
        work=OpenWork(answers=answers),
        given={"fake": _Provider()},
        **options,
    )
    agenda = make_agenda(plan, TARGET)
    assert isinstance(agenda, DecisionAgenda)
    return agenda


def answer(cell: Cell, is_right: bool, *, makes_call: bool = False) -> Result:
    """What comes back of a cell: all of it right, or no more than a call of the right tool."""
    result = result_of(cell.prompt, passed=is_right or makes_call)
    turns = 7 if cell.prompt.world is not None else None
    return msgspec.structs.replace(
        result, objective_pass=is_right, repeat=cell.repeat, draw=cell.draw, turns=turns
    )


def ask(
    agenda: DecisionAgenda,
    is_right: IsRight,
    *,
    rng: random.Random | None = None,
    at_most: int = 10_000,
    makes_call: IsRight = lambda prompt, draw: False,
    refuses_tools: bool = False,
) -> dict[SpendingKey, Result]:
    """Ask until the agenda has no more, or `at_most` cells were taken; with `rng` answers come back
    in an order of its own. Returns the results, as they came."""
    under_way: list[Cell] = []
    results: dict[SpendingKey, Result] = {}
    n_taken = 0
    while True:
        while n_taken < at_most and (cell := agenda.take()) is not None:
            under_way.append(cell)
            n_taken += 1
        if not under_way:
            return results
        number = rng.randrange(len(under_way)) if rng is not None else 0
        cell = under_way.pop(number)
        result = answer(
            cell,
            is_right(cell.prompt, cell.draw),
            makes_call=makes_call(cell.prompt, cell.draw),
        )
        if refuses_tools and cell.prompt.tools:
            result = msgspec.structs.replace(
                result, availability_status="error", success=False, failure_type="tools_refused"
            )
        results[cell.spending_key] = result
        agenda.learn(result)


def observations(results: dict[SpendingKey, Result]) -> dict[SpendingKey, Observation]:
    """The same as a resumed run reads them."""
    return {key: observe(result) for key, result in results.items()}
