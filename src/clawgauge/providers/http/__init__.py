"""HTTP as the providers speak it: `client` makes the calls, `connection` stamps their bytes, `reply` reads them."""
