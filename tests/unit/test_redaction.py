"""What is taken for a secret, what becomes of it, and what is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.redaction import MASK, Redactor, SecretMask, looks_secret, public_address

KEY = "Canary7-0123456789-vault"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bad key sk-proj-abcdef123456.", "bad key ***."),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
        ("x-api-key: 0123456789abcdef", "x-api-key: ***"),
        ("GET /v1?key=abc&page=2", "GET /v1?key=***&page=2"),
        ("http://me:word@host/v1", "http://***@host/v1"),
        ("AIzaSyA-0123456789_abcdefghij and hf_abcdefghijklmnopqrst", "*** and ***"),
        ("the model gpt-5 is not there; ask for sk-1", "the model gpt-5 is not there; ask for sk-1"),
        ("use Bearer auth, write to me@host.org", "use Bearer auth, write to me@host.org"),
    ],
)
def test_shapes_are_known_without_being_told(text: str, shown: str) -> None:
    """What is shaped like a key is masked, with the words around it kept; prose about keys is not."""
    assert Redactor()(text) == shown


@given(st.text(max_size=40), st.integers(0, len(KEY) - 12), st.integers(12, len(KEY)), st.text(max_size=40))
def test_no_twelve_characters_of_a_known_key_are_left(before: str, start: int, size: int, after: str) -> None:
    """However a cap cut the key, and whatever stands around it, no long piece of it is left in an error message."""
    shown = Redactor([KEY])(f"{before}{KEY[start : start + size]}{after}")
    assert not any(KEY[at : at + 12] in shown for at in range(len(KEY) - 11))


@pytest.mark.parametrize(
    ("value", "secret"),
    [(KEY, True), ("token-abc123", True), ("a" * 20, True), ("ollama", False), ("not-needed", False),
     ("100000000", False), ("1.5e10", False), ("lm-studio", False), ("pass1", False), ("correct-horse", False)],
)  # fmt: skip
def test_what_can_only_be_a_key(value: str, secret: bool) -> None:
    """Long values and those that mix letters and digits are keys; placeholders and numbers are ordinary text."""
    assert looks_secret(value) is secret
    assert (SecretMask([value]).mask(f"say {value} again".encode()) == b"say *** again") is secret


def test_a_known_key_is_masked_in_every_form_it_takes() -> None:
    """As it is, in lower case, inside JSON, inside JSON inside JSON, and inside an address."""
    key = 'Ab1"/\\\\+é=' * 2
    forms = [key, key.lower(), 'Ab1\\"/\\\\\\\\+é=' * 2, "Ab1%22%2F%5C%5C%2B%C3%A9%3D" * 2]
    for form in forms:
        assert SecretMask([key]).mask(f"<{form}>".encode()) == f"<{MASK}>".encode()
        assert Redactor([key])(f"<{form}>") == f"<{MASK}>"


def test_only_the_beginning_of_a_key_at_the_very_end_is_cut_off() -> None:
    """A text that a cap may have cut loses what is left of a key at its end, and nothing else."""
    mask = SecretMask([KEY])
    assert mask.mask_cut_end(f"so {KEY[:9]}") == "so ***"
    for whole in (f"so {KEY[:7]}", f"so {KEY[:9]} on", "so", ""):
        assert mask.mask_cut_end(whole) == whole


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("http://me:word@host:8080/v1?key=abc#x", "http://host:8080/v1"),
        ("https://[::1]:443/v1", "https://[::1]:443/v1"),
    ],
)
def test_an_address_is_shown_without_what_is_private(address: str, public: str) -> None:
    """User-info, query and fragment may hold secrets; the rest tells where the server is."""
    assert public_address(address) == public
