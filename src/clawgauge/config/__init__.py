"""Flags, environment and TOML made into settings. Nothing after this room reads any of them
again."""
