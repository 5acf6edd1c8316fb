"""The fault tests run the command in a place of their own."""

from __future__ import annotations

from support.run_places import every_run_meets_the_schema, place, server

__all__ = ["every_run_meets_the_schema", "place", "server"]
