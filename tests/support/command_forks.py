"""The command without the wait for its imports: a started interpreter that forks a process for each call of it.

Most of the time of a short command goes into loading Python and the program's rooms. `ForkServer` starts one
interpreter that has loaded them and does nothing else; for every call it forks, and the fork takes over the folder, the
environment, the words and the streams of the call and runs `clawgauge.__main__`. Each call is thus a process of its
own, with its own exit code, signals and open files. What a fork cannot show is the start and the very end of the
interpreter: `command.clawgauge` starts a new one where the environment steers that, and so do all tests that hold a
process while it runs.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.host.inventory import PACKAGES, package_versions

# The first three are programs, not rooms. Loading pyarrow starts a thread, and a process with threads must not fork.
NOT_LOADED = ("__main__", "supervisor", "child", "parquet")
LOADED_BESIDES = ("uvloop", "concurrent.futures.thread", "encodings.idna")
# Read by the interpreter or the C library while they start, and never again.
START_VARIABLES = ("PYTHON", "LANG", "LC_", "LD_", "TZ", "MALLOC_")
LENGTH = struct.Struct("!q")


class ForkServer:
    """One call at a time; whoever comes while it is busy starts a process of the usual kind."""

    def __init__(self, **start_variables: str) -> None:
        """`start_variables` are for the start of its interpreter alone; no call sees them."""
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **start_variables},
            )
        self._busy = threading.Lock()
        self._usable = True

    def run(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[bytes] | None:
        """The command to its end, or None where this server cannot show what is asked of it."""
        if any(
            env.get(name) != os.environ.get(name)
            for name in env
            if name.startswith(START_VARIABLES)
        ):
            return None
        if not self._usable or not cwd.is_dir() or not self._busy.acquire(blocking=False):
            return None
        try:
            return self._run({"words": list(words), "cwd": str(cwd), "env": dict(env)}, timeout_s)
        except BaseException:
            self.close()  # what comes next on the channel would belong to this call
            raise
        finally:
            self._busy.release()

    def _run(self, request: dict[str, Any], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
        deadline = time.monotonic() + timeout_s
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        message = json.dumps(request).encode()
        socket.send_fds(self._channel, [LENGTH.pack(len(message))], [out_end, err_end])
        self._channel.sendall(message)
        os.close(out_end)
        os.close(err_end)
        streams = [_Reading(out), _Reading(err)]
        process_id = receive_number(self._channel)
        for stream in streams:
            stream.join(max(0.0, deadline - time.monotonic()))
        if any(stream.is_alive() for stream in streams):
            os.kill(process_id, signal.SIGKILL)
            receive_number(self._channel)  # it is gone, and holds nothing any more
            raise subprocess.TimeoutExpired(request["words"], timeout_s)
        code = receive_number(self._channel)
        return subprocess.CompletedProcess(request["words"], code, streams[0].read, streams[1].read)

    def close(self) -> None:
        """Let the server end; it finishes no call that is still running."""
        self._usable = False
        self._channel.close()
        self._process.kill()
        self._process.wait()  # it was killed


class _Reading(threading.Thread):
    """One stream of a call, read to its end."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self.read = b""
        self.start()

    def run(self) -> None:
        with os.fdopen(self._descriptor, "rb") as stream:
            self.read = stream.read()


def receive_number(channel: socket.socket) -> int:
    number: int = LENGTH.unpack(receive(channel, LENGTH.size))[0]
    return number


def receive(channel: socket.socket, n_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < n_bytes:
        part = channel.recv(n_bytes - len(received))
        if not part:
            raise EOFError("the other side of the fork server is gone")
        received += part
    return bytes(received)


@functools.cache
def fork_server() -> ForkServer | None:
    """The server of this test process; None where forking a process that has loaded so much is not safe."""
    if sys.platform != "linux":
        return None
    server = ForkServer()
    atexit.register(server.close)
    return server


def load_the_rooms() -> None:
    """Import all that a call may need and look at what does not change; nothing of a call itself is done ahead."""
    package = importlib.import_module("clawgauge")
    for module in pkgutil.walk_packages(package.__path__, "clawgauge."):
        if module.name.rpartition(".")[2] not in NOT_LOADED:
            importlib.import_module(module.name)
    for name in LOADED_BESIDES:
        importlib.import_module(name)
    know_the_records(msgspec.Struct)
    package_versions((*PACKAGES, "bashkit"))
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the memory of all that is loaded
    n_threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    assert n_threads == 1, f"{n_threads} threads: one of the loaded modules has started some"


def know_the_records(parent: type[msgspec.Struct]) -> None:
    """Let msgspec look at the fields of each record once, here: every fork would do it again."""
    for record in parent.__subclasses__():
        with contextlib.suppress(TypeError, NameError):  # not all of them are read from JSON
            msgspec.json.Decoder(record)
        know_the_records(record)


def next_call(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for every request: the fork gets it, the server only ever gets None, when its test process has gone."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(channel, LENGTH.size, 2)
        if not head:
            return None
        message = receive(channel, LENGTH.unpack(head)[0])
        process_id = os.fork()
        if process_id == 0:
            channel.close()
            for number, descriptor in enumerate(descriptors, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            request: dict[str, Any] = json.loads(message)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        channel.sendall(LENGTH.pack(process_id))
        _, status = os.waitpid(process_id, 0)
        channel.sendall(LENGTH.pack(os.waitstatus_to_exitcode(status)))


def serve(descriptor: int) -> None:
    """Wait for calls; in a fork, become the command."""
    load_the_rooms()
    with socket.socket(fileno=descriptor) as channel:
        request = next_call(channel)
    if request is not None:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["clawgauge", *request["words"]]
        sys.path[0] = request["cwd"]
        become_the_command()


def become_the_command() -> None:
    """Run `python -m clawgauge`; end as the interpreter would, but for taking apart the hundreds of loaded modules."""
    try:
        runpy.run_module("clawgauge", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter's end does
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
