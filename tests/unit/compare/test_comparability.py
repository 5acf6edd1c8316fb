"""What cannot be compared is refused, with exactly what differs; what spoils only the times spoils only the times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clawgauge.compare.comparison import ComparisonOptions, IncomparableRuns, compare_runs
from clawgauge.compare.findings import Comparison
from clawgauge.compare.gate import parse_rule
from clawgauge.errors import RequestError
from support.written_runs import (
    LABEL,
    MODEL,
    PROVIDER,
    config,
    inventory,
    prompt,
    record,
    write_old_run,
    write_run,
)

PROMPTS = [prompt("P0"), prompt("P1")]
RECORDS = [record("P0"), record("P1")]


def compare_with(tmp_path: Path, wishes: ComparisonOptions | None = None, **b: Any) -> Comparison:
    """A plain run beside one that differs in what `b` says."""
    left = write_run(tmp_path / "a", RECORDS, config=config(PROMPTS), inventory=inventory())
    right = write_run(
        tmp_path / "b",
        b.get("records", RECORDS),
        config=b.get("config", config(PROMPTS)),
        inventory=b.get("inventory", inventory()),
    )
    return compare_runs(left, right, wishes or ComparisonOptions())


def spoils_verdicts(tmp_path: Path, **b: Any) -> str:
    with pytest.raises(IncomparableRuns) as refused:
        compare_with(tmp_path, **b)
    assert str(refused.value) == "A and B cannot be compared"
    assert compare_with(tmp_path, ComparisonOptions(force=True), **b).forced
    return "; ".join(f"{d.what}: {d.a} / {d.b} ({d.advice})" for d in refused.value.differences)


def spoils_latency(tmp_path: Path, **b: Any) -> list[str]:
    found = compare_with(tmp_path, **b)
    assert not found.latency_compared and found.pairs[0].latency_ms is None and found.pairs[0].rates
    assert "p50_ms" not in {figure.name for figure in found.pairs[0].figures}
    assert (
        compare_with(tmp_path, ComparisonOptions(force=True), **b).pairs[0].latency_ms is not None
    )
    return [d.what for d in found.differences if d.scope == "latency"]


def test_alike_runs_compare(tmp_path: Path) -> None:
    """Two runs made alike have no difference to tell."""
    found = compare_with(tmp_path)
    assert found.differences == [] and found.latency_compared and not found.forced


def test_a_prompt_that_asks_something_else_is_named(tmp_path: Path) -> None:
    """Not the suite as a whole: the very prompt, with both hashes and the way out."""
    said = spoils_verdicts(
        tmp_path, config=config([prompt("P0"), prompt("P1", prompt="ask another thing")])
    )
    assert (
        "core/P1 asks something else" in said and "core/P0" not in said and "--skip-changed" in said
    )


def test_a_changed_validator_points_to_rescore(tmp_path: Path) -> None:
    """The same question under another validator can be judged alike without a new call."""
    said = spoils_verdicts(
        tmp_path, config=config([prompt("P0", validator={"type": "noop"}), prompt("P1")])
    )
    assert "core/P0 is judged by another validator" in said and "rescore" in said


def test_names_and_key_order_do_not_make_a_prompt_another(tmp_path: Path) -> None:
    """A new name, category or order of a validator's keys changes neither an answer nor a verdict."""
    renamed = [
        prompt("P0", name="new", category="x", validator={"value": "yes", "type": "exact"}),
        prompt("P1"),
    ]
    assert compare_with(tmp_path, config=config(renamed)).differences == []


def test_many_changed_prompts_are_said_together(tmp_path: Path) -> None:
    """Five by name and the rest by number, in the plural, with one hash for all of them."""
    ids = [f"P{n}" for n in range(7)]
    sides = [
        write_run(
            tmp_path / name,
            [record(i) for i in ids],
            config=config([prompt(i, **change) for i in ids]),
        )
        for name, change in (
            ("a", {}),
            ("b", {"prompt": "another"}),
            ("c", {"validator": {"type": "noop"}}),
        )
    ]
    said = []
    for other in sides[1:]:
        with pytest.raises(IncomparableRuns) as refused:
            compare_runs(sides[0], other, ComparisonOptions())
        (difference,) = refused.value.differences
        assert (len(difference.a), len(difference.b)) == (12, 12) and difference.a != difference.b
        said.append((difference.what, difference.advice))
    named = "core/P0, core/P1, core/P2, core/P3, core/P4 and 2 more"
    assert said == [
        (f"{named} ask something else", "leave them out with --skip-changed"),
        (f"{named} are judged by another validator", "judge them alike with rescore --suite"),
    ]


REDRAWN = [prompt("P0"), prompt("P1", prompt="say no", validator={"type": "exact", "value": "no"})]


@pytest.mark.parametrize("wishes", [ComparisonOptions(), ComparisonOptions(skip_changed=True)])
def test_another_drawing_asks_the_same_prompts_with_other_values(
    tmp_path: Path, wishes: ComparisonOptions
) -> None:
    """It is compared prompt by prompt, and one note says so; a drawing that changes nothing is not worth one."""
    found = compare_with(tmp_path / "other", wishes, config=config(REDRAWN, options={"draw": 7}))
    assert [(d.scope, d.what, d.a, d.b, d.target) for d in found.differences] == [
        (
            "note",
            "drawing 0 and drawing 7: the same prompts with other values, paired by prompt",
            "",
            "",
            None,
        )
    ]
    assert found.pairs[0].n_shared == 2 and found.latency_compared and not found.forced
    assert (
        compare_with(
            tmp_path / "same", wishes, config=config(PROMPTS, options={"draw": 7})
        ).differences
        == []
    )


def test_a_drawing_excuses_no_other_version_of_a_suite(tmp_path: Path) -> None:
    """Another version may ask something else altogether, and is refused as it is without a drawing."""
    suites = [
        {
            "name": "core",
            "version": "2",
            "description": "",
            "n_prompts": 2,
            "sha256": "0",
            "source": "core",
        }
    ]
    said = spoils_verdicts(tmp_path, config=config(REDRAWN, options={"draw": 7}, suites=suites))
    assert "core/P1 asks something else" in said and "drawing" not in said


def test_changed_prompts_can_be_left_out(tmp_path: Path) -> None:
    """--skip-changed compares what is the same and counts the rest as belonging to one side."""
    changed = config([prompt("P0"), prompt("P1", prompt="ask another thing")])
    found = compare_with(tmp_path, ComparisonOptions(skip_changed=True), config=changed)
    assert found.pairs[0].n_shared == 1
    assert found.pairs[0].only_in_a == found.pairs[0].only_in_b == ["core/P1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"sampling": {LABEL: {"temperature": 0.7, "max_tokens": 1024, "seed": None}}},
            "temperature: 0 / 0.7",
        ),
        (
            {"sampling": {LABEL: {"temperature": 0.0, "max_tokens": 64, "seed": None}}},
            "max_tokens: 1024 / 64",
        ),
        ({"options": {"timeout_s": 30.0}}, "timeout_s: 300 / 30"),
        ({"options": {"unique_prefix": True}}, "unique_prefix: no / yes"),
        (
            {"sampling": {LABEL: {"temperature": 0.0, "max_tokens": 1024, "seed": 7}}},
            "seed: none / 7",
        ),
        (
            {"providers": {PROVIDER: {"type": PROVIDER, "extra_body": {"top_k": 1}}}},
            "extra_body: none / {'top_k': 1}",
        ),
    ],
)
def test_other_settings_spoil_everything(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    """Sampling, limits, deadlines and what else is sent decide the answers."""
    assert words in spoils_verdicts(tmp_path, config=config(PROMPTS, **change))


def test_another_model_file_spoils_everything(tmp_path: Path) -> None:
    """The same name over another digest or quantisation is another model."""
    other = {"name": MODEL, "digest": "bbb", "quantization": "Q8_0"}
    changed = inventory(
        ollama_list=[other],
        providers=[{"provider": PROVIDER, "reachable": True, "models": [other]}],
    )
    said = spoils_verdicts(tmp_path, inventory=changed)
    assert "model digest: aaa / bbb" in said and "model quantization: Q4_K_M / Q8_0" in said


def test_what_ollama_lists_stands_for_a_server_that_told_nothing(tmp_path: Path) -> None:
    """Ollama's own list knows the file behind a name, and calls it `:latest` where the name has no tag."""
    sides = [
        write_run(
            tmp_path / name,
            [{**r, "model": "llama3"} for r in RECORDS],
            config=config(PROMPTS, ["llama3"]),
            inventory=inventory(
                providers=[
                    {
                        "provider": "other",
                        "reachable": True,
                        "models": [{"name": "llama3", "digest": name}],
                    }
                ],
                ollama_list=[{"name": "llama3:latest", "digest": digest, "parameters": size}],
            ),
        )
        for name, digest, size in (
            ("a", "aaa", "3B"),
            ("b", "aaa", "8B"),
            ("c", "ccc", "3B"),
            ("d", None, None),
        )
    ]
    said = []
    for other in sides[1:]:
        found = compare_runs(sides[0], other, ComparisonOptions(force=True))
        said.append([(d.what, d.a, d.b, d.scope) for d in found.differences])
    assert said == [
        [("model parameters", "3B", "8B", "verdicts")],
        [("model digest", "aaa", "ccc", "verdicts")],
        [],
    ]


def test_other_validators_point_to_rescore(tmp_path: Path) -> None:
    """Verdicts of two versions of the validators are not one measure; rescoring makes them one."""
    said = spoils_verdicts(
        tmp_path, records=[{**r, "judged_by": "clawgauge.checks/1"} for r in RECORDS]
    )
    assert "clawgauge.checks/2 / clawgauge.checks/1" in said and "clawgauge rescore" in said


def test_of_a_fleet_the_machines_that_answered_are_compared(tmp_path: Path) -> None:
    """Not the one that drove them: that may be any laptop. Of a machine that is not recorded nothing is said."""
    target = {"provider": f"ana.{PROVIDER}", "model": MODEL, "thinking_level": None}
    plan = config(PROMPTS) | {
        "targets": [target],
        "providers": {f"ana.{PROVIDER}": {"node": "ana"}},
    }
    lines = [record(p, provider=f"ana.{PROVIDER}") for p in ("P0", "P1")]
    sides = [
        write_run(tmp_path / name, lines, config=plan, inventory=inventory(host={"hostname": name}))
        for name in ("a", "b")
    ]
    assert compare_runs(*sides, ComparisonOptions()).latency_compared
    for side, cpu in zip(sides, ("Zen 4", "i5"), strict=True):
        (side / "inventory_ana.json").write_text(json.dumps(inventory(cpu={"model": cpu})))
    found = compare_runs(*sides, ComparisonOptions())
    assert [(d.what, d.a, d.b) for d in found.differences] == [
        ("CPU", "Zen 4", "i5")
    ] and not found.latency_compared


def test_a_dot_in_a_providers_name_makes_no_fleet(tmp_path: Path) -> None:
    """A server called `llama.cpp` is on this machine, and another machine spoils its times."""
    plan = config(PROMPTS) | {
        "targets": [{"provider": "llama.cpp", "model": MODEL, "thinking_level": None}]
    }
    lines = [record(p, provider="llama.cpp") for p in ("P0", "P1")]
    machines = [inventory(cpu={"model": cpu}) for cpu in ("Zen 4", "i5")]
    sides = [
        write_run(tmp_path / f"{n}", lines, config=plan, inventory=one)
        for n, one in enumerate(machines)
    ]
    assert not compare_runs(*sides, ComparisonOptions()).latency_compared


def test_another_machine_spoils_the_times_alone(tmp_path: Path) -> None:
    """Verdicts travel; milliseconds do not."""
    other = inventory(
        host={"hostname": "barn", "machine": "x86_64"}, cpu={"model": "i5", "usable_cores": 4}
    )
    assert spoils_latency(tmp_path, inventory=other) == ["host name", "CPU", "usable cores"]


def test_other_graphics_cards_and_quotas_spoil_the_times_alone(tmp_path: Path) -> None:
    """Whatever makes a machine as fast as it is; what a side does not know is no difference."""
    other = inventory(
        gpus=[{"name": "A100"}, {"name": "T4"}],
        cpu={"model": None, "usable_cores": 8, "quota_cores": 2},
    )
    assert spoils_latency(tmp_path, inventory=other) == ["GPUs"]
    found = compare_with(tmp_path, inventory=other)
    assert [(d.a, d.b) for d in found.differences] == [("none", "A100, T4")]


def test_other_versions_are_a_note(tmp_path: Path) -> None:
    """Of packages and of the server: said, with what is the same left out."""
    server = {
        "type": PROVIDER,
        "base_url": "http://localhost:11434/v1",
        "version": "0.9",
        "api_key_env": "KEY",
    }
    versions = {"clawgauge": "1.0.0", "aiohttp": "4"}
    found = compare_with(
        tmp_path, config=config(PROMPTS, versions=versions, providers={PROVIDER: server})
    )
    assert [(d.scope, d.what, d.a, d.b) for d in found.differences] == [
        ("note", "versions", "aiohttp none", "aiohttp 4"),
        ("note", "provider version", "none", "0.9"),
    ]
    assert [d.target for d in found.differences] == [None, LABEL] and found.latency_compared


def test_the_name_of_a_container_is_no_machine(tmp_path: Path) -> None:
    """Containers get a new host name each time; that alone changes no time."""
    boxed = inventory(host={"hostname": "f00d", "machine": "x86_64", "container": "docker"})
    assert compare_with(tmp_path, inventory=boxed).latency_compared


@pytest.mark.parametrize("change", [{"concurrency": 4}, {"stream": False}, {"warm_up": True}])
def test_another_way_of_timing_spoils_the_times_alone(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """Load, streaming and warm-up move times and leave verdicts alone."""
    assert spoils_latency(tmp_path, config=config(PROMPTS, options=change)) == list(change)


def test_the_same_file_on_another_server_spoils_the_times_alone(tmp_path: Path) -> None:
    """Where the digest proves that it is the same model, another address is only another stopwatch."""
    moved = config(
        PROMPTS, providers={PROVIDER: {"type": PROVIDER, "base_url": "http://barn:11434/v1"}}
    )
    assert spoils_latency(tmp_path, config=moved) == ["server address"]


def test_an_unproven_model_on_another_server_spoils_everything(tmp_path: Path) -> None:
    """Without a digest, the same name at another address may be anything."""
    moved = config(
        PROMPTS, providers={PROVIDER: {"type": PROVIDER, "base_url": "http://barn:11434/v1"}}
    )
    assert "server address" in spoils_verdicts(
        tmp_path, config=moved, inventory=inventory(providers=[], ollama_list=[])
    )


def test_a_gate_on_times_that_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    """A latency rule across machines is a wrong request, not a passed gate."""
    other = inventory(cpu={"model": "i5", "usable_cores": 8})
    with pytest.raises(IncomparableRuns, match="p50_ms>10%"):
        compare_with(tmp_path, ComparisonOptions(rules=[parse_rule("p50_ms>10%")]), inventory=other)
    assert not compare_with(
        tmp_path, ComparisonOptions(rules=[parse_rule("n_error>0")]), inventory=other
    ).gate_failed


def test_another_snapshot_behind_a_name_is_a_note(tmp_path: Path) -> None:
    """A cloud service that changed the model is what one compares to find out: said, not refused."""
    found = compare_with(tmp_path, records=[{**r, "model_reported": "llama-0301"} for r in RECORDS])
    assert [(d.scope, d.a, d.b) for d in found.differences] == [("note", MODEL, "llama-0301")]


def test_differing_names_are_put_together_by_map(tmp_path: Path) -> None:
    """Two models are different on purpose: their files are not held against each other."""
    a = write_run(tmp_path / "a", RECORDS, config=config(PROMPTS), inventory=inventory())
    moved = [{**r, "model": "qwen3:4b"} for r in RECORDS]
    b = write_run(
        tmp_path / "b",
        moved,
        config=config(PROMPTS, ["qwen3:4b"]),
        inventory=inventory(providers=[]),
    )
    with pytest.raises(
        RequestError, match=r"--map 'ollama_openai:llama3\.2:3b=ollama_openai:qwen3:4b'"
    ):
        compare_runs(a, b, ComparisonOptions())
    (pair,) = compare_runs(a, b, ComparisonOptions(maps=["llama3.2:3b=qwen3:4b"])).pairs
    assert (pair.target_a, pair.target_b) == (LABEL, f"{PROVIDER}:qwen3:4b")
    with pytest.raises(RequestError, match="run a has no target 'nobody': name one of "):
        compare_runs(a, b, ComparisonOptions(maps=["nobody=qwen3:4b"]))


def three_targets(folder: Path) -> Path:
    """A run of `m` by two providers and of a model with signs in its name."""
    targets = [("one", "m", None), ("two", "m", None), ("one", "q=4:b", "high")]
    plan = config(
        PROMPTS, targets=[{"provider": p, "model": m, "thinking_level": t} for p, m, t in targets]
    )
    lines = [
        {**r, "provider": p, "model": m, "thinking_level": t, "model_reported": None}
        for p, m, t in targets
        for r in RECORDS
    ]
    return write_run(folder, lines, config=plan)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("one:m=two:m", ("one:m", "two:m")),
        ("q=4:b@high=one:m", ("one:q=4:b@high", "one:m")),
        ("one:m=one:q=4:b@high", ("one:m", "one:q=4:b@high")),
        ("q=4:b=q=4:b@high", ("one:q=4:b@high", "one:q=4:b@high")),
    ],
)
def test_a_map_finds_the_targets_it_names(tmp_path: Path, text: str, pair: tuple[str, str]) -> None:
    """By label or by model, also where a name holds the sign itself; the others stay with their own."""
    a, b = three_targets(tmp_path / "a"), three_targets(tmp_path / "b")
    found = compare_runs(a, b, ComparisonOptions(maps=[text], force=True))
    assert (found.pairs[0].target_a, found.pairs[0].target_b) == pair
    taken = {pair[0]} | {pair[1]}
    assert {p.target_a for p in found.pairs[1:]} == {"one:m", "two:m", "one:q=4:b@high"} - taken
    assert found.only_in_a == ([] if len(taken) == 1 else [pair[1]])
    assert found.only_in_b == ([] if len(taken) == 1 else [pair[0]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one:m", r"--map 'one:m' has no '=': write TARGET_OF_A=TARGET_OF_B"),
        ("m=two:m", r"run a has several targets named 'm': name one of one:m, two:m"),
        ("one:m=x", r"run b has no target 'x': name one of one:m, two:m, one:q=4:b@high"),
    ],
)
def test_a_map_that_names_nobody_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """With the names there are."""
    a, b = three_targets(tmp_path / "a"), three_targets(tmp_path / "b")
    with pytest.raises(RequestError, match=words):
        compare_runs(a, b, ComparisonOptions(maps=[text]))


def test_a_run_without_a_target_is_said(tmp_path: Path) -> None:
    """Whichever of the two it is."""
    full, empty = write_run(tmp_path / "full", RECORDS), write_run(tmp_path / "empty", [])
    for a, b in ((full, empty), (empty, full)):
        with pytest.raises(
            RequestError, match="run empty has no target and no record: there is nothing to compare"
        ):
            compare_runs(a, b, ComparisonOptions())


def test_targets_of_one_run_only_are_listed(tmp_path: Path) -> None:
    """What has no partner is said, not dropped."""
    more = [*RECORDS, *({**r, "model": "extra"} for r in RECORDS)]
    found = compare_with(tmp_path, records=more, config=config(PROMPTS, [MODEL, "extra"]))
    assert (found.only_in_a, found.only_in_b) == ([], [f"{PROVIDER}:extra"])


def test_two_targets_of_one_run(tmp_path: Path) -> None:
    """--models compares within a run; the providers' own defaults are a note there, for one plan made both."""
    plan = config(PROMPTS, [MODEL, "extra"])
    plan["sampling"][f"{PROVIDER}:extra"]["max_tokens"] = 256
    run = write_run(
        tmp_path / "a", [*RECORDS, *({**r, "model": "extra"} for r in RECORDS)], config=plan
    )
    found = compare_runs(run, run, ComparisonOptions(models=(MODEL, "extra")))
    assert found.pairs[0].n_shared == 2 and [d.scope for d in found.differences] == ["note"]
    with pytest.raises(RequestError, match="twice"):
        compare_runs(run, run, ComparisonOptions(models=(MODEL, LABEL)))


def test_runs_without_a_common_prompt_are_refused(tmp_path: Path) -> None:
    """Nothing shared is nothing to compare."""
    b = write_run(tmp_path / "b", [record("P9")], config=config([prompt("P9")]))
    a = write_run(tmp_path / "a", RECORDS, config=config(PROMPTS))
    with pytest.raises(RequestError, match="no prompt in common"):
        compare_runs(a, b, ComparisonOptions())


def test_folders_of_the_first_harness_compare(tmp_path: Path) -> None:
    """Old beside old, and old beside new by prompt id and name; what nobody recorded is a note."""
    old = write_old_run(tmp_path / "old", RECORDS)
    older = write_old_run(tmp_path / "older", [record("P0", False), record("P1")])
    both = compare_runs(older, old, ComparisonOptions())
    assert both.pairs[0].rates["objective_pass_rate"].only_b == 1
    assert [d.scope for d in both.differences] == ["note", "note"]
    new = write_run(tmp_path / "new", RECORDS, config=config(PROMPTS))
    mixed = compare_runs(older, new, ComparisonOptions())
    assert mixed.pairs[0].n_shared == 2 and [f.prompt_id for f in mixed.pairs[0].flips] == ["P0"]
    assert mixed.pairs[0].flips[0].suite == "core"
    back = compare_runs(new, older, ComparisonOptions(answers=True)).pairs[0]
    assert [(f.suite, f.prompt_id, f.direction, f.answer_a, f.answer_b) for f in back.flips] == [
        ("core", "P0", "lost", "yes", "no")
    ]
    assert [
        f.answer_b for f in compare_runs(older, new, ComparisonOptions(answers=True)).pairs[0].flips
    ] == ["yes"]


def test_an_id_that_stands_for_two_prompts_is_matched_with_neither(tmp_path: Path) -> None:
    """The first harness named no suites: P0 of two suites, or P0 under another name, may be another prompt."""
    old = write_old_run(
        tmp_path / "old", [record("P0"), record("P1"), record("P2", prompt_name="other")]
    )
    prompts = [prompt("P0"), prompt("P0", "extra"), prompt("P1"), prompt("P2")]
    lines = [record("P0"), record("P0", suite="extra"), record("P1"), record("P2")]
    new = write_run(tmp_path / "new", lines, config=config(prompts))
    (pair,) = compare_runs(old, new, ComparisonOptions()).pairs
    assert (pair.n_shared, pair.only_in_a) == (1, ["P0", "P2"])
    assert pair.only_in_b == ["core/P0", "extra/P0", "core/P2"]


@pytest.mark.parametrize("known", ["A", "B"])
def test_a_machine_that_one_side_does_not_tell_of_is_no_difference(
    tmp_path: Path, known: str
) -> None:
    """A folder may have lost its inventory.json: what cannot be set against anything spoils no times."""
    lines = [record("P0"), record("P1")]
    folders = []
    for side in "AB":
        machine = inventory() if side == known else None
        folders.append(write_run(tmp_path / side, lines, config=config(PROMPTS), inventory=machine))
    comparison = compare_runs(*folders, ComparisonOptions())
    assert comparison.differences == [] and comparison.latency_compared
