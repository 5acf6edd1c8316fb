"""The on-disk contract as frozen structs, and nothing else.

Field order is the order on disk.
"""

from clawgauge.records.result import MAX_TOKENS as MAX_TOKENS
from clawgauge.records.result import STATUSES as STATUSES
from clawgauge.records.result import TOOLS_DROPPED as TOOLS_DROPPED
from clawgauge.records.result import Attempt as Attempt
from clawgauge.records.result import CellRow as CellRow
from clawgauge.records.result import Event as Event
from clawgauge.records.result import Result as Result
from clawgauge.records.result import Status as Status
from clawgauge.records.result import TimingsUs as TimingsUs
from clawgauge.records.result import ToolInvocation as ToolInvocation
from clawgauge.records.result import TranscriptTurn as TranscriptTurn
from clawgauge.records.result import as_count as as_count
from clawgauge.records.run import HARMLESS as HARMLESS
from clawgauge.records.run import THINKING_LEVELS as THINKING_LEVELS
from clawgauge.records.run import Harmless as Harmless
from clawgauge.records.run import Inventory as Inventory
from clawgauge.records.run import Job as Job
from clawgauge.records.run import ModelInfo as ModelInfo
from clawgauge.records.run import Option as Option
from clawgauge.records.run import Price as Price
from clawgauge.records.run import Prompt as Prompt
from clawgauge.records.run import PromptKey as PromptKey
from clawgauge.records.run import ProviderProbe as ProviderProbe
from clawgauge.records.run import Resources as Resources
from clawgauge.records.run import RunConfig as RunConfig
from clawgauge.records.run import RunOptions as RunOptions
from clawgauge.records.run import SuiteInfo as SuiteInfo
from clawgauge.records.run import SuiteRecord as SuiteRecord
from clawgauge.records.run import Target as Target
from clawgauge.records.summary import CallBalance as CallBalance
from clawgauge.records.summary import ClockTrust as ClockTrust
from clawgauge.records.summary import CostSummary as CostSummary
from clawgauge.records.summary import FailureCount as FailureCount
from clawgauge.records.summary import Fit as Fit
from clawgauge.records.summary import GroupSummary as GroupSummary
from clawgauge.records.summary import JobVerdict as JobVerdict
from clawgauge.records.summary import LatencyStats as LatencyStats
from clawgauge.records.summary import Need as Need
from clawgauge.records.summary import Percentiles as Percentiles
from clawgauge.records.summary import RateWithInterval as RateWithInterval
from clawgauge.records.summary import Repeatability as Repeatability
from clawgauge.records.summary import RunSummary as RunSummary
from clawgauge.records.summary import SuiteBreakdown as SuiteBreakdown
from clawgauge.records.summary import TaskSummary as TaskSummary
from clawgauge.records.summary import ToolChannels as ToolChannels
from clawgauge.records.summary import ToolUse as ToolUse

SCHEMA_VERSION = 1
