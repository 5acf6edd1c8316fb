"""Suites of the Berkeley collection: every case becomes a prompt, judged as the collection's own checker would."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import ConfigError
from clawgauge.own_work.bfcl import write_suites
from clawgauge.suites import load_suite
from support.bfcl_answers import mutations, official, our_verdict
from support.rows import every_row

SAMPLE = Path(__file__).parents[2] / "data" / "bfcl" / "sample.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A wheel with the sample in it, laid out as the real one is."""
    files: dict[str, list[str]] = defaultdict(list)
    for case in CASES:
        category = "simple_python" if case["category"] == "simple" else case["category"]
        name = f"BFCL_v4_{category}.json"
        files[f"bfcl_eval/data/{name}"].append(json.dumps(case["row"]))
        if case["truth"] is not None:
            truth = {"id": case["row"]["id"], "ground_truth": case["truth"]}
            files[f"bfcl_eval/data/possible_answer/{name}"].append(json.dumps(truth))
    with zipfile.ZipFile(tmp_path / "bfcl_eval-1.whl", "w") as archive:
        for name, lines in files.items():
            archive.writestr(name, "\n".join(lines))
    return tmp_path / "bfcl_eval-1.whl"


@pytest.mark.slow
def test_verdicts_are_those_of_the_collections_own_checker(package: Path, tmp_path: Path) -> None:
    """On the official answers and seven mutations; cases that contradict their schema are left out and named."""
    told = list(write_suites([], tmp_path / "out", package))
    assert len(told) == 11
    assert "simple_python_307" in told[0] and "live_multiple_552-153-1" in "".join(told)
    prompts = {}
    for path in sorted((tmp_path / "out").iterdir()):
        load_suite(str(path))
        prompts |= {prompt["id"]: prompt for prompt in json.loads(path.read_text())["prompts"]}
    left_out = [case["row"]["id"] for case in CASES if case["row"]["id"] not in prompts]
    assert {"simple_python_307", "live_multiple_552-153-1"} <= set(left_out)
    assert len(left_out) <= 4
    judged = [
        (
            case["row"]["id"],
            kind,
            our_verdict(prompts[case["row"]["id"]], calls),
            case["verdicts"][kind],
        )
        for case in CASES
        if case["verdicts"] and case["row"]["id"] in prompts
        for kind, calls in mutations(official(case["truth"]), case["row"]["id"]).items()
    ]
    assert len(judged) > 400
    assert [one for one in judged if one[2] != one[3]] == []
    assert 0.2 < sum(one[3] for one in judged) / len(judged) < 0.8


def test_no_call_and_any_call_are_asked_for_where_there_is_no_truth(
    package: Path, tmp_path: Path
) -> None:
    list(write_suites(["irrelevance", "live_relevance"], tmp_path / "out", package))
    none = load_suite(str(tmp_path / "out/bfcl_irrelevance.json")).prompts[0]
    some = load_suite(str(tmp_path / "out/bfcl_live_relevance.json")).prompts[0]
    assert (none.validator["type"], none.validator["no_call"]) == ("tool_call", True)
    assert some.validator["type"] == "tool_invocation"


def test_what_is_no_such_package_or_category_is_refused_in_a_sentence(
    package: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no category is called 'simpel'"):
        list(write_suites(["simpel"], tmp_path / "out", package))
    (tmp_path / "no.whl").write_bytes(b"no zip")
    with pytest.raises(ConfigError, match="cannot be used"):
        list(write_suites(["simple"], tmp_path / "out", tmp_path / "no.whl"))
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    with pytest.raises(ConfigError, match="no category simple"):
        list(write_suites(["simple"], tmp_path / "out", tmp_path / "empty.whl"))
    assert not list((tmp_path / "out").glob("*"))


@every_row(
    "content",
    [
        pytest.param(b"7\n", id="no object"),
        pytest.param(b'{"id": "a", "function": [7], "question": [[]]}\n', id="no function"),
        pytest.param(b'{"id": "a", "function": 7, "question": [[]]}\n', id="no list"),
        pytest.param(b"[" * 200_000 + b"\n", id="deep"),
        pytest.param(bytes(65 << 20), id="a bomb"),
        pytest.param(b"\xff\xfe\n", id="no text"),
    ],
)
def test_a_hostile_package_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bfcl_eval/data/BFCL_v4_simple.json", content)
    if len(content) > 1 << 20:
        # What it claims, in both of its headers: 100 bytes.
        path.write_bytes(
            path.read_bytes().replace(
                len(content).to_bytes(4, "little"), (100).to_bytes(4, "little")
            )
        )
    with pytest.raises(ConfigError, match=r"cannot be used|no category") as refused:
        list(write_suites(["simple"], tmp_path / "out", path))
    assert "\n" not in str(refused.value)


def test_pip_is_given_no_keys_and_nothing_to_wait_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    given: dict[str, Any] = {}

    def run(words: list[str], **options: Any) -> None:
        given.update(options)
        raise subprocess.TimeoutExpired(words, 1)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ConfigError, match="cannot be downloaded"):
        list(write_suites(["simple"], tmp_path / "out", None))
    assert "OPENAI_API_KEY" not in given["env"] and "PIP_INDEX_URL" in given["env"]
    assert given["stdin"] == subprocess.DEVNULL and given["timeout"]
