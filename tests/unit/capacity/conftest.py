"""The server of known capacity is the bench's, whose folder's parent has to be on the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
