"""No progress at all."""

from __future__ import annotations

from typing import Self

from clawgauge.runner.observer import Observer


class Silent(Observer):
    """For `--quiet`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None
