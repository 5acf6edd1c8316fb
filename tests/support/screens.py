"""Whole screens as they were agreed: plain texts in tests/data/screens, one a screen.

After a change that is meant, write them anew and read the difference before it is committed:

    CLAWGAUGE_RENEW_SCREENS=1 .venv/bin/python -m pytest tests/unit/reports/test_screens.py
    git diff tests/data/screens
"""

from __future__ import annotations

import os
from pathlib import Path

SCREENS = Path(__file__).parents[1] / "data" / "screens"
RENEW = "CLAWGAUGE_RENEW_SCREENS"


def check_screen(name: str, text: str) -> None:
    """Fails where `text` is not the screen of that name, letter for letter."""
    path = SCREENS / name
    if os.environ.get(RENEW):
        path.write_text(text, encoding="utf-8")
        return
    assert path.is_file(), f"there is no such screen yet: {RENEW}=1 writes it"
    agreed = path.read_text(encoding="utf-8")
    assert text == agreed, f"{path} says otherwise; if this is meant, {RENEW}=1 writes it anew"
