"""Whether OpenClaw sends what was measured: it is asked on this machine, of a model of ours."""
