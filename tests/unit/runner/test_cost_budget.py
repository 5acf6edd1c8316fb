"""A limit on what a run may cost."""

from __future__ import annotations

import msgspec

from clawgauge.runner.agenda import Agenda, CostBudget
from clawgauge.runner.agendas import make_agenda
from support.plans import plan_of

from .prompts import TARGET, plain_prompt, result_of

PROMPTS = [plain_prompt(f"N{n}") for n in range(10)]


def _ask(agenda: Agenda, cost_usd: float | None, in_flight: int = 1) -> int:
    """Take and answer cells, `in_flight` at a time, until none is given; returns how many were asked."""
    asked = 0
    while True:
        taken = [cell for _ in range(in_flight) if (cell := agenda.take()) is not None]
        if not taken:
            return asked
        asked += len(taken)
        for cell in taken:
            agenda.learn(
                msgspec.structs.replace(result_of(cell.prompt, passed=True), cost_usd=cost_usd)
            )


def test_no_call_goes_out_once_the_money_is_spent() -> None:
    """At 30 cents a call a dollar pays for four calls: the fourth crosses it, and the fifth is not made."""
    budget = CostBudget(1.0)
    agenda = make_agenda(plan_of(PROMPTS), TARGET, budget)
    assert _ask(agenda, 0.3) == 4
    (outcome,) = agenda.outcomes()
    assert outcome.event == "budget_spent"
    assert outcome.detail == {"budget": "max_cost", "limit": 1.0, "spent": 1.2, "not_asked": 6}


def test_what_cannot_be_counted_is_not_spent() -> None:
    """A paid call that comes back without a cost ends it: the next could cost anything."""
    agenda = make_agenda(plan_of(PROMPTS), TARGET, CostBudget(100.0))
    assert _ask(agenda, None) == 1
    (outcome,) = agenda.outcomes()
    assert outcome.detail["unknown_cost"] is True
