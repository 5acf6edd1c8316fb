"""Models with known figures, for the tests of routing."""

from __future__ import annotations

from pathlib import Path

from clawgauge.prices import load_prices
from clawgauge.records import ModelInfo, Target
from clawgauge.routing.decision import Decision, decide
from clawgauge.routing.evidence import gather_evidence
from clawgauge.routing.policy import Policy
from support.measured_models import CLAUDE, EMBEDDED, OLLAMA, OPENAI, Measured, MeasuredRun

LLAMA = Measured(
    Target("ollama_openai", "llama3.2:3b"),
    OLLAMA,
    text_passes=7,
    tool_passes=12,
    e2e_ms=900,
    info=ModelInfo(name="llama3.2:3b", parameters="3.2B", quantization="Q4_K_M"),
)
QWEN = Measured(
    Target("ollama_openai", "qwen3:8b"), OLLAMA, text_passes=9, tool_passes=20, e2e_ms=2900
)
TINY = Measured(Target("ollama_openai", "tiny"), OLLAMA, text_passes=1, tool_passes=2, e2e_ms=300)
GPT = Measured(Target("openai_responses", "gpt-5"), OPENAI, tool_passes=19, e2e_ms=2000)
CODEX = Measured(Target("openai_responses", "gpt-5-codex", "high"), OPENAI, e2e_ms=4000)
OPUS = Measured(
    Target("claude_code_cli", "opus"),
    CLAUDE,
    e2e_ms=5000,
    cost_usd=0.02,
    model_reported="claude-opus-5-20260101",
)
SMOL = Measured(Target("embedded", "smollm2-135m"), EMBEDDED, text_passes=10, tool_passes=0)


def decision_of(
    folder: Path,
    *models: Measured,
    policy: Policy | None = None,
    n_tool: int = 20,
    for_subagents: bool = False,
) -> Decision:
    """The decision over one run of these models."""
    path = MeasuredRun(list(models), n_tool=n_tool, for_subagents=for_subagents).write(folder)
    return decide(gather_evidence([path], load_prices())[0], policy or Policy())
