"""The shell of the simulated machine: bashkit's language and text tools, our file tree under them, our own commands.

Nothing runs on the host. Each line gets a new shell, so that neither variables nor traps outlive it; what is kept is
the machine. A limit that is reached, and an option that is not simulated, is told to the model in words, whatever it
does with standard error.
"""

import contextlib
import re
import shlex
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import bashkit

from clawgauge.world.commands import COMMANDS, Call
from clawgauge.world.commands.call import Command, NotSimulated, Options
from clawgauge.world.effects import Refusal
from clawgauge.world.files import to_bytes
from clawgauge.world.machine import Machine, home_of
from clawgauge.world.mount import TreeMount, polish

MAX_LINE_CHARS = 65_536
# Of the processor's time: how busy the machine is must not decide what a line does. The wall clock is the last resort.
_PROCESSOR_S = 3.0
_LOOK_EVERY_S = 0.2
_BOUNDS: Any = {
    "timeout_seconds": 60.0, "max_commands": 2_000, "max_loop_iterations": 100_000, "max_memory": 32 * 1024**2,
}  # fmt: skip
_MAX_DEPTH = 4
# bashkit walks nested commands on the stack. Only what is touched of it takes memory.
_STACK_BYTES = 512 * 1024**2
_INNER_STACK_BYTES = 128 * 1024**2
_PERMISSION = re.compile(r"((?:(?<![\w-])test|\[\[?)\s+(?:!\s+)?)-([rw])\s+(?=[\w\"'$/~.])")
_LATER_PERMISSION = re.compile(r"\[[^\]\n]*\s(?:-a|-o|&&|\|\|)\s+(?:!\s+)?-[rw]\s")
_BRACES = re.compile(
    r"\{(?:(?P<first>-?\d{1,18}|[a-zA-Z])\.\.(?P<last>-?\d{1,18}|[a-zA-Z])(?:\.\.(?P<step>-?\d{1,9}))?"
    r"|(?P<list>[^{}\s]*,[^{}\s]*))\}"
)
_ENDLESS = re.compile(r"/dev/(?:zero|u?random)\b")
_MAX_BRACES = 10_000
_YES = re.compile(r"(?:^|[;&|({\n]|\b(?:do|then|else)\b)\s*yes\b(?P<rest>[^\n;]*)")
_LIMITS = {
    "timeout": "it took too long", "cancel": "it took too long", "command": "too many commands",
    "loop": "too many rounds of a loop", "memory": "too much memory", "budget": "too much memory",
    "depth": "nested too deeply",
}  # fmt: skip


class CommandOutput(NamedTuple):
    """What a terminal would show, and the exit code; `errors` stands apart where the streams were not joined."""

    text: str
    code: int
    errors: str = ""


class Shell:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        # The garbage collector cannot look into bashkit's objects: what they hold must not hold us, or no world ends.
        self._me = me = weakref.proxy(self)
        mount = TreeMount(machine.files, machine.ledger, lambda fault: me._fail(fault))  # noqa: PLW0108
        self._tree = bashkit.FileSystem.from_capsule(mount.capsule)
        # What ended the line within bashkit and is no refusal: it must not pass for one.
        self._faults: list[BaseException] = []
        # By user, depth and the command of ours that is left out, because it had bashkit's own do the work.
        self._shells: dict[tuple[str, int, str], bashkit.Bash] = {}
        self._running: list[bashkit.Bash] = []
        self._stdin: list[str] = []

    def run(self, line: str, workdir: str) -> CommandOutput:
        """Run a command line. Raises `Refusal` for what is not even tried and `OutOfFuel` for too much work."""
        _refuse_silent_limits(line)
        self._machine.fuel.spend(len(line))
        self._faults.clear()
        self._machine.notices.clear()
        line = _PERMISSION.sub(r'\1-e "/.may-\2:$PWD:/"', line).replace(':$PWD:/"~/', ':$PWD:/$HOME/"')
        output = self._run_apart(f"exec 2>&1; {line}", workdir, {})
        if (
            self._faults
        ):  # too much work; or a defect of ours, or no memory: never an answer to the model, nor a verdict
            raise self._faults[0]
        text = output.text + output.errors
        unseen = [notice for notice in dict.fromkeys(self._machine.notices) if notice not in text]
        if unseen:
            text = "\n".join(filter(None, (text.rstrip("\n"), *unseen)))
        return CommandOutput(text, output.code)

    def pass_on(self, line: str, call: Call) -> int:
        """Run a line in a command's stead, with its input and its output; that command is then bashkit's own."""
        if len(self._stdin) >= _MAX_DEPTH:
            raise NotSimulated("commands are nested too deeply")
        self._stdin.append(call.stdin)
        try:
            output = self._run_apart(f"__stdin | {line}", call.workdir, call.env, call.name)
        finally:
            self._stdin.pop()
        call.print(output.text)
        return call.say(output.errors, output.code)

    def _fail(self, fault: BaseException) -> None:
        self._faults.append(fault)
        self._cancel()

    def _cancel(self) -> None:
        for running in list(self._running):
            running.cancel()

    def _run_apart(self, line: str, workdir: str, env: Mapping[str, str], left_out: str = "") -> CommandOutput:
        """In a thread with a large stack: bashkit may not run within itself, and deep nesting must not end us."""
        with ThreadPoolExecutor(1, "simulated-shell") as pool:
            before = threading.stack_size(_INNER_STACK_BYTES if self._stdin else _STACK_BYTES)
            try:
                work = pool.submit(self._execute, line, workdir, env, left_out)
            except RuntimeError:
                raise MemoryError("no room for a thread") from None
            finally:
                threading.stack_size(before)
            spent_s = time.process_time()
            while not work.done():
                with contextlib.suppress(TimeoutError):
                    work.exception(_LOOK_EVERY_S)
                if time.process_time() - spent_s > _PROCESSOR_S:
                    self._cancel()
        return work.result()

    def _execute(self, line: str, workdir: str, env: Mapping[str, str], left_out: str) -> CommandOutput:
        user = self._machine.ledger.user
        key, base = (user, len(self._stdin), left_out), {
            "HOME": home_of(user), "USER": user, "LOGNAME": user, "HOSTNAME": self._machine.host, "SHELL": "/bin/bash",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
        }  # fmt: skip
        shell = self._fresh(key, base)
        exports = "".join(
            f"export {name}={shlex.quote(value)}; "
            for name, value in env.items()
            if base.get(name) != value and name.isidentifier() and name not in ("PWD", "OLDPWD", "_", "SHLVL")
        )
        self._running.append(shell)
        try:
            # One stream, in the order in which things were printed; on one line, so that lines keep their numbers.
            result = shell.execute_sync(f"cd -- {shlex.quote(workdir)}; RANDOM=7; {exports}{line}")
            error, printed = result.error, result.stdout
        except bashkit.BashError as stopped:
            error, printed = str(stopped), ""
        finally:
            self._running.remove(shell)
        if error is not None:
            del self._shells[key]
            return self._stopped(error, printed)
        if result.stdout_truncated or result.stderr_truncated:
            self._machine.notices.append("[the output was cut: too much for one call]")
        text, errors = (polish(to_bytes(text)).decode("utf-8", "replace") for text in (printed, result.stderr))
        return CommandOutput(text, result.exit_code, errors)

    def _fresh(self, key: tuple[str, int, str], env: dict[str, str]) -> bashkit.Bash:
        """A shell without a past. Making one anew takes milliseconds, resetting it a tenth of one."""
        shell = self._shells.get(key)
        if shell is None:
            builtins = {
                f"{folder}{name}": self._builtin(name, command)
                for name, command in COMMANDS.items()
                if name != key[2]
                for folder in ("", "/bin/", "/usr/bin/")
            }
            stdin = self._stdin
            builtins["__stdin"] = lambda context: stdin[-1] if stdin else ""
            shell = self._shells[key] = bashkit.Bash(
                username=key[0], hostname=self._machine.host, env=env, custom_builtins=builtins, **_BOUNDS
            )
        else:
            shell.reset()
        shell.mount("/", self._tree)
        return shell

    def _stopped(self, error: str, printed: str) -> CommandOutput:
        """What the model reads where the shell gave up on the whole line."""
        words = polish(error.encode("utf-8", "replace")).decode()
        parse = re.match(r"parse error at line (\d+), column \d+: (.*)", words, re.DOTALL)
        if parse is not None:
            return CommandOutput(f"bash: -c: line {parse[1]}: {parse[2]}\n", 2)
        why = next((why for word, why in _LIMITS.items() if word in words.lower()), None)
        if why is None:
            return CommandOutput(f"{printed}bash: {words.removeprefix('bash: ')}\n", 1)
        self._machine.fuel.fine()
        notice = f"Killed: {why} for one call"
        self._machine.notices.append(notice)
        return CommandOutput(f"{printed}{notice}\n", 137)

    def _builtin(self, name: str, command: Command) -> Callable[[Any], Any]:
        shell = self._me

        def run(context: Any) -> Any:
            call = Call(name, list(context.argv), shell._machine, shell, context.stdin or "", context.cwd, context.env)
            try:
                code = shell.run_command(command, call)
            except BaseException as fault:
                shell._fail(fault)
                raise
            return bashkit.BuiltinResult("".join(call.out), "".join(call.err), code)

        return run

    def run_command(self, command: Command, call: Call) -> int:
        """Run one of our commands; whatever it refuses is on its standard error."""
        try:
            self._machine.fuel.spend()
            if call.args == ["--version"] and not command.raw:
                return call.print(f"{call.name} (GNU coreutils) 9.1\n")
            call.options = Options() if command.raw else command.parse(call.args)
            return command.run(call)
        except Refusal as refusal:
            if isinstance(refusal, NotSimulated):
                self._machine.notices.append(f"{call.name}: {refusal}")
            return call.complain(str(refusal), refusal.code)


def _refuse_silent_limits(line: str) -> None:
    """Refuse what bashkit would cut short, or leave as it is, without a word."""
    if len(line) > MAX_LINE_CHARS:
        raise Refusal("bash: Argument list too long")
    for word in line.split():
        n_words = 1
        for found in _BRACES.finditer(word):
            if found["list"] is not None:
                n_words *= found["list"].count(",") + 1
                continue
            first, last = (int(end) if end[-1].isdecimal() else ord(end) for end in (found["first"], found["last"]))
            n_words *= abs(last - first) // max(1, abs(int(found["step"] or 1))) + 1
        if n_words > _MAX_BRACES:
            raise Refusal(f"bash: {word[:40]} is more than can be written out here ({_MAX_BRACES}); use seq in a loop")
    if _ENDLESS.search(line):
        taken = re.search(r"\bhead\s+(?:-c\s*|--bytes=)(\d+)([kKMGT]?)", line)
        if taken and (int(taken[1]) > MAX_LINE_CHARS or taken[2]):
            raise Refusal(f"bash: a device gives {MAX_LINE_CHARS} bytes here and no more")
    if _LATER_PERMISSION.search(line):
        raise Refusal("bash: '-r' and '-w' are supported only as the first word of a test here: '[ -w FILE ] && …'")
    for yes in _YES.finditer(line):
        head = re.search(r"\|\s*head\s+(?:-n\s*|-c\s*|-)?(\d+)([kKMGT]?)", yes["rest"])
        if "|" not in yes["rest"] or (head and (int(head[1]) > 1_000 or head[2])):
            raise Refusal("bash: yes prints 1,000 lines here and no more")
