"""Offer the runs of this machine to an agent as tools, over the Model Context Protocol on stdio.

It only reads, unless --allow-run is given. Runs of your own work are left out. Needs an extra:
pip install 'clawgauge[mcp]'."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from clawgauge.cli.process import DONE, keep_secrets, run_async, tell
from clawgauge.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from clawgauge.agent_server.own_runs import RunLimits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    add(
        "--include-own-work",
        action="store_true",
        help="show runs of your own prompt and history, too",
    )
    add("--skill", action="store_true", help="print a SKILL.md for the agent, and do nothing else")
    group = parser.add_argument_group("real runs")
    add = group.add_argument
    add("--allow-run", action="store_true", help="the agent may start runs, within these limits")
    add("--max-calls", type=int, metavar="N", help="requests of all its runs together")
    add("--max-time", metavar="TIME", help="time of all its runs together: 90s, 30m, 2h")
    add(
        "--max-cost",
        type=float,
        metavar="USD",
        help="cost of all its runs together (default 0: free models only)",
    )


def execute(arguments: argparse.Namespace) -> int:
    if arguments.skill:
        skill = files("clawgauge.agent_server") / "skill" / "SKILL.md"
        sys.stdout.write(skill.read_text("utf-8"))
        return DONE
    if find_spec("mcp") is None:
        raise ConfigError(
            "clawgauge mcp needs the package mcp, which is not here: pip install 'clawgauge[mcp]'"
        )
    # Loaded only now: the help and --skill need none of it.
    from clawgauge.agent_server.library import RunLibrary
    from clawgauge.agent_server.own_runs import RunLauncher
    from clawgauge.agent_server.tools import Toolbox
    from clawgauge.cli.files import configured_runs_dir

    limits = _read_limits(arguments)
    runs_dir = (arguments.runs_dir or configured_runs_dir()).absolute()
    library = RunLibrary(runs_dir, include_own_work=arguments.include_own_work)

    mask = _make_mask()

    async def work() -> None:
        from clawgauge.agent_server.server import serve

        launcher = RunLauncher(runs_dir, limits)
        toolbox = Toolbox(library, launcher, mask, may_run=limits is not None)
        await serve(toolbox, launcher)

    if sys.stdin.isatty():
        tell("clawgauge mcp speaks to an agent over standard input, not to you; Ctrl-C ends it")
    run_async(work(), with_uvloop=False)
    return DONE


def _read_limits(arguments: argparse.Namespace) -> RunLimits | None:
    """What all runs may take together; None where none may be started."""
    given = [arguments.max_calls, arguments.max_time, arguments.max_cost]
    if not arguments.allow_run:
        if any(limit is not None for limit in given):
            raise RequestError("--max-calls, --max-time and --max-cost go with --allow-run")
        return None
    if arguments.max_calls is None or arguments.max_time is None:
        raise RequestError(
            "--allow-run needs --max-calls and --max-time, for all runs together: "
            "an agent does not tire"
        )
    from clawgauge.agent_server.own_runs import RunLimits
    from clawgauge.cli.run import read_seconds

    seconds = read_seconds(arguments.max_time)
    usd = arguments.max_cost or 0.0
    if arguments.max_calls < 1 or seconds < 1 or usd < 0:
        raise RequestError("--max-calls and --max-time must be 1 or more, --max-cost 0 or more")
    return RunLimits(calls=arguments.max_calls, seconds=seconds, usd=usd)


def _make_mask() -> Callable[[str], str]:
    """What hides keys in all that an agent is told: by their values, and what looks like one."""
    from clawgauge.config.providers import find_secrets, provider_settings
    from clawgauge.config.settings import read_configuration
    from clawgauge.secrets import SecretMask, mask_shapes

    configuration = read_configuration(None, os.environ)
    settings = provider_settings(configuration, os.environ, lambda _: None)
    secrets = find_secrets(settings, os.environ)
    keep_secrets(secrets)
    mask_values = SecretMask(secrets).mask

    def mask(text: str) -> str:
        return mask_shapes(mask_values(text))

    return mask
