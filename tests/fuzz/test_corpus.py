"""Every input that was ever found worth keeping, and mutations of them, keep what the targets say."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz.corpus import entries, mutate
from fuzz.targets import TARGETS

SEED = 20261115
# As many as take some ten seconds each: a run folder is read by six verbs, a stream in a millisecond.
N_MUTATIONS = {
    "sse": 8000, "chat": 2000, "responses": 2000, "gzip": 8000, "claude_stream": 3000, "detection": 1200, "suite": 1200,
    "run_folder": 120,
}  # fmt: skip


# Inputs on which the program is still wrong, and why.
PENDING = {
    "fault-f899628b05e8": "a line that `compare` pairs by is none for the summary, which reads more of its fields",
}


@pytest.mark.parametrize("kind", TARGETS)
def test_no_remembered_input_does_harm_again(kind: str) -> None:
    kept = [path for path in entries(kind) if path.name not in PENDING]
    assert len(kept) >= 5
    for path in kept:
        try:
            TARGETS[kind](path.read_bytes())
        except Exception as fault:
            fault.add_note(f"on {path}")
            raise


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=pytest.mark.xfail(reason=PENDING[path.name], strict=False))
        for kind in TARGETS
        for path in entries(kind)
        if path.name in PENDING
    ],
)
def test_what_is_still_wrong_is_known(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.xfail(reason="one of PENDING is found again", strict=False))
        if kind == "run_folder"
        else kind
        for kind in TARGETS
    ],
)
def test_no_mutation_of_a_remembered_input_does_harm(kind: str) -> None:
    seeds = [path.read_bytes() for path in entries(kind)]
    for n in range(N_MUTATIONS[kind]):
        data = mutate(seeds, Random(f"{kind} {SEED} {n}"))
        try:
            TARGETS[kind](data)
        except Exception as fault:
            fault.add_note(f"on mutation {n} of seed {SEED}: {data[:2000]!r}")
            raise
