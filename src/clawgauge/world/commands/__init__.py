"""The commands of the machine, written in Python over its one state; text tools and the language are bashkit's.

`COMMANDS` is the table: which name runs which function, and every option it reads.
"""

from clawgauge.world.commands import changing, dates, listing, network, processes, programs, services, shaping, status
from clawgauge.world.commands.call import COMMANDS, Call, Command, NotSimulated, UsageFault, parse_options

__all__ = [
    "COMMANDS",
    "PASSED_ON",
    "Call",
    "Command",
    "NotSimulated",
    "UsageFault",
    "changing",
    "dates",
    "listing",
    "network",
    "parse_options",
    "processes",
    "programs",
    "services",
    "shaping",
    "status",
]

# Commands of ours that look at their words first and then have bashkit's own do the work.
PASSED_ON = frozenset({"find", "sed", "bc", "split", "tail"})
