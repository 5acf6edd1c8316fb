"""What the machine is and how full it is: inventory, resource snapshots, peak memory.

All of it is synchronous and may take seconds where a tool is slow: call it in a thread.
"""

from clawgauge.host.inventory import collect_inventory, package_versions
from clawgauge.host.machine import count_usable_cores
from clawgauge.host.snapshot import PeakSampler, take_snapshot

__all__ = ["PeakSampler", "collect_inventory", "count_usable_cores", "package_versions", "take_snapshot"]
