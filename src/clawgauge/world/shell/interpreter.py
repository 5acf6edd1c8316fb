"""Running a tree of commands on the simulated machine.

Owns: pipelines, redirects, exit codes, loops. Refuses: running anything on the host; every command is a function of
this package, and a name that is none of them is not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clawgauge.world.fuel import STEP
from clawgauge.world.machine import Machine
from clawgauge.world.refusals import FileFault, Refusal
from clawgauge.world.shell.call import Call, CommandFunction, UsageFault
from clawgauge.world.shell.expansion import Expander
from clawgauge.world.shell.grammar import Command, CommandList, For, Group, If, Pipeline, Redirect, Simple, While, parse
from clawgauge.world.shell.scope import Scope
from clawgauge.world.shell.streams import Input, Output
from clawgauge.world.shell.tokens import ShellSyntaxError

_MAX_SUBSHELLS = 8
_NOT_FOUND = 127


class ShellExit(Exception):
    """`exit`: ends the shell it stands in."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Streams:
    """Where a command reads and writes. At the top, output and errors are one stream, as in a terminal."""

    stdin: Input
    out: Output
    err: Output


class Shell:
    """One shell: a machine, a scope, and the commands there are."""

    def __init__(self, machine: Machine, scope: Scope, commands: Mapping[str, CommandFunction]) -> None:
        self._machine = machine
        self._scope = scope
        self._commands = commands
        self._expander = Expander(machine.files, machine.fuel, scope, self._substitute)

    def run_text(self, text: str, streams: Streams) -> int:
        """Run a command line; what cannot be read or expanded is said on standard error."""
        try:
            return self._run_list(parse(text), streams)
        except ShellSyntaxError as error:
            streams.err.write(f"sh: {error}\n")
            return 2
        except ShellExit as leaving:
            return leaving.code

    def _subshell(self) -> Shell:
        if self._scope.depth >= _MAX_SUBSHELLS:
            raise ShellSyntaxError("commands are nested too deeply")
        return Shell(self._machine, self._scope.copy(), self._commands)

    def _substitute(self, text: str) -> str:
        out, err = Output(self._machine.fuel), Output(self._machine.fuel)
        self._scope.last_code = self._subshell().run_text(text, Streams(Input(), out, err))
        return out.text

    def _run_list(self, commands: CommandList, streams: Streams) -> int:
        code = 0
        for connector, pipeline in commands.steps:
            if (connector == "&&" and code != 0) or (connector == "||" and code == 0):
                continue
            code = self._run_pipeline(pipeline, streams)
            self._scope.last_code = code
        return code

    def _run_pipeline(self, pipeline: Pipeline, streams: Streams) -> int:
        code = 0
        stdin = streams.stdin
        last = len(pipeline.commands) - 1
        for index, command in enumerate(pipeline.commands):
            out = streams.out if index == last else Output(self._machine.fuel)
            # Each part of a pipe is a shell of its own: `cd` in one does not move the others.
            shell = self._subshell() if last else self
            try:
                code = shell._run_command(command, Streams(stdin, out, streams.err))
            except ShellExit as leaving:
                if not last:
                    raise
                code = leaving.code
            if index < last:
                stdin = Input(out.text)
        return int(code == 0) if pipeline.negated else code

    def _run_command(self, command: Command, streams: Streams) -> int:
        self._machine.fuel.spend(STEP)
        files: list[tuple[str, Output]] = []
        leaving: ShellExit | None = None
        try:
            code = self._run_redirected(command, self._redirect(command.redirects, streams, files))
        except FileFault as fault:
            streams.err.write(f"sh: {fault}\n")
            code = 1
        except ShellExit as error:
            leaving, code = error, error.code
        flushed = [self._flush(path, output, streams) for path, output in files]
        if leaving is not None:
            raise leaving
        return code if all(flushed) else code or 1

    def _run_redirected(self, command: Command, streams: Streams) -> int:
        match command:
            case Simple():
                return self._run_simple(command, streams)
            case Group(own_scope=True):
                try:
                    return self._subshell()._run_list(command.body, streams)
                except ShellExit as leaving:
                    return leaving.code
            case Group():
                return self._run_list(command.body, streams)
            case For():
                return self._run_for(command, streams)
            case While():
                return self._run_while(command, streams)
            case If():
                return self._run_if(command, streams)

    def _run_for(self, loop: For, streams: Streams) -> int:
        code = 0
        for value in self._expander.words(loop.words):
            self._machine.fuel.spend(STEP)
            self._scope.variables[loop.variable] = value
            code = self._run_list(loop.body, streams)
        return code

    def _run_while(self, loop: While, streams: Streams) -> int:
        code = 0
        while (self._run_list(loop.condition, streams) == 0) != loop.until:
            self._machine.fuel.spend(STEP)
            code = self._run_list(loop.body, streams)
        return code

    def _run_if(self, choice: If, streams: Streams) -> int:
        for condition, body in choice.branches:
            if condition is None or self._run_list(condition, streams) == 0:
                return self._run_list(body, streams)
        return 0

    def _run_simple(self, command: Simple, streams: Streams) -> int:
        args = self._expander.words(command.words)
        before = dict(self._scope.variables)
        for name, word in command.assignments:
            self._scope.variables[name] = self._expander.text(word)
        if not args:
            return self._scope.last_code if command.assignments else 0
        code = self._run_args(args, streams.stdin, streams.out, streams.err)
        # `IFS=, read a b`: what stands before a command is set for that command alone.
        for name, _ in command.assignments:
            if name in before:
                self._scope.variables[name] = before[name]
            else:
                self._scope.variables.pop(name, None)
        return code

    def _run_args(self, args: list[str], stdin: Input, out: Output, err: Output) -> int:
        self._machine.fuel.spend(STEP)
        name = (
            args[0].rpartition("/")[2]
            if args[0].startswith(("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"))
            else args[0]
        )
        function = self._commands.get(name)
        if function is None:
            return self._say_not_found(args[0], err)
        call = Call(name, args[1:], self._machine, self._scope, stdin, out, err, self._run_args)
        try:
            return function(call)
        except UsageFault as fault:
            return call.complain(str(fault), fault.code)
        except Refusal as refusal:
            return call.complain(str(refusal))

    def _say_not_found(self, name: str, err: Output) -> int:
        path = self._scope.resolve(name)
        if "/" in name and self._machine.files.exists(path):
            err.write(f"sh: {name[:200]}: programs and scripts cannot be run here, only the common commands\n")
            return 126
        err.write(f"sh: {name[:200]}: {'No such file or directory' if '/' in name else 'command not found'}\n")
        return _NOT_FOUND

    # --- redirects ---------------------------------------------------------------------------------------------------

    def _redirect(self, redirects: list[Redirect], streams: Streams, files: list[tuple[str, Output]]) -> Streams:
        """The streams after the redirects, left to right; output to files is collected in `files`."""
        by_number = {1: streams.out, 2: streams.err}
        stdin = streams.stdin
        for redirect in redirects:
            target = self._expander.text(redirect.target)
            match redirect.operator:
                case "<<":
                    stdin = Input(target)
                case "<<<":
                    stdin = Input(target + "\n")
                case "<":
                    stdin = Input(self._read(target))
                case ">&" if target in ("1", "2"):
                    by_number[redirect.source or 1] = by_number[int(target)]
                case "<&" | ">&":
                    raise ShellSyntaxError(f"{target[:60]}: this redirect is not supported")
                case operator:
                    output = self._open(target, append=operator.endswith(">>"), files=files)
                    by_number[redirect.source or 1] = output
                    if operator.startswith("&"):
                        by_number[2] = output
        return Streams(stdin, by_number[1], by_number[2])

    def _read(self, target: str) -> str:
        try:
            return self._machine.files.read(self._scope.resolve(target))
        except FileFault as fault:
            raise FileFault(f"{target[:300]}: {fault}") from None

    def _open(self, target: str, *, append: bool, files: list[tuple[str, Output]]) -> Output:
        # The file is made, or emptied, before the command runs: `sort f > f` loses f here as anywhere.
        path = self._scope.resolve(target)
        try:
            self._machine.files.write(path, "", append=append)
        except FileFault as fault:
            raise FileFault(f"{target[:300]}: {fault}") from None
        output = Output(self._machine.fuel)
        files.append((path, output))
        return output

    def _flush(self, path: str, output: Output, streams: Streams) -> bool:
        """Put what was written into the file; false where the disk refused it."""
        text = output.text
        try:
            if text:
                self._machine.files.write(path, text, append=True)
        except FileFault as fault:
            streams.err.write(f"sh: write error: {path[:300]}: {fault}\n")
            return False
        return True
