"""Whatever a model sends, the world answers: no exception, no long answer, no runaway memory or time."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawgauge.world import TOOL_NAMES, ToolAnswer
from clawgauge.world.world import MAX_ANSWER_BYTES, MAX_CALLS, World

SPEC: dict[str, Any] = {
    "files": {
        "/srv/a.txt": "one\ntwo\n",
        "/srv/d/b c.log": "x" * 2_000,
        "/srv/big": {"size": "18G"},
    },
    "processes": [{"name": "worker", "pid": 50}],
    "services": [{"name": "web"}],
    "web": {"https://a.example/": "page"},
    "contacts": ["dana"],
    "cron": [{"schedule": "0 6 * * *", "command": "/x"}],
    "notes": ["a note"],
}
VOCABULARY = [
    "ls", "cat", "rm", "-rf", "/", "/srv", "/srv/*", "*", "|", "||", "&&", ";", "(", ")", "{", "}", ">", ">>",
    "<", "2>&1", "<<EOF", "\nEOF\n", "$(", "`", "'", "\"", "\\", "$x", "${x%", "}", "for", "in", "do", "done",
    "while", "read", "if", "then", "fi", "else", "[", "]", "!", "-n", "find", "-exec", "{}", "\\;", "-name",
    "sed", "s/a/b/g", "/re/,$p", "-i", "grep", "-E", "(a+)+b", "[z-a]", "sort", "-k2,3n", "cut", "-f1-", "-d,",
    "tr", "a-z", "head", "-5", "tail", "wc", "mv", "cp", "-r", "mkdir", "-p", "touch", "chmod", "u+x", "xargs",
    "-I{}", "kill", "50", "ps", "aux", "--sort=-%cpu", "df", "du", "-h", "free", "date", "-d", "@99999999999",
    "yesterday", "+%Y", "crontab", "-", "-l", "systemctl", "web", "restart", "curl", "https://a.example/",
    "printf", "%5s%d", "echo", "sleep", "9", "seq", "999999999", "tee", "a=b", "\0", "\ud800", "é", "𝄞", "\n",
    "\t", "awk", "'{print $1}'",
    "'{a[$1]++} END {for(k in a) print k}'", "'NR==1 && /x/ {$3=$1; next} !x'",
    "test", "-f", "cd", "..", "exit", "IFS=,", "stat", "-c",
]  # fmt: skip
COMMANDS = st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
)
KEYS = st.sampled_from(
    ["command", "workdir", "path", "content", "oldText", "newText", "url", "action", "to", "text", "from", "schedule",
     "name", "id", "query", "pid", "signal", "offset", "limit"]
)  # fmt: skip
VALUES = (
    JSON
    | COMMANDS
    | st.sampled_from(
        ["send", "read", "list", "add", "remove", "store", "search", "kill", "/srv/a.txt", "dana"]
    )
)
CALLS = st.tuples(
    st.sampled_from([*TOOL_NAMES, "", "nope"]), st.dictionaries(KEYS, VALUES, max_size=6) | JSON
)


def assert_bounded(answer: ToolAnswer) -> None:
    assert isinstance(answer, ToolAnswer)
    assert len(answer.text.encode("utf-8")) <= MAX_ANSWER_BYTES


def assert_answered_alike(calls: list[tuple[str, Any]]) -> None:
    first, second = World(SPEC), World(SPEC)
    for name, arguments in calls:
        answer = first.call(name, arguments)
        assert_bounded(answer)
        assert second.call(name, arguments) == answer
    assert first.machine.effects == second.machine.effects


@settings(max_examples=60)
@given(st.lists(CALLS, max_size=6))
def test_any_calls_get_an_answer_and_the_same_again(calls: list[tuple[str, Any]]) -> None:
    """No call raises, every answer is bounded text, and a second world says the same to the same calls."""
    assert_answered_alike(calls)


@pytest.mark.slow
@settings(max_examples=500)
@given(st.lists(CALLS, max_size=6))
def test_many_more_calls_get_an_answer_and_the_same_again(calls: list[tuple[str, Any]]) -> None:
    """The same with more calls."""
    assert_answered_alike(calls)


@settings(max_examples=400)
@given(COMMANDS)
def test_any_command_line_gets_an_answer(command: str) -> None:
    """No command line, however broken, raises or hangs; the disk never holds less than nothing."""
    world = World(SPEC)
    assert_bounded(world.call("exec", {"command": command}))
    assert all(0 <= disk.used <= disk.size for disk in world.machine.disks)


@pytest.mark.parametrize(
    "command",
    [
        "(" * 5_000,
        "$(" * 5_000,
        '"$(' * 3_000,
        "`" * 9_999,
        "echo " + "a" * 60_000,
        "{ " * 5_000,
        "if " * 5_000,
        "[ " * 5_000,
        "echo " + "*" * 2_000,
        "grep -E '" + "(a*)*" * 3_000 + "' /srv/a.txt",
        "echo aaaaaaaaaaaaaaaaaaaaaaaa | grep -E '(a+)+b'",
        "x=" + "a" * 30_000 + "; echo ${x%%*a*a*a*b}",
        "printf 'x%.0s' $(seq 1 400000) > /srv/x",
        "echo start > /srv/f; while true; do cat /srv/f /srv/f > /srv/g; cat /srv/g /srv/g > /srv/f; done",
        "for i in $(seq 1 100000); do touch /srv/n$i; done",
        "for i in $(seq 1 100000); do mkdir -p /srv/$i/$i; done; find / -exec cat {} +",
        "seq 1 999999999 | sort -n | tail -1",
        "while true; do sleep 599; done",
        "rm -rf --no-preserve-root / ; ls /; cd /; pwd; df",
        "rm -rf /* ~ .",
        "mv /srv /srv/d; cp -r / /srv; mv / /x",
        "date -d '999999 weeks'; date -d '999999 weeks ago'; date +" + "%s" * 5_000,
        "sed 's/" + "(" * 900 + "/x/' /srv/a.txt",
        "xargs xargs xargs < /srv/a.txt",
        "cat <<A <<B\n1\nA\n2\nB",
        "find / -exec find / -exec find / \\; \\;",
        "awk '" + "(" * 3_000 + "'",
        "awk '" + "$" * 3_000 + "1'",
        "awk 'BEGIN {" + "{" * 3_000,
        "seq 1 9999999 | awk '{a[$1]=$0; s=s s $0} END {for (k in a) print k, s}'",
        "awk 'BEGIN {print 1e308*10, 9^9, -1 % 0}'",
    ],
)
def test_hostile_line_ends_in_bounded_memory(command: str) -> None:
    """Deep nesting, explosions and self-destruction are answered, within 64 MB."""
    world = World(SPEC)
    tracemalloc.start()
    try:
        assert_bounded(world.call("exec", {"command": command}))
        assert_bounded(world.call("exec", {"command": "ls /"}))
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024**2
    finally:
        tracemalloc.stop()


def test_huge_write_is_refused_and_changes_nothing() -> None:
    """Ten megabytes in one call are not acted on, and neither is what a record could not hold."""
    world = World(SPEC)
    deep: Any = "x"
    for _ in range(2_000):
        deep = [deep]
    for arguments in (
        {"path": "/srv/a.txt", "content": "x" * 10_000_000},
        {"path": "/srv/a.txt", "content": "\ud800"},
        {"path": "/srv/a.txt", "content": "", "extra": deep},
    ):
        answer = world.call("write", arguments)
        assert answer.is_error
    assert world.machine.files.text_of("/srv/a.txt") == "one\ntwo\n"


def test_many_large_calls_run_into_the_budget() -> None:
    """A thousand calls at full size end in refusals, not in a gigabyte of files."""
    world = World(SPEC)
    answers = [
        world.call("write", {"path": f"/srv/f{n}", "content": "x" * 60_000}) for n in range(100)
    ]
    assert [answer.is_error for answer in answers].index(True) == 4
    assert all(answer.is_error for answer in answers[4:])


def test_calls_past_the_most_there_may_be_do_nothing() -> None:
    """Whatever the first two hundred calls were, refused ones included, the next says that nothing was done."""
    world = World(SPEC)
    for _ in range(MAX_CALLS // 2):
        world.call("nope", None)
        assert not world.call("exec", {"command": "true"}).is_error
    before = world.machine.clock.now_s
    refused = world.call("write", {"path": "/srv/new", "content": "x"})
    assert refused == ToolAnswer(
        "Error: 200 calls were made, the most there may be; nothing was done", is_error=True
    )
    assert (world.machine.effects, world.machine.clock.now_s, len(world.calls)) == (
        [],
        before,
        MAX_CALLS,
    )


def test_long_life_of_random_damage_stays_small() -> None:
    """Hundreds of destructive lines in one world leave it answering."""
    draw = random.Random(7)
    world = World(SPEC)
    for _ in range(MAX_CALLS):
        line = " ".join(draw.choices(VOCABULARY, k=draw.randint(1, 9)))
        assert_bounded(world.call("exec", {"command": line}))
