"""`run --dry-run`: the plan and what it is likely to take. Sends nothing to a model, and loads nothing that would."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from clawgauge.cli.estimating import plan_facts, plan_lines, tier_lines
from clawgauge.cli.exit_codes import DONE
from clawgauge.cli.planning import (
    OpenWork,
    Plan,
    choose_named_targets,
    choose_targets,
    fit_concurrency,
    make_plan,
    names_targets,
)
from clawgauge.cli.pricing import Pricing
from clawgauge.cli.recording import ignored_options
from clawgauge.cli.resuming import open_work, settle_plan
from clawgauge.journal import encode_document
from clawgauge.journal.folder import RunFolder


def rehearse(arguments: argparse.Namespace, tell: Callable[[str], None]) -> int:
    """Show what a run would do; what it would refuse is refused, by the same code and in the same words."""
    plan = make_plan(arguments, tell)
    if names_targets(arguments):
        plan = choose_named_targets(plan) or _ask_servers(plan, tell)
    plan, path, _ = settle_plan(plan, arguments)
    plan = fit_concurrency(plan, tell)
    for line in ignored_options(plan):
        tell(line)
    Pricing(plan)
    if path is None:
        RunFolder.check_creatable(plan.runs_dir, arguments.run_id)
    work = open_work(plan, path, retry_errors=arguments.retry_errors) if path else OpenWork()
    sys.stderr.write("".join(f"{line}\n" for line in [*plan_lines(plan, work), *tier_lines(plan)]))
    if arguments.json:
        sys.stdout.write(encode_document(plan_facts(plan, work), pretty=False).decode())
    return DONE


def _ask_servers(plan: Plan, tell: Callable[[str], None]) -> Plan:
    # The event loop is loaded only where a pattern needs a server's list.
    from clawgauge.cli.loop import run_async

    return run_async(choose_targets(plan, tell))
