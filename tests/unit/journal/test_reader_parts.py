"""A part of results.jsonl, for whoever shares the reading out."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from clawgauge.journal import find_line_start, iter_results
from clawgauge.records import CellRow as Row


def line(prompt_id):
    cell = {"provider": "p", "model": "m", "prompt_id": prompt_id, "suite": "core", "repeat": 0}
    return json.dumps(cell | {"availability_status": "ok", "success": True}).encode() + b"\n"


def write(folder, lines):
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines))
    return folder


@settings(max_examples=60)
@given(lengths=st.lists(st.integers(0, 40), max_size=12), offset=st.integers(-5, 900), torn=st.booleans())
def test_two_parts_are_the_whole(tmp_path_factory, lengths, offset, torn):
    """Cut anywhere, the part before a line's start and the part from it on hold every line exactly once, in order."""
    lines = [line(f"{i}" * length) for i, length in enumerate(lengths)]
    if torn:
        lines.append(b'{"prompt_id": "cut')
    folder = write(tmp_path_factory.mktemp("run"), lines)
    size = sum(map(len, lines))
    cut = find_line_start(folder, min(offset, size))
    assert cut >= max(0, min(offset, size))
    first, second = iter_results(folder, Row, end=cut), iter_results(folder, Row, start=cut)
    parts = [row.prompt_id for row in first] + [row.prompt_id for row in second]
    assert parts == [row.prompt_id for row in iter_results(folder, Row)]
    assert first.torn_tail is False or cut == size
    assert first.bad_lines == second.bad_lines == 0


def test_bad_lines_are_counted_where_they_stand(tmp_path):
    """Each part counts its own bad lines, and a whole pass counts both."""
    good = line("P0")
    folder = write(tmp_path / "run", [b"nonsense\n", good, good, b"more\n"])
    cut = find_line_start(folder, 20)
    assert cut == 9 + len(good)
    counts = []
    for span in ({"end": cut}, {"start": cut}, {}):
        reader = iter_results(folder, Row, **span)
        counts.append((len(list(reader)), reader.bad_lines))
    assert counts == [(1, 1), (1, 1), (2, 2)]
