"""What a reader of a tier must also know before handing a model its tools.

Owns: when a caution is due, and its words. Refuses: changing the tier; it is defined by calls made, and stays so.

A caution is due when a tool was called where none was wanted; when more answers wrote their call as text than made it;
when more than one call in five that was made had wrong arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from clawgauge.records import RateWithInterval
from clawgauge.summary.channels import is_call
from clawgauge.summary.groups import EndingCount, OfferedCount
from clawgauge.summary.schedule import Schedule
from clawgauge.summary.tool_use import count_rescued, find_pool

_OFTEN_WRONG = 0.2


def word_caution(
    endings: Sequence[EndingCount],
    offered: Sequence[OfferedCount],
    schedule: Schedule,
    arguments: RateWithInterval | None,
) -> str | None:
    """One sentence, without its full stop, or None where nothing is amiss."""
    phrases = []
    held_back = [o for o in offered if o.prompt in schedule.restraint]
    uncalled = sum(o.n for o in held_back if is_call(o.answer.channel) and o.answer.objective_pass is not True)
    if uncalled:
        n = sum(o.n for o in held_back)
        phrases.append(f"it called a tool in {uncalled} of {n} answers where none was wanted")
    rescued = count_rescued(offered, schedule.apart)
    made = sum(e.n for e in find_pool(endings, schedule.apart) if e.ending.tool_use_success)
    if arguments is not None:
        if rescued > made:
            phrases.append(f"{rescued} of {arguments.n} calls were written as text and had to be rescued")
        wrong = made - arguments.k
        if wrong > made * _OFTEN_WRONG:
            phrases.append(f"{wrong} of {made} calls made had wrong arguments")
    return "; ".join(phrases) or None
