"""What the machine is and how full it is: inventory, resource snapshots, peak memory.

Owns: every question put to the operating system and to its tools. Refuses: the network, the environment (callers pass
it in), and writing files. All of it is synchronous and may take seconds where a tool is slow: call it in a thread.
"""

from clawgauge.host.inventory import collect_inventory
from clawgauge.host.machine import count_usable_cores
from clawgauge.host.peak import PeakSampler
from clawgauge.host.snapshot import take_snapshot

__all__ = ["PeakSampler", "collect_inventory", "count_usable_cores", "take_snapshot"]
