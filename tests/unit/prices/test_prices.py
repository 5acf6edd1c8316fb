"""What a call costs, and what stays unknown."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

import clawgauge.prices
from clawgauge.errors import ConfigError
from clawgauge.prices import Tokens, cost_usd, load_prices, missing_key, vendor_of
from support.rows import every_row

OPENAI = {"type": "openai_responses", "base_url": "https://api.openai.com/v1"}


def test_cached_input_is_billed_at_its_own_price() -> None:
    """A thousand tokens in, a hundred of them cached, and five hundred out, at the list price."""
    price = load_prices().find("openai_responses", "gpt-5", OPENAI)
    assert price is not None
    expected = (900 * price.input + 100 * (price.cached_input or 0) + 500 * price.output) / 1e6
    assert cost_usd(price, Tokens(1000, 500, 100)) == pytest.approx(expected)
    assert expected > 0


def test_a_key_is_missing_unless_it_is_another_machines() -> None:
    """What a node has set nobody knows here; it says that it is one, whatever the name of the provider."""
    keyed = {**OPENAI, "api_key_env": "KEY"}
    assert missing_key(keyed, {}) == "KEY" and missing_key(keyed, {"KEY": "k"}) is None
    assert missing_key({**keyed, "node": "ana"}, {}) is None


def test_geminis_thoughts_are_billed_as_output_and_long_prompts_stay_unknown() -> None:
    """Google charges for thoughts what it charges for the answer, and more for a prompt beyond 200,000 tokens."""
    google = {
        "type": "gemini",
        "base_url": "https://generativelanguage.googleapis.com/v1beta",
    }
    price = load_prices().find("gemini", "gemini-2.5-pro", google)
    assert price is not None
    assert (price.as_of, price.vendor) == ("2026-11-19", "google")
    expected = (800 * price.input + 200 * (price.cached_input or 0) + 500 * price.output) / 1e6
    assert cost_usd(price, Tokens(1000, 500, 200)) == pytest.approx(expected)
    assert cost_usd(price, Tokens(200_001, 1)) is None
    assert load_prices().find("gemini", "gemini-flash-latest", google) is None


@pytest.mark.parametrize("tokens", [Tokens(None, 10), Tokens(10, None)])
def test_a_call_without_counts_has_no_cost(tokens: Tokens) -> None:
    """Nothing is estimated: no count, no cost."""
    price = load_prices().find("openai_responses", "gpt-5", OPENAI)
    assert price is not None
    assert cost_usd(price, tokens) is None


def test_unknown_models_and_servers_stay_unknown() -> None:
    """A model that is not listed, a dated name that is not listed, and another vendor's server have no price."""
    table = load_prices()
    assert table.find("openai_responses", "gpt-5-of-another-day", OPENAI) is None
    assert table.find("openai_responses", "gpt-5-2099-01-01", OPENAI) is None
    elsewhere = {"type": "openai_responses", "base_url": "https://gateway.example.com/v1"}
    assert table.find("openai_responses", "gpt-5", elsewhere) is None
    assert vendor_of({"type": "ollama_openai", "base_url": "https://api.openai.com/v1"}) is None


def test_above_the_long_prompt_limit_the_cost_is_unknown(tmp_path: Path) -> None:
    """Vendors charge more for very long prompts; without that price the cost is not known."""
    own = tmp_path / "prices.toml"
    own.write_text(
        '[[price]]\nprovider = "mine"\nmodel = "m"\ninput = 1\noutput = 2\nmax_input_tokens = 100\n'
    )
    price = load_prices(own).find("mine", "m", {})
    assert price is not None
    assert cost_usd(price, Tokens(100, 1)) == pytest.approx(102e-6)
    assert cost_usd(price, Tokens(101, 1)) is None


def test_cached_tokens_without_a_price_for_them_are_unknown(tmp_path: Path) -> None:
    """A discount that is not listed is not guessed."""
    own = tmp_path / "prices.toml"
    own.write_text('[[price]]\nprovider = "mine"\nmodel = "m"\ninput = 1\noutput = 2\n')
    price = load_prices(own).find("mine", "m", {})
    assert price is not None
    assert cost_usd(price, Tokens(100, 1, 50)) is None
    assert cost_usd(price, Tokens(100, 1, 0)) is not None


def test_a_users_own_price_comes_before_the_list(tmp_path: Path) -> None:
    """Negotiated prices and private gateways are the user's to say."""
    own = tmp_path / "prices.toml"
    own.write_text(
        'as_of = "2026-01-01"\n[[price]]\nprovider = "openai_responses"\nmodel = "gpt-5"\ninput=9\noutput=9\n'
    )
    price = load_prices(own).find("openai_responses", "gpt-5", OPENAI)
    assert price is not None
    assert (price.input, price.as_of) == (9, "2026-01-01")


@every_row(
    ("text", "named"),
    [
        ("not toml [", "cannot be used"),
        ('[[price]]\nmodel = "m"\ninput = 1\noutput = 1\n', "vendor or a provider"),
        ('[[price]]\nprovider = "p"\nmodel = "m"\ninput = -1\noutput = 1\n', "input"),
        ('[[price]]\nprovider = "p"\nmodel = "m"\ninput = 1\n', "output"),
        ('[[price]]\nprovider = "p"\nmodel = "m"\ninput = 1\noutput = 1\nprice = 3\n', "price"),
    ],
)
def test_a_price_file_that_cannot_be_meant_is_refused(
    tmp_path: Path, text: str, named: str
) -> None:
    """The refusal names the file and what is wrong with it."""
    own = tmp_path / "mine.toml"
    own.write_text(text)
    with pytest.raises(ConfigError, match=r"mine\.toml") as refused:
        load_prices(own)
    assert named in str(refused.value)


def test_every_listed_price_is_dated_and_sourced() -> None:
    """The table says for every price where it was read and when."""
    table = tomllib.loads(Path(clawgauge.prices.__file__).with_name("prices.toml").read_text())
    assert date.fromisoformat(table["as_of"]) <= date.today()
    assert all(price["source"].startswith("https://") for price in table["price"])
    names = [(price["vendor"], price["model"]) for price in table["price"]]
    assert len(names) == len(set(names)) >= 40
