"""The reference values (scipy, statsmodels) the stats tests share, and the tolerance they are met to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "stats_vectors.json").read_text()
)


def close(expected: Any) -> Any:
    """Equal to within 1e-9, in absolute and in relative terms."""
    return pytest.approx(expected, abs=1e-9, rel=1e-9)
