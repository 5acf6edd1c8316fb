"""What stands under a path: a file or a directory, with owner and mode.

Owns: sizes, and who may read and write what. Refuses: paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field

READ, WRITE, ENTER = 4, 2, 1


@dataclass(slots=True)
class Node:
    """One file or directory. A file of which only the size matters has `hidden_bytes` beside its text."""

    owner: str
    mode: int
    modified_s: int
    text: str = ""
    is_directory: bool = False
    hidden_bytes: int = 0
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.set_text(self.text, self.hidden_bytes)

    def set_text(self, text: str, hidden_bytes: int = 0) -> None:
        self.text = text
        self.hidden_bytes = hidden_bytes
        self.size = 4_096 if self.is_directory else len(text.encode("utf-8", "replace")) + hidden_bytes

    def allows(self, user: str, wish: int) -> bool:
        """Whether `user` may read, write or enter. There are no groups: one is the owner or one of the others."""
        if user == "root":
            return True
        bits = self.mode >> 6 if user == self.owner else self.mode
        return bits & wish == wish

    @property
    def shown_mode(self) -> str:
        """The mode as `ls -l` writes it."""
        letters = "".join(letter if self.mode >> (8 - place) & 1 else "-" for place, letter in enumerate("rwxrwxrwx"))
        if self.mode & 0o1000:
            letters = letters[:-1] + ("t" if letters[-1] == "x" else "T")
        return ("d" if self.is_directory else "-") + letters
