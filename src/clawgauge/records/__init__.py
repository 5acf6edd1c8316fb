"""The on-disk contract as frozen structs, and nothing else.

Owns: the shape of every file in a run folder and of a prompt suite once loaded. Refuses: logic, I/O, defaults
that depend on the environment. Field order is the order on disk.
"""

from clawgauge.records.plan import (
    THINKING_LEVELS,
    Price,
    Prompt,
    RunConfig,
    RunOptions,
    SuiteInfo,
    SuiteRecord,
    Target,
)
from clawgauge.records.result import (
    MAX_TOKENS,
    STATUSES,
    Attempt,
    CellRow,
    Event,
    Result,
    Status,
    TimingsUs,
    ToolInvocation,
    TranscriptTurn,
    as_count,
)
from clawgauge.records.run import Inventory, ModelInfo, ProviderProbe, Resources
from clawgauge.records.summary import (
    ClockTrust,
    CostSummary,
    FailureCount,
    GroupSummary,
    LatencyStats,
    Percentiles,
    RateWithInterval,
    Repeatability,
    RunSummary,
    SuiteBreakdown,
    TaskSummary,
    ToolChannels,
    ToolUse,
)

SCHEMA_VERSION = 1

__all__ = [
    "MAX_TOKENS",
    "SCHEMA_VERSION",
    "STATUSES",
    "THINKING_LEVELS",
    "Attempt",
    "CellRow",
    "ClockTrust",
    "CostSummary",
    "Event",
    "FailureCount",
    "GroupSummary",
    "Inventory",
    "LatencyStats",
    "ModelInfo",
    "Percentiles",
    "Price",
    "Prompt",
    "ProviderProbe",
    "RateWithInterval",
    "Repeatability",
    "Resources",
    "Result",
    "RunConfig",
    "RunOptions",
    "RunSummary",
    "Status",
    "SuiteBreakdown",
    "SuiteInfo",
    "SuiteRecord",
    "Target",
    "TaskSummary",
    "TimingsUs",
    "ToolChannels",
    "ToolInvocation",
    "ToolUse",
    "TranscriptTurn",
    "as_count",
]
