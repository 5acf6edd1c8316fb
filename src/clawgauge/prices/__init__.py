"""What a call costs: a dated, sourced table, looked up by a model's exact name, and one formula.

A dated model name and its alias have been sold at different prices, so each is its own entry or
none. What is not in the table, has no counts, or is longer than the price holds for has no cost
here, which is not a cost of zero.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from clawgauge.errors import ConfigError
from clawgauge.proxies import is_loopback
from clawgauge.records import Price as Price
from clawgauge.records import RunConfig, Target
from clawgauge.registry import Location, ProviderType, find_type, find_vendor
from clawgauge.small_file import read_toml

_BUILTIN = Path(__file__).with_name("prices.toml")
_MILLION = 1_000_000


class Tokens(NamedTuple):
    """What a server counted."""

    input: int | None
    output: int | None
    cached_input: int | None = None
    """The part of `input` that came from its cache; None where it is not reported."""


def cost_usd(price: Price, tokens: Tokens) -> float | None:
    """The cost of one call, or None where the counts or the price do not cover it."""
    if tokens.input is None or tokens.output is None:
        return None
    if price.max_input_tokens is not None and tokens.input > price.max_input_tokens:
        return None
    cached = min(tokens.cached_input or 0, tokens.input)
    if cached and price.cached_input is None:
        return None
    fresh_cost = (tokens.input - cached) * price.input
    cached_cost = cached * (price.cached_input or 0.0)
    output_cost = tokens.output * price.output
    return (fresh_cost + cached_cost + output_cost) / _MILLION


class _PriceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    price: list[Price] = []
    as_of: str | None = None
    usd_per_kwh: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None


class PriceTable:
    """Every price that is known, and what a kilowatt-hour costs where the user has said so."""

    def __init__(self, prices: Iterable[Price], *, usd_per_kwh: float | None = None) -> None:
        self.usd_per_kwh = usd_per_kwh
        # By provider, vendor and model; either of the first two is None.
        self._prices: dict[tuple[str | None, str | None, str], Price] = {}
        for price in prices:
            self._prices[price.provider, price.vendor, price.model] = price

    def find(self, provider: str, model: str, settings: Mapping[str, Any]) -> Price | None:
        """The price of a target.

        The user's own for that provider comes first, then that of the vendor it is billed by.
        """
        own_price = self._prices.get((provider, None, model))
        if own_price is not None:
            return own_price
        return self._prices.get((None, vendor_of(settings), model))


def settings_of(config: RunConfig | None, target: Target) -> Mapping[str, Any]:
    """What config.json says of a target's provider; its type at least.

    Of a model inside an agent program it is what is said of the model's own provider.
    """
    settings_by_provider = config.providers if config else {}
    settings = settings_by_provider.get(target.provider, {"type": target.provider})
    if not _type_of(settings).is_agent:
        return settings
    provider = target.model.partition("/")[0]
    return settings_by_provider.get(provider, {"type": provider})


def missing_key(settings: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The variable that holds a provider's key, where it is not set.

    What a node has set nobody knows here.
    """
    variable = settings.get("api_key_env")
    if not variable or "node" in settings or environ.get(str(variable)):
        return None
    return str(variable)


def host_of(address: object) -> str:
    """The host that an address names; empty for what is no address: anyone wrote the run folder."""
    try:
        return urlsplit(str(address or "")).hostname or ""
    except ValueError:
        return ""


def vendor_of(settings: Mapping[str, Any]) -> str | None:
    """Whose price list a provider is billed by.

    A server at another address may charge anything, or nothing.
    """
    if not _type_of(settings).is_billed_by_address:
        return None
    vendor = find_vendor(host_of(settings.get("base_url")))
    return None if vendor is None else vendor.name


def is_local(settings: Mapping[str, Any]) -> bool:
    """Whether a provider runs on the user's own machine or network, by its type or its address."""
    location = _type_of(settings).location
    if location is Location.REMOTE:
        return False
    host = host_of(settings.get("base_url"))
    if not host:
        return location is Location.LOCAL
    if is_loopback(host) or host.endswith(".local"):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def _type_of(settings: Mapping[str, Any]) -> ProviderType:
    return find_type(str(settings.get("type")))


def is_free(settings: Mapping[str, Any]) -> bool:
    """Whether nobody charges for calls.

    Who asks for a key may pass them on to someone who does.
    """
    return is_local(settings) and not settings.get("api_key_env")


def load_prices(user_file: Path | None = None) -> PriceTable:
    """The table of the package, with the entries of `user_file` over it.

    Raises `ConfigError` for a file that cannot be read, or an entry for nobody.
    """
    paths = [_BUILTIN]
    if user_file is not None:
        paths.append(user_file)
    prices: list[Price] = []
    usd_per_kwh = None
    for path in paths:
        file, _ = read_toml(path, _PriceFile, "prices")
        usd_per_kwh = file.usd_per_kwh
        for number, price in enumerate(file.price, start=1):
            if (price.vendor is None) == (price.provider is None):
                raise ConfigError(
                    f"the prices {path}: entry {number} ({price.model}) must name either a vendor "
                    "or a provider"
                )
            prices.append(msgspec.structs.replace(price, as_of=price.as_of or file.as_of))
    return PriceTable(prices, usd_per_kwh=usd_per_kwh)
