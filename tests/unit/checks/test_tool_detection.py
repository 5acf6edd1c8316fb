"""Tool calls in text, rule by rule: markers, command lines, and how the calls of an answer are listed."""

from __future__ import annotations

from clawgauge.checks.detection import detect_tools
from unit.checks.detection_rows import names_in, rows


@rows(
    ("<think>`rm -rf /`</think>`ls`", ["ls"]),
    ("`ls`<think>`rm -rf /`", ["ls"]),
    ("`rm -rf /`</think>`ls`", ["ls"]),
    ("<think>a</think>`ls`<think>`rm`</think>`pwd`", ["ls", "pwd"]),
    ("<think>x</think>$ free -h", ["free"]),
)
def test_thinking_holds_no_call(text: str, names: list[str], expected: list[str]) -> None:
    """What a model thinks of doing it has not done."""
    assert names_in(text, expected) == names


@rows(
    ("<TOOL>Free</TOOL>", ["free"]),
    ("<Tool>\n  du -sh /\n</tool >", ["du"]),
    ("<tool>free", ["free"]),
    ("<tool>FREE</tool>", ["free"]),
    ("<tool>sudo free</tool>", ["sudo"]),
    ("<tool>/usr/bin/free -h</tool>", ["free"]),
    ("<tool>./run.sh</tool>", ["run.sh"]),
    ("<tool>/etc/passwd</tool>", []),
    ("<tool>{}</tool>", []),
    ("<tools>free</tools>", []),
    ("the `<tool>` tag, then `free -h`", ["free"]),
    ("<tool>{'x': 'ls -la'}</tool>", []),
    ("[tool:free]", ["free"]),
    ("[ Tool : free -h ]", ["free"]),
    ("[tool:]", []),
    ("[tool: ]", []),
    ("[tool: free", []),
    ("[tool: [tool: free]", ["free"]),
    ("[mytool: free]", []),
    ("[tool: write_file\na b\nc]", ["write_file"]),
    ("```python\n[tool: free]\n```", ["free"]),
    ("`[tool: free]`", ["free"]),
)
def test_markers(text: str, names: list[str], expected: list[str]) -> None:
    """A marker's keyword has any case, its first word is the tool, and a tag left open runs to the end."""
    assert names_in(text, expected) == names


@rows(
    ('`get_weather(city="New York", days=3)`', ["get_weather"]),
    ("`f()` `os.listdir('.')` `print(1);`", ["f", "os.listdir", "print"]),
    ('`run(cmd="a | b; c")`', ["run"]),
    ("`f(x) = y`", []),
    ("`SUM(A1)`", []),
    ("`SUM(A1)`", ["sum"], ["sum"]),
    ("`json()`", []),
    ("`y = f(x)`", []),
)
def test_call_syntax(text: str, names: list[str], expected: list[str]) -> None:
    """A code span that is one call of a function is a call of that tool."""
    assert names_in(text, expected) == names


@rows(
    ("`HEARTBEAT_OK` `README` `GET /x` `A`", []),
    ("`FREE -h`", []),
    ("`FREE -h` `PS`", ["free", "ps"], ["free", "ps"]),
    ("$ FREE -h", []),
    ("$ FREE -h", ["free"], ["free"]),
    ("'FREE -h'", []),
    ("'FREE -h'", ["free"], ["free"]),
    ("`ls | GREP x`", ["ls"]),
    ("Note: $ USD -5", []),
)
def test_capitals(text: str, names: list[str], expected: list[str]) -> None:
    """A word in capitals is a constant, unless the prompt expects a tool of that name."""
    assert names_in(text, expected) == names


@rows(
    ("`a; b && c || d & e | f`", ["a", "b", "c", "d", "e", "f"]),
    ("`a;b&&c||d&e`", ["a", "b", "c", "d", "e"]),
    ("`a|b`", []),
    ("`a |b` `c| d`", ["a", "b", "c", "d"]),
    ("`ls -la|head`", ["ls"]),
    ("`a |& b`", ["a", "b"]),
    ("`cmd 2>&1` `cmd &> f` `cmd >&2`", ["cmd", "cmd", "cmd"]),
    ("`echo 'a | b; c' | wc`", ["echo", "wc"]),
    ('`echo "a && \\"b; c" && wc`', ["echo", "wc"]),
    ("`find . -exec rm {} \\; -print`", ["find"]),
    ("`echo don't; ls`", ["echo", "ls"]),
    ("`FOO=1 BAR='a b' mytool`", ["mytool"]),
    ("`FOO=1`", []),
    ("`ls; true`", ["ls"]),
)
def test_command_lines(text: str, names: list[str], expected: list[str]) -> None:
    """Each member of a command line is a call; quotes, escapes and redirects do not split it."""
    assert names_in(text, expected) == names


@rows(
    (
        "`sudo du` `doas ls` `nohup ls` `time ls` `setsid ls` `command ls` `builtin cd`",
        ["du", *["ls"] * 5, "cd"],
    ),
    (
        "`sudo -u bob -E ls` `sudo -Hu bob ls` `sudo -ubob ls` `sudo --user=bob ls` `sudo -- ls`",
        ["ls"] * 5,
    ),
    ("`env A=1 B=2 ls` `env -u A ls` `env -i ls` `sudo A=1 ls`", ["ls"] * 4),
    (
        "`nice -n 10 ls` `nice -10 ls` `ionice -c 2 -n 7 ls` `stdbuf -oL ls` `stdbuf -o L ls`",
        ["ls"] * 5,
    ),
    (
        "`timeout 5 ping h` `timeout 1.5m ping h` `timeout -k 1 -s KILL 5s ping h` `timeout $T ping h`",
        ["ping"] * 4,
    ),
    ("`timeout ping h`", ["ping"]),
    ("`sudo nice -n 5 timeout 5 env A=1 /usr/bin/ping h`", ["ping"]),
    ("`xargs rm -f` `ls | xargs -n1 rm`", ["xargs", "ls", "xargs"]),
    (
        "`sudo` `env` `sudo -l` `timeout 5` `env | grep x`",
        ["sudo", "env", "sudo", "timeout", "env", "grep"],
    ),
    ("`nohup ./run.sh &`", ["run.sh"]),
    ("`timeout 5 ping h`", ["timeout", "ping"], ["timeout"]),
)
def test_wrappers(text: str, names: list[str], expected: list[str]) -> None:
    """A wrapper is looked through to what it runs; alone, or where it is expected, it counts itself."""
    assert names_in(text, expected) == names


@rows(
    (
        "'df -T' then `free` then [tool: a] then <tool>b</tool>\n$ c\n```sh\nd\n```",
        ["df", "free", "a", "b", "c", "d"],
    ),
    ("$ ls 'df -h' `pwd` [tool: a]", ["ls", "pwd", "a"]),
    ("`ls` `ls` 'ls -la'", ["ls", "ls", "ls"]),
)
def test_calls_come_in_the_order_of_the_text(
    text: str, names: list[str], expected: list[str]
) -> None:
    """Whatever form calls have, they are listed as they are read, repeats kept and nothing counted twice."""
    assert names_in(text, expected) == names


def test_a_call_says_how_it_was_made() -> None:
    """Channel and arguments go with each call."""
    marker, mention = detect_tools('[tool: ping -c 3] `grep -r "a b" /etc | head`')[:2]
    assert (marker.channel, marker.arguments, marker.valid) == ("text:marker", "-c 3", True)
    assert (mention.channel, mention.arguments, mention.valid) == ("mention", '-r "a b" /etc', True)
    assert detect_tools("`uptime`")[0].arguments is None


@rows(
    ('```\nfrob "-h"\n```', ["frob"]),
    ("```\nfrob '-x'\n```", ["frob"]),
    ('```\nfrob "-a b"\n```', []),
    ('```\nfrob "h"\n```', []),
    ('```\nfrob "+%s"\n```', ["frob"]),
    ("$ ;", []),
    ("$ |", []),
    ("“free -h”", ["free"]),
    ("“free -h\n”", []),
    ("<|channel|>analysis code<|message|>maybe `rm -rf /`<|end|>`ls`", ["ls"]),
    ("`etc/(x)`", []),
    ("`a:9(x)`", ["a:9"]),
    ("[free(a=1), df()]", ["free", "df"]),
    ("[free(a=1)] or [df()]", []),
    ("[free(a=1)] or []", []),
    ("[]", []),
)
def test_what_is_nearly_a_call(text: str, names: list[str], expected: list[str]) -> None:
    """An option in quotes is an option, a phrase is not; a prompt without a word and lists with words call nothing."""
    assert names_in(text, expected) == names
