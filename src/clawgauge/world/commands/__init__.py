"""The commands of the machine, written in Python over its one state; text tools and the language are bashkit's.

`COMMANDS` is the table: which name runs which function, and every option it reads.
"""

from clawgauge.world.commands import files, processes, services, shaping, status  # noqa: F401
from clawgauge.world.commands.call import COMMANDS as COMMANDS
from clawgauge.world.commands.call import Call as Call
