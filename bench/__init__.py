"""Measures clawgauge itself: is its clock true, and is it light. Run with `python -m bench`."""
