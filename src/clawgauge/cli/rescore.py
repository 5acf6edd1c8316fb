"""Judge the recorded answers again with today's validators. No calls are made; only verdicts
change.

A prompt is judged by the specification on record, so that a folder stays what it was; `--suite`
takes that of another version of the suite, where it asks the same. An answer cut at 64 KB keeps its
verdict: it was made on the whole text. Jobs are judged by the rule that the run was made under;
`--rule now` judges them by today's from then on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from operator import attrgetter
from pathlib import Path

import msgspec

from clawgauge.checks import NATIVE, VALIDATORS_VERSION, Judgement, needs_shell
from clawgauge.cli.files import open_run, tell_unreadable, write_summary
from clawgauge.cli.process import print_json
from clawgauge.errors import RunFolderError, SuiteError
from clawgauge.journal import KEY_WITHHELD, iter_results
from clawgauge.journal.folder import RunFolder
from clawgauge.records import (
    RULE,
    Event,
    Prompt,
    PromptKey,
    Result,
    RunConfig,
    SuiteInfo,
    ToolInvocation,
)
from clawgauge.reports.clean import clean_cell, clean_lines
from clawgauge.run_data import Run
from clawgauge.runner.agent_record import judge_made_calls
from clawgauge.runner.judging import CheckFailed, Judge, guard_check
from clawgauge.suites import BUILTIN_SUITES, check_recorded, load_suite, prompts_sha256
from clawgauge.words import plural
from clawgauge.world import can_run, engine

_MAX_CHANGES_SHOWN = 20
_MAX_CHANGES_RECORDED = 1_000
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
    path = open_run(arguments.run, arguments.runs_dir)
    suite = arguments.suite
    run = Run.open(path)
    config = run.config
    rule = _choose_rule(path, config, arguments.rule)
    judged_by = {prompt.key: prompt for prompt in _find_prompts(path, config, suite)}
    texts = {(*key, 0): prompt for key, prompt in judged_by.items()}
    if suite is None:
        # A suite that is named says nothing of the values that a drawing had.
        check_recorded(run.drawn_prompts.values(), path / "prompts.jsonl")
        texts.update(run.drawn_prompts)
    with closing(Judge()) as judge:
        rescoring = Rescoring(texts, judge)

        def approve() -> None:
            if not rescoring.n_judged and rescoring.not_judged[_WITHOUT_PROMPT]:
                raise RunFolderError(
                    f"no answer in {path.name} belongs to a prompt of {suite}: "
                    "name the suite that was run"
                )

        if arguments.dry_run:
            reader = iter_results(path)
            for result in reader:
                rescoring.judge(result)
            approve()
            _report_rule(config, rule, "would be")
            return _report(rescoring, reader.n_unreadable_lines, "would change")
        with RunFolder.open_existing(path) as folder:
            sys.stderr.write("".join(f"{warning}\n" for warning in folder.warnings))
            folder.rewrite_results(rescoring.judge, approve)
            # The folder stays able to explain its verdicts: the validators they were made by, and
            # what changed.
            changes = rescoring.changes[:_MAX_CHANGES_RECORDED]
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
    _report_rule(config, rule, "are")
    code = _report(rescoring, summary.n_unreadable_lines, "changed")
    if arguments.json:
        print_json(summary)
    else:
        sys.stdout.write(f"{path}\n")
    return code


def _choose_rule(path: Path, config: RunConfig | None, rule_option: str | None) -> int:
    """The rule that the jobs of a run are judged by from now on."""
    if config is None:
        if rule_option is not None:
            raise RunFolderError(
                f"{path} does not say which prompts it had (an older harness made it): "
                "today's rule has nothing to go by"
            )
        return 1
    if rule_option is None:
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


def _report_rule(config: RunConfig | None, rule: int, verb: str) -> None:
    if config is not None and rule != config.rule:
        sys.stderr.write(
            f"jobs {verb} judged by rule {rule}, the sequential decision (by rule {config.rule} "
            "when the run was made)\n"
        )


class Rescoring:
    """Judges results again, and counts what came of it: how many were judged, which verdicts
    changed, and why others could not be judged."""

    def __init__(
        self, prompts: dict[tuple[str, str, int], Prompt], judge: Judge | None = None
    ) -> None:
        self._prompts = prompts
        self._judge = judge or Judge()
        self.n_judged = 0
        self.n_other_engine = 0
        self.not_judged: Counter[str] = Counter()
        self.changes: list[str] = []

    def judge(self, result: Result) -> Result:
        """The result with today's verdict; itself where it cannot or need not be judged again."""
        if not result.success:
            return result
        prompt = self._prompts.get(result.text)
        if prompt is None:
            self.not_judged[_WITHOUT_PROMPT] += 1
            return result
        native = [call for call in result.tool_invocations if call.channel == NATIVE]
        obstacle = _find_obstacle(result, prompt, native)
        if obstacle is not None:
            self.not_judged[obstacle] += 1
            return result
        try:
            judgement = guard_check(self._judge.judge)(prompt, result.raw_output, native)
        except CheckFailed:
            self.not_judged["could not be judged, because the check failed"] += 1
            return result
        self.n_judged += 1
        shell = engine() if needs_shell(prompt) else None
        if shell is not None and result.engine != shell:
            self.n_other_engine += 1
        judged = _with_judgement(result, prompt, judgement, shell)
        if result.agent is not None:
            judge = guard_check(self._judge.judge)
            made = judge_made_calls(judge, prompt, result.raw_output, result.agent_calls)
            judged = msgspec.structs.replace(judged, made=made)
        before = _describe_verdict(result)
        after = _describe_verdict(judged)
        if after != before:
            self.changes.append(f"{_name_call(result)}: {before} → {after}")
        return judged


def _find_obstacle(
    result: Result, prompt: Prompt, native_calls: Sequence[ToolInvocation]
) -> str | None:
    """Why the record does not hold what its verdict would need, if so; said of the answer."""
    if result.raw_output_truncated:
        return "ran over 64 KB"
    if KEY_WITHHELD in result.warnings:
        return "held a key, which is not recorded"
    if any(call.arguments is None for call in native_calls):
        return "made calls too large to be recorded"
    if needs_shell(prompt) and not can_run():
        return "needs the package bashkit to be judged"
    return None


def _with_judgement(
    result: Result, prompt: Prompt, judgement: Judgement, shell: str | None
) -> Result:
    judged = msgspec.structs.replace(
        result,
        **msgspec.structs.asdict(judgement),
        judged_by=VALIDATORS_VERSION,
        engine=shell,
        tools_offered=bool(prompt.tools),
        expected_tools=prompt.expected_tools,
    )
    if result.not_judged is not None:
        # The error was that of the check.
        judged = msgspec.structs.replace(judged, not_judged=None, error=None)
    return judged


def _name_call(result: Result) -> str:
    prompt = f"{result.suite}/{result.prompt_id}"
    return f"{result.provider}:{result.model} {prompt} repeat {result.repeat}"


def _describe_verdict(result: Result) -> str:
    if result.objective_pass is None:
        verdict = "no verdict"
    elif result.objective_pass:
        verdict = "pass"
    else:
        verdict = f"fail ({result.violation})"
    if result.expected_tools:
        return f"{verdict}, tools {result.tool_calls}"
    return verdict


def _find_prompts(path: Path, config: RunConfig | None, suite: str | None) -> list[Prompt]:
    """The prompts whose validators judge: those on record, or those of the suite that is named."""
    if suite is not None:
        return _find_prompts_of(suite, config)
    if config is None:
        raise RunFolderError(
            f"{path} does not hold its prompts (an older harness made it): "
            "name them with --suite FILE"
        )
    check_recorded(config.prompts, path / "config.json")
    for info in config.suites:
        _report_newer_suite(info)
    return config.prompts


def _report_newer_suite(info: SuiteInfo) -> None:
    """Say where today's version of a built-in suite is another one than was run."""
    if info.source not in BUILTIN_SUITES:
        return
    version = load_suite(info.source).version
    if version != info.version:
        sys.stderr.write(
            f"{info.name} was run as version {info.version} and is judged by the validators on "
            f"record; to judge it by those of version {version}, add --suite {info.source}\n"
        )


def _find_prompts_of(suite: str, config: RunConfig | None) -> list[Prompt]:
    """The prompts of the suite that is named, under the name that the suite had in the run.

    Raises `SuiteError` where one of them asks something else than it did in the run.
    """
    prompts = load_suite(suite, base_dir=Path()).prompts
    if config is None:
        # Records of the first harness name no suite.
        return [msgspec.structs.replace(prompt, suite="") for prompt in prompts]
    # The suite of the run that the file stands for: the one of its name, else the only one.
    suites_of_run = {prompt.suite for prompt in config.prompts}
    suites = suites_of_run & {prompt.suite for prompt in prompts}
    if not suites and len(suites_of_run) == 1:
        suites = suites_of_run
    recorded = {prompt.id: prompt for prompt in config.prompts if prompt.suite in suites}
    judging = []
    changed = []
    for prompt in prompts:
        of_run = recorded.get(prompt.id)
        if of_run is None:
            judging.append(prompt)
            continue
        if _question(prompt) != _question(of_run):
            changed.append(prompt.id)
        judging.append(msgspec.structs.replace(prompt, suite=of_run.suite))
    if changed:
        raise SuiteError(
            f"{suite}: {', '.join(changed[:5])} asked something else in this run; "
            "rescoring changes validators alone, a changed prompt needs a new run"
        )
    return judging


def _report(rescoring: Rescoring, n_unreadable_lines: int, verb: str) -> int:
    """Say what came of it; returns the exit code. `verb` is `changed` or `would change`."""
    answers = plural(rescoring.n_judged, "answer")
    n_changes = len(rescoring.changes)
    lines = [f"{answers} judged again: {plural(n_changes, 'verdict')} {verb}"]
    for change in rescoring.changes[:_MAX_CHANGES_SHOWN]:
        lines.append(f"  {clean_cell(change)}")
    if n_changes > _MAX_CHANGES_SHOWN:
        lines.append(f"  … and {n_changes - _MAX_CHANGES_SHOWN} more")
    for obstacle, n in sorted(rescoring.not_judged.items()):
        lines.append(f"{plural(n, 'answer')} {obstacle}: the verdict stays")
    if rescoring.n_other_engine:
        answers = plural(rescoring.n_other_engine, "answer")
        lines.append(
            f"{answers} ran in another simulated shell than today's {engine()}: "
            "commands may print otherwise"
        )
    sys.stderr.write(clean_lines("\n".join(lines)))
    return tell_unreadable(n_unreadable_lines)
