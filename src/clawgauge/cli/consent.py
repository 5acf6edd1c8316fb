"""What is done only with the user's leave: asked once on a terminal, else given by an option."""

from __future__ import annotations

import os
import sys

from clawgauge.cli.expected_calls import expected_calls
from clawgauge.cli.planner import DecidedRun
from clawgauge.errors import ConfigError
from clawgauge.plan import PlanDraft
from clawgauge.prices import host_of
from clawgauge.proxies import is_loopback
from clawgauge.records import Target
from clawgauge.registry import find_type
from clawgauge.words import format_money, list_names

_MAX_NAMES_SHOWN = 4
# A run of paid models that is expected to cost more is not begun unasked.
_MOST_USD_UNASKED = 1.0


def guard_private_prompts(plan: PlanDraft, what: str, *, yes: bool) -> None:
    """From now on all that this command writes is for its user alone.

    Where a target is not a keyless server on this machine, a person at a terminal is asked whether
    `what` ("your own prompt") may go there; elsewhere it takes --yes.
    """
    os.umask(0o077)
    others = [target.label for target in plan.targets if not _stays_here(plan, target)]
    if not others or yes:
        return
    where = list_names(others, _MAX_NAMES_SHOWN)
    warning = f"{what} would leave this machine, or go where a key is needed: to {where}"
    _require_yes(
        f"{warning}.\nSend it?",
        f"{warning}; say --yes if it may, or ask models on this machine alone",
    )


def guard_expected_cost(decided: DecidedRun, *, yes: bool) -> None:
    """Ask once whether a run may cost as much as it is expected to, where that is not little.

    Elsewhere than at a terminal it takes --yes, or a limit.
    """
    if yes:
        return
    warning = find_expected_cost(decided)
    if warning is not None:
        _require_yes(
            f"{warning}.\nGo on?", f"{warning}: say --yes, or give a limit with --max-cost"
        )


def find_expected_cost(decided: DecidedRun) -> str | None:
    """What a run is expected to cost, as a sentence, where it takes leave to begin it."""
    draft = decided.draft
    paid = [target for target in draft.targets if target not in draft.free]
    if not paid or draft.settings.max_cost_usd is not None:
        return None
    expected = expected_calls(draft.complete(decided.open_work()))
    costs = {target: expected[target].usd_at_most or 0.0 for target in paid}
    usd = sum(costs.values())
    if usd <= _MOST_USD_UNASKED:
        return None
    labels = [target.label for target, cost in costs.items() if cost]
    models = list_names(labels, _MAX_NAMES_SHOWN)
    return f"asking {models} is expected to cost about {format_money(usd)}"


def _require_yes(question: str, otherwise: str) -> None:
    """Ask a person at a terminal; raises `ConfigError` where the answer is no, or nobody is
    there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(otherwise)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was sent")


def _stays_here(plan: PlanDraft, target: Target) -> bool:
    """Whether what a target is sent stays on this machine, as far as can be told."""
    target = plan.providers.model_target(target)
    settings = plan.providers.settings[target.provider]
    if settings.make is not None:
        return False  # on a node, whatever that reports of itself
    if find_type(settings.type).is_own_server:
        return True
    address = settings.base_url
    if not address:
        address = str(plan.provider(target.provider).describe().get("base_url") or "")
    is_keyless = settings.api_key_env is None and settings.api_key is None and "@" not in address
    # Ollama passes on to its cloud what is called so.
    is_cloud_model = target.model.endswith(("-cloud", ":cloud"))
    return is_keyless and is_loopback(host_of(address)) and not is_cloud_model
