"""The simulated shell prints what a real one would, for the commands people and models use."""

from __future__ import annotations

import pytest

from clawgauge.world import World

FILES = {
    "/srv/log": "b ERROR one\na ok\nc ERROR two\nb ERROR one\n",
    "/srv/d/x.jpeg": "1",
    "/srv/d/y z.jpeg": "22",
    "/srv/d/.hidden": "h",
    "/srv/d/sub/deep.txt": "deep\n",
    "/srv/old.log": {"text": "old\n", "age_days": 40},
    "/srv/conf": "port = 80\nhost = a\nport = 81\n",
    "/srv/csv": "n,v\na,3\nb,10\nc,2\n",
    "/srv/secret": {"text": "s", "owner": "root", "mode": "0600"},
}


def run(command: str, workdir: str = "/srv") -> str:
    return World({"files": FILES}).call("exec", {"command": command, "workdir": workdir}).text


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        # text
        ("cat log | head -n 1", "b ERROR one"),
        ("head -1 log; tail -n 1 log", "b ERROR one\nb ERROR one"),
        ("tail -n +3 log | wc -l", "2"),
        ("wc -l log csv", "4 log\n4 csv\n8 total"),
        ("grep -c ERROR log", "3"),
        ("grep -n ok log", "2:a ok"),
        ("grep -v ERROR log", "a ok"),
        ("grep -E 'one|ok' log | sort -u", "a ok\nb ERROR one"),
        (r"grep 'one\|ok' log | wc -l", "3"),
        ("grep -o 'E[A-Z]*' log | uniq -c", "      3 ERROR"),
        ("grep -rl deep d", "d/sub/deep.txt"),
        ("grep -F '*' log", "(exit code 1)"),
        ("grep -i error log | cut -d' ' -f1 | sort | uniq -c | sort -rn", "      2 b\n      1 c"),
        ("sort -t, -k2 -n csv", "n,v\nc,2\na,3\nb,10"),
        ("cut -d, -f2 csv | tail -n 3 | sort -n | tr '\\n' ' '", "2 3 10 "),
        ("sed -n '2,3p' csv", "a,3\nb,10"),
        ("sed 's/port = \\(.*\\)/PORT=\\1/' conf", "PORT=80\nhost = a\nPORT=81"),
        ("sed -E '/^port/d' conf", "host = a"),
        ("sed -i '/80/!d' conf; sed -i 's/80/90/g' conf && cat conf", "port = 90"),
        ("seq 3 | xargs -I{} echo n{}", "n1\nn2\nn3"),
        # files
        ("ls d", "sub\nx.jpeg\ny z.jpeg"),
        ("ls -A d", ".hidden\nsub\nx.jpeg\ny z.jpeg"),
        ("ls nope", "ls: cannot access 'nope': No such file or directory\n(exit code 2)"),
        ("cat secret", "cat: secret: Permission denied\n(exit code 1)"),
        ("find d -name '*.jpeg' -type f", "d/x.jpeg\nd/y z.jpeg"),
        ("find /srv -maxdepth 1 -mtime +30 -type f", "/srv/old.log"),
        ("find d -type f -name '*.txt' -exec cat {} \\;", "deep"),
        ("find . -name '*.jpeg' -print0 | xargs -0 rm && ls d", "sub"),
        ("mkdir -p a/b && touch a/b/c && find a", "a\na/b\na/b/c"),
        ("mkdir d", "mkdir: cannot create directory 'd': File exists\n(exit code 1)"),
        ("cp log log2 && mv log2 d && ls d", "log2\nsub\nx.jpeg\ny z.jpeg"),
        ("rm d", "rm: cannot remove 'd': Is a directory\n(exit code 1)"),
        ("rm -r d && ls", "conf\ncsv\nlog\nold.log\nsecret"),
        ("rm -f nope && echo fine", "fine"),
        ("du -b d/x.jpeg; stat -c '%s %n' log", "1\td/x.jpeg\n41 log"),
        ("basename /srv/a.txt .txt; dirname /srv/a.txt", "a\n/srv"),
        # the language
        ("echo 'a  b' \"$HOME\" $USER \\$x", "a  b /home/claw claw $x"),
        ('for f in d/*.jpeg; do mv "$f" "${f%.jpeg}.jpg"; done; ls d', "sub\nx.jpg\ny z.jpg"),
        ("if [ -f log ] && [ ! -d log ]; then echo file; else echo no; fi", "file"),
        ("cat d/*.jpeg | wc -c", "3"),
        ("x=5; y=$(cat d/x.jpeg); echo $x$y", "51"),
        ("false || echo or; true && echo and; ! false; echo $?", "or\nand\n0"),
        ("ls nope 2>/dev/null || echo none", "none"),
        ("ls nope > out 2>&1; cat out", "ls: cannot access 'nope': No such file or directory"),
        ("cat <<'EOF' > new.txt\nline $x\nEOF\ncat new.txt", "line $x"),
        ("find d -name '*.jpeg' | while read -r f; do echo \"<$f>\"; done", "<d/x.jpeg>\n<d/y z.jpeg>"),
        ("cd d && pwd; (cd /; pwd); pwd", "/srv/d\n/\n/srv/d"),
        ("echo a > f; echo b >> f; wc -l < f", "2"),
        ("printf '%s=%d\\n' a 1 b 2", "a=1\nb=2"),
        ("exit 3", "(exit code 3)"),
        # what there is not
        ("foo bar", "sh: foo: command not found\n(exit code 127)"),
        ("echo $((1+2))", "sh: arithmetic '$((…))' is not supported\n(exit code 2)"),
        ("sleep 5 &", "sh: background jobs ('&') are not supported\n(exit code 2)"),
        ("echo 'open", "sh: syntax error: unterminated quoted string\n(exit code 2)"),
        ("python3 -c 'print(1)'", "sh: python3: command not found\n(exit code 127)"),
    ],
)
def test_command_prints_what_it_prints_elsewhere(command: str, printed: str) -> None:
    """Output and exit code are those of the real commands."""
    assert run(command).rstrip("\n ") == printed.rstrip("\n ")


def test_root_of_the_tree_is_safe_from_a_plain_rm() -> None:
    """`rm -rf /` is refused as GNU refuses it, and nothing is deleted."""
    world = World({"files": FILES})
    answer = world.call("exec", {"command": "rm -rf /"})
    assert answer.text.startswith("rm: it is dangerous to operate recursively on '/'")
    assert world.machine.effects.effects == []


def test_long_listing_has_mode_owner_size_and_date() -> None:
    """`ls -l` prints the columns of the real one; a file older than half a year shows its year."""
    world = World({"clock": "2026-03-02T09:00:00", "files": {"/srv/a": {"text": "abc", "age_days": 365}}})
    assert world.call("exec", {"command": "ls -l /srv/a"}).text == "-rw-r--r-- 1 claw claw 3 Mar  2  2025 /srv/a"


def test_output_to_a_file_that_is_read_empties_it_first() -> None:
    """`sort f > f` loses f, here as anywhere."""
    world = World({"files": {"/srv/f": "b\na\n"}})
    world.call("exec", {"command": "sort /srv/f > /srv/f"})
    assert world.machine.files.text_of("/srv/f") == ""


def test_endless_loop_is_stopped() -> None:
    """A loop that would never end is ended, and the world goes on."""
    world = World({})
    answer = world.call("exec", {"command": "while true; do echo x; done"})
    assert (answer.is_error, answer.text) == (True, "Error: stopped after 30 s: too much work for one call")
    assert world.call("exec", {"command": "echo alive"}).text == "alive"
