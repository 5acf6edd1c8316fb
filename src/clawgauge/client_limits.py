"""This machine's own limits: which faults are ours and never a server's.

Some descriptors are kept unused, so that records and summary can be written whatever the
connections and children of the calls have taken.
"""

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

_RESERVED_DESCRIPTORS = 64
# What a run itself opens once it has begun: its folder, its loop, and what connecting takes for a
# moment.
_OPENED_LATER = 24
# What is taken for open where nobody can tell.
_OPEN_IF_UNKNOWN = 32
# What a resolver opens at once.
_RESOLVER_DESCRIPTORS = 3
_LOWER = "lower --concurrency"
# Waiting helps with these: what another call holds is given back when that call ends.
_EXHAUSTED = {
    errno.EMFILE: (
        f"this program may open no more files and connections: {_LOWER}, "
        "or raise the limit with ulimit -n"
    ),
    errno.ENFILE: (f"this machine has no file descriptor left: close other programs, or {_LOWER}"),
    errno.ENOMEM: f"this machine has no memory left for it: close other programs, or {_LOWER}",
    errno.ENOBUFS: f"this machine has no network buffer left: {_LOWER}",
    errno.EADDRNOTAVAIL: (
        f"this machine has no local address or port left for it: {_LOWER}, or wait a minute"
    ),
    errno.EAGAIN: (
        "this machine starts nothing more for this user: raise the limit with ulimit -u"
    ),
}


def client_limit(fault: BaseException, *, networking: bool = False) -> CallFailure | None:
    """The failure a fault becomes that is this machine's own; None for any other fault.

    With `networking` it is one of bytes on their way to a server.
    """
    number = _error_number(fault)
    if number in _EXHAUSTED:
        return CallFailure("error", "client_limit", _EXHAUSTED[number], retryable=True)
    if networking and number in (errno.EPERM, errno.EACCES):
        # Bytes that did not get as far as the network. For a program these mean that it may not be
        # executed.
        message = "this machine forbids the connection: check its firewall or sandbox"
        return CallFailure("error", "client_limit", message)
    return None


def _error_number(fault: BaseException) -> int | None:
    """The system's number of what went wrong, found out where the fault does not tell it."""
    if isinstance(fault, MemoryError):
        return errno.ENOMEM
    if isinstance(fault, RuntimeError) and "start new thread" in str(fault):
        return errno.EAGAIN
    if not isinstance(fault, OSError):
        return None
    is_of_resolver = isinstance(fault, socket.gaierror)
    if is_of_resolver and fault.errno == socket.EAI_MEMORY:
        return errno.ENOMEM
    # A resolver that can open no socket to ask says that the name is unknown; several faults in one
    # have no number.
    has_no_number = fault.errno is None and not isinstance(fault, TimeoutError)
    if (is_of_resolver or has_no_number) and _is_full():
        return errno.EMFILE
    return fault.errno


def require_descriptors(needed: int, n_kept: int = _RESERVED_DESCRIPTORS) -> None:
    """Raise `OSError` (EMFILE) where opening so many more would use what is kept.

    `n_kept` are for finishing the run.
    """
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


def fit_to_descriptors(concurrency: int, per_call: int) -> int:
    """How many of so many calls may be in flight, where each keeps `per_call` descriptors open.

    This process's own limit is raised as far as they need it.
    """
    if sys.platform == "win32":
        return concurrency
    limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return concurrency
    try:
        n_open = sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        n_open = _OPEN_IF_UNKNOWN
    n_open += _OPENED_LATER
    needed = n_open + concurrency * per_call + _RESERVED_DESCRIPTORS
    if needed > limit:
        # No higher than needed: children inherit it, and some of them do work for every descriptor
        # they might have.
        raised_limit = needed
        if hard_limit != resource.RLIM_INFINITY:
            raised_limit = max(limit, min(needed, hard_limit))
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised_limit, hard_limit))
            limit = raised_limit
    n_kept = min(_RESERVED_DESCRIPTORS, limit // 4)
    n_calls = (limit - n_kept - n_open) // per_call
    return max(1, min(concurrency, n_calls))


def _is_full() -> bool:
    """Whether a resolver can open nothing now."""
    try:
        require_descriptors(_RESOLVER_DESCRIPTORS, n_kept=0)
    except OSError:
        return True
    return False
