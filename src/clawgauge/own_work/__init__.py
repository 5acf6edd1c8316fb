"""Suites of your own work: OpenClaw's history as a suite, and the Berkeley collection.

`database` and `stores` read sessions from disk, `messages` reads what is in a stored message,
`request` rebuilds what the model was sent, `turns` finds and chooses the turns of a history that
can be asked again, `masking` takes out what is private, `simulation` makes a small machine of a
turn, and `suite` writes the suite. `bfcl` stands for itself.
"""
