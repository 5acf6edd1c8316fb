"""What is asked next so that the jobs are decided, and that it hangs on the verdicts alone."""

from __future__ import annotations

import random

import msgspec
import pytest

from clawgauge.records import Prompt
from clawgauge.run_data.schedule import asks_for_restraint, is_task
from support.coin_model import CoinModel
from support.simulated_decisions import answer, ask, observations, plain_agenda
from unit.runner.prompts import result_of


def always(_prompt: Prompt, _draw: int) -> bool:
    return True


def outcome_of(agenda, event):
    return next(outcome.detail for outcome in agenda.outcomes() if outcome.event == event)


def test_a_model_that_is_always_right_is_fit_after_few_calls() -> None:
    """Twenty-two native calls, twelve of restraint, format and data, nine tasks: the least there is."""
    agenda = plain_agenda()
    results = ask(agenda, always)
    assert set(outcome_of(agenda, "jobs_decided")["jobs"].values()) == {"yes"}
    n_tasks = sum(key[0] == "agentic" for key in results)
    n_native = sum(key[0] == "native_tools" for key in results)
    assert n_tasks == 9 and n_native >= 22
    assert len(results) <= 75


def test_a_model_that_is_never_right_is_told_so_at_once_and_gets_no_task() -> None:
    agenda = plain_agenda()
    results = ask(agenda, lambda *_: False)
    assert set(outcome_of(agenda, "jobs_decided")["jobs"].values()) == {"no"}
    assert len(results) <= 20
    assert not any(key[0] == "agentic" for key in results)


def test_one_bad_need_ends_the_jobs_that_need_it_and_no_other() -> None:
    """Who never holds back is no main agent, no subagent and no triage; structured data is decided by itself."""
    agenda = plain_agenda()
    results = ask(agenda, lambda prompt, _: prompt.suite != "restraint")
    jobs = outcome_of(agenda, "jobs_decided")["jobs"]
    assert jobs["structured data"] == "yes" and jobs["main agent"] == "no"
    assert jobs["heartbeat and triage"] == jobs["subagent with full tools"] == "no"
    assert not any(key[0] == "agentic" for key in results)


def test_cheap_prompts_come_before_tasks() -> None:
    agenda = plain_agenda()
    kinds = [key[0] == "agentic" for key in ask(agenda, always)]
    assert kinds == sorted(kinds)


def test_every_third_task_is_hard() -> None:
    agenda = plain_agenda()
    asked = []
    while (cell := agenda.take()) is not None:
        if is_task(cell.prompt):
            asked.append(cell.prompt.category)
        agenda.learn(answer(cell, True))
    assert [asked[n : n + 3].count("hard") for n in (0, 3, 6)] == [1, 1, 1]


def test_sources_take_turns_for_a_good_model() -> None:
    """The need that is furthest from decided is asked: of the first eight prompts no need gets more than half."""
    agenda = plain_agenda()
    first = []
    for _ in range(8):
        cell = agenda.take()
        assert cell is not None
        kind = "restraint" if asks_for_restraint(cell.prompt) else cell.prompt.suite
        first.append(kind)
        agenda.learn(answer(cell, True))
    assert max(first.count(kind) for kind in first) <= 4


@pytest.mark.parametrize("rate", [0.65, 0.9])
def test_the_order_of_answers_changes_nothing(rate: float) -> None:
    """With eight calls under way, whichever comes back first: the same prompts, in the same order."""
    coin = CoinModel(rate, seed=5)
    in_order = ask(plain_agenda(calls_ahead=8), coin.is_right)
    for seed in range(3):
        shuffled = ask(plain_agenda(calls_ahead=8), coin.is_right, rng=random.Random(seed))
        assert set(shuffled) == set(in_order)


@pytest.mark.parametrize("calls_ahead", [1, 8])
@pytest.mark.parametrize("n_kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_run_that_was_killed_goes_on_with_the_same_prompts(
    calls_ahead: int, n_kills: int
) -> None:
    coin = CoinModel(0.9, seed=3)
    whole = ask(plain_agenda(calls_ahead=calls_ahead), coin.is_right)
    rng = random.Random(11)
    for _ in range(n_kills):
        killed_after = rng.randrange(1, len(whole))
        first = ask(
            plain_agenda(calls_ahead=calls_ahead), coin.is_right, at_most=killed_after, rng=rng
        )
        # Some of what was under way was not recorded.
        for key in rng.sample(sorted(first), min(len(first), rng.randrange(calls_ahead))):
            del first[key]
        resumed = plain_agenda(calls_ahead=calls_ahead, recorded=observations(first))
        rest = ask(resumed, coin.is_right)
        assert set(first) | set(rest) == set(whole) and not set(first) & set(rest)
        assert outcome_of(resumed, "jobs_decided")["jobs"]
        again = list(rest) if calls_ahead == 1 else []
        assert again == [key for key in whole if key in rest][: len(again)]


def test_a_finished_run_has_nothing_left_to_ask() -> None:
    results = ask(plain_agenda(), always)
    again = plain_agenda(recorded=observations(results))
    assert again.n_open == 0 and again.take() is None


def test_what_was_not_answered_is_asked_once_more_at_the_end() -> None:
    """An outage is no evidence: the calls that it ate are made again, once, before the run gives up."""
    agenda = plain_agenda(jobs=("structured data",), n_drawings=0)
    asked = []
    while (cell := agenda.take()) is not None:
        asked.append((cell.prompt.id, cell.repeat))
        result = result_of(cell.prompt, status="rate_limited")
        agenda.learn(msgspec.structs.replace(result, repeat=cell.repeat, draw=cell.draw))
    first = [prompt_id for prompt_id, repeat in asked if repeat == 0]
    again = [prompt_id for prompt_id, repeat in asked if repeat == 1]
    assert sorted(first) == sorted(again) and len(asked) == 2 * len(first)
    assert outcome_of(agenda, "jobs_undecided")["all_asked"]


def test_a_server_that_is_up_and_does_not_answer_in_time_has_failed() -> None:
    """A timeout counts against the model once anything else was answered, and before that tells nothing."""
    agenda = plain_agenda(jobs=("structured data",))
    n_timeouts = 0
    while (cell := agenda.take()) is not None and n_timeouts < 4:
        result = result_of(cell.prompt, status="error")
        agenda.learn(
            msgspec.structs.replace(
                result, failure_type="timeout", repeat=cell.repeat, draw=cell.draw, asked=True
            )
        )
        n_timeouts += 1
    assert not agenda.is_decided
    assert cell is not None
    agenda.learn(answer(cell, False))
    assert agenda.is_decided


def test_further_drawings_follow_when_a_pool_is_through() -> None:
    """Half right decides nothing soon: the prompts are asked with other values, all as written before that."""
    agenda = plain_agenda(jobs=("structured data",))
    draws = []
    turn = 0
    while (cell := agenda.take()) is not None:
        draws.append(cell.draw)
        agenda.learn(answer(cell, turn % 5 != 0))
        turn += 1
    assert draws == sorted(draws) and max(draws) >= 1


def test_requests_are_counted_by_turns() -> None:
    """--max-calls bounds requests: a task counts each of its turns, and is brought to its end."""
    agenda = plain_agenda(max_calls=80)
    results = ask(agenda, always)
    n_requests = sum(result.turns or 1 for result in results.values())
    assert 80 <= n_requests < 80 + 7
    spent = outcome_of(agenda, "budget_spent")
    assert spent["limit"] == 80 and spent["spent"] == n_requests


def test_a_target_that_cannot_answer_is_given_up_without_records() -> None:
    agenda = plain_agenda(calls_ahead=8)
    assert agenda.take() is not None
    assert agenda.give_up()
    assert agenda.take() is None and agenda.n_open == 0


def refusing(agenda, coin, **options):
    """Asked as `ask` does, of a server that refuses every request with tools."""
    return ask(agenda, coin.is_right, refuses_tools=True, **options)


@pytest.mark.parametrize("calls_ahead", [1, 8])
def test_who_refuses_tools_is_asked_the_same_after_a_kill(calls_ahead: int) -> None:
    """When that was found out is a place in the order, and no moment."""
    coin = CoinModel(0.9, seed=3)
    whole = refusing(plain_agenda(calls_ahead=calls_ahead), coin)
    refused = [key for key, result in whole.items() if result.failure_type == "tools_refused"]
    assert 1 <= len(refused) <= calls_ahead
    assert any(key[0] == "tool_use" for key in whole)
    for killed_after in (1, 5, len(whole) - 3):
        first = refusing(
            plain_agenda(calls_ahead=calls_ahead), coin, at_most=killed_after, rng=random.Random(1)
        )
        resumed = plain_agenda(calls_ahead=calls_ahead, recorded=observations(first))
        rest = refusing(resumed, coin)
        assert set(first) | set(rest) == set(whole) and not set(first) & set(rest)
        ended = outcome_of(resumed, "jobs_undecided")
        assert ended["all_asked"] and ended["jobs"]["main agent"] == "open"
        assert outcome_of(resumed, "takes_no_tools") == {"why": "refused"}


def test_one_native_call_that_never_saw_its_tools_proves_nothing() -> None:
    """Only where most of the first four did not: two of them may come of a server's odd counts."""
    for n_dropped, is_left_out in ((2, False), (3, True)):
        agenda = plain_agenda()
        n_seen = 0
        while (cell := agenda.take()) is not None:
            result = answer(cell, True)
            if cell.prompt.tools:
                n_seen += 1
                if n_seen <= n_dropped:
                    result = msgspec.structs.replace(result, tools_unseen="too_few_tokens")
            agenda.learn(result)
        events = {outcome.event for outcome in agenda.outcomes()}
        assert ("takes_no_tools" in events) == is_left_out
        assert n_seen == 3 if is_left_out else n_seen > 20
