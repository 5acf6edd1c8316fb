"""The shell of the simulated machine: what it runs, what it sees, what it refuses and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawgauge.world import engine
from clawgauge.world.world import World

FILES = {
    "/srv/log": "b ERROR one\na ok\nc ERROR two\nb ERROR one\n",
    "/srv/d/x.jpeg": "1",
    "/srv/d/y z.jpeg": "22",
    "/srv/conf": "port = 80\nhost = a\nport = 81\n",
    "/srv/secret": {"text": "s", "owner": "root", "mode": "0600"},
    "/srv/mine": {"text": '#!/bin/bash\nsystemctl is-active web; echo "$1"\n', "mode": "0755"},
}
SPEC: dict[str, Any] = {
    "files": FILES,
    "processes": [{"name": "worker", "pid": 50, "ports": [8080], "open": ["/srv/log"]}],
    "services": [{"name": "web", "ports": [80], "log": ["error: port in use"]}],
    "cpus": 4,
}


def run(command: str, **more: Any) -> str:
    return World(SPEC | more).call("exec", {"command": command, "workdir": "/srv"}).text


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("grep -c ERROR log; echo $((1+2)) ${HOME##*/}; [[ abc =~ b ]] && echo m", "3\n3 claw\nm"),
        ("awk '/ERROR/{n[$1]++} END{for(k in n) print k, n[k]}' log | sort", "b 2\nc 1"),
        ("sed -i.bak 's/80/90/' conf; cat conf conf.bak | grep 0", "port = 90\nport = 80"),
        ('for f in d/*.jpeg; do mv "$f" "${f%.jpeg}.jpg"; done; ls d', "x.jpg\ny z.jpg"),
        ("cat secret", "cat: secret: Permission denied\n(exit code 1)"),
        ("echo x > /etc/hosts", "bash: line 1: /etc/hosts: Permission denied\n(exit code 1)"),
        ("[ -w /etc/hosts ] || echo no; f=conf; [[ -w $f ]] && echo yes", "no\nyes"),
        ("foo bar", "bash: line 1: foo: command not found\n(exit code 127)"),
        ("pip install x", "bash: line 1: pip: command not found\n(exit code 127)"),
        ("echo 'open", "bash: -c: line 1: unexpected EOF while looking for matching `''\n(exit code 2)"),
        ("./mine arg; /bin/ls d | head -1; /usr/bin/systemctl is-active web", "active\narg\nx.jpeg\nactive"),
        ("find . -name '*.jpeg' -print0 | xargs -0 rm -v; ls d | wc -l",
         "removed './d/x.jpeg'\nremoved './d/y z.jpeg'\n0"),
        ("pgrep worker | xargs kill -9; pgrep worker || echo gone", "gone"),
        ("date +%F; date -d '2026-03-01 +14 days' +%F", "2026-03-02\n2026-03-15"),
        ("ss -tlnp | grep -c LISTEN; lsof -t -i :8080; lsof -t /srv/log", "2\n50\n50"),
        ("systemctl is-active web; journalctl -u web -p err -o cat", "active\nerror: port in use"),
        ("nproc; grep -c ^processor /proc/cpuinfo; awk '/MemTotal/{print $2}' /proc/meminfo", "4\n4\n4014080"),
        (". /etc/os-release; echo $ID; cut -d: -f1 /etc/passwd | head -1; cat /etc/hostname", "debian\nroot\nheron"),
        ("x=5; f() { echo f; }; cd /; trap 'echo bye' EXIT", "bye"),
        ("sed -n 2p <(seq 3); diff <(echo a) <(echo b) | tail -1; grep -c . <(tail -2 <(seq 9))", "2\n> b\n2"),
        ("diff -u <(echo a) <(echo b) | head -1 | cut -c1-14", "--- /dev/fd/63"),
        ("timeout 1 sleep 5; echo $?; timeout -k 5 10 sleep 7; echo $?; echo x | timeout 5 cat", "124\n0\nx"),
        ("journalctl SYSLOG_IDENTIFIER=web -o short-iso | cut -c1-11", "2026-03-02T"),
        ("journalctl _COMM=other", "-- No entries --"),
        ("find d -name x.jpeg -printf '%TY-%Tm %p\\n'", "2026-02 d/x.jpeg"),
        ("cd -", "bash: line 1: cd: OLDPWD not set\n(exit code 1)"),
    ],
)  # fmt: skip
def test_line_prints_what_a_server_prints(command: str, printed: str) -> None:
    """The language, the text tools and the machine's own commands, over one state."""
    assert run(command) == printed


def test_nothing_of_a_line_is_left_for_the_next() -> None:
    """Variables, functions, the directory, traps and redirections end with their line."""
    world = World(SPEC)
    world.call(
        "exec",
        {"command": "x=5; f() { echo F; }; cd /srv; trap 'echo bye' EXIT; set -e; exec >/tmp/out"},
    )
    assert world.call("exec", {"command": "echo [$x]; f 2>/dev/null; pwd"}).text == "[]\n/home/claw"


def test_what_is_undone_within_a_line_was_done() -> None:
    """A file made and removed, or removed and made again, in one line is on record, whoever did it."""
    world = World(SPEC)
    world.call("exec", {"command": "echo x > /srv/new; rm /srv/new; tar cf /tmp/t -C / srv/conf"})
    world.call("exec", {"command": "sed -i s/a/b/ /srv/conf"})
    done = [
        (effect.kind, effect.subject) for effect in world.machine.effects if effect.kind != "read"
    ]
    assert done[:2] == [("created", "/srv/new"), ("deleted", "/srv/new")]
    assert done[2:] == [("created", "/tmp/t"), ("changed", "/srv/conf")]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ls --frobnicate / 2>/dev/null", "ls: option '--frobnicate' is not supported here"),
        ("x=$(df --frob 2>/dev/null); true", "df: option '--frob' is not supported here"),
        ("seq 1 100000000 > /dev/null 2>&1", "numbers are more than can be printed here"),
        ("echo {1..10001}", "{1..10001} is more than can be written out here"),
        ("echo {a..z}{a..z}{a..z}{a..z} | wc -c", "is more than can be written out here"),
        ("yes | head -c 3G", "yes prints 1,000 lines here and no more"),
        ("head -c 1G /dev/zero | wc -c", "a device gives 65536 bytes here and no more"),
        ("seq 2000 | sed ':a;N;$!ba;s/\\n/,/g' 2>/dev/null", "sed: a loop over more than 900 lines is not supported"),
        ("while :; do :; done 2>/dev/null", "Killed: too many commands for one call"),
        ("find /srv -fstype ext4 2>/dev/null | wc -l", "find: '-fstype' is not supported here"),
        ("tail -f /srv/log 2>/dev/null", "tail: ended: with -f it would wait for ever"),
    ],
)  # fmt: skip
def test_refusal_reaches_the_model_whatever_it_does_with_errors(command: str, said: str) -> None:
    """Neither /dev/null nor a pipe hides that something was not done, and the answer counts as an error."""
    answer = World(SPEC).call("exec", {"command": command})
    assert said in answer.text
    assert answer.is_error


@pytest.mark.parametrize(
    "command",
    ["help", "busybox", "bash --version", "ls --version; grep --version; sed --version; tar --version; awk --version",
     "cat --help; sort --help", "grpe x", "apt install x; node -v; man ls", "history", "compgen -c",
     "echo $BASH_VERSION",
     "grpe x 2> /tmp/e; cat /tmp/e", "x=$(grpe 2>&1); echo $x", "su; vi; vim; doas id; make; ssh a"],
)  # fmt: skip
def test_shell_does_not_give_itself_away(command: str) -> None:
    """A model sees a server: no word of a sandbox, no hint of another command, no name of the engine."""
    said = run(command).lower()
    assert not any(
        word in said
        for word in (
            "sandbox",
            "bashkit",
            "did you mean",
            "virtual bash",
            "0.20.",
            "not available",
            "privilege",
        )
    )


def test_what_a_world_says_is_left_as_it_is() -> None:
    """Words of a file that look like the engine's own are shown and written as they stand."""
    text = "gateway 0.4.1\ntool (beta) 0.20.1\nworker: io error: disk\nplugin not found. Did you mean: x?\nE117 0.25\n"
    world = World({"files": {"/srv/notes": text}})
    assert (
        world.call(
            "exec", {"command": "cp /srv/notes /srv/a; cat /srv/a > /srv/b; cat /srv/b"}
        ).text
        == text.rstrip()
    )
    assert world.machine.files.text_of("/srv/b") == text


def test_a_script_is_written_as_it_was_given() -> None:
    """Tests of permissions in a here-document or in quotes are text like any other."""
    script = '#!/bin/sh\n[ -w "$f" ] && [ -r ~/x ] && test -w /a\n'
    world = World({})
    world.call("exec", {"command": f"cat > /tmp/s <<'EOF'\n{script}EOF"})
    assert world.machine.files.text_of("/tmp/s") == script
    assert (
        world.call("exec", {"command": "echo \"[ -w b ]\" '[ -w c ]'"}).text == "[ -w b ] [ -w c ]"
    )


def test_root_by_sudo_where_the_world_allows_it() -> None:
    """`sudo` runs a line as root, also behind a pipe, and only where the specification says so."""
    assert run("sudo cat secret") == "sudo: a password is required\n(exit code 1)"
    assert (
        run(
            "sudo cat secret; whoami; echo x | sudo tee /etc/new >/dev/null; cat /etc/new",
            sudo=True,
        )
        == "sclaw\nx"
    )
    assert run("sudo cat /srv/secret; sudo -u nobody whoami", user="root") == "snobody"


def test_root_of_the_tree_is_safe_from_a_plain_rm() -> None:
    """`rm -rf /` is refused as GNU refuses it, and nothing is deleted."""
    world = World(SPEC)
    assert world.call("exec", {"command": "rm -rf /"}).text.startswith(
        "rm: it is dangerous to operate recursively on"
    )
    assert [effect for effect in world.machine.effects if effect.kind != "read"] == []


def test_age_and_size_follow_the_world() -> None:
    """Files are as old as the world says, whatever the host's clock does, and as large without taking room."""
    world = World(
        {
            "clock": "2031-05-05T05:05:05",
            "files": {"/srv/old": {"size": "18G", "age_days": 40}, "/srv/new": "x"},
        }
    )

    def printed(command: str) -> str:
        return world.call("exec", {"command": command}).text

    assert printed("find /srv -type f -mtime +30") == "/srv/old"
    assert printed("find /srv -type f -size +1G -newermt 2031-01-01") == "/srv/old"
    assert printed("ls -lh /srv/old") == "-rw-r--r-- 1 claw claw 18G Mar 26 05:05 /srv/old"
    assert (
        printed("touch -d '100 days ago' /srv/new; find /srv -type f -mtime +90; du -h /srv/old")
        == "/srv/new\n18G\t/srv/old"
    )


def test_host_files_are_out_of_reach(tmp_path: Path) -> None:
    """A line neither reads nor writes the machine clawgauge runs on, by whatever command."""
    canary = tmp_path / "canary"
    canary.write_text("canary")
    for command in (
        "cat {}",
        "cp {} /tmp/c && cat /tmp/c",
        "grep -r canary {}",
        "tar cf - {} | strings",
        "source {}",
    ):
        assert "canary" not in run(command.format(canary)).replace(str(canary), "").replace(
            "canary:", ""
        )
    run(
        f"mkdir -p {tmp_path}; echo x > {tmp_path}/made; tee {tmp_path}/made2 <<< x; touch {tmp_path}/made3"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["canary"]


def test_engine_is_the_pinned_one() -> None:
    """What a record names as its engine is what the package asks for."""
    pinned = (Path(__file__).parents[3] / "constraints.txt").read_text("utf-8")
    assert (engine() or "").replace(" ", "==") in pinned.splitlines()


def test_a_world_stands_still_after_many_endless_calls() -> None:
    """Each call that had to be ended costs the world an eighth of all its work: a task cannot take an hour."""
    world = World({})
    answers = [world.call("exec", {"command": "while :; do :; done"}).text for _ in range(10)]
    assert answers[0].startswith("Killed: ")
    assert answers[-1] == "Error: stopped after 30 s: too much work for one call"


def test_mount_point_is_there() -> None:
    printed = run(
        "df --output=target / /data; ls -d /data", disks=[{"mount": "/data", "size": "10G"}]
    )
    assert printed == "Mounted on\n/\n/data\n/data"


def test_crontab_of_another_user_is_not_ones_own() -> None:
    own = {"user": "root", "cron": [{"schedule": "15 3 * * *", "command": "/opt/run"}]}
    assert run("crontab -l -u ana", **own) == "no crontab for ana\n(exit code 1)"
    assert run("crontab -l -u root; crontab -u ana -r; crontab -l", **own).count("/opt/run") == 2
    assert "not supported here" in run("echo '0 1 * * * x' | crontab -u ana - 2>/dev/null", **own)


@pytest.mark.parametrize(
    "command",
    ["diff -rq /srv /etc", "diff --recursive /srv /etc", "ln -s /srv /tmp/l", "zip -q a.zip conf", "file -i conf",
     "umask 077", "wget http://a.example/x http://a.example/y", "journalctl _PID=1"],
)  # fmt: skip
def test_what_is_not_simulated_is_said_even_where_errors_are_thrown_away(command: str) -> None:
    assert "not supported here" in run(f"{command} >/dev/null 2>&1")


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("command -v ls; command -v cd; command -v nosuch || echo none", "/usr/bin/ls\ncd\nnone"),
        ("type -t ls; type cd; bash -c 'command -v cat'", "file\ncd is a shell builtin\n/usr/bin/cat"),
        ("echo 'if ! command -v jq; then exit; fi' > /tmp/s; cat /tmp/s", "if ! command -v jq; then exit; fi"),
        ("printf 'a,b\\n1,2\\n' > /tmp/a.csv; printf '#!/bin/sh\\n' > /tmp/go; file /tmp/a.csv /tmp/go /tmp",
         "/tmp/a.csv: CSV text\n/tmp/go:    POSIX shell script, ASCII text executable\n/tmp:       directory"),
        ("date -d 2026-13-01", "date: invalid date '2026-13-01'\n(exit code 1)"),
    ],
)  # fmt: skip
def test_a_command_is_where_it_is_on_a_server_and_a_file_what_it_is(
    command: str, printed: str
) -> None:
    assert run(command) == printed


@pytest.mark.parametrize(
    "command",
    ["for x in a; do echo $x; done | cat <(cat /etc/hostname) -", "select x in a b; do break; done",
     "kill -0 $$ && echo alive", "awk -f - /etc/hostname <<< '{print}'"],
)  # fmt: skip
def test_a_line_that_would_be_misread_is_not_run(command: str) -> None:
    assert "not supported here" in run(command)
