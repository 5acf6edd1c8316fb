"""The tools look at one world: what one of them does, the others see."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.errors import SuiteError
from clawgauge.world import TOOL_NAMES, ToolAnswer, tool_definitions
from clawgauge.world.world import World

SPEC: dict[str, Any] = {
    "files": {"/srv/a.txt": "one\ntwo\n", "/srv/big.bin": {"size": "18G"}},
    "disks": [{"mount": "/", "size": "40G", "used": "38G"}],
    "processes": [
        {"name": "indexer", "command": "/opt/indexer --all", "cpu": 97.5, "memory_mb": 900},
        {"name": "database", "user": "postgres"},
    ],
    "services": [{"name": "web", "state": "active"}],
    "web": {"https://example.org/a": "hello\n"},
    "contacts": ["dana"],
    "messages": [{"from": "mika", "text": "Is it up?"}],
    "cron": [{"schedule": "0 6 * * *", "command": "/opt/report.sh"}],
    "notes": ["The backup host is called heron."],
}


@pytest.fixture
def world() -> World:
    return World(SPEC)


def shell(world: World, command: str) -> ToolAnswer:
    return world.call("exec", {"command": command})


def test_written_file_is_seen_by_the_shell(world: World) -> None:
    """A file written with one tool is read, edited and listed by the others."""
    world.call("write", {"path": "/srv/new/deep.txt", "content": "alpha beta\n"})
    assert shell(world, "cat /srv/new/deep.txt").text == "alpha beta"
    shell(world, "echo gamma >> /srv/new/deep.txt")
    world.call("edit", {"path": "/srv/new/deep.txt", "oldText": "beta", "newText": "BETA"})
    assert world.call("read", {"path": "/srv/new/deep.txt"}).text == "alpha BETA\ngamma\n"


def test_a_file_written_as_it_was_has_not_changed(world: World) -> None:
    """Who replaces a text by itself has done no harm, by whatever tool."""
    world.call("edit", {"path": "/srv/a.txt", "oldText": "two", "newText": "two"})
    world.call("write", {"path": "/srv/a.txt", "content": "one\ntwo\n"})
    shell(world, "sed -i s/three/four/ /srv/a.txt")
    assert [effect for effect in world.machine.effects if effect.kind != "read"] == []
    world.call("edit", {"path": "/srv/a.txt", "oldText": "two", "newText": "2"})
    assert [effect.kind for effect in world.machine.effects if effect.kind != "read"] == ["changed"]


def test_deleting_a_file_frees_its_disk(world: World) -> None:
    """df shows the room that rm made, to the block."""
    assert "95%" in shell(world, "df -h /").text
    shell(world, "rm /srv/big.bin")
    assert "50%" in shell(world, "df -h /").text


def test_full_disk_refuses_and_then_takes_a_write() -> None:
    """A write to a full disk fails in strerror's words, and works once there is room."""
    world = World(
        {
            "files": {"/srv/big.bin": {"size": "1G"}},
            "disks": [{"mount": "/", "size": "2G", "used": "2G"}],
        }
    )
    refused = world.call("write", {"path": "/srv/x", "content": "y"})
    assert (refused.is_error, refused.text) == (True, "Error: /srv/x: No space left on device")
    assert not world.machine.files.exists("/srv/x")
    shell(world, "rm /srv/big.bin")
    assert not world.call("write", {"path": "/srv/x", "content": "y"}).is_error


def test_killed_process_leaves_every_list(world: World) -> None:
    """After a kill neither ps nor the process tool shows the process, and its memory is free."""
    pid = int(shell(world, "pgrep indexer").text)
    free_before = int(shell(world, "free -m").text.splitlines()[1].split()[-1])
    answer = world.call("process", {"action": "kill", "pid": pid})
    assert "it has ended" in answer.text
    assert "indexer" not in shell(world, "ps aux").text
    assert "indexer" not in world.call("process", {"action": "list"}).text
    assert int(shell(world, "free -m").text.splitlines()[1].split()[-1]) == free_before + 900


def test_process_of_another_user_cannot_be_killed(world: World) -> None:
    """A process that belongs to somebody else stays, and the refusal is the kernel's."""
    answer = shell(world, "kill -9 $(pgrep database)")
    assert "Operation not permitted" in answer.text
    assert shell(world, "pgrep database").text.isdigit()


def test_killing_a_service_makes_it_fail_and_restart_heals_it(world: World) -> None:
    """A service whose process is gone has failed; a restart gives it a new process."""
    root = World(SPEC | {"user": "root"})
    before = shell(root, "pgrep web").text
    shell(root, "pkill web")
    assert shell(root, "systemctl is-active web").text == "failed\n(exit code 3)"
    assert shell(root, "systemctl restart web && systemctl is-active web").text == "active"
    assert shell(root, "pgrep web").text != before


def test_jobs_are_one_list(world: World) -> None:
    """A job added with the cron tool is in the crontab, and one installed with crontab is in the tool's list."""
    world.call("cron", {"action": "add", "schedule": "30 2 * * *", "command": "/opt/b.sh"})
    assert shell(world, "crontab -l").text == "0 6 * * * /opt/report.sh\n30 2 * * * /opt/b.sh"
    shell(world, "(crontab -l; echo '@daily /opt/c.sh') | crontab -")
    listed = world.call("cron", {"action": "list"}).text
    assert [line.split()[-1] for line in listed.splitlines()] == [
        "/opt/report.sh",
        "/opt/b.sh",
        "/opt/c.sh",
    ]
    assert world.call("cron", {"action": "remove", "id": "job-1"}).text.startswith("Removed job-1")


def test_web_is_one_for_both_ways(world: World) -> None:
    """web_fetch and curl see the same page; an unknown page is 404 and an unknown host is not resolved."""
    assert world.call("web_fetch", {"url": "HTTPS://Example.org/a#part"}).text.endswith(
        "\n\nhello\n"
    )
    assert shell(world, "curl -s https://example.org/a").text == "hello"
    missing = world.call("web_fetch", {"url": "https://example.org/b"})
    assert (missing.is_error, missing.text.splitlines()[0]) == (True, "HTTP 404 Not Found")
    assert (
        "Could not resolve host: other.example"
        in shell(world, "curl -sS https://other.example/").text
    )


def test_messages_are_read_and_sent(world: World) -> None:
    """Who has written can be written to; a stranger is refused with the names of those who can."""
    assert "mika: Is it up?" in world.call("message", {"action": "read"}).text
    assert (
        world.call("message", {"action": "send", "to": "@Mika", "text": "Yes."}).text
        == "Sent to mika."
    )
    refused = world.call("message", {"action": "send", "to": "nobody", "text": "?"})
    assert refused.text == "Error: unknown recipient 'nobody'; you can write to: dana, mika"


def test_notes_are_found_by_their_words(world: World) -> None:
    """A search finds notes that share a word with it, in any case and number, and nothing else."""
    world.call("memory", {"action": "store", "text": "Mika is on holiday."})
    assert world.call(
        "memory", {"action": "search", "query": "which host for BACKUPS?"}
    ).text.endswith("called heron.")
    assert (
        world.call("memory", {"action": "search", "query": "the of is"}).text == "No note matches."
    )


def test_clock_moves_with_the_calls_and_not_with_the_host() -> None:
    """Two worlds of one specification tell the same time after the same calls, and time only goes forward."""
    first, second = World(SPEC), World(SPEC)
    times = [shell(first, "date +%s").text for _ in range(4)]
    assert times == [shell(second, "date +%s").text for _ in range(4)]
    assert sorted(set(times)) == times


def test_seed_varies_what_nobody_specified() -> None:
    """Another seed gives other process ids and the same files."""
    pids = {shell(World(SPEC | {"seed": seed}), "pgrep indexer").text for seed in range(5)}
    assert len(pids) == 5


def test_every_tool_is_defined_for_a_model() -> None:
    """Each built-in tool has a description and a schema whose required arguments it describes."""
    for tool, name in zip(tool_definitions(TOOL_NAMES), TOOL_NAMES, strict=True):
        function = tool["function"]
        assert (tool["type"], function["name"]) == ("function", name)
        assert function["description"]
        assert set(function["parameters"]["required"]) <= set(function["parameters"]["properties"])
    with pytest.raises(SuiteError, match="no built-in tool is called 'browser'"):
        tool_definitions(["browser"])


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("browser", {}, "no tool is called 'browser'"),
        ("read", {}, "read: the argument 'path' is missing"),
        ("read", {"path": 7}, "read: the argument 'path' must be a string"),
        (
            "read",
            {"path": "/srv/a.txt", "offset": 9},
            "/srv/a.txt has 2 lines; offset 9 is past its end",
        ),
        ("read", {"path": "/nope"}, "/nope: No such file or directory"),
        ("write", {"path": "/etc/x", "content": ""}, "/etc/x: Permission denied"),
        (
            "edit",
            {"path": "/srv/a.txt", "oldText": "o", "newText": ""},
            "the old text occurs 2 times",
        ),
        ("process", {"action": "stop"}, "must be one of list, info, kill"),
        ("process", {"action": "kill", "pid": 999999}, "pid 999999: No such process"),
        (
            "cron",
            {"action": "add", "schedule": "61 * * * *", "command": "x"},
            "bad schedule '61 * * * *'",
        ),
        ("web_fetch", {"url": "file:///etc/passwd"}, "Invalid URL"),
        ("memory", {"action": "delete", "id": "note-99"}, "no note has the id 'note-99'"),
        ("exec", "ls", "exec: the arguments must be a JSON object"),
    ],
)
def test_wrong_call_is_an_answer_that_says_what_to_mend(
    world: World, name: str, arguments: Any, said: str
) -> None:
    """A call that cannot be done changes nothing and says why."""
    answer = world.call(name, arguments)
    assert answer.is_error
    assert said in answer.text
    assert [effect for effect in world.machine.effects if effect.kind != "read"] == []
