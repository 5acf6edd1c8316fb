"""What a run may take: said before it, asked where it is much, and kept with several calls in flight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faults.terminal import on_a_terminal
from support.coin_model import CoinModel
from support.command import Outcome, chat_config, clawgauge, trust_configuration
from support.scripted_server import ReceivedRequest, Reply, ScriptedServer, Status, Text

PLAIN = ("run", "-t", "fake:scripted-model", "--run-id", "r")
# The longest task of the reference ways has so many turns.
MOST_TURNS = 12
AT_ONCE = 8


def write_prices(place: Path, dollars_per_million: float) -> None:
    (place / "prices.toml").write_text(
        '[[price]]\nprovider = "fake"\nmodel = "scripted-model"\n'
        f"input = {dollars_per_million}\noutput = {dollars_per_million}\n"
    )


@pytest.fixture
def elsewhere(place: Path, server: ScriptedServer) -> Path:
    """A server that counts as another machine's: it gets eight calls at once."""
    chat_config(place, fake=server.v1_url)
    table = (place / "clawgauge.toml").read_text().replace("local = true", "local = false")
    (place / "clawgauge.toml").write_text(table)
    trust_configuration(place)
    return place


def options_of(done: Outcome) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((done.folder / "config.json").read_bytes())["options"]
    return loaded


def n_requests(done: Outcome) -> int:
    return sum(record["turns"] or 1 for record in done.records())


@pytest.mark.parametrize("limit", [10, 30, 75])
def test_a_limit_of_calls_is_passed_by_no_more_than_what_was_in_flight(
    elsewhere: Path, server: ScriptedServer, limit: int
) -> None:
    """Prompts of one call end at the limit itself; tasks that were begun are brought to their end."""
    server.reply_with(CoinModel(1.0).reply)
    done = clawgauge(elsewhere, *PLAIN, "--concurrency", str(AT_ONCE), "--max-calls", str(limit))
    assert done.code == 0, done.stderr
    tasks_in_flight = min(AT_ONCE, sum(bool(record["turns"]) for record in done.records()))
    assert limit <= len(server.calls) <= limit + tasks_in_flight * (MOST_TURNS - 1)
    if not tasks_in_flight:
        assert len(server.calls) == limit
    assert f"--max-calls {limit} is spent" in done.stderr


def test_a_limit_of_cost_is_passed_by_no_more_than_one_call(
    elsewhere: Path, server: ScriptedServer
) -> None:
    """A call of the scripted server costs 40 cents; eight may be under way."""
    write_prices(elsewhere, 100.0)
    server.reply_with(CoinModel(1.0).reply)
    words = (*PLAIN, "--concurrency", str(AT_ONCE), "--prices", "prices.toml", "--max-cost", "6")
    done = clawgauge(elsewhere, *words)
    assert done.code == 0, done.stderr
    call_usd = (4_000 + 7) * 100 / 1e6
    assert 6 - call_usd <= len(server.calls) * call_usd <= 6 + call_usd


def test_retries_and_warm_ups_do_not_count(place: Path, server: ScriptedServer) -> None:
    coin = CoinModel(1.0)

    def answer(request: ReceivedRequest) -> Reply:
        is_warm_up = "Reply with OK." in json.dumps(request.json)
        return Text("OK") if is_warm_up else coin.reply(request)

    server.reply_with(answer)
    done = clawgauge(place, *PLAIN, "--max-calls", "5", "--warm-up")
    assert done.code == 0, done.stderr
    assert len(done.records()) == 5 and len(server.calls) == 6
    refused_once = [Status(503)]
    server.reply_with(lambda request: refused_once.pop() if refused_once else coin.reply(request))
    again = clawgauge(place, *PLAIN[:3], "--run-id", "again", "--max-calls", "5")
    assert len(again.records()) == 5
    assert sum(len(record["attempts"]) for record in again.records()) == 6


def test_a_limit_that_is_given_on_resuming_takes_the_place_of_the_old_one(
    place: Path, server: ScriptedServer
) -> None:
    """A smaller one leaves nothing to ask, a larger one goes on; config.json has the last."""
    server.reply_with(CoinModel(1.0).reply)
    clawgauge(place, *PLAIN, "--max-calls", "10", "--max-time", "1h")
    fewer = clawgauge(place, "run", "--resume", "r", "--max-calls", "6")
    assert "--max-calls is spent: give a larger number" in fewer.stderr and len(server.calls) == 10
    more = clawgauge(place, "run", "--resume", "r", "--max-calls", "14", "--max-time", "2h")
    assert more.code == 0 and len(server.calls) == 14
    assert options_of(more)["max_calls"] == 14 and options_of(more)["max_time_s"] == 7200


@pytest.mark.parametrize(
    ("words", "limit"),
    [((), 400), (("-s", "restraint"), None), (("--full",), None), (("--max-calls", "7"), 7)],
)
def test_only_a_plain_run_has_a_limit_of_its_own(
    place: Path, server: ScriptedServer, words: tuple[str, ...], limit: int | None
) -> None:
    server.reply_with(Status(401))
    done = clawgauge(place, *PLAIN, *words)
    assert options_of(done)["max_calls"] == limit


def test_the_first_line_says_what_a_run_will_take(place: Path, server: ScriptedServer) -> None:
    """Calls, time and cost: by the price list at first, and later as they were measured."""
    write_prices(place, 1.0)
    server.reply_with(CoinModel(1.0).reply)
    words = ("run", "-t", "fake:scripted-model", "--prices", "prices.toml")
    first = clawgauge(place, *words, "--run-id", "one")
    line = next(line for line in first.stderr.splitlines() if "in all:" in line)
    assert line.startswith("asking until decided: main agent, subagent")
    assert "1 target, about 180 calls, about $" in line and "time unknown" in line
    shown = clawgauge(place, *words, "--dry-run", "--json")
    (target,) = json.loads(shown.stdout)["targets"]
    call_usd = 4_007 / 1e6
    assert target["estimated_usd"] == pytest.approx(target["calls"] * call_usd, rel=0.05)
    server.reply_with(Text("yes"))
    listed = clawgauge(place, *words, "-s", "small.json")
    assert "asking 4 prompts; in all: 1 target, 4 calls, about" in listed.stderr


def test_much_money_is_not_spent_unasked(place: Path, server: ScriptedServer) -> None:
    """Where nobody can be asked it takes --yes or a limit; a dry run says so and asks nobody."""
    write_prices(place, 200.0)
    server.reply_with(CoinModel(0.0).reply)
    words = ("run", "-t", "fake:scripted-model", "--prices", "prices.toml")
    rehearsed = clawgauge(place, *words, "--dry-run")
    assert rehearsed.code == 0 and "is expected to cost about $" in rehearsed.stderr
    refused = clawgauge(place, *words)
    assert refused.code == 2, refused.stderr
    assert "asking fake:scripted-model is expected to cost about $" in refused.stderr
    assert "say --yes, or give a limit with --max-cost" in refused.stderr
    assert server.calls == []
    assert clawgauge(place, *words, "--max-cost", "1000").code == 0
    assert clawgauge(place, *words, "--yes").code == 0
    n_calls = len(server.calls)
    write_prices(place, 0.01)
    assert clawgauge(place, *words).code == 0
    assert len(server.calls) > n_calls


@pytest.mark.parametrize(("typed", "is_asked"), [(b"n\n", False), (b"y\n", True)])
def test_a_person_at_a_terminal_is_asked_once(
    place: Path, server: ScriptedServer, typed: bytes, is_asked: bool
) -> None:
    write_prices(place, 200.0)
    server.reply_with(CoinModel(0.0).reply)
    words = ("run", "-t", "fake:scripted-model", "--prices", "prices.toml")
    drawn = on_a_terminal(place, *words, typed=typed)
    assert drawn.count(b"Go on? [y/N]") == 1
    assert bool(server.calls) == is_asked
    assert (b"nothing was sent" in drawn) == (not is_asked)
