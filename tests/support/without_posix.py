"""Runs clawgauge as on a system without POSIX: what Windows lacks cannot be imported, or is gone from its module.

python -m support.without_posix [COMMAND …]     each COMMAND is one text; without any, every module is imported

Behind the output of each command stand a NUL, its exit code and a line end.

What the standard library and the packages need is loaded before: they know their own system. It is no Windows, and
shows only that clawgauge asks for nothing that is not there.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import ssl
import subprocess
import sys
import types

MODULES = ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "syslog", "uvloop")
OF_OS = """
    fork forkpty getuid geteuid getgid getegid setsid killpg getpgid getpgrp setpgid uname getloadavg sysconf
    chown fchown fchmod lchown mkfifo mknod nice getpriority sched_getaffinity sched_setaffinity register_at_fork
    fstatvfs wait3 wait4 waitid pread pwrite readv writev sendfile sync confstr ctermid openpty ttyname fdatasync
    O_NOFOLLOW O_DIRECTORY O_CLOEXEC O_NONBLOCK O_NOCTTY
"""
OF_SIGNAL = """
    SIGKILL SIGHUP SIGQUIT SIGALRM SIGCHLD SIGUSR1 SIGUSR2 SIGPIPE SIGSTOP SIGCONT SIGWINCH
    alarm setitimer pthread_sigmask
"""
# Run as programs of their own.
SCRIPTS = ("clawgauge.__main__", "clawgauge.child_processes.supervisor")


def module_names() -> list[str]:
    import clawgauge

    found = pkgutil.walk_packages(clawgauge.__path__, "clawgauge.")
    return [module.name for module in found if module.name not in SCRIPTS]


def take_posix_away() -> None:
    for name in module_names():
        importlib.import_module(name)
    for name in list(sys.modules):
        if name.partition(".")[0] == "clawgauge":
            del sys.modules[name]
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in OF_OS.split():
        if hasattr(os, name):
            delattr(os, name)
    # How the standard library ends a process here.
    subprocess.signal = types.SimpleNamespace(**vars(signal))  # type: ignore[attr-defined]
    for name in OF_SIGNAL.split():
        if hasattr(signal, name):
            delattr(signal, name)
    os.supports_dir_fd = set()
    os.supports_fd = set()
    os.supports_follow_symlinks = set()
    sys.platform = "win32"
    # Where Windows keeps its certificates, and how it locks a file.
    ssl.enum_certificates = lambda store: []  # type: ignore[attr-defined]
    sys.modules["msvcrt"] = _make_msvcrt()


def _make_msvcrt() -> types.ModuleType:
    """The lock of Windows: one descriptor of a process may have it, whoever else asks is refused."""
    module = types.ModuleType("msvcrt")
    holders: dict[tuple[int, int], int] = {}

    def locking(fd: int, mode: int, n_bytes: int) -> None:
        status = os.fstat(fd)
        file = status.st_dev, status.st_ino
        if mode == module.LK_UNLCK:  # type: ignore[attr-defined]
            holders.pop(file, None)
        elif holders.setdefault(file, fd) != fd:
            raise PermissionError(13, "Permission denied")

    module.LK_UNLCK = 0  # type: ignore[attr-defined]
    module.LK_NBLCK = 2  # type: ignore[attr-defined]
    module.locking = locking  # type: ignore[attr-defined]
    return module


def main() -> int:
    take_posix_away()
    if len(sys.argv) == 1:
        for name in module_names():
            importlib.import_module(name)
        return 0
    from clawgauge.cli import main as run_command

    for command in sys.argv[1:]:
        try:
            code = run_command(command.split())
        except SystemExit as end:
            code = int(end.code or 0)
        print(f"\0{code}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
