"""What the machine is and how full it is.

All of it may take seconds where a tool is slow: call it in a thread.
"""
