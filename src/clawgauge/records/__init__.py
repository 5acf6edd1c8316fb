"""The on-disk contract as frozen structs, and nothing else. Field order is the order on disk."""

# ruff: isort: skip_file
from clawgauge.records.result import (
    CHECK_FAILED,
    MAX_TOKENS,
    NO_TEMPLATE,
    SERVER_PARTS,
    STATUSES,
    TOO_FEW_TOKENS,
    TOOLS_DROPPED,
    LEAST_LATER_TOKENS,
    TOOLS_REFUSED,
    TPS_RULE,
    Attempt,
    CellRow,
    Event,
    Load,
)
from clawgauge.errors import Status
from clawgauge.records.result import Result, TimingsUs, ToolInvocation, TranscriptTurn, as_count
from clawgauge.records.run import (
    HARMLESS,
    THINKING_LEVELS,
    THINKING_OFF,
    Context,
    Harmless,
    Inventory,
    Job,
    MadeCall,
    Message,
)
from clawgauge.records.run import RULE, DecisionOptions, DrawnPrompt, NeedRates
from clawgauge.records.run import CAPACITY, CapacityOptions, ModelInfo, Option, Price, Prompt, Slo
from clawgauge.records.run import (
    PromptKey,
    ProviderProbe,
    Resources,
    RunConfig,
    RunOptions,
    SuiteInfo,
    SuiteRecord,
)
from clawgauge.records.run import (
    PlannedTarget,
    SentSettings,
    Target,
    fill_contexts,
    plan_targets,
    share_contexts,
)
from clawgauge.records.summary import (
    AgreementRate,
    CallBalance,
    ClockTrust,
    CostSummary,
    FailureCount,
    FamilyTally,
    Fit,
    GroupSummary,
    HeadToHead,
    JobVerdict,
)
from clawgauge.records.summary import (
    CapacitySummary,
    Knee,
    StepSummary,
    TtftFit,
    VisitSummary,
    WithinSlo,
)
from clawgauge.records.summary import (
    InContext,
    LatencyStats,
    Need,
    Percentiles,
    RateWithInterval,
    Repeatability,
)
from clawgauge.records.summary import RunSummary, SuiteBreakdown, TaskSummary, ToolChannels, ToolUse

SCHEMA_VERSION = 1
