"""What is known to make no difference between two calls, and what is known to make one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

LEXICON: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("agreement.toml").read_text("utf-8")
)
PATTERNS: dict[str, re.Pattern[str]] = {
    name: re.compile(text, re.DOTALL) for name, text in LEXICON["patterns"].items()
}
