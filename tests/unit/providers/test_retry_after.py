"""`Retry-After` in every form servers send it, and in forms they should not."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime, formatdate

from hypothesis import given
from hypothesis import strategies as st

from clawgauge.providers.http.errors import parse_retry_after
from support.rows import every_row

NOW_S = 1_771_000_000.0


@every_row(
    ("headers", "expected_s"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": " 2 "}, 2.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "99999999"}, 99_999_999.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": formatdate(NOW_S + 30, usegmt=True)}, 30.0),
        ({"Retry-After": formatdate(NOW_S - 30, usegmt=True)}, 0.0),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "abc"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "1e3"}, None),
        ({"Retry-After": "Mon, 99 Foo 2026 00:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_the_grammar(headers: dict[str, str], expected_s: float | None) -> None:
    """Seconds, fractions, milliseconds and dates are honoured; anything else leaves the wait to us."""
    assert parse_retry_after(headers, NOW_S) == expected_s


@given(st.text(max_size=60), st.sampled_from(["Retry-After", "retry-after-ms"]))
def test_no_header_can_break_it(value: str, name: str) -> None:
    """Whatever stands in the header, the answer is None or a finite number of seconds that is not negative."""
    wait_s = parse_retry_after({name: value}, NOW_S)
    assert wait_s is None or (wait_s >= 0 and math.isfinite(wait_s))


@given(
    st.integers(-(10**8), 10**8),
    st.sampled_from(
        ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"]
    ),
)
def test_dates_are_waited_for(ahead_s: int, form: str) -> None:
    """A date in any of HTTP's three forms is that far away, to the second, and 0 once it has passed."""
    when = datetime.fromtimestamp(NOW_S + ahead_s, UTC)
    assert parse_retry_after({"Retry-After": when.strftime(form)}, NOW_S) == max(0, ahead_s)


@given(st.integers(-(10**8), 10**8), st.integers(-23, 23))
def test_a_date_in_another_zone_is_the_same_moment(ahead_s: int, hours: int) -> None:
    """A numeric zone, which HTTP forbids and servers send, moves nothing."""
    when = datetime.fromtimestamp(NOW_S + ahead_s, timezone(timedelta(hours=hours)))
    assert parse_retry_after({"Retry-After": format_datetime(when)}, NOW_S) == max(0, ahead_s)
