"""The commands of the simulated shell, by name.

Owns: which name runs which function. A name that is not here is not found. Refuses: anything a command does.
"""

from __future__ import annotations

from collections.abc import Mapping

from clawgauge.world.shell.call import Call, CommandFunction
from clawgauge.world.shell.commands import (
    builtins,
    changing,
    filtering,
    listing,
    machine_status,
    process_control,
    servicing,
    viewing,
)
from clawgauge.world.shell.commands.awk import awk
from clawgauge.world.shell.commands.find import find
from clawgauge.world.shell.commands.grep import egrep, fgrep, grep
from clawgauge.world.shell.commands.sed import sed


def which(call: Call) -> int:
    code = 0
    for name in call.args:
        if name in COMMANDS:
            call.print(f"/usr/bin/{name}\n")
        else:
            code = 1
    return code


COMMANDS: Mapping[str, CommandFunction] = {
    "cat": viewing.cat, "less": viewing.cat, "more": viewing.cat, "tac": viewing.tac, "nl": viewing.nl,
    "head": viewing.head, "tail": viewing.tail, "wc": viewing.wc,
    "sort": filtering.sort, "uniq": filtering.uniq, "cut": filtering.cut, "tr": filtering.tr, "tee": filtering.tee,
    "seq": filtering.seq,
    "grep": grep, "egrep": egrep, "fgrep": fgrep, "sed": sed, "awk": awk, "find": find,
    "ls": listing.ls, "stat": listing.stat, "du": listing.du, "file": listing.file, "realpath": listing.realpath,
    "readlink": listing.realpath, "basename": listing.basename, "dirname": listing.dirname,
    "mkdir": changing.mkdir, "rmdir": changing.rmdir, "rm": changing.rm, "unlink": changing.rm, "mv": changing.mv,
    "cp": changing.cp, "touch": changing.touch, "truncate": changing.truncate, "chmod": changing.chmod,
    "df": machine_status.df, "free": machine_status.free, "uptime": machine_status.uptime,
    "uname": machine_status.uname, "whoami": machine_status.whoami, "id": machine_status.identity,
    "hostname": machine_status.hostname, "nproc": machine_status.nproc, "date": machine_status.date,
    "ps": process_control.ps, "top": process_control.top, "pgrep": process_control.pgrep,
    "pkill": process_control.pkill, "kill": process_control.kill, "killall": process_control.killall,
    "systemctl": servicing.systemctl, "service": servicing.service, "journalctl": servicing.journalctl,
    "crontab": servicing.crontab, "curl": servicing.curl, "wget": servicing.wget,
    "echo": builtins.echo, "printf": builtins.printf, "true": builtins.succeed, ":": builtins.succeed,
    "false": builtins.fail, "cd": builtins.change_directory, "pwd": builtins.print_workdir, "export": builtins.export,
    "unset": builtins.unset, "env": builtins.environment, "printenv": builtins.environment, "exit": builtins.leave,
    "read": builtins.read, "sleep": builtins.sleep, "test": builtins.test, "[": builtins.test, "xargs": builtins.xargs,
    "set": builtins.succeed, "wait": builtins.succeed, "sync": builtins.succeed, "sudo": builtins.sudo,
    "nohup": builtins.wrap, "time": builtins.wrap, "nice": builtins.wrap, "timeout": builtins.wrap,
    "command": builtins.wrap, "which": which,
}  # fmt: skip
