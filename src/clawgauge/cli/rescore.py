"""Judge the recorded answers again with today's validators. No calls are made; only verdicts change.

A prompt is judged by the specification on record, so that a folder stays what it was; `--suite` takes that of another
version of the suite, where it asks the same. An answer cut at 64 KB keeps its verdict: it was made on the whole text.
Jobs are judged by the rule that the run was made under; `--rule now` judges them by today's from then on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from operator import attrgetter
from pathlib import Path

import msgspec

from clawgauge.checks import NATIVE, VALIDATORS_VERSION, needs_shell
from clawgauge.cli.files import open_run, tell_unreadable, write_summary
from clawgauge.cli.process import print_json
from clawgauge.errors import RunFolderError, SuiteError
from clawgauge.journal import KEY_WITHHELD, iter_results
from clawgauge.journal.folder import RunFolder
from clawgauge.records import RULE, Event, Prompt, PromptKey, Result, RunConfig
from clawgauge.reports.clean import clean_cell, clean_lines
from clawgauge.run_data import Run
from clawgauge.runner.judging import CheckFailed, Judge, guard_check
from clawgauge.suites import BUILTIN_SUITES, check_recorded, load_suite, prompts_sha256
from clawgauge.words import plural
from clawgauge.world import can_run, engine

_EXAMPLES_SHOWN, _CHANGES_KEPT = 20, 1_000
TODAY = "now"
# All that the model was shown, and the world it acted on.
_question = attrgetter(
    "prompt", "system", "tools", "tool_choice", "response_format", "world", "max_turns", "messages"
)
_WITHOUT_PROMPT = "belonged to a prompt that is not known"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "run",
        metavar="RUN",
        nargs="?",
        default="latest",
        help="a run id, a path to a run folder, or latest",
    )
    add("--runs-dir", type=Path, metavar="DIR", help="default: that of clawgauge.toml, else runs")
    add(
        "--suite",
        metavar="FILE",
        help="judge by this suite's validators instead of the recorded ones",
    )
    add(
        "--rule",
        choices=(TODAY,),
        help="judge the jobs by today's rule; without it the run keeps the one it was made under",
    )
    add("--dry-run", action="store_true", help="say what would change; write nothing")
    add("--json", action="store_true", help="the summary on stdout too")


def execute(arguments: argparse.Namespace) -> int:
    """Atomic: the old results.jsonl or the new one, never half of each."""
    path, suite = open_run(arguments.run, arguments.runs_dir), arguments.suite
    run = Run.open(path)
    config = run.config
    rule = _choose_rule(path, config, arguments.rule)
    judged_by = {prompt.key: prompt for prompt in _prompts(path, config, suite)}
    texts = {(*key, 0): prompt for key, prompt in judged_by.items()}
    if suite is None:
        # A suite that is named says nothing of the values that a drawing had.
        check_recorded(run.drawn_prompts.values(), path / "prompts.jsonl")
        texts.update(run.drawn_prompts)
    with closing(Judge()) as judge:
        rescoring = Rescoring(texts, judge)

        def approve() -> None:
            if not rescoring.n_judged and rescoring.kept[_WITHOUT_PROMPT]:
                none = f"no answer in {path.name} belongs to a prompt of {suite}"
                raise RunFolderError(f"{none}: name the suite that was run")

        if arguments.dry_run:
            reader = iter_results(path)
            for result in reader:
                rescoring.judge(result)
            approve()
            _tell_rule(config, rule, "would be")
            return _tell(rescoring, reader.n_unreadable_lines, "would change")
        with RunFolder.open_existing(path) as folder:
            sys.stderr.write("".join(f"{warning}\n" for warning in folder.warnings))
            folder.rewrite_results(rescoring.judge, approve)
            # The folder stays able to explain its verdicts: the validators they were made by, and what changed.
            changes = rescoring.changes[:_CHANGES_KEPT]
            detail = {
                "judged_by": VALIDATORS_VERSION,
                "n_judged": rescoring.n_judged,
                "changes": changes,
                "rule": rule,
            }
            folder.event(Event(event="rescored", at_ms=time.time_ns() // 1_000_000, detail=detail))
            if config is not None:
                judged_config = _with_judging(config, judged_by, rule)
                if judged_config != config:
                    folder.write("config.json", judged_config)
            summary = write_summary(folder)
    _tell_rule(config, rule, "are")
    code = _tell(rescoring, summary.n_unreadable_lines, "changed")
    if arguments.json:
        print_json(summary)
    else:
        sys.stdout.write(f"{path}\n")
    return code


def _choose_rule(path: Path, config: RunConfig | None, wanted: str | None) -> int:
    """The rule that the jobs of a run are judged by from now on."""
    if config is None:
        if wanted is not None:
            raise RunFolderError(
                f"{path} does not say which prompts it had (an older harness made it): "
                "today's rule has nothing to go by"
            )
        return 1
    if wanted is None:
        return config.rule
    if config.capacity is not None:
        raise RunFolderError(f"{path} is a capacity run: its answers are not judged for jobs")
    # One that a later version made keeps what that version knows better.
    return max(RULE, config.rule)


def _with_judging(config: RunConfig, judged_by: Mapping[PromptKey, Prompt], rule: int) -> RunConfig:
    """What config.json says once a run is judged by these prompts and this rule."""
    prompts = [judged_by.get(prompt.key, prompt) for prompt in config.prompts]
    sha256 = config.prompts_sha256
    if prompts != config.prompts:
        sha256 = prompts_sha256(prompts)
    return msgspec.structs.replace(config, prompts=prompts, prompts_sha256=sha256, rule=rule)


def _tell_rule(config: RunConfig | None, rule: int, verb: str) -> None:
    if config is not None and rule != config.rule:
        sys.stderr.write(
            f"jobs {verb} judged by rule {rule}, the sequential decision (by rule {config.rule} "
            "when the run was made)\n"
        )


class Rescoring:
    def __init__(
        self, prompts: dict[tuple[str, str, int], Prompt], judge: Judge | None = None
    ) -> None:
        self._prompts, self._judge = prompts, judge or Judge()
        self.n_judged = self.n_other_engine = 0
        self.kept: Counter[str] = Counter()
        self.changes: list[str] = []

    def judge(self, result: Result) -> Result:
        """The result with today's verdict; itself where it cannot or need not be judged again."""
        if not result.success:
            return result
        prompt = self._prompts.get(result.text)
        if prompt is None:
            self.kept[_WITHOUT_PROMPT] += 1
            return result
        native = [call for call in result.tool_invocations if call.channel == NATIVE]
        obstacles = {
            "ran over 64 KB": result.raw_output_truncated,
            "held a key, which is not recorded": KEY_WITHHELD in result.warnings,
            "made calls too large to be recorded": any(call.arguments is None for call in native),
            "needs the package bashkit to be judged": needs_shell(prompt) and not can_run(),
        }
        if (why := next((why for why, holds in obstacles.items() if holds), None)) is not None:
            self.kept[why] += 1
            return result
        try:
            verdict = guard_check(self._judge.judge)(prompt, result.raw_output, native)
        except CheckFailed:
            self.kept["could not be judged, because the check failed"] += 1
            return result
        self.n_judged += 1
        ran_in = engine() if needs_shell(prompt) else None
        self.n_other_engine += ran_in is not None and result.engine != ran_in
        anew = {
            **msgspec.structs.asdict(verdict),
            "judged_by": VALIDATORS_VERSION,
            "engine": ran_in,
        }
        if result.not_judged is not None:
            # The error was that of the check.
            anew |= {"not_judged": None, "error": None}
        anew |= {"tools_offered": bool(prompt.tools), "expected_tools": prompt.expected_tools}
        judged = msgspec.structs.replace(result, **anew)
        if _verdict(judged) != _verdict(result):
            where = f"{result.provider}:{result.model} {result.suite}/{result.prompt_id} repeat {result.repeat}"
            self.changes.append(f"{where}: {_verdict(result)} → {_verdict(judged)}")
        return judged


def _prompts(path: Path, config: RunConfig | None, suite: str | None) -> list[Prompt]:
    if suite is None:
        if config is None:
            lacking = f"{path} does not hold its prompts (an older harness made it)"
            raise RunFolderError(f"{lacking}: name them with --suite FILE")
        check_recorded(config.prompts, path / "config.json")
        for info in config.suites:
            today = load_suite(info.source) if info.source in BUILTIN_SUITES else None
            if today is not None and today.version != info.version:
                told = f"{info.name} was run as version {info.version} and is judged by the validators on record"
                instead = (
                    f"to judge it by those of version {today.version}, add --suite {info.source}"
                )
                sys.stderr.write(f"{told}; {instead}\n")
        return config.prompts
    prompts = load_suite(suite, base_dir=Path()).prompts
    if config is None:
        # Records of the first harness name no suite.
        return [msgspec.structs.replace(prompt, suite="") for prompt in prompts]
    # The suite of the run that the file stands for: the one of its name, else the only one there is.
    names = {prompt.suite for prompt in config.prompts}
    meant = names & {prompt.suite for prompt in prompts} or (names if len(names) == 1 else set())
    asked = {prompt.id: prompt for prompt in config.prompts if prompt.suite in meant}
    other = [p.id for p in prompts if p.id in asked and _question(p) != _question(asked[p.id])]
    if other:
        why = "rescoring changes validators alone, a changed prompt needs a new run"
        raise SuiteError(f"{suite}: {', '.join(other[:5])} asked something else in this run; {why}")
    return [
        msgspec.structs.replace(p, suite=asked[p.id].suite) if p.id in asked else p for p in prompts
    ]


def _verdict(result: Result) -> str:
    passed = {True: "pass", False: f"fail ({result.violation})", None: "no verdict"}[
        result.objective_pass
    ]
    return f"{passed}, tools {result.tool_calls}" if result.expected_tools else passed


def _tell(rescoring: Rescoring, bad_lines: int, changed: str) -> int:
    verdicts, changes = (
        plural(len(rescoring.changes), "verdict"),
        rescoring.changes[:_EXAMPLES_SHOWN],
    )
    lines = [f"{plural(rescoring.n_judged, 'answer')} judged again: {verdicts} {changed}"]
    lines += [f"  {clean_cell(change)}" for change in changes]
    if len(rescoring.changes) > _EXAMPLES_SHOWN:
        lines.append(f"  … and {len(rescoring.changes) - _EXAMPLES_SHOWN} more")
    lines += [
        f"{plural(n, 'answer')} {why}: the verdict stays"
        for why, n in sorted(rescoring.kept.items())
    ]
    if rescoring.n_other_engine:
        answers = plural(rescoring.n_other_engine, "answer")
        lines.append(
            f"{answers} ran in another simulated shell than today's {engine()}: commands may print otherwise"
        )
    sys.stderr.write(clean_lines("\n".join(lines)))
    return tell_unreadable(bad_lines)
