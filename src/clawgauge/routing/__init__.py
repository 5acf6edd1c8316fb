"""From evidence to configuration: which model answers, which takes over, which may have tools."""

from clawgauge.routing.chains import ChainForecast, best_chain, forecast, parse_chain
from clawgauge.routing.decision import Decision, Limits, Policy, Reason, Standing, Weights, decide, read_policy
from clawgauge.routing.evidence import Evidence, gather_evidence
from clawgauge.routing.litellm import litellm_config
from clawgauge.routing.openclaw import (
    find_conflicts,
    merge_patch,
    models_in_use,
    openclaw_routing,
    read_openclaw,
    write_openclaw,
)

__all__ = [
    "ChainForecast",
    "Decision",
    "Evidence",
    "Limits",
    "Policy",
    "Reason",
    "Standing",
    "Weights",
    "best_chain",
    "decide",
    "find_conflicts",
    "forecast",
    "gather_evidence",
    "litellm_config",
    "merge_patch",
    "models_in_use",
    "openclaw_routing",
    "parse_chain",
    "read_openclaw",
    "read_policy",
    "write_openclaw",
]
