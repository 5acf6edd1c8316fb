"""Reading results that somebody, or something, has spoilt."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clawgauge.journal import CellKey, encode_line, index_cells, iter_results
from clawgauge.journal.disk import LINE_CAP_BYTES
from clawgauge.journal.folder import RunFolder
from clawgauge.records import CellRow

from .samples import append_now, make_config, make_result


class Latency(CellRow, frozen=True, kw_only=True):
    """The one field some reader wants beside those that every reader reads."""

    e2e_ms: int


def write_run(folder: Path, *lines: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines))
    return folder


def test_a_raw_line_separator_splits_nothing(tmp_path: Path) -> None:
    """Records of a writer that leaves U+2028 and U+0085 raw are still one record each."""
    line = msgspec.json.encode(make_result(raw_output="a\u2028b\x85c")) + b"\n"
    assert [result.raw_output for result in iter_results(write_run(tmp_path, line, line))] == [
        "a\u2028b\x85c"
    ] * 2


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    """A spoilt line in the middle is skipped and counted, each time anew; blank lines are nothing."""
    good = encode_line(make_result())
    spoilt = [
        b"not json\n",
        b"{}\n",
        b'["a"]\n',
        good.replace(b'"ok"', b'"fine"'),
        b"\xff\xfe\n",
        b"\x00" * 9 + b"\n",
    ]
    reader = iter_results(write_run(tmp_path, good, b"\n", *spoilt, b"  \r\n", good))
    assert len(list(reader)) == 2
    assert reader.n_unreadable_lines == 6
    assert len(list(reader)) == 2
    assert reader.n_unreadable_lines == 6


def test_a_small_struct_reads_only_its_fields(tmp_path: Path) -> None:
    """A reader of a few fields is not disturbed by the others, whatever is in them."""
    line = encode_line(make_result(e2e_ms=7)).replace(b'"HEARTBEAT_OK"', b'"\\u0000\xff"')
    assert [
        (row.prompt_id, row.e2e_ms) for row in iter_results(write_run(tmp_path, line), Latency)
    ] == [("P0", 7)]


def test_a_tail_cut_at_every_byte_is_left_alone(tmp_path: Path) -> None:
    """Reading a run killed at any byte yields its whole records, blames no line, and changes no byte."""
    first, last = (
        encode_line(make_result(raw_output="é😀")),
        encode_line(make_result(repeat=1, raw_output="é😀")),
    )
    for cut in range(len(last) + 1):
        reader = iter_results(write_run(tmp_path, first, last[:cut]))
        whole = cut >= len(last) - 1
        assert [result.repeat for result in reader] == ([0, 1] if whole else [0])
        assert reader.n_unreadable_lines == 0
        assert (tmp_path / "results.jsonl").read_bytes() == first + last[:cut]


def test_an_endless_line_is_one_bad_line(tmp_path: Path) -> None:
    """A line over the cap is skipped whole, and the record behind it is read."""
    good = encode_line(make_result())
    endless = b"x" * (2 * LINE_CAP_BYTES + 5)
    reader = iter_results(write_run(tmp_path, endless, b"\n", good, endless))
    assert len(list(reader)) == 1
    assert reader.n_unreadable_lines == 2


def test_a_spoilt_config_does_not_hide_the_results(tmp_path: Path) -> None:
    """With config.json unreadable the results still are."""
    write_run(tmp_path, encode_line(make_result()))
    (tmp_path / "config.json").write_bytes(b"\x00\x00")
    assert len(list(iter_results(tmp_path))) == 1


def test_the_index_tells_how_each_cell_ended(tmp_path: Path) -> None:
    """Resuming sees each cell's last outcome."""
    failed = make_result(availability_status="rate_limited", success=False, failure_type="http_429")
    with RunFolder.create(tmp_path, "r") as folder:
        folder.write("config.json", make_config())
        for result in (failed, make_result(prompt_id="P1", thinking_level="low"), make_result()):
            append_now(folder, result)
    cells = index_cells(folder.path)
    assert cells[CellKey("ollama_openai", "llama3.2:3b", None, "core", "P0", 0)] == "ok"
    assert cells[CellKey("ollama_openai", "llama3.2:3b", "low", "core", "P1", 0)] == "ok"
    assert len(cells) == 2
