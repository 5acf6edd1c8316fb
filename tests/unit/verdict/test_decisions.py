"""Who is fit for which job by the sequential decision: what decides, what is likely, what was not asked."""

from __future__ import annotations

import pytest

from clawgauge.records import RULE
from clawgauge.reports.answer import choose, describe_jobs
from clawgauge.reports.terminal import as_text
from clawgauge.summary import summarize_folder
from support.written_runs import MODEL, PROVIDER, config, prompt, record, unanswered, write_run

N_JSON = 40


def json_run(folder, k, n, **changes):
    """A model that passed k of the n JSON prompts that it was asked, the failures first."""
    prompts = [prompt(f"P{number}", category="json") for number in range(N_JSON)]
    records = [record(f"P{number}", number >= n - k) for number in range(n)]
    run_config = config(prompts, [MODEL], rule=RULE, **changes)
    return write_run(folder, records, config=run_config)


def fit_for(folder, job):
    verdicts = {verdict.job: verdict for verdict in summarize_folder(folder).jobs}
    (fit,) = verdicts[job].ranking
    return fit


@pytest.mark.parametrize(
    ("k", "n", "fit", "state"),
    [
        (12, 12, "yes", "decided_fit"),
        (11, 11, "cannot_tell", "likely_fit"),
        (0, 4, "no", "decided_not_fit"),
        (0, 3, "cannot_tell", "likely_not_fit"),
        (2, 2, "cannot_tell", "open"),
    ],
)
def test_a_need_is_decided_by_one_score(tmp_path, k, n, fit, state):
    """Twelve of twelve are fit and eleven are not yet; four failures are not fit and three are not yet."""
    seen = fit_for(json_run(tmp_path / "run", k, n), "structured data")
    assert (seen.fit, seen.state) == (fit, state)
    assert (seen.chance is None) == (state in ("decided_fit", "decided_not_fit", "open"))


def test_a_folder_of_an_earlier_version_keeps_its_rule(tmp_path):
    """Ten of ten were fit by the interval, and still are in a folder that says so."""
    prompts = [prompt(f"P{number}", category="json") for number in range(10)]
    records = [record(f"P{number}", True) for number in range(10)]
    old = write_run(tmp_path / "old", records, config=config(prompts, [MODEL]))
    seen = fit_for(old, "structured data")
    assert (seen.fit, seen.state, seen.chance) == ("yes", None, None)
    assert summarize_folder(old).rule == 1


def test_a_repeat_tells_nothing_new(tmp_path):
    """Twelve passes of one prompt are one answer."""
    prompts = [prompt("P0", category="json")]
    records = [record("P0", True, repeat=number) for number in range(12)]
    run_config = config(prompts, [MODEL], rule=RULE)
    seen = fit_for(write_run(tmp_path / "run", records, config=run_config), "structured data")
    assert seen.fit == "cannot_tell" and seen.n == 1


def test_what_the_network_lost_is_no_evidence(tmp_path):
    """Twelve passes and ten refused connections: fit, and the outage is shown as such."""
    prompts = [prompt(f"P{number}", category="json") for number in range(N_JSON)]
    records = [record(f"P{number}", True) for number in range(12)]
    records += [unanswered(f"P{number}", "http_429") for number in range(12, 22)]
    run_config = config(prompts, [MODEL], rule=RULE)
    seen = fit_for(write_run(tmp_path / "run", records, config=run_config), "structured data")
    assert seen.fit == "yes" and seen.n == 12


def test_jobs_that_a_run_cannot_speak_about_take_one_line(tmp_path):
    summary = summarize_folder(json_run(tmp_path / "run", 12, 12))
    assert [choice.job for choice in choose(summary.jobs)] == [
        "heartbeat and triage",
        "structured data",
        "offline fallback",
    ]
    text = as_text([describe_jobs(summary.jobs)], width=200)
    line = " ".join(text.partition("not asked:")[2].split())
    assert line.startswith("main agent and subagent with full tools (clawgauge run); long context")
    # In a row too short for all of it, a command goes to the next as a whole.
    assert any(row.endswith("(clawgauge run -s long_context)") for row in text.splitlines())


def test_a_useless_model_is_no_fallback(tmp_path):
    """None of ten right: it answers every call, and is nothing to fall back to."""
    folder = json_run(tmp_path / "run", 0, 10, providers={PROVIDER: {"type": "embedded"}})
    assert fit_for(folder, "offline fallback").fit != "yes"
