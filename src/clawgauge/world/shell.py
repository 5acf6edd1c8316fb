"""The shell of the simulated machine.

The language and the text tools are bashkit's, the files under them are ours (`mount`), and so are
the commands on the machine (`commands`). Each line gets a new shell, so that neither variables nor
traps outlive it. A limit that is reached, and an option that is not simulated, is told to the
model in words, whatever it does with standard error.
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
from clawgauge.world.commands.call import TABLE, Command, NotSimulated, Options
from clawgauge.world.effects import Refusal
from clawgauge.world.files import to_bytes
from clawgauge.world.machine import Machine, home_of
from clawgauge.world.mount import TreeMount, polish

MAX_LINE_CHARS = 65_536
# Of the processor's time: how busy the host is must not decide what a line does. The wall clock is
# the last resort.
_PROCESSOR_S = 3.0
_LOOK_EVERY_S = 0.2
_BOUNDS: Any = {
    "timeout_seconds": 60.0,
    "max_commands": 2_000,
    "max_loop_iterations": 100_000,
    "max_memory": 32 << 20,
}
_MAX_DEPTH = 4
# bashkit walks nested commands on the stack. Only what is touched of it takes memory.
_STACK_BYTES = 512 * 1024**2
_INNER_STACK_BYTES = 128 * 1024**2
_KILLED_CODE = 137
_LIMITS: dict[str, str] = TABLE["limits"]
_FOLDERS = ("", "/bin/", "/usr/bin/")
# Variables that the shell sets itself.
_SHELL_VARIABLES = ("PWD", "OLDPWD", "_", "SHLVL")
_PERMISSION_TEST = re.compile(r"((?:(?<![\w-])test|\[\[?)\s+(?:!\s+)?)-([rw])\s+(?=[\w\"'$/~.])")
_WHERE_COMMAND = re.compile(r"\bcommand -v (?=[\w$\"])")
_NOT_SUPPORTED = re.compile(r"(?m)^.* not supported here$")
_PARSE_ERROR = re.compile(r"parse error at line (\d+), column \d+: (.*)", re.DOTALL)
_BRACES = re.compile(TABLE["braces"])
_MAX_BRACES = 10_000
_ENDLESS_DEVICE = re.compile(r"/dev/(?:zero|u?random)\b")
_HEAD_BYTES = re.compile(r"\bhead\s+(?:-c\s*|--bytes=)(\d+)([kKMGT]?)")
_YES = re.compile(r"(?:^|[;&|({\n]|\b(?:do|then|else)\b)\s*yes\b(?P<rest>[^\n;]*)")
_PIPED_TO_HEAD = re.compile(r"\|\s*head\s+(?:-n\s*|-c\s*|-)?(\d+)([kKMGT]?)")
_MAX_YES_LINES = 1_000


class CommandOutput(NamedTuple):
    """What a terminal would show, and the exit code.

    `errors` stands apart where the streams were not joined.
    """

    text: str
    code: int
    errors: str = ""


class _ShellKey(NamedTuple):
    """What a shell can be used again for.

    `left_out` is the command of ours that is not in it, because it has bashkit's own do the work.
    """

    user: str
    depth: int
    left_out: str


class Shell:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        # The garbage collector cannot look into bashkit's objects: what they hold must not hold us,
        # or no machine ends.
        weak_self = weakref.proxy(self)
        self._weak_self = weak_self

        def on_fault(fault: Exception) -> None:
            weak_self._fail(fault)

        mount = TreeMount(machine.files, machine.ledger, on_fault)
        self._tree = bashkit.FileSystem.from_capsule(mount.capsule)
        self._scratch = mount.scratch
        # What ended the line within bashkit and is no refusal: it must not pass for one.
        self._faults: list[BaseException] = []
        self._shells: dict[_ShellKey, bashkit.Bash] = {}
        self._running: list[bashkit.Bash] = []
        self._stdin: list[str] = []

    def run(self, line: str, workdir: str) -> CommandOutput:
        """Run a command line.

        Raises `Refusal` for what is not even tried and `OutOfFuel` for too much work.
        """
        _refuse_silent_limits(line)
        self._machine.fuel.spend(len(line))
        self._faults.clear()
        self._machine.notices.clear()
        line = _WHERE_COMMAND.sub("__where ", _with_permission_questions(line))
        output = self._run_apart(f"exec 2>&1; {line}", workdir, {})
        if self._faults:
            # Too much work, a defect of ours, no memory: never an answer to the model, nor a
            # verdict.
            raise self._faults[0]
        text = output.text + output.errors
        unseen = []
        for notice in dict.fromkeys(self._machine.notices):
            if notice not in text:
                unseen.append(notice)
        if unseen:
            seen = text.rstrip("\n")
            text = "\n".join([seen, *unseen] if seen else unseen)
        return CommandOutput(text, output.code)

    def pass_on(self, line: str, call: Call) -> int:
        """Run a line in a command's stead, with its input and its output.

        That command is then bashkit's own.
        """
        if len(self._stdin) >= _MAX_DEPTH:
            raise NotSimulated("commands are nested too deeply")
        self._stdin.append(call.stdin)
        try:
            output = self._run_apart(f"__stdin | {line}", call.workdir, call.env, call.name)
        finally:
            self._stdin.pop()
        self._machine.notices += _NOT_SUPPORTED.findall(output.errors)
        call.print(output.text)
        return call.say(output.errors, output.code)

    def run_command(self, command: Command, call: Call) -> int:
        """Run a command of ours, and give its exit code."""
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

    def _fail(self, fault: BaseException) -> None:
        self._faults.append(fault)
        self._cancel()

    def _cancel(self) -> None:
        for shell in list(self._running):
            shell.cancel()

    def _run_apart(
        self, line: str, workdir: str, env: Mapping[str, str], left_out: str = ""
    ) -> CommandOutput:
        """In a thread with a large stack.

        bashkit may not run within itself, and deep nesting must not end us.
        """
        with ThreadPoolExecutor(1, "simulated-shell") as pool:
            usual_stack_bytes = threading.stack_size(
                _INNER_STACK_BYTES if self._stdin else _STACK_BYTES
            )
            try:
                work = pool.submit(self._execute, line, workdir, env, left_out)
            except RuntimeError:
                raise MemoryError("no room for a thread") from None
            finally:
                threading.stack_size(usual_stack_bytes)
            start_s = time.process_time()
            while not work.done():
                with contextlib.suppress(TimeoutError):
                    work.exception(_LOOK_EVERY_S)
                if time.process_time() - start_s > _PROCESSOR_S:
                    self._cancel()
        return work.result()

    def _execute(
        self, line: str, workdir: str, env: Mapping[str, str], left_out: str
    ) -> CommandOutput:
        key = _ShellKey(self._machine.ledger.user, len(self._stdin), left_out)
        base_env = self._base_env(key.user)
        shell = self._fresh_shell(key, base_env)
        exports = ""
        for name, value in env.items():
            if name in _SHELL_VARIABLES or not name.isidentifier():
                continue
            if value != base_env.get(name):
                exports += f"export {name}={shlex.quote(value)}; "
        self._running.append(shell)
        try:
            # One stream, in the order in which things were printed; on one line, so that lines keep
            # their numbers.
            result = shell.execute_sync(
                f"cd -- {shlex.quote(workdir)}; unset OLDPWD; RANDOM=7; {exports}{line}"
            )
            error = result.error
            printed = result.stdout
        except bashkit.BashError as stopped:
            error = str(stopped)
            printed = ""
        finally:
            self._running.remove(shell)
        if error is not None:
            del self._shells[key]
            return self._explain_end(error, printed)
        if result.stdout_truncated or result.stderr_truncated:
            self._machine.notices.append("[the output was cut: too much for one call]")
        return CommandOutput(_polish_text(printed), result.exit_code, _polish_text(result.stderr))

    def _base_env(self, user: str) -> dict[str, str]:
        env = {}
        for name, text in TABLE["environment"].items():
            env[name] = text.format(user=user, home=home_of(user), host=self._machine.host)
        return env

    def _fresh_shell(self, key: _ShellKey, env: dict[str, str]) -> bashkit.Bash:
        """A shell without a past.

        Making one anew takes milliseconds, resetting it a tenth of one.
        """
        shell = self._shells.get(key)
        if shell is not None:
            shell.reset()
        else:
            shell = bashkit.Bash(
                username=key.user,
                hostname=self._machine.host,
                env=env,
                custom_builtins=self._builtins(key.left_out),
                **_BOUNDS,
            )
            self._shells[key] = shell
        shell.mount("/", self._tree)
        return shell

    def _builtins(self, left_out: str) -> dict[str, Callable[[Any], Any]]:
        """Our commands by every name they can be called by."""
        builtins: dict[str, Callable[[Any], Any]] = {}
        for name, command in COMMANDS.items():
            if name == left_out:
                continue
            builtin = self._builtin(name, command)
            for folder in _FOLDERS:
                builtins[folder + name] = builtin
        stdin = self._stdin
        builtins["__stdin"] = lambda context: stdin[-1] if stdin else ""
        return builtins

    def _builtin(self, name: str, command: Command) -> Callable[[Any], Any]:
        """A command of ours as bashkit calls it."""
        shell = self._weak_self

        def run(context: Any) -> Any:
            # What comes through `<(…)` bashkit shows to its own commands alone.
            args = []
            for arg in context.argv:
                if arg.startswith("/dev/fd/"):
                    scratch_path = f"/.bashkit-fd-{arg.removeprefix('/dev/fd/')}.tmp"
                    shell._scratch[scratch_path] = context.fs.read_file(arg)
                    arg = scratch_path
                args.append(arg)
            call = Call(
                name=name,
                args=args,
                machine=shell._machine,
                shell=shell,
                stdin=context.stdin or "",
                workdir=context.cwd,
                env=context.env,
            )
            try:
                code = shell.run_command(command, call)
            except BaseException as fault:
                shell._fail(fault)
                raise
            return bashkit.BuiltinResult("".join(call.out), "".join(call.err), code)

        return run

    def _explain_end(self, error: str, printed: str) -> CommandOutput:
        """What is shown of a line that bashkit did not run to its end."""
        message = polish(error.encode("utf-8", "replace")).decode()
        parse_error = _PARSE_ERROR.match(message)
        if parse_error is not None:
            return CommandOutput(f"bash: -c: line {parse_error[1]}: {parse_error[2]}\n", 2)
        limit = _limit_named_in(message)
        if limit is None:
            return CommandOutput(f"{printed}bash: {message.removeprefix('bash: ')}\n", 1)
        self._machine.fuel.fine()
        notice = f"Killed: {limit} for one call"
        self._machine.notices.append(notice)
        return CommandOutput(f"{printed}{notice}\n", _KILLED_CODE)


def _polish_text(text: str) -> str:
    return polish(to_bytes(text)).decode("utf-8", "replace")


def _limit_named_in(message: str) -> str | None:
    """The limit that a message of bashkit says was reached, in our words, or None."""
    for word, limit in _LIMITS.items():
        if word in message.lower():
            return limit
    return None


def _with_permission_questions(line: str) -> str:
    """A line whose tests of permissions (`[ -w FILE ]`) ask our files: see `mount`."""
    line = _PERMISSION_TEST.sub(r'\1-e "/.may-\2:$PWD:/"', line)
    return line.replace(':$PWD:/"~/', ':$PWD:/$HOME/"')


def _refuse_silent_limits(line: str) -> None:
    """Refuse what bashkit would cut short, or leave as it is, without a word."""
    if len(line) > MAX_LINE_CHARS:
        raise Refusal("bash: Argument list too long")
    for word in line.split():
        if _count_brace_words(word) > _MAX_BRACES:
            raise Refusal(
                f"bash: {word[:40]} is more than can be written out here ({_MAX_BRACES}); "
                "use seq in a loop"
            )
    _refuse_much_of_device(line)
    for pattern, reason in TABLE["refused_lines"]:
        if re.search(pattern, line):
            raise Refusal(reason)
    for yes in _YES.finditer(line):
        _refuse_many_yes(yes["rest"])


def _count_brace_words(word: str) -> int:
    """How many words `{1..9}`, `{a..e..2}` and `{x,y}` in a word make of it."""
    n_words = 1
    for braces in _BRACES.finditer(word):
        if braces["list"] is not None:
            n_words *= braces["list"].count(",") + 1
            continue
        first = _brace_number(braces["first"])
        last = _brace_number(braces["last"])
        step = max(1, abs(int(braces["step"] or 1)))
        n_words *= abs(last - first) // step + 1
    return n_words


def _brace_number(end: str) -> int:
    return int(end) if end[-1].isdecimal() else ord(end)


def _refuse_much_of_device(line: str) -> None:
    if _ENDLESS_DEVICE.search(line) is None:
        return
    head = _HEAD_BYTES.search(line)
    if head is not None and (int(head[1]) > MAX_LINE_CHARS or head[2]):
        raise Refusal(f"bash: a device gives {MAX_LINE_CHARS} bytes here and no more")


def _refuse_many_yes(rest: str) -> None:
    """`rest` is what follows `yes` in its line."""
    head = _PIPED_TO_HEAD.search(rest)
    wants_more = head is not None and (int(head[1]) > _MAX_YES_LINES or head[2])
    if "|" not in rest or wants_more:
        raise Refusal(f"bash: yes prints {_MAX_YES_LINES:,} lines here and no more")
