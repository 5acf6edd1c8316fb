"""The on-disk contract as frozen structs, and nothing else.

Field order is the order on disk.
"""

# ruff: isort: skip_file
from clawgauge.records.result import MAX_TOKENS, STATUSES, TOOLS_DROPPED, Attempt, CellRow, Event, Result, Status
from clawgauge.records.result import TimingsUs, ToolInvocation, TranscriptTurn, as_count
from clawgauge.records.run import HARMLESS, THINKING_LEVELS, Harmless, Inventory, Job, ModelInfo, Option, Price
from clawgauge.records.run import Prompt
from clawgauge.records.run import PromptKey, ProviderProbe, Resources, RunConfig, RunOptions, SuiteInfo, SuiteRecord
from clawgauge.records.run import Target
from clawgauge.records.summary import CallBalance, ClockTrust, CostSummary, FailureCount, Fit, GroupSummary, JobVerdict
from clawgauge.records.summary import LatencyStats
from clawgauge.records.summary import Need, Percentiles, RateWithInterval, Repeatability, RunSummary, SuiteBreakdown
from clawgauge.records.summary import TaskSummary, ToolChannels, ToolUse

__all__ = [
    "HARMLESS", "MAX_TOKENS", "SCHEMA_VERSION", "STATUSES", "THINKING_LEVELS", "TOOLS_DROPPED", "Attempt",
    "CallBalance", "CellRow", "ClockTrust", "CostSummary", "Event", "FailureCount", "Fit", "GroupSummary", "Harmless",
    "Inventory", "Job", "JobVerdict", "LatencyStats", "ModelInfo", "Need", "Option", "Percentiles", "Price", "Prompt",
    "PromptKey", "ProviderProbe", "RateWithInterval", "Repeatability", "Resources", "Result", "RunConfig", "RunOptions",
    "RunSummary", "Status", "SuiteBreakdown", "SuiteInfo", "SuiteRecord", "Target", "TaskSummary", "TimingsUs",
    "ToolChannels", "ToolInvocation", "ToolUse", "TranscriptTurn", "as_count",
]  # fmt: skip

SCHEMA_VERSION = 1
