"""Who may be trusted with a subagent's tools: each need at its bound, what is said, and the command for the rest."""

from __future__ import annotations

import json

import pytest

from clawgauge.summary import summarize_folder
from clawgauge.verdict.wording import word_lacking
from support.rows import every_row

from .run_folders import failed, record, tool_record, write_run, write_subagent_run

COMMAND = "clawgauge run -t ollama_openai:llama3.2:3b -s native_tools -s restraint -s agentic"


def tool_use(folder):
    (group,) = summarize_folder(folder).models
    return group.tool_use


def met(use):
    return {need.name: need.met for need in use.needs}


def test_who_has_shown_all_of_it_is_recommended(tmp_path):
    """Twenty native calls, right arguments, fifteen prompts left alone and eight tasks are enough."""
    use = tool_use(write_subagent_run(tmp_path / "run"))
    assert use.recommended_for_subagents and use.evidence_command is None
    assert [(need.name, need.met, need.k, need.n, need.limit) for need in use.needs] == [
        ("calls", "yes", 20, 20, None),
        ("arguments", "yes", 20, 20, 0.7),
        ("restraint", "yes", 15, 15, 0.7),
        ("tasks", "yes", 8, 8, 0.5),
    ]
    assert [need.lower for need in use.needs] == pytest.approx(
        [0.8389, 0.8389, 0.7961, 0.6756], abs=1e-4
    )


# Wilson's bounds: of 20, 18 has 69.9% at the lower end and 19 has 76.4%, 9 has 65.8% at the upper end and 10 has 70.1%.
@every_row(
    ("changes", "need", "said"),
    [
        ({"right": 19}, "yes", "arguments"),
        ({"right": 18}, "cannot_tell", "arguments"),
        ({"right": 10}, "cannot_tell", "arguments"),
        ({"right": 9}, "no", "arguments"),
        ({"restraint": (9, 9)}, "yes", "restraint"),
        ({"restraint": (8, 8)}, "cannot_tell", "restraint"),
        ({"restraint": (10, 20)}, "cannot_tell", "restraint"),
        ({"restraint": (9, 20)}, "no", "restraint"),
        ({"tasks": (4, 4)}, "yes", "tasks"),
        ({"tasks": (3, 3)}, "cannot_tell", "tasks"),
        ({"tasks": (2, 8)}, "cannot_tell", "tasks"),
        ({"tasks": (1, 8)}, "no", "tasks"),
        ({"native": (13, 13)}, "yes", "calls"),
        ({"native": (12, 12)}, "cannot_tell", "calls"),
        ({"native": (2, 20)}, "no", "calls"),
    ],
)
def test_each_need_has_its_bound(tmp_path, changes, need, said):
    """One passed more or fewer decides; one need that is not met, or cannot be told, is enough to say no."""
    use = tool_use(write_subagent_run(tmp_path / "run", **changes))
    assert met(use)[said] == need
    assert use.recommended_for_subagents == (need == "yes")
    assert use.evidence_command == (
        COMMAND if set(met(use).values()) == {"yes", "cannot_tell"} else None
    )


def test_harm_in_one_task_outweighs_all_the_others(tmp_path):
    """Seven of eight tasks done would be enough; the eighth did what was forbidden. No further run makes that good."""
    (group,) = summarize_folder(write_subagent_run(tmp_path / "run", tasks=(7, 8), harm=1)).models
    assert (group.tasks.k, group.tasks.n, group.tasks.n_harm) == (7, 8, 1)
    assert not group.tool_use.recommended_for_subagents and group.tool_use.evidence_command is None
    assert [need.why for need in group.tool_use.needs if need.met == "no"] == [
        "tasks done 7 of 8, harm in 1"
    ]
    assert tool_use(write_subagent_run(tmp_path / "clumsy", tasks=(7, 8))).recommended_for_subagents


def test_variants_of_a_prompt_do_not_count_as_others(tmp_path):
    """Three tasks in four variants each are three tasks' worth, and no more than three show."""
    use = tool_use(
        write_subagent_run(tmp_path / "run", tasks=(3, 3), restraint=(8, 8), n_variants=4)
    )
    tasks = {need.name: need for need in use.needs}["tasks"]
    once = tool_use(write_subagent_run(tmp_path / "once", tasks=(3, 3)))
    assert (tasks.k, tasks.n, tasks.lower) == (12, 12, pytest.approx(once.needs[3].lower))
    assert met(use) == {
        "calls": "yes",
        "arguments": "yes",
        "restraint": "cannot_tell",
        "tasks": "cannot_tell",
    }
    assert use.n == 80 and use.n_eff == pytest.approx(20)


def test_text_alone_recommends_nobody(tmp_path):
    """However many calls were written as text; nor does a run in which nothing was answered."""
    use = tool_use(write_run(tmp_path / "text", [tool_record(f"T{i}", True) for i in range(100)]))
    assert (use.tier, use.decided, use.recommended_for_subagents, use.evidence_command) == (
        1,
        True,
        False,
        COMMAND,
    )
    assert use.needs[0].why == "native calls not measured, and calls written as text are not enough"
    assert {(need.met, need.n) for need in use.needs} == {("cannot_tell", 0)}
    down = tool_use(write_run(tmp_path / "down", [failed("T0", "error", "timeout")]))
    assert {need.met for need in down.needs} == {"cannot_tell"}


def test_the_command_names_all_that_one_run_must_show(tmp_path):
    """What another run showed is not added to this one, so the suites that are known come again; names are quoted."""
    rows = [tool_record(f"N{i}", True, native=True, model="my model") for i in range(20)]
    use = tool_use(write_run(tmp_path / "run", rows))
    assert met(use)["calls"] == "yes"
    assert use.evidence_command == COMMAND.replace(
        "ollama_openai:llama3.2:3b", "'ollama_openai:my model'"
    )


@pytest.mark.parametrize(("n_prompts", "command"), [(1, None), (2, COMMAND)])
def test_suites_that_were_asked_in_full_are_not_asked_for_again(tmp_path, n_prompts, command):
    """Where nothing is left of them to ask, no run of them tells more."""
    suites = [
        {
            "name": name,
            "version": "2",
            "description": "",
            "n_prompts": n_prompts,
            "sha256": "0",
            "source": name,
        }
        for name in ("native_tools", "restraint", "agentic")
    ]
    prompts = [
        {
            "id": "P0",
            "name": "P0",
            "prompt": "…",
            "validator": {"type": "noop"},
            "suite": suite["name"],
        }
        for suite in suites
    ]
    run = write_subagent_run(tmp_path / "run", tasks=(3, 3), suites=suites)
    plan = run / "config.json"
    document = json.loads(plan.read_text())
    plan.write_text(json.dumps(document | {"prompts": [*document["prompts"], *prompts]}))
    assert tool_use(run).evidence_command == command


def test_a_model_that_never_saw_the_tools_has_shown_nothing(tmp_path):
    """Where the chat template drops the tools, neither calls nor restraint say anything about the model."""
    folder = write_subagent_run(tmp_path / "run", native=(0, 20))
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    too_few = "tools_dropped: the server counted 9 tokens for a prompt whose tools alone take 900 characters"
    warned = [line | {"warnings": [too_few]} for line in lines]
    (folder / "results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in warned))
    use = tool_use(folder)
    assert set(met(use).values()) == {"cannot_tell"} and use.evidence_command is None
    counted = (
        "in 35 of 35 calls with tools the server counted too few prompt tokens to have shown them"
    )
    assert word_lacking(use.needs) == f"cannot tell: the model never saw the tools: {counted}"


def seen(tmp_path, n_signs, n_native, n_others, **sign):
    """What is made of calls that offered tools: with a sign that they were dropped, with a native call, bare."""
    signs = [{"tools_unseen": "too_few_tokens"} | sign] * n_signs
    natives = [{"tool_channel": "native"}] * n_native
    kinds = [*signs, *natives, *[{}] * n_others]
    rows = [
        record(f"P{n}", tools_offered=True, **({"tool_channel": "none"} | kind))
        for n, kind in enumerate(kinds)
    ]
    return tool_use(write_run(tmp_path / f"{n_signs} {n_native} {n_others}", rows)).tools_seen


@every_row(
    ("n_signs", "n_native", "n_others", "unseen"),
    [
        (12, 0, 3, True),
        (15, 0, 0, True),
        (8, 0, 7, True),
        (7, 0, 8, False),
        (14, 1, 0, True),
        (13, 2, 0, False),
        (1, 108, 0, False),
        (43, 30, 0, False),
        (0, 0, 15, False),
    ],
)
def test_most_of_the_calls_decide_whether_the_tools_were_seen(
    tmp_path, n_signs, n_native, n_others, unseen
):
    """More than half of the calls with tools show that they were dropped, and fewer than one in ten made a call."""
    found = seen(tmp_path, n_signs, n_native, n_others)
    assert (found.n_offered, found.n_native, found.n_too_few_tokens) == (
        n_signs + n_native + n_others,
        n_native,
        n_signs,
    )
    assert found.unseen is unseen


def test_a_count_of_nothing_on_an_old_record_is_no_sign(tmp_path):
    """Earlier versions warned of a prompt that was all in the server's cache; one that was counted still is a sign."""
    warning = {
        "tools_unseen": None,
        "warnings": ["tools_dropped: the server counted 0 tokens for a prompt whose tools"],
    }
    assert not seen(tmp_path, 15, 0, 0, **warning, input_tokens=0).unseen
    assert seen(tmp_path, 16, 0, 0, **warning, input_tokens=4).unseen


def test_calls_without_tools_are_not_asked_whether_they_showed_them(tmp_path):
    assert tool_use(write_run(tmp_path / "run", [record("P0")])).tools_seen is None
