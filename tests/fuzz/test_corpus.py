"""Every input that was ever found worth keeping, and mutations of them, keep what the targets say."""

from __future__ import annotations

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


@pytest.mark.parametrize("kind", TARGETS)
def test_no_remembered_input_does_harm_again(kind: str) -> None:
    kept = list(entries(kind))
    assert len(kept) >= 5
    for path in kept:
        try:
            TARGETS[kind](path.read_bytes())
        except Exception as fault:
            fault.add_note(f"on {path}")
            raise


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", TARGETS)
def test_no_mutation_of_a_remembered_input_does_harm(kind: str) -> None:
    seeds = [path.read_bytes() for path in entries(kind)]
    for n in range(N_MUTATIONS[kind]):
        data = mutate(seeds, Random(f"{kind} {SEED} {n}"))
        try:
            TARGETS[kind](data)
        except Exception as fault:
            fault.add_note(f"on mutation {n} of seed {SEED}: {data[:2000]!r}")
            raise
