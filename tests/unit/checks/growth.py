"""How the time a check takes grows with the text it is given."""

from __future__ import annotations

from collections.abc import Callable

from support import growth

SIZE = 32_768


def grows_linearly(work: Callable[[str], object], unit: str, prefix: str = "", suffix: str = "") -> bool:
    return growth.grows_linearly(lambda size: work(prefix + unit * (size // len(unit)) + suffix), SIZE)
