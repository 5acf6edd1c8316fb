"""A world that nobody holds any more is gone, and what breaks inside one is never taken for an answer."""

from __future__ import annotations

import psutil
import pytest

from clawgauge.world.files import FileTree
from clawgauge.world.machine import Machine
from clawgauge.world.world import World

LINES = ("echo one > /srv/f", "sed -i s/one/two/ /srv/f", "sudo cat /srv/f", "nohup ls /srv")


def _work() -> None:
    world = World({"sudo": True})
    for line in LINES:
        world.call("exec", {"command": line})


def test_worlds_leave_nothing_behind() -> None:
    """A run of a thousand tasks needs no more descriptors than one of ten."""
    _work()
    before = psutil.Process().num_fds()
    for _ in range(20):
        _work()
    assert psutil.Process().num_fds() <= before


@pytest.mark.parametrize(
    ("owner", "method", "line"), [(FileTree, "read", "cat /srv/f"), (Machine, "memory", "free")]
)
def test_a_defect_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, line: str
) -> None:
    """What fails within the shell is raised out of it, whatever bashkit makes of it."""

    def broken(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    world = World({"files": {"/srv/f": "x"}})
    assert hasattr(owner, method)
    monkeypatch.setattr(owner, method, broken)
    with pytest.raises(MemoryError):
        world.call("exec", {"command": f"{line} 2>/dev/null || true"})
