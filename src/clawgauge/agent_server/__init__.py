"""`clawgauge mcp`: the runs of this machine as tools for an agent, over the Model Context Protocol.

`library` decides which runs may be seen, `answers` makes what is said of them, `own_runs` starts
and stops runs where that is allowed, `arguments` and `tools` say what can be asked, and `server`
speaks the protocol. Only `server` needs the package `mcp`."""
