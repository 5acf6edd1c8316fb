"""HTTP for all providers.

`client` makes the calls, `connection` stamps their bytes, `reply` reads them, `events` has what the
readers of wire formats share, and `server` is the provider that others build on.
"""
