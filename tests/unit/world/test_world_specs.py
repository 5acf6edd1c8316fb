"""A world that cannot be built is refused when the suite is loaded, by the name of the key."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.errors import SuiteError
from clawgauge.world.machine import check_world
from clawgauge.world.world import World


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"file": {}}, "key 'file' is not known; did you mean 'files'?"),
        ({"files": []}, "key 'files' must be an object"),
        ({"files": {"srv/a": ""}}, "must be named by a plain absolute path"),
        ({"files": {"/srv/../a": ""}}, "must be named by a plain absolute path"),
        ({"files": {"/srv/a": 3}}, """key 'files."/srv/a"' must be an object"""),
        (
            {"files": {"/srv/a": {"size": "18 gigs"}}},
            'size\' must be a number of bytes or text such as "18G"',
        ),
        ({"files": {"/srv/a": {"mode": "rw-"}}}, "mode' must be an octal mode as text"),
        ({"files": {"/srv/a": {"size": "80G"}}}, "cannot be placed: No space left on device"),
        ({"files": {"/srv/a": "x", "/srv/a/b": "y"}}, "cannot be placed: Not a directory"),
        ({"files": {"/srv/a/b": "y", "/srv/a": "x"}}, "is a directory already"),
        ({"files": {"/srv/a": {"directory": True, "text": "x"}}}, "has neither 'text' nor 'size'"),
        ({"clock": "yesterday"}, "key 'clock' must be a date and time"),
        ({"clock": "2026-01-01T00:00:00+02:00"}, "key 'clock' has a time zone"),
        ({"disks": [{"size": "1G"}]}, "key 'disks[0].mount' is missing"),
        ({"disks": [{"mount": "/", "size": "1G", "used": "2G"}]}, "key 'disks[0].used' is"),
        (
            {"processes": [{"name": "a", "pid": 9}, {"name": "b", "pid": 9}]},
            "key 'processes[1].pid' is 9",
        ),
        ({"processes": [{"name": "a", "cpu": "much"}]}, "key 'processes[0].cpu' must be a number"),
        (
            {"services": [{"name": "a", "state": "up"}]},
            "key 'services[0].state' must be one of active",
        ),
        ({"web": {"ftp://x": ""}}, """key 'web."ftp://x"': Invalid URL"""),
        ({"messages": [{"text": "hi"}]}, "key 'messages[0].from' is missing"),
        ({"replies": [{"text": "yes"}]}, "key 'replies[0].from' is missing"),
        (
            {"replies": [{"from": "dana", "text": " "}]},
            "key 'replies[0].text' must be text that is not blank",
        ),
        (
            {"replies": [{"from": "dana", "text": "yes", "contains": 3}]},
            "key 'replies[0].contains' must be",
        ),
        (
            {"replies": [{"from": "dana", "text": "yes", "after_s": -1}]},
            "key 'replies[0].after_s' must be",
        ),
        (
            {
                "replies": [
                    {"from": "dana", "text": "yes"},
                    {"from": "dana", "contains": "x", "text": "no"},
                ]
            },
            "key 'replies[1].from': an earlier reply of 'dana' fits every message, so this one is never given",
        ),
        ({"sudo": "yes"}, "key 'sudo' must be true or false"),
        (
            {"cron": [{"schedule": "daily", "command": "x"}]},
            "key 'cron[0].schedule': bad schedule 'daily'",
        ),
        ({"notes": [""]}, "key 'notes[0]' must be text that is not blank"),
        ({"notes": ["x", "y" * 20_000]}, "key 'notes[1]': the note is empty or too long"),
        (
            {"disks": [{"mount": "/", "size": "8K"}]},
            "key 'disks': no room for a server: No space left on device",
        ),
        ({"faults": [{"times": 1}]}, "a fault names one 'tool', one 'url' or one 'file'"),
        ({"faults": [{"tool": "browser"}]}, "key 'faults[0].tool' must be one of exec"),
        (
            {"faults": [{"tool": "exec", "times": 0}]},
            "key 'faults[0].times' must be a whole number >= 1",
        ),
        ({"seed": "x"}, "key 'seed' must be a whole number"),
        ({"user": "Root User"}, "key 'user' must be a short name"),
    ],
)
def test_bad_world_is_refused_by_key(spec: dict[str, Any], said: str) -> None:
    """The refusal names the key and what would be accepted."""
    with pytest.raises(SuiteError) as refused:
        check_world(spec)
    assert said in str(refused.value)


def test_empty_world_is_a_world() -> None:
    """Nothing is required: an empty specification is a small server with an empty home."""
    check_world({})
    assert World({}).call("exec", {"command": "pwd; ls; whoami"}).text == "/home/claw\nclaw"
