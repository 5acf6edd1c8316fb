"""What the machine is and how full it is: inventory, resource snapshots, peak memory.

All of it is synchronous and may take seconds where a tool is slow: call it in a thread.
"""
