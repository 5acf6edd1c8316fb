"""Ends what a dead program left running. A script of its own, never imported, there in a few milliseconds.

Its standard input names process groups, a line each: `+N` must not outlive whoever holds the other end, `-N` is gone.
When that end closes, however it came to close, the groups still named are killed, and so it ends by itself."""

import os
import signal
import sys


def main() -> None:
    # A signal to everything of a service or a terminal reaches the program too, and its end is what we wait for.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    live: set[int] = set()
    for line in sys.stdin.buffer:
        group_id = int(line[1:])
        if line.startswith(b"+"):
            live.add(group_id)
        else:
            live.discard(group_id)
    for group_id in live:
        try:
            os.killpg(group_id, signal.SIGKILL)
        except OSError:  # gone by itself
            continue
    os._exit(0)


if __name__ == "__main__":
    main()
