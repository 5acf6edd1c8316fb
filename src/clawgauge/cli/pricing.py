"""What the calls of a run cost: the price of each target, and the budget of `--max-cost`."""

from __future__ import annotations

from clawgauge.cli.planning import OpenWork, Plan
from clawgauge.errors import ConfigError
from clawgauge.prices import Price, load_prices
from clawgauge.records import Target
from clawgauge.runner.stopping import CostBudget

# This one says itself what a call cost, once it is made.
REPORTING_TYPE = "claude_code_cli"


class Pricing:
    """The prices that hold for a plan's targets; a model on the user's own machine has none and needs none.

    A resumed run keeps the prices it was begun with, so that its costs add up, unless a price file is named now. With a
    limit on the cost, a target of unknown price is refused: a limit on what cannot be counted would be none.
    """

    def __init__(self, plan: Plan) -> None:
        self._limit_usd = plan.options.max_cost_usd
        self._prices: dict[Target, Price | None] = {}
        self._free: set[Target] = set()
        unpriced: list[Target] = []
        table = load_prices(plan.prices_path)
        for target in plan.targets:
            provider = plan.provider_for(target)
            settings = provider.describe()
            price = None if plan.prices_path else plan.prices.get(target.label)
            price = price or table.find(target.provider, target.model, settings)
            self._prices[target] = price
            if price is None and provider.local:
                self._free.add(target)
            elif price is None and settings.get("type") != REPORTING_TYPE:
                unpriced.append(target)
        if self._limit_usd is not None and unpriced:
            names = ", ".join(target.label for target in unpriced)
            raise ConfigError(
                f"--max-cost cannot be kept: the price of {names} is not known; "
                "add it with --prices FILE, or leave the option out"
            )

    def find(self, target: Target) -> Price | None:
        """The price of a target's tokens, None where it is not known."""
        return self._prices.get(target)

    def describe(self) -> dict[str, Price | None]:
        """The prices for config.json: those that are known."""
        return {target.label: price for target, price in self._prices.items() if price is not None}

    def budget(self, work: OpenWork) -> CostBudget | None:
        """What may still be spent, given what earlier stretches of the run have cost."""
        return None if self._limit_usd is None else CostBudget(self._limit_usd, work.spent_usd, frozenset(self._free))
