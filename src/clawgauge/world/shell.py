"""The shell of the simulated machine: bashkit's language and text tools, our file tree under them, our own commands.

bashkit takes a file system as a handle of C functions, and every operation of its shell is a call of ours. So even a
file made and removed within one line is in the log. Each line gets a new shell, so that neither variables nor traps
outlive it. A limit that is reached, and an option that is not simulated, is told to the model in words, whatever it
does with standard error."""

import contextlib
import ctypes
import itertools
import posixpath
import re
import shlex
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, NamedTuple

import bashkit

from clawgauge.world import effects
from clawgauge.world.commands import COMMANDS, Call
from clawgauge.world.commands.call import NATIVE, TABLE, Command, NotSimulated, Options
from clawgauge.world.effects import FileFault, Ledger, Refusal
from clawgauge.world.files import ENTER, READ, WRITE, FileTree, Node, from_bytes, resolve, to_bytes
from clawgauge.world.machine import Machine, home_of

_KINDS = [
    "",
    effects.NOT_FOUND,
    effects.EXISTS,
    effects.DENIED,
    effects.INVALID,
    effects.IS_A_DIRECTORY,
]
_KINDS += [effects.NOT_A_DIRECTORY, effects.NOT_EMPTY, effects.UNSUPPORTED]
# bashkit takes whatever exists for readable and writable. So a line asks whether `/.may-w:DIRECTORY:/OPERAND` exists.
_MAY = re.compile(r"/\.may-(?P<wish>[rw]):(?P<workdir>[^:]*):(?P<operand>/.*)", re.DOTALL)
# What `sed -i` writes beside a file before it is renamed onto it. Nobody else is to see it.
_SCRATCH = re.compile(r"/\.bashkit-[a-z]+-[^/]*\.tmp$")
_OWN = {"NATIVE": "|".join(sorted(NATIVE)), "VERSION": re.escape(bashkit.__version__)}
_GIVE_AWAYS = [
    (
        re.compile(re.sub("NATIVE|VERSION", lambda name: _OWN[name[0]], pattern).encode()),
        instead.encode(),
    )
    for pattern, instead in TABLE["give_aways"]
]
_MARKS = (
    b"/.may-",
    b"__where",
    b"ashkit",
    b"not found. ",
    b"io error: ",
    b" 0.",
    b"unavailable",
    b"d option ",
)


def polish(content: bytes) -> bytes:
    if any(mark in content for mark in _MARKS):
        for pattern, instead in _GIVE_AWAYS:
            content = pattern.sub(instead, content)
    return content


class _Text(Structure):
    _fields_ = (("at", c_void_p), ("size", c_size_t))

    def bytes(self) -> bytes:
        return ctypes.string_at(self.at, self.size) if self.size else b""


def _struct(**fields: Any) -> Any:
    return type("Struct", (Structure,), {"_fields_": tuple(fields.items())})


_Fault = _struct(kind=c_uint32, message=_Text)
_TIMES = {
    "modified_s": c_int64,
    "modified_ns": c_uint32,
    "created_s": c_int64,
    "created_ns": c_uint32,
}
_Stat = _struct(file_type=c_uint8, reserved=c_uint8 * 7, size=c_uint64, mode=c_uint32, **_TIMES)
_Entry = _struct(name=_Text, stat=_Stat)
# What each operation is given beside a path, or where it puts what it is asked for, in the order of the interface.
_GIVEN: dict[str, Any] = {
    "read_file": POINTER(_Text), "write_file": _Text, "append_file": _Text, "mkdir": c_bool, "remove": c_bool,
    "stat": POINTER(_Stat), "read_dir": POINTER(_Text), "exists": POINTER(c_bool), "rename": _Text, "copy": _Text,
    "symlink": _Text, "read_link": POINTER(_Text), "chmod": c_uint32,
}  # fmt: skip
_KIND = {
    name: ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, given, POINTER(_Fault))
    for name, given in _GIVEN.items()
}
_Free = ctypes.CFUNCTYPE(None, c_void_p, _Text)
_Count = ctypes.CFUNCTYPE(None, c_void_p)
_Table = _struct(**_KIND, free_bytes=_Free, free_dir_entries=_Free)
_Handle = _struct(
    version=c_uint32,
    reserved=c_uint32,
    instance=c_void_p,
    retain=_Count,
    release=_Count,
    table=POINTER(_Table),
)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [c_void_p, c_char_p, c_void_p]


class TreeMount:
    """A file tree behind the C interface; it lives as long as a file system made from `capsule`."""

    def __init__(
        self, tree: FileTree, ledger: Ledger, on_fault: Callable[[Exception], object]
    ) -> None:
        """`on_fault` is told of what cannot cross into C and is no refusal, such as too much work for one call."""
        self._tree, self._ledger, self.on_fault = tree, ledger, on_fault
        self.scratch: dict[str, bytes] = {}
        self._lent: dict[int, Any] = {}
        instance = next(_instances)
        _mounts[instance] = self
        self._handle = _Handle(1, 0, instance, _retained, _released, ctypes.pointer(_table))
        self.capsule = _new_capsule(ctypes.addressof(self._handle), b"bashkit.FileSystem.v1", None)

    def perform(self, operation: str, name: str, given: Any) -> None:
        tree, scratch = self._tree, self.scratch
        match operation:
            case "read_file":
                self._lend(
                    given.contents, scratch[name] if name in scratch else to_bytes(tree.read(name))
                )
            case "write_file" | "append_file":
                appends, content = operation == "append_file", polish(given.bytes())
                if _SCRATCH.search(name):
                    scratch[name] = (scratch.get(name, b"") if appends else b"") + content
                else:
                    tree.write(name, from_bytes(content), append=appends)
            case "mkdir":
                tree.make_directory(name, parents=given)
            case "remove" if scratch.pop(name, None) is None:
                tree.remove(name, recursive=given)
            case "stat" if name in scratch:
                given.contents.size, given.contents.mode = len(scratch[name]), 0o600
            case "stat":
                self._fill(given.contents, tree.node(self._meant(name)))
            case "read_dir":
                self._lend_entries(given.contents, name)
            case "exists":
                given[0] = name in scratch or tree.is_reachable(self._meant(name))
            case "rename" if name in scratch:
                tree.write(resolve(given.bytes().decode()), from_bytes(scratch.pop(name)))
            case "rename":
                tree.move(name, resolve(given.bytes().decode()))
            case "copy":
                tree.copy(name, resolve(given.bytes().decode()))
            case "chmod" if name not in scratch:
                tree.set_mode(name, given & 0o7777)
            case "read_link":
                tree.node(name)
                raise FileFault(effects.INVALID)
            case "symlink":
                raise FileFault(effects.UNSUPPORTED)

    def _lend_entries(self, out: _Text, name: str) -> None:
        names = self._tree.names(name)
        entries = (_Entry * len(names))()
        for entry, inner in zip(entries, names, strict=True):
            self._lend(entry.name, inner.encode())
            self._fill(entry.stat, self._tree.peek(posixpath.join(name, inner)))
        out.at, out.size = ctypes.addressof(entries) if names else None, len(names)
        if names:
            # The names go back with their entries, and not one by one.
            self._lent[out.at] = (entries, [self._lent.pop(entry.name.at) for entry in entries])

    def _meant(self, name: str) -> str:
        """The path itself; for a question whether it may be read or written, one that is not there where it may not."""
        if (asked := _MAY.match(name)) is None:
            return name
        operand = asked["operand"]
        meant = operand if self._tree.exists(operand) else resolve(operand[1:], asked["workdir"])
        return (
            meant
            if self._tree.is_reachable(meant, READ if asked["wish"] == "r" else WRITE)
            else name
        )

    def _lend(self, out: _Text, content: bytes) -> None:
        out.at, out.size = None, len(content)
        if content:
            buffer = ctypes.create_string_buffer(content, len(content))
            out.at = ctypes.addressof(buffer)
            self._lent[out.at] = buffer

    def _fill(self, out: Any, node: Node) -> None:
        # bashkit reckons ages from the wall clock, so a file is shown to it as old as it is in the world.
        out.modified_s = out.created_s = (
            node.modified_s + int(time.time()) - self._ledger.clock.now_s
        )
        out.file_type = 1 if node.is_directory else 0
        out.size = node.size
        # Without the bits that are of no use to the user: bashkit takes any bit for a permission.
        denied = sum(
            wish for wish in (READ, WRITE, ENTER) if not node.allows(self._ledger.user, wish)
        )
        out.mode = node.mode & ~(denied * 0o111)


def _guarded(operation: str) -> Callable[..., int]:
    """An operation of the table. Whatever goes wrong is a fault: no exception can cross into C."""

    def run(instance: int, path: _Text, given: Any, fault: Any) -> int:
        mount = _mounts[instance]
        try:
            mount.perform(operation, resolve(path.bytes().decode()), given)
        except FileFault as refused:
            words = str(refused)
        except UnicodeDecodeError:
            words = effects.INVALID
        except Exception as error:
            words = "Killed"
            mount.on_fault(error)
        else:
            return 0
        fault.contents.kind = _KINDS.index(words) if words in _KINDS else 0
        mount._lend(fault.contents.message, words.encode("utf-8", "replace"))
        return 1

    return run


# What C calls is made once and never freed: a shell may outlive its world, in a traceback for one. A mount is kept
# until bashkit, which retains it once, gives it back.
_instances = itertools.count(1)
_mounts: dict[int, TreeMount] = {}
_retained = _Count(lambda instance: None)
_released = _Count(lambda instance: _mounts.pop(instance, None) and None)
_free = _Free(lambda instance, text: _mounts[instance]._lent.pop(text.at, None))
_table = _Table(
    **{op: kind(_guarded(op)) for op, kind in _KIND.items()},
    free_bytes=_free,
    free_dir_entries=_free,
)


MAX_LINE_CHARS = 65_536
# Of the processor's time: how busy the machine is must not decide what a line does. The wall clock is the last resort.
_PROCESSOR_S, _LOOK_EVERY_S = 3.0, 0.2
_BOUNDS: Any = {
    "timeout_seconds": 60.0,
    "max_commands": 2_000,
    "max_loop_iterations": 100_000,
    "max_memory": 32 << 20,
}
_MAX_DEPTH = 4
# bashkit walks nested commands on the stack. Only what is touched of it takes memory.
_STACK_BYTES, _INNER_STACK_BYTES = 512 * 1024**2, 128 * 1024**2
_PERMISSION = re.compile(r"((?:(?<![\w-])test|\[\[?)\s+(?:!\s+)?)-([rw])\s+(?=[\w\"'$/~.])")
_BRACES = re.compile(TABLE["braces"])
_ENDLESS = re.compile(r"/dev/(?:zero|u?random)\b")
_MAX_BRACES = 10_000
_REFUSED = re.compile(r"(?m)^.* not supported here$")
_YES = re.compile(r"(?:^|[;&|({\n]|\b(?:do|then|else)\b)\s*yes\b(?P<rest>[^\n;]*)")
_LIMITS: dict[str, str] = TABLE["limits"]


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
        self._tree, self._scratch = bashkit.FileSystem.from_capsule(mount.capsule), mount.scratch
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
        line = _PERMISSION.sub(r'\1-e "/.may-\2:$PWD:/"', line).replace(
            ':$PWD:/"~/', ':$PWD:/$HOME/"'
        )
        line = re.sub(r"\bcommand -v (?=[\w$\"])", "__where ", line)
        output = self._run_apart(f"exec 2>&1; {line}", workdir, {})
        if self._faults:  # too much work, a defect of ours, no memory: never an answer to the model, nor a verdict
            raise self._faults[0]
        text = output.text + output.errors
        if unseen := [
            notice for notice in dict.fromkeys(self._machine.notices) if notice not in text
        ]:
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
        self._machine.notices += _REFUSED.findall(output.errors)
        call.print(output.text)
        return call.say(output.errors, output.code)

    def _fail(self, fault: BaseException) -> None:
        self._faults.append(fault)
        self._cancel()

    def _cancel(self) -> None:
        for running in list(self._running):
            running.cancel()

    def _run_apart(
        self, line: str, workdir: str, env: Mapping[str, str], left_out: str = ""
    ) -> CommandOutput:
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

    def _execute(
        self, line: str, workdir: str, env: Mapping[str, str], left_out: str
    ) -> CommandOutput:
        user = self._machine.ledger.user
        key = (user, len(self._stdin), left_out)
        told = {"user": user, "home": home_of(user), "host": self._machine.host}
        base = {name: text.format(**told) for name, text in TABLE["environment"].items()}
        shell = self._fresh(key, base)
        others = {*env} - {"PWD", "OLDPWD", "_", "SHLVL"}
        own = [
            name
            for name in env
            if name in others and name.isidentifier() and env[name] != base.get(name)
        ]
        exports = "".join(f"export {name}={shlex.quote(env[name])}; " for name in own)
        self._running.append(shell)
        try:
            # One stream, in the order in which things were printed; on one line, so that lines keep their numbers.
            result = shell.execute_sync(
                f"cd -- {shlex.quote(workdir)}; unset OLDPWD; RANDOM=7; {exports}{line}"
            )
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
        text, errors = (
            polish(to_bytes(text)).decode("utf-8", "replace") for text in (printed, result.stderr)
        )
        return CommandOutput(text, result.exit_code, errors)

    def _fresh(self, key: tuple[str, int, str], env: dict[str, str]) -> bashkit.Bash:
        """A shell without a past. Making one anew takes milliseconds, resetting it a tenth of one."""
        if (shell := self._shells.get(key)) is None:
            ours = {
                name: self._builtin(name, command)
                for name, command in COMMANDS.items()
                if name != key[2]
            }
            builtins = {
                folder + name: ours[name] for name in ours for folder in ("", "/bin/", "/usr/bin/")
            }
            stdin = self._stdin
            builtins["__stdin"] = lambda context: stdin[-1] if stdin else ""
            shell = self._shells[key] = bashkit.Bash(
                username=key[0],
                hostname=self._machine.host,
                env=env,
                custom_builtins=builtins,
                **_BOUNDS,
            )
        else:
            shell.reset()
        shell.mount("/", self._tree)
        return shell

    def _stopped(self, error: str, printed: str) -> CommandOutput:
        words = polish(error.encode("utf-8", "replace")).decode()
        if (
            parse := re.match(r"parse error at line (\d+), column \d+: (.*)", words, re.DOTALL)
        ) is not None:
            return CommandOutput(f"bash: -c: line {parse[1]}: {parse[2]}\n", 2)
        if (
            why := next((why for word, why in _LIMITS.items() if word in words.lower()), None)
        ) is None:
            return CommandOutput(f"{printed}bash: {words.removeprefix('bash: ')}\n", 1)
        self._machine.fuel.fine()
        notice = f"Killed: {why} for one call"
        self._machine.notices.append(notice)
        return CommandOutput(f"{printed}{notice}\n", 137)

    def _builtin(self, name: str, command: Command) -> Callable[[Any], Any]:
        shell = self._me

        def run(context: Any) -> Any:
            # What comes through `<(…)` bashkit shows to its own commands alone.
            for pipe in (arg for arg in context.argv if arg.startswith("/dev/fd/")):
                shell._scratch[f"/.bashkit-fd-{pipe[8:]}.tmp"] = context.fs.read_file(pipe)
            args = [re.sub("^/dev/fd/(.*)", r"/.bashkit-fd-\1.tmp", arg) for arg in context.argv]
            call = Call(
                name, args, shell._machine, shell, context.stdin or "", context.cwd, context.env
            )
            try:
                code = shell.run_command(command, call)
            except BaseException as fault:
                shell._fail(fault)
                raise
            return bashkit.BuiltinResult("".join(call.out), "".join(call.err), code)

        return run

    def run_command(self, command: Command, call: Call) -> int:
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
            first, last = (
                int(end) if end[-1].isdecimal() else ord(end)
                for end in (found["first"], found["last"])
            )
            n_words *= abs(last - first) // max(1, abs(int(found["step"] or 1))) + 1
        if n_words > _MAX_BRACES:
            raise Refusal(
                f"bash: {word[:40]} is more than can be written out here ({_MAX_BRACES}); use seq in a loop"
            )
    taken = _ENDLESS.search(line) and re.search(r"\bhead\s+(?:-c\s*|--bytes=)(\d+)([kKMGT]?)", line)
    if taken and (int(taken[1]) > MAX_LINE_CHARS or taken[2]):
        raise Refusal(f"bash: a device gives {MAX_LINE_CHARS} bytes here and no more")
    if (
        why := next(
            (why for pattern, why in TABLE["refused_lines"] if re.search(pattern, line)), None
        )
    ) is not None:
        raise Refusal(why)
    for yes in _YES.finditer(line):
        head = re.search(r"\|\s*head\s+(?:-n\s*|-c\s*|-)?(\d+)([kKMGT]?)", yes["rest"])
        if "|" not in yes["rest"] or (head and (int(head[1]) > 1_000 or head[2])):
            raise Refusal("bash: yes prints 1,000 lines here and no more")
