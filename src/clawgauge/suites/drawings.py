"""The further drawings of the prompts of a run, made when they are needed."""

from __future__ import annotations

from collections.abc import Mapping

from clawgauge.records import Prompt
from clawgauge.suites.load import WrittenSuite


class Drawings:
    """Draws prompts of some suites, each with other values than it had before.

    `recorded` are drawings that the run has asked already: they are what they were, whatever the
    suites say by now.
    """

    def __init__(
        self,
        suites: Mapping[str, WrittenSuite],
        n_drawings: int,
        recorded: Mapping[tuple[str, str, int], Prompt] | None = None,
    ) -> None:
        self.n_drawings = n_drawings
        self._suites = suites
        self._drawn: dict[tuple[str, str, int], Prompt | None] = dict(recorded or {})

    def draw(self, prompt: Prompt, number: int) -> Prompt | None:
        """The prompt as a drawing has it; None where that is a text which another drawing has.

        Drawing 0 is the prompt as it is.
        """
        if number == 0:
            return prompt
        key = (prompt.suite, prompt.id, number)
        if key not in self._drawn:
            self._drawn[key] = self._draw_anew(prompt, number)
        return self._drawn[key]

    def _draw_anew(self, prompt: Prompt, number: int) -> Prompt | None:
        suite = self._suites.get(prompt.suite)
        if suite is None or number > self.n_drawings:
            return None
        drawn = suite.draw(prompt, number)
        if drawn is None:
            return None
        for earlier_number in range(number):
            if self.draw(prompt, earlier_number) == drawn:
                return None
        return drawn


NO_DRAWINGS = Drawings({}, 0)


def rules_of(suites: Mapping[str, WrittenSuite]) -> dict[str, str]:
    """A hash of what the drawings of each suite are made of, by name."""
    return {name: suite.rules_sha256() for name, suite in suites.items()}
