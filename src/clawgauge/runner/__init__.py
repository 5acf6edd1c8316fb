"""Order, concurrency, retries, early stopping. `agenda` and `tier_pool` load without what a run needs."""
