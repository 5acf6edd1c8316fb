"""The machine's own commands over its one state; text tools and the language are bashkit's.

`COMMANDS` is the table.
"""

from clawgauge.world.commands import (  # noqa: F401 - each enters its commands into the table
    dates,
    files,
    guarded,
    listing,
    ports,
    processes,
    running,
    scheduled,
    services,
    status,
    web,
)
from clawgauge.world.commands.call import COMMANDS as COMMANDS
from clawgauge.world.commands.call import Call as Call
