"""`clawgauge compare` on runs that were really made."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from clawgauge.compare.findings import METRICS
from support.command import Outcome, clawgauge
from support.scripted_server import ScriptedServer, Status, Text

HOSTILE = "no \x1b]52;c;evil\x07\x00\ufffe\x0b <b>&</b> ]]> | `x`"


@pytest.fixture
def two_runs(place: Path, server: ScriptedServer) -> Path:
    """`before` passes all three judged prompts; `after` fails P0 with a hostile answer."""
    for run_id, first in (("before", "yes"), ("after", HOSTILE)):
        server.script(Text(first), Text("a b c"), Text("`free`"), Text("fine"))
        assert (
            clawgauge(
                place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", run_id
            ).code
            == 0
        )
    return place


def compare(place: Path, *words: str) -> Outcome:
    return clawgauge(place, "compare", *words, env={"COLUMNS": "80"})


def test_what_changed_and_how_sure(two_runs: Path) -> None:
    """Both sides, the change, the p-value, the prompt that was lost and why; nothing that steers a terminal."""
    done = compare(two_runs, "before", "after", "--answers")
    assert done.code == 0, done.stderr
    assert "passed in A, not in B (1)" in done.stdout and "small/P0" in done.stdout
    assert (
        "Whether the pass rate changed cannot be told" in done.stdout
        and "McNemar exact" in done.stdout
    )
    assert "not_exact" in done.stdout and "│" in done.stdout and "<b>&</b>" in done.stdout
    assert not set("\x1b\x07\x00\x0b") & set(done.stdout)


def test_json_has_it_all(two_runs: Path) -> None:
    """The same findings for a program."""
    found = json.loads(compare(two_runs, "before", "after", "--json").stdout)
    (pair,) = found["pairs"]
    assert (found["a"]["run_id"], found["b"]["run_id"]) == ("before", "after")
    assert (
        pair["rates"]["objective_pass_rate"]["only_a"] == 1 and pair["latency_ms"]["n_prompts"] >= 3
    )
    assert [(flip["prompt_id"], flip["direction"]) for flip in pair["flips"]] == [("P0", "lost")]


def test_the_gate_is_the_exit_code(two_runs: Path) -> None:
    """1 when a rule is broken, 0 when all hold, and evidence can be demanded of all rules at once."""
    rule = ("--fail-on", "objective_pass_rate<-0.05")
    broken = compare(two_runs, "before", "after", *rule, "--fail-on", "n_error>0")
    assert broken.code == 1 and "BROKEN" in broken.stdout and "gate: failed" in broken.stdout
    assert compare(two_runs, "after", "before", *rule).code == 0
    assert "asks for no evidence, so luck alone can break it: add (significant)" in broken.stderr
    unsure = compare(two_runs, "before", "after", *rule, "--significant")
    assert unsure.code == 2 and "cannot be judged" in unsure.stderr and unsure.stdout == ""


def test_junit_is_xml_whatever_a_model_wrote(two_runs: Path) -> None:
    """CI shows a failed test for the broken rule, and tells the lost prompt; hostile text cannot break the file."""
    words = ("--fail-on", "objective_pass_rate<-0.05", "--fail-on", "n_error>0", "--answers")
    done = compare(two_runs, "before", "after", *words, "--format", "junit", "-o", "out.xml")
    assert done.code == 1 and done.stdout == ""
    root = ET.fromstring((two_runs / "out.xml").read_bytes())
    cases = {case.get("name"): case.find("failure") is not None for case in root.iter("testcase")}
    assert cases == {"objective_pass_rate<-0.05": True, "n_error>0": False}
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    told = "".join(out.text or "" for out in root.iterfind("testsuite/system-out"))
    assert (
        "lost: small/P0 prompt_0, passed 1/1 in A and 0/1 in B" in told and "<b>&</b> ]]>" in told
    )


def test_markdown_holds_foreign_text_as_text(two_runs: Path) -> None:
    """A table row per flipped prompt, with markup and HTML escaped."""
    shown = compare(two_runs, "before", "after", "--answers", "--format", "markdown").stdout
    assert "| small/P0 prompt\\_0" in shown or "| small/P0 prompt_0" in shown
    assert "&lt;b&gt;" in shown and "<b>" not in shown and "\x1b" not in shown


def test_a_changed_suite_is_refused_prompt_by_prompt(
    two_runs: Path, server: ScriptedServer
) -> None:
    """Exit 2 with the prompt that differs; --skip-changed and --force are the two ways on."""
    suite = json.loads((two_runs / "small.json").read_text())
    suite["prompts"][1]["prompt"] = "at most three words, please"
    (two_runs / "small.json").write_text(json.dumps(suite))
    server.script(Text("yes"), Text("a b c"), Text("`free`"), Text("fine"))
    clawgauge(
        two_runs, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "edited"
    )
    done = compare(two_runs, "before", "edited")
    assert done.code == 2 and "small/P1 asks something else" in done.stderr and done.stdout == ""
    assert "small/P0" not in done.stderr and "--force" in done.stderr
    assert done.stderr.startswith("clawgauge: A and B cannot be compared, because these differ:\n")
    assert (
        "1 prompt only in A: small/P1"
        in compare(two_runs, "before", "edited", "--skip-changed").stdout
    )
    forced = compare(two_runs, "before", "edited", "--force")
    assert forced.code == 0 and "compared by force although these differ" in forced.stdout


def test_another_machine_keeps_the_verdicts(two_runs: Path) -> None:
    """Times are left out and it is said why; a gate on times is refused."""
    path = two_runs / "runs" / "after" / "inventory.json"
    told = json.loads(path.read_bytes())
    told["cpu"]["model"] = "another CPU"
    path.write_text(json.dumps(told))
    done = compare(two_runs, "before", "after")
    assert (
        done.code == 0 and "times are not compared" in done.stdout and "another CPU" in done.stdout
    )
    assert "\n  latency" not in done.stdout and "\n  passed" in done.stdout
    gated = compare(two_runs, "before", "after", "--fail-on", "p50_ms>10%")
    assert gated.code == 2 and "another CPU" in gated.stderr


def test_two_models_of_one_run(place: Path, server: ScriptedServer) -> None:
    """--models sets two targets of a run side by side."""
    server.script(*[Text("yes")] * 4, *[Text("no")] * 4)
    clawgauge(
        place, "run", "-t", "fake:scripted-model", "-t", "fake:other-model", "-s", "small.json"
    )
    done = compare(place, "latest", "--models", "scripted-model", "fake:other-model")
    assert done.code == 0 and "fake:scripted-model → fake:other-model" in done.stdout
    assert "passed in A, not in B (1)" in done.stdout


def test_a_hostile_name_in_a_folder_steers_no_terminal(two_runs: Path) -> None:
    """A run folder may come from anyone: its names are made harmless in the refusal too."""
    for name in ("config.json", "results.jsonl"):
        path = two_runs / "runs" / "after" / name
        path.write_text(path.read_text().replace("scripted-model", "evil\\u001b[2J"))
    done = compare(two_runs, "before", "after")
    assert done.code == 2 and "no target in common" in done.stderr and "evil" in done.stderr
    assert "\x1b" not in done.stderr


def test_unreadable_lines_are_in_the_exit_code(two_runs: Path) -> None:
    """The comparison is made of the rest, and the loss is said; a failed gate says more."""
    with (two_runs / "runs" / "after" / "results.jsonl").open("ab") as file:
        file.write(b"{broken\n")
    done = compare(two_runs, "before", "after")
    assert done.code == 5 and "1 line of B could not be read" in done.stdout
    assert compare(two_runs, "before", "after", "--fail-on", "objective_pass_rate<0").code == 1


def test_without_runs_the_newest_two_that_can_be_compared_are(
    two_runs: Path, server: ScriptedServer
) -> None:
    """A run of another suite between them is passed over, and so is one that nobody answered."""
    small = ("run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id")
    server.script(*[Status(500)] * 4)
    assert clawgauge(two_runs, *small, "dead", "--max-retries", "0").code == 3
    clawgauge(
        two_runs,
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "restraint",
        "--max-calls",
        "1",
        "--run-id",
        "other",
    )
    assert clawgauge(two_runs, *small, "last").code == 0
    found = json.loads(compare(two_runs, "--json").stdout)
    assert (found["a"]["run_id"], found["b"]["run_id"]) == ("after", "last")
    clawgauge(
        two_runs,
        "run",
        "-t",
        "fake:scripted-model",
        "-s",
        "core",
        "--max-calls",
        "1",
        "--run-id",
        "lonely",
    )
    done = compare(two_runs)
    assert done.code == 2 and "no run before lonely can be compared with it" in done.stderr


WRONG_REQUESTS: list[tuple[tuple[str, ...], str]] = [
    (("before",), "two runs, or one run with --models"),
    (("before", "before"), "A and B are both"),
    (("before,after", "after"), "A and B are both"),
    (("before,before", "after"), "named twice on one side"),
    (("before,nowhere", "after"), "no run 'nowhere'"),
    (("before", "after", "--models", "x", "y"), "one run with --models"),
    (("before", "nowhere"), "no run 'nowhere'"),
    (("before", "after", "--fail-on", "speed>1"), "no metric 'speed'"),
    (("before", "after", "--significant"), "--fail-on"),
    (("before", "after", "--map", "nobody"), "has no '='"),
]


def test_wrong_requests(two_runs: Path) -> None:
    """Exit 2 and one sentence."""
    for words, said in WRONG_REQUESTS:
        done = compare(two_runs, *words)
        assert done.code == 2 and said in done.stderr and done.stderr.count("\n") == 1, (
            words,
            done.stderr,
        )


def test_the_page_lists_every_metric() -> None:
    """docs/compare.md names each metric, and says of each whether its change can be called significant."""
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    told = {}
    for names, can in re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \| [^|]+ \| (yes|no) \|$", page, flags=re.MULTILINE
    ):
        told |= dict.fromkeys(re.findall(r"`(\w+)`", names), can == "yes")
    assert told == {name: metric.evidence is not None for name, metric in METRICS.items()}
