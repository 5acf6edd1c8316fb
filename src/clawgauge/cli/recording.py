"""config.json: a plan written down, so that the run folder alone explains the run."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from clawgauge import __version__
from clawgauge.cli.planning import Plan
from clawgauge.cli.pricing import REPORTING_TYPE, Pricing
from clawgauge.providers.base import Provider
from clawgauge.records import SCHEMA_VERSION, RunConfig
from clawgauge.redaction import SecretMask, mask_shapes, mask_strings
from clawgauge.runner.clock import SystemClock
from clawgauge.suites import prompts_sha256

_VERSIONED = ("aiohttp", "google-re2", "msgspec", "psutil", "uvloop", "xllamacpp")


def make_config(plan: Plan, pricing: Pricing, run_id: str, created_at_ms: int | None = None) -> RunConfig:
    """All that decides the run, and no secret."""
    providers = {target: plan.provider_for(target) for target in plan.targets}
    mask = SecretMask(plan.secrets).mask
    return RunConfig(
        schema_version=SCHEMA_VERSION,
        run_id=run_id,
        created_at_ms=created_at_ms or SystemClock().wall_ms(),
        clawgauge_version=__version__,
        models=list(dict.fromkeys(target.model for target in plan.targets)),
        targets=plan.targets,
        options=plan.options,
        suites=plan.suites,
        prompts=plan.prompts,
        prompts_sha256=prompts_sha256(plan.prompts),
        providers={target.provider: mask_strings(one.describe(), mask) for target, one in providers.items()},
        sampling={target.label: _sampling(plan, provider) for target, provider in providers.items()},
        prices=pricing.describe(),
        versions=_versions(),
        argv=[mask_shapes(mask(word)) for word in sys.argv[1:]],
    )


def ignored_options(plan: Plan) -> list[str]:
    """What was asked for and a provider cannot be told: a sentence each."""
    asked = {"temperature": plan.options.temperature, "seed": plan.options.seed}
    lines: dict[str, None] = {}
    for target in plan.targets:
        provider = plan.provider_for(target)
        refused = [name for name, value in asked.items() if value is not None and name not in provider.takes]
        if refused:
            lines[f"{target.provider} takes no {' and no '.join(refused)}: not sent"] = None
        if target.thinking_level is not None and not provider.takes_thinking:
            lines[f"{target.provider} takes no thinking level: @{target.thinking_level} is ignored"] = None
        wide_and_limited = plan.options.concurrency > 1 and plan.options.max_cost_usd is not None
        if wide_and_limited and provider.settings.type == REPORTING_TYPE:
            lines[f"--max-cost: {target.provider} is asked one call at a time; what one costs is known afterwards"] = (
                None
            )
    return list(lines)


def _sampling(plan: Plan, provider: Provider) -> dict[str, Any]:
    """What this target is really sent, where a prompt does not say otherwise."""
    options = plan.options
    temperature = options.temperature if options.temperature is not None else 0.0 if provider.local else None
    return {
        "temperature": temperature if "temperature" in provider.takes else None,
        "max_tokens": options.max_tokens or provider.default_max_tokens,
        "seed": options.seed if "seed" in provider.takes else None,
    }


def _versions() -> dict[str, str]:
    found = {"clawgauge": __version__, "python": sys.version.split()[0]}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
