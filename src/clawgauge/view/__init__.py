"""All runs of a folder in a browser, as they come in: read-only, on this machine alone."""

from clawgauge.view.server import serve as serve
