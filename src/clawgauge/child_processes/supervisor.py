"""Ends what a dead program left running. A script of its own, started in a few milliseconds.

Its standard input names process groups, a line each: `+N` must not outlive whoever holds the other
end, `-N` is gone. When that end closes, however it came to close, the groups that are still named
are killed, and the script ends. It is never imported.
"""

import os
import signal
import sys


def main() -> None:
    # A signal to everything of a service or a terminal reaches the program too, and its end is what
    # we wait for.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    live_groups: set[int] = set()
    for line in sys.stdin.buffer:
        group_id = int(line[1:])
        if line.startswith(b"+"):
            live_groups.add(group_id)
        else:
            live_groups.discard(group_id)
    for group_id in live_groups:
        try:
            end(group_id)
        except OSError:  # gone by itself
            continue
    os._exit(0)


def end(group_id: int) -> None:
    if hasattr(os, "killpg"):
        os.killpg(group_id, signal.SIGKILL)
        return
    # Windows has no groups, and its own program for a process and all that came of it.
    import subprocess

    subprocess.run(["taskkill", "/T", "/F", "/PID", str(group_id)], check=False)


if __name__ == "__main__":
    main()
