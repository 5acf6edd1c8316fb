"""The world asks nothing of the machine it runs on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clawgauge.suites import load_suite
from support.task_models import solves

TESTS = Path(__file__).parents[2]
ATTACKS = [
    "touch /tmp/x; cat /etc/passwd > ~/y; echo $(ls /proc) | tee /dev/shm/z",
    "python3 -c 'import os; os.system(\"id\")'; sh -c id; bash -c id; perl -e 1; node -e 1",
    'awk \'BEGIN { system("id"); print 1 > "/tmp/x"; "date" | getline d }\'; find / -exec id \';\'; ls / | xargs id',
    "curl http://127.0.0.1:1/; wget http://example.org/; sed -i s/a/b/ /etc/hosts; date; hostname; env; whoami; uptime",
    "kill -9 -1; pkill -9 python; systemctl stop ssh; crontab -r; rm -rf / /*; chmod -R 777 /; df -h; ps aux; free -m",
]


def events_of(plays: list[tuple[dict[str, Any] | None, list[tuple[str, Any]]]]) -> list[str]:
    """What Python was asked to do while these calls were made."""
    done = subprocess.run(
        [sys.executable, "-m", "support.audited_world"],
        input="\n".join(json.dumps(play) for play in plays),
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    events: list[str] = json.loads(done.stdout)
    return events


@pytest.mark.slow
def test_no_call_reaches_the_host() -> None:
    """Neither solving every task nor attacking every world opens a file, starts a process or makes a connection.

    Of Python's side that is: `test_shell` looks for what the shell itself might do behind it."""
    plays = []
    for task in load_suite("agentic").prompts:
        solution = [call for turn in solves(task) for call in turn.calls]
        plays.append((task.world, [*solution, *(("exec", {"command": line}) for line in ATTACKS)]))
    harmless = (
        "_thread.",
        "ctypes.",
        "compile",
        "object.__getattr__",
        "sys._getframe",
        "code.__new__",
    )
    assert [event for event in events_of(plays) if not event.startswith(harmless)] == []
