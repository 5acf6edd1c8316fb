"""The rules of this package, as `rules.toml` has them: patterns, and texts to look for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))


def _make_correction_pattern() -> re.Pattern[str]:
    at_start = "|".join(RULES["taken_back_at_first"])
    anywhere = "|".join(RULES["taken_back"])
    fillers = RULES["fillers"]
    return re.compile(rf"(?i)\A\W*(?:(?:{fillers})\b\W*)*(?:{at_start})|\b(?:{anywhere})")


MASKED_SECRET = re.compile(RULES["masked"])
"""A secret that OpenClaw has masked in its history."""
CORRECTION = _make_correction_pattern()
"""A message of the user that takes back what was done before it."""
