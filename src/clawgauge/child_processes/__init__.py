"""Child processes: started isolated, watched from spawn to burial, and gone when this program is.

`child` runs one under the event loop; what every command needs of the others is light, and offered here.
"""

from clawgauge.child_processes.groups import adopt, kill_all_groups, release, signal_group
from clawgauge.child_processes.isolated import isolated_module, may_be_key, needed_environment

__all__ = [
    "adopt",
    "isolated_module",
    "kill_all_groups",
    "may_be_key",
    "needed_environment",
    "release",
    "signal_group",
]
