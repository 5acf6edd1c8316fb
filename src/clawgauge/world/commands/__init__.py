"""The commands of the machine, written in Python over its one state; text tools and the language are bashkit's.

`COMMANDS` is the table: which name runs which function, and every option it reads.
"""

from clawgauge.world.commands import changing as changing
from clawgauge.world.commands import listing as listing
from clawgauge.world.commands import network as network
from clawgauge.world.commands import processes as processes
from clawgauge.world.commands import programs as programs
from clawgauge.world.commands import services as services
from clawgauge.world.commands import shaping as shaping
from clawgauge.world.commands import status as status
from clawgauge.world.commands.call import COMMANDS as COMMANDS
from clawgauge.world.commands.call import Call as Call
