"""Grow the corpus: `PYTHONPATH=tests .venv/bin/python -m fuzz KIND [SECONDS]`, or `all` for every kind in turn.

With `pip install atheris` its engine looks for inputs that reach new code; without it inputs are mutated at random.
Either way only what adds coverage is kept, and the folder tests/data/corpus/KIND is written anew, smaller where it can
be. An input on which a target fails is shrunk and kept there as `fault-…`: the replay in the tests is red until the
program is mended, and keeps it mended. Those files stay, and so does what was put there by hand as `seed-…`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from fuzz.corpus import CORPUS, entries, fault_of, minimised, mutate, remember, shrunk
from fuzz.targets import TARGETS

N_FILES = 60
N_BYTES = 100_000
_ENGINE = """
import sys
import atheris
with atheris.instrument_imports(include=["clawgauge"]):
    from fuzz.targets import TARGETS
atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
atheris.Fuzz()
"""


def explore(kind: str, seconds: int, seeds: list[bytes]) -> list[bytes]:
    """Inputs worth a look: those of the engine, or mutations where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(seeds):
            (Path(folder) / f"seed{number}").write_bytes(data)
        limits = [
            f"-max_total_time={seconds}",
            "-max_len=8192",
            "-timeout=60",
            "-rss_limit_mb=4096",
        ]
        words = [
            sys.executable,
            "-c",
            _ENGINE,
            kind,
            folder,
            *limits,
            f"-artifact_prefix={folder}/fault-",
        ]
        done = subprocess.run(words, capture_output=True, text=True)
        if "No module named 'atheris'" not in done.stderr:
            print(done.stderr[-300:])
            return [path.read_bytes() for path in Path(folder).iterdir()]
    rng, deadline = Random(), time.monotonic() + seconds
    found = []
    while time.monotonic() < deadline:
        found.append(mutate(seeds, rng))
    return found


def grow(kind: str, seconds: int) -> None:
    seeds = [path.read_bytes() for path in entries(kind)]
    sound = []
    for data in {*seeds, *explore(kind, seconds, seeds)}:
        if (fault := fault_of(kind, data)) is None:
            sound.append(data)
        else:
            print(f"{fault}: {remember(kind, shrunk(kind, data), 'fault-')}")
    by_hand = [path.read_bytes() for path in entries(kind) if path.name.startswith("seed-")]
    kept = [data for data in minimised(kind, sound, N_FILES, N_BYTES) if data not in by_hand]
    for path in entries(kind):
        if not path.name.startswith(("fault-", "seed-")):
            path.unlink()
    for data in kept:
        remember(kind, data)
    print(f"{kind}: {len(kept)} inputs, {sum(map(len, kept))} bytes, in {CORPUS / kind}")


if __name__ == "__main__":
    kinds = list(TARGETS) if sys.argv[1] == "all" else [sys.argv[1]]
    for each in kinds:
        grow(each, int(sys.argv[2]) if len(sys.argv) > 2 else 60)
