"""The decision table: which limit removed whom, and the order of the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clawgauge.errors import ConfigError
from clawgauge.prices import load_prices
from clawgauge.records import Target
from clawgauge.routing import Limits, Policy, Weights, decide, gather_evidence, read_policy
from clawgauge.stats import wilson_interval
from support.measured_models import MeasuredRun
from unit.routing.runs import CODEX, GPT, LLAMA, OPUS, QWEN, TINY, decision_of


def _labels(decision: object) -> list[str]:
    return [evidence.label for evidence in decision.ranked]  # type: ignore[attr-defined]


def _removed(decision: object) -> dict[str, str]:
    standings = decision.standings  # type: ignore[attr-defined]
    return {one.evidence.label: "; ".join(one.removed_by) for one in standings if not one.kept}


def test_the_order_is_the_same_every_time(tmp_path: Path) -> None:
    """One run and one policy give one order, whatever the order of the models in the run."""
    one = decision_of(tmp_path / "a", LLAMA, QWEN, GPT, OPUS)
    other = decision_of(tmp_path / "b", OPUS, GPT, QWEN, LLAMA)
    assert _labels(one) == _labels(other)
    assert len(_labels(one)) == 4


def test_every_limit_names_itself_and_its_figure(tmp_path: Path) -> None:
    """A removed model says which limit removed it, with the figure, its n and what was wanted."""
    limits = Limits(max_p95_ms=3000, max_tier=1, local_only=True, min_pass_rate=0.5)
    removed = _removed(decision_of(tmp_path, LLAMA, QWEN, TINY, OPUS, policy=Policy(limits=limits)))
    assert "pass rate 10% of 30, wanted at least 50%" in removed["ollama_openai:tiny"]
    assert "wanted Tier 1 or better" in removed["ollama_openai:llama3.2:3b"]
    assert "p95 5000 ms (n=30), wanted at most 3000 ms" in removed["claude_code_cli:opus"]
    assert "not local" in removed["claude_code_cli:opus"]
    assert "ollama_openai:qwen3:8b" not in removed


def test_a_cost_that_is_not_known_does_not_pass_for_cheap(tmp_path: Path) -> None:
    """With a limit on cost, a paid model of unknown price is removed; a local one is not asked for a price."""
    policy = Policy(limits=Limits(max_cost_per_call_usd=0.01))
    removed = _removed(decision_of(tmp_path, CODEX, GPT, OPUS, QWEN, policy=policy))
    assert "cost a call unknown" in removed["openai_responses:gpt-5-codex@high"]
    assert "cost $0.02 a call" in removed["claude_code_cli:opus"]
    assert "openai_responses:gpt-5" not in removed
    assert "ollama_openai:qwen3:8b" not in removed


def test_a_monthly_budget_counts_the_calls_of_a_month(tmp_path: Path) -> None:
    """Two cents a call is four hundred dollars for twenty thousand calls."""
    policy = Policy(limits=Limits(max_monthly_cost_usd=300), calls_per_month=20_000)
    assert "cost $400 a month" in _removed(decision_of(tmp_path, OPUS, policy=policy))["claude_code_cli:opus"]


def test_weights_change_the_order(tmp_path: Path) -> None:
    """Whoever cares for speed alone gets the fastest first; whoever cares for passes alone the one that passes most."""
    fast = Policy(weights=Weights(pass_rate=0, tool_use=0, cost=0, ttft=0, latency=1))
    good = Policy(weights=Weights(pass_rate=1, tool_use=0, cost=0, ttft=0, latency=0))
    assert _labels(decision_of(tmp_path / "a", LLAMA, GPT, OPUS, policy=fast))[0] == LLAMA.target.label
    assert _labels(decision_of(tmp_path / "b", LLAMA, GPT, OPUS, policy=good))[0] == OPUS.target.label


def test_a_score_is_one_half_at_five_seconds_one_second_and_one_cent(tmp_path: Path) -> None:
    """p95, first token and cost fall from 1 towards 0, each with its own half; what runs here costs nothing."""
    slow, quick, local = (
        decision_of(tmp_path / name, model).standings[0].scores
        for name, model in (
            ("slow", replace(OPUS, e2e_ms=5000, cost_usd=0.01)),
            ("quick", replace(OPUS, e2e_ms=4000, cost_usd=0.03)),
            ("local", QWEN),
        )
    )
    assert (slow["latency"], slow["ttft"], slow["cost"]) == (0.5, pytest.approx(4 / 9), pytest.approx(0.5))
    assert (quick["latency"], quick["ttft"], quick["cost"]) == (pytest.approx(5 / 9), 0.5, pytest.approx(0.25))
    assert local["cost"] == 1.0


def test_what_was_scheduled_and_never_recorded_is_no_pass(tmp_path: Path) -> None:
    """Nineteen passes of thirty recorded prompts, and ten more that a run was to ask: that is nineteen of forty."""
    path = MeasuredRun([GPT], n_text=20).write(tmp_path)
    results = path / "results.jsonl"
    results.write_text("".join(results.read_text().splitlines(keepends=True)[10:]))
    (standing,) = decide(gather_evidence([path], load_prices())[0], Policy()).standings
    low = wilson_interval(19, 40)
    assert low is not None
    assert standing.scores["pass_rate"] == pytest.approx(low[0])


@pytest.mark.parametrize(
    ("settings", "local"),
    [
        ({"base_url": "http://localhost:1234/v1"}, True),
        ({"base_url": "http://nas.local:1234/v1"}, True),
        ({"base_url": "http://127.0.0.1/v1"}, True),
        ({"base_url": "http://[::1]:8080/v1"}, True),
        ({"base_url": "http://192.168.0.7:8000/v1"}, True),
        ({"base_url": "https://nas.local.example.com/v1"}, False),
        ({"base_url": "https://notlocalhost/v1"}, False),
        ({"base_url": "https://8.8.8.8/v1"}, False),
        ({"base_url": "https://api.openai.com/v1"}, False),
        ({"type": "ollama_openai"}, True),
        ({"type": "embedded"}, True),
        ({"type": "openai_chat"}, False),
        ({"type": "claude_code_cli", "base_url": "http://localhost:1/v1"}, False),
    ],
)
def test_local_is_what_runs_on_the_users_own_machine_or_network(
    tmp_path: Path, settings: dict[str, str], local: bool
) -> None:
    """By its address, or where there is none by its kind: a policy of local models alone keeps it or removes it."""
    model = replace(QWEN, target=Target("mine", "m"), settings={"type": "openai_chat", **settings})
    removed = _removed(decision_of(tmp_path, model, policy=Policy(limits=Limits(local_only=True))))
    assert removed == ({} if local else {"mine:m": "not local"})


def test_the_last_run_named_speaks_for_a_model(tmp_path: Path) -> None:
    """A model measured twice is taken from the later word, not from a mixture."""
    good = MeasuredRun([QWEN], run_id="good").write(tmp_path)
    bad = MeasuredRun([TINY, LLAMA], run_id="other").write(tmp_path)
    evidence, _ = gather_evidence([good, bad, good], load_prices())
    assert {one.label: one.run_id for one in evidence}["ollama_openai:qwen3:8b"] == "good"
    assert len(decide(evidence, Policy()).standings) == 3


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[limits]\nmin_pass_rate = 50\n", "min_pass_rate"),
        ("[limits]\nmax_p95 = 50\n", "max_p95"),
        ("[weights]\npass_rate=0\ntool_use=0\nlatency=0\nttft=0\ncost=0\n", "all weights are 0"),
        ("limits = 3\n", "limits"),
        ("x = [", "cannot be used"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, named: str) -> None:
    """The refusal names the file and the key."""
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"policy\.toml") as refused:
        read_policy(path)
    assert named in str(refused.value)


def test_electricity_is_a_cost_where_the_machine_counts_it(tmp_path: Path) -> None:
    """With a price for a kilowatt-hour, the joules of the suite are spread over its calls; without one, nothing is."""
    path = MeasuredRun([QWEN]).write(tmp_path)
    spent = {
        "event": "target_finished",
        "at_ms": 1,
        "target": QWEN.target.label,
        "detail": {"energy_j": {"cpu": 3.6e6}},
    }
    with (path / "events.jsonl").open("a") as file:
        file.write(json.dumps(spent) + "\n")
    own = tmp_path / "prices.toml"
    own.write_text("usd_per_kwh = 0.30\n")
    ((with_price,), _), ((without,), _) = (
        gather_evidence([path], load_prices(own)),
        gather_evidence([path], load_prices()),
    )
    assert with_price.cost_per_call_usd == pytest.approx(0.30 / 30)
    assert without.cost_per_call_usd is None
    assert without.free_of_charge


def test_one_answer_of_unknown_cost_makes_the_mean_unknown(tmp_path: Path) -> None:
    """A mean over the priced calls alone would make an expensive model look cheap."""
    path = MeasuredRun([OPUS]).write(tmp_path)
    results = path / "results.jsonl"
    first, *rest = results.read_text().splitlines(keepends=True)
    results.write_text(first.replace('"cost_usd":0.02', '"cost_usd":null') + "".join(rest))
    ((evidence,), _) = gather_evidence([path], load_prices())
    assert evidence.cost_per_call_usd is None


def test_repeats_do_not_make_a_model_look_surer(tmp_path: Path) -> None:
    """Thirty prompts asked once say more than three prompts asked ten times."""
    once = decision_of(tmp_path / "once", GPT).standings[0].scores["pass_rate"]
    path = MeasuredRun([GPT], n_text=3, n_tool=0).write(tmp_path / "often")
    results = path / "results.jsonl"
    lines = results.read_text()
    results.write_text("".join(lines.replace('"repeat":0', f'"repeat":{n}') for n in range(10)))
    often = decide(gather_evidence([path], load_prices())[0], Policy()).standings[0].scores["pass_rate"]
    assert often < once
