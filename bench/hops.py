"""`python -m bench.hops [--list]`: how many functions and files one prompt passes through, from `main` to its line.

Two stretches of `clawgauge run -t NAME:MODEL -s core --prompt-ids P0` are walked with a profiler in the main thread:
from `main` to the first byte of the first call (`asked`: without the free look at the target before the run), and from
taking the cell to its line on disk. Code that runs while a module is imported is not counted, nor are comprehensions
and generator expressions, no functions to a reader.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from bench.server_process import serving

MODEL = "t0-i0-n16"
_ROOT = "/clawgauge/"
_INLINE = frozenset({"<module>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})


class Walk:
    """Distinct functions, by stretch: `way` until the request goes out, `cell` from the agenda to the journal.

    `asked` is the way without the free look at every target that comes before a run has a folder.
    """

    def __init__(self) -> None:
        self.stretches: dict[str, dict[tuple[str, str], None]] = {
            "way": {},
            "asked": {},
            "cell": {},
        }
        self._is_open = {"way": True, "asked": True, "cell": False}
        self._outside: set[FrameType] = set()

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event != "call" or _ROOT not in frame.f_code.co_filename:
            return
        code = frame.f_code
        place = (code.co_filename.rpartition(_ROOT)[2], code.co_qualname)
        if code.co_name in _INLINE or _is_importing(frame):
            return
        if place[1] == "Agenda.take" and not self.stretches["cell"]:
            self._is_open["cell"] = True
            # Whoever awaits the cell is called again at every turn of the loop, and is no part of it.
            self._outside = set(_callers(frame))
        if place[1] in ("look_ahead", "RunFolder.create") and self._is_open["way"]:
            self._is_open["asked"] = place[1] == "RunFolder.create"
        if place == ("timeline.py", "Timeline.start"):
            self._is_open["way"] = self._is_open["asked"] = False
        for name, is_open in self._is_open.items():
            if is_open and frame not in self._outside:
                self.stretches[name][place] = None
        if code.co_name == "recorded":
            self._is_open["cell"] = False


def _callers(frame: FrameType) -> Iterator[FrameType]:
    caller = frame.f_back
    while caller is not None:
        yield caller
        caller = caller.f_back


def _is_importing(frame: FrameType) -> bool:
    return any(
        each.f_code.co_name == "<module>" and _ROOT in each.f_code.co_filename
        for each in _callers(frame)
    )


def main(argv: list[str]) -> int:
    from clawgauge.cli import main as clawgauge

    walk = Walk()
    with serving() as server, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("clawgauge.toml").write_text(
            f'[providers.here]\ntype = "openai_chat"\nbase_url = "{server.base_url}"\n'
        )
        words = [
            "run",
            "-t",
            f"here:{MODEL}",
            "-s",
            "core",
            "--prompt-ids",
            "P0",
            "--config",
            "clawgauge.toml",
        ]
        sys.setprofile(walk)
        try:
            code = clawgauge(words)
        finally:
            sys.setprofile(None)
    for name, places in walk.stretches.items():
        files = Counter(file for file, _ in places)
        print(f"{name}: {len(places)} functions in {len(files)} files")
        if "--list" in argv:
            print(
                "\n".join(
                    f"  {file}: {', '.join(n for f, n in places if f == file)}" for file in files
                )
            )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
