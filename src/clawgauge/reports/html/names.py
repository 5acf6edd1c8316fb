"""What a model is called where space is short: without its provider, unless two would then be called the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clawgauge.records import Target


def short_names(targets: Iterable[Target]) -> dict[Target, str]:
    """A name for each target, no two alike."""
    distinct = set(targets)
    bare = {target: target.label.removeprefix(f"{target.provider}:") for target in distinct}
    uses = Counter(bare.values())
    return {target: bare[target] if uses[bare[target]] == 1 and bare[target] else target.label for target in distinct}
