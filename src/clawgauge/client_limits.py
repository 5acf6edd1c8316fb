"""This machine's own limits: which faults are ours and never a server's, and descriptors kept unused, so that records
and summary can be written whatever the connections and children of the calls have taken."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from pathlib import Path

from clawgauge.errors import CallFailure

if sys.platform != "win32":
    import resource

_RESERVED = 64
# What a run itself opens once it has begun: its folder, its loop, and what connecting takes for a moment.
_OPENED_LATER = 24
_LOWER = "lower --concurrency"
# Waiting helps with these: what another call holds is given back when that call ends.
_USED_UP = {
    errno.EMFILE: f"this program may open no more files and connections: {_LOWER}, or raise the limit with ulimit -n",
    errno.ENFILE: f"this machine has no file descriptor left: close other programs, or {_LOWER}",
    errno.ENOMEM: f"this machine has no memory left for it: close other programs, or {_LOWER}",
    errno.ENOBUFS: f"this machine has no network buffer left: {_LOWER}",
    errno.EADDRNOTAVAIL: f"this machine has no local address or port left for it: {_LOWER}, or wait a minute",
    errno.EAGAIN: "this machine starts nothing more for this user: raise the limit with ulimit -u",
}


def client_limit(fault: BaseException, *, networking: bool = False) -> CallFailure | None:
    """The failure a fault becomes that is this machine's own; None for any other fault."""
    number = fault.errno if isinstance(fault, OSError) else None
    if isinstance(fault, MemoryError) or (isinstance(fault, socket.gaierror) and number == socket.EAI_MEMORY):
        number = errno.ENOMEM
    elif isinstance(fault, RuntimeError) and "start new thread" in str(fault):
        number = errno.EAGAIN
    elif isinstance(fault, socket.gaierror) or (
        isinstance(fault, OSError) and number is None and not isinstance(fault, TimeoutError)
    ):
        # A resolver that can open no socket to ask says that the name is unknown; several faults in one have no number.
        number = errno.EMFILE if _is_full() else number
    if number in _USED_UP:
        return CallFailure("error", "client_limit", _USED_UP[number], retryable=True)
    if networking and number in (errno.EPERM, errno.EACCES):
        # Bytes that did not get as far as the network. For a program these mean that it may not be executed.
        words = "this machine forbids the connection: check its firewall or sandbox"
        return CallFailure("error", "client_limit", words)
    return None


def require_descriptors(needed: int, n_kept: int = _RESERVED) -> None:
    """Raise `OSError` (EMFILE) where opening so many more would use what is kept for finishing the run."""
    if sys.platform == "win32":
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    # The system gives out the lowest number that is free, so the number tells how many are taken.
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    if lowest_free + needed > limit - min(n_kept, limit // 4):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def fit_to_descriptors(wanted: int, per_call: int) -> int:
    """How many calls may be in flight, of those wanted, raising this process's own limit as far as they need it."""
    if sys.platform == "win32":
        return wanted
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    try:
        n_open = _OPENED_LATER + sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        n_open = _OPENED_LATER + 32  # which nobody can tell
    if (needed := n_open + wanted * per_call + _RESERVED) > limit:
        # No higher than needed: children inherit it, and some of them do work for every descriptor they might have.
        raised = max(limit, needed if hard == resource.RLIM_INFINITY else min(needed, hard))
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            limit = raised
    return max(1, min(wanted, (limit - min(_RESERVED, limit // 4) - n_open) // per_call))


def _is_full() -> bool:
    try:
        require_descriptors(3, n_kept=0)  # what a resolver opens at once
    except OSError:
        return True
    return False
