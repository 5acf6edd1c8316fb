"""What a chain would do, from paired recorded calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clawgauge.errors import RequestError
from clawgauge.prices import load_prices
from clawgauge.routing.chains import best_chain, forecast, parse_chain
from clawgauge.routing.decision import decide
from clawgauge.routing.evidence import gather_evidence
from clawgauge.routing.policy import Limits, Policy, Weights
from support.measured_models import MeasuredRun
from support.written_runs import config, prompt, record, write_run
from unit.routing.runs import CODEX, GPT, LLAMA, OPUS, QWEN, SMOL, TINY, decision_of

SHAKY = replace(LLAMA, failed_calls=6)


def test_the_next_model_answers_where_the_first_failed(tmp_path: Path) -> None:
    """Six calls of the first failed: the second answers those, and its time comes on top of the failure's."""
    decision = decision_of(tmp_path, SHAKY, OPUS)
    found = forecast(parse_chain("llama>opus", decision))
    assert (found.n_cells, found.n_answered) == (30, 30)
    assert found.answered_by == (24, 6)
    # The first passes P6 of the text prompts and twelve tool prompts; the second passes P0–P5.
    assert found.n_passed == 1 + 12 + 6
    assert found.p95_ms == 900 + 5000
    assert found.p50_ms == 900


def test_a_wrong_answer_is_an_answer(tmp_path: Path) -> None:
    """A router sees failures, not mistakes: a better model behind one that always answers changes nothing."""
    decision = decision_of(tmp_path, LLAMA, OPUS)
    alone, chained = (
        forecast(parse_chain("llama", decision)),
        forecast(parse_chain("llama>opus", decision)),
    )
    assert (alone.n_passed, alone.p95_ms) == (chained.n_passed, chained.p95_ms)
    assert chained.answered_by == (30, 0)


def test_cost_is_what_was_spent_along_the_way(tmp_path: Path) -> None:
    """A local model costs nothing per call, a fallback its price on the calls it answers."""
    decision = decision_of(tmp_path, SHAKY, OPUS)
    assert forecast(parse_chain("llama>opus", decision)).cost_per_call_usd == pytest.approx(
        6 * 0.02 / 30
    )
    assert forecast(parse_chain("opus", decision)).cost_per_call_usd == pytest.approx(0.02)


def test_intervals_are_given_and_the_same_every_time(tmp_path: Path) -> None:
    """Figures have intervals where the calls are enough for one, and the same evidence gives the same one."""
    chain = parse_chain("llama>opus", decision_of(tmp_path, SHAKY, OPUS))
    one, other = forecast(chain), forecast(chain)
    assert one == other
    assert one.pass_ci95 is not None
    assert one.pass_rate is not None
    assert one.pass_ci95[0] < one.pass_rate < one.pass_ci95[1]
    assert one.p50_ci95 is not None
    assert one.p50_ci95[0] <= (one.p50_ms or 0) <= one.p50_ci95[1]
    assert one.p95_ci95 is None


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("nobody", "fits no model"),
        ("ollama", "more than one"),
        ("llama3.2:3b>llama", "twice"),
        ("llama>", "empty"),
    ],
)
def test_a_chain_that_names_nobody_or_several_is_refused(
    tmp_path: Path, words: str, problem: str
) -> None:
    """The refusal says what is wrong, and names the models there are."""
    with pytest.raises(RequestError, match=problem):
        parse_chain(words, decision_of(tmp_path, LLAMA, QWEN, OPUS))


def test_local_is_the_best_placed_model_of_this_machine(tmp_path: Path) -> None:
    """`local` needs no name."""
    decision = decision_of(tmp_path, LLAMA, QWEN, GPT)
    assert [one.label for one in parse_chain("local>gpt-5", decision)] == [
        QWEN.target.label,
        GPT.target.label,
    ]
    with pytest.raises(RequestError, match="local"):
        parse_chain("local", decision_of(tmp_path / "cloud", GPT))


def test_the_best_chain_keeps_the_policy(tmp_path: Path) -> None:
    """The chain that passes most, of the models the limits left; a limit on p95 holds for the chain too."""
    decision = decision_of(
        tmp_path, SHAKY, QWEN, OPUS, policy=Policy(limits=Limits(min_answered_rate=0.5))
    )
    best = best_chain(decision)
    assert best is not None
    assert best.chain[0].label == OPUS.target.label
    quick = Policy(limits=Limits(min_answered_rate=0.5, max_p95_ms=3500))
    best = best_chain(decision_of(tmp_path / "quick", SHAKY, QWEN, OPUS, policy=quick))
    assert best is not None
    assert OPUS.target.label not in best.label
    assert best.p95_ms is not None
    assert best.p95_ms <= 3500


def test_without_a_model_that_keeps_the_limits_there_is_no_best_chain(tmp_path: Path) -> None:
    """Nothing is better than something that breaks the policy."""
    assert (
        best_chain(decision_of(tmp_path, LLAMA, policy=Policy(limits=Limits(min_pass_rate=0.99))))
        is None
    )


def test_chains_on_other_prompts_are_not_set_beside_each_other(tmp_path: Path) -> None:
    """Nobody beats a model that was asked thirty prompts with a clean score on fifteen of them."""
    many = MeasuredRun([LLAMA], run_id="many").write(tmp_path)
    few = MeasuredRun([OPUS], n_text=5, n_tool=10, run_id="few").write(tmp_path)
    fast = Policy(weights=Weights(pass_rate=0, tool_use=0, cost=0, ttft=0, latency=1))
    decision = decide(gather_evidence([many, few], load_prices())[0], fast)
    assert [one.label for one in decision.ranked] == [LLAMA.target.label, OPUS.target.label]
    best = best_chain(decision)
    assert best is not None
    assert (best.label, best.n_cells) == (LLAMA.target.label, 30)


def test_the_embedded_model_is_not_the_local_one(tmp_path: Path) -> None:
    """Its server is gone after the run: `local` is a model that is still there."""
    decision = decision_of(tmp_path, SMOL, TINY, OPUS)
    assert parse_chain("local", decision)[0].label == TINY.target.label


def test_a_chain_may_break_a_limit_that_its_members_keep(tmp_path: Path) -> None:
    """The first fails often, the second takes over: nobody passes more, and nobody takes longer."""
    wanted = Limits(min_answered_rate=0.5)
    first = replace(GPT, tool_passes=20, failed_calls=6)
    free = best_chain(decision_of(tmp_path / "free", first, QWEN, policy=Policy(limits=wanted)))
    assert free is not None
    assert (free.label, free.n_passed, free.p95_ms) == (
        f"{GPT.target.label} > {QWEN.target.label}",
        29,
        4900,
    )
    assert free.unseen  # one prompt was lost by a chain that the others would have chosen
    tight = Limits(min_answered_rate=0.5, max_p95_ms=4899)
    bound = best_chain(decision_of(tmp_path / "tight", first, QWEN, policy=Policy(limits=tight)))
    assert bound is not None
    assert (bound.label, bound.n_passed, bound.p95_ms) == (QWEN.target.label, 29, 2900)
    alone = best_chain(
        decision_of(tmp_path / "alone", first, QWEN, policy=Policy(limits=wanted, max_fallbacks=0))
    )
    assert alone is not None
    assert alone.label == QWEN.target.label


def test_of_chains_that_pass_alike_the_faster_and_the_shorter_is_best(tmp_path: Path) -> None:
    """Nobody is put behind a model that never fails, and the quick one of two such models goes first."""
    slow, quick = replace(OPUS, e2e_ms=5000), replace(GPT, tool_passes=20, e2e_ms=2000)
    best = best_chain(decision_of(tmp_path, slow, quick))
    assert best is not None
    assert best.label == GPT.target.label


def test_a_chain_that_nobody_answers_passes_nothing(tmp_path: Path) -> None:
    """Where both fail no one has answered; the prompts stay in the rate, and their times in no percentile."""
    decision = decision_of(
        tmp_path, replace(LLAMA, failed_calls=30), replace(TINY, failed_calls=29)
    )
    both = forecast(parse_chain("llama>tiny", decision))
    assert (both.n_cells, both.n_answered, both.n_judged, both.n_passed, both.answered_by) == (
        30,
        1,
        30,
        0,
        (0, 1),
    )
    assert (both.pass_rate, both.p50_ms) == (0.0, 1200)
    none = forecast(parse_chain("llama", decision))
    assert (none.n_answered, none.n_judged, none.p50_ms, none.p95_ms, none.answered_by) == (
        0,
        30,
        None,
        None,
        (0,),
    )


def test_one_answer_of_unknown_price_makes_a_chains_cost_unknown(tmp_path: Path) -> None:
    """A call that failed is not billed; one that answered at no known price is."""
    decision = decision_of(
        tmp_path, replace(CODEX, failed_calls=6), OPUS, replace(TINY, failed_calls=30)
    )
    assert forecast(parse_chain("codex>opus", decision)).cost_per_call_usd is None
    assert forecast(parse_chain("tiny>opus", decision)).cost_per_call_usd == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("word", "label"),
    [
        ("claude_code_cli", "claude_code_cli:opus"),
        ("opus", "claude_code_cli:opus"),
        ("CLAUDE", "claude_code_cli:opus"),
        ("llama", "ollama_openai:llama3.2:3b"),
        ("Qwen", "ollama_openai:qwen3:8b"),
        (" openai_responses:gpt-5 ", "openai_responses:gpt-5"),
        ("gpt-5", "openai_responses:gpt-5"),
        ("codex", "openai_responses:gpt-5-codex@high"),
        ("@high", "openai_responses:gpt-5-codex@high"),
    ],
)
def test_a_word_names_the_one_model_it_fits(tmp_path: Path, word: str, label: str) -> None:
    """Whole names first, then part of a model's name, then part of a label, in any case."""
    (found,) = parse_chain(word, decision_of(tmp_path, LLAMA, QWEN, GPT, CODEX, OPUS))
    assert found.label == label


def test_a_chain_is_forecast_on_the_prompts_all_its_members_have(tmp_path: Path) -> None:
    """Thirty of one and fifteen of the other are fifteen pairs."""
    many = MeasuredRun([LLAMA], run_id="many").write(tmp_path)
    few = MeasuredRun([OPUS, TINY], n_text=5, n_tool=10, run_id="few").write(tmp_path)
    decision = decide(gather_evidence([many, few], load_prices())[0], Policy())
    assert forecast(parse_chain("llama>opus>tiny", decision)).n_cells == 15
    assert forecast(parse_chain("opus>llama", decision)).n_cells == 15


def test_a_policy_that_asks_nothing_still_has_a_best_chain(tmp_path: Path) -> None:
    """Of models that never answered none is worse than another: one of them alone, and nothing breaks."""
    anyone = Policy(limits=Limits(min_pass_rate=None, min_answered_rate=None))
    silent = [replace(model, failed_calls=30) for model in (LLAMA, QWEN)]
    best = best_chain(decision_of(tmp_path, *silent, policy=anyone))
    assert best is not None
    assert (best.label, best.n_answered, best.p95_ms) == (LLAMA.target.label, 0, None)


def test_an_outage_of_one_machine_takes_all_of_it(tmp_path: Path) -> None:
    """Two models on one server back each other up only on paper; one of another vendor does not share its outage."""
    shaky = replace(LLAMA, failed_calls=6)
    decision = decision_of(
        tmp_path, shaky, QWEN, GPT, policy=Policy(limits=Limits(min_answered_rate=0.5))
    )
    beside, elsewhere = (
        forecast(parse_chain(words, decision)) for words in ("llama>qwen", "llama>gpt")
    )
    assert (beside.n_answered, beside.n_answered_together) == (30, 24)
    assert (elsewhere.n_answered, elsewhere.n_answered_together) == (30, 30)
    assert beside.answered_low is not None and beside.answered_low < 0.8


def test_a_verdict_the_plan_does_not_know_counts_in_no_pass_rate(tmp_path: Path) -> None:
    """A record may have passed a prompt that its config.json asks for no verdict: that is no pass of the judged."""
    plan = config([prompt("P0", validator={"type": "noop"}), prompt("P1"), prompt("P2")])
    folder = write_run(tmp_path / "run", [record(f"P{n}") for n in range(3)], config=plan)
    found = best_chain(
        decide(
            gather_evidence([folder], load_prices())[0], Policy(limits=Limits(min_pass_rate=None))
        )
    )
    assert found is not None and (found.n_passed, found.n_judged, found.pass_rate) == (2, 2, 1.0)
