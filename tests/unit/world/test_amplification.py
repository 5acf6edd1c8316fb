"""A short command line that would grow without bound is stopped before it has filled the memory of this machine."""

from __future__ import annotations

import tracemalloc

import pytest

from clawgauge.world import World

TURNS = " ".join(map(str, range(60)))
LONG = "y" * 50_000
MAX_PEAK_BYTES = 48 * 1024**2


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(f"a=x; for i in {TURNS}; do a=$a$a; done", id="variable"),
        pytest.param(f'a=x; for i in {TURNS}; do a="$a$a"; done', id="quoted-variable"),
        pytest.param(f'a=x; for i in {TURNS}; do read a <<< "$a$a"; done', id="here-string"),
        pytest.param(f"a=$(seq 90000); b=${{a//0/{LONG}}}", id="replaced-in-variable"),
        pytest.param(f"a=$(seq 90000); echo ${{a//0/{LONG}}}", id="replaced-in-argument"),
        pytest.param(f"seq 90000 | sed 's/1/{LONG}/g'", id="sed-long-replacement"),
        pytest.param(f"seq 90000 | tr '\\n' ' ' | sed 's/.*/{'&' * 50_000}/'", id="sed-repeats-its-match"),
        pytest.param(f"seq 90000 | sed 'i {LONG}'", id="sed-inserts"),
        pytest.param("seq 60 | awk '{x = x x \"a\"} END {print length(x)}'", id="awk-doubles"),
    ],
)
def test_growth_is_stopped(command: str) -> None:
    """The model is told that its call was stopped, and no more than a few megabytes were ever held."""
    world = World({})
    tracemalloc.start()
    try:
        answer = world.call("exec", {"command": command})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.is_error and "too much work" in answer.text
    assert peak < MAX_PEAK_BYTES


def test_a_line_that_doubles_is_stopped() -> None:
    """Sixty doublings of one line end long before the sixtieth; watching every allocation would take too long here."""
    script = ";".join(["s/./&&/g"] * 60)
    answer = World({}).call("exec", {"command": f"echo x | sed '{script}'"})
    assert answer.is_error and "too much work" in answer.text


def test_ordinary_work_is_not_stopped() -> None:
    """Lines by the thousand can be edited and variables put together as anywhere."""
    world = World({})
    told = world.call("exec", {"command": "seq 20000 | sed 's/1/one/g; s/^/line /' | tail -n 1"})
    assert told.text == "line 20000"
    told = world.call("exec", {"command": "a=x; for i in 1 2 3; do a=$a$a; done; echo ${a//x/yz}"})
    assert told.text == "yz" * 8
