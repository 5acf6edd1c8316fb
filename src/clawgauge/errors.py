"""Every exception this package raises on purpose.

ClawgaugeError
├── RequestError            the request was wrong; nothing was sent            exit 2
│   ├── TargetError         a target that cannot be read or does not exist
│   ├── SuiteError          a suite file that is refused (file, prompt, key)
│   ├── ConfigError         a bad option, TOML file or environment value
│   └── RunFolderError      a run that is not there, not ours, or does not match
│       └── compare.IncomparableRuns   two runs that differ in what spoils a comparison
├── MachineError            this machine stops the run                         exit 4
│   ├── RunLocked           another process writes this run folder
│   └── DiskFailure         the disk is full or refuses to write
└── CallFailure             one attempt failed; becomes a record, never a crash

`CallFailure` carries the status and failure type of the record it will become, so a provider maps its
vendor's errors once and nobody else looks at them again.
"""

from __future__ import annotations


class ClawgaugeError(Exception):
    """Base of the tree. Its message is one sentence a user can act on."""

    exit_code = 2


class RequestError(ClawgaugeError):
    """The user asked for something that cannot be done; no call was made."""


class TargetError(RequestError): ...


class SuiteError(RequestError): ...


class ConfigError(RequestError): ...


class RunFolderError(RequestError): ...


class MachineError(ClawgaugeError):
    """The machine, not the request and not the model, ends the run."""

    exit_code = 4


class RunLocked(MachineError): ...


class DiskFailure(MachineError): ...


class CallFailure(ClawgaugeError):
    """One attempt at one call failed.

    Does not decide whether to try again: it only says whether trying again could help.
    """

    def __init__(
        self,
        status: str,
        failure_type: str,
        message: str = "",
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message or failure_type)
        self.status = status
        self.failure_type = failure_type
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.http_status = http_status
