"""What a shell remembers between two commands of one line.

Owns: the working directory, the variables and the last exit code. Refuses: outliving the line; each `exec` starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clawgauge.world import paths


@dataclass(slots=True)
class Scope:
    workdir: str
    home: str
    variables: dict[str, str] = field(default_factory=dict)
    last_code: int = 0
    depth: int = 0

    def copy(self) -> Scope:
        """The scope of a subshell."""
        return Scope(self.workdir, self.home, dict(self.variables), self.last_code, self.depth + 1)

    def resolve(self, path: str) -> str:
        return paths.resolve(path, self.workdir)
