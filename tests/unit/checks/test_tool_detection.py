"""Tool calls in text, rule by rule. A row holds an answer, the calls in it, and the tools the prompt expects."""

from __future__ import annotations

import re

import pytest

from clawgauge.checks import detect_tools
from clawgauge.checks.detection import STEPS, Call, Find, Vocabulary
from clawgauge.records import ToolInvocation

Row = tuple[str, list[str]] | tuple[str, list[str], list[str]]


def rows(*table: Row) -> pytest.MarkDecorator:
    filled = [(text, names, expected[0] if expected else []) for text, names, *expected in table]
    return pytest.mark.parametrize(("text", "names", "expected"), filled)


def names_in(text: str, expected: list[str]) -> list[str]:
    return [call.name for call in detect_tools(text, expected)]


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
    ("```bash\nfree -h\ndf -h\n```", ["free", "df"]),
    ("~~~sh\nfree -h\n~~~", ["free"]),
    ("```BASH\nfree -h\n```", ["free"]),
    ("```bash title=x\nfree -h\n```", ["free"]),
    ("```{.bash}\nfree -h\n```", ["free"]),
    ("```bash\nfree -h", ["free"]),
    ("```bash", []),
    ("```shell\nmytool whatever\n```", ["mytool"]),
    ("```bash\n# ls -la\n  # df\nfree # uptime\n```", ["free"]),
    ("```sh\n$ free -h\ntotal used\n$ df\n```", ["free", "df"]),
    ("```console\nme@pc:~$ ls\nfoo bar\nroot@pc:/# df -h\n```", ["ls", "df"]),
    ("```bash\n$HOME/bin/foo x\nls\n```", ["foo", "ls"]),
    ("```bash\nls -la | wc -l; pwd\n```", ["ls", "wc", "pwd"]),
    ("```bash\nLS -la\n```", ["ls"]),
    ("```bash\ndocker run \\\n  -p 80:80 \\\n  web\nls\n```", ["docker", "ls"]),
    ("```bash\ncat <<EOF > f\nfoo bar\nEOF\nls\n```", ["cat", "ls"]),
    ("```bash\ncat <<-'END'\n\tfoo bar\n\tEND\nls\n```", ["cat", "ls"]),
    ("```bash\ncat << NEVER\nls\n```", ["cat", "ls"]),
    ('```bash\npython3 -c "\nimport os\n"\nls\n```', ["python3", "ls"]),
    ("```bash\nfor f in *.log; do gzip $f; done\n```", ["gzip"]),
    ("```bash\nif [ -f x ]; then\n  cat x\nelse\n  touch x\nfi\n```", ["cat", "touch"]),
    ("```bash\nwhile ! ping -c1 h; do sleep 1; done\n```", ["ping", "sleep"]),
    ("> ```bash\n> free -h\n> ```\n`ls`", ["free", "ls"]),
    ("- ```sh\n  ls -la\n  ```\n`pwd`", ["ls", "pwd"]),
    ("1. Run:\n\n   ```sh\n   ls -la\n   ```", ["ls"]),
    ("```bash\r\nfree -h\r\n```\r\n`ls`", ["free", "ls"]),
)
def test_shell_blocks(text: str, names: list[str], expected: list[str]) -> None:
    """In a shell block each line is a command line, or each prompt's where there are prompts."""
    assert names_in(text, expected) == names


@rows(
    ("Here: ```bash\nfree -h\n```\n`ls`", ["free", "ls"]),
    ("```bash\nfree -h```\nThis is memory. `ls`", ["free", "ls"]),
    ("close it with ```\nand run `ls`", ["ls"]),
    ("```free -h```", ["free"]),
    ("```bash free -h```", ["free"]),
    ("```bash run.sh``` `bash free`", ["bash", "bash"]),
    ("````bash\nls\n```\npwd\n````\n`id`", ["ls", "pwd", "id"]),
    ("```bash\nls\n~~~\npwd\n```", ["ls", "pwd"]),
    ("~~~text\n```bash\nls\n```\n~~~\n`id`", ["id"]),
)
def test_where_a_block_starts_and_ends(text: str, names: list[str], expected: list[str]) -> None:
    """A block ends at a fence at least as long as its first, even at the end of a line, and nowhere else."""
    assert names_in(text, expected) == names


@rows(
    ("```\nfree -h\n```", ["free"]),
    ("```\nuptime\n```", ["uptime"]),
    ("```\nfree\n```", []),
    ("```\nhello world\n```", []),
    ("```\nTotal: 5 -x\n```", []),
    ("```\n$ mytool now\nsome output\n```", ["mytool"]),
    ("```\n$ ps aux\nroot 1 0.0 /sbin/init --system\ndf -h\n```", ["ps", "df"]),
    ("```\n# uptime\n# what it does\n```", ["uptime"]),
    ("```\nWARNING --force is on\n```", []),
    ("```\n\n```", []),
)
def test_blocks_without_info_word(text: str, names: list[str], expected: list[str]) -> None:
    """In a block of unknown kind only prompts and lines that look like commands count."""
    assert names_in(text, expected) == names


@rows(
    ("```python\nimport os\nos.system('ls -la')\n```", []),
    ("```text\n$ free -h\n```", []),
    ("```yaml\nrun: free -h", []),
    ('```json\n{"cmd": "ls -la"}\n```', []),
    ("```diff\n- $ ls\n```\n`pwd`", ["pwd"]),
)
def test_other_blocks_hold_nothing(text: str, names: list[str], expected: list[str]) -> None:
    """A program or a listing is not a call, whatever it quotes."""
    assert names_in(text, expected) == names


@rows(
    ("Run `free`.", ["free"]),
    ("`uptime` and `anything`", ["uptime", "anything"]),
    ("```` free -h ````", ["free"]),
    ("`` free -h ` ``", ["free"]),
    ("`free\n-h`", []),
    ("`` and `free`", ["free"]),
    ("` ` `  `", []),
    ("`free` `unclosed", ["free"]),
    ("a ` b `` c ` d", ["b"]),
    ("`$ free -h`", ["free"]),
    ("`me@pc:~$ free -h`", ["free"]),
    ("`# free -h`", []),
    ("`free -h # memory`", ["free"]),
    ("`Free -H`", ["free"]),
)
def test_code_spans(text: str, names: list[str], expected: list[str]) -> None:
    """A code span is closed by a run of back-ticks of its own length on its own line, and any word in it counts."""
    assert names_in(text, expected) == names


@rows(
    ("`json` `Json` `YAML` `null` `none` `n/a` `text file`", []),
    ("`-h` `--help` `-`", []),
    ("`42` `3.14` `1.2.3` `50%` `2026-02-13` `10:30` `0x1f` `1e9` `16G` `7.6GiB` `5ms`", []),
    ("`42 files`", []),
    ("`7z` `2to3`", ["7z", "2to3"]),
    ("`config.yaml` `README.md` `llama3.2:3b` `node.js`", []),
    ("`run.sh now`", ["run.sh"]),
    ("`python3.11`", ["python3.11"]),
    ("`system.run`", ["system.run"], ["system.run"]),
    ("`x = 5` `x =5` `x == 5` `x := 5` `x += 1` `x=5` `x -> y` `load > 5`", []),
    ("`key: value` `Mem:`", []),
    ("`localhost:8080`", []),
    ("`/etc/passwd` `~/notes` `../up` `logs/app.log` `name/size` `/opt/tool -x`", []),
    ("`/usr/bin/free -h` `bin/foo` `/sbin/ip a` `~/bin/bar` `venv/bin/pytest`", ["free", "foo", "ip", "bar", "pytest"]),
    ("`./run.sh` `./tools/check.sh -x`", ["run.sh", "check.sh"]),
    ("`<name> -x` `local|premium` `https://example.com/x` `$HOME` `*.log` `@user`", []),
    ("`" + "x" * 129 + "`", []),
)
def test_what_else_is_set_in_code(text: str, names: list[str], expected: list[str]) -> None:
    """Formats, options, figures, files, assignments and paths are not calls."""
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
    ("`sudo du` `doas ls` `nohup ls` `time ls` `setsid ls` `command ls` `builtin cd`", ["du", *["ls"] * 5, "cd"]),
    ("`sudo -u bob -E ls` `sudo -Hu bob ls` `sudo -ubob ls` `sudo --user=bob ls` `sudo -- ls`", ["ls"] * 5),
    ("`env A=1 B=2 ls` `env -u A ls` `env -i ls` `sudo A=1 ls`", ["ls"] * 4),
    ("`nice -n 10 ls` `nice -10 ls` `ionice -c 2 -n 7 ls` `stdbuf -oL ls` `stdbuf -o L ls`", ["ls"] * 5),
    ("`timeout 5 ping h` `timeout 1.5m ping h` `timeout -k 1 -s KILL 5s ping h` `timeout $T ping h`", ["ping"] * 4),
    ("`timeout ping h`", ["ping"]),
    ("`sudo nice -n 5 timeout 5 env A=1 /usr/bin/ping h`", ["ping"]),
    ("`xargs rm -f` `ls | xargs -n1 rm`", ["xargs", "ls", "xargs"]),
    ("`sudo` `env` `sudo -l` `timeout 5` `env | grep x`", ["sudo", "env", "sudo", "timeout", "env", "grep"]),
    ("`nohup ./run.sh &`", ["run.sh"]),
    ("`timeout 5 ping h`", ["timeout", "ping"], ["timeout"]),
)
def test_wrappers(text: str, names: list[str], expected: list[str]) -> None:
    """A wrapper is looked through to what it runs; alone, or where it is expected, it counts itself."""
    assert names_in(text, expected) == names


@rows(
    ("$ mytool now", ["mytool"]),
    ("  $ ls\n\t$ pwd", ["ls", "pwd"]),
    ("- $ b\n* $ c\n+ $ d\n1. $ e\n2) $ f\n> $ g\n> - $ h\n>> $ j", list("bcdefghj")),
    ("(venv) $ ls\n(base) me@pc:~$ pwd\nme@pc:~/x (main) $ id", ["ls", "pwd", "id"]),
    ("me@pc:/var/log$ ls\nme@pc ~ $ pwd\n[me@pc tmp]$ id\n[root@pc ~]# df\nroot@pc:~# mytool x",
     ["ls", "pwd", "id", "df", "mytool"]),
    ("bash-5.1$ ls\nsh-4.2# pwd\n~/x $ id\n~$ df", ["ls", "pwd", "id", "df"]),
    ("me@example.com wants $ five", []),
    ("$ 5 million\n$ 10 | more\n$ is the sign", []),
    ("$5 each\n$HOME is set\n$\n$ ", []),
    ("$ /etc/init.d/x restart\n$ ~/bin/foo x\n$ <command>", ["foo"]),
    ("$ echo \"ls -la\" 'df -h'", ["echo"]),
    ("$ echo `date`", ["echo", "date"]),
    ("US$ ls -la", []),
    ("%  ls\n> ls -la\nPS C:\\> dir\n>>> import os", []),
)  # fmt: skip
def test_prompts_at_a_line_start(text: str, names: list[str], expected: list[str]) -> None:
    """A dollar sign that opens a line is a prompt, behind list marks, quote marks, environments and hosts, too."""
    assert names_in(text, expected) == names


@rows(
    ("Let me run $ uptime", ["uptime"]),
    ("Let me run $ uptime. Then I wait.", ["uptime"]),
    ("Let me run $ mytool now", []),
    ("Let me run $ mytool -x", ["mytool"]),
    ("Let me run $ mytool now", ["mytool"], ["mytool"]),
    ("Let me run $ date now", [], ["date"]),
    ("It costs $ git is free", []),
    ("(or $ free -h)", ["free"]),
    ("Run $ free -h and then $ df -h", ["free", "df"]),
    ("Run $ free -h; it shows memory", ["free"]),
    ("Run $ ps aux | sort | head, please", ["ps", "sort"]),
    ('say "$ free -h" | and more', ["free"]),
    ("**$ free -h**", ["free"]),
    ("| $ free -h | shows memory |", ["free"]),
    ("Pay $ 5 -x", []),
)
def test_prompts_in_mid_line(text: str, names: list[str], expected: list[str]) -> None:
    """A dollar sign inside a sentence is a prompt only before what looks like a command."""
    assert names_in(text, expected) == names


@rows(
    ("# uptime", ["uptime"]),
    ("# free", ["free"]),
    ("# mytool", []),
    ("# mytool", ["mytool"], ["mytool"]),
    ("# free -h\n# cat app.log\n# ls > out\n# ps | wc\n# cd /tmp", ["free", "cat", "ls", "ps", "wc", "cd"]),
    ("# free memory\n# apt install foo\n# git: a -x guide", []),
    ("# Free -h\n# Uptime\n# FREE -h", []),
    ("## uptime\n### free -h\n#uptime\n#!uptime\n#! uptime\n# # uptime", []),
    ("see # uptime", []),
    ("- # uptime", ["uptime"]),
    ("# mytool -x", []),
)
def test_hash_prompts(text: str, names: list[str], expected: list[str]) -> None:
    """A hash sign is a heading, unless a known command stands alone behind it or is followed by shell syntax."""
    assert names_in(text, expected) == names


@rows(
    ("\"ps aux\" 'ls -la' “df -h” ‘du -sh’", ["ps", "ls", "df", "du"]),
    ("(\"ls -a\") ['ls -b'] {\"ls -c\"} <'ls -d'> x:'ls -e' x='ls -f', y,'ls -g' >'ls -h'", ["ls"] * 8),
    ("x'ls -la' 5\"ls -la\" `a`'ls -la'", ["a"]),
    ("'ls\n-la'", []),
    ("it's 'ls -la' isn't it", ["ls"]),
    ("the '90s 'ls -la' hits", ["ls"]),
    ("'echo don't -x'", ["echo"]),
    ("\" ls -la \".", ["ls"]),
    ("he said \"hello \" ls -la \" bye\"", []),
    ("\"free\" 'uptime' \"get_weather\"", [], ["free"]),
    ("「ls -la」 «ls -la» „ls -la“", []),
    ("{\"cmd\":\"free -h\",\"n\":\"a b\"}", ["free"]),
    ("\"Run 'ls -la' now\"", ["ls"]),
    ("\"bash -c 'ls -la'\"", ["bash"]),
    ("the `du`'s -h flag and `df`'s -h flag", ["du", "df"]),
    ("5'10\" tall -x 6\" wide", []),
    ("'/usr/bin/du -sh /x' '/etc/passwd -x'", ["du"]),
    ("'sudo reboot'", ["reboot"]),
)  # fmt: skip
def test_quotation_marks(text: str, names: list[str], expected: list[str]) -> None:
    """A quotation is a call where its marks are quotation marks and a command line with an argument is inside."""
    assert names_in(text, expected) == names


@rows(
    ("'foo -x' 'foo --long' 'kill -9 1' 'foo $HOME' 'foo ${X}' 'foo A=1' 'date +%Y'",
     ["foo", "foo", "kill", "foo", "foo", "foo", "date"]),
    ("'foo - bar' 'foo -- bar' 'foo well-known' 'foo $5' 'foo a==b' 'foo + bar'", []),
    ("'cat /x' 'cat ./x' 'cat ../x' 'cat ~/x' 'cat ~' 'cat logs/app.log' 'find /'", ["cat"] * 6 + ["find"]),
    ("'foo /x' 'foo ./x' 'foo ~/x' 'foo logs/app.log'", []),
    ("'foo /x' 'foo a.txt' 'foo > x'", ["foo"] * 3, ["foo"]),
    ("'sort by name/size' 'read / write' 'wait ~5 minutes' 'sort and/or. more' 'free 7.6/62'", []),
    ("'cat a.txt' 'cat *.log' 'cat .env' 'open example.com'", ["cat"] * 3 + ["open"]),
    ("'foo a.txt' 'cat e.g. this' 'free 3.5' 'head first. then'", []),
    ("'cat < in' 'date > out' 'date 2>&1' 'date >> out'", ["cat", "date", "date", "date"]),
    ("'foo > out' 'free -> bar' 'kill <pid>' 'top >= 5'", []),
    ("'foo | head' 'date | mytool'", ["foo", "head", "date", "mytool"]),
    ("'local | premium' 'a|b c'", []),
    ("'ls here' 'git status' 'curl now'", ["ls", "git", "curl"]),
    ("'git is great' 'curl the page' 'grep and sed' 'docker command'", []),
    ("'git is -x'", ["git"]),
    ("'date today' 'free memory' 'kill time'", [], ["date", "free"]),
    ("'weather Paris'", ["weather"], ["weather"]),
    ("'weather in Paris'", [], ["weather"]),
    ("'read_file config' 'my_tool now'", ["read_file", "my_tool"]),
    ("'read_file is' 'my_var has'", []),
    ("'Git status' 'Find /x' 'Cat a.txt'", []),
    ("'Free -h'", ["free"]),
    ("'getWeather Paris'", ["getweather"], ["getWeather"]),
    ("'the -h flag' 'Use -h now' 'We pass --help'", []),
    ("'FOO=1 npm start'", ["npm"]),
)  # fmt: skip
def test_what_looks_like_a_command(text: str, names: list[str], expected: list[str]) -> None:
    """Options, variables and assignments convince alone; paths, files and redirects only beside a known command."""
    assert names_in(text, expected) == names


@rows(
    ("'df -T' then `free` then [tool: a] then <tool>b</tool>\n$ c\n```sh\nd\n```", ["df", "free", "a", "b", "c", "d"]),
    ("$ ls 'df -h' `pwd` [tool: a]", ["ls", "pwd", "a"]),
    ("`ls` `ls` 'ls -la'", ["ls", "ls", "ls"]),
)
def test_calls_come_in_the_order_of_the_text(text: str, names: list[str], expected: list[str]) -> None:
    """Whatever form calls have, they are listed as they are read, repeats kept and nothing counted twice."""
    assert names_in(text, expected) == names


def test_a_call_says_how_it_was_made() -> None:
    """Channel and arguments go with each call."""
    marker, mention = detect_tools('[tool: ping -c 3] `grep -r "a b" /etc | head`')[:2]
    assert (marker.channel, marker.arguments, marker.valid) == ("text:marker", "-c 3", True)
    assert (mention.channel, mention.arguments, mention.valid) == ("mention", '-r "a b" /etc', True)
    assert detect_tools("`uptime`")[0].arguments is None


def test_a_structured_format_runs_first_and_takes_its_span() -> None:
    """A format put before the other steps hides what it used from them, malformed calls included."""

    def find_angle_calls(text: str, _: Vocabulary) -> list[Find]:
        return [
            Find(
                match.start(), match.end(), [Call(match.start(), ToolInvocation(name=match[1], valid=match[2] == "{}"))]
            )
            for match in re.finditer(r"<call (\w+) ([^>]*)>", text)
        ]

    text = "`pwd` <call one {}> <call two 'ls -la'> `id`"
    found = detect_tools(text, steps=(find_angle_calls, *STEPS))
    assert [(call.name, call.valid) for call in found] == [("pwd", True), ("one", True), ("two", False), ("id", True)]
    assert [call.name for call in detect_tools(text)] == ["pwd", "ls", "id"]
