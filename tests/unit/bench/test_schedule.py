"""What a model name promises."""

from __future__ import annotations

from bench.schedule import Schedule, word

from support.rows import every_row

MS = 1_000_000


def test_a_name_spells_first_token_gap_and_counts() -> None:
    """Reasoning comes first, then text, then the tool call, one token every gap."""
    schedule = Schedule("t100-i10-n3-r2-c1")
    assert (schedule.n_reasoning, schedule.n_text, schedule.n_tool) == (2, 3, 1)
    assert schedule.offsets_ns() == [100 * MS, 110 * MS, 120 * MS, 130 * MS, 140 * MS, 150 * MS]


@every_row("name", ["t2.5-n2", "prefix/t2.5-n2", "vendor:t2.5-n2-unknown-tx-n"])
def test_parts_that_are_no_schedule_are_ignored(name: str) -> None:
    """Any prefix and any unknown part may stand in a name, and times may be decimal."""
    assert Schedule(name).offsets_ns() == [2_500_000, 2_500_000]


def test_a_name_without_a_schedule_is_sixteen_instant_tokens() -> None:
    """A model name from elsewhere still gets an answer."""
    assert Schedule("gpt-5").offsets_ns() == [0] * 16


def test_jitter_delays_within_its_bound_and_never_reorders() -> None:
    """A jittered token is later than its place by less than the jitter, and never before the one ahead of it."""
    plain, jittered = Schedule("t10-i1-n200").offsets_ns(), Schedule("t10-i1-n200-j5").offsets_ns()
    assert jittered == sorted(jittered)
    assert jittered != plain
    assert all(0 <= late - due < 5 * MS for due, late in zip(plain, jittered, strict=True))


def test_words_count_up() -> None:
    """The text of a reply is w0000 w0001 w0002, so that a lost or doubled token shows."""
    assert "".join(map(word, range(3))) == "w0000 w0001 w0002 "
