"""Asks targets their cells: order, concurrency, retries, early stopping.

`agenda` loads without what a run needs.
"""
