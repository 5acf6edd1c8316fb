"""Values nobody specified: process ids, ages of files, milliseconds of load.

Owns: making them from the seed and a name alone, so that they do not depend on the order of the specification.
Refuses: randomness.
"""

from __future__ import annotations

import hashlib


class Incidentals:
    """Numbers that look arbitrary and are the same every time."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def between(self, least: int, most: int, *name: object) -> int:
        """A whole number from `least` to `most` for the thing called `name`."""
        digest = hashlib.sha256(repr((self._seed, *name)).encode("utf-8", "replace")).digest()
        return least + int.from_bytes(digest[:8], "big") % (most - least + 1)
