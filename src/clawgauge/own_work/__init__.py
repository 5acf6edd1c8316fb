"""Own history as a suite: `stores` reads it, `moments` rebuilds and chooses, `suite` masks and writes. And `bfcl`."""
