"""What a run costs, as a user sees it while it runs and afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import clawgauge, write_suite
from support.scripted_server import ScriptedServer, Status, Text

PRICES = (
    '[[price]]\nprovider = "fake"\nmodel = "scripted-model"\n'
    "input = 1000.0\noutput = 1000.0\ncached_input = 10.0\n"
)


def test_the_price_table_says_what_each_call_cost(place: Path, server: ScriptedServer) -> None:
    """With a price for the model every record says its cost and who says so, and progress shows the sum."""
    (place / "prices.toml").write_text(PRICES)
    done = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--prices", "prices.toml"
    )
    assert done.code == 0, done.stderr
    for record in done.records():
        assert record["cost_source"] == "price_table"
        assert record["cost_usd"] == (record["input_tokens"] + record["output_tokens"]) / 1000
    total = sum(record["cost_usd"] for record in done.records())
    assert f"${total:.4f} so far" in done.stderr
    assert abs(done.summary()["models"][0]["cost_usd"] - total) < 1e-9


def test_a_dry_run_says_what_the_calls_will_cost(place: Path, server: ScriptedServer) -> None:
    """From the tokens of earlier runs at today's price, though those runs knew of none."""
    words = ("run", "-t", "fake:scripted-model", "-s", "small.json")
    server.reply_with(Text("yes", usage=(10, 5)))
    clawgauge(place, *words)
    (place / "prices.toml").write_text(PRICES)
    shown = clawgauge(
        place, *words, "--dry-run", "--json", "--prices", "prices.toml", "--repeats", "2"
    )
    assert json.loads(shown.stdout)["targets"][0]["estimated_usd"] == 0.12
    assert "and $0.1200" in shown.stderr and "$" not in clawgauge(place, *words, "--dry-run").stderr


def test_a_dry_run_says_that_a_cost_is_not_known(place: Path, server: ScriptedServer) -> None:
    """Who wants a key may pass calls on to who charges, on this machine too; a server without one is free."""
    asks = f'type = "openai_chat"\nbase_url = "{server.v1_url}"\n'
    (place / "two.toml").write_text(
        f'[providers.gate]\n{asks}api_key_env = "GATE_KEY"\n[providers.own]\n{asks}'
    )
    words = (
        "run",
        "--config",
        "two.toml",
        "-t",
        "gate:scripted-model",
        "-t",
        "own:scripted-model",
        "-s",
        "small.json",
    )
    key = {"GATE_KEY": "not-a-real-key"}
    before = clawgauge(place, *words, "--dry-run", env=key).stderr
    assert "gate:scripted-model: 4 calls, time and cost unknown (" in before
    assert "own:scripted-model: 4 calls, time unknown (" in before
    clawgauge(place, *words, env=key)
    assert (
        clawgauge(place, *words, "--dry-run", env=key).stderr.count(", cost unknown (as measured")
        == 1
    )


def test_without_a_price_there_is_no_cost(place: Path, server: ScriptedServer) -> None:
    """A server of one's own is on nobody's price list."""
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "small.json")
    assert all(
        record["cost_usd"] is None and record["cost_source"] is None for record in done.records()
    )
    assert "so far" not in done.stderr


def test_a_run_stops_at_its_budget_and_can_go_on(place: Path, server: ScriptedServer) -> None:
    """The first call spends it; the rest is not made, is not counted as failed, and a larger budget goes on."""
    (place / "prices.toml").write_text(PRICES)
    words = ["run", "-t", "fake:scripted-model", "-s", "small.json", "--prices", "prices.toml"]
    done = clawgauge(place, *words, "--max-cost", "0.001", "--run-id", "thrifty")
    assert done.code == 0, done.stderr
    assert len(done.records()) == 1
    assert "--max-cost 0.001 is spent" in done.stderr
    events = [json.loads(line) for line in (done.folder / "events.jsonl").read_text().splitlines()]
    (spent,) = [event["detail"] for event in events if event["event"] == "budget_spent"]
    assert spent["not_asked"] == 3
    again = clawgauge(
        place, "run", "--resume", "thrifty", "--prices", "prices.toml", "--max-cost", "100"
    )
    assert again.code == 0, again.stderr
    assert len(again.records()) == 4


def test_a_budget_that_cannot_be_counted_is_refused(place: Path, server: ScriptedServer) -> None:
    """A remote model of unknown price would spend without limit: nothing is sent, and the way out is named."""
    toml = place / "clawgauge.toml"
    local = toml.read_text()
    for table in (
        local.replace("local = true", "local = false"),
        f'{local}api_key_env = "MY_KEY"\n',
    ):
        toml.write_text(table)
        words = ("run", "-t", "fake:scripted-model", "-s", "small.json", "--max-cost", "1")
        done = clawgauge(place, *words, env={"MY_KEY": "a-key-of-the-test-1"})
        assert done.code == 2
        assert "--prices" in done.stderr
    assert not server.requests


def test_prices_beside_the_configuration_file(place: Path, server: ScriptedServer) -> None:
    """`[run] prices` is looked up beside the file that names it."""
    folder = place / "settings"
    folder.mkdir()
    (folder / "mine.toml").write_text(PRICES)
    config = (place / "clawgauge.toml").read_text()
    (folder / "clawgauge.toml").write_text(f'[run]\nprices = "mine.toml"\n{config}')
    done = clawgauge(
        place,
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "small.json",
        "--config",
        "settings/clawgauge.toml",
    )
    assert done.code == 0, done.stderr
    assert all(record["cost_usd"] is not None for record in done.records())


def test_a_resumed_run_keeps_its_prices(place: Path, server: ScriptedServer) -> None:
    """Without naming the price file again the costs of a run still add up."""
    (place / "prices.toml").write_text(PRICES)
    words = [
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "small.json",
        "--prices",
        "prices.toml",
        "--run-id",
        "kept",
    ]
    assert clawgauge(place, *words, "--max-calls", "2").code == 0
    done = clawgauge(place, "run", "--resume", "kept", "--max-calls", "10")
    assert done.code == 0, done.stderr
    assert [record["cost_source"] for record in done.records()] == ["price_table"] * 4


def test_a_second_target_that_the_money_did_not_reach(place: Path, server: ScriptedServer) -> None:
    """What was not asked for want of money is said so for each target, with the command that goes on."""
    (place / "prices.toml").write_text(PRICES + PRICES.replace("scripted-model", "other-model"))
    words = [
        "run",
        "-t",
        "fake:scripted-model",
        "-t",
        "fake:other-model",
        "-s",
        "small.json",
        "--run-id",
        "two",
    ]
    done = clawgauge(place, *words, "--prices", "prices.toml", "--max-cost", "0.001")
    first, second = done.summary()["models"]
    assert (first["n_total"], second["n_total"]) == (1, 0)
    assert "the budget was spent" in " ".join(second["warnings"])
    assert "--resume two --max-cost 0.002" in done.stderr
    idle = clawgauge(place, "run", "--resume", "two", "--retry-errors")
    assert "--max-cost is spent: give a larger number to go on" in idle.stderr


def test_a_forced_resume_keeps_what_else_was_said(place: Path, server: ScriptedServer) -> None:
    """--force with more repeats and a new budget writes both into config.json."""
    clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "more")
    done = clawgauge(
        place, "run", "--resume", "more", "--force", "--repeats", "3", "--max-calls", "6"
    )
    assert len(done.records()) == 6
    options = json.loads((done.folder / "config.json").read_text())["options"]
    assert (options["repeats"], options["max_calls"]) == (3, 6)


@pytest.mark.parametrize(
    "earlier",
    ["other-model", "missing-model"],
    ids=["a free target before", "a skipped one before"],
)
def test_a_limit_holds_behind_a_target_that_cost_nothing(
    place: Path, server: ScriptedServer, earlier: str
) -> None:
    """64 at once, half a dollar each, five dollars: an earlier target's zero cost is no price of this one's calls."""
    (place / "prices.toml").write_text(PRICES.replace("cached_input = 10.0\n", ""))
    write_suite(place / "wide.json", *({"prompt": f"p{n}"} for n in range(70)))
    not_there = Status(404, message="model 'missing-model' not found")
    paid = Text("yes", usage=(12, 500), first_delay_s=0.05)
    server.reply_with(
        lambda request: not_there if request.json["model"] == "missing-model" else paid
    )
    words = [
        "run",
        "-t",
        f"fake:{earlier}",
        "-t",
        "fake:scripted-model",
        "-s",
        "wide.json",
        "--concurrency",
        "64",
    ]
    done = clawgauge(place, *words, "--prices", "prices.toml", "--max-cost", "5", "--warm-up")
    assert done.code == 0, done.stderr
    n_paid = sum(call.json["model"] == "scripted-model" for call in server.calls)
    assert 1 < n_paid * 0.512 <= 5 + 0.512
    if earlier == "other-model":
        assert sum(record["model"] == earlier for record in done.records()) == 70


def test_a_task_is_ended_between_two_turns_when_the_money_is_spent(
    place: Path, server: ScriptedServer
) -> None:
    """Each turn is paid for: the one that spends the rest is the last, and the row says that the limit was ours."""
    (place / "prices.toml").write_text(PRICES)
    write_suite(
        place / "task.json",
        {
            "prompt": "look around",
            "tools": [
                {"type": "function", "function": {"name": "exec", "parameters": {"type": "object"}}}
            ],
            "world": {"files": {"/srv/a.txt": "1"}},
            "max_turns": 9,
            "validator": {"type": "world_state", "expect": [{"file": "/srv/a.txt"}]},
        },
    )
    server.reply_with(Text("", usage=(12, 488), tool_calls=[("exec", '{"command": "ls"}')]))
    words = [
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "task.json",
        "--prices",
        "prices.toml",
        "--max-cost",
        "1.2",
    ]
    done = clawgauge(place, *words, "--run-id", "cut")
    (record,) = done.records()
    assert (record["availability_status"], record["failure_type"]) == ("error", "budget_spent")
    assert len(server.calls) == 3 and record["cost_usd"] == 1.5 and record["turns"] == 3
    again = clawgauge(
        place,
        "run",
        "--resume",
        "cut",
        "--retry-errors",
        "--max-cost",
        "3.2",
        "--prices",
        "prices.toml",
    )
    assert len(server.calls) == 7, again.stderr


def test_a_warm_up_and_lost_attempts_are_paid_for_on_resuming(
    place: Path, server: ScriptedServer
) -> None:
    """What no record tells is told at the end of a stretch, and counts when the run is resumed."""
    (place / "prices.toml").write_text(PRICES)
    words = [
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "small.json",
        "--prices",
        "prices.toml",
        "--run-id",
        "w",
    ]
    server.reply_with(Text("yes", usage=(12, 488)))
    done = clawgauge(place, *words, "--warm-up", "--max-cost", "0.6", "--repeats", "1")
    assert len(server.calls) == 2 and len(done.records()) == 1
    clawgauge(place, "run", "--resume", "w", "--prices", "prices.toml", "--max-cost", "1.0")
    assert len(server.calls) == 2, "a dollar is spent, half of it on the warm-up"
