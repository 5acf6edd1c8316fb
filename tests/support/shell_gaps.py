"""Right commands that the simulated shell cannot run yet: answers with them are no test of the suites."""

from __future__ import annotations

import re

_BEYOND = re.compile(
    r"\btar\b(?! -I)|\bsha256sum|\bprintenv\b|\bdeclare -p|\bset \||\bps -[fuU]+ ?\w*postgres|\bps -u|\bpgrep -u"
    r"|\bpidof\b|-printf|-readable|--output=|--block-size|\bbash -c|`\. /|wget -P|sudo -n|systemctl show|`df -i`"
    r"|\bchown\b|sort -rn`|--lines="
)


def is_beyond_the_shell(answer: str) -> bool:
    """Whether an answer rests on a program or an option that the simulated shell does not have."""
    return _BEYOND.search(answer) is not None
