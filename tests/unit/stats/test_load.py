"""What a load came to: figures of calls that are made up, so that the truth is known by arithmetic."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from clawgauge.records import CapacitySummary, Load, Slo, TimingsUs
from clawgauge.stats.load import (
    LoadVisit,
    Sample,
    Window,
    find_knee,
    find_within_slo,
    fit_ttft,
    is_enough,
    is_enough_again,
    keeps_slo,
    measure_step,
    measure_visits,
    sample_of,
)
from clawgauge.verdict.load import judge_load
from clawgauge.verdict.wording import word_capacity
from support.load_visits import make_sample, make_window
from support.rows import every_row

R1, R2 = "slots", "prefill"
LIMIT = Slo(ttft_ms=2000)


def truth(server: str, level: int) -> tuple[float, float, float]:
    """Requests a second, mean TTFT and gap in milliseconds, of two servers that can be worked out on paper.

    The first has 8 slots, 70 ms to a first token and 63 gaps of 10 ms; the second one prefill of 320 ms at a time, 16
    slots, and 64 gaps that grow by 5% with every other slot in use.
    """
    if server == R1:
        rate = min(level, 8) / 0.7
        return rate, level / rate * 1000 - 630, 10.0
    gap = 10 * (1 + 0.05 * (min(level, 16) - 1))
    rate = min(level / (320 + 64 * gap) * 1000, 3.125)
    return rate, level / rate * 1000 - 64 * gap, gap


def step(
    server: str, level: int, *, slo: Slo = LIMIT, n: int = 60, failed: int = 0, **window: str
) -> object:
    rate, ttft_ms, gap_ms = truth(server, level)
    n_tokens = 64 if server == R1 else 65
    e2e_ms = ttft_ms + (n_tokens - 1) * gap_ms
    samples = [
        Sample(
            k % level,
            1000 + 1000 * k / rate,
            0.0,
            ttft_ms,
            e2e_ms,
            k >= failed,
            1000,
            n_tokens,
            None,
            [int(gap_ms * 1000)],
        )
        for k in range(n)
    ]
    ends = max(one.ended_ms for one in samples)
    at = Window(step="s", context_tokens=1000, concurrency=level, from_ms=0, to_ms=ends, **window)  # type: ignore[arg-type]
    return measure_step(samples, at, slo)


@every_row("server, knee, saturated, most", [(R1, 8, 11.4286, 30), (R2, 4, 3.125, 9)])
def test_the_knee_and_the_most_clients_are_those_of_the_arithmetic(
    server: str, knee: int, saturated: float, most: int
) -> None:
    steps = [step(server, level) for level in (1, 2, 3, 4, 6, 7, 8, 9, 10, 16, 28, 30, 31, 32)]
    found, within = find_knee(steps), find_within_slo(steps, Slo(ttft_ms=2000))  # type: ignore[arg-type]
    assert found is not None and within is not None
    assert (found.concurrency, found.limited_by) == (knee, server)
    assert found.requests_per_s == pytest.approx(saturated, rel=1e-3)
    assert within.concurrency == most


@every_row(
    "prefill, decode, limited_by",
    [
        # As long as alone: whoever is too many waits in line. One reader that is always busy. Prompts share a reader.
        ((70, 70), (630, 630), "slots"),
        ((70, 95), (630, 630), "prefill"),
        ((70, 700), (630, 700), "prefill"),
        ((70, 100), (630, 1600), "decode"),
    ],
)
def test_a_server_that_tells_where_its_time_went_is_believed(
    prefill: tuple[int, int], decode: tuple[int, int], limited_by: str
) -> None:
    steps = []
    for level in (1, 8, 9, 16):
        told = {"prefill": float(prefill[level > 8]), "decode": float(decode[level > 8])}
        steps.append(msgspec.structs.replace(step(R1, level), server_ms=told))  # type: ignore[type-var]
    at_knee = msgspec.structs.replace(steps[1].ttft_ms, p50=80.0)
    found = find_knee([steps[0], msgspec.structs.replace(steps[1], ttft_ms=at_knee), *steps[2:]])
    assert found is not None and found.limited_by == limited_by


def test_of_a_server_that_tells_of_its_prompts_alone_the_pace_is_ours() -> None:
    steps: list[Any] = [step(R1, level) for level in (1, 8, 9, 16)]
    for place, one in enumerate(steps):
        pace = msgspec.structs.replace(one.tpot_ms, mean=25.0 if place > 1 else 10.0)
        steps[place] = msgspec.structs.replace(one, tpot_ms=pace, server_ms={"prefill": 70.0})
    found = find_knee(steps)
    assert found is not None and found.limited_by == "decode"


def test_a_step_in_which_we_were_late_is_left_out_of_the_knee() -> None:
    steps = [step(R1, 1), step(R1, 8, untrusted="late by 9 ms"), step(R1, 9), step(R1, 16)]
    found = find_knee(steps)  # type: ignore[arg-type]
    assert found is not None and found.concurrency == 9
    assert not steps[1].trusted and "9 ms" in steps[1].untrusted  # type: ignore[attr-defined]


def test_where_more_clients_still_bring_more_there_is_no_knee() -> None:
    assert find_knee([step(R1, level) for level in (1, 2, 4)]) is None  # type: ignore[misc]


def test_what_failed_is_slower_than_any_answer() -> None:
    few, many = step(R1, 8, failed=2), step(R1, 8, failed=6)
    assert keeps_slo(few) and not keeps_slo(many)  # type: ignore[arg-type]
    assert few.n_failed == 2 and few.ttft_ms.beyond == ["p99"]  # type: ignore[attr-defined]
    assert many.ttft_ms.beyond == ["p95", "p99"] and many.ttft_ms.mean == pytest.approx(70)  # type: ignore[attr-defined]
    assert many.attained == pytest.approx(0.9)  # type: ignore[attr-defined]
    # Without an SLO it is still said that the calls fail.
    assert not keeps_slo(step(R1, 8, failed=6, slo=Slo()))  # type: ignore[arg-type]


def test_calls_of_no_time_at_all_and_steps_of_nothing_but_failures_have_figures() -> None:
    """A folder may come from anyone."""
    none = [Sample(0, 1.0, 0.0, 0.0, 0.0, True, 1, 1, None, ())] * 9
    assert (
        measure_step(
            none, Window(step="", context_tokens=0, concurrency=1, from_ms=0, to_ms=2), Slo()
        ).n
        == 9
    )
    assert step(R1, 8, failed=60).goodput_per_s == 0  # type: ignore[attr-defined]


def test_failures_are_no_sign_that_it_could_carry_more() -> None:
    for failed, words in ((6, "cannot tell, too many calls failed: "), (0, "no limit seen: ")):
        lone = step(R1, 1, failed=failed, slo=Slo())
        entry = CapacitySummary(target="a:m", mode="closed", context_tokens=1000, steps=[lone])  # type: ignore[list-item]
        assert word_capacity(entry).startswith(words)
        assert judge_load([entry])[0].ranking[0].fit == "cannot_tell"


def test_p99_of_under_a_hundred_calls_is_the_longest() -> None:
    samples = [Sample(0, k, 0.0, float(k), 1.0, True, None, None, None, ()) for k in range(1, 91)]
    found = measure_step(
        samples, Window(step="", context_tokens=0, rate=1.0, from_ms=0, to_ms=100), Slo()
    )
    assert found.ttft_ms.p99 == 90 and found.ttft_ms.p95 == pytest.approx(85.55)


def test_arrivals_count_from_when_they_were_due_and_a_growing_queue_is_said() -> None:
    # One a second is answered, two a second are due.
    samples = [
        Sample(k, 500.0 * k, 0.0, 500.0 * k, 500.0 * k, True, None, 2, None, ())
        for k in range(1, 61)
    ]
    window = Window(step="", context_tokens=0, rate=2.0, from_ms=0, to_ms=30_000)
    found = measure_step(samples, window, Slo())
    assert found.growing and found.requests_per_s == pytest.approx(1.0)
    assert measure_step(
        samples,
        Window(step="", context_tokens=0, rate=2.0, from_ms=0, to_ms=30_000, n_dropped=20),
        Slo(ttft_ms=1e6),
    ).attained == pytest.approx(0.75)


def test_a_queue_that_comes_and_goes_or_calls_that_fail_have_not_grown() -> None:
    window = Window(step="", context_tokens=0, rate=2.0, from_ms=10_000, to_ms=40_000)
    draw = random.Random(3)
    for failing in (1.0, 0.5):
        calls = [
            Sample(
                k,
                500.0 * k,
                0.0,
                10.0,
                draw.uniform(2_000, 8_000),
                draw.random() < failing,
                None,
                2,
                None,
                (),
            )
            for k in range(120)
        ]
        assert not measure_step(calls, window, Slo()).growing
    # A full house sends the rest away: nothing is out that could be counted.
    full = Window(step="", context_tokens=0, rate=2.0, from_ms=10_000, to_ms=40_000, n_dropped=30)
    assert measure_step(calls, full, Slo()).growing


def test_thinking_that_is_counted_and_never_shown_has_no_part_in_the_pace() -> None:
    def pace(**times: int) -> float | None:
        load, at = Load(client=0, due_us=0, queued_us=0), TimingsUs(e2e=1_900_000, **times)
        counts = {
            "input_tokens": 1,
            "output_tokens": 110,
            "cached_tokens": None,
            "reasoning_tokens": 100,
        }
        told = {
            "success": True,
            "failure_type": None,
            "availability_status": "ok",
            "server_us": None,
        }
        return sample_of(SimpleNamespace(load=load, timings_us=at, **counts, **told)).tpot_ms

    assert pace(ttft=1_000_000, ttfa=1_000_000) == pytest.approx(100)
    assert pace(ttft=810_000, ttfa=1_000_000) == pytest.approx(10), "what is shown counts"


def test_the_first_token_by_length_is_a_line_with_its_interval() -> None:
    draw = random.Random(1)
    steps = [[(x, 20 + 0.05 * x + draw.gauss(0, 2)) for _ in range(20)] for x in (500, 1000, 4000)]
    fit = fit_ttft(steps)
    assert fit is not None and fit.ms_per_1k_tokens == pytest.approx(50, rel=0.02)
    low, high = fit.ms_per_1k_tokens_ci95
    assert low < 50 < high and fit.fixed_ms == pytest.approx(20, abs=2)
    assert fit_ttft([[(1000, 70.0)] * 20]) is None and fit_ttft([[]]) is None
    # What other work on the machine held up now and then is no part of a server's fixed cost.
    for step in steps:
        step[:6] = [(x, y + draw.expovariate(1 / 60)) for x, y in step[:6]]
    held_up = fit_ttft(steps)
    assert held_up is not None and held_up.fixed_ms == pytest.approx(20, abs=2), held_up
    assert held_up.ms_per_1k_tokens == pytest.approx(50, rel=0.02)


def test_a_step_goes_on_until_it_can_tell() -> None:
    def calls(n: int, spread: float, ttft_ms: float = 70.0) -> list[Sample]:
        draw = random.Random(2)
        times = [ttft_ms * (1 + draw.uniform(-spread, spread)) for _ in range(n)]
        return [
            Sample(k % 4, 0, 0, time, time * 10, True, 1, 9, None, ())
            for k, time in enumerate(times)
        ]

    assert not is_enough(calls(7, 0.0), 4, 100.0, Slo()), "too few calls"
    assert not is_enough(calls(60, 0.0), 4, 1.0, Slo()), "too short a time"
    assert not is_enough(calls(80, 0.0), 96, 100.0, Slo()), "not every client was answered"
    assert is_enough(calls(60, 0.01), 4, 3.0, Slo())
    assert not is_enough(calls(60, 0.9), 4, 3.0, Slo()), "the mean is not known yet"
    assert is_enough(calls(240, 0.9), 4, 3.0, Slo()), "it does not go on for ever"
    near = Slo(ttft_ms=70.7)
    assert not is_enough(calls(20, 0.01), 4, 20.0, near), "whether the SLO is kept is not known yet"
    assert is_enough(calls(20, 0.01), 4, 20.0, Slo(ttft_ms=700))


def visits_of(level: int, kept: list[float], *, late: tuple[int, ...] = ()) -> Any:
    """So many clients at R1, whose visits kept the limits in these shares of 100 calls."""
    visits = []
    for number, share in enumerate(kept, start=1):
        samples = []
        for k in range(100):
            ttft_ms = 70.0 if k < round(100 * share) else 5_000.0
            samples.append(make_sample(k % level, ttft_ms, 700.0 * number))
        window = make_window(level, number, is_late=number in late)
        visits.append(LoadVisit(window, samples))
    return measure_visits(visits, LIMIT)


def test_the_figures_of_a_level_are_those_of_its_visits() -> None:
    """Throughput is the mean of logarithms with Student's interval; all else is of all calls."""
    level = visits_of(2, [1.0, 0.9, 0.95])
    rates = [2 / 0.7, 2 / 1.4, 2 / 2.1]
    assert [visit.requests_per_s for visit in level.visits] == pytest.approx(rates)
    assert level.requests_per_s == pytest.approx(math.prod(rates) ** (1 / 3))
    low, high = level.requests_per_s_ci95
    assert low < level.requests_per_s < high
    assert low * high == pytest.approx(level.requests_per_s**2)
    assert (level.n, level.attained) == (300, pytest.approx(0.95))
    assert [visit.attained for visit in level.visits] == pytest.approx([1.0, 0.9, 0.95])
    assert [visit.visit for visit in level.visits] == [1, 2, 3]


def test_a_visit_in_which_we_were_late_is_shown_and_left_out() -> None:
    level = visits_of(2, [1.0, 0.1, 1.0], late=(2,))
    assert level.trusted
    assert level.n == 200
    assert level.attained == 1.0
    assert [visit.visit for visit in level.trusted_visits] == [1, 3]
    assert len(level.visits) == 3
    all_late = visits_of(2, [1.0, 0.5], late=(1, 2))
    assert not all_late.trusted
    assert all_late.n == 100
    assert all_late.attained == pytest.approx(0.5)


def test_the_most_within_the_limits_is_a_range_over_visits() -> None:
    """6 always, 11 in its quiet moments, 12 never: after five rounds that is said as it is; after
    fewer the range is wider by what was tried next to it, and so it is without a late visit.
    """
    always = [1.0] * 5
    moody = [1.0, 0.7, 0.6, 1.0, 0.8]
    steps = [
        visits_of(4, always),
        visits_of(6, always),
        visits_of(8, moody),
        visits_of(11, moody),
        visits_of(12, [0.3] * 5),
    ]
    within = find_within_slo(steps, LIMIT, 5)
    assert within is not None
    assert (within.concurrency, within.concurrency_to, within.broken_at) == (6, 11, 12)
    fewer = find_within_slo(steps, LIMIT, 3)
    assert fewer is not None
    assert (fewer.concurrency, fewer.concurrency_to) == (4, 12)
    late = [*steps[:2], visits_of(8, moody, late=(2,)), *steps[3:]]
    thinner = find_within_slo(late, LIMIT, 5)
    assert thinner is not None
    assert (thinner.concurrency, thinner.concurrency_to) == (4, 12)
    one = find_within_slo(steps, LIMIT)
    assert one is not None
    assert one.concurrency_to is None, "one round tells no range"


def said(steps: list[Any], n_rounds: int) -> str:
    entry = CapacitySummary(
        target="a:m",
        mode="closed",
        context_tokens=16_000,
        steps=steps,
        within_slo=find_within_slo(steps, LIMIT, n_rounds),
        n_rounds=n_rounds,
        slo=LIMIT,
    )
    return word_capacity(entry)


def test_a_range_is_said_with_what_its_ends_mean() -> None:
    always, moody, never = [1.0] * 5, [1.0, 0.7, 0.6, 1.0, 0.8], [0.3] * 5
    steps = [visits_of(6, always), visits_of(11, moody), visits_of(12, never)]
    assert said(steps, 5).startswith(
        "6 to 11 at once at 16k: 6 always, 11 in its quiet moments; at 6 first token p95 70 ms"
    )
    assert "at 12 it breaks your 2.00 s" in said(steps, 5)
    assert said(steps[:2], 5).startswith(
        "6 to 11 at once or more at 16k: 6 always, 11 or more in its quiet moments"
    )
    assert said([visits_of(1, moody), visits_of(2, never)], 5).startswith(
        "0 to 1 at once at 16k: none always, 1 in its quiet moments"
    )
    assert said([visits_of(1, never)], 5).startswith("not even 1 at once at 16k keeps your limits")
    assert "6 to 12 at once at 16k: 3 of 5 rounds were made, so the range is wider" in said(
        steps, 3
    )
    assert "breaks" not in said(steps, 3)
    late = [*steps[:2], visits_of(12, never, late=(2,))]
    assert "this program was late at some visits, so the range is wider" in said(late, 5)
    # A server that is always the same has one number.
    assert said([steps[0], steps[2]], 5).startswith("6 at once at 16k: first token")


def test_a_later_visit_is_short() -> None:
    assert not is_enough_again(7, 4, 100.0), "too few calls"
    assert not is_enough_again(60, 4, 1.0), "too short a time"
    assert not is_enough_again(60, 96, 100.0), "not every client was answered"
    assert not is_enough_again(30, 4, 3.0)
    assert is_enough_again(60, 4, 2.0)
    assert is_enough_again(8, 4, 5.0), "slow calls are not waited for"
