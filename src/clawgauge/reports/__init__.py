"""Summaries as documents a person reads."""
