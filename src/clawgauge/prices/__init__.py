"""What a call costs: a dated, sourced table, and one formula. Pure but for reading TOML files.

A model that is not in the table, a call without counts, or a prompt longer than the price holds for has no cost here,
which is not the same as a cost of zero.
"""

from clawgauge.prices.table import PriceTable, Tokens, cost_usd, load_prices, vendor_of
from clawgauge.records import Price

__all__ = ["Price", "PriceTable", "Tokens", "cost_usd", "load_prices", "vendor_of"]
