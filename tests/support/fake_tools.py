"""Small executables for a PATH of a test's own: `nvidia-smi`, `free` and the like, as shell scripts."""

from __future__ import annotations

from pathlib import Path


def install_tool(bin_dir: Path, name: str, script: str | bytes) -> Path:
    """Write `bin_dir/name` with a shell script. The PATH holds only `bin_dir`, so programs need their full path."""
    bin_dir.mkdir(parents=True, exist_ok=True)
    path = bin_dir / name
    path.write_bytes(
        b"#!/bin/sh\n" + (script.encode() if isinstance(script, str) else script) + b"\n"
    )
    path.chmod(0o755)
    return path


def path_of(bin_dir: Path) -> dict[str, str]:
    """An environment in which nothing but `bin_dir` is searched."""
    return {"PATH": str(bin_dir)}
