"""The decision table: which limit removed whom, and the order of the rest."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.errors import ConfigError
from clawgauge.prices import load_prices
from clawgauge.records import RULE, Target
from clawgauge.reports.route import describe_decision, describe_forecast
from clawgauge.reports.terminal import as_text
from clawgauge.routing.chains import best_chain, forecast, parse_chain
from clawgauge.routing.decision import decide
from clawgauge.routing.evidence import gather_evidence
from clawgauge.routing.policy import LimitCode, Limits, Policy, Weights, read_policy
from clawgauge.routing.wording import cite, word_place, word_places, word_removed_by, word_tie
from clawgauge.stats.proportions import wilson_interval
from support.measured_models import MeasuredRun
from support.written_runs import LABEL, PROVIDER, config, prompt, record, unanswered, write_run
from unit.routing.runs import CODEX, GPT, LLAMA, OPUS, QWEN, TINY, decision_of


def _labels(decision: object) -> list[str]:
    return [evidence.label for evidence in decision.ranked]  # type: ignore[attr-defined]


def _removed(decision: object) -> dict[str, str]:
    standings = decision.standings  # type: ignore[attr-defined]
    return {
        one.evidence.label: "; ".join(word_removed_by(one)) for one in standings if not one.kept
    }


def test_the_order_is_the_same_every_time(tmp_path: Path) -> None:
    """One run and one policy give one order, whatever the order of the models in the run."""
    one = decision_of(tmp_path / "a", LLAMA, QWEN, GPT, OPUS)
    other = decision_of(tmp_path / "b", OPUS, GPT, QWEN, LLAMA)
    assert _labels(one) == _labels(other)
    assert len(_labels(one)) == 4


def test_a_model_placed_by_a_run_that_was_cut_short_is_said_to_be(tmp_path: Path) -> None:
    """Six of six are a pass rate of 100%, and say nothing of the other thirty-four."""
    plan = config([prompt(f"P{n}") for n in range(40)])
    for n_asked, said in ((6, True), (40, False)):
        path = write_run(
            tmp_path / f"{n_asked}", [record(f"P{n}") for n in range(n_asked)], config=plan
        )
        decision = decide(gather_evidence([path], load_prices())[0], Policy())
        notes = word_places((one, "") for one in decision.standings)
        told = f"{LABEL} is placed by a run that was cut short: 34 of 40 planned prompts were never asked"
        assert (told in notes) is said and ("never asked" in "".join(notes)) is said


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
    assert (
        "cost $400 a month"
        in _removed(decision_of(tmp_path, OPUS, policy=policy))["claude_code_cli:opus"]
    )


def test_weights_change_the_order(tmp_path: Path) -> None:
    """Whoever cares for speed alone gets the fastest first; whoever cares for passes alone the one that passes most."""
    fast = Policy(weights=Weights(pass_rate=0, tool_use=0, cost=0, ttft=0, latency=1))
    good = Policy(weights=Weights(pass_rate=1, tool_use=0, cost=0, ttft=0, latency=0))
    assert (
        _labels(decision_of(tmp_path / "a", LLAMA, GPT, OPUS, policy=fast))[0] == LLAMA.target.label
    )
    assert (
        _labels(decision_of(tmp_path / "b", LLAMA, GPT, OPUS, policy=good))[0] == OPUS.target.label
    )


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
    assert (slow["latency"], slow["ttft"], slow["cost"]) == (
        0.5,
        pytest.approx(4 / 9),
        pytest.approx(0.5),
    )
    assert (quick["latency"], quick["ttft"], quick["cost"]) == (
        pytest.approx(5 / 9),
        0.5,
        pytest.approx(0.25),
    )
    assert local["cost"] == 1.0


def test_what_was_never_asked_is_neither_passed_nor_failed(tmp_path: Path) -> None:
    """A run that was broken off after thirty of forty prompts: 29 of 30 passed, and all of them answered."""
    path = MeasuredRun([replace(GPT, text_passes=20)], n_text=20).write(tmp_path)
    results = path / "results.jsonl"
    results.write_text("".join(results.read_text().splitlines(keepends=True)[10:]))
    strict = Policy(limits=Limits(min_pass_rate=0.9, min_answered_rate=1.0))
    (standing,) = decide(gather_evidence([path], load_prices())[0], strict).standings
    low = wilson_interval(29, 30)
    assert low is not None and standing.kept
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


@pytest.mark.parametrize("address", ["http://127.0.0.1:4000/v1", "http://192.168.0.7:4000/v1"])
def test_a_gateway_that_wants_a_key_is_not_free_because_it_is_near(
    tmp_path: Path, address: str
) -> None:
    """Whom it passes the calls on to may charge for them: its cost is unknown, unless there is a price."""
    keyed = {"type": "openai_chat", "base_url": address, "api_key_env": "GATEWAY_KEY"}
    gateway = replace(QWEN, target=Target("gateway", "m"), settings=keyed)
    policy = Policy(limits=Limits(max_cost_per_call_usd=0.01))
    assert (
        "cost a call unknown"
        in _removed(decision_of(tmp_path / "a", gateway, policy=policy))["gateway:m"]
    )
    assert decision_of(tmp_path / "b", gateway).standings[0].scores["cost"] == 0.0
    priced = decision_of(tmp_path / "c", replace(gateway, cost_usd=0.01), policy=policy)
    assert priced.standings[0].scores["cost"] == pytest.approx(0.5)


def test_latest_is_the_same_model_in_two_runs(tmp_path: Path) -> None:
    """Ollama's `x` and `x:latest` are one: the last run named speaks for it."""
    runs = [
        MeasuredRun(
            [replace(QWEN, target=Target("ollama_openai", name))], run_id=name.replace(":", "_")
        ).write(tmp_path)
        for name in ("qwen3", "qwen3:latest")
    ]
    assert [one.run_id for one in gather_evidence(runs, load_prices())[0]] == ["qwen3_latest"]


def test_a_tie_is_called_one_and_what_is_in_use_stays(tmp_path: Path) -> None:
    """29 of 30 against 28 of 30 is no difference; 29 against 3 is."""
    same = {"e2e_ms": 2900, "settings": QWEN.settings}
    better = replace(QWEN, target=Target("ollama_openai", "better"), text_passes=10, **same)
    good = replace(QWEN, target=Target("ollama_openai", "good"), text_passes=9, **same)
    path = MeasuredRun([better, good]).write(tmp_path)
    evidence, _ = gather_evidence([path], load_prices())
    alone, used = decide(evidence, Policy()), decide(evidence, Policy(), ["ollama_openai:good"])
    assert alone.tied == (
        "ollama_openai:better",
        "ollama_openai:good",
    ) and "has the higher score, no more" in (word_tie(alone) or "")
    assert _labels(used)[0] == "ollama_openai:good"
    assert "ollama_openai:good stays: it is in use" in (word_tie(used) or "")
    bad = replace(TINY, target=Target("ollama_openai", "bad"), **same)
    free = Policy(limits=Limits(min_pass_rate=None))
    sure = decide(
        gather_evidence([MeasuredRun([better, bad], run_id="two").write(tmp_path)], load_prices())[
            0
        ],
        free,
        ["ollama_openai:bad"],
    )
    assert (word_tie(sure), sure.standings[0].best_share, _labels(sure)[0]) == (
        None,
        1.0,
        "ollama_openai:better",
    )


def _of_todays_rule(tmp_path: Path, task_passes: int, **changes: Any) -> Path:
    """Two models that are fit as main agent; the second did so many of the forty tasks that the first did."""
    good = replace(QWEN, target=Target("ollama_openai", "good"), tool_passes=30)
    other = replace(
        good, target=Target("ollama_openai", "other"), task_passes=task_passes, **changes
    )
    run = MeasuredRun(
        [other, good],
        n_tool=30,
        for_subagents=True,
        n_beside=40,
        rule=RULE,
        run_id=f"{task_passes}",
    )
    return run.write(tmp_path)


@pytest.mark.parametrize(
    ("task_passes", "best"), [(40, {"good", "other"}), (37, {"good", "other"}), (33, {"good"})]
)
def test_the_first_place_goes_to_who_is_best_in_the_table_of_jobs(
    tmp_path: Path, task_passes: int, best: set[str]
) -> None:
    """One folder, one answer: a tie here is a tie there, and who is alone there goes first here."""
    evidence, _ = gather_evidence([_of_todays_rule(tmp_path, task_passes)], load_prices())
    decision = decide(evidence, Policy())
    (main,) = [job for job in decision.jobs if job.job == "main agent"]
    assert {fit.target for fit in main.ranking if fit.behind_p is None} == {
        f"ollama_openai:{name}" for name in best
    }
    may_be_best = [one.evidence.target.model for one in decision.standings if one.may_be_best]
    assert set(may_be_best) == best
    assert bool(decision.tied) is (len(best) > 1)
    in_use = decide(evidence, Policy(), ["ollama_openai:other"])
    assert _labels(in_use)[0] == f"ollama_openai:{'other' if 'other' in best else 'good'}"


def test_a_tie_and_who_is_behind_are_said_by_p(tmp_path: Path) -> None:
    tie = decide(gather_evidence([_of_todays_rule(tmp_path, 37)], load_prices())[0], Policy())
    assert word_tie(tie) == (
        "a tie: ollama_openai:good, ollama_openai:other; no difference between them is more than "
        "luck; ollama_openai:good has the higher score, no more"
    )
    assert [word_place(one, tie) for one in tie.standings] == ["tie", "tie"]
    alone = decide(gather_evidence([_of_todays_rule(tmp_path, 33)], load_prices())[0], Policy())
    assert word_tie(alone) is None
    assert [word_place(one, alone) for one in alone.standings] == ["best", "behind (p 0.033)"]
    shown = as_text(describe_decision(alone), 200)
    assert "standing" in shown and "behind (p 0.033)" in shown and "best in" not in shown


def test_who_goes_first_by_weights_is_compared_by_weights(tmp_path: Path) -> None:
    """Who did fewer tasks and is quicker goes first where speed alone counts, and the other one is behind."""
    path = _of_todays_rule(tmp_path, 33, e2e_ms=500)
    fast = Policy(weights=Weights(pass_rate=0, tool_use=0, cost=0, ttft=0, latency=1))
    decision = decide(gather_evidence([path], load_prices())[0], fast)
    assert _labels(decision)[0] == "ollama_openai:other"
    assert decision.standings[1].behind_p is not None


def test_beside_a_run_of_an_earlier_version_the_rule_of_that_one_holds(tmp_path: Path) -> None:
    """Its records have the same prompts, its summary no means to compare."""
    today = _of_todays_rule(tmp_path, 40)
    old = replace(QWEN, target=Target("ollama_openai", "old"), tool_passes=30)
    earlier = MeasuredRun([old], n_tool=30, for_subagents=True, n_beside=40, run_id="old").write(
        tmp_path
    )
    decision = decide(gather_evidence([today, earlier], load_prices())[0], Policy())
    assert decision.is_by_shares and len(decision.tied) == 3
    assert sum(one.best_share for one in decision.standings) == pytest.approx(1)
    assert "best in" in as_text(describe_decision(decision), 200)


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
        ("[limits]\nmin_answered_rate = 1.01\n", "min_answered_rate"),
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
    often = (
        decide(gather_evidence([path], load_prices())[0], Policy()).standings[0].scores["pass_rate"]
    )
    assert often < once


def test_the_default_policy_is_the_one_on_the_page(tmp_path: Path) -> None:
    """Limits, weights and counts; without a file it is that one."""
    page = (Path(__file__).parents[3] / "docs" / "routing.md").read_text(encoding="utf-8")
    path = tmp_path / "policy.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    assert msgspec.to_builtins(read_policy(path)) == msgspec.to_builtins(read_policy(None))
    written = tomllib.loads(path.read_text(encoding="utf-8"))
    assert msgspec.to_builtins(Policy().weights) == written["weights"]


def test_the_score_is_the_weighted_mean(tmp_path: Path) -> None:
    """Three parts passes, two parts tool use, one each of the rest, over eight."""
    (standing,) = decision_of(tmp_path, QWEN).standings
    assert standing.scores == {
        "pass_rate": pytest.approx(0.8332961),  # Wilson's lower end of 29 of 30
        "tool_use": pytest.approx(0.8388748),  # and of 20 of 20
        "latency": pytest.approx(5000 / 7900),
        "ttft": pytest.approx(1000 / 1725),
        "cost": 1.0,
    }
    parts = standing.scores
    assert standing.score == pytest.approx(
        (
            3 * parts["pass_rate"]
            + 2 * parts["tool_use"]
            + parts["latency"]
            + parts["ttft"]
            + parts["cost"]
        )
        / 8
    )


@pytest.mark.parametrize(
    ("limits", "removed_by"),
    [
        ({"min_pass_rate": 19 / 30}, None),
        ({"min_pass_rate": 0.64}, "pass rate 63% of 30, wanted at least 64%"),
        ({"min_answered_rate": 1.0}, None),
        ({"max_p95_ms": 900}, None),
        ({"max_p95_ms": 899}, "p95 900 ms (n=30), wanted at most 899 ms"),
        ({"max_ttft_p95_ms": 225}, None),
        ({"max_ttft_p95_ms": 224}, "first token p95 225 ms (n=30), wanted at most 224 ms"),
        ({"max_tier": 2}, None),
        ({"max_tier": 1}, "Tier 2 (provisional), wanted Tier 1 or better"),
        ({"max_cost_per_call_usd": 0.02}, None),
        ({"max_cost_per_call_usd": 0.019}, "cost $0.02 a call, wanted at most $0.019"),
        ({"max_monthly_cost_usd": 200}, None),
        ({"max_monthly_cost_usd": 199}, "cost $200 a month, wanted at most $199"),
        ({"local_only": True}, None),
    ],
)
def test_a_model_on_the_limit_keeps_it(
    tmp_path: Path, limits: dict[str, float], removed_by: str | None
) -> None:
    """At least and at most include their number; beyond it the model is out, and says by how much."""
    priced = replace(LLAMA, cost_usd=0.02)
    wanted = Limits(**{"min_pass_rate": None, **limits})  # type: ignore[arg-type]
    removed = _removed(decision_of(tmp_path, priced, policy=Policy(limits=wanted)))
    assert removed == ({} if removed_by is None else {"ollama_openai:llama3.2:3b": removed_by})


def test_a_tail_of_timeouts_keeps_no_limit(tmp_path: Path) -> None:
    """A tenth of the calls was cut off at 9 s: the answers were fast, the p95 is not, and the reason says so."""
    ids = [f"P{n}" for n in range(30)]
    lines = [unanswered(i, e2e_ms=9_000) if n < 3 else record(i) for n, i in enumerate(ids)]
    run = write_run(tmp_path / "run", lines, config=config([prompt(i) for i in ids]))
    limits = Limits(max_p95_ms=20_000)
    decision = decide(gather_evidence([run], load_prices())[0], Policy(limits=limits))
    assert _removed(decision) == {LABEL: "p95 > 9.0 s (n=30), wanted at most 20000 ms"}


def _write_hanging(tmp_path: Path, deadline_ms: int = 120_000) -> Path:
    """Two models that pass nine prompts in ten: one answers in 200 ms or hangs until its deadline, one is wrong in a
    second."""
    ids = [f"P{n}" for n in range(100)]
    lines = []
    for n, i in enumerate(ids):
        hangs = n % 10 == 0
        swift = {"model": "hangs", "e2e_ms": 200, "ttft_ms": 100, "total_ms": 200}
        cut_off = {"model": "hangs", "e2e_ms": deadline_ms, "total_ms": deadline_ms}
        lines.append(unanswered(i, **cut_off) if hangs else record(i, **swift))
        lines.append(
            record(i, not hangs, model="steady", e2e_ms=1_000, ttft_ms=100, total_ms=1_000)
        )
    plan = config([prompt(i) for i in ids], models=("hangs", "steady"))
    return write_run(tmp_path / "run", lines, config=plan)


def test_a_short_deadline_does_not_make_a_model_that_hangs_quick(tmp_path: Path) -> None:
    """Nobody knows how long the p95 is: given up after half a second, it is not the quicker for it."""
    decision = decide(gather_evidence([_write_hanging(tmp_path, 500)], load_prices())[0], Policy())
    steady, hangs = decision.standings
    assert (steady.evidence.target.model, hangs.scores["latency"]) == ("steady", 0.0)


def test_a_model_that_hangs_in_a_tenth_of_its_calls_is_not_placed_first(tmp_path: Path) -> None:
    """Its p95 is beyond its deadline, and counts for nothing, in the resamplings as well."""
    decision = decide(gather_evidence([_write_hanging(tmp_path)], load_prices())[0], Policy())
    steady, hangs = decision.standings
    assert (steady.evidence.target.model, hangs.evidence.target.model) == ("steady", "hangs")
    assert hangs.scores["latency"] == 0.0 and steady.scores["latency"] == pytest.approx(5 / 6)
    assert steady.best_share > 0.9
    told = as_text(describe_decision(decision), 160)
    assert "> 120 s (n=100)" in told and "p95 > 120 s (n=100)" in cite(hangs.evidence)


def test_a_chain_that_hangs_takes_longer_than_any_answer(tmp_path: Path) -> None:
    """Nine of ten answers came in 200 ms; the p95 of the chain is beyond the deadline and breaks every limit."""
    evidence, _ = gather_evidence([_write_hanging(tmp_path)], load_prices())
    decision = decide(evidence, Policy(limits=Limits(max_p95_ms=500_000)))
    alone = forecast(parse_chain("hangs", decision))
    assert (alone.p50_ms, alone.p95_ms, alone.beyond) == (200, 120_000, ("p95",))
    assert "> 120 s" in as_text([describe_forecast(alone)], 100)
    best = best_chain(decision)
    assert best is not None and best.label == f"{PROVIDER}:steady"
    helped = forecast(parse_chain("hangs>steady", decision))
    assert (helped.p95_ms, helped.beyond) == (121_000, ())


def test_what_was_not_measured_keeps_no_limit(tmp_path: Path) -> None:
    """A model that never answered has no times and no tier, and its place says so."""
    limits = Limits(min_pass_rate=0, max_p95_ms=100, max_ttft_p95_ms=100, max_tier=3)
    (standing,) = decision_of(
        tmp_path, replace(QWEN, failed_calls=30), policy=Policy(limits=limits)
    ).standings
    assert word_removed_by(standing) == [
        "answered 0% of 30, wanted at least 80%",
        "p95 not measured, wanted at most 100 ms",
        "first token p95 not measured, wanted at most 100 ms",
        "no tool prompts answered, wanted Tier 3 or better",
    ]
    codes = [broken.code for broken in standing.removed_by]
    assert codes == [
        LimitCode.ANSWERED_RATE,
        LimitCode.P95,
        LimitCode.FIRST_TOKEN_P95,
        LimitCode.TIER,
    ]
    assert [broken.measured for broken in standing.removed_by] == [0.0, None, None, None]
    assert standing.scores == {
        "pass_rate": 0.0,
        "tool_use": 0.0,
        "latency": 0.0,
        "ttft": 0.0,
        "cost": 1.0,
    }


def test_one_prompt_however_often_speaks_for_no_other(tmp_path: Path) -> None:
    """Ten clean repeats of a single prompt have no lower end to be placed by."""
    path = MeasuredRun([GPT], n_text=1, n_tool=0).write(tmp_path)
    results = path / "results.jsonl"
    line = results.read_text()
    results.write_text("".join(line.replace('"repeat":0', f'"repeat":{n}') for n in range(10)))
    (standing,) = decide(gather_evidence([path], load_prices())[0], Policy()).standings
    assert standing.scores["pass_rate"] == 0.0


def test_a_removed_model_stands_behind_every_kept_one(tmp_path: Path) -> None:
    """However high it scored; of equal scores the name decides."""
    twin = replace(QWEN, target=Target("ollama_openai", "another"))
    standings = decision_of(
        tmp_path, OPUS, QWEN, twin, policy=Policy(limits=Limits(max_p95_ms=2900))
    ).standings
    assert [one.evidence.label for one in standings] == [
        "ollama_openai:another",
        "ollama_openai:qwen3:8b",
        "claude_code_cli:opus",
    ]
    cheap = Policy(
        limits=Limits(max_tier=1), weights=Weights(pass_rate=0, tool_use=0, ttft=0, cost=0)
    )
    assert [
        one.kept for one in decision_of(tmp_path / "quick", LLAMA, OPUS, policy=cheap).standings
    ] == [True, False]


def test_a_model_that_answered_nothing_is_not_placed_before_one_that_did(tmp_path: Path) -> None:
    """It is free of charge, which is all that its score is made of; `show` lists it last as well."""
    dead = replace(QWEN, failed_calls=30)
    slow = replace(OPUS, text_passes=0, tool_passes=0, e2e_ms=60_000, cost_usd=1.0)
    for limits in (Limits(), Limits(min_pass_rate=None, min_answered_rate=None)):
        folder = tmp_path / str(limits.min_pass_rate)
        standings = decision_of(folder, dead, slow, policy=Policy(limits=limits)).standings
        labels = [one.evidence.label for one in standings]
        assert labels == [slow.target.label, dead.target.label]
        assert standings[0].score < standings[1].score


def test_a_failed_call_passed_nothing(tmp_path: Path) -> None:
    """Whatever its line says of a verdict: what did not succeed is no pass, in no score and no chain."""
    path = MeasuredRun([replace(GPT, text_passes=0, tool_passes=0, failed_calls=30)]).write(
        tmp_path
    )
    results = path / "results.jsonl"
    results.write_text(
        results.read_text().replace('"objective_pass":null', '"objective_pass":true')
    )
    ((evidence,), _) = gather_evidence([path], load_prices())
    assert {(cell.answered, cell.passed) for cell in evidence.cells.values()} == {(False, None)}
