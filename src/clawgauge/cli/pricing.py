"""What the calls of a run cost: the price of each target, and the budget of `--max-cost`."""

from __future__ import annotations

from collections.abc import Iterable

from clawgauge.cli.planning import Plan
from clawgauge.errors import ConfigError
from clawgauge.prices import Price, load_prices
from clawgauge.records import Target
from clawgauge.runner.stopping import CostBudget, Evidence

# This one says itself what a call cost.
_REPORTING_TYPE = "claude_code_cli"


class Pricing:
    """The prices that hold for a plan's targets; a model on the user's own machine has none and needs none."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        table = load_prices(plan.prices_path)
        self._prices: dict[Target, Price | None] = {}
        self._unpriced: list[Target] = []
        for target in plan.targets:
            provider = plan.provider_for(target)
            settings = provider.describe()
            price = table.find(target.provider, target.model, settings)
            self._prices[target] = price
            if price is None and not provider.local and settings.get("type") != _REPORTING_TYPE:
                self._unpriced.append(target)

    def find(self, target: Target) -> Price | None:
        """The price of a target's tokens, None where it is not known."""
        return self._prices.get(target)

    def refuse_unpriced(self) -> None:
        """A limit on what cannot be counted would be no limit."""
        if self._unpriced:
            names = ", ".join(target.label for target in self._unpriced)
            raise ConfigError(
                f"--max-cost cannot be kept: the price of {names} is not known; "
                "add it with --prices FILE, or leave the option out"
            )

    def budget(self, evidence: Iterable[Evidence]) -> CostBudget | None:
        """What may still be spent, given what earlier stretches of the run have cost."""
        limit_usd = self._plan.options.max_cost_usd
        if limit_usd is None:
            return None
        return CostBudget(limit_usd, sum(known.cost_usd for known in evidence))
