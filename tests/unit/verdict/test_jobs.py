"""Which model for which job: what decides, what cannot be told, who ties, and the run that would tell."""

from __future__ import annotations

import json

from clawgauge.records import TOOLS_DROPPED
from clawgauge.reports.answer import choose, describe_jobs, describe_models, describe_next
from clawgauge.reports.document import Commands
from clawgauge.reports.terminal import as_text
from clawgauge.summary import summarize_folder
from clawgauge.verdict.needs import hold_to_limit
from support.rows import every_row
from support.written_runs import MODEL, PROVIDER, config, prompt, record, unanswered, write_run
from unit.summary.run_folders import write_subagent_run

CLOUD = {
    PROVIDER: {
        "type": "openai_responses",
        "base_url": "https://api.openai.com/v1",
        "api_key_env": "KEY",
    }
}
N_JSON = 10


def json_run(folder, passes, *, times_ms=None, **changes):
    """Models, each of which passes the first so many of ten JSON prompts."""
    prompts = [prompt(f"P{n}", category="json") for n in range(N_JSON)]
    times_ms = times_ms or dict.fromkeys(passes, 100)
    records = [
        record(f"P{n}", n < k, model=model, e2e_ms=times_ms[model], ttft_ms=times_ms[model])
        for model, k in passes.items()
        for n in range(N_JSON)
    ]
    return write_run(folder, records, config=config(prompts, list(passes), **changes))


def verdicts(folder):
    return {job.job: job for job in summarize_folder(folder).jobs}


# Wilson's bounds: of ten, ten have 72% at the lower end and nine 60%; five have 76% at the upper end and four 69%.
@every_row(
    ("k", "fit"), [(10, "yes"), (9, "cannot_tell"), (5, "cannot_tell"), (4, "no"), (0, "no")]
)
def test_a_job_is_decided_by_the_lower_end_of_its_prompts(tmp_path, k, fit):
    (one,) = verdicts(json_run(tmp_path / "run", {MODEL: k}))["structured data"].ranking
    assert (one.fit, one.n, one.target) == (fit, N_JSON, f"{PROVIDER}:{MODEL}")
    assert f"{k}/10" in one.why or f"{k} of 10" in one.why


def test_what_nobody_measured_cannot_be_told_and_the_run_that_would_is_named(tmp_path):
    jobs = verdicts(json_run(tmp_path / "run", {MODEL: 10}))
    assert jobs["long context"].ranking[0].fit == "cannot_tell"
    assert jobs["long context"].ranking[0].why == "not measured: 16k tokens and more"
    assert jobs["long context"].needs == f"clawgauge run -t {PROVIDER}:{MODEL} -s long_context"
    assert (
        jobs["main agent"].needs
        == f"clawgauge run -t {PROVIDER}:{MODEL} -s native_tools -s restraint -s agentic"
    )
    assert jobs["structured data"].needs is None


@every_row(
    ("settings", "window"),
    [({"type": "embedded"}, 4096), ({"type": "ollama", "context": 8192}, 8192)],
)
def test_no_run_is_proposed_for_texts_beyond_a_known_window(tmp_path, settings, window):
    """They would not be asked, and the same run would be proposed again and again."""
    folder = json_run(tmp_path / "run", {MODEL: 10}, providers={PROVIDER: settings})
    job = verdicts(folder)["long context"]
    (one,) = job.ranking
    assert (one.fit, job.needs) == ("cannot_tell", None)
    assert one.why.startswith(
        f"its window is {window} tokens here (the line context = 32768 under [providers."
    )
    wide = json_run(
        tmp_path / "wide", {MODEL: 10}, providers={PROVIDER: {"type": "ollama", "context": 32_768}}
    )
    assert verdicts(wide)["long context"].needs is not None


def test_what_is_said_of_several_is_said_of_none_by_name(tmp_path):
    """Of two that were not asked and one that could not be, the first do not lend their name to the job."""
    providers = {PROVIDER: {"type": "ollama"}, "small": {"type": "embedded"}}
    rows = [
        record("P0", True, provider=at, model=name)
        for at, name in ((PROVIDER, "a"), (PROVIDER, "b"), ("small", "c"))
    ]
    folder = write_run(
        tmp_path / "run", rows, config=config([prompt("P0")], ["a", "b", "c"], providers=providers)
    )
    said = {choice.job: choice.why for choice in choose(summarize_folder(folder).jobs)}
    assert said["long context"] == "not measured: 16k tokens and more"


def test_one_run_is_proposed_for_all_that_is_not_known(tmp_path):
    summary = summarize_folder(json_run(tmp_path / "run", {"a": 10, "b": 10}))
    (command,) = [part for part in describe_next(summary.jobs) if isinstance(part, Commands)]
    targets = [f"-t {PROVIDER}:a \\", f"-t {PROVIDER}:b \\"]
    suites = ["-s native_tools -s restraint -s agentic \\", "-s core -s long_context"]
    assert command.lines == ["clawgauge run \\", *targets, *suites]


def test_models_that_could_be_equally_good_are_called_a_tie(tmp_path):
    summary = summarize_folder(json_run(tmp_path / "run", {"a": 10, "b": 10}))
    (job,) = [job for job in summary.jobs if job.job == "structured data"]
    assert [one.tie for one in job.ranking] == [True, True]
    (choice,) = [choice for choice in choose(summary.jobs) if choice.job == "structured data"]
    assert choice.use == "a or b" and choice.why.startswith("a tie: ")


def test_the_best_of_a_tie_is_named_first(tmp_path):
    """By the job's own figures, whoever stands higher in the others; those decide between equals."""
    job = {"needs": [], "prompts": ["core"], "weighs": {"latency": 1}}
    times_ms = {"a": 120, "b": 110, "c": 100}
    folder = json_run(
        tmp_path / "run", dict.fromkeys("abc", 10), times_ms=times_ms, jobs={"quick": job}
    )
    (choice,) = [
        choice for choice in choose(summarize_folder(folder).jobs) if choice.job == "quick"
    ]
    assert choice.use == "c, b or a" and choice.why == "a tie: p95 100 ms"
    folder = json_run(
        tmp_path / "alike",
        dict.fromkeys("abc", 10),
        times_ms={"a": 9000, "b": 9000, "c": 100},
        jobs={"quick": job},
    )
    (choice,) = [
        choice
        for choice in choose(summarize_folder(folder).jobs)
        if choice.job == "structured data"
    ]
    assert choice.use == "c, a or b"


def test_who_is_surely_better_stands_first_alone(tmp_path):
    """Both pass; one takes a tenth of a second, the other twenty."""
    job = {"needs": [], "prompts": ["core"], "weighs": {"latency": 1}}
    times_ms = {"slow": 20_000, "quick": 100}
    folder = json_run(
        tmp_path / "run", {"slow": 10, "quick": 10}, times_ms=times_ms, jobs={"triage of mine": job}
    )
    mine = verdicts(folder)["triage of mine"]
    assert [(one.target, one.tie) for one in mine.ranking] == [
        (f"{PROVIDER}:quick", False),
        (f"{PROVIDER}:slow", False),
    ]


def test_a_main_agent_must_do_more_of_its_tasks_than_a_subagent(tmp_path):
    """Eight of eight tasks show at least 68%, nine of nine at least 70%; one with harm shows neither."""
    runs = {
        "eight": {"tasks": (8, 8)},
        "nine": {"tasks": (9, 9)},
        "harm": {"tasks": (19, 20), "harm": 1},
    }
    jobs = {
        name: verdicts(write_subagent_run(tmp_path / name, **changes))
        for name, changes in runs.items()
    }
    fits = {
        name: [own[job].ranking[0].fit for job in ("main agent", "subagent with full tools")]
        for name, own in jobs.items()
    }
    assert fits == {"eight": ["cannot_tell", "yes"], "nine": ["yes", "yes"], "harm": ["no", "no"]}
    assert jobs["eight"]["main agent"].ranking[0].why == "tasks 8 of 8 (at least 68%, needs 70%)"


def test_who_never_saw_the_tools_is_told_so_once_and_not_asked_again(tmp_path):
    folder = write_subagent_run(tmp_path / "run", native=(0, 20))
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line in lines:
        line["warnings"] = [f"{TOOLS_DROPPED} its chat template has no place for them"]
    (folder / "results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    job = verdicts(folder)["main agent"]
    assert (job.ranking[0].fit, job.needs) == ("cannot_tell", None)
    why = "its chat template has no place for them (35 of 35 calls with tools)"
    assert job.ranking[0].why == f"the model never saw the tools: {why}"


def test_one_low_count_beside_many_native_calls_takes_no_job_away(tmp_path):
    """A server that says 0, or counts only what it had not cached, has shown the tools all the same."""
    folder = write_subagent_run(tmp_path / "run", tasks=(9, 9))
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line, count in zip(lines, (0, 3, 5), strict=False):
        line |= {
            "warnings": [f"{TOOLS_DROPPED} the server counted {count} tokens"],
            "input_tokens": count,
        }
    (folder / "results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    jobs = verdicts(folder)
    assert [jobs[name].ranking[0].fit for name in ("main agent", "subagent with full tools")] == [
        "yes",
        "yes",
    ]


def test_a_job_of_the_users_replaces_the_one_of_its_name(tmp_path):
    job = {"prompts": ["core/json"], "weighs": {"passes": 1}, "at_least": 0.5}
    jobs = verdicts(json_run(tmp_path / "run", {MODEL: 9}, jobs={"structured data": job}))
    assert jobs["structured data"].ranking[0].fit == "yes" and len(jobs) == 6


def test_a_model_of_somebody_elses_is_no_fallback_without_a_network(tmp_path):
    assert (
        verdicts(json_run(tmp_path / "here", {MODEL: 9}))["offline fallback"].ranking[0].fit
        == "yes"
    )
    far = verdicts(json_run(tmp_path / "far", {MODEL: 9}, providers=CLOUD))[
        "offline fallback"
    ].ranking[0]
    assert (far.fit, far.why) == ("no", "not on your own machines")


def test_who_wants_a_key_may_pass_calls_on(tmp_path):
    """A gateway on this machine is not known to answer without a network; nor is it free of charge."""
    gateway = {
        PROVIDER: {
            "type": "openai_chat",
            "base_url": "http://127.0.0.1:4000/v1",
            "api_key_env": "KEY",
        }
    }
    jobs = verdicts(json_run(tmp_path / "run", {MODEL: 10}, providers=gateway))
    offline, data = (jobs[name].ranking[0] for name in ("offline fallback", "structured data"))
    assert (offline.fit, offline.why) == (
        "cannot_tell",
        "it wants a key, so it may pass calls on to another machine",
    )
    assert data.why.endswith("cost unknown")


def test_what_a_job_lacks_is_asked_together_with_all_it_needs(tmp_path):
    """Tasks alone are wanting; a run of tasks alone would not show the rest."""
    job = verdicts(write_subagent_run(tmp_path / "run", tasks=(2, 2)))["subagent with full tools"]
    assert job.ranking[0].fit == "cannot_tell" and job.suites == [
        "native_tools",
        "restraint",
        "agentic",
    ]
    assert (
        job.needs == f"clawgauge run -t {PROVIDER}:{MODEL} -s native_tools -s restraint -s agentic"
    )


def test_what_falls_just_short_does_not_read_as_enough():
    need = hold_to_limit("restraint", "restraint", 18, 20, (0.6990, 0.97), limit=0.7).to_need()
    assert (
        need.met == "cannot_tell" and need.why == "restraint 18 of 20 (at least 69.9%, needs 70%)"
    )


def test_a_server_that_was_down_is_fit_for_nothing(tmp_path):
    records = [unanswered(f"P{n}", "connection_refused") for n in range(N_JSON)]
    prompts = [prompt(f"P{n}", category="json") for n in range(N_JSON)]
    jobs = verdicts(write_run(tmp_path / "run", records, config=config(prompts)))
    assert {job.ranking[0].fit for job in jobs.values()} == {"cannot_tell", "no"}
    assert not any(job.needs for job in jobs.values()), "there is nobody to ask"


def test_repeats_of_few_prompts_are_not_many_prompts(tmp_path):
    """Three prompts asked ten times each, all passed: what that says of a fourth is not what thirty prompts would."""
    prompts = [prompt(f"P{n}", category="json") for n in range(3)]
    records = [record(f"P{n}", n > 0 or r > 5, repeat=r) for n in range(3) for r in range(10)]
    folder = write_run(tmp_path / "run", records, config=config(prompts, options={"repeats": 10}))
    assert verdicts(folder)["structured data"].ranking[0].fit == "cannot_tell"


def test_every_job_has_an_answer_on_the_first_screen(tmp_path):
    """For each job a model, or that it cannot be told yet, in eighty columns and within two dozen lines."""
    summary = summarize_folder(
        json_run(tmp_path / "run", {"a": 10, "b": 9, "c": 3, "d": 10, "e": 0})
    )
    text = as_text([describe_models(summary.models, summary.jobs), describe_jobs(summary.jobs)], 80)
    assert max(map(len, text.splitlines())) <= 80 and len(text.splitlines()) <= 24
    for job in summary.jobs:
        assert job.job in text
    assert "a or d" in text and "cannot tell yet" in text
    first, last = (
        next(n for n, line in enumerate(text.splitlines()) if line.startswith(name))
        for name in "ae"
    )
    assert first < last, "the best first"
