"""The `world_state` validator: a task is judged by making its calls again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clawgauge.checks import check_spec, judge_answer
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.timeline import Timeline
from support.rows import every_row

WORLD: dict[str, Any] = {
    "files": {"/srv/a.txt": "alpha\n", "/srv/db": {"size": "9G"}, "/srv/keep/x": "x"},
    "disks": [{"mount": "/", "size": "20G", "used": "19G"}],
    "processes": [{"name": "worker", "pid": 50}, {"name": "database", "pid": 60}],
    "services": [{"name": "web", "state": "inactive"}],
    "web": {"https://a.example/x": "page"},
    "contacts": ["dana", "#ops"],
    "cron": [{"schedule": "0 6 * * *", "command": "/opt/report.sh"}],
    "notes": ["The host is heron."],
}


def task(expect: list[Any] | None = None, forbid: list[Any] | None = None, **more: Any) -> Prompt:
    validator = {"type": "world_state", "expect": expect or [], "forbid": forbid or []} | more
    check_spec(validator)
    tools = [{"type": "function"}]
    return Prompt(
        id="P0", name="n", prompt="p", validator=validator, tools=tools, world=WORLD, max_turns=5
    )


def calls(*made: tuple[str, dict[str, Any]]) -> list[ToolInvocation]:
    return [
        ToolInvocation(name=name, arguments=arguments, channel="native", turn=turn)
        for turn, (name, arguments) in enumerate(made, start=1)
    ]


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return "exec", {"command": command}


@every_row(
    ("condition", "command", "fault"),
    [
        ({"file": "/srv/new"}, "touch /srv/new", "file /srv/new is missing"),
        ({"file": "/srv/a.txt", "absent": True}, "rm /srv/a.txt", "file /srv/a.txt is there"),
        (
            {"file": "/srv/a.txt", "equals": "beta"},
            "echo beta > /srv/a.txt",
            'file /srv/a.txt is "alpha", not "beta"',
        ),
        (
            {"file": "/srv/a.txt", "contains": "Beta"},
            "echo beta >> /srv/a.txt",
            'file /srv/a.txt lacks "Beta"',
        ),
        (
            {"file": "/srv/a.txt", "lacks": ["alpha"]},
            "echo x > /srv/a.txt",
            'file /srv/a.txt holds "alpha"',
        ),
        (
            {"file": "/srv/a.txt", "matches": "[0-9]+"},
            "echo 42 > /srv/a.txt",
            'file /srv/a.txt does not match "[0-9]+"',
        ),
        (
            {"file": "/srv/keep", "contains": "x"},
            "rm -r /srv/keep && echo x > /srv/keep",
            "/srv/keep is a directory",
        ),
        ({"process": "worker", "running": False}, "kill 50", "process worker still runs"),
        ({"service": "web", "state": "active"}, "systemctl start web", "service web is inactive"),
        ({"disk": "/", "free": "5G"}, "rm /srv/db", "disk / has"),
        (
            {"cron": "/opt/b.sh", "schedule": "30 2 * * 1-5"},
            "echo '30 2 * * mon-fri /opt/b.sh' | crontab -",
            "no job runs",
        ),
        ({"cron": "report.sh", "absent": True}, "crontab -r", "job report.sh is scheduled"),
        (
            {"cron": "report.sh", "schedule": "0 7 * * *"},
            "echo '0 7 * * * /opt/report.sh' | crontab -",
            'runs at "0 6 * * *"',
        ),
        ({"called": "exec", "with": "uptime"}, "uptime", 'exec with "uptime" was not called'),
        (
            {"called": ["read", "exec"], "with": "/srv"},
            "ls /srv",
            'read or exec with "/srv" was not called',
        ),
    ],
)
def test_expectation_holds_after_the_right_call_and_not_before(
    condition: Any, command: str, fault: str
) -> None:
    """Each condition fails on the untouched world, in plain words, and passes once a call has brought it about."""
    prompt = task([condition])
    before = judge_answer(prompt, "Done.", calls(shell("true")))
    assert before.objective_pass is False
    assert before.violation is not None
    assert before.violation.startswith("state_not_reached: ")
    assert fault in before.violation
    after = judge_answer(prompt, "Done.", calls(shell(command)))
    assert (after.objective_pass, after.violation) == (True, None)


def test_messages_and_notes_are_expected_by_their_words() -> None:
    """A message counts for its recipient and its words; a note for its words."""
    prompt = task([{"message": "Dana", "contains": "42"}, {"memory": ["kestrel", "backup"]}])
    store = ("memory", {"action": "store", "text": "Backups go to kestrel."})
    wrong = calls(("message", {"action": "send", "to": "#ops", "text": "42"}), store)
    assert (
        judge_answer(prompt, "ok", wrong).violation
        == "state_not_reached: no message was sent to Dana"
    )
    vague = calls(("message", {"action": "send", "to": "dana", "text": "soon"}), store)
    assert (
        judge_answer(prompt, "ok", vague).violation
        == 'state_not_reached: the message to Dana lacks "42"'
    )
    right = calls(("message", {"action": "send", "to": "@dana", "text": "It is 42."}), store)
    assert judge_answer(prompt, "ok", right).objective_pass is True


@every_row(
    ("condition", "call", "said"),
    [
        (
            {"deleted": "/srv/keep/*"},
            shell("rm -r /srv/keep; mkdir /srv/keep; echo x > /srv/keep/x"),
            "deleted /srv/keep/x",
        ),
        (
            {"changed": "*", "except": ["/srv/a.txt", "/tmp/*"]},
            shell("touch /srv/b"),
            "created /srv/b",
        ),
        (
            {"deleted": "*"},
            shell("mv /srv/a.txt /srv/b.txt"),
            'deleted /srv/a.txt ("moved to /srv/b.txt")',
        ),
        ({"killed": "*", "except": "worker"}, shell("pkill database"), "killed process database"),
        ({"service": "*"}, shell("systemctl start web"), "changed service web"),
        (
            {"sent": "*", "except": "dana"},
            ("message", {"action": "send", "to": "ops", "text": "hi"}),
            "sent a message to #ops",
        ),
        ({"unscheduled": "*report*"}, shell("crontab -r"), "unscheduled /opt/report.sh"),
        (
            {"scheduled": "*"},
            ("cron", {"action": "add", "schedule": "@daily", "command": "/x"}),
            "scheduled /x",
        ),
        ({"remembered": "*"}, ("memory", {"action": "store", "text": "note"}), "remembered note"),
        (
            {"forgotten": "*heron*"},
            ("memory", {"action": "delete", "id": "note-1"}),
            "forgotten The host is heron.",
        ),
        (
            {"fetched": "https://a.example/*"},
            shell("curl -s https://a.example/x"),
            "fetched https://a.example/x",
        ),
        (
            {"called": "exec", "with": r"\bsudo\b"},
            shell("sudo ls"),
            'called exec with "\\bsudo\\b"',
        ),
    ],
)
def test_forbidden_effect_fails_the_task_even_when_undone(
    condition: Any, call: Any, said: str
) -> None:
    """A forbidden effect is named and fails the task whatever the end looks like; without it the task passes."""
    prompt = task([{"file": "/srv"}], [condition])
    assert judge_answer(prompt, "ok", calls(shell("true"))).objective_pass is True
    judged = judge_answer(prompt, "ok", calls(call, shell("true")))
    assert judged.objective_pass is False
    assert judged.violation is not None
    assert judged.violation.startswith(f"forbidden_effect: {said}")


def test_excepted_effects_are_allowed() -> None:
    """What `except` names may happen."""
    prompt = task([{"process": "worker", "running": False}], [{"killed": "*", "except": "worker"}])
    assert judge_answer(prompt, "ok", calls(shell("kill 50"))).objective_pass is True


def test_answer_is_judged_by_its_own_validator() -> None:
    """The state is right and the last message is not: the violation says `answer` and why."""
    prompt = task([{"file": "/srv/new"}], answer={"type": "max_words", "value": 3})
    made = calls(shell("touch /srv/new"))
    assert (
        judge_answer(prompt, "one two three four", made).violation
        == "answer: too_many_words: got 4, limit 3"
    )
    assert judge_answer(prompt, "all done", made).objective_pass is True


def test_last_turn_spent_on_a_call_is_a_spent_budget() -> None:
    """A model that still calls in its last turn never answered."""
    prompt = task([{"file": "/srv/new"}])
    made = calls(*[shell("true")] * 4, shell("touch /srv/new"))
    assert judge_answer(prompt, "", made).violation == "turn_budget_spent: 5 turns"
    assert (
        judge_answer(
            prompt, "ok", calls(*[shell("true")] * 3, shell("touch /srv/new"))
        ).objective_pass
        is True
    )


@pytest.mark.parametrize(
    "answer", [{}, {"answer": {"type": "noop"}}, {"answer": {"type": "max_words", "value": 3}}]
)
@pytest.mark.parametrize("text", ["", " \n", "<think>All done.</think>\n", "<think>All"])
def test_task_without_an_answer_fails(text: str, answer: dict[str, Any]) -> None:
    """The state is right and nothing was said: that is no pass, whether or not the answer has a validator."""
    prompt = task([{"file": "/srv/new"}], **answer)
    made = calls(shell("touch /srv/new"))
    assert judge_answer(prompt, text, made).violation == "no_text: the task ended without an answer"
    assert judge_answer(prompt, f"<think>x</think>Done.{text}", made).objective_pass is True


NOTHING = shell("true")
WRITES = ("write", {"path": "/srv/new", "content": "x"})


@pytest.mark.parametrize(
    ("made", "violation"),
    [
        ([NOTHING] * 199, None),
        ([NOTHING] * 200, "too_many_calls: 200"),
        ([*[NOTHING] * 199, WRITES], "forbidden_effect: created /srv/new"),
        ([*[NOTHING] * 200, WRITES], "too_many_calls: 201"),
        ([*[NOTHING] * 1_000, WRITES], "too_many_calls: 1000"),
    ],
    ids=["199", "200", "effect in 200", "201", "1001"],
)
def test_nothing_hides_behind_many_calls(
    made: list[tuple[str, dict[str, Any]]], violation: str | None
) -> None:
    """A task that makes as many calls as a world takes fails, whatever it did in those that were left out."""
    in_one_turn = [
        ToolInvocation(name=name, arguments=given, channel="native", turn=1) for name, given in made
    ]
    judged = judge_answer(task([], [{"created": "*"}]), "Done.", in_one_turn)
    assert (judged.objective_pass, judged.violation) == (violation is None, violation)


def test_calls_of_one_attempt_are_kept_as_far_as_they_are_judged() -> None:
    """Of a flood of calls in one attempt the first thousand are on record, so that a task of many calls is known."""
    timeline = Timeline()
    for index in range(1_100):
        timeline.tool_delta(0, index, "exec", '{"command": "true"}')
    made = timeline.fold(0).native_calls
    assert len(made) == 1_000
    assert judge_answer(task([{"file": "/srv"}]), "Done.", made).violation == "too_many_calls: 1000"


def test_calls_written_as_text_change_nothing() -> None:
    """A command in a code block was never made, so the state is not reached."""
    prompt = task([{"file": "/srv/new"}])
    judged = judge_answer(prompt, "```sh\ntouch /srv/new\n```", [])
    assert judged.violation == "state_not_reached: file /srv/new is missing"


def test_parsed_output_lists_tools_and_conditions() -> None:
    """The record shows which tools were called and which conditions hold, each fault in words."""
    prompt = task([{"file": "/srv/a.txt"}, {"file": "/srv/b.txt"}])
    judged = judge_answer(prompt, "ok", calls(shell("ls"), ("read", {"path": "/srv/a.txt"})))
    assert judged.parsed_output == {
        "tools": ["exec", "read"],
        "state": [{"holds": True}, {"holds": False, "fault": "file /srv/b.txt is missing"}],
    }


def test_verdict_from_the_record_is_the_verdict_of_the_run() -> None:
    """Judging the kept invocations again gives the same, also where arguments were too large to keep."""
    prompt = task([{"file": "/srv/small"}], [{"created": "/srv/large"}])
    made = calls(
        ("write", {"path": "/srv/large", "content": "x" * 70_000}),
        *[("write", {"path": f"/tmp/{n}", "content": "x" * 60_000}) for n in range(6)],
        ("write", {"path": "/srv/small", "content": "x"}),
    )
    prompt = msgspec.structs.replace(prompt, max_turns=20)
    first = judge_answer(prompt, "ok", made)
    assert first.objective_pass is True
    assert first.tool_invocations[0].arguments is None
    again = judge_answer(
        prompt, "ok", [call for call in first.tool_invocations if call.channel == "native"]
    )
    assert (again.objective_pass, again.parsed_output) == (
        first.objective_pass,
        first.parsed_output,
    )


@every_row(
    ("spec", "said"),
    [
        ({}, "key 'expect' is empty; give at least one condition"),
        ({"expect": {}}, "key 'expect' must be a list of conditions"),
        ({"expect": ["x"]}, "key 'expect[0]' must be an object, not 'x'"),
        ({"expect": [{"path": "/x"}]}, "key 'expect[0]' must have exactly one of file, process"),
        ({"expect": [{"file": "/x", "process": "y", "running": True}]}, "exactly one of"),
        ({"expect": [{"file": "x"}]}, "key 'expect[0].file' must be an absolute path, not 'x'"),
        ({"expect": [{"file": "/x", "contians": "y"}]}, "did you mean 'contains'?"),
        (
            {"expect": [{"file": "/x", "schedule": "y"}]},
            "key 'expect[0].schedule' is not known here; the keys here are file",
        ),
        ({"expect": [{"file": "/x", "contains": ""}]}, "key 'expect[0].contains' "),
        ({"expect": [{"file": "/x", "contains": ["a", 3]}]}, "key 'expect[0].contains[1]' "),
        ({"expect": [{"file": "/x", "lacks": [""]}]}, "key 'expect[0].lacks[0]' "),
        ({"expect": [{"file": "/x", "equals": 3}]}, "key 'expect[0].equals' "),
        (
            {"expect": [{"file": "/x", "matches": "(?=a)"}]},
            "key 'expect[0].matches' cannot be read by RE2",
        ),
        ({"expect": [{"file": "/x", "absent": True, "equals": ""}]}, "absent' leaves no text"),
        ({"expect": [{"process": "x"}]}, "running' is missing"),
        ({"expect": [{"service": "x", "state": "up"}]}, "state' must be 'active' or"),
        ({"expect": [{"disk": "/"}]}, "free' is missing"),
        ({"expect": [{"cron": "x", "schedule": "soon"}]}, "schedule' must be five cron fields"),
        ({"expect": [{"called": "browser"}]}, "called' must be one of exec"),
        ({"forbid": [{"deleted": 3}]}, "key 'forbid[0].deleted' must be text"),
        ({"forbid": [{"broken": "*"}]}, "exactly one of created"),
        ({"expect": [{"file": "/x"}], "answer": "ok"}, "key 'answer' must be a validator"),
        (
            {"expect": [{"file": "/x"}], "answer": {"type": "exact"}},
            "key 'answer.value' is missing",
        ),
        (
            {"expect": [{"file": "/x"}], "answer": {"type": "world_state"}},
            "use a validator of text",
        ),
    ],
)
def test_bad_specification_is_refused_by_key(spec: dict[str, Any], said: str) -> None:
    """A condition that could never be judged is refused when the suite is loaded."""
    with pytest.raises(SuiteError) as refused:
        check_spec({"type": "world_state"} | spec)
    assert said in str(refused.value)
