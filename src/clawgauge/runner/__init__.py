"""Order, concurrency, retry policy, early stopping: `run` holds a run, `target_run` one target, `agenda` what is open.

Nothing is gathered here: what a plan needs of this room (`agenda`, `tier_pool`) loads without what a run needs.
"""
