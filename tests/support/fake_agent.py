"""Puts the fake agent program into a folder as `goose`, with the behaviour that a test wants."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("fake_agent_program.py")


def install_fake_agent(folder: Path, **behaviour: Any) -> Path:
    """A script `goose` in `folder`, which is made; returns its path. May be called again to change the behaviour."""
    folder.mkdir(exist_ok=True)
    behaviour_file = folder / "behaviour.json"
    behaviour_file.write_text(json.dumps(behaviour))
    script = folder / "goose"
    words = shlex.join([sys.executable, "-I", str(PROGRAM), str(behaviour_file)])
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    return script
