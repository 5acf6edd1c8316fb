"""Every exception this package raises on purpose.

ClawgaugeError
├── RequestError            the request was wrong; nothing was sent            exit 2
│   ├── TargetError         a target that cannot be read or does not exist
│   ├── SuiteError          a suite file that is refused (file, prompt, key)
│   ├── ConfigError         a bad option, TOML file or environment value
│   ├── fleet.wire.NodeLost    a machine that cannot be reached, or not any more
│   └── RunFolderError      a run that is not there, not ours, or does not match
│       └── compare.IncomparableRuns   two runs that differ in what spoils a comparison
├── MachineError            this machine stops the run                         exit 4
│   ├── RunLocked           another process writes this run folder
│   └── DiskFailure         the disk is full or refuses to write
└── CallFailure             one attempt failed; becomes a record, never a crash
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Status = Literal["ok", "skipped_unavailable", "auth_error", "rate_limited", "error"]
"""`availability_status` of a record: what became of asking."""


class ClawgaugeError(Exception):
    """Base of the tree.

    Its message is one sentence a user can act on; `lines`, one below the other, go with it.
    """

    exit_code = 2

    def __init__(self, message: str = "", lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lines = lines


class RequestError(ClawgaugeError): ...


class TargetError(RequestError): ...


class SuiteError(RequestError): ...


class ConfigError(RequestError): ...


class RunFolderError(RequestError): ...


class MachineError(ClawgaugeError):
    exit_code = 4


class RunLocked(MachineError): ...


class DiskFailure(MachineError): ...


class CallFailure(ClawgaugeError):
    """One attempt failed, or was not made.

    Has the status and failure type of the record it will become: a provider maps its vendor's
    errors once. `retryable` says that another attempt may succeed, and `retry_after_s` when the
    server asks for it.
    """

    def __init__(
        self,
        status: Status,
        failure_type: str,
        message: str = "",
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message or failure_type)
        self.status: Status = status
        self.failure_type = failure_type
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.http_status = http_status
