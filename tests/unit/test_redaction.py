"""What is taken for a secret, what becomes of it, and what is left alone."""

from __future__ import annotations

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.readings import as_shown
from clawgauge.reports.clean import clean_terminal
from clawgauge.secrets import MASK, Redactor, SecretMask, looks_secret, public_address
from support.growth import grows_linearly
from support.rows import every_row

KEY = "Canary7-0123456789-vault"


@every_row(
    ("text", "shown"),
    [
        ("bad key sk-proj-abcdef123456.", "bad key ***."),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
        ("x-api-key: 0123456789abcdef", "x-api-key: ***"),
        ("GET /v1?key=abc&page=2", "GET /v1?key=***&page=2"),
        ("http://me:word@host/v1", "http://***@host/v1"),
        ("AIzaSyA-0123456789_abcdefghij and hf_abcdefghijklmnopqrst", "*** and ***"),
        ("AWS_SECRET_ACCESS_KEY=wJalr/UtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***"),
        ("MISTRAL_API_KEY=abcdefghij DB2_PASSWORD=x!y", "MISTRAL_API_KEY=*** DB2_PASSWORD=***"),
        ("SECRET_KEY='a b c' passwd=abc", "SECRET_KEY='***' passwd=***"),
        ("password: p@ssw0rd!123", "password: ***"),
        ("db_pwd: tr'oub, passphrase = correct", "db_pwd: ***, passphrase = ***"),
        (r"{\"token\": \"abc def\", \"n\": 1}", r"{\"token\": \"***\", \"n\": 1}"),
        ('{"client_secret": "it\'s me", "n": 1}', '{"client_secret": "***", "n": 1}'),
        ("sk_live_51H8abcdef glpat-abcdefghij0123456789", "*** ***"),
        ("curl -u ana:hunter2 http://h/", "curl -u ana:*** http://h/"),
        (
            f"dop_v1_{'0a1b' * 16} lin_api_{'aB3d' * 10} key-{'0a1b' * 8} figd_{'aB3d' * 10}",
            "*** *** *** ***",
        ),
        (f"ya29.{'aB3d' * 9} GOCSPX-{'aB3d' * 7} tskey-auth-kA1-{'aB3d' * 6}", "*** *** ***"),
        ("root:$6$abcdefgh$0123456789abcdefghij:19000:", "root:***:19000:"),
        ("https://hooks.slack.com/services/T01/B02/abc", "https://hooks.slack.com/services/***"),
        ("https://h/x?X-Amz-Signature=0a1b&page=2", "https://h/x?X-Amz-Signature=***&page=2"),
        (
            "AccountName=a;AccountKey=ab/c+d==; api key: 0a1b2c",
            "AccountName=a;AccountKey=*** api key: ***",
        ),
        (f"seed phrase: {'ribbon ' * 11}zebra, so", "seed phrase: ***, so"),
        ("Set-Cookie: theme=dark; sid=0a1b2c", "Set-Cookie: ***"),
        ("the password is tr0ubador, and DB_PASS=abc", "the password is *** and DB_PASS=***"),
        ("Passwort: abc mot de passe : def", "Passwort: *** mot de passe : ***"),
        (
            "tool --password hunter2 x; sshpass -p 'hunter2' ssh h",
            "tool --password *** x; sshpass -p '***' ssh h",
        ),
        (
            "mysql -u root -phunter2 prod; machine h login ana password hunter2",
            "mysql -u root -p*** prod; machine h login ana password ***",
        ),
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nMIIE+a\n=ab\n-----END PGP PRIVATE KEY BLOCK-----",
            "***",
        ),
        (f"commit {'0a1b' * 10}, sha256-{'0a1b' * 16}, 01ae95ec-c683-4b40-80a7-9e18d8d51e48",) * 2,
        (
            "the password is required; the token is invalid; tool --token $T --password-file x; mysql -p prod",
        )
        * 2,
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE+a/b=\n-----END RSA PRIVATE KEY-----\nand on",
            "***\nand on",
        ),
        (r"-----BEGIN PRIVATE KEY-----\nMIIEabc", "***"),
        (
            "npm_config_cache_directory global-defaults-of-the-house",
            "npm_config_cache_directory global-defaults-of-the-house",
        ),
        (
            "first token: 350 ms, max_tokens=4096, token: null",
            "first token: 350 ms, max_tokens=4096, token: null",
        ),
        (
            "core/P0 echo_token: pass, 66 ms; token: passage",
            "core/P0 echo_token: pass, 66 ms; token: ***",
        ),
        ("P0 echo_token: fail (not_exact), P0 echo_token: no answer (x)",) * 2,
        (
            "PWD=/home/ana TOKEN=$MY_TOKEN docker run -u 1000:1000",
            "PWD=/home/ana TOKEN=$MY_TOKEN docker run -u 1000:1000",
        ),
        (
            "the model gpt-5 is not there; ask for sk-1",
            "the model gpt-5 is not there; ask for sk-1",
        ),
        ("use Bearer auth, write to me@host.org", "use Bearer auth, write to me@host.org"),
    ],
)
def test_shapes_are_known_without_being_told(text: str, shown: str) -> None:
    """What is shaped like a key is masked, with the words around it kept; prose about keys is not."""
    assert Redactor()(text) == shown


PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
REDACT, MASKED = Redactor([KEY]), SecretMask([KEY])


@given(PLAIN, st.integers(0, len(KEY) - 8), st.integers(8, len(KEY)), PLAIN)
def test_no_eight_characters_of_a_known_key_are_left(
    before: str, start: int, size: int, after: str
) -> None:
    """However a cap cut the key, and whatever stands around it, no piece of it is left, in an error or in an answer."""
    text = f"{before}{KEY[start : start + size]}{after}"
    for shown in (REDACT(text), MASKED.mask(text)):
        assert not any(KEY[at : at + 8] in shown for at in range(len(KEY) - 7))
    assert MASKED.finds(json.dumps(text).encode())


def test_a_key_that_begins_as_a_known_one_is_masked_whole() -> None:
    assert (
        Redactor([f"sk-ant-api03-{KEY}"])("mine: sk-ant-api03-Zz9Yy8Xx7Ww6, so") == "mine: ***, so"
    )


PASSPHRASE = "correct Horse battery-staple"


@every_row(
    "text", ["a battery is flat", "correct.", "staple it", "Horse races", "|--------|--------|"]
)
def test_the_words_of_a_passphrase_are_words(text: str) -> None:
    """An answer keeps its ordinary words though a secret has them too; more than one of them in a row it does not."""
    mask = SecretMask([PASSPHRASE, "-" * 30 + "x1"]).mask
    assert mask(text) == text
    assert mask("say (Horse battery-s) now") == mask(f"say ({PASSPHRASE}) now") == "say (***) now"


@every_row(
    ("text", "shown"), [("so correct ", "so ***"), ("y-staple so", "*** so"), ("correct h", "***")]
)
def test_what_a_cut_left_of_a_passphrase_is_no_word(text: str, shown: str) -> None:
    """The beginning of a secret at the very end of a text, or the end of one at its beginning, is what a cap left."""
    assert SecretMask([PASSPHRASE]).mask(text) == shown
    assert SecretMask([PASSPHRASE]).finds(json.dumps({"a": text}).encode())


def test_the_own_words_of_a_run_are_left_alone() -> None:
    """What stands in a prompt may stand in its answer, though eight letters of it are also those of a key."""
    mask = SecretMask(
        ["sk-ant-api03-Q7w8E9r0T1y2"], own_words="do keys begin with sk-ant-api03-?"
    ).mask
    assert mask("yes, sk-ant-api03-") == "yes, sk-ant-api03-"
    assert mask("it is sk-ant-api03-Q7w8E9r0T1y2.") == "it is ***."


def test_half_a_surrogate_pair_beside_a_key() -> None:
    """Text that no encoder takes is masked all the same."""
    assert MASKED.mask(f"\ud800{KEY}\udc00") == "\ud800***\udc00"


def test_masking_goes_through_hostile_text_once() -> None:
    """A text of nothing but the key, or of the characters that spell it, is gone through once."""
    fillers = [
        KEY,
        KEY[:7],
        "\\",
        "%25",
        "&#",
        "-eyJ",
        "a-",
        "token ",
        "bearer  ",
        "password: ",
        "api_key=",
        "a",
        "token='",
    ]
    for filler in (*fillers, "x'y", "-----BEGIN PRIVATE KEY-----", " -u a:", "_"):
        text = (filler * 65_536)[:65_536]
        assert KEY[:8] not in MASKED.mask(text) and KEY[:8] not in REDACT(text)


# Each of them begins a way to read a text, or goes on with one, and never ends it.
ENDLESS = [
    *("\\", "\\u", "\\ud835", "\\x", "\\xe2", "\\342", "\\u{0", "\\0", "%", "%25", "%C2", "%ud835"),
    *("&", "&amp;", "&#0", "amp;", "\x1b", "\x1b]", "\x1b[0", "\x9b0", "\x9d", "\x90a", "\x98\x9f"),
    *("\u200b", "a\u0301", "\uff41", "\U0001d41a", "QUJD", "41 ", "0x41, "),
]


@pytest.mark.slow
@every_row("opening", ["", "\\x73", "\x9d"])
@every_row("unit", ENDLESS)
def test_no_flood_of_half_an_escape_takes_longer_than_its_length(unit: str, opening: str) -> None:
    """A server that answers with nothing but beginnings of escapes or of control sequences holds nobody up."""

    def read(n_chars: int) -> None:
        text = opening + unit * (n_chars // len(unit))
        MASKED.mask(text)
        as_shown(text)
        clean_terminal(text)

    assert grows_linearly(read, 4_096, factor=4)


@every_row("unit", ["\\", "\x9d", "\x90a"])
def test_errors_are_redacted_in_time_linear_in_their_length(unit: str) -> None:
    assert grows_linearly(lambda n: REDACT("\\x73" + unit * (n // len(unit))), 4_096, factor=4)


@every_row("n_backslashes", [1, 2, 3, 4, 7, 8])
def test_an_escape_is_read_behind_any_number_of_backslashes(n_backslashes: int) -> None:
    """JSON inside JSON doubles them, and a program that cuts a text may leave an odd number."""
    escapes = [f"{ord(character):02x}" for character in KEY]
    text = "".join(["\\" * n_backslashes + f"x{escape}" for escape in escapes])
    assert MASKED.mask(f"<{text}>") == f"<{MASK}>"
    assert REDACT(f"<{text}>") == f"<{MASK}>"


def _mathematical(text: str) -> str:
    letters = []
    for character in text:
        letters.append(
            chr(0x1D41A + ord(character) - ord("a")) if character.islower() else character
        )
    return "".join(letters)


def _in_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


@every_row(
    "disguise",
    [
        _in_ascii(_mathematical(KEY)),
        _in_ascii(_mathematical(KEY)).upper().replace("\\U", "\\u"),
        _in_ascii(_in_ascii(_mathematical(KEY))),
        _in_ascii(_mathematical(KEY)).replace("\\u", "%u"),
        _in_ascii("\U000e0041".join(KEY)),
        _in_ascii("\U000e0041".join(KEY)).replace("\\u", "%25u"),
        *(
            mark.join(KEY)
            for mark in (r"\r", r"\b", r"\f", r"\0", r"\a", r"\v", r"\\r", r"\e[0m", r"\e[1;31m")
        ),
        *(
            mark.join(KEY)
            for mark in (r"\xc2\xad", r"\xe2\x80\x8b", r"\xf3\xa0\x81\x81", r"\\xE2\\x80\\x8B")
        ),
        *(
            mark.join(KEY)
            for mark in (r"\302\255", r"\342\200\213", r"\363\240\201\201", "\U0001bca0")
        ),
    ],
)
def test_a_key_is_found_behind_escapes_of_halves_of_letters_and_of_bytes(disguise: str) -> None:
    """What a program that writes ASCII alone makes of mathematical letters, and of marks that nobody sees."""
    assert MASKED.mask(f"<{disguise}>") == f"<{MASK}>"
    assert REDACT(f"<{disguise}>") == f"<{MASK}>"
    assert MASKED.finds(json.dumps(f"<{disguise}>").encode())


@every_row("key", ["Ab1&Cd2&Ef3&Gh4&Ij5&", "Ab1&Cd2;Ef3&Gh4;Ij5&", "Ab1&lt;Cd2&Ef3&#5;Gh4&"])
def test_a_key_with_ampersands_is_found_in_html(key: str) -> None:
    """A page writes each of them as an entity, and a page that quotes a page does so twice."""
    for text in (key, html.escape(key), html.escape(html.escape(key)), _in_ascii(html.escape(key))):
        for mask in (SecretMask([key]).mask, Redactor([key])):
            assert not any(
                key[at : at + 8] in html.unescape(mask(f"<{text}>")) for at in range(len(key) - 7)
            )
            assert MASK in mask(f"<{text}>")


def test_escapes_that_say_no_text_leave_a_key_beside_them_found() -> None:
    """Bytes that are no UTF-8, half of a pair, and a letter behind a backslash that is part of a path."""
    for before in (
        r"\xe2\x28",
        r"\xc3\xc3\x80",
        r"\377\377",
        r"\ud835",
        r"\udc00\ud800",
        "&amp;nothing;",
        "%C2%C2",
    ):
        text = f"{before}{'%43'}{KEY[1:]}"
        assert MASKED.mask(text) == f"{before}{MASK}", before
    assert MASKED.mask(rf"C:\new\{KEY}\table") == rf"C:\new\{MASK}\table"


@every_row(
    ("value", "secret"),
    [(KEY, True), ("token-abc123", True), ("a" * 20, True), ("ollama", False), ("not-needed", False),
     ("100000000", False), ("1.5e10", False), ("lm-studio", False), ("pass1", False), ("correct-horse", False)],
)  # fmt: skip
def test_what_can_only_be_a_key(value: str, secret: bool) -> None:
    """Long values and those that mix letters and digits are keys; placeholders and numbers are ordinary text."""
    assert looks_secret(value) is secret
    assert (SecretMask([value]).mask(f"say {value} again") == "say *** again") is secret


def test_a_known_key_is_masked_in_every_form_it_takes() -> None:
    """As it is, in lower case, inside JSON, inside JSON inside JSON, and inside an address."""
    key = 'Ab1"/\\\\+é=' * 2
    forms = [
        key,
        key.lower(),
        key.upper(),
        'Ab1\\"/\\\\\\\\+é=' * 2,
        "Ab1%22%2F%5C%5C%2B%C3%A9%3D" * 2,
    ]
    for form in forms:
        assert SecretMask([key]).mask(f"<{form}>") == f"<{MASK}>"
        assert SecretMask([key]).finds(json.dumps(form).encode())
        assert Redactor([key])(f"<{form}>") == f"<{MASK}>"


@every_row(
    ("address", "public"),
    [
        ("http://me:word@host:8080/v1?key=abc#x", "http://host:8080/v1"),
        ("https://[::1]:443/v1", "https://[::1]:443/v1"),
        (
            "https://api.telegram.org/bot123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0/x",
            "https://api.telegram.org/***/x",
        ),
        ("https://gw.example/sk-proj-abcdef123456/v1", "https://gw.example/***/v1"),
        ("https://gw.example/k%3D9fQ2mZ7xL0pV4sT8/v1", "https://gw.example/***/v1"),
        ("https://gw.example/6f1c2d3e4b5a69788796a5b4c3d2e1f0/v1", "https://gw.example/***/v1"),
        (
            "http://h/openai/deployments/gpt-4o-2024-08-06/v1beta",
            "http://h/openai/deployments/gpt-4o-2024-08-06/v1beta",
        ),
        (
            "http://h/models/Qwen2.5-Coder-32B-Instruct-AWQ",
            "http://h/models/Qwen2.5-Coder-32B-Instruct-AWQ",
        ),
    ],
)
def test_an_address_is_shown_without_what_is_private(address: str, public: str) -> None:
    """User-info, query and fragment may hold secrets; the rest tells where the server is."""
    assert public_address(address) == public
