"""Tool calls behind shell prompts and in quotation marks, rule by rule."""

from __future__ import annotations

from unit.checks.detection_rows import names_in, rows


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
    (
        "# free -h\n# cat app.log\n# ls > out\n# ps | wc\n# cd /tmp",
        ["free", "cat", "ls", "ps", "wc", "cd"],
    ),
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
