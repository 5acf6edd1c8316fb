"""A program: makes the calls on standard input on a simulated world, and prints what Python was asked to do meanwhile.

Input: JSON lines `[world, [[name, arguments], …]]`. Output: JSON, each kind of audit event once. An audit hook hears of
every file opened, process started, socket made and code compiled, whoever asks; it cannot be taken away again, which is
why this is a program of its own.
"""

from __future__ import annotations

import json
import sys

from clawgauge.world.world import World


def main() -> None:
    plays = [json.loads(line) for line in sys.stdin]
    _act(plays)  # whatever is loaded on first use is loaded now
    heard: set[str] = set()
    sys.addaudithook(lambda event, _: heard.add(event))
    _act(plays)
    events = sorted(heard)
    sys.stdout.write(json.dumps(events))


def _act(plays: list[tuple[dict[str, object], list[tuple[str, object]]]]) -> None:
    for spec, calls in plays:
        world = World(spec)
        for name, arguments in calls:
            world.call(name, arguments)


if __name__ == "__main__":
    main()
