"""A browser opened at an address that no other user of this machine gets to see.

Every user can read the command lines of all programs. So a browser is given the name of a file, and
the address stands in that file, which only its owner can read."""

from __future__ import annotations

import os
import shutil
import tempfile
from html import escape
from pathlib import Path

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>clawgauge view</title>
</head>
<body><p><a href="{address}">Open clawgauge view</a></p></body>
</html>
"""


class RedirectFile:
    """A page that leads on to `address`, in a folder of its own, until `remove`."""

    def __init__(self, address: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="clawgauge-view-"))  # mode 0700
        self.path = self._folder / "open.html"
        page = _PAGE.format(address=escape(address, quote=True))
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(page)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Harmless when repeated."""
        shutil.rmtree(self._folder, ignore_errors=True)
