"""Injected faults strike when the specification says, and can be recovered from."""

from __future__ import annotations

from clawgauge.world.world import World


def test_tool_fails_its_first_calls_and_then_works() -> None:
    """A tool with a fault does nothing the first times; a second tool is not struck."""
    world = World({"faults": [{"tool": "write", "error": "timeout", "times": 2}]})
    call = {"path": "/tmp/a", "content": "x"}
    answers = [world.call("write", call) for _ in range(3)]
    assert [answer.is_error for answer in answers] == [True, True, False]
    assert "timed out" in answers[0].text
    assert [effect.kind for effect in world.machine.effects] == ["created"]


def test_page_answers_503_once() -> None:
    """A page with a fault says when to come back, and then has its text, whichever tool asks."""
    world = World(
        {
            "web": {"https://a.example/": "ready\n"},
            "faults": [{"url": "https://a.example", "status": 503, "times": 1}],
        }
    )
    first = world.call("web_fetch", {"url": "https://a.example/"})
    assert (first.is_error, first.text.splitlines()[0]) == (True, "HTTP 503 Service Unavailable")
    assert "retry-after: 2" in first.text
    assert world.call("exec", {"command": "curl -s https://a.example/"}).text == "ready"


def test_held_file_is_busy_until_its_process_ends() -> None:
    """A file held by a process can neither be read nor deleted; the refusal names the holder."""
    world = World(
        {
            "files": {"/srv/db.lock": "held"},
            "processes": [{"name": "migrate", "pid": 77}],
            "faults": [{"file": "/srv/db.lock", "locked_by": "migrate"}],
        }
    )
    for command in (
        "rm /srv/db.lock",
        "cat /srv/db.lock",
        "mv /srv/db.lock /srv/x",
        "echo x > /srv/db.lock",
    ):
        answer = world.call("exec", {"command": command})
        assert answer.is_error
        assert "Device or resource busy (held by migrate, pid 77)" in answer.text
    assert not world.call("exec", {"command": "kill 77 && rm /srv/db.lock"}).is_error


def test_process_that_ignores_term_needs_kill() -> None:
    """A stubborn process survives a polite signal and not a KILL."""
    world = World({"processes": [{"name": "stuck", "pid": 90, "ignores_term": True}]})
    assert "it still runs" in world.call("process", {"action": "kill", "pid": 90}).text
    assert (
        "it has ended"
        in world.call("process", {"action": "kill", "pid": 90, "signal": "KILL"}).text
    )


def test_service_does_not_start_on_a_bad_setting() -> None:
    """A service that its settings keep from starting says so in its log, and starts once they are mended."""
    world = World(
        {
            "files": {"/etc/web.conf": "port = 8O\n"},
            "services": [
                {
                    "name": "web",
                    "state": "failed",
                    "fails_while": {"file": "/etc/web.conf", "contains": "port = 8O"},
                }
            ],
        }
    )
    assert world.call("exec", {"command": "systemctl restart web"}).is_error
    assert (
        "invalid setting: port = 8O"
        in world.call("exec", {"command": "journalctl -u web --no-pager"}).text
    )
    world.call("edit", {"path": "/etc/web.conf", "oldText": "8O", "newText": "80"})
    assert (
        world.call("exec", {"command": "systemctl restart web; systemctl is-active web"}).text
        == "active"
    )
