"""The arithmetic of truth: what counts as an error, and which record meets which row."""

from __future__ import annotations

import msgspec
import pytest
from bench.fidelity import pair_up, record_errors
from bench.figures import median_of, spread
from bench.truth import TruthRow, read_rows, write_rows
from bench.workplace import Record, Timings

MS = 1_000_000


def record(prompt_id: str, *, ttft_us: int | None = 101_000, started_at_ms: int = 0) -> Record:
    timings = Timings(e2e=152_000, ttft=ttft_us, ttfa=121_500, connect=None)
    return Record(prompt_id, started_at_ms, True, True, 6, timings, 100.0)


def row(tag: str, recv_ns: int = 7 * MS) -> TruthRow:
    return TruthRow(
        id=tag,
        tokens=6,
        recv_ns=recv_ns,
        reason_ns=recv_ns + 100 * MS,
        first_ns=recv_ns + 120 * MS,
        last_ns=recv_ns + 150 * MS,
    )


def test_an_error_is_what_was_recorded_minus_what_passed_at_the_server() -> None:
    """First token, first answer token and end are each compared with their own stamp; rates in per cent."""
    errors = record_errors([(record("P1"), row("p1"))])
    assert {name: figures["p50"] for name, figures in errors.items()} == {
        "ttft_ms": 1.0,
        "ttfa_ms": 1.5,
        "e2e_ms": 2.0,
        "tps_pct": 0.0,
    }


def test_a_record_without_a_first_token_is_no_measurement() -> None:
    """A missing figure may not quietly improve the rest."""
    with pytest.raises(ValueError, match="P1"):
        record_errors([(record("P1", ttft_us=None), row("p1"))])


def test_a_record_without_a_rate_is_left_out_of_the_rates() -> None:
    """A client that read all tokens at once saw no rate; its times still count."""
    unrated = msgspec.structs.replace(record("P1"), output_tps=None)
    errors = record_errors([(unrated, row("p1")), (record("P2"), row("p2"))])
    assert (errors["ttft_ms"]["n"], errors["tps_pct"]["n"]) == (2, 1)


def test_records_meet_their_rows_by_tag_in_any_order() -> None:
    """Rows are logged as requests end, records as they are written: only the tag tells."""
    records = {name: record(name) for name in ("P1", "P2")}
    pairs = pair_up(records, [row("p2", 1), row("p1", 2)], by_tag=True)
    assert [(one.prompt_id, truth.id) for one, truth in pairs] == [("P1", "p1"), ("P2", "p2")]


def test_without_tags_calls_are_matched_in_the_order_they_began() -> None:
    """A log that does not know the prompts is still of use."""
    records = {"P1": record("P1", started_at_ms=20), "P2": record("P2", started_at_ms=10)}
    pairs = pair_up(records, [row("r1", 1), row("r2", 2)], by_tag=False)
    assert [(one.prompt_id, truth.id) for one, truth in pairs] == [("P2", "r1"), ("P1", "r2")]


def test_without_tags_a_missing_call_is_noticed() -> None:
    """Two logs of different length cannot be laid side by side."""
    with pytest.raises(ValueError, match="longer"):
        pair_up({"P1": record("P1")}, [row("r1"), row("r2")], by_tag=False)


def test_the_log_survives_its_csv() -> None:
    """What the server wrote is what the bench reads, and columns of other servers do no harm."""
    rows = [row("p1"), row("p2", 9)]
    assert read_rows(write_rows(rows)) == rows
    assert read_rows("seq,id,strange\n4,x,y\n") == [TruthRow(seq=4, id="x")]


def test_spread_and_its_median_over_rounds() -> None:
    """Percentiles interpolate; rounds are summed up figure by figure."""
    assert spread([4.0, 1.0, 2.0, 3.0])["p50"] == 2.5
    assert median_of([spread([1.0]), spread([9.0]), spread([2.0])])["p99"] == 2.0
