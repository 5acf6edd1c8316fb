"""The tier of a group: what it rests on, how sure it is, what it is called."""

from __future__ import annotations

import pytest

from clawgauge.reports.words import word_balance
from clawgauge.summary import summarize_folder
from support.rows import every_row

from .run_folders import config, failed, prompt, record, tool_record, write_run


def tool_use(folder):
    (group,) = summarize_folder(folder).models
    return group.tool_use


def test_thirteen_of_thirteen_is_decided(tmp_path):
    """Thirteen prompts with a call each are a decided Tier 1, which alone recommends nobody for subagents."""
    use = tool_use(write_run(tmp_path / "run", [tool_record(f"P{i}", True) for i in range(13)]))
    assert (use.tier, use.decided, use.needed, use.label) == (1, True, 0, "Tier 1 (decided)")
    assert not use.recommended_for_subagents
    assert (use.n_eff, use.rate, use.ci95[1]) == (13.0, 1.0, 1.0)


def test_six_of_six_is_provisional_and_says_what_is_missing(tmp_path):
    """Six passes of six are Tier 1 with 79% confidence: not recommended, seven clean passes short."""
    use = tool_use(write_run(tmp_path / "run", [tool_record(f"P{i}", True) for i in range(6)]))
    assert use.label == "Tier 1 (provisional: 7 more clean passes would decide it)"
    assert use.p_tier[0] == pytest.approx(0.7902848)
    assert (use.decided, use.recommended_for_subagents, use.needed) == (False, False, 7)


@every_row(
    ("k", "label"),
    [(0, "Tier 3 (decided)"), (2, "Tier 3 (provisional)"), (4, "Tier 2 (provisional)")],
)
def test_lower_tiers_say_whether_they_are_sure(tmp_path, k, label):
    """Tier 2 and 3 carry decided or provisional too."""
    use = tool_use(write_run(tmp_path / "run", [tool_record(f"P{i}", i < k) for i in range(6)]))
    assert use.label == label
    assert not use.recommended_for_subagents


def test_unanswered_prompts_are_not_held_against_the_tier(tmp_path):
    """A timeout is no evidence about tools; an empty answer is a missed call."""
    rows = [
        tool_record("P0", True),
        tool_record("P1", False)
        | failed("P1", "ok", "empty_response", suite="tool_use", expected_tools=["free"]),
        tool_record("P2", False)
        | failed("P2", "error", "timeout", suite="tool_use", expected_tools=["free"]),
    ]
    use = tool_use(write_run(tmp_path / "run", rows))
    assert (use.k, use.n) == (1, 2)


def test_prompts_that_offer_tools_decide_where_there_are_any(tmp_path):
    """With native prompts answered the text prompts do not count; without them they do."""
    text = [tool_record(f"T{i}", False) for i in range(5)]
    native = [tool_record(f"N{i}", True, native=True) for i in range(3)]
    both = tool_use(write_run(tmp_path / "both", text + native))
    assert (both.source, both.k, both.n, both.channels.native, both.channels.none) == (
        "native",
        3,
        3,
        3,
        0,
    )
    alone = tool_use(write_run(tmp_path / "text", text))
    assert (alone.source, alone.k, alone.n, alone.channels.none) == ("text", 0, 5, 5)


def test_no_tool_prompt_answered_has_no_tier(tmp_path):
    """Without an answered tool prompt there is no tier, and the label says so."""
    rows = [record("P0"), failed("P1", "error", "timeout", expected_tools=["free"])]
    use = tool_use(write_run(tmp_path / "run", rows))
    assert (use.tier, use.source, use.p_tier, use.needed) == (None, None, None, 13)
    assert use.label == "no tool prompts answered"


def test_channels_tell_how_the_calls_came(tmp_path):
    """Calls are counted by channel; a malformed one is malformed whatever its channel; no call is none."""

    def calls(*pairs):
        return [
            {"name": "free", "arguments": None, "channel": channel, "valid": valid}
            for channel, valid in pairs
        ]

    rows = [
        tool_record(
            "P0", True, native=True, tool_invocations=calls(("native", True), ("native", True))
        ),
        tool_record(
            "P1", False, native=True, tool_invocations=calls(("text:xml", True), ("native", False))
        ),
        tool_record("P2", False, native=True, tool_invocations=calls(("mention", True))),
        tool_record("P3", False, native=True),
        record("P4", tool_invocations=calls(("mention", True))),
    ]
    channels = tool_use(write_run(tmp_path / "run", rows)).channels
    assert (
        channels.native,
        channels.text,
        channels.malformed,
        channels.mention,
        channels.none,
    ) == (2, 1, 1, 1, 1)


def test_repeats_of_the_same_prompts_do_not_decide_a_tier(tmp_path):
    """Six prompts passed ten times each are six prompts' worth of evidence, and the label asks for other prompts."""
    rows = [tool_record(f"P{p}", True, repeat=r) for p in range(6) for r in range(10)]
    use = tool_use(write_run(tmp_path / "run", rows))
    assert (use.n, use.n_eff, use.decided) == (60, 6.0, False)
    assert use.label == "Tier 1 (provisional: 7 more clean passes of other prompts would decide it)"


def test_one_prompt_repeated_decides_nothing(tmp_path):
    """A single prompt passed fifty times has a point tier and no confidence at all."""
    use = tool_use(
        write_run(tmp_path / "run", [tool_record("P0", True, repeat=r) for r in range(50)])
    )
    assert (use.tier, use.n_eff, use.p_tier, use.ci95, use.decided) == (1, None, None, None, False)
    assert use.label == "Tier 1 (provisional: one prompt says nothing about others)"


def test_restraint_and_tasks_stand_beside_the_tier(tmp_path):
    """Prompts that ask for no call, and multi-turn tasks, have rates of their own and are not in k of n."""
    plan = config(
        [
            prompt("N0", "tool_use", {"type": "tool_call", "expected_calls": []}),
            prompt("R0", "tool_use", {"type": "tool_call", "no_call": True}),
            prompt("R1", "tool_use", {"type": "tool_call", "ask": True}),
            prompt("W0", "tool_use", {"type": "world_state", "expect": []}),
        ]
    )
    rows = [
        tool_record("N0", True, native=True),
        record("R0", suite="tool_use", tools_offered=True, objective_pass=True),
        record("R1", suite="tool_use", tools_offered=True, objective_pass=False),
        tool_record("W0", False, native=True, objective_pass=True, turns=4),
    ]
    (group,) = summarize_folder(write_run(tmp_path / "run", rows, config=plan)).models
    assert (group.tool_use.k, group.tool_use.n, group.tool_use.channels.none) == (1, 1, 0)
    assert (group.restraint.k, group.restraint.n, group.restraint.rate) == (1, 2, 0.5)
    assert (group.tasks.k, group.tasks.n, group.tasks.mean_turns) == (1, 1, 4)


def test_pairs_stand_beside_the_tier_and_restraint(tmp_path):
    """Both prompts of a pair expect a call, and count in the pass rate alone: alone neither tells much."""
    call = {"type": "tool_call", "expected_calls": [{"name": "free"}]}
    plan = config(
        [
            prompt("N0", "tool_use", call),
            prompt("A0", "tool_use", call),
            prompt("A1", "tool_use", call) | {"pair": "A0"},
        ]
    )
    rows = [
        tool_record("N0", True, native=True),
        tool_record("A0", True, native=True),
        tool_record("A1", False, native=True),
    ]
    (group,) = summarize_folder(write_run(tmp_path / "run", rows, config=plan)).models
    assert (group.tool_use.k, group.tool_use.n) == (1, 1)
    assert (group.argument_accuracy.k, group.argument_accuracy.n) == (1, 1)
    assert group.restraint.n == 0
    assert (group.n_passed, group.n_judged) == (2, 3)


CALL = {"name": "free", "arguments": {}, "channel": "native", "valid": True}
TEXT_CALL = CALL | {"channel": "text:hermes"}


def offering(prompt_id, channel, *, passed=False, expected=("free",), **changes):
    """An answered prompt that offers tools, with one call on `channel` (or none)."""
    calls = [] if channel == "none" else [CALL | {"channel": channel}]
    success = channel == "native" and bool(expected)
    return record(
        prompt_id,
        suite="agent",
        tools_offered=True,
        expected_tools=list(expected),
        tool_invocations=calls,
        tool_channel=channel,
        tool_use_success=success,
        objective_pass=passed,
        **changes,
    )


def agent_plan(n_calls, n_restraint=0):
    call = {"type": "tool_call", "expected_calls": [{"name": "free"}]}
    return config(
        [prompt(f"N{i}", "agent", call) for i in range(n_calls)]
        + [
            prompt(f"R{i}", "agent", {"type": "tool_call", "no_call": True})
            for i in range(n_restraint)
        ]
    )


def summarized(folder, rows, plan):
    (group,) = summarize_folder(write_run(folder, rows, config=plan)).models
    return group


def test_rescued_calls_are_counted_with_their_formats(tmp_path):
    """Calls written as text on prompts that offer tools are no success, counted as rescued, by format."""
    rows = [
        offering("N0", "native", passed=True),
        offering("N1", "text:hermes"),
        offering("N2", "text:hermes"),
        offering("N3", "text:pythonic"),
        offering("N4", "none"),
        record(
            "T0",
            suite="tool_use",
            expected_tools=["free"],
            tool_invocations=[TEXT_CALL],
            tool_use_success=True,
        ),
    ]
    group = summarized(tmp_path / "run", rows, agent_plan(5))
    use = group.tool_use
    assert (use.k, use.n, use.rescued, use.suites) == (1, 5, 3, ["agent"])
    assert use.formats == {"hermes": 2, "pythonic": 1}
    assert use.caution == "3 of 5 calls were written as text and had to be rescued"
    for row in rows:
        row.pop("tool_channel", None)
    assert summarized(tmp_path / "older", rows, agent_plan(5)).tool_use == use


def test_a_task_whose_calls_came_as_text_is_no_rescued_tier_prompt(tmp_path):
    """Tasks have a figure of their own: the tier and its caution tell of the tier prompts alone."""
    plan = agent_plan(5)
    plan["prompts"].append(prompt("W0", "agent", {"type": "world_state", "expect": []}))
    rows = [offering(f"N{i}", "native", passed=True) for i in range(5)]
    rows.append(offering("W0", "text:hermes", turns=1))
    group = summarized(tmp_path / "run", rows, plan)
    assert (group.tasks.n, group.tool_use.n, group.tool_use.rescued) == (1, 5, 0)
    assert group.tool_use.caution is None


def test_a_refusal_counts_neither_for_nor_against_restraint(tmp_path):
    """Who says no in the protocol's own words called nothing, and did not answer either."""
    rows = [offering(f"R{i}", "none", expected=(), passed=True) for i in range(3)]
    rows.append(offering("R3", "native", expected=()))
    rows.append(offering("R4", "none", expected=()) | {"success": False, "failure_type": "refusal"})
    restraint = summarized(tmp_path / "run", rows, agent_plan(0, 5)).restraint
    assert (restraint.k, restraint.n) == (3, 4)


def test_right_arguments_stand_beside_the_tier(tmp_path):
    """A call with wrong arguments counts for the tier and against the arguments; text prompts are in neither."""
    rows = [offering(f"N{i}", "native", passed=i < 7) for i in range(10)] + [
        tool_record("T0", False)
    ]
    group = summarized(tmp_path / "run", rows, agent_plan(10))
    assert (group.tool_use.k, group.tool_use.n) == (10, 10)
    arguments = group.argument_accuracy
    assert (arguments.k, arguments.n, arguments.rate) == (7, 10, 0.7)
    assert arguments.ci95 == pytest.approx((0.3968, 0.8922), abs=1e-4)
    assert group.tool_use.caution == "3 of 10 calls made had wrong arguments"
    text_only = summarized(tmp_path / "text", [tool_record("T0", True)], agent_plan(0))
    assert text_only.argument_accuracy is None


@every_row(
    ("channel", "said"),
    [
        ("native", "it called a tool in 1 of 4 answers where none was wanted"),
        ("malformed", "it called a tool in 1 of 4 answers where none was wanted"),
        ("text:hermes", "it wrote a call as text in 1 of 4 answers where none was wanted"),
    ],
)
def test_a_model_that_calls_when_it_must_not_is_named(tmp_path, channel, said):
    """A decided Tier 1 model that called a tool where none was wanted carries the caution beside its tier."""
    rows = [offering(f"N{i}", "native", passed=True) for i in range(13)]
    rows += [offering("R0", channel, expected=()), offering("R1", "none", expected=(), passed=True)]
    rows += [offering("R2", "mention", expected=()), offering("R3", "mention", expected=())]
    group = summarized(tmp_path / "run", rows, agent_plan(13, 4))
    assert group.tool_use.label == "Tier 1 (decided)"
    assert group.tool_use.caution == said
    assert (group.restraint.k, group.restraint.n) == (1, 4)


def test_native_calls_and_calls_written_as_text_are_counted_apart(tmp_path):
    """Where none was wanted as where one was: a call that is only written is no native call."""
    rows = [offering(f"N{i}", "native" if i < 4 else "text:hermes", passed=i < 4) for i in range(6)]
    rows += [
        offering("R0", "native", expected=()),
        *(offering(f"R{i}", "text:xml", expected=()) for i in (1, 2)),
    ]
    rows += [offering("R3", "none", expected=(), passed=True)]
    group = summarized(tmp_path / "run", rows, agent_plan(6, 4))
    balance = group.call_balance
    assert (balance.k_call, balance.n_call, balance.text_call) == (4, 6, 2)
    assert (balance.k_no_call, balance.n_no_call, balance.text_no_call) == (3, 4, 2)
    where = "of 4 answers where none was wanted"
    assert (
        group.tool_use.caution
        == f"it called a tool in 1 {where}; it wrote a call as text in 2 {where}"
    )
    told = word_balance(balance)
    assert "native calls: made where one was wanted 67% · 4/6, where none was 25% · 1/4" in told
    assert "calls written as text: 33% · 2/6 where one was wanted, 50% · 2/4 where none was" in told


@every_row(
    ("call", "leave", "rate"),
    [("native", "native", 0.5), ("none", "none", 0.5), ("native", "none", 1.0)],
)
def test_neither_always_nor_never_calling_looks_good(tmp_path, call, leave, rate):
    """Calling and leaving alone make one figure, in which a model that does one thing only has a half."""
    rows = [offering(f"N{i}", call, passed=True) for i in range(6)]
    rows += [offering(f"R{i}", leave, expected=(), passed=True) for i in range(2)]
    balance = summarized(tmp_path / "run", rows, agent_plan(6, 2)).call_balance
    assert (balance.n_call, balance.n_no_call, balance.rate) == (6, 2, rate)
    alone = summarized(tmp_path / "alone", rows[:6], agent_plan(6)).call_balance
    assert (alone.n_no_call, alone.rate) == (0, None)


@every_row(
    ("made", "wrong", "as_text", "caution"),
    [
        (10, 2, 0, None),
        (10, 3, 0, "3 of 10 calls made had wrong arguments"),
        (2, 0, 2, None),
        (2, 0, 3, "3 of 5 calls were written as text and had to be rescued"),
        (
            1,
            1,
            2,
            "2 of 3 calls were written as text and had to be rescued; 1 of 1 call made had wrong arguments",
        ),
    ],
)
def test_when_a_tier_carries_a_caution(tmp_path, made, wrong, as_text, caution):
    """More calls written than made, or more than one in five with wrong arguments; just as many is not yet often."""
    rows = [offering(f"N{i}", "native", passed=i >= wrong) for i in range(made)]
    rows += [offering(f"N{made + i}", "text:hermes") for i in range(as_text)]
    assert (
        summarized(tmp_path / "run", rows, agent_plan(made + as_text)).tool_use.caution == caution
    )


def test_a_sound_model_carries_no_caution(tmp_path):
    """Calls made, arguments right, restraint kept: nothing to warn of; one slip in ten arguments is not often."""
    rows = [offering(f"N{i}", "native", passed=i > 0) for i in range(10)]
    rows.append(offering("R0", "none", expected=(), passed=True))
    assert summarized(tmp_path / "run", rows, agent_plan(10, 1)).tool_use.caution is None


def test_tasks_tell_their_turns_and_tokens(tmp_path):
    """Mean turns and output tokens are of tasks alone."""
    plan = config(
        [prompt(f"W{i}", "tasks", {"type": "world_state", "expect": []}) for i in range(2)]
    )
    rows = [
        record("W0", suite="tasks", turns=3, output_tokens=100),
        record("W1", suite="tasks", turns=6, output_tokens=300, objective_pass=False),
        record("P0", output_tokens=9999),
    ]
    tasks = summarized(tmp_path / "run", rows, plan).tasks
    assert (tasks.n, tasks.k, tasks.mean_turns, tasks.mean_tokens) == (2, 1, 4.5, 200)


def test_a_failure_among_repeats_does_not_decide_a_tier(tmp_path):
    """Ten prompts passed ten times each are provisional; with one failure in the hundred they are not surer."""
    rows = [tool_record(f"P{p}", True, repeat=r) for p in range(10) for r in range(10)]
    clean = tool_use(write_run(tmp_path / "clean", rows))
    spoilt = tool_use(
        write_run(tmp_path / "spoilt", [*rows[:-1], tool_record("P9", False, repeat=9)])
    )
    assert (clean.decided, spoilt.decided, spoilt.k, spoilt.n) == (False, False, 99, 100)
    assert spoilt.p_tier[0] < clean.p_tier[0]
