"""`Retry-After` in every form servers send it, and in forms they should not."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.providers.retry_after import parse_retry_after

NOW_S = 1_771_000_000.0


@pytest.mark.parametrize(
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


@given(st.text(max_size=60))
def test_no_header_can_break_it(value: str) -> None:
    """Whatever stands in the header, the answer is None or a number of seconds that is not negative."""
    wait_s = parse_retry_after({"Retry-After": value}, NOW_S)
    assert wait_s is None or wait_s >= 0
