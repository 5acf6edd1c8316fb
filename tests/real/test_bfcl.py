"""The whole Berkeley collection, out of its real package, beside its own checker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from clawgauge.own_work.bfcl import CATEGORIES, read_category
from support.bfcl_answers import load_checker, mutations, official, our_verdict
from support.command import clawgauge

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bfcl")
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary=:all:",
        "-d",
        str(folder),
        "bfcl-eval",
    ]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("bfcl-eval could not be downloaded")
    return next(folder.glob("*.whl"))


def test_the_verb_downloads_the_package_itself(tmp_path: Path, wheel: Path) -> None:
    made = clawgauge(tmp_path, "suites", "from-bfcl", "simple", "-o", "out")
    assert made.code == 0, made.stderr
    assert clawgauge(tmp_path, "suites", "check", "out/bfcl_simple.json").code == 0


def test_verdicts_agree_with_the_collections_own_checker(wheel: Path) -> None:
    """In at least 99.5% of all official answers and seven mutations of each; few cases are left out."""
    is_right, n_cases, n_left_out, n_judged, apart = load_checker(wheel), 0, 0, 0, []
    with zipfile.ZipFile(wheel) as archive:
        for category in CATEGORIES:
            rows, truths = _read(archive, category)
            prompts, left_out = read_category(archive, category)
            n_cases, n_left_out = n_cases + len(rows), n_left_out + len(left_out)
            for prompt in prompts if truths else ():
                truth = truths[prompt["id"]]
                for kind, calls in mutations(official(truth), prompt["id"]).items():
                    n_judged += 1
                    if our_verdict(prompt, calls) != is_right(
                        rows[prompt["id"]], truth, calls, category
                    ):
                        apart.append((prompt["id"], kind))
    print(
        f"{n_judged - len(apart)} of {n_judged} agree; {n_left_out} of {n_cases} cases left out; apart: {apart[:20]}"
    )
    assert n_judged > 10_000
    assert len(apart) <= 0.005 * n_judged
    assert n_left_out <= 0.05 * n_cases


def _read(archive: zipfile.ZipFile, category: str) -> tuple[dict[str, Any], dict[str, Any]]:
    name = rf"bfcl_eval/data/(possible_answer/)?BFCL_v[0-9]+_{category}(?:_python)?\.json"
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for member in archive.namelist():
        if kind := re.fullmatch(name, member):
            lines = [json.loads(line) for line in archive.read(member).splitlines()]
            found[bool(kind[1])].update(
                {one["id"]: one["ground_truth"] if kind[1] else one for one in lines}
            )
    return found
