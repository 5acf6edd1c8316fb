"""The machine's own commands over its one state; text tools and the language are bashkit's. `COMMANDS` is the table."""

from clawgauge.world.commands import files, processes, services, shaping, status  # noqa: F401
from clawgauge.world.commands.call import COMMANDS as COMMANDS
from clawgauge.world.commands.call import Call as Call
