"""Every option a command of the machine declares is read by it, and any other is refused by its name."""

from __future__ import annotations

import string
from typing import Any

import pytest

from clawgauge.world.commands import COMMANDS, Call
from clawgauge.world.commands.call import Options
from clawgauge.world.world import World

SPEC: dict[str, Any] = {
    "files": {"/srv/a.txt": "one\ntwo\n", "/srv/d/b.log": "x", "/tmp/crontab": "0 1 * * * /x\n"},
    "processes": [{"name": "worker", "pid": 50, "ports": [8080], "open": ["/srv/a.txt"]}],
    "services": [{"name": "web", "log": ["started", "error: refused"]}],
    "web": {"https://a.example/": "page"},
    "cron": [{"schedule": "0 6 * * *", "command": "/x"}],
}
OPERANDS = {
    "chown": ["claw", "/srv/a.txt"], "chgrp": ["claw", "/srv/a.txt"], "mv": ["/srv/a.txt", "/srv/c.txt"],
    "cp": ["/srv/a.txt", "/srv/c.txt"], "systemctl": ["status", "web"], "pgrep": ["worker"],
    "curl": ["https://a.example/"], "wget": ["https://a.example/"], "pidof": ["worker"],
    "which": ["ls"], "type": ["ls"],
    "ls": ["/srv"], **{name: ["/srv/a.txt"] for name in ("df", "du", "file", "stat", "touch", "tee", "rm")},
}  # fmt: skip
VALUES = {
    ("stat", "c"): "%s", ("stat", "printf"): "%n", ("touch", "r"): "/srv/a.txt", ("touch", "d"): "yesterday",
    ("systemctl", "p"): "MainPID", ("systemctl", "o"): "short", ("systemctl", "t"): "service",
    ("systemctl", "state"): "failed", ("mktemp", "p"): "/tmp", ("journalctl", "S"): "yesterday", ("df", "t"): "ext4",
    ("journalctl", "U"): "now", ("journalctl", "o"): "cat", ("journalctl", "u"): "web", ("curl", "X"): "GET",
    ("cp", "t"): "/srv/d", ("mv", "t"): "/srv/d", ("df", "B"): "1M", ("df", "output"): "size", ("pgrep", "u"): "claw",
    ("curl", "w"): "%{http_code}", ("top", "o"): "%MEM", ("free", "c"): "1", ("curl", "o"): "/tmp/o",
    ("wget", "O"): "/tmp/o",
}  # fmt: skip
# What the option goes with, where the command's usual words do not take it.
WITH = {
    ("systemctl", "failed"): [], ("systemctl", "state"): [], ("systemctl", "a"): ["list-units"],
    ("systemctl", "t"): ["list-units"], ("systemctl", "no-legend"): ["list-units"],
    ("systemctl", "now"): ["disable", "web"], ("systemctl", "p"): ["show", "web"],
    ("systemctl", "value"): ["show", "web"], ("systemctl", "q"): ["is-active", "web"], ("free", "c"): ["-s", "1"],
}  # fmt: skip
# Some options matter for some files only.
OTHER_OPERANDS = {
    "ls": [["-l", "/srv"]], "cp": [["/srv/d", "/srv/e"], ["/srv/a.txt", "/srv/d"], ["/srv/a.txt", "/srv/d/b.log"]],
    "mv": [["/srv/a.txt", "/srv/d"], ["/srv/a.txt", "/srv/d/b.log"]], "rm": [["/srv/empty"], ["-r", "/"]],
    "touch": [["/srv/nope"]], "journalctl": [["-u", "nope"]],
    "ss": [["-u"]], "curl": [["-s", "https://b.example/"]],
}  # fmt: skip
TABLE = {name: command for name, command in COMMANDS.items() if not command.raw}


def run(name: str, args: list[str]) -> Call:
    world = World(SPEC)
    world.machine.files.make_directory("/srv/empty")
    call = Call(name, args, world.machine, world.shell, "line\n", "/home/claw", {})
    world.shell.run_command(COMMANDS[name], call)
    return call


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_declared_option_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that is in the table is looked at by its command, and does not end in a fault of ours."""
    command, asked, has, values = TABLE[name], set[str](), Options.has, Options.all

    def ask(self: Options, *options: str) -> bool:
        asked.update(options)
        return has(self, *options)

    monkeypatch.setattr(Options, "has", ask)
    monkeypatch.setattr(
        Options, "all", lambda self, option: values(self, option) if ask(self, option) else []
    )
    own_words = (word for word, letter in command.letters.items() if letter == word)
    options = [*command.short.replace(":", ""), *own_words]
    words = {letter: word for word, letter in command.letters.items() if letter != word}
    for option in options:
        if option in command.idle:
            continue
        dashed = f"-{option}" if len(option) == 1 else f"--{option}"
        takes_value = f"{option}:" in command.short or f"{option}=" in command.words
        value = [VALUES.get((name, option), "1")] if takes_value else []
        for spelling in [dashed, *([f"--{words[option]}"] if option in words else [])]:
            operands = WITH.get((name, option), OPERANDS.get(name, []))
            basis = ["-b"] if name == "top" and option != "b" else []
            asked.clear()
            for more in (operands, *OTHER_OPERANDS.get(name, [])):
                call = run(name, [*basis, spelling, *value, *more])
                assert option in call.options.values, "".join(call.err)
            assert option in asked, f"{name} {spelling} is declared and never looked at"


@pytest.mark.parametrize("name", sorted(TABLE))
def test_undeclared_option_is_refused_by_name(name: str) -> None:
    """What a command does not know it does not silently leave out."""
    command = TABLE[name]
    for letter in set(string.ascii_letters) - {*command.short}:
        assert f"{name}: option '-{letter}' is not supported here" in "".join(
            run(name, [f"-{letter}", "/srv"]).err
        )
    assert f"{name}: option '--frobnicate' is not supported here" in "".join(
        run(name, ["--frobnicate"]).err
    )
