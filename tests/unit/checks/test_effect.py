"""The `effect` validator: commands are judged by what they do, and words about commands are no commands."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.checks import check_spec, judge_answer
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt, ToolInvocation
from support.rows import every_row

WORLD: dict[str, Any] = {
    "user": "root",
    "files": {"/tmp/a.log": {"text": "one\ntwo\n", "age_days": 40}, "/srv/notes.txt": "keep me\n"},
    "processes": [{"name": "worker", "user": "ana"}, {"name": "other", "user": "ana"}],
    "services": [{"name": "web"}, {"name": "db"}],
}
COUNT = {"contains_all": [r"re:\b2\b"]}
EXEC = {
    "type": "function",
    "function": {
        "name": "exec",
        "parameters": {
            "type": "object",
            "required": ["command"],
            "properties": {
                "command": {"type": "string"},
                "workdir": {"type": "string"},
                "timeout": {"type": "integer"},
                "background": {"type": "boolean"},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    },
}
MESSAGE = {"type": "function", "function": {"name": "message", "parameters": {"type": "object"}}}


def effect(**keys: Any) -> dict[str, Any]:
    return {"type": "effect", "expected_tools": ["wc"], "world": WORLD, **keys}


def verdict(
    spec: dict[str, Any], text: str, *calls: tuple[str, Any], offered: bool = False
) -> tuple[bool | None, str]:
    check_spec(spec)
    prompt = Prompt(
        id="P",
        name="p",
        prompt="?",
        validator=spec,
        expected_tools=["wc"],
        tools=[EXEC, MESSAGE] if offered else [],
    )
    made = [
        ToolInvocation(name=name, arguments=arguments, channel="native")
        for name, arguments in calls
    ]
    judgement = judge_answer(prompt, text, made)
    return judgement.objective_pass, judgement.violation or ""


@every_row(
    "text",
    [
        "`wc -l /tmp/a.log`",
        "`cat /tmp/a.log | wc -l`",
        "```bash\n$ wc -l < /tmp/a.log\n2\n```",
        "```\nwc -l /tmp/a.log\n```",
        "Let me count them:\n\n```sh\ncd /tmp\nwc -l a.log\n```",
        "$ grep -c '' /tmp/a.log",
        '<tool_call>{"name": "exec", "arguments": {"command": "wc -l /tmp/a.log"}}</tool_call>',
        "[tool: exec wc -l /tmp/a.log]",
        "I cannot see that from here, so let me look: `wc -l /tmp/a.log`",
        "<think>I could not run `rm`.</think>`wc -l /tmp/a.log`",
        "Without changing anything: `wc -l /tmp/a.log`",
        "`echo 2; wc -l /tmp/a.log`",
        "`echo $(wc -l < /tmp/a.log)`",
        "`head -n 40 /tmp/a.log | wc -l` (there are 40 lines at most; it takes 2 seconds)",
    ],
)
def test_any_command_that_shows_it_passes(text: str) -> None:
    """However the lines are counted and however the command is written, the count is what matters."""
    assert verdict(effect(output=COUNT), text) == (True, "")


@every_row(
    ("text", "violation"),
    [
        ("There are 2 lines.", "not_called: no command was called"),
        (
            "I cannot; do it yourself: `wc -l /tmp/a.log`",
            "not_called: a command is there, but it is quoted in a refusal",
        ),
        (
            "I'm unable to run commands.\n\n```\nwc -l /tmp/a.log\n```",
            "not_called: a command is there, but it is quoted",
        ),
        (
            "Do not run `wc -l /tmp/a.log`.",
            "not_called: a command is there, but it is mentioned as what not to run",
        ),
        (
            "Instead of `wc -l /tmp/a.log`, count by hand.",
            "not_called: a command is there, but it is mentioned",
        ),
        (
            "I ran `wc -l /tmp/a.log`: 2 lines.",
            "not_called: a command is there, but its result is claimed",
        ),
        ("`wc -l /tmp/a.log` says 2.", "not_called: a command is there, but its result is claimed"),
        (
            "`wc -l /tmp/a.log`\n\nOutput:\n```\n2\n```",
            "not_called: a command is there, but its result is claimed",
        ),
        (
            "`wc -l /tmp/a.log`\n\nThere are 17 lines in it.",
            "not_called: a command is there, but beside it a result",
        ),
        ("`echo 2`", 'output_missing: what was printed lacks "re:'),
        ("`printf '2\\n' | cat`", 'output_missing: what was printed lacks "re:'),
        ("`wc -l /srv/notes.txt`", 'output_missing: what was printed lacks "re:'),
        (
            "Shall I run `wc -l /tmp/a.log` now?",
            "not_called: a command is there, but it is only offered",
        ),
        (
            "I would run `wc -l /tmp/a.log`, but I have no access to it.",
            "not_called: a command is there, but it is quoted",
        ),
        (
            "`wc -l /tmp/a.log`: 7.5 GB in 2 lines",
            "not_called: a command is there, but its result is claimed",
        ),
        ("`COUNT=2.lines; echo $COUNT`", 'output_missing: what was printed lacks "re:'),
        ("```sh\ncat <<'END'\n2\nEND\n```", 'output_missing: what was printed lacks "re:'),
        ("`cat /nope/2`", 'output_missing: what was printed lacks "re:'),
        ("`wc -l /tmp/a.log; reboot`", "forbidden_effect: shut down the machine"),
        ("`wc -l /tmp/a.log && sudo shutdown -h now`", "forbidden_effect: shut down the machine"),
        ("`wc -l /tmp/a.log; rm /srv/notes.txt`", "forbidden_effect: deleted /srv/notes.txt"),
        ("`pkill other; wc -l /tmp/a.log`", "forbidden_effect: killed process other"),
        ("`systemctl stop web; wc -l /tmp/a.log`", "forbidden_effect: changed service web"),
    ],
)
def test_what_does_not_do_the_job_fails_and_says_why(text: str, violation: str) -> None:
    """A refusal, a negation, a claim, the wanted words repeated, another file, harm beside the job."""
    passed, said = verdict(effect(output=COUNT), text)
    assert passed is False
    assert said.startswith(violation)


def test_expected_effects_are_not_unasked() -> None:
    """What `expect` names may happen, and nothing else may; scratch files do not matter."""
    spec = effect(expect=[{"process": "worker", "running": False}])
    assert verdict(spec, "`pkill worker; echo done > /tmp/mark`") == (True, "")
    assert verdict(spec, "`pkill worker; pkill other`")[1].startswith(
        "forbidden_effect: killed process other"
    )
    assert verdict(spec, "`pgrep worker`")[1] == "effect_missing: process worker still runs"
    restarted = effect(expect=[{"service": "web", "restarted": True}])
    assert verdict(restarted, "`systemctl restart web`") == (True, "")
    assert (
        verdict(restarted, "`systemctl status web`")[1]
        == "effect_missing: service web was not restarted"
    )
    assert verdict(restarted, "`systemctl restart web db`")[1].startswith(
        "forbidden_effect: changed service db"
    )
    beside = "`pkill worker; echo done > /srv/mark`"
    assert verdict(spec, beside)[1].startswith("forbidden_effect: created /srv/mark")
    assert verdict({**spec, "may_change": ["/srv/ma*"]}, beside) == (True, "")
    made = effect(expect=[{"created": "/srv/*.bak"}])
    assert verdict(made, "`cp /srv/notes.txt /srv/notes.bak`") == (True, "")
    assert verdict(made, "`ls /srv`")[1].startswith("effect_missing: it has not happened: created")


def test_native_calls_are_run_and_must_fit_their_tool() -> None:
    """The command of a native call is run in its directory; a call its tool would not take is none."""
    spec = effect(output=COUNT)
    assert verdict(
        spec, "", ("exec", {"command": "wc -l a.log", "workdir": "/tmp"}), offered=True
    ) == (True, "")
    assert (
        verdict(spec, "`wc -l /tmp/a.log`", offered=True)[1] == "not_called: no command was called"
    )
    for call, violation in (
        (("exec", {}), "missing_argument: command"),
        (("exec", {"command": "wc -l /tmp/a.log", "timeout": "9"}), "wrong_type: timeout"),
        (("exec", {"command": "wc -l /tmp/a.log", "shell": "sh"}), "unexpected_argument: shell"),
        (("message", {}), "unexpected_call: message"),
    ):
        assert verdict(spec, "", call, offered=True)[1].startswith(violation)


def test_more_calls_than_are_run_are_no_answer() -> None:
    """What the fifty-first would have done is not known, so it is not taken for harmless."""
    look = ("exec", {"command": "wc -l /tmp/a.log"})
    passed, violation = verdict(
        effect(output=COUNT), "", *[look] * 50, ("exec", {"command": "rm -rf /srv"}), offered=True
    )
    assert passed is False
    assert violation.startswith("wrong_call_count: got 51")


def test_stand_ins_speak_for_programs_the_machine_lacks() -> None:
    """By the words of a command, wrappers, quotes and redirects aside; some say what harm it does."""
    stand_ins = [
        {"command": r"gpuview( -\w+)*", "prints": "37 %"},
        {"command": r"gpuview reset", "does": "reset the card"},
        {"command": r"cd /srv && WORKERS=4 timeout 60 make all &", "prints": "37 %"},
    ]
    spec = effect(stand_ins=stand_ins, output={"contains_all": ["37 %"]})
    for line in ("gpuview", "sudo gpuview -a 2>/dev/null", 'bash -c "gpuview -a" | cat'):
        assert verdict(spec, f"`{line}`") == (True, "")
    assert verdict(spec, "`gpuview --version`")[1].startswith("output_missing")
    both = effect(stand_ins=stand_ins, output={"contains_all": ["37 %", "keep me"]})
    assert verdict(both, "`gpuview && cat /srv/notes.txt`") == (True, "")
    assert verdict(spec, "`gpuview; gpuview reset`")[1] == "forbidden_effect: reset the card"
    call = {
        "command": "make all",
        "workdir": "/srv",
        "env": {"WORKERS": "4"},
        "timeout": 60,
        "background": True,
    }
    assert verdict(spec, "", ("exec", call), offered=True) == (True, "")


def test_a_look_afterwards_is_what_counts() -> None:
    """`look` is run when the answer's commands are through, and its output is judged in place of theirs."""
    spec = effect(look="cat /srv/out.txt", expect=[{"file": "/srv/out.txt"}], output=COUNT)
    assert verdict(spec, "`wc -l < /tmp/a.log > /srv/out.txt`") == (True, "")
    assert verdict(spec, "`wc -l /tmp/a.log; touch /srv/out.txt`")[1].startswith("output_missing")


def test_variables_are_set_for_every_command() -> None:
    spec = effect(env={"PROXY": "http://p:1 'x'"}, output={"contains_all": ["http://p:1 'x'"]})
    assert verdict(spec, '`echo "$PROXY"`') == (True, "")


@every_row(
    ("keys", "words"),
    [
        ({}, "key 'expect' is missing"),
        ({"expect": [{"file": "/srv/notes.txt"}]}, "key 'expect' holds before anything is done"),
        (
            {"output": {"contains_all": ["re:("]}},
            "key 'output.contains_all[0]' cannot be read by RE2",
        ),
        ({"output": {"contains_al": ["x"]}}, "did you mean 'contains_all'"),
        ({"output": "x"}, "key 'output' must be an object"),
        ({"output": COUNT, "expects": []}, "did you mean 'expect'"),
        ({"output": COUNT, "zzz": 1}, "key 'zzz' is not known here"),
        (
            {"output": COUNT, "world": {"file": {}}},
            "world: key 'file' is not known; did you mean 'files'?",
        ),
        ({"output": COUNT, "world": []}, "key 'world' must be an object, not a list"),
        ({"expect": [{"moved": "/a"}]}, "key 'expect[0]' must have exactly one of"),
        (
            {"output": COUNT, "stand_ins": [{"command": "a(", "prints": "x"}]},
            "key 'stand_ins[0].command'",
        ),
        (
            {"output": COUNT, "stand_ins": [{"command": "a"}]},
            "key 'stand_ins[0].prints' is missing",
        ),
        ({"output": COUNT, "env": {"a b": "x"}}, "key 'env.a b' must be"),
        (
            {"output": {"contains_all": ["a file"], "contains_none": ["FILE"]}},
            "key 'output.contains_all' holds \"FILE\"",
        ),
        (
            {"expect": [{"deleted": "/a"}], "forbid": [{"deleted": "*"}]},
            "key 'expect[0]' wants what 'forbid' rules out",
        ),
        (
            {
                "output": COUNT,
                "expect": [{"service": "web", "restarted": True}],
                "forbid": [{"service": "w*"}],
            },
            "key 'expect[0]' wants what 'forbid' rules out: service web",
        ),
        ({"output": COUNT, "expected_tools": []}, "key 'expected_tools' is empty"),
    ],
)
def test_an_impossible_expectation_is_refused(keys: dict[str, Any], words: str) -> None:
    """With the place and the reason, before anything is sent."""
    with pytest.raises(SuiteError) as caught:
        check_spec(effect(**keys))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
