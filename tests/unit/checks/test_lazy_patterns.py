"""Patterns that are compiled when needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from clawgauge.checks.detection.lazy_pattern import compile_patterns, lazy_pattern


def test_a_lazy_pattern_behaves_as_a_compiled_one() -> None:
    """Searching, groups, flags and the source are those of the pattern."""
    pattern = lazy_pattern(r"(?P<word>a+)b", 2)
    found = pattern.search("xxAAB")
    assert found is not None and found["word"] == "AA"
    assert pattern.pattern == r"(?P<word>a+)b" and pattern.groups == 1
    assert pattern.sub("-", "aab ab") == "- -"


def test_compiling_all_at_once_finds_a_broken_pattern() -> None:
    """What `compile_patterns` has gone through needs no compiling later."""
    lazy_pattern("(")
    with pytest.raises(Exception, match="missing"):
        compile_patterns()
    compile_patterns()


def test_every_pattern_of_the_detectors_is_sound() -> None:
    """Not one of the patterns that wait for their first use is refused when all are compiled."""
    program = (
        "import clawgauge.checks\n"
        "from clawgauge.checks.detection.lazy_pattern import compile_patterns\n"
        "compile_patterns()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
