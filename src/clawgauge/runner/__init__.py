"""Order, concurrency, retries, early stopping: `run` holds a run, `target` one target, `agenda` what is open of it.

Nothing is gathered here: what a plan needs of this room (`agenda`, `tier_pool`) loads without what a run needs.
"""
