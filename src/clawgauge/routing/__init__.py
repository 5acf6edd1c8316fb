"""From evidence to configuration: which model answers, which takes over, which may have tools.

Owns: what a run says about each model that could be routed to, the policy that orders them, the chains they form, and
the shapes OpenClaw and LiteLLM read. Refuses: calls of any kind, and configuration without evidence under it: a key
that no measurement speaks for is never touched.
"""

from clawgauge.routing.chains import Chain, ChainForecast, best_chain, forecast, parse_chain
from clawgauge.routing.decision import Decision, Standing, decide
from clawgauge.routing.evidence import Evidence, gather_evidence
from clawgauge.routing.litellm import litellm_config
from clawgauge.routing.openclaw import OpenClawRouting, openclaw_routing
from clawgauge.routing.openclaw_file import find_conflicts, merge_patch, read_openclaw, write_openclaw
from clawgauge.routing.policy import Limits, Policy, Weights, read_policy
from clawgauge.routing.reasons import Reason

__all__ = [
    "Chain",
    "ChainForecast",
    "Decision",
    "Evidence",
    "Limits",
    "OpenClawRouting",
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
    "openclaw_routing",
    "parse_chain",
    "read_openclaw",
    "read_policy",
    "write_openclaw",
]
