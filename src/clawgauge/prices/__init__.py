"""What a call costs: a dated, sourced table, looked up by the exact name of a model, and one formula.

A dated model name and its alias have been sold at different prices, so each is its own entry or none. What is not in
the table, has no counts, or is longer than the price holds for has no cost here, which is not a cost of zero."""

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
    """What a server counted. `cached_input` is the part of `input` that came from its cache; None where not told."""

    input: int | None
    output: int | None
    cached_input: int | None = None


def cost_usd(price: Price, tokens: Tokens) -> float | None:
    """The cost of one call, or None where the counts or the price do not cover it."""
    most = price.max_input_tokens
    if tokens.input is None or tokens.output is None or (most is not None and tokens.input > most):
        return None
    cached = min(tokens.cached_input or 0, tokens.input)
    if cached and price.cached_input is None:
        return None
    fresh = (tokens.input - cached) * price.input
    return (fresh + cached * (price.cached_input or 0.0) + tokens.output * price.output) / _MILLION


class _PriceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    price: list[Price] = []
    as_of: str | None = None
    usd_per_kwh: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None


class PriceTable:
    """Every price that is known, and what a kilowatt-hour costs where the user has said so."""

    def __init__(self, prices: Iterable[Price], *, usd_per_kwh: float | None = None) -> None:
        self._prices = {(price.provider, price.vendor, price.model): price for price in prices}
        self.usd_per_kwh = usd_per_kwh

    def find(self, provider: str, model: str, settings: Mapping[str, Any]) -> Price | None:
        """The price of a target: the user's for that provider first, else that of the vendor its settings tell."""
        return self._prices.get((provider, None, model)) or self._prices.get((None, vendor_of(settings), model))


def settings_of(config: RunConfig | None, target: Target) -> Mapping[str, Any]:
    """What config.json says of a target's provider; its type at least."""
    return (config.providers if config else {}).get(target.provider, {"type": target.provider})


def missing_key(settings: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The variable that holds a provider's key, where it is not set. What a node has set nobody knows here."""
    name = settings.get("api_key_env")
    return str(name) if name and "node" not in settings and not environ.get(str(name)) else None


def host_of(address: object) -> str:
    """The host that an address names; nothing where it is none, as anyone's run folder may have it."""
    try:
        return urlsplit(str(address or "")).hostname or ""
    except ValueError:
        return ""


def vendor_of(settings: Mapping[str, Any]) -> str | None:
    """Whose price list a provider is billed by. A server at another address may charge anything, or nothing."""
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
    """Whether nobody charges for calls. Who asks for a key may pass them on to someone who does."""
    return is_local(settings) and not settings.get("api_key_env")


def load_prices(own: Path | None = None) -> PriceTable:
    """The table of the package, with the entries of the user's file over it."""
    prices, usd_per_kwh = [], None
    for path in [_BUILTIN] if own is None else [_BUILTIN, own]:
        file, _ = read_toml(path, _PriceFile, "prices")
        usd_per_kwh = file.usd_per_kwh
        for number, price in enumerate(file.price, start=1):
            if (price.vendor is None) == (price.provider is None):
                words = f"entry {number} ({price.model}) must name either a vendor or a provider"
                raise ConfigError(f"the prices {path}: {words}")
            prices.append(msgspec.structs.replace(price, as_of=price.as_of or file.as_of))
    return PriceTable(prices, usd_per_kwh=usd_per_kwh)
