"""Why a line of configuration is there: the evidence in one sentence, for the sidecar and the screen."""

from __future__ import annotations

from dataclasses import dataclass

from clawgauge.redaction import MASK
from clawgauge.routing.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Reason:
    """One configured thing, by its path, and why. `model` is None where the reason is about all of them."""

    path: str
    setting: str
    why: str
    model: str | None = None


def address_notes(name: str, address: str, key_env: str | None) -> list[str]:
    """What a person must see to: a run folder may be somebody else's, and a key in an address is not recorded."""
    notes = [f"{name} at {address} will be sent the key in {key_env}: see that the address is yours"] if key_env else []
    if MASK in address:
        notes.append(f"the address of {name} holds a key, which is not recorded: put it in the place of {MASK}")
    return notes


def cite(evidence: Evidence) -> str:
    """Model, tier, k/n, confidence, p95, run: what every reason rests on."""
    group, tool_use = evidence.group, evidence.group.tool_use
    tier = tool_use.label
    if tool_use.tier is not None:
        tier += f", tools {tool_use.k}/{tool_use.n} ({tool_use.source})"
        if tool_use.p_tier is not None:
            tier += f", P(tier)={tool_use.p_tier[tool_use.tier - 1]:.2f}"
    if tool_use.caution:
        tier += f" (caution: {tool_use.caution})"
    passed = f"passed {group.n_passed}/{group.n_scheduled_judged}"
    p95 = "p95 not measured" if group.latency_ms.p95 is None else f"p95 {group.latency_ms.p95:.0f} ms"
    return f"{evidence.label}: {tier}; {passed}; {p95} (n={group.n_success}); run {evidence.run_id}"
