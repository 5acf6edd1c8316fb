"""`python -m clawgauge`."""

import sys

from clawgauge.cli import main

sys.exit(main())
