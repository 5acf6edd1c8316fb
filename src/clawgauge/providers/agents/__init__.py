"""Models inside the agent programs that people use: codex, goose and OpenClaw.

A program is started once for each cell, in an empty folder, with our tools alone. It asks its model
through a recorder of ours on loopback, so that what the model said, which calls reached the tools,
and whose time was spent are known apart.
"""
