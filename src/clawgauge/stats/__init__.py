"""Pure numbers. A figure that does not exist (no trials, one cluster) is None, never 0 and never
NaN."""
