"""`rescore`: recorded answers judged again. Only what a verdict decides may change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clawgauge.checks import VALIDATORS_VERSION, judge_answer
from clawgauge.cli.reading import to_json
from clawgauge.cli.writing import write_summary
from clawgauge.errors import RunFolderError
from clawgauge.journal import RunFolder, iter_results, read_config
from clawgauge.records import Prompt, Result
from clawgauge.suites import load_suite

_EXAMPLES_SHOWN = 20


class Rescoring:
    """Counts what changes while results pass through."""

    def __init__(self, prompts: dict[tuple[str, str], Prompt]) -> None:
        self._prompts = prompts
        self.n_judged = 0
        self.n_without_prompt = 0
        self.n_truncated = 0
        self.changes: list[str] = []

    def judge(self, result: Result) -> Result:
        """The result with today's verdict; itself where it cannot or need not be judged again."""
        if not result.success:
            return result
        prompt = self._prompts.get((result.suite, result.prompt_id)) or self._prompts.get(("", result.prompt_id))
        if prompt is None:
            self.n_without_prompt += 1
            return result
        if result.raw_output_truncated:
            self.n_truncated += 1
            return result
        self.n_judged += 1
        native = [call for call in result.tool_invocations if call.channel == "native"]
        verdict = judge_answer(prompt, result.raw_output, native)
        judged = msgspec.structs.replace(
            result,
            objective_pass=verdict.objective_pass,
            violation=verdict.violation,
            parsed_output=verdict.parsed_output,
            parsed_output_dropped=verdict.parsed_output_dropped,
            tool_calls=verdict.tool_calls,
            tool_call_count=verdict.tool_call_count,
            tool_use_success=verdict.tool_use_success,
            tool_invocations=verdict.tool_invocations,
            expected_tools=prompt.expected_tools,
            judged_by=VALIDATORS_VERSION,
        )
        if _verdict(judged) != _verdict(result):
            self.changes.append(
                f"{result.provider}:{result.model} {result.suite}/{result.prompt_id}#{result.repeat}: "
                f"{_verdict(result)} → {_verdict(judged)}"
            )
        return judged


def rescore(path: Path, *, suite: str | None, dry_run: bool, as_json: bool) -> int:
    """Judge a whole run again; atomic: the old results.jsonl or the new one, never half of each."""
    rescoring = Rescoring(_prompts(path, suite))
    reader = iter_results(path)
    if dry_run:
        for result in reader:
            rescoring.judge(result)
        _tell(rescoring, reader.bad_lines, dry_run=True)
        return 5 if reader.bad_lines else 0
    folder = RunFolder.open_existing(path)
    try:
        folder.rewrite_results(_judged(rescoring, iter_results(path)))
        summary = write_summary(folder)
    finally:
        folder.close()
    _tell(rescoring, summary.n_unreadable_lines, dry_run=False)
    sys.stdout.write(to_json(summary) if as_json else f"{path}\n")
    return 5 if summary.n_unreadable_lines else 0


def _judged(rescoring: Rescoring, results: object) -> Iterator[Result]:
    for result in results:  # type: ignore[attr-defined]  # a ResultReader
        yield rescoring.judge(result)


def _prompts(path: Path, suite: str | None) -> dict[tuple[str, str], Prompt]:
    if suite is not None:
        loaded = load_suite(suite, base_dir=Path.cwd())
        named = {(loaded.name, prompt.id): prompt for prompt in loaded.prompts}
        # Records of the first harness name no suite.
        return named | {("", prompt.id): prompt for prompt in loaded.prompts}
    config = read_config(path)
    if config is None:
        raise RunFolderError(
            f"{path} does not hold its prompts (an older harness made it): name them with --suite FILE"
        )
    return {(prompt.suite, prompt.id): prompt for prompt in config.prompts}


def _verdict(result: Result) -> str:
    passed = {True: "pass", False: f"fail ({result.violation})", None: "no verdict"}[result.objective_pass]
    return f"{passed}, tools {result.tool_calls}" if result.expected_tools else passed


def _tell(rescoring: Rescoring, bad_lines: int, *, dry_run: bool) -> None:
    would = "would change" if dry_run else "changed"
    lines = [f"{rescoring.n_judged} answers judged again: {len(rescoring.changes)} verdicts {would}"]
    lines += [f"  {change}" for change in rescoring.changes[:_EXAMPLES_SHOWN]]
    if len(rescoring.changes) > _EXAMPLES_SHOWN:
        lines.append(f"  … and {len(rescoring.changes) - _EXAMPLES_SHOWN} more")
    if rescoring.n_truncated:
        lines.append(f"{rescoring.n_truncated} answers were cut at 64 KB and keep their verdict")
    if rescoring.n_without_prompt:
        lines.append(
            f"{rescoring.n_without_prompt} answers belong to prompts that are not known and keep their verdict"
        )
    if bad_lines:
        lines.append(f"{bad_lines} lines could not be read")
    sys.stderr.write("\n".join(lines) + "\n")
