"""How the world says no: in the words of the real thing.

Owns: the exceptions that travel from a noun to the tool that shows them. None of them leaves a call. Refuses: being
raised for a specification; that is `SuiteError`.
"""

from __future__ import annotations


class Refusal(Exception):
    """A tool cannot do what it was asked; the message says why, for the model to read."""


class FileFault(Refusal):
    """The file system says no, in the words of strerror(3), such as `No such file or directory`."""


NOT_FOUND = "No such file or directory"
NOT_A_DIRECTORY = "Not a directory"
IS_A_DIRECTORY = "Is a directory"
NOT_EMPTY = "Directory not empty"
DENIED = "Permission denied"
EXISTS = "File exists"
BUSY = "Device or resource busy"
TOO_LARGE = "File too large"
NAME_TOO_LONG = "File name too long"
NO_SPACE = "No space left on device"
INVALID = "Invalid argument"
